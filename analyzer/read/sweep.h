/*
 * sweep.h - the points of the sweep that a file is of: settings, outcomes, what each took on its ranks and
 * what was predicted.
 */
#ifndef VS_READ_SWEEP_H
#define VS_READ_SWEEP_H

#include "trace.h"

struct trace_sweep_rank { /* a process of a point, where it reserved most; UNKNOWN, NAN: not known */
    int64_t process, rank;
    int64_t allocated, reserved;
    int64_t framework_allocated, framework_reserved; /* of the framework's allocator */
    double rate;                                     /* steps a second, without the first */
};

struct trace_sweep_point {                  /* of a sweep; UNKNOWN: not known */
    const char *name, *outcome, *status;    /* outcome NULL: not run */
    const char **values;                    /* of each axis; NULL: it has none */
    int64_t ns, expected, recorded;         /* processes */
    int64_t refused;                        /* of the request that ended an oom */
    int64_t allocated, reserved;            /* the most that a process of it held on a device */
    int64_t predicted_allocated, predicted; /* by the framework's allocator; predicted: reserved */
    int64_t predicted_rank;                 /* whose that is */
    bool fitted;                            /* the predictions were made of this point among others */
    struct trace_sweep_rank *ranks;
    size_t rank_count;
};

struct trace_sweep { /* its texts are the trace's */
    const char **axes;
    size_t axis_count;
    struct trace_sweep_point *points;
    size_t n;
};

/* All points of the sweep that the file is of, none where it is of no sweep (points.c); what it made is freed
 * also where it failed. */
int trace_sweep_load(struct trace *t, struct trace_sweep *out);
void trace_sweep_free(struct trace_sweep *s);
bool trace_sweep_point_missing(
    const struct trace_sweep_point *p); /* not run, or not every process has a recording */
/* Whether it has the table of points that `vramscope sweep` leaves. */
bool trace_is_sweep(struct trace *t);

#endif
