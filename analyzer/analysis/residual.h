/*
 * residual.h - what the driver says the process uses beyond what was asked of it: shown, never hidden.
 *
 *      driver used = reserved + residual;   residual = at the first sample (context, modules) + unexplained
 *
 * Every figure is from one sample, the one with the greatest driver_used, and from the first of the same
 * source: that of this process alone where it was ever asked, else the whole device's.
 */
#ifndef VS_RESIDUAL_H
#define VS_RESIDUAL_H

#include "trace.h"

struct residual {
    bool known;        /* there are samples */
    bool whole_device; /* the source counts every process on the device */
    const char *source;
    int64_t t, driver_used, reserved, residual;
    int64_t at_first;    /* residual at the first sample */
    int64_t modules;     /* what modules loaded later take: UNKNOWN, nothing tells it yet */
    int64_t unexplained; /* the rest; may be negative where the driver gave something back */
    int64_t rss, pinned; /* greatest seen in any sample */
};

struct residual residual_of(const struct trace_sample *samples, size_t n);
/* "NVML, this process" ... */
const char *residual_source(const char *source);

#endif
