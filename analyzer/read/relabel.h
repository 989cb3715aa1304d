/*
 * relabel.h - lays other phases and steps over the file's own: first those of ranges and marks, which the
 * caller names, then those of events, whose phases a function gives.
 */
#ifndef VS_READ_RELABEL_H
#define VS_READ_RELABEL_H

#include "tables.h"

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
