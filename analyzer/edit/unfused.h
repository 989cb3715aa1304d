/*
 * unfused.h - calls of PyTorch's attention that is not fused, and what they make in 16 bits (unfused.c).
 *
 *      calls = unfused_read(program)
 *      ... for each event, where a call's part is born or dies: unfused_bear, unfused_end
 *      unfused_free(&calls)
 */
#ifndef VS_EDIT_UNFUSED_H
#define VS_EDIT_UNFUSED_H

#include "build.h"

struct unfused_call {
    uint32_t first, weights, out; /* blocks: scaled queries, softmax's output, the call's; BLOCK_NEVER */
    uint32_t kept;                /* the copy of the values: a block of the new program; BLOCK_NEVER */
    uint64_t query, key, square;  /* bytes of each */
    uint64_t line;                /* as of struct edit_stack */
    uint16_t layer;
    bool values; /* copied for the last product */
    bool went_back;
    bool narrow; /* its queries were in 16 bits as recorded, under autocast: all it makes is there already */
    bool stays;  /* it will not be fused in 16 bits, either */
};

struct unfused {
    struct unfused_call *calls;
    size_t n;
    uint32_t *of;      /* by block: one more than the number of its call, or of one like it; 0: none */
    uint32_t wides[3]; /* of the call that is under way: blocks of the new program */
};

struct unfused unfused_read(const struct program *p);
void unfused_free(struct unfused *u);

static inline const struct unfused_call *unfused_call_of(const struct unfused *u, uint32_t block)
{
    return u->of[block] ? &u->calls[u->of[block] - 1] : NULL;
}
/* Whether a block is the length's square, or a mask of one. */
bool unfused_is_square(const struct unfused *u, const struct program *p, uint32_t block);

/* Instead of event I, the birth of a block of a call that is made in parts in 16 bits: that block, and what
 * is made beside it. */
void unfused_bear(struct unfused *u, struct build *b, size_t i);
/* Before event I, the death of such a block: what goes with it. */
void unfused_end(struct unfused *u, struct build *b, size_t i);

#endif
