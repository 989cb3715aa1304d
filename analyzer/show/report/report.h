/*
 * report.h - the contents of a report, gathered from a trace; text.c and json.c only show them.
 */
#ifndef VS_SHOW_REPORT_REPORT_H
#define VS_SHOW_REPORT_REPORT_H

#include <stdio.h>

#include "analysis/growth.h"
#include "analysis/holders.h"
#include "analysis/residual.h"
#include "analysis/savings.h"
#include "analysis/unused.h"
#include "base/args.h"
#include "base/json.h"
#include "oom.h"
#include "read/curve.h"
#include "read/park.h"
#include "read/trace.h"
#include "read/living.h"
#include "read/steps.h"
#include "read/sweep.h"
#include "read/tables.h"

enum { REPORT_NAMES = 12, MOST_NAMES = 1000 }; /* on a page, in JSON */

struct device_report {
    int64_t device;
    const char *name, *uuid; /* NULL = unknown */
    int64_t total_bytes;     /* that the process could have of the device */
    int64_t own_bytes;       /* that the device has: more, where `run --limit` was given */
    const struct trace_peak *allocated, *reserved, *framework, *direct; /* NULL = unknown */
    int64_t reserved_at_peak;        /* when allocated was greatest; UNKNOWN if thinned */
    int64_t unused_at_peak;          /* reserved - allocated then, but for what was away */
    int64_t away_at_peak, away_most; /* of allocated: on the host, at its peak and at any time */
    struct trace_away_part *away_parts, *away_most_parts; /* of these, by role */
    size_t away_part_count, away_most_count;
    struct trace_park park;
    bool unused_left_out;              /* a moment of these: it would take longer than a report is to take */
    struct unused unused, unused_most; /* at the peak of allocated, and of reserved where that is another */
    int64_t step_at_peak;
    const char *phase_at_peak;
    struct trace_live *live; /* the allocations that lived at the allocated peak */
    size_t live_count;
    struct holder *held; /* its composition */
    size_t held_count;
    int64_t held_bytes;
    struct trace_names *names; /* ranges that name no phase, the longest MOST_NAMES of them */
    size_t name_count;
    int64_t all_names;
    struct growth growth;
    struct savings savings;
    struct causes causes;
    struct residual residual;
    int64_t unseen;         /* memory of this process that no call which was seen asked for (residual.h) */
    const char *unseen_off; /* why that is not known; NULL: it is */
};

/* What a page shows beside the peaks; nothing else is asked of the file. */
enum report_part {
    REPORT_HELD = 1,    /* who held the peak */
    REPORT_UNUSED = 2,  /* what was reserved and not allocated */
    REPORT_GROWTH = 4,  /* from step to step */
    REPORT_SAVINGS = 8, /* bounds on a lower peak, and its causes; needs HELD and GROWTH */
    REPORT_RESIDUAL = 16,
    REPORT_COSTS = 32, /* the parts of the residual */
    REPORT_UNSEEN = 64,
    REPORT_RANGES = 128,  /* ranges that name no phase */
    REPORT_REFUSAL = 256, /* the last request that was refused */
    REPORT_ARENAS = 512,
    REPORT_ALL = 1023
};

struct report {
    struct trace *trace;
    unsigned parts; /* of enum report_part: what was asked for */
    struct device_report *devices;
    size_t device_count;
    struct trace_cost *costs;
    size_t cost_count;
    struct trace_arena *arenas;
    size_t arena_count;
    int64_t lost_events;
    struct oom_report oom;
    const struct choice *choice; /* of rows; NULL: none was made */
};

/* PARTS: of enum report_part.  0, or -1 with the reason in t->why. */
int report_load(struct report *r, struct trace *t, unsigned parts);
#define EVENTS_MOST 3000000 /* what goes through more takes longer than a report is to take */
/* What was reserved and not allocated, however many events are before that. */
int report_take_apart(struct report *r);
void report_free(struct report *r);

/* FULL: call stacks with every frame (stack.h) */
void report_text(const struct report *r, FILE *out, bool exact, bool full);
void report_json(const struct report *r, struct json *j); /* one object */

/* arena.c */
void report_arenas_text(const struct report *r, int64_t device, FILE *out, bool exact);
void report_arenas_json(const struct report *r, int64_t device, struct json *j);
void report_fragmentation_text(const struct device_report *d, FILE *out);
void report_fragmentation_json(const struct device_report *d,
                               struct json *j); /* members of the open object */

/* pools.c: libraries' pools that do not report their use; nothing if there is none */
void report_pools_text(struct trace *t, int64_t device, FILE *out, bool exact);
void report_pools_json(struct trace *t, int64_t device, struct json *j);

/* points.c: the points of a sweep, a row each; and how one ended, "crash, exit 3", which the caller frees */
void report_points_text(const struct trace_sweep_point *points, size_t n, FILE *out, bool exact);
void report_points_json(const struct trace_sweep *s, const char *path, struct json *j);
char *report_point_outcome(const struct trace_sweep_point *p, bool exact);

