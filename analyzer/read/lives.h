/*
 * lives.h - everything that happened to a device's memory, in order: its totals after each event, and each
 * block's life.  For who draws single blocks (vramscope view).
 *
 * Times of changes never go back: where threads' clocks disagree with the order of the events, the order
 * counts.  The blocks alive after a change add up to its `allocated`, but for what was held before the
 * recording began and what lived in folded stretches.
 *
 * Every function gives 0, or -1 with the reason in t->why.  The caller frees the arrays with the function
 * beside each; texts live until trace_close.
 */
#ifndef VS_READ_LIVES_H
#define VS_READ_LIVES_H

#include "stacks.h"

enum trace_change_what {
    CHANGE_TOTALS, /* no block: a library's pool was asked, memory was refused */
    CHANGE_BORN,
    CHANGE_DIED,
    CHANGE_FOLDED /* an extreme of a stretch that has no single events, at its moment */
};

struct trace_change {
    int64_t t, allocated, reserved; /* after it */
    uint32_t block;                 /* index into blocks; of BORN and DIED */
    uint32_t what;                  /* enum trace_change_what */
};

struct trace_block {
    int64_t seq;        /* event.seq of its allocation */
    int64_t born, died; /* ns; UNKNOWN: it lives at the end */
    int64_t size;
    uint32_t stack;  /* 0 none */
    uint32_t tensor; /* what it was asked for as: asked.id; 0 not known */
    uint16_t phase;  /* of its birth, index into phase_names */
    uint8_t framework,
        role; /* 1: a caching allocator's block, 0: the driver's own; index into trace_lives.roles */
};

struct trace_use { /* of a block, by the device; UNKNOWN where there was none, or it was not followed */
    int64_t first, last;
};

struct trace_lives {
    struct trace_change *changes;
    size_t change_count;
    struct trace_block *blocks;
    size_t block_count;
    struct trace_use *uses; /* one a block; NULL: uses were not recorded */
    const char *
        *roles; /* what blocks are for; where that is not known, "made in forward", 0: outside any phase */
    size_t role_count;
    bool folded; /* there are changes of what FOLDED */
};

int trace_lives(struct trace *t, int64_t device, struct trace_lives *out);
void trace_free_lives(struct trace_lives *l);

struct trace_scope {
    int64_t push, pop; /* pop UNKNOWN: open at the end */
    int64_t thread;
    int phase;        /* index into phase_names, 0: it names none */
    int depth;        /* ranges around it on its thread */
    const char *name; /* as the program gave it */
};
/* The MOST that took longest, in the order of their pushes; *TOTAL: how many there are in the file. */
int trace_scopes(struct trace *t, size_t most, struct trace_scope **out, size_t *n, size_t *total);

/* Stretches that were folded, one row each. */
struct trace_stretch {
    int64_t from, to, events;
};
int trace_stretches(struct trace *t, struct trace_stretch **out, size_t *n);

#endif
