/*
 * walk.c - see walk.h.
 *
 * Each side counts itself first and looks at the other's count then, both sequentially consistent: of a walk
 * and a fork that begin at once at least one sees the other.  A walk that sees a fork steps back.
 */
#define _GNU_SOURCE
#include "walk.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "clock.h"
#include "fork.h"

#define FORK_WAITS_MS                                                                                        \
    100u /* for walks; the longest takes a millisecond or two, of a thread that gets to run */
#define WALK_WAITS_MS 100u /* for forks, which copy the tables of all pages */

static struct {
    _Atomic uint32_t walks, forks;
    _Atomic uint32_t of;   /* the number of the process that they are of */
    _Atomic uint32_t home; /* of the process in which this began; 0: it has not */
} gate;

/* What this thread is in the midst of. */
static __thread enum { IDLE, WALKS, FORKS } busy __attribute__((tls_model("initial-exec")));

extern struct r_debug _r_debug __attribute__((weak)); /* the loader's own */

static uint64_t now_ms(void)
{
    return vs_clock_ns() / 1000000;
}

static void wait_for_none(const _Atomic uint32_t *count, uint32_t ms)
{
    if (atomic_load(count) == 0)
        return;
    int saved = errno;
    for (uint64_t end = now_ms() + ms; atomic_load(count) != 0 && now_ms() <= end;)
        nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
    errno = saved;
}

/* ---- forks ---- */

/* A child has one thread, which walks only where a signal handler forked in the midst of it. */
static void begin_in(uint32_t process)
{
    busy = busy == WALKS ? WALKS : IDLE;
    atomic_store(&gate.walks, busy == WALKS);
    atomic_store(&gate.forks, 0);
    atomic_store(&gate.of, process);
}

static void before_fork(void)
{
    if (busy != IDLE) /* in a signal handler that interrupted a walk: nobody is to be waited for */
        return;
    uint32_t process = vs_fork_number();
    if (atomic_load(&gate.of) != process) /* the child of a raw clone */
        begin_in(process);
    busy = FORKS;
    atomic_fetch_add(&gate.forks, 1);
    wait_for_none(&gate.walks, FORK_WAITS_MS);
}

static void after_fork(void)
{
    if (busy != FORKS)
        return;
    busy = IDLE;
    atomic_fetch_sub(&gate.forks, 1);
}

static void in_child(void)
{
    begin_in(vs_fork_number());
}

void vs_walk_begin(void)
{
    uint32_t none = 0, process = vs_fork_number();
    if (!atomic_compare_exchange_strong(&gate.home, &none, process))
        return;
    begin_in(process);
    pthread_atfork(before_fork, after_fork, in_child);
}

/* ---- walks ---- */

/* Relaxed: a child begins with one thread, and whoever loads an object learns of the end of it himself. */
bool vs_walk_may(void)
{
    uint32_t home = atomic_load_explicit(&gate.home, memory_order_relaxed);
    return home == 0 || home == vs_fork_number() || &_r_debug == NULL ||
           __atomic_load_n(&_r_debug.r_state, __ATOMIC_RELAXED) == RT_CONSISTENT;
}

static void enter(void)
{
    uint64_t end = 0;
    for (;;) {
        atomic_fetch_add(&gate.walks, 1);
        if (atomic_load(&gate.forks) == 0)
            return;
        uint64_t now = now_ms();
        end = end != 0 ? end : now + WALK_WAITS_MS;
        if (now >= end)
            return;
        atomic_fetch_sub(&gate.walks, 1);
        wait_for_none(&gate.forks, (uint32_t)(end - now));
    }
}

/* Whether the caller is to leave again. */
static bool enter_gate(void)
{
    if (busy != IDLE || atomic_load_explicit(&gate.home, memory_order_relaxed) == 0)
        return false;
    busy = WALKS;
    enter();
    return true;
}

static void leave_gate(bool entered)
{
    if (!entered)
        return;
    atomic_fetch_sub(&gate.walks, 1);
    busy = IDLE;
}

int vs_walk_objects(int (*visit)(struct dl_phdr_info *info, size_t size, void *context), void *context)
{
    if (busy == IDLE && !vs_walk_may())
        return 0;
    bool entered = enter_gate();
    int result = dl_iterate_phdr(visit, context);
    leave_gate(entered);
    return result;
}

int vs_walk_apart(int (*work)(void))
{
    bool entered = enter_gate();
    int result = work();
    leave_gate(entered);
    return result;
}
