/*
 * flight.h - tracks which threads are inside a hooked call that may change a device's memory; see flight.c.
 * Any thread, no lock.
 */
#ifndef VS_HOOKS_FLIGHT_H
#define VS_HOOKS_FLIGHT_H

#include "core/presence.h"

#include <stddef.h>

static inline void vs_flight_begin(void)
{
    struct vs_presence *p = vs_presence_mine;
    if (__builtin_expect(p == NULL, 0))
        p = vs_presence_claim();
    atomic_store_explicit(&p->under_way, true, memory_order_relaxed);
}

/* Also of a call that a longjmp left, at the thread's next one.  Release: pairs with vs_flight_alone(). */
static inline void vs_flight_end(void)
{
    if (vs_presence_mine != NULL)
        atomic_store_explicit(&vs_presence_mine->under_way, false, memory_order_release);
}

/* Whether no other thread is inside such a call. */
bool vs_flight_alone(void);

#endif
