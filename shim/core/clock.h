/*
 * clock.h - the one clock of all recorded times.
 *
 * CLOCK_MONOTONIC through the vDSO: no system call, ~20 ns, the same in every thread and process of a boot.
 * Events use a faster clock that agrees with this one to within a microsecond: event_clock.h.
 */
#ifndef VS_CORE_CLOCK_H
#define VS_CORE_CLOCK_H

#include <stdint.h>
#include <time.h>

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

#endif
