/*
 * flight.c - tracks which threads are inside a hooked call that may change a device's memory.
 *
 * Measuring how much a call takes (overhead.c) is only possible if no other thread takes or gives back
 * memory meanwhile: a call in flight may have taken memory that is not recorded yet, or have recorded as
 * freed what is still held.  If a thread ever finds no place of its own (core/presence.h), every cost is
 * unknown from then on.
 *
 * Relaxed stores suffice on entering: the memory that the call takes becomes visible in the driver's own
 * figure only after the kernel's locks, which both the call and the later query pass and which order the
 * store before.
 */
#include "flight.h"

static bool under_way(struct vs_presence *place)
{
    /* acquire: a thread that sees the call left sees its events */
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
