/*
 * columns.h - reduces a curve to the columns of a picture without hiding a peak: each keeps the minimum and
 * the maximum in it, including the value carried in from the left.  Points may come in any order and more
 * than once.
 *
 * Of a folded stretch only its extremes and the time of its maximum are known: where it covers several
 * columns each shows the least and the greatest value that the curve can have had there, and is marked
 * (band).
 */
#ifndef VS_ANALYSIS_COLUMNS_H
#define VS_ANALYSIS_COLUMNS_H

#include "read/trace.h"
#include "read/curve.h"

struct column {
    int64_t allocated_min, allocated_max, allocated_last, reserved_min, reserved_max, reserved_last;
    int64_t t_last;              /* of the last point seen */
    int64_t t_max;               /* of the greatest allocated */
    int phase;                   /* there */
    int first_phase, last_phase; /* of the first and the last point that fell into it */
    int named;                   /* phase of the greatest point that has one; 0: none */
    int64_t t_first;             /* of the first point */
    int64_t named_max;
    bool any;    /* a point fell into it */
    bool folded; /* part of a folded stretch is in it */
    bool band;   /* and reaches beyond it: only these bounds are known */
    int64_t band_allocated[2], band_reserved[2];
    int64_t band_t; /* of band_allocated[1] */
    int band_phase;
};

struct columns {
    int64_t from, to;
    size_t n;
    struct column *at;
    int before; /* phase of the last point before `from` */
};

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

#endif
