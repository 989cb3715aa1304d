/*
 * steps.h - training steps: when they ended, what a step did event by event, and what the steps left
 * behind.
 */
#ifndef VS_READ_STEPS_H
#define VS_READ_STEPS_H

#include "trace.h"

/* One training step of a device, event by event (step.c). */
struct trace_step_point {
    int64_t seq, allocated; /* after the event */
    int phase;
};

struct trace_lifetime {
    int64_t made_seq, freed_seq; /* INT64_MAX: not freed in the step */
    int64_t bytes;
    int made_in, freed_in; /* phases */
    int64_t stack;         /* the call stack that made it; 0: none was taken */
};

struct trace_step_memory {
    int64_t step, first_seq, last_seq; /* UNKNOWN: the file has no whole step around the moment */
    int64_t work_seq; /* its own work ends here: before last_seq in a run's last step; 0: at last_seq */
    const char *why;  /* where the file has no whole step: the reason */
    int64_t before;   /* allocated when the step began */
    struct trace_step_point *points;
    size_t point_count;
    struct trace_lifetime *lifetimes; /* of the allocations that were made or freed in the step */
    size_t lifetime_count;
};

struct trace_step_end { /* a row of `step` */
    int64_t step, t, seq;
};

struct trace_birth { /* an allocation that lives at the end of the last step */
    int64_t step;    /* index of the step that made it, from 0 */
    int64_t size, phase, stack, op, space;
};

/* The number of the step that the moment WHEN belongs to, from 1; UNKNOWN: there are no steps. */
int64_t trace_step_at(struct trace *t, int64_t when);
/* The time of steps FIRST to LAST: from the end of the step before (of step 1: from its first range) to the
 * end of LAST.  False: the recording has no such steps. */
bool trace_step_span(struct trace *t, int64_t first, int64_t last, int64_t *from, int64_t *to);
/* Reads the step that contains event SEQ, from the end of the step before (of step 1: from its first
 * range). */
int trace_step_memory(struct trace *t, int64_t device, int64_t seq, struct trace_step_memory *out);
void trace_free_step_memory(struct trace_step_memory *m);
/* The ends of the steps after the last folded one, in order.  The caller frees the array. */
int trace_step_ends(struct trace *t, struct trace_step_end **out, size_t *n);
/* The allocations that were made in these STEPS, count in the device's totals and live at the end of the last
 * step.  The caller frees the array. */
int trace_births(struct trace *t, int64_t device, const struct trace_step_end *steps, size_t n,
                 struct trace_birth **out, size_t *count);
/* How many steps ended after the moment WHEN; of a folded stretch around it none is counted. */
int64_t trace_steps_after(struct trace *t, int64_t when);

#endif
