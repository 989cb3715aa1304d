/* hook.c - see hook.h. */
#include "hook.h"

__thread uintptr_t vs_hook_outermost;
_Atomic bool vs_hook_called;

bool vs_cuda_seen(void)
{
    return atomic_load_explicit(&vs_hook_called, memory_order_relaxed);
}

/* ---- threads that are in a hooked call ---- */

static bool under_way(struct vs_presence *place)
{
    /* acquire: a thread that sees the call left sees its events */
    return place != vs_presence_mine && atomic_load_explicit(&place->under_way, memory_order_acquire) &&
           !vs_presence_gone(place);
}

/* A call in flight may have taken memory that is not recorded yet, or have recorded as freed what is still
 * held. A thread without a place of its own (core/presence.h) makes the answer "no" from then on.
 *
 * Relaxed stores suffice on entering: the memory that a call takes shows in the driver's own figure only
 * after the kernel's locks, which both the call and the later query pass and which order the store before. */
bool vs_flight_alone(void)
{
    struct vs_presence *place;
    for (unsigned i = 0; (place = vs_presence_at(i)) != NULL; i++)
        if (place->shared ? atomic_load_explicit(&place->thread, memory_order_relaxed) != 0
                          : under_way(place))
            return false;
    return true;
}
