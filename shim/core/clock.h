/*
 * clock.h - the clock of all recorded times, CLOCK_MONOTONIC; and a faster one for events, which agrees with
 * it to within a microsecond.
 *
 * CLOCK_MONOTONIC goes through the vDSO: no system call, ~20 ns, the same in every thread and process of a
 * boot.
 */
#ifndef VS_CORE_CLOCK_H
#define VS_CORE_CLOCK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "core/arch/cpu.h"

static inline uint64_t vs_clock_ns(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static inline uint64_t vs_clock_realtime_ns(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_REALTIME, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* ---- the time of an event ----
 *
 * For events a thread keeps an anchor, a reading of both the processor's counter and CLOCK_MONOTONIC, for a
 * millisecond and adds the ticks since then.  Where the counter cannot be used (clock.c), and when the anchor
 * is too old, it calls clock_gettime: so after a suspend, a migration or a reset of the counter the time
 * comes from the real clock.  All state of a reading is thread-local, so there is no waiting.  On one thread
 * time never goes backwards. */

#define VS_EVENT_CLOCK_ERROR_NS 1000 /* the bound */

struct vs_event_clock {
    uint64_t counter, ns; /* the anchor: both clocks at one moment */
    uint64_t rate;        /* nanoseconds of a tick, << 32 */
    uint64_t last;        /* the time that the thread was given last */
    uint64_t anchor; /* its number << 32 | the ticks for which it is valid (0: no anchor).  One word, because
                        a signal handler may make another anchor meanwhile */
};

/* Decides whether the counter may be used; SOURCE is the file that names the kernel's clock source, NULL the
 * usual one.  Once per recording, before the first tune. */
void vs_event_clock_prepare(const char *source);

/* Adapts to CLOCK_MONOTONIC's rate.  Called by the drain thread in every round. */
void vs_event_clock_tune(void);

/* Whether readings come from the counter now. */
bool vs_event_clock_fast(void);

/* Makes RATE the rate of new anchors.  If it differs from the previous one by more than a thousandth, the
 * counter is not used any more, and the result is false.  For tune, and for tests. */
bool vs_event_clock_publish(uint64_t rate);

/* Called when the anchor of the thread's clock is too old: makes a new one, or reads the real clock. */
uint64_t vs_event_clock_slow(void);

/* The time, by the calling thread's CLOCK. */
static inline uint64_t vs_event_clock_of(struct vs_event_clock *clock)
{
    /* Volatile: every word is read once and in this order, whatever a signal handler does to them.  Not
     * ordering the counter's reading with loads and stores around it saves some ns. */
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
