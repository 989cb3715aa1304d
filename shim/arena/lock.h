/*
 * lock.h - a mutex of one word: a compare-and-swap where nobody else wants it, a futex where somebody does.
 *
 * glibc's would do; this one costs half of it where it is free, and a look at the word tells whether it is.
 * State: 0 free, 1 held, 2 held and somebody may be asleep.
 */
#ifndef VS_ARENA_LOCK_H
#define VS_ARENA_LOCK_H

#include <linux/futex.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

struct vs_lock {
    uint32_t state;
};

#define VS_LOCK_SPINS 100

static inline void vs_lock_pause(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

static __attribute__((noinline)) void vs_lock_slow(struct vs_lock *l)
{
    for (int i = 0; i < VS_LOCK_SPINS; i++) { /* held for some ten nanoseconds, most of the time */
        uint32_t was = 0;
        if (__atomic_load_n(&l->state, __ATOMIC_RELAXED) == 0 &&
            __atomic_compare_exchange_n(&l->state, &was, 1, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
            return;
        vs_lock_pause();
    }
    /* acquire: what the last holder wrote is seen.  Taken as 2, since others may be asleep as well */
    while (__atomic_exchange_n(&l->state, 2, __ATOMIC_ACQUIRE) != 0)
        syscall(SYS_futex, &l->state, FUTEX_WAIT_PRIVATE, 2, 0, 0, 0);
}

static inline void vs_lock_take(struct vs_lock *l)
{
    uint32_t was = 0;
    if (__builtin_expect(
            !__atomic_compare_exchange_n(&l->state, &was, 1, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED), 0))
        vs_lock_slow(l);
}

static inline void vs_lock_give(struct vs_lock *l)
{
    /* release: what was written is seen by who takes it next */
    if (__builtin_expect(__atomic_exchange_n(&l->state, 0, __ATOMIC_RELEASE) == 2, 0))
        syscall(SYS_futex, &l->state, FUTEX_WAKE_PRIVATE, 1, 0, 0, 0);
}

#endif
