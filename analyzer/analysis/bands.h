/*
 * bands.h - the phases of a plot over time: flattens ranges, which are nested and of several threads, into
 * bands side by side, then fits these to a picture's columns.  A column with several phases has that of its
 * greatest allocated.
 *
 * The phase is that of the thread that opened a range last; when it has none open any more, of the one
 * before it.  Of its ranges markers come before NVTX before automatic ones, and the innermost before the
 * others.  Where no range is open the events' own phases are used (backward under plain LD_PRELOAD), from
 * the first to the last of a run of events with the same phase.  Phase 0 (none) is a gap.
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
