/* slab.h - how many tokens by how many classes to take at a time, where the logits are computed twice. */
#ifndef LCE_CUDA_SLAB_H
#define LCE_CUDA_SLAB_H

#include <stdbool.h>
#include <stdint.h>

enum {
    LCE_SLAB_UNIT = 64
}; /* a slab's classes are a multiple of it, so that its rows begin at cache lines */

struct lce_slab_shape {
    int64_t tokens, hidden, vocab;
    int element;       /* bytes of an element of the logits */
    int input_element; /* of input and weight */
    int grad_element;  /* of dweight as it is accumulated; 0 where there is none */
    bool grad_input, gradients;
    int processors; /* multiprocessors of the GPU */
    double slower;  /* how much longer than in bf16 a product takes */
};

/* Blocks of BLOCK tokens, slabs of COLUMNS classes.  As many columns as classes: not cut, so computed once.
 */
struct lce_slab_choice {
    int64_t block, columns; /* 0 where nothing fits */
    double seconds;
};

/* Bytes of the workspace with these. */
typedef uint64_t lce_slab_size(void *context, int64_t block, int64_t columns);

/* Seconds that all blocks are estimated to take: good for comparing, for nothing else. */
double lce_slab_seconds(const struct lce_slab_shape *shape, int64_t block, int64_t columns);

/* The same, not cut, with the logits in the rows of dweight of the last BORROWED classes, whose own dweight
 * is made in slabs of COLUMNS at the end: borrow.c. */
double lce_borrow_seconds(const struct lce_slab_shape *shape, int64_t block, int64_t borrowed,
                          int64_t columns);

/* The fastest that is cut and fits the budget; with BLOCK tokens unless that is 0. */
struct lce_slab_choice lce_slab_choose(const struct lce_slab_shape *shape, int64_t block, lce_slab_size *size,
                                       void *context, uint64_t budget);

#endif
