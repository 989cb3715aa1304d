/*
 * curve.h - a device's totals over the run and at a moment, what each event did to them, and which of the
 * run's events the file still has one by one.
 */
#ifndef VS_READ_CURVE_H
#define VS_READ_CURVE_H

#include "trace.h"

struct trace_point { /* the device's totals over [t, t_last]; one event, or a stretch of them */
    int64_t t, t_last, t_max;
    int64_t allocated_min, allocated_max, allocated_last;
    int64_t reserved_min, reserved_max, reserved_last;
    int phase;               /* of the maximum; index into phase_names */
    bool folded;             /* no single events are behind it */
    int64_t away, away_last; /* of allocated_max and allocated_last: on the host */
};

/* Passes the device's curve over [FROM, TO] to VISIT, in no particular order, as stretches no longer than
 * COARSE ns or as single events.  *BEFORE gets the totals at FROM. */
typedef void trace_visit(void *context, const struct trace_point *point);
int trace_curve(struct trace *t, int64_t device, int64_t from, int64_t to, int64_t coarse,
                struct trace_point *before, trace_visit *visit, void *context);

struct trace_away { /* of what is allocated on a device BYTES are on the host, from event SEQ on */
    int64_t seq, t, bytes;
};

/* In order; there are none where nothing ever was away.  The caller frees them. */
int trace_aways(struct trace *t, int64_t device, struct trace_away **out, size_t *n);
/* Of these what holds after an event, and at a moment. */
int64_t trace_aways_after(const struct trace_away *aways, size_t n, int64_t seq);
int64_t trace_aways_at(const struct trace_away *aways, size_t n, int64_t t);
/* The same asked of the file: after event SEQ, and the most at any time. */
int64_t trace_away_after(struct trace *t, int64_t device, int64_t seq);
int64_t trace_away_most(struct trace *t, int64_t device);

/* What of it is on the host for the same reason and has the same role. */
struct trace_away_part {
    const char *role; /* NULL: unknown */
    const char *why;  /* "parked", "suspended", "spilled" */
    bool all;         /* all that the arena has given: then it is the only one */
    int64_t bytes;    /* of the blocks alone, without the rest of their chunks */
};
typedef void trace_away_visit(void *context, size_t i, const struct trace_away_part *parts, size_t n);
/* After each of the COUNT events SEQS, which are in order: the I-th and its parts, the most bytes first. */
int trace_each_away(struct trace *t, int64_t device, const int64_t *seqs, size_t count,
                    trace_away_visit *visit, void *context);
/* "optimizer state, parked; activation, spilled", WITH bytes where there are several; "" of none.  The caller
 * frees it. */
enum trace_away_bytes { AWAY_WORDS, AWAY_BYTES, AWAY_EXACT };
char *trace_away_words(const struct trace_away_part *parts, size_t n, enum trace_away_bytes with);
/* After event SEQ; the caller frees it. */
int trace_away_parts(struct trace *t, int64_t device, int64_t seq, struct trace_away_part **out, size_t *n);
/* Those words, where they are the same at all times at which anything was away; else NULL.  The caller frees
 * it. */
char *trace_away_always(struct trace *t, int64_t device);
/* The event after which most was away; 0: nothing ever was. */
int64_t trace_away_most_seq(struct trace *t, int64_t device);

struct trace_total { /* of a device after an event */
    int64_t seq, t, allocated;
};

/* The device's total after each of its events that has a row, in order; scans all events. */
int trace_totals(struct trace *t, int64_t device, struct trace_total **out, size_t *n);
/* The device's allocated total after event SEQ. */
int64_t trace_allocated_at(struct trace *t, int64_t device, int64_t seq);
/* Reserved bytes of DEVICE after event SEQ, whatever that was. */
int64_t trace_reserved_after(struct trace *t, int64_t device, int64_t seq);
struct trace_then { /* a device's totals after an event, or after the last one before it that is in the file
                     */
    int64_t framework, direct, reserved;
    int64_t away; /* of framework and direct: on the host, and not in reserved */
    bool found;   /* the event is in the file */
};
int trace_then(struct trace *t, int64_t device, int64_t seq, struct trace_then *out);
/* The most that was allocated together with what the driver held for CUDA graphs' memory nodes, which no call
 * allocates: BYTES, of which GRAPHS are theirs alone, after event SEQ. */
struct trace_with_graphs {
    int64_t bytes, graphs, seq, t;
};
int trace_most_with_graphs(struct trace *t, int64_t device, struct trace_with_graphs *out);
/* What a framework asks of the driver is free before it hands it out: the number of its first block after
 * event SEQ, where reserved is still the same; else SEQ. */
int64_t trace_handed_out(struct trace *t, int64_t device, int64_t seq);
/* The last event up to the moment WHEN; UNKNOWN. */
int64_t trace_last_seq(struct trace *t, int64_t when);
/* The last event after event AFTER, up to event UPTO, that allocated memory on any device; UNKNOWN: none. */
int64_t trace_last_birth(struct trace *t, int64_t after, int64_t upto);
/* The device's phase when its allocated peak was reached. */
const char *trace_phase_at_peak(struct trace *t, int64_t device);
/* Whether all events between two numbers have rows. */
bool trace_all_events(struct trace *t, int64_t first_seq, int64_t last_seq);
/* Finds a folded stretch that overlaps the time between two moments, or contains a step; gives its steps. */
bool trace_folded_at(struct trace *t, int64_t from, int64_t to, int64_t *first_step, int64_t *last_step);
bool trace_step_folded(struct trace *t, int64_t step, int64_t *first_step, int64_t *last_step);

#endif
