/*
 * columns.h - the columns of a picture over time: the curve, its phases, and what it was made of.
 */
#ifndef VS_ANALYSIS_COLUMNS_H
#define VS_ANALYSIS_COLUMNS_H

#include "read/trace.h"
#include "read/curve.h"
#include "read/tables.h"
#include "trace/roles.h"

struct column {
    int64_t allocated_min, allocated_max, allocated_last, reserved_min, reserved_max, reserved_last;
    int64_t t_last;              /* of the last point seen */
    int64_t t_max;               /* of the greatest allocated */
    int64_t away, away_last;     /* of the greatest (the most there) and the last allocated: on the host */
    int phase;                   /* there */
    int first_phase, last_phase; /* of the first and the last point that fell into it */
    int named;                   /* phase of the greatest point that has one; 0: none */
    int64_t t_first;             /* of the first point */
    int64_t named_max;
    bool any;    /* a point fell into it */
    bool folded; /* part of a folded stretch is in it */
    bool band;   /* and reaches beyond it: only these bounds are known */
    int64_t band_allocated[2], band_reserved[2];
    int64_t band_t; /* of band_allocated[1], as is the next */
    int64_t band_away;
    int band_phase;
};

struct columns {
    int64_t from, to;
    size_t n;
    struct column *at;
    int before; /* phase of the last point before `from` */
};

/* A curve is reduced without hiding a peak: each column keeps the minimum and the maximum in it, including
 * the value carried in from the left.  Points may come in any order and more than once.  Of a folded stretch
 * only its extremes and the time of its maximum are known: where it covers several columns each shows the
 * least and the greatest value that the curve can have had there, and is marked (band). */
void columns_init(struct columns *c, int64_t from, int64_t to, size_t n);
void columns_free(struct columns *c);
/* A trace_visit: CONTEXT is the struct columns. */
void columns_add(void *context, const struct trace_point *p);
/* Carries values to the right; BEFORE has the totals at `from`.  Call it once, after the last point. */
void columns_finish(struct columns *c, const struct trace_point *before);

/* Column of moment T, clamped; left edge of column I (I = n: the right end). */
size_t columns_index(const struct columns *c, int64_t t);
int64_t columns_edge(const struct columns *c, size_t i);
/* Index of the column with the greatest allocated. */
size_t columns_peak(const struct columns *c);
int64_t columns_max_reserved(const struct columns *c);
/* Whether in some column a part of allocated was away. */
bool columns_any_away(const struct columns *c);

/* ---- phases ---- */

/* The phases of a plot over time: flattens ranges, which are nested and of several threads, into
 * bands side by side, then fits these to a picture's columns.  A column with several phases has that of its
 * greatest allocated.
 *
 * The phase is that of the thread that opened a range last; when it has none open any more, of the one
 * before it.  Of its ranges markers come before NVTX before automatic ones, and the innermost before the
 * others.  Where no range is open the events' own phases are used (backward under plain LD_PRELOAD), from
 * the first to the last of a run of events with the same phase.  Phase 0 (none) is a gap. */
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

/* ---- what allocated was made of ---- */

/* What allocated memory was made of in each column of a picture, at the column's greatest
 * value: by role, or by the phase of the blocks' births.
 *
 * Each event's change of the total goes to the group of its block, so the groups sum to the column's
 * greatest allocated.  Group 0 is the rest, of which nothing is known. */
enum composition_by { COMPOSITION_NONE, COMPOSITION_ROLE, COMPOSITION_PHASE };

struct composition {
    size_t groups; /* 0: none was made */
    int64_t *at;   /* [column * groups + group], bytes */
};

/* An enum vs_role, or where none is told one of COMPOSITION_MADE words for the phase that made it. */
enum { COMPOSITION_MADE = 7, COMPOSITION_ROLES = VS_ROLE_COUNT + COMPOSITION_MADE };
/* "activation", "made in forward"; 0 "not told". */
const char *composition_role(size_t group);

/* NULL, or why T has no composition: what would have to be read is not in the file, or is too much. */
const char *composition_none(const struct trace *t);

/* Fills C for COLUMNS of DEVICE; 0, or -1 with t->why.  BY phase: GROUP_OF_PHASE says the group of each of
 * t->phase_names, below GROUPS. */
int composition_load(struct composition *c, struct trace *t, int64_t device, const struct columns *columns,
                     enum composition_by by, const size_t *group_of_phase, size_t groups);
/* The most that GROUP has in any of COLUMNS columns; 0: it never comes. */
int64_t composition_most(const struct composition *c, size_t columns, size_t group);
void composition_free(struct composition *c);

#endif
