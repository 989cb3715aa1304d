/*
 * blocks.h - the blocks that a framework's caching allocator handed out on a device, with what is known of
 * each, and what happened to them in order.  For who replays a changed program (edit/).
 *
 * Unlike a tape (tape.h) it has no addresses and nothing that was asked of the driver, but phases, call
 * stacks, roles and the ends of steps.
 */
#ifndef VS_READ_BLOCKS_H
#define VS_READ_BLOCKS_H

#include "asked.h"
#include "trace.h"

#define BLOCK_NEVER UINT32_MAX

struct trace_made {
    int64_t seq;         /* event.seq of its allocation */
    uint64_t size;       /* bytes, as large as the allocator made it */
    uint32_t stack;      /* 0 none */
    uint32_t asked;      /* what for: index into asked.at */
    uint32_t born, died; /* index into moments; BLOCK_NEVER: it lives at the end */
    uint16_t stream;     /* in the order in which they were seen */
    uint8_t role;        /* what PyTorch said: 1 parameter, 2 gradient, 3 state, 4 buffer; 0 nothing */
};

enum trace_moment_what {
    MOMENT_BORN,
    MOMENT_DIED,
    MOMENT_REUSABLE,
    MOMENT_STEP,
    MOMENT_REFUSED,
    MOMENT_EMPTIED, /* the program called empty_cache() */
    MOMENT_PHASE    /* a phase begins: in an edited program alone (edit/program.h) */
};
struct trace_moment {
    uint32_t block; /* of BORN, DIED and REUSABLE; of REFUSED: index into refusals */
    uint16_t phase; /* index into phase_names */
    uint8_t what;
    bool deferred; /* DIED: REUSABLE follows when other streams are done with it */
};

struct trace_refusal { /* the allocator gave up */
    int64_t seq, t;
    uint64_t size, limit; /* asked for; of the allocator then, 0: none is known */
    uint32_t stack;
};

struct trace_blocks {
    struct trace_made *blocks; /* in the order of their births */
    size_t block_count;
    struct trace_moment *moments;
    size_t moment_count;
    struct trace_refusal *refusals;
    size_t refusal_count;
    struct asked_table asked;
    uint64_t limit;       /* of the allocator, as it was last set */
    int64_t steps, roles; /* how many ends of steps, blocks with a role there are */
};

/* 0, or -1 with t->why.  What a framework held before the recording is in no block. */
int trace_blocks(struct trace *t, int64_t device, struct trace_blocks *out);
void trace_free_blocks(struct trace_blocks *b);

#endif
