/* product_args.h - what the host code hands to the products of product.cu. */
#ifndef LCE_CUDA_PRODUCT_ARGS_H
#define LCE_CUDA_PRODUCT_ARGS_H

#include <cuda.h>
#include <stdint.h>

/* A block takes tiles of 128 x 256 sums, over 64 of k at a time; two blocks, one below the other, are a
 * cluster. */
enum {
    LCE_TILE_M = 128,
    LCE_TILE_N = 256,
    LCE_TILE_K = 64,
    LCE_PRODUCT_CLUSTER = 2,
    LCE_PRODUCT_THREADS = 384,
    LCE_PRODUCT_SHARED = 230656, /* bytes of shared memory of a block */
};

/* out[m, n] = beta out + alpha a[m, k] b[k, n].  Either m or k is counted in tokens, of which there are
 * min(*counted - first, tokens), at least 0: the device knows it, the host does not. */
struct lce_own_args {
    CUtensorMap a, b;       /* of the operands, see lce_map_* in product.c */
    CUtensorMap out;        /* where out has 16 bits: boxes of 64 x 64, swizzled */
    void *sums;             /* where out has 32 bits, or parts of tiles that are split, [part][256][256] */
    int64_t sums_stride;    /* from row to row of out of 32 bits */
    const int64_t *counted; /* or NULL: all TOKENS */
    const float *alpha;     /* or NULL: 1 */
    int64_t first;
    int32_t tokens, m, n, k; /* of m and k the one that is counted in tokens is ignored */
    int32_t columns;         /* of 32-bit out, how many may be written: n, or what n was rounded up to */
    int32_t clusters;        /* in the grid */
    int32_t group;           /* tiles of a cluster below each other that are taken side by side */
    int32_t room;            /* parts of tiles that there is room for in sums; 0: none is split */
    int32_t pause;           /* between boxes that are stored or added to, nanoseconds for each 64 of k */
    float beta;
};

/* The rows of a product, to where the caller wants them. */
struct lce_own_rows_args {
    struct lce_own_args product;
    const void *from; /* its out */
    void *to;
    int64_t from_stride, to_stride; /* elements */
    const int32_t *index;           /* or NULL: row r to row r */
};

#endif
