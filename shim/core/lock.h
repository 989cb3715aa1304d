/*
 * lock.h - a mutex of two words; without contention it costs a compare-and-swap.
 *
 * A thread that finds it taken spins for a moment, because most holders keep it for some ten nanoseconds,
 * and then sleeps (lock.c).  Sleepers are counted and woken one at a time: while one is waking up, giving
 * the lock makes no system call.  So many threads cost little more than one.  The lock is not fair: a
 * newcomer may take it before a thread that is waking up.
 *
 * Zero is free.  errno stays as it was.  The order in which locks are taken is in lock_order.h.
 */
#ifndef VS_CORE_LOCK_H
#define VS_CORE_LOCK_H

#include <stdbool.h>
#include <stdint.h>

#include "lock_order.h"

#define VS_LOCK_HELD    1u
#define VS_LOCK_WAKING  2u /* a sleeper was woken and has neither taken it nor gone to sleep again */
#define VS_LOCK_SLEEPER 4u /* one sleeper, in the count */

struct vs_lock {
    uint32_t state; /* HELD | WAKING | SLEEPER times how many sleep, or are about to or just woke */
    uint32_t wakes; /* how often a sleeper was woken; the futex that sleepers wait on */
#ifdef VS_LOCK_CHECKS
    enum vs_lock_place place;
#endif
};

/* The lock's initial value, by its place in VS_LOCK_ORDER. */
#ifdef VS_LOCK_CHECKS
#define VS_LOCK(NAME)                                                                                        \
    {                                                                                                        \
        0, 0, VS_LOCK_##NAME                                                                                 \
    }
#define VS_LOCK_NOTE(what, ...) vs_lock_order_##what(__VA_ARGS__)
#else
#define VS_LOCK(NAME)                                                                                        \
    {                                                                                                        \
        0, 0                                                                                                 \
    }
#define VS_LOCK_NOTE(what, ...) ((void)0)
#endif

void vs_lock_take_slow(struct vs_lock *l);
void vs_lock_give_slow(struct vs_lock *l);

static inline void vs_lock_take(struct vs_lock *l)
{
    uint32_t was = 0;
    VS_LOCK_NOTE(check, l, l->place);
    /* acquire: sees what the last holder wrote */
    if (__builtin_expect(!__atomic_compare_exchange_n(&l->state, &was, VS_LOCK_HELD, 0, __ATOMIC_ACQUIRE,
                                                      __ATOMIC_RELAXED),
                         0))
        vs_lock_take_slow(l);
    VS_LOCK_NOTE(taken, l, l->place);
}

static inline bool vs_lock_try(struct vs_lock *l)
{
    uint32_t was = 0;
    if (!__atomic_compare_exchange_n(&l->state, &was, VS_LOCK_HELD, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
        return false;
    VS_LOCK_NOTE(taken, l, l->place);
    return true;
}

static inline void vs_lock_give(struct vs_lock *l)
{
    uint32_t was = VS_LOCK_HELD;
    VS_LOCK_NOTE(given, l);
    /* release: the next holder sees what was written */
    if (__builtin_expect(
            !__atomic_compare_exchange_n(&l->state, &was, 0, 0, __ATOMIC_RELEASE, __ATOMIC_RELAXED), 0))
        vs_lock_give_slow(l);
}

#endif
