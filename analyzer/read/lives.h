/*
 * lives.h - everything that happened to a device's memory, in order: its totals after each event, and each
 * block's life with what is known of it.  For who draws single blocks (vramscope view).
 *
 *      changes   t, the totals after it, and the block that was born or died there
 *      blocks    in the order of their births
 *      stacks    the table of call stacks, with each one's line, layer and library as text
 *      asked     what blocks were asked for as: tensors
 *      scopes    ranges with their names and how deep they are nested
 *
 * Times of changes never go back: where threads' clocks disagree with the order of the events, the order
 * counts.  The sizes of the blocks alive after a change add up to its `allocated`, but for what nobody can
 * name: what was held before the recording began, and what lived in folded stretches.
 *
 * Every function gives 0, or -1 with the reason in t->why.  The caller frees the arrays with the function
 * beside each; texts live until trace_close.
 */
#ifndef VS_READ_LIVES_H
#define VS_READ_LIVES_H

#include "trace.h"

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
    uint32_t tensor; /* what it was asked for as: trace_asked.id; 0 not known */
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

struct trace_stack_row {
    int64_t id, parent, frame;
    const char *line, *layer, *owner; /* as in the views; NULL none */
};
struct trace_frame_row {
    int64_t id;
    int64_t kind;            /* enum vs_frame_kind */
    const char *text, *file; /* the function, or module+0xoffset; file with its line, NULL unknown */
};
struct trace_stacks {
    struct trace_stack_row *rows; /* in the order of ids: a parent stands before its children */
    size_t count;
    struct trace_frame_row *frames; /* in the order of ids */
    size_t frame_count;
    char **owned;
    size_t owned_count;
};
int trace_stacks(struct trace *t, struct trace_stacks *out);
void trace_free_stacks(struct trace_stacks *s);
/* The row of stack ID; NULL where the table lacks it. */
const struct trace_stack_row *trace_find_stack(const struct trace_stacks *s, int64_t id);
const struct trace_frame_row *trace_find_frame(const struct trace_stacks *s, int64_t id);

struct trace_asked { /* a row of the table of what blocks were asked for as */
    int64_t id;
    const char *made_for, *element_type, *shape; /* as in struct trace_tensor */
    int64_t request;                             /* bytes; UNKNOWN, and where the block's size is it */
};
/* In the order of ids. */
int trace_asked(struct trace *t, struct trace_asked **out, size_t *n);
const struct trace_asked *trace_find_asked(const struct trace_asked *asked, size_t n, int64_t id);

struct trace_scope {
    int64_t push, pop; /* pop UNKNOWN: open at the end */
    int64_t thread;
    int phase;        /* index into phase_names, 0: it names none */
    int depth;        /* ranges around it on its thread */
    const char *name; /* as the program gave it */
};
/* The MOST that took longest, in the order of their pushes; *TOTAL: how many there are in the file. */
int trace_scopes(struct trace *t, size_t most, struct trace_scope **out, size_t *n, size_t *total);

/* The numbers (process.id) of the file's processes, in order. */
int trace_process_ids(struct trace *t, int64_t **out, size_t *n);

/* Stretches that were folded, one row each. */
struct trace_stretch {
    int64_t from, to, events;
};
int trace_stretches(struct trace *t, struct trace_stretch **out, size_t *n);

#endif
