/* slab.h - chooses the numbers of tokens and classes at a time when logits are computed twice (slab.c). */
#ifndef LCE_CUDA_SLAB_H
#define LCE_CUDA_SLAB_H

#include <stdbool.h>
#include <stdint.h>

enum {
    LCE_SLAB_UNIT = 64
}; /* the number of a slab's classes is a multiple of this, so that its rows begin at cache lines */

struct lce_slab_shape {
    int64_t tokens, hidden, vocab;
    int element;       /* bytes of an element of the logits */
    int input_element; /* of input and weight */
    int grad_element;  /* of dweight as it is accumulated; 0: dweight is not wanted */
    bool grad_input, gradients;
    int processors; /* multiprocessors of the GPU */
    double slower;  /* the time of a product relative to bf16 */
};

/* Blocks of BLOCK tokens, slabs of COLUMNS classes.  With as many columns as classes the logits are not cut,
 * and
 * computed once. */
struct lce_slab_choice {
    int64_t block, columns; /* 0: nothing fits */
    double seconds;
};

/* Bytes of the workspace with this choice. */
typedef uint64_t lce_slab_size(void *context, int64_t block, int64_t columns);

/* The estimated seconds of all blocks: good only for comparing. */
double lce_slab_seconds(const struct lce_slab_shape *shape, int64_t block, int64_t columns);

/* Likewise of one block. */
double lce_block_seconds(const struct lce_slab_shape *shape, int64_t block, int64_t columns);

/* Likewise, without slabs, if the logits lie in the rows of dweight of the last BORROWED classes, and
 * without these classes' own dweight (borrow.c). */
double lce_borrow_seconds(const struct lce_slab_shape *shape, int64_t block, int64_t borrowed);

/* Likewise of the dweight of CLASSES alone, in slabs of COLUMNS, with their logits made again. */
double lce_again_seconds(const struct lce_slab_shape *shape, int64_t block, int64_t classes, int64_t columns);

/* The next size to try below COUNT: powers of two, and halves more. */
int64_t lce_next_below(int64_t count);

/* The fastest choice with slabs that fits the budget. */
struct lce_slab_choice lce_slab_choose(const struct lce_slab_shape *shape, lce_slab_size *size, void *context,
                                       uint64_t budget);

#endif
