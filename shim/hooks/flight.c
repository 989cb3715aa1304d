/*
 * flight.c - which threads are inside a hooked call that may move a device's memory.
 *
 * Whoever measures what a call takes (overhead.c) must know that nobody else takes or gives back meanwhile: a
 * call under way may have taken what is not recorded yet, or have recorded as free what is still held.  Each
 * thread has a place of its own, claimed at its first such call, so that entering and leaving are two plain
 * stores.  A place is not given back: where all are taken, those of threads that are gone are claimed anew,
 * and where there are none of those either, every cost is unknown from then on.
 *
 * Relaxed stores suffice on entering: what the call takes is seen through the driver's own figure, and the
 * kernel's locks, which the call passes before it takes anything and the question for the figure after, order
 * the store before.
 */
#define _GNU_SOURCE
#include "flight.h"

#include <errno.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

__thread struct vs_flight *vs_flight_mine;
static struct vs_flight places[VS_FLIGHTS];
static struct vs_flight crowd = {.shared = true}; /* of the threads that found no place */
static _Atomic unsigned used;                     /* places from here on were never claimed */

static bool gone(pid_t thread)
{
    return syscall(SYS_tgkill, getpid(), thread, 0) != 0 && errno == ESRCH;
}

/* Takes PLACE from OWNER (0: nobody).  Relaxed: the owner's word is all that is agreed on. */
static bool take(struct vs_flight *place, pid_t owner, pid_t me)
{
    if (!atomic_compare_exchange_strong_explicit(&place->thread, &owner, me, memory_order_relaxed,
                                                 memory_order_relaxed))
        return false;
    atomic_store_explicit(&place->under_way, false, memory_order_relaxed);
    return true;
}

static struct vs_flight *claim(pid_t me)
{
    unsigned n = atomic_load_explicit(&used, memory_order_relaxed);
    while (n < VS_FLIGHTS)
        if (atomic_compare_exchange_weak_explicit(&used, &n, n + 1, memory_order_relaxed,
                                                  memory_order_relaxed))
            return take(&places[n], 0, me) ? &places[n] : &crowd;
    for (unsigned i = 0; i < VS_FLIGHTS; i++) {
        pid_t owner = atomic_load_explicit(&places[i].thread, memory_order_relaxed);
        /* who was ended inside an arena is never out */
        bool left = atomic_load_explicit(&places[i].inside, memory_order_relaxed) == 0;
        if (owner != 0 && left && gone(owner) && take(&places[i], owner, me))
            return &places[i];
    }
    return &crowd;
}

struct vs_flight *vs_flight_claim(void)
{
    int saved = errno;
    pid_t me = (pid_t)syscall(SYS_gettid);
    vs_flight_mine = claim(me);
    if (vs_flight_mine == &crowd)
        atomic_store_explicit(&crowd.thread, me, memory_order_relaxed);
    errno = saved;
    return vs_flight_mine;
}

static bool others(const struct vs_flight *place)
{
    /* acquire: who sees a call gone sees what it recorded */
    return place != vs_flight_mine && atomic_load_explicit(&place->under_way, memory_order_acquire) &&
           !gone(atomic_load_explicit(&place->thread, memory_order_relaxed));
}

bool vs_flight_alone(void)
{
    unsigned n = atomic_load_explicit(&used, memory_order_relaxed);
    if (atomic_load_explicit(&crowd.thread, memory_order_relaxed) != 0)
        return false;
    for (unsigned i = 0; i < n; i++)
        if (others(&places[i]))
            return false;
    return true;
}

struct vs_flight *vs_flight_place(unsigned number)
{
    unsigned n = atomic_load_explicit(&used, memory_order_relaxed);
    return number < n ? &places[number] : number == n ? &crowd : NULL;
}
