/*
 * lives.h - the blocks of a snapshot with their ends, and the spans of its phases: entries in a row during
 * which one phase is open, or none.  Entries count from 1 in the order of all devices; 0 is before the trace.
 */
#ifndef VS_IMPORT_LIVES_H
#define VS_IMPORT_LIVES_H

#include "phases.h"
#include "rewind.h"

/* What the frames of a call stack say of the blocks that were made, or freed, below them (marks.c). */
enum mark {
    MARK_OPTIMIZER = 1, /* inside of an optimizer's step */
    MARK_STATE =
        2, /* in _init_group, where PyTorch's optimizers make their states and nothing else that stays */
    MARK_ZEROED = 4,     /* PyTorch's zero_grad itself runs, and nothing that it calls */
    MARK_MODULE = 8,     /* a module's call is under way */
    MARK_BACKWARD = 16,  /* backward is */
    MARK_MOVED = 32,     /* Module._apply is: to(), cuda(), half() */
    MARK_BUILT = 64,     /* a constructor of torch.nn's own modules asked for it */
    MARK_WORKSPACE = 128 /* a library's handle got its workspace (native frames alone say so) */
};

struct stack_marks {
    uint8_t bits;   /* a sum of enum mark */
    uint64_t place; /* of MOVED and BUILT: equal where the same line of PyTorch's code asked */
    uint32_t line;  /* of MOVED: that line of _apply */
};

/* By stack - 1; the caller frees it. */
struct stack_marks *marks_read(const struct snapshot *s);

#define LIFE_STAYS UINT32_MAX /* died: it was there when the snapshot was taken */

struct life {
    uint64_t size;
    uint32_t stack, freed_by;  /* stacks, 0 none */
    uint32_t born, died;       /* entries; born 0: it was there before the first */
    uint32_t born_in, died_in; /* spans; of one that stays the last */
    uint8_t device;
    uint8_t rule; /* enum vs_life_rule, 0 none yet */
};

struct span {
    enum import_phase phase;
    uint32_t first,
        last; /* entries whose own stack shows the phase: allocations, and frees where those have stacks */
    uint32_t until; /* the last entry that is the phase's own: an allocation in it, or the free of what it
                       made; in backward also of what the phase before it made */
    uint32_t next[IMPORT_PHASES]; /* the first span of each phase behind it; span_count where none is */
};

struct lives {
    const struct snapshot *s;
    const struct phases *phases;
    struct stack_marks *marks;
    struct life *at;
    size_t n;
    struct span *spans;
    size_t span_count;
    uint32_t *of_entry[SNAPSHOT_DEVICES]; /* by the trace's entry: the life that an allocation begins */
    uint32_t *of_block[SNAPSHOT_DEVICES]; /* by the block that was there before the trace */
    bool frees_told; /* frees have the stack of the free, so that it is known what was running */
    bool refused;    /* the trace's last entry is a refusal */
};

/* The device whose next entry is the earliest, where AT[d] says which is next of device d; -1: none is left.
 */
int lives_next(const struct snapshot *s, const size_t *at);

void lives_read(struct lives *l, const struct snapshot *s, const struct rewound *start,
                const struct phases *phases);
void lives_free(struct lives *l);

static inline struct stack_marks lives_marks(const struct lives *l, uint32_t stack)
{
    return stack ? l->marks[stack - 1] : (struct stack_marks){0};
}

/* Whether the free of X, or its allocation, is known to have happened while PHASE was under way. */
bool lives_freed_in(const struct lives *l, const struct life *x, enum import_phase phase);
bool lives_born_in(const struct lives *l, const struct life *x, enum import_phase phase);

#endif
