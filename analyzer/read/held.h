/*
 * held.h - the most that some blocks held at a time (held.c); which blocks, the caller says by two functions.
 */
#ifndef VS_READ_HELD_H
#define VS_READ_HELD_H

#include "trace.h"

/* Whether a block is one of them follows from its call stack and from the rest; where a part of that was not
 * recorded it may be one. */
enum trace_held_class { HELD_NOT, HELD_MAYBE, HELD_YES };

struct trace_held_by {
    void *context;
    /* LINE, LAYER: NULL where there is none; UNSEEN_LINE, UNSEEN_LAYER: there may be one all the same */
    enum trace_held_class (*stack)(void *context, const char *line, bool unseen_line, const char *layer,
                                   bool unseen_layer);
    /* PHASE: that it was born in.  ROLE: NULL where its use was not followed. */
    enum trace_held_class (*block)(void *context, const char *phase, const char *role);
    bool roles; /* roles are asked for */
};

struct trace_held {
    int64_t blocks;       /* that are certainly of them */
    int64_t most, seq, t; /* of these the most bytes at a time, and the event that reached it */
    int64_t possible;     /* the most with all that may be of them */
};

/* On DEVICE over the whole run.  Looks at every event: the file must not be thinned. */
int trace_held_most(struct trace *t, int64_t device, const struct trace_held_by *by, struct trace_held *out);

#endif
