/*
 * back.c - see back.h.
 *
 * A host that waits for the device waits for all that it was given: also for a collective, whose other part
 * another thread has still to give to another device.  So none waits with the lock, which that thread needs.
 */
#define _GNU_SOURCE
#include "back.h"

#include <pthread.h>
#include <time.h>

#include "core/lock.h"
#include "park_copy.h"
#include "park_plan.h"
#include "spill.h"

#define PAUSE_NS 5000000
#define POLL_NS  20000
#define TRIES    16 /* to have all back, each once the device is done */

static struct vs_lock lock = VS_LOCK(PARKING);

int vs_parking_enter(void)
{
    int before;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
    vs_lock_take(&lock);
    return before;
}

void vs_parking_leave(int before)
{
    vs_lock_give(&lock);
    pthread_setcancelstate(before, NULL);
}

/* ---- what comes back ---- */

int vs_back_one(struct vs_watched *w)
{
    int status = vs_park_in(w);
    if (status != 0)
        return status;
    if (vs_spill_on())
        vs_spill_came_back(w);
    else
        vs_plan_came_back(w);
    if (w->freed)
        vs_park_forget(w);
    return 0;
}

struct vs_watched *vs_back_wanted(int *status)
{
    struct vs_ranking *back = vs_watched_wanted(vs_park_parked != 0 ? UINT64_MAX : 0);
    struct vs_watched *w;
    while ((w = vs_ranking_take(back)) != NULL && (*status = vs_back_one(w)) == 0)
        ;
    return w;
}

/* Else what kept the first from coming back that did not. */
static int all_back(void)
{
    int status = 0;
    vs_back_wanted(&status);
    if (vs_park_freed != 0)
        VS_WATCHED_EACH(w)
    if (w->freed)
        status = status != 0 ? status : vs_back_one(w);
    return status;
}

/* ---- waiting ---- */

void vs_back_pause(struct vs_arena *arena, int status, bool first)
{
    vs_lock_give(&lock);
    if (arena != NULL && status == VS_BACKING_NOT_READY)
        vs_arena_await(arena);
    else if (arena != NULL)
        vs_arena_trim(arena, 0);
    nanosleep(&(struct timespec){0, first ? 0 : PAUSE_NS}, NULL);
    vs_lock_take(&lock);
}

static struct vs_arena *not_back(void)
{
    VS_WATCHED_EACH(w)
    if (w->parked || w->freed)
        return w->arena;
    return NULL;
}

int vs_back_all(void)
{
    int status = all_back();
    for (int tries = 0; tries < TRIES && status == VS_BACKING_NOT_READY; tries++) {
        vs_back_pause(not_back(), status, true);
        status = all_back();
    }
    return status;
}

static bool can_all_wait(CUstream stream)
{
    bool can = true;
    if (vs_park_coming != 0)
        VS_WATCHED_EACH(w)
    can = vs_park_wait(w, stream) && can;
    return can;
}

static void poll(void)
{
    vs_lock_give(&lock);
    nanosleep(&(struct timespec){0, POLL_NS}, NULL);
    vs_lock_take(&lock);
}

void vs_back_all_wait(CUstream stream)
{
    while (!can_all_wait(stream))
        poll();
}

struct vs_watched *vs_back_wait(uint64_t address, CUstream stream)
{
    struct vs_watched *w;
    while ((w = vs_watched_at(address, 0)) != NULL && !vs_park_wait(w, stream))
        poll();
    return w;
}
