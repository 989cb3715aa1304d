/*
 * gate.c - counts the calls that are giving the device work, and waits until they have.
 *
 *      thread                    who moves memory
 *      giving + 1                vs_gate = CLOSED
 *      vs_barrier_often          vs_barrier_seldom
 *      looks at vs_gate          waits for giving == 0
 *
 * Either a thread sees that the gate is not open any more, and takes its count back, or who moves memory sees
 * that it is inside (core/barrier.h).
 *
 * A thread's calls nest where the driver calls itself through our hooks, or a signal handler comes in
 * between.  The inner call passes whatever the state is: who closes the gate waits for the outer one, which
 * could not end if the inner one waited.
 *
 * A fork's child has its parent's gate as it was, and nobody who would open it.  It has no driver either, so
 * all pass, and get the driver's own error.
 */
#define _GNU_SOURCE
#include "gate.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "core/barrier.h"
#include "core/clock.h"
#include "core/fork.h"
#include "core/presence.h"

_Atomic uint32_t vs_gate;

static _Atomic uint32_t owner; /* vs_fork_number() of the process that changed vs_gate last, 0: none did */

/* ---- who gives work ---- */

/* Calls of this thread that were let in.  Not those that are counted and still look: a signal handler that
 * comes in between must look as well. */
static __thread uint32_t inside;

static inline void count_in(void)
{
    struct vs_presence *place = vs_presence_mine;
    if (__builtin_expect(place == NULL, 0))
        place = vs_presence_claim();
    if (__builtin_expect(place->shared, 0)) {
        atomic_fetch_add_explicit(&place->giving, 1, memory_order_relaxed);
    } else {
        /* no atomic addition: only this thread writes it, and a signal handler leaves it as it was */
        uint32_t n = atomic_load_explicit(&place->giving, memory_order_relaxed);
        atomic_store_explicit(&place->giving, n + 1, memory_order_relaxed);
    }
    vs_barrier_often();
}

static inline void count_out(void)
{
    struct vs_presence *place = vs_presence_mine;
    /* release: the work was given before */
    if (__builtin_expect(place->shared, 0)) {
        atomic_fetch_sub_explicit(&place->giving, 1, memory_order_release);
    } else {
        uint32_t n = atomic_load_explicit(&place->giving, memory_order_relaxed);
        if (__builtin_expect(n == 1 && atomic_load_explicit(&place->looked, memory_order_relaxed) != 0, 0))
            atomic_store_explicit(&place->looked, 0, memory_order_release);
        atomic_store_explicit(&place->giving, n - 1, memory_order_release);
    }
}

/* Whether the gate is as the parent had it when it forked this process. */
static bool is_parents(void)
{
    uint32_t of = atomic_load_explicit(&owner, memory_order_relaxed);
    return of != 0 && of != vs_fork_number();
}

bool vs_gate_decide(bool pass)
{
    if (pass)
        inside++;
    else
        count_out();
    return pass;
}

static __attribute__((noinline, cold)) bool enter_late(void)
{
    return vs_gate_decide(inside != 0 || is_parents());
}

bool vs_gate_enter(void)
{
    count_in();
    /* acquire: what has moved is back where it was */
    if (__builtin_expect(atomic_load_explicit(&vs_gate, memory_order_acquire) != VS_GATE_OPEN, 0))
        return enter_late();
    inside++;
    return true;
}

enum vs_gate_state vs_gate_enter_anyway(void)
{
    count_in();
    /* acquire: as in vs_gate_enter */
    return atomic_load_explicit(&vs_gate, memory_order_acquire);
}

void vs_gate_leave(void)
{
    inside--;
    count_out();
}

/* ---- waiting ----
 *
 * By system calls themselves: the C library's functions would be cancellation points, which the driver's are
 * not to become. */

#define LOOK_NS                                                                                              \
    1000000000l      /* a signal handler of a thread that waits may fork: its child looks by itself          \
                      */
#define YIELDS   100 /* most calls are over sooner than a sleep */
#define PAUSE_NS 50000l

/* Sleeps until the gate is changed from STATE, or NS are over. */
static void sleep_while(uint32_t state, long ns)
{
    struct timespec t = {ns / 1000000000l, ns % 1000000000l};
    syscall(SYS_futex, &vs_gate, FUTEX_WAIT_PRIVATE, state, &t, NULL, 0);
}

void vs_gate_wait(enum vs_gate_state state)
{
    int saved = errno;
    /* acquire: as in vs_gate_enter */
    while (atomic_load_explicit(&vs_gate, memory_order_acquire) == state && !is_parents())
        sleep_while(state, LOOK_NS);
    errno = saved;
}

