/*
 * event_clock.h - the time of an event: CLOCK_MONOTONIC to within a microsecond, from the processor's
 * counter.
 *
 * Where the counter is good for it (see event_clock.c) a thread remembers for a millisecond what the counter
 * and CLOCK_MONOTONIC said together, and adds the ticks since then; otherwise, and whenever that anchor is
 * not young enough, it is clock_gettime.  So a processor suspended, moved to another machine or set back is
 * one reading of the real clock, not a wrong time.  All that a reading needs lies in thread-local memory:
 * there is nobody to wait for.  On one thread time never goes backwards.
 *
 * This header and event_clock.c are the only places that know a processor's counter.
 */
#ifndef VS_CORE_EVENT_CLOCK_H
#define VS_CORE_EVENT_CLOCK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/arch/cpu.h"

#define VS_EVENT_CLOCK_ERROR_NS 1000 /* the bound */

struct vs_event_clock {
    uint64_t counter, ns; /* the anchor: what both said */
    uint64_t rate;        /* nanoseconds of a tick, << 32 */
    uint64_t last;        /* the time that the thread was given last */
    uint64_t anchor;      /* its number << 32 | the ticks that it is good for (0: there is none).  One word: a
                             signal handler may have made another one under our hands */
};

/* Decides whether the counter may be used; SOURCE is the file that names the kernel's clock source, NULL the
 * usual one.  Once per recording, before the first tune. */
void vs_event_clock_prepare(const char *source);

/* Follows CLOCK_MONOTONIC's rate.  By the drain thread, every round. */
void vs_event_clock_tune(void);

/* Whether readings come from the counter now. */
bool vs_event_clock_fast(void);

/* Makes RATE the one that the next anchors use; false, and the counter given up for good, where it differs by
 * more than a thousandth from the one before.  For tune, and for tests. */
bool vs_event_clock_publish(uint64_t rate);

/* Where the anchor of the thread's clock is too old: a new one, or the real clock. */
uint64_t vs_event_clock_slow(void);

/* The time, by the calling thread's CLOCK. */
static inline uint64_t vs_event_clock_of(struct vs_event_clock *clock)
{
    /* Volatile: every word is read once, in this order, whatever a signal handler does to them.  The counter
     * read is not ordered with loads and stores around it, which is worth some ns. */
    volatile struct vs_event_clock *c = clock;
    uint64_t anchor = c->anchor, ticks = vs_arch_counter() - c->counter;
    uint64_t ns = c->ns + (ticks * c->rate >> 32), last = c->last;
    if (__builtin_expect(ticks < (uint32_t)anchor && c->anchor == anchor, 1)) {
        ns = ns < last ? last : ns;
        c->last = ns;
        return ns;
    }
    return vs_event_clock_slow();
}

uint64_t vs_event_clock_ns(void);

#endif
