/* presence.c - see presence.h. */
#define _GNU_SOURCE
#include "presence.h"

#include <errno.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

__thread struct vs_presence *vs_presence_mine;
static struct vs_presence places[VS_PRESENCES];
static struct vs_presence crowd = {.shared = true}; /* shared by the threads for which no place was left */
static _Atomic unsigned used;                       /* places from here on were never claimed */

static bool gone(pid_t thread)
{
    return syscall(SYS_tgkill, getpid(), thread, 0) != 0 && errno == ESRCH;
}

bool vs_presence_gone(struct vs_presence *place)
{
    return gone(atomic_load_explicit(&place->thread, memory_order_relaxed));
}

/* Takes PLACE from OWNER (0: it is free).  Relaxed: the word guards no other memory. */
static bool take(struct vs_presence *place, pid_t owner, pid_t me)
{
    if (!atomic_compare_exchange_strong_explicit(&place->thread, &owner, me, memory_order_relaxed,
                                                 memory_order_relaxed))
        return false;
    atomic_store_explicit(&place->under_way, false, memory_order_relaxed);
    atomic_store_explicit(&place->giving, 0, memory_order_relaxed);
    atomic_store_explicit(&place->looked, 0, memory_order_relaxed);
    return true;
}

static struct vs_presence *claim(pid_t me)
{
    unsigned n = atomic_load_explicit(&used, memory_order_relaxed);
    while (n < VS_PRESENCES)
        if (atomic_compare_exchange_weak_explicit(&used, &n, n + 1, memory_order_relaxed,
                                                  memory_order_relaxed))
            return take(&places[n], 0, me) ? &places[n] : &crowd;
    for (unsigned i = 0; i < VS_PRESENCES; i++) {
        pid_t owner = atomic_load_explicit(&places[i].thread, memory_order_relaxed);
        /* the old owner may have ended inside, without leaving */
        bool left = atomic_load_explicit(&places[i].inside, memory_order_relaxed) == 0;
        if (owner != 0 && left && gone(owner) && take(&places[i], owner, me))
            return &places[i];
    }
    return &crowd;
}

struct vs_presence *vs_presence_claim(void)
{
    int saved = errno;
    pid_t me = (pid_t)syscall(SYS_gettid);
    vs_presence_mine = claim(me);
    if (vs_presence_mine == &crowd)
        atomic_store_explicit(&crowd.thread, me, memory_order_relaxed);
    errno = saved;
    return vs_presence_mine;
}

struct vs_presence *vs_presence_at(unsigned number)
{
    unsigned n = atomic_load_explicit(&used, memory_order_relaxed);
    return number < n ? &places[number] : number == n ? &crowd : NULL;
}
