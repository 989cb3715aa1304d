/*
 * oom.h - explains an out-of-memory: by how much the request was short.  Causes that do not follow from the
 * numbers are not named.
 */
#ifndef VS_ANALYSIS_OOM_H
#define VS_ANALYSIS_OOM_H

#include "read/trace.h"
#include "read/ooms.h"

enum oom_cause {
    OOM_UNKNOWN,    /* how much the driver had free is not known */
    OOM_TOO_LARGE,  /* the request alone is larger than the device */
    OOM_NOT_ASKED,  /* the framework gave up without a request to the driver: its own limit */
    OOM_FRAGMENTED, /* free memory and the cached pieces that it may have cover the request, but no single one
                       does */
    OOM_SHORT,      /* together they do not cover it */
    OOM_THOUGH_FREE /* the driver had as much free, and refused */
};

struct oom_need {
    enum oom_cause cause;
    int64_t asked;    /* bytes requested from the driver for it, as far as known */
    int64_t returned; /* bytes that it gave back to the driver before it gave up; UNKNOWN */
    int64_t short_by; /* asked - free bytes - returned; UNKNOWN */
    int64_t missing;  /* SHORT: bytes missing even with all cached memory that the request may have */
    int64_t unused;   /* reserved by the framework, outside its blocks */
    int64_t usable;   /* of that, cached and for requests of its size, stream and pool; UNKNOWN */
    /* Figures of the moment of the driver's query; together with free, reserved and returned bytes they add
     * up to the whole device.  All UNKNOWN if the figures are not of one moment. */
    int64_t residual; /* context, modules and unexplained bytes; UNKNOWN */
    int64_t others;   /* other processes' bytes and the driver's own; UNKNOWN */
    int64_t beyond;   /* both together, if only their sum is known; UNKNOWN */
};

/* TOTAL: bytes of the device, UNKNOWN.  USABLE: unused.h. */
struct oom_need oom_need_of(const struct trace_oom_kept *o, int64_t total, int64_t usable);

/* The last out-of-memory that reached the program, on any device; NULL: none. */
const struct trace_oom_kept *oom_last(const struct trace_oom_kept *kept, size_t n);
const struct trace_oom_kept *oom_with_role(const struct trace_oom_kept *kept, size_t n, int64_t role,
                                           int64_t device);

enum { OOM_FIRST = 1, OOM_LAST = 2, OOM_LARGEST = 4, OOM_OPEN = 8 | 16 };
#define OOM_FRAMEWORK 22 /* op */

const char *oom_cause_name(enum oom_cause cause);

#endif
