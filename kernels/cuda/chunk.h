/*
 * chunk.h - chooses how many tokens, and how many classes, are taken at a time, by estimates of the time,
 * which are good for comparing only.  They are seconds on an H200 in bf16.
 */
#ifndef LCE_CUDA_CHUNK_H
#define LCE_CUDA_CHUNK_H

#include <stdbool.h>
#include <stdint.h>

#define LCE_MOST_SCRATCH (UINT64_C(32) << 20) /* for cuBLASLt */

struct lce_chunk_shape {
    int64_t tokens, hidden, vocab;
    int element;      /* bytes of an element of the logits */
    int grad_element; /* bytes of an element of dweight as it is accumulated; 0: dweight is not wanted */
    int grad_input;   /* whether dinput is wanted */
    int processors;   /* multiprocessors of the GPU */
    bool tail;        /* whether some classes do not go through the matrix library: tail.cu */
    bool adds;        /* whether the first chunk, too, adds to dweight */
    bool exponents; /* whether our product makes the logits, as exponentials, beside cuBLASLt's two others */
    bool odds;      /* and these take no pass (odds.cuh) */
    int64_t room;   /* for parts of tiles of our dinput; 0: for all that there can be */
    int64_t borrowed;                /* of the classes, whose dweight no chunk makes (borrow.c) */
    int dinput_width, dweight_width; /* of the tiles of ours, for measuring; 0: the faster one */
    uint64_t budget;                 /* bytes for a chunk and for the matrix library's scratch */
    uint64_t token;                  /* bytes for each token of a chunk */
};

/* Whether a product of m x n sums is so small that it fills the GPU only if each sum is split over several
 * multiprocessors, which needs scratch for partial sums.  Larger products gained at most 2.1 % of the whole
 * by scratch. */
bool lce_worth_splitting(int64_t m, int64_t n, int processors);

/* Seconds of a product [m, n] over k in bf16, with SCRATCH bytes for partial sums. */
double lce_product_seconds(int processors, int64_t m, int64_t n, int64_t k, uint64_t scratch);

/* Seconds of a product that takes ARITHMETIC seconds and adds to its old output, moving TRAFFIC bytes. */
double lce_adding_seconds(double arithmetic, double traffic);

/* The estimated seconds of all chunks of CHUNK tokens: good only for comparing chunks. */
double lce_chunk_seconds(const struct lce_chunk_shape *shape, int64_t chunk);

/* whose.c: the same with the products of product.cu, if all tokens count, and with cuBLASLt's; the two can be
 * compared with each other only. */
double lce_own_seconds(const struct lce_chunk_shape *shape, int64_t chunk);
double lce_their_seconds(const struct lce_chunk_shape *shape, int64_t chunk);

/* Likewise of the dweight of CLASSES whose rows were borrowed, with products of ours: BLOCK tokens by COLUMNS
 * classes at a time, whose logits or odds are made again. */
double lce_own_again_seconds(const struct lce_chunk_shape *shape, int64_t block, int64_t classes,
                             int64_t columns);

/* Likewise of a block of BLOCK tokens by slabs of COLUMNS classes (segments.c). */
double lce_own_block_seconds(const struct lce_chunk_shape *shape, int64_t block,
                             int64_t columns); /* both gradients, from logits */
double lce_own_dinput_seconds(const struct lce_chunk_shape *shape, int64_t block,
                              int64_t columns); /* from odds */
double lce_own_dweight_seconds(const struct lce_chunk_shape *shape, int64_t block,
                               int64_t columns); /* from g, which the product of the logits stores */

/* How much of H each tile of our dinput of N tokens has, and of our dweight of CLASSES: LCE_WIDE or
 * LCE_NARROW (product_split.h). */
int lce_dinput_width(const struct lce_chunk_shape *shape, int64_t n);
int lce_dweight_width(const struct lce_chunk_shape *shape, int64_t classes);

/* How many parts of tiles our dinput of TOKENS stores, if it has room for all that it wants. */
int64_t lce_split_room(int processors, int64_t tokens, int64_t hidden, int64_t vocab);

/* The chunk for the products of product.cu, of at most MOST tokens: as few chunks as possible of at most 2560
 * tokens, as even as tiles allow.  Of at most 2048 if these are not estimated to be slower; of at most 4096
 * where they are estimated to take 3 % less time, as where H is small: each chunk reads and writes dweight.
 */
int64_t lce_own_choose(const struct lce_chunk_shape *shape, int64_t most);

/* The fastest chunk of at most MOST tokens; of equals the smallest.  Candidates are the sizes that were
 * measured (256, 384, 512, 768, ... 2048), and all tokens if there are no more than MOST.  If MOST is below
 * 256 they are multiples of 16; below 128 only MOST itself. */
int64_t lce_chunk_choose(const struct lce_chunk_shape *shape, int64_t most);

/* ---- slab.c: the same for logits that are computed in slabs of classes, twice ---- */

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
