/*
 * bands.h - the phases of a plot over time: flattens ranges into bands, then fits these to a picture's
 * columns.
 *
 *      ranges (nested, of several threads)  -->  bands, side by side
 *      --> bands of whole columns; in a column with several phases, the phase of its greatest allocated value
 *
 * If several ranges are open, the phase is that of the thread that opened a range last.  When that thread has
 * none open any more, it is that of the thread that opened one before it.  Of that thread's ranges markers
 * come before NVTX before automatic ones, and the innermost before the others.  A phase ends with its range.
 * Where no range is open the events' own phases are used (backward under plain LD_PRELOAD), from the first to
 * the last of a run of events with the same phase.  Phase 0 (none) is a gap.
 */
#ifndef VS_ANALYSIS_BANDS_H
#define VS_ANALYSIS_BANDS_H

#include "columns.h"
#include "read/tables.h"

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
