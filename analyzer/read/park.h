/*
 * park.h - what became of optimizer states that were to be parked (run --park): rows of table meta that the
 * shim wrote when it decided, and what table away_block has of them.
 */
#ifndef VS_READ_PARK_H
#define VS_READ_PARK_H

#include "trace.h"

struct trace_park {
    bool decided; /* the next five are known; like none, unforeseen and ended they are the process's */
    int64_t idle, parked;       /* bytes: that lay idle, and that were to go */
    int64_t idle_ns;            /* of a step, by the device's clock, */
    bool from;                  /* or as another recording had it */
    int64_t link;               /* bytes in a second */
    int64_t later_ns;           /* as idle_ns, with the parking; UNKNOWN: too few steps */
    int64_t first_parked;       /* bytes, if more were to go at first; UNKNOWN: they were not */
    int64_t first_waited_ns;    /* for these in a step, and so they became fewer */
    const char *none;           /* why nothing was to go; NULL */
    int64_t unforeseen;         /* uses */
    const char *ended;          /* why nothing goes any more; NULL: it does */
    int64_t out, back;          /* bytes of the device that went, and that came back or were freed there */
    int64_t times;              /* that some went while none was there */
    int64_t waited_ns;          /* by the device's clock, all but the last times; UNKNOWN */
    int64_t spilled, unspilled; /* as out and back, of what went because the device was full */
};

/* FIRST: of the devices; what is the process's is with the first one from which something went, or with this.
 */
int trace_park(struct trace *t, int64_t device, bool first, struct trace_park *out);

/* The optimizer states that --park would look at, of what lived at the device's peak, or at the out-of-memory
 * at OOM_SEQ (UNKNOWN: the peak).  PyTorch told them, they have 2 MiB or more, the device was given them in
 * the optimizer alone, in each of eight steps or more, and no other use may have been missed. */
struct trace_park_forecast {
    int64_t bytes;    /* 0: there are none, or the recording is not of a GPU */
    int64_t every_ns; /* so far apart the host gave them to the device, on average */
};
int trace_park_forecast(struct trace *t, int64_t device, int64_t oom_seq, struct trace_park_forecast *out);

/* What a run of the same program needs to park from its first step on: VRAMSCOPE_PARK_FROM.  NULL: the
 * recording does not know.  The caller frees it. */
char *trace_park_plan(struct trace *t);

#endif
