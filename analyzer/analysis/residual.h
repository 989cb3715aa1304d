/*
 * residual.h - what the driver says the process uses beyond what was asked of it: shown, never hidden.
 *
 *      driver used = reserved + residual
 *      residual    = what was measured (contexts, limits, code, streams, graphs, peers)
 *                  + what is inferred (only where no context's cost was measured)
 *                  + unexplained
 *
 * Measured: the recorder asked for the driver's figure before and after a call; the difference is the call's
 * cost (events context_create, module_load, limit, overhead).  It counts while the context, or the module,
 * lives.  Inferred: where nobody could ask in time at a context's creation, what the first sample shows
 * beyond everything else.  Unexplained is always the rest, and may be negative.
 *
 * Two moments: the one when the device was fullest by the driver's figure, which is what running out of
 * memory is about, and the last.  Every figure of a moment is from one sample.  Only samples of the source
 * that says most are used: of this process alone where it was ever asked, else of the whole device, and then
 * the residual is an upper bound, with other processes in it.
 */
#ifndef VS_ANALYSIS_RESIDUAL_H
#define VS_ANALYSIS_RESIDUAL_H

#include "read/trace.h"

enum residual_part {
    PART_CONTEXT, /* of contexts that lived then */
    PART_LIMIT,   /* stack, heap, fifo: cuCtxSetLimit */
    PART_CODE,    /* kernels and static data, loaded at first use; the kernels' local memory */
    PART_STREAM,
    PART_GRAPH,
    PART_PEER,
    RESIDUAL_PARTS
};

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
    int64_t unmeasured;  /* calls whose cost is not known: it is in unexplained */
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

#endif
