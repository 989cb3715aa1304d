/*
 * residual.h - what the process uses by the driver's own figure, beyond what it requested of the driver.
 *
 *      driver used = reserved + residual
 *      residual    = measured (contexts, limits, code, streams, graphs, peers)
 *                  + inferred (only where no context's cost was measured) + unexplained
 */
#ifndef VS_ANALYSIS_RESIDUAL_H
#define VS_ANALYSIS_RESIDUAL_H

#include "read/trace.h"
#include "read/tables.h"

enum residual_part {
    PART_CONTEXT, /* the contexts that lived then */
    PART_LIMIT,   /* stack, heap, fifo: cuCtxSetLimit */
    PART_CODE,    /* kernels and static data, loaded at first use; the kernels' local memory */
    PART_STREAM,
    PART_GRAPH,
    PART_PEER,
    RESIDUAL_PARTS
};

/* Measured is what the driver's figure moved by across a call (events context_create, module_load, limit,
 * overhead), while the context, or the module, lives.  Inferred is what the first sample shows beyond
 * everything else.  Unexplained is the rest, and may be negative.  All figures of a moment are from one
 * sample of the best source: of this process alone or, where there is none, of the whole device; the residual
 * is then an upper bound that includes other processes. */
struct residual_moment {
    int64_t t, driver_used, reserved, residual;
    int64_t parts[RESIDUAL_PARTS]; /* measured */
    int64_t inferred;              /* contexts and code at the first sample; UNKNOWN: measured or gone */
    int64_t unexplained;
};

struct residual {
    bool known;        /* there are samples */
    bool whole_device; /* the source counts every process on the device */
    const char *source;
    struct residual_moment fullest, last;
    int64_t unmeasured;  /* calls whose cost is unknown, and so part of unexplained */
    int64_t rss, pinned; /* greatest seen in any sample */
};

struct residual residual_of(const struct trace_sample *samples, size_t n, const struct trace_cost *costs,
                            size_t cost_count);
/* The source whose figures are closest to this process's own; NULL: there is none.  Figures of another source
 * measure something else. */
const char *residual_best_source(const struct trace_sample *samples, size_t n);
/* "NVML, this process" ... */
const char *residual_source(const char *source);
/* "context", "code" ... */
const char *residual_part_name(enum residual_part part);

/* ---- beyond both ---- */

/* The driver as a witness: memory of this process that no call which was seen asked for.
 *
 *      unseen = what the driver says this process uses - reserved - all that calls were measured to take
 *
 * It is said where it is more than 64 MiB and 1 % of the process's memory, and can be nothing else.  A
 * sample may stand between a call and its event: what is recorded within the ten seconds behind it counts
 * as there, and of two samples the greater reserved.  Managed and imported memory may lie on the device or
 * not: at its peak it is taken off. */
/* *BYTES: unseen memory on DEVICE, 0 where there is none.  *OFF: why nobody can tell, NULL where the driver's
 * figure tells.  0, or -1 with the reason in t->why. */
int unseen_load(struct trace *t, int64_t device, int64_t *bytes, const char **off);

#endif
