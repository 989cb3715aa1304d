/*
 * lock.h - a mutex of two words: a compare-and-swap where nobody else wants it.
 *
 * Where somebody does he spins for a moment, since it is mostly held for some ten nanoseconds, and then
 * sleeps (lock.c).  Sleepers are counted, and woken one at a time: while one is on his way, whoever gives the
 * lock makes no system call.  So many threads at once cost little more than one.  It is not fair: a thread
 * that comes may go before one that wakes.
 *
 * Zero is free.  errno stays as it was.
 */
#ifndef VS_LOCK_H
#define VS_LOCK_H

#include <stdbool.h>
#include <stdint.h>

#define VS_LOCK_HELD    1u
#define VS_LOCK_WAKING  2u /* a sleeper was woken and has neither taken it nor gone to sleep again */
#define VS_LOCK_SLEEPER 4u /* one of them */

struct vs_lock {
    uint32_t state; /* HELD | WAKING | SLEEPER times how many sleep, or are about to or just woke */
    uint32_t wakes; /* how often one was woken: what sleepers sleep on */
};

void vs_lock_take_slow(struct vs_lock *l);
void vs_lock_give_slow(struct vs_lock *l);

static inline void vs_lock_take(struct vs_lock *l)
{
    uint32_t was = 0;
    /* acquire: what the last holder wrote is seen */
    if (__builtin_expect(!__atomic_compare_exchange_n(&l->state, &was, VS_LOCK_HELD, 0, __ATOMIC_ACQUIRE,
                                                      __ATOMIC_RELAXED),
                         0))
        vs_lock_take_slow(l);
}

static inline bool vs_lock_try(struct vs_lock *l)
{
    uint32_t was = 0;
    return __atomic_compare_exchange_n(&l->state, &was, VS_LOCK_HELD, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
}

static inline void vs_lock_give(struct vs_lock *l)
{
    uint32_t was = VS_LOCK_HELD;
    /* release: what was written is seen by who takes it next */
    if (__builtin_expect(
            !__atomic_compare_exchange_n(&l->state, &was, 0, 0, __ATOMIC_RELEASE, __ATOMIC_RELAXED), 0))
        vs_lock_give_slow(l);
}

#endif
