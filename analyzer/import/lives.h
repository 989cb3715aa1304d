/*
 * lives.h - the blocks of a snapshot with their ends, and the stretches of its phases.
 *
 * A span is what convert.c makes one range of: entries in a row during which one phase is open, or none.
 * Entries count from 1 in the order of all devices; 0 is before the trace.
 */
#ifndef VS_IMPORT_LIVES_H
#define VS_IMPORT_LIVES_H

#include "marks.h"
#include "rewind.h"

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
