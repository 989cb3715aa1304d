/*
 * lock.c - the mutex where it is contended; see lock.h.
 *
 * No wake-up is lost: a thread that is about to sleep first reads `wakes`, then counts itself in `state`
 * while the lock is held, so that the holder will see it.  The thread that wakes it changes `wakes` first,
 * and a futex wait on the old value ends at once.  The woken thread clears WAKING, either when it takes the
 * lock or while another thread holds it, so that the holder wakes the next one.
 */
#define _GNU_SOURCE
#include "lock.h"

#include <errno.h>
#include <linux/futex.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/arch/cpu.h"

#define ROUNDS 4 /* of spinning, each twice as long as the one before: some microseconds in all */
#define FIRST  4 /* pauses: long enough for the holder to give and take the lock a few times */

static void pause_a_moment(int n)
{
    for (int i = 0; i < n; i++)
        vs_arch_relax();
}

/* Acquire, as in vs_lock_take; nothing is published by a change that does not take the lock. */
static bool change(struct vs_lock *l, uint32_t *was, uint32_t to)
{
    return __atomic_compare_exchange_n(&l->state, was, to, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
}

/* LESS: this thread's share of the state, which is subtracted when it takes the lock. */
static bool spin(struct vs_lock *l, uint32_t less, uint32_t *state)
{
    for (int round = 0; round < ROUNDS; round++) {
        *state = __atomic_load_n(&l->state, __ATOMIC_RELAXED);
        if (!(*state & VS_LOCK_HELD)) {
            uint32_t rest = less ? (*state - VS_LOCK_SLEEPER) & ~VS_LOCK_WAKING : *state;
            if (change(l, state, rest | VS_LOCK_HELD))
                return true;
        }
        pause_a_moment(FIRST << round);
    }
    return false;
}

void vs_lock_take_slow(struct vs_lock *l)
{
    uint32_t state, sleeper = 0;
    int error = errno;
    while (!spin(l, sleeper, &state)) {
        /* acquire: `state` is read after it */
        uint32_t wakes = __atomic_load_n(&l->wakes, __ATOMIC_ACQUIRE);
        state = __atomic_load_n(&l->state, __ATOMIC_RELAXED);
        if (!(state & VS_LOCK_HELD) ||
            !change(l, &state, sleeper ? state & ~VS_LOCK_WAKING : state + VS_LOCK_SLEEPER))
            continue;
        sleeper = VS_LOCK_SLEEPER;
        syscall(SYS_futex, &l->wakes, FUTEX_WAIT_PRIVATE, wakes, 0, 0, 0);
    }
    errno = error;
}

static void wake(struct vs_lock *l, uint32_t state)
{
    do
        if (state & (VS_LOCK_HELD | VS_LOCK_WAKING) || state < VS_LOCK_SLEEPER)
            return; /* the present holder will wake a sleeper, or one is awake already */
    while (!change(l, &state, state | VS_LOCK_WAKING));
    int error = errno;
    /* release: the woken thread sees WAKING, and clears it */
    __atomic_fetch_add(&l->wakes, 1, __ATOMIC_RELEASE);
    syscall(SYS_futex, &l->wakes, FUTEX_WAKE_PRIVATE, 1, 0, 0, 0);
    errno = error;
}

/* Not a subtraction: in a child of fork the lock may have been wiped while it was held (internal.h). */
void vs_lock_give_slow(struct vs_lock *l)
{
    /* release: as in vs_lock_give */
    wake(l, __atomic_and_fetch(&l->state, ~VS_LOCK_HELD, __ATOMIC_RELEASE));
}
