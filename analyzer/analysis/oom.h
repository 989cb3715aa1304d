/*
 * oom.h - what an out-of-memory says: the pieces that lay unused, and by how much the request was short.
 *
 * Only what the numbers say: what is not known is UNKNOWN, and no cause is named that does not follow.
 */
#ifndef VS_ANALYSIS_OOM_H
#define VS_ANALYSIS_OOM_H

#include "read/trace.h"

/* The memory that a framework carves blocks from, less the blocks. */
struct oom_gaps {
    int64_t reserved, blocks; /* bytes of either */
    int64_t unused, largest;  /* bytes outside blocks; the largest piece in one */
    int64_t pieces;
    bool mapped; /* virtual memory management: expandable segments */
};

/* The pieces of memory that EVENTS (trace_managed_events, in order) leave; the caller frees them.  *MAPPED:
 * any of them is mapped memory. */
struct trace_span *oom_managed(const struct trace_managed *events, size_t n, size_t *count, bool *mapped);

/* Sorts both. */
struct oom_gaps oom_gaps_of(struct trace_span *memory, size_t n, struct trace_span *blocks, size_t m);

enum oom_cause {
    OOM_UNKNOWN,    /* how much the driver had free is not known */
    OOM_TOO_LARGE,  /* the request alone is larger than the device */
    OOM_NOT_ASKED,  /* the framework gave up without asking the driver: its own limit */
    OOM_FRAGMENTED, /* what was free and what was unused cover the request, but no piece does */
    OOM_SHORT,      /* they do not */
    OOM_THOUGH_FREE /* the driver had as much free, and refused */
};

struct oom_need {
    enum oom_cause cause;
    int64_t asked;    /* of the driver for it, as far as it is known */
    int64_t returned; /* got of the driver for this request, and given back before it gave up; UNKNOWN */
    int64_t short_by; /* asked minus what the driver had free and what was returned; UNKNOWN */
    int64_t missing;  /* SHORT: also if all that the framework held unused had been usable */
    int64_t unused;   /* reserved by the framework, outside its blocks */
    /* Of the moment when the driver was asked what it had free, so that with that, what was reserved and what
     * was returned they are the whole device.  All UNKNOWN where the figures are not of one moment. */
    int64_t residual; /* context, modules and what is not explained; UNKNOWN */
    int64_t others;   /* of other processes, and what the driver keeps for itself; UNKNOWN */
    int64_t beyond;   /* both together, where only their sum is known; UNKNOWN */
};

/* TOTAL: bytes of the device, UNKNOWN. */
struct oom_need oom_need_of(const struct trace_oom_kept *o, int64_t total);

/* The one that ended the matter: the last that reached the program, on whatever device; NULL: none. */
const struct trace_oom_kept *oom_last(const struct trace_oom_kept *kept, size_t n);
const struct trace_oom_kept *oom_with_role(const struct trace_oom_kept *kept, size_t n, int64_t role,
                                           int64_t device);

enum { OOM_FIRST = 1, OOM_LAST = 2, OOM_LARGEST = 4, OOM_OPEN = 8 | 16 };
#define OOM_FRAMEWORK 22 /* op */

const char *oom_cause_name(enum oom_cause cause);

#endif