/* "640.0 MiB of this process on device 0 were allocated by no call that was seen", which the caller frees;
 * NULL: the driver says nothing like it (losses.c). */
char *report_unseen_words(const struct device_report *d);

/* Shared by report and peak (residual.c). */
void report_residual_text(const struct device_report *d, FILE *out, bool exact);
void report_residual_json(const struct device_report *d, struct json *j);

/* Ranges that name no phase, by name (names.c). */
void report_names_text(const struct device_report *d, FILE *out, bool exact);
void report_names_json(const struct device_report *d, struct json *j);

/* What grows from step to step by the line that made it, the one with the most bytes first; of what has no
 * line, by what else is known. G has at least one group.  For report_leaks_free. */
struct report_leak {
    char *place;
    struct growth_group all; /* of the place; phase and stack are those of its largest group, */
    int64_t most;            /* which has so many of the bytes */
};
struct report_leak *report_leaks(struct trace *t, const struct growth *g, size_t *n);
void report_leaks_free(struct report_leak *leaks, size_t n);
/* Growth from step to step, in a sentence: "leak: +1.00 MiB a step since step 2, train.py:41 main". */
/* The text of it; G has at least one group.  The caller frees it. */
char *report_leak_words(struct trace *t, const struct growth *g, bool exact);
void report_leak_text(struct trace *t, const struct growth *g, FILE *out, bool exact);
/* Where a run of steps was not judged, that it was not. */
void report_growth_unknown_text(const struct growth *g, FILE *out);
/* Growth from step to step, shared by report and peak (growth.c); nothing if there is none. */
void report_growth_text(struct trace *t, const struct growth *g, FILE *out, bool exact, bool full);
void report_growth_json(struct trace *t, const struct growth *g, struct json *j);

/* Computes d->causes from the step, savings and growth, which must be loaded (causes.c). */
void report_load_causes(struct trace *t, struct device_report *d, const struct trace_step_memory *m);
/* How much of the peak was on the host; nothing where nothing ever was. */
void report_away_text(const struct device_report *d, FILE *out, bool exact);
void report_away_json(const struct device_report *d, struct json *j);
/* What became of states that were to be parked (park.c); nothing where none were. */
void report_park_text(const struct device_report *d, FILE *out, bool exact);
void report_park_json(const struct device_report *d, struct json *j); /* an object */
void report_causes_text(const struct device_report *d, FILE *out, bool exact);
void report_causes_json(const struct device_report *d, struct json *j); /* an object */

/* Bounds on a lower peak; nothing if unknown. */
void report_savings_text(const struct savings *s, FILE *out, bool exact);
void report_savings_json(const struct savings *s, struct json *j);

/* That no GPU was involved, where none was: a line, in the report of the simulated driver, too; every other
 * page has it of a dry run. */
void report_mark_text(const struct trace *t, FILE *out);
void report_dry_text(const struct trace *t, FILE *out);

/* What was lost, folded or is not proven, and with COMPLETE that nothing was (losses.c). */
void report_losses_text(const struct report *r, FILE *out, bool complete);
void report_losses_json(const struct trace *t, struct json *j);       /* members of the open object */
void report_bounds_text(const struct trace *t, FILE *out);            /* of it, what is too high */
void report_mismatch_text(const struct trace_mismatch *m, FILE *out); /* one kind, a sentence or two */
/* What PART of a page lacks because others' code is not as it was taken for granted (trace_unproven). */
void report_unproven(const struct trace *t, const char *part, int indent, FILE *out);
/* Whether no event was lost, and no call is known to have gone past the recording. */
bool report_is_complete(const struct report *r);
/* Whether a framework's blocks lived at the allocated peak. */
bool report_has_blocks(const struct device_report *d);
/* When a device's allocated peak was: "1.2 s, step 2, in backward"; the caller frees it. */
char *report_peak_where(const struct device_report *d);
/* Why there is no peak: "nothing was ever allocated ..."; NULL: there is one.  The caller frees it. */
char *report_nothing_words(const struct report *r, const struct device_report *d);
/* "43.97 GiB allocated", "at most ...", or what is known of it; the caller frees it. */
char *report_peak_words(const struct report *r, const struct device_report *d, bool exact);

/* Shared by report and peak. */
void report_header_text(const struct report *r, FILE *out, bool exact, bool full);
void report_file_json(const struct trace *t, struct json *j); /* members of the object that is open */
/* What a page of one or SEVERAL files says before and after its devices.  J, or NULL for text: the object of
 * FILE and its list "devices"; in text whose file it is, and how the recording ended. */
void report_file_begin(struct trace *t, const char *file, bool several, struct json *j);
void report_file_end(struct json *j);
/* Under the first table that says "reserved": what that is and, in OTHER, another word of the page. */
void report_words_text(const char *other, FILE *out);
char *report_holder_name(const struct holder *h); /* "blocks made in forward", "direct, libcublasLt.so.13" */

#endif