static _Atomic uint32_t turns; /* how often a state was set */

uint32_t vs_gate_turn(void)
{
    return atomic_load_explicit(&turns, memory_order_acquire);
}

void vs_gate_wait_turn(uint32_t turn)
{
    int saved = errno;
    struct timespec t = {LOOK_NS / 1000000000l, 0};
    if (vs_gate_turn() == turn && !is_parents())
        syscall(SYS_futex, &turns, FUTEX_WAIT_PRIVATE, turn, &t, NULL, 0);
    errno = saved;
}

/* ---- who moves memory ---- */

static void set(enum vs_gate_state state)
{
    atomic_store_explicit(&owner, vs_fork_number(), memory_order_relaxed);
    /* release: who sees the state sees what has moved, and whose the gate is */
    atomic_store_explicit(&vs_gate, state, memory_order_release);
}

void vs_gate_set(enum vs_gate_state state)
{
    int saved = errno;
    set(state);
    atomic_fetch_add_explicit(&turns, 1, memory_order_release);
    syscall(SYS_futex, &vs_gate, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
    syscall(SYS_futex, &turns, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
    errno = saved;
}

static bool has_left(struct vs_presence *place)
{
    /* acquire: pairs with the release of vs_gate_leave */
    return atomic_load_explicit(&place->giving, memory_order_acquire) == 0;
}

/* Whether the thread of PLACE ended inside a call: it was cancelled there. */
static bool ended_inside(struct vs_presence *place)
{
    return !place->shared && vs_presence_gone(place);
}

static bool wait_for(struct vs_presence *place, uint64_t until)
{
    for (uint32_t round = 0; !has_left(place); round++) {
        if (round < YIELDS) {
            sched_yield();
            continue;
        }
        if (ended_inside(place))
            return true;
        if (vs_clock_ns() >= until)
            return false;
        sleep_while(VS_GATE_CLOSED, PAUSE_NS); /* nobody changes it meanwhile */
    }
    return true;
}

/* A thread that claims a place later comes after the barrier, and sees that the gate is closed. */
static bool wait_for_all(uint64_t until)
{
    struct vs_presence *place;
    for (unsigned i = 0; (place = vs_presence_at(i)) != NULL; i++)
        if (!wait_for(place, until))
            return false;
    return true;
}

bool vs_gate_close(uint64_t timeout_ns)
{
    int saved = errno;
    uint64_t now = vs_clock_ns();
    uint64_t until = timeout_ns < UINT64_MAX - now ? now + timeout_ns : UINT64_MAX;
    if (inside != 0 && !is_parents())
        return false; /* a signal handler, or a callback of the driver: the call would wait for itself */
    uint32_t before = is_parents() ? VS_GATE_OPEN : atomic_load_explicit(&vs_gate, memory_order_relaxed);
    vs_barrier_prepare();
    set(VS_GATE_CLOSED);
    bool closed = vs_barrier_seldom() && wait_for_all(until);
    if (!closed)
        vs_gate_set(before);
    errno = saved;
    return closed;
}

/* ---- what is looked at ---- */

void vs_gate_look(uint64_t work)
{
    struct vs_presence *place = vs_presence_mine;
    if (place == NULL || place->shared || atomic_load_explicit(&place->giving, memory_order_relaxed) == 0)
        return;
    uint64_t looked = atomic_load_explicit(&place->looked, memory_order_relaxed);
    if (looked == 0 || work < looked) /* relaxed: read under the caller's lock */
        atomic_store_explicit(&place->looked, work, memory_order_relaxed);
}

bool vs_gate_look_again(uint64_t work, uint64_t later)
{
    struct vs_presence *place = vs_presence_mine;
    bool only = place != NULL && !place->shared && work != 0 &&
                atomic_load_explicit(&place->looked, memory_order_relaxed) == work;
    if (only) /* relaxed: as above */
        atomic_store_explicit(&place->looked, later, memory_order_relaxed);
    return only;
}

uint64_t vs_gate_looking(void)
{
    struct vs_presence *place;
    uint64_t oldest = UINT64_MAX;
    for (unsigned i = 0; (place = vs_presence_at(i)) != NULL; i++) {
        uint64_t looked = atomic_load_explicit(&place->looked, memory_order_acquire);
        if (has_left(place) || ended_inside(place))
            continue;
        if (place->shared)
            return 0;
        oldest = looked != 0 && looked < oldest ? looked : oldest;
    }
    return oldest;
}
