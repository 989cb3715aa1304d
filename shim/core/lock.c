/* lock.c - the mutex where it is contended, and the check of the order. */
#define _GNU_SOURCE
#include "lock.h"

#include <errno.h>
#include <linux/futex.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/arch/cpu.h"
#include "fork.h"

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

/* No wake-up is lost: a thread that is about to sleep first reads `wakes`, then counts itself in `state`
 * while the lock is held, so that the holder will see it.  The thread that wakes it changes `wakes` first,
 * and a futex wait on the old value ends at once.  The woken thread clears WAKING, either when it takes the
 * lock or while another thread holds it, so that the holder wakes the next one. */
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

/* ---- the locks that each thread holds, and whether it may take another ----
 *
 * A lock that is only tried is never waited for, so it may be tried in any order; locks that are taken while
 * it is held must keep the order. */

#ifdef VS_LOCK_CHECKS

#define MOST 16 /* locks that a thread holds at once; there are fewer places */

static __thread struct {
    const void *lock;
    enum vs_lock_place place;
} held[MOST];
static __thread unsigned count;
static __thread uint32_t process; /* the process that took them; a child of fork holds none */

static const char *name_of(enum vs_lock_place place)
{
    static const char *const names[] = {"a lock without a place",
#define X(NAME, file, calls) #NAME " (" file ")",
                                        VS_LOCK_ORDER(X)
#undef X
    };
    return names[place];
}

static _Noreturn void broken(enum vs_lock_place taken, enum vs_lock_place with)
{
    char text[300];
    int n = snprintf(text, sizeof text,
                     "vramscope: lock order: %s is taken while %s is held; core/lock.h has the order\n",
                     name_of(taken), name_of(with));
    if (write(2, text, (size_t)n) < 0)
        abort();
    abort();
}

static void forget_parents(void)
{
    if (process != vs_fork_number())
        count = 0;
    process = vs_fork_number();
}

void vs_lock_order_check(const void *lock, enum vs_lock_place place)
{
    forget_parents();
    for (unsigned i = 0; i < count; i++)
        if (held[i].lock == lock || (place && held[i].place >= place))
            broken(place, held[i].place);
}

void vs_lock_order_taken(const void *lock, enum vs_lock_place place)
{
    forget_parents();
    if (count == MOST)
        broken(place, held[count - 1].place);
    held[count].lock = lock;
    held[count++].place = place;
}

void vs_lock_order_given(const void *lock)
{
    for (unsigned i = count; i-- > 0;)
        if (held[i].lock == lock) {
            held[i] = held[--count];
            return;
        }
}

#endif
