/*
 * memo.h - the estimates that a search has made already.
 *
 * The searches of borrow.c and segments.c ask for the time of the same block by the same slab again and
 * again: where its logits lie changes no time, and each of several ways to begin has the same blocks later.
 * A table keeps each time by what it depends on beside the problem.  Of two times that belong in the same
 * place the later one stays.  Without memory there is no table, and every time is estimated.
 */
#ifndef LCE_CUDA_MEMO_H
#define LCE_CUDA_MEMO_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

enum { LCE_MEMO_BITS = 12 };

struct lce_memo {
    struct lce_memo_entry {
        int64_t block, columns, kind; /* block 0: empty */
        double seconds;
    } entries[1 << LCE_MEMO_BITS];
};

/* To be freed with free(); NULL without memory. */
static inline struct lce_memo *lce_memo_new(void)
{
    return calloc(1, sizeof(struct lce_memo));
}

/* The place of BLOCK tokens (at least 1) by COLUMNS classes of this KIND; *KNOWN: whether its seconds are
 * there.  Where they are not, the caller writes them. */
static inline double *lce_memo_at(struct lce_memo *memo, int64_t block, int64_t columns, int64_t kind,
                                  bool *known)
{
    const uint64_t mixed = ((uint64_t)block * 0x9e3779b97f4a7c15 ^ (uint64_t)columns * 0xc2b2ae3d27d4eb4f ^
                            (uint64_t)kind * 0x165667b19e3779f9) *
                           0x9e3779b97f4a7c15;
    struct lce_memo_entry *e = &memo->entries[mixed >> (64 - LCE_MEMO_BITS)];
    *known = e->block == block && e->columns == columns && e->kind == kind;
    e->block = block;
    e->columns = columns;
    e->kind = kind;
    return &e->seconds;
}

#endif
