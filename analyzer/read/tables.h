/*
 * tables.h - samples of the driver's figures, costs of contexts and code, libraries' pools, the arena's
 * figures, ranges.  The caller frees the arrays.
 */
#ifndef VS_READ_TABLES_H
#define VS_READ_TABLES_H

#include "trace.h"

struct trace_pool { /* a library's pool as it reported itself, over the run; UNKNOWN: not reported */
    const char *name;
    int64_t answers, used, peak, held; /* the most of each: peak is the library's own counter */
};

struct trace_sample {
    int64_t t, device, driver_used, rss, pinned, reserved;
    const char *source;
};

/* The driver's figure moved by BYTES (UNKNOWN: it was not measured) across a call that allocates nothing. */
enum trace_cost_kind {
    COST_CONTEXT,
    COST_CONTEXT_END, /* ends all costs in the context */
    COST_MODULE,
    COST_MODULE_END,
    COST_LIMIT,
    COST_CODE, /* kernels at their first launch, and what they need */
    COST_STREAM,
    COST_GRAPH,
    COST_PEER
};

struct trace_cost {
    enum trace_cost_kind kind;
    int64_t t, device, bytes;
    int64_t address; /* of the context, the module */
    int64_t context; /* the call's context; 0: not recorded */
};

struct trace_range { /* a range that names a phase; t_pop = UNKNOWN while open */
    int64_t t_push, t_pop, thread;
    int phase;  /* index into phase_names */
    int source; /* 1 marker, 2 NVTX, 3 automatic */
};

struct trace_names {             /* ranges of one name that name no phase */
    const char *name, *domain;   /* domain NULL: none */
    int64_t ranges, ns;          /* ns: their sum; open ranges count up to the last recorded moment */
    int64_t allocated, reserved; /* greatest while one was open */
};

struct trace_arena { /* of a device, as of its last sample at t */
    int64_t device, t;
    int64_t figure[VS_FIGURE_END];
    double calls_per_thousand, last_third_calls_per_thousand; /* NAN: unknown */
};

struct trace_count {
    int64_t device, count;
    const char *phase;
};

int trace_samples(struct trace *t, int64_t device, struct trace_sample **out, size_t *n);
int trace_costs(struct trace *t, struct trace_cost **out, size_t *n); /* of all devices, in order */
bool trace_arena_served(struct trace *t, int64_t device);             /* -1: any device */
int trace_pools(struct trace *t, int64_t device, struct trace_pool **out, size_t *n);
int trace_arenas(struct trace *t, struct trace_arena **out, size_t *n); /* in order of devices */
/* Bytes of physical memory that the program made by itself (cuMemCreate) on the device over the run, and in
 * *OWNER, which the caller frees, the library that made the most; NULL: unknown.  Scans all events. */
int64_t trace_mapped(struct trace *t, int64_t device, char **owner);
/* The ranges that name a phase and were open between two moments. */
int trace_ranges(struct trace *t, int64_t from, int64_t to, struct trace_range **out, size_t *n);
/* Names of ranges that name no phase, the ones with the longest time first; at most MOST.  *COUNT: the number
 * of all names. */
int trace_range_names(struct trace *t, int64_t device, size_t most, struct trace_names **out, size_t *n,
                      int64_t *count);
int64_t trace_other_ranges(struct trace *t); /* how many ranges name no phase */
/* The numbers of successful allocations, by device and phase; scans all events. */
int trace_allocations(struct trace *t, struct trace_count **out, size_t *n);

/* ---- other phases and steps ---- */

/* Lays other phases and steps over the file's own: first those of ranges and marks, which the
 * caller names, then those of events, whose phases a function gives. */
struct trace_relabel_text {
    int64_t id;
    const char *text;
    bool free; /* has a range that a rule may make a phase */
};

typedef int trace_phase_of(void *context, int64_t thread, int64_t seq);
int trace_relabel_begin(struct trace *t, struct trace_relabel_text **names, size_t *n);
int trace_relabel_name(struct trace *t, int64_t name, const char *phase);
int trace_relabel_step(struct trace *t, int64_t name);
int trace_relabel_ranges(struct trace *t, bool steps);
/* What trace_ranges gives, with sequence numbers for times: many events may have the time of a phase's begin.
 */
int trace_relabel_spans(struct trace *t, struct trace_range **out, size_t *n);
/* PHASE gives events' phases (0: as recorded) until DONE frees CONTEXT at trace_close. */
int trace_relabel_events(struct trace *t, trace_phase_of *phase, void *context, void (*done)(void *context));

#endif
