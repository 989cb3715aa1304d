/*
 * bands.h - which phase to colour when: ranges flattened into bands, then fitted to a picture's columns.
 *
 *      ranges (nested, of several threads)  -->  bands, side by side
 *      --> bands of whole columns; in a column with several phases, the phase of its greatest allocated value
 *
 * Which range tells, where several are open: one of the thread that opened a range last, as long as it has
 * one open, else of the thread that did before it; of that thread's a marker before NVTX before an automatic
 * one, and of those the innermost.  A phase ends with its range.  Events tell the phase only where no range
 * is open: that of a thread (backward under plain LD_PRELOAD), from its first event to its last one in a row.
 * Phase 0 (none) is a gap.
 */
#ifndef VS_ANALYSIS_BANDS_H
#define VS_ANALYSIS_BANDS_H

#include "columns.h"

struct band {
    int64_t from, to;
    int phase;
};

/* RANGES sorted by t_push.  The caller frees the result. */
struct band *bands_flatten(const struct trace_range *ranges, size_t n, int64_t from, int64_t to,
                           size_t *count);

/* One phase per column of C, runs of the same phase as one band.  *MIXED: columns that hold several phases.
 * The caller frees the result. */
struct band *bands_fit(const struct band *bands, size_t n, const struct columns *c, size_t *count,
                       size_t *mixed);

#endif
