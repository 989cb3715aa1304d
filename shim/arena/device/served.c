/* served.c - the devices with their arenas: which they are, whose an address is, who is inside one. */
#define _GNU_SOURCE
#include "served.h"

#include <sched.h>

#include "core/barrier.h"
#include "core/clock.h"
#include "core/fork.h"
#include "core/presence.h"

struct vs_served vs_served[VS_SERVED_DEVICES] = {
    [0 ... VS_SERVED_DEVICES - 1] = {.streams = VS_LOCK(STREAMS)}};
_Atomic bool vs_served_any;
struct vs_lock vs_served_making = VS_LOCK(MAKING);
uint32_t vs_served_queue_changes = 1;

bool vs_served_is_primary(CUcontext context, CUdevice device)
{
    CUcontext primary = NULL;
    unsigned flags;
    int active = 0;
    if (vs_drv_cuDevicePrimaryCtxGetState(device, &flags, &active) != CUDA_SUCCESS || !active ||
        vs_drv_cuDevicePrimaryCtxRetain(&primary, device) != CUDA_SUCCESS)
        return false;
    vs_drv_cuDevicePrimaryCtxRelease_v2(device);
    return primary == context;
}

struct vs_arena *vs_served_owner(CUdeviceptr address, struct vs_served **out, struct vs_arena_block *block)
{
    for (int i = 0; i < VS_SERVED_DEVICES; i++) {
        struct vs_arena *arena = vs_served_arena(&vs_served[i]);
        if (arena && vs_arena_find(arena, address, block)) {
            *out = &vs_served[i];
            return arena;
        }
    }
    return NULL;
}

CUresult vs_served_peers(struct vs_served *s, uint64_t more)
{
    if (!vs_served_in())
        return CUDA_SUCCESS;
    vs_lock_take(&vs_served_making);
    uint64_t peers = atomic_fetch_or_explicit(&s->peers, more, memory_order_relaxed) | more;
    struct vs_arena *arena = atomic_load_explicit(&s->arena, memory_order_relaxed);
    int granted = arena ? vs_arena_set_peers(arena, peers) : 0;
    vs_lock_give(&vs_served_making);
    vs_served_out();
    return (CUresult)granted;
}

/* ---- which threads are inside an arena, and who must not enter ----
 *
 * A primary context may be reset while other threads allocate: its arena is not taken apart before they have
 * left it.
 *
 *      thread                  who ends an arena
 *      inside = 1              arena = NULL
 *      vs_barrier_often        vs_barrier_seldom
 *      looks at the arena      waits for inside == 0
 *
 * Either the one sees who is inside, or the other that there is no arena any more (core/barrier.h).
 *
 * A fork's child has its parent's arena as it was at the fork, perhaps locked by a thread that the child does
 * not have; and no driver. */

extern int __cxa_atexit(void (*function)(void *), void *argument, void *dso);

#define PATIENCE_NS 5000000000ull

static _Atomic uint32_t owner; /* vs_fork_number() of the process whose arenas these are, 0: none yet */
_Atomic bool vs_served_exiting;
__thread bool vs_serving;

static bool is_child(void)
{
    /* relaxed: written once, long before any fork whose child could read it */
    uint32_t of = atomic_load_explicit(&owner, memory_order_relaxed);
    return of != 0 && of != vs_fork_number();
}

static void say_inside(void)
{
    struct vs_presence *place = vs_presence_mine ? vs_presence_mine : vs_presence_claim();
    if (__builtin_expect(place->shared, 0)) /* sequentially consistent: no barrier is missing */
        atomic_fetch_add(&place->inside, 1);
    else
        atomic_store_explicit(&place->inside, 1, memory_order_relaxed);
    vs_barrier_often();
}

bool vs_served_in(void)
{
    if (vs_serving || is_child())
        return false;
    vs_serving = true;
    say_inside();
    return true;
}

void vs_served_out(void)
{
    struct vs_presence *place = vs_presence_mine;
    /* release: what was done inside was done before */
    if (__builtin_expect(place->shared, 0))
        atomic_fetch_sub_explicit(&place->inside, 1, memory_order_release);
    else
        atomic_store_explicit(&place->inside, 0, memory_order_release);
    vs_serving = false;
}

/* ---- who ends an arena ---- */

/* Gives up after a while: a thread that was cancelled inside, or left by a longjmp out of a signal handler,
 * never leaves. */
bool vs_served_wait(void)
{
    uint64_t until = vs_clock_ns() + PATIENCE_NS;
    struct vs_presence *place;
    if (!vs_barrier_seldom())
        return false;
    for (unsigned i = 0; (place = vs_presence_at(i)) != NULL; i++)
        while (atomic_load_explicit(&place->inside, memory_order_acquire) != 0) {
            if (vs_clock_ns() > until)
                return false;
            sched_yield();
        }
    return true;
}

void vs_served_begin(void)
{
    uint32_t none = 0;
    if (atomic_load_explicit(&owner, memory_order_relaxed) != 0)
        return;
    vs_barrier_prepare();
    /* relaxed: the number is all that is published; another thread may be first */
    atomic_compare_exchange_strong_explicit(&owner, &none, vs_fork_number(), memory_order_relaxed,
                                            memory_order_relaxed);
}

/* ---- the end of the process ---- */

static void note_exit(void *unused)
{
    atomic_store_explicit(&vs_served_exiting, true, memory_order_relaxed);
}

/* A handler that is registered later runs earlier: this one runs before the driver's. */
void vs_served_watch_exit(void)
{
    static _Atomic bool watched; /* fork children inherit the handler */
    if (!atomic_exchange_explicit(&watched, true, memory_order_relaxed) &&
        __cxa_atexit(note_exit, NULL, NULL) != 0)
        note_exit(NULL);
}
