/*
 * flight.c - which threads are inside a hooked call that may move a device's memory.
 *
 * Whoever measures what a call takes (overhead.c) must know that nobody else takes or gives back meanwhile: a
 * call under way may have taken what is not recorded yet, or have recorded as free what is still held.  Where
 * a thread ever found no place of its own (core/presence.h), every cost is unknown from then on.
 *
 * Relaxed stores suffice on entering: what the call takes is seen through the driver's own figure, and the
 * kernel's locks, which the call passes before it takes anything and the question for the figure after, order
 * the store before.
 */
#include "flight.h"

static bool under_way(struct vs_presence *place)
{
    /* acquire: who sees a call gone sees what it recorded */
    return place != vs_presence_mine && atomic_load_explicit(&place->under_way, memory_order_acquire) &&
           !vs_presence_gone(place);
}

bool vs_flight_alone(void)
{
    struct vs_presence *place;
    for (unsigned i = 0; (place = vs_presence_at(i)) != NULL; i++)
        if (place->shared ? atomic_load_explicit(&place->thread, memory_order_relaxed) != 0
                          : under_way(place))
            return false;
    return true;
}
