/* product_args.h - the arguments of the products of product.cu. */
#ifndef LCE_CUDA_PRODUCT_ARGS_H
#define LCE_CUDA_PRODUCT_ARGS_H

#include <cuda.h>
#include <stdint.h>

#include "args.h"
#include "product_split.h"

/* A block of dinput computes tiles of 128 x 256 sums, or 128 x 192, 64 of k at a time; two blocks, one below
 * the other, form a cluster. */
enum {
    LCE_TILE_M = 128,
    LCE_TILE_N = LCE_WIDE,
    LCE_TILE_K = 64,
    LCE_PRODUCT_CLUSTER = 2,
    LCE_PRODUCT_THREADS = 384,
    LCE_PRODUCT_SHARED = 230656, /* bytes of shared memory of a block */
    /* product_turns.cuh: a block's tile is so many times 64 sums high and wide. */
    LCE_LOGITS_DOWN = 2,
    LCE_LOGITS_RIGHT = 3,
    LCE_DWEIGHT_DOWN = 3,
    LCE_DWEIGHT_RIGHT = 2,
    LCE_TURN_STAGES = 4,
};

/* A tile that is added to sums in memory has at most two parts, since they are added one after the other. */
enum { LCE_TWO_PARTS = -1 };

/* out[m, n] = beta out + alpha a[m, k] b[k, n].  Either m or k is a number of tokens, min(*counted - first,
 * tokens) or at least 0, which only the device knows. */
struct lce_own_args {
    CUtensorMap a, b;    /* of the operands, see maps() in product.c */
    CUtensorMap out;     /* 64 rows of 128 bytes, swizzled */
    void *sums;          /* out, if it has 32 bits; or parts of dinput's split tiles, [part][256][256] */
    int64_t sums_stride; /* from row to row of a 32-bit out */
    int32_t *order;      /* of sums over slabs, four numbers a tile: how many parts were added; 0 between */
    const int64_t *counted; /* or NULL: all TOKENS */
    const float *alpha;     /* or NULL: 1 */
    int64_t first;
    int32_t tokens, m, n, k; /* the one of m and k that is a number of tokens is ignored */
    int32_t columns;         /* how many columns of a 32-bit out may be written: n, or n rounded up */
    int32_t clusters;        /* in the grid */
    int32_t group;           /* tiles of a cluster below each other that are taken side by side */
    int32_t room;  /* how many parts of tiles fit in sums; 0: no tile is split; or LCE_TWO_PARTS, where
                     dinput is summed over slabs */
    int32_t pause; /* between boxes that are stored, in nanoseconds for each 64 of k */
    float beta;
};

/* The product of the logits that stores exponentials or odds, or g of rows whose sums are known
 * (product_exponents.cuh). */
struct lce_own_exponents_args {
    struct lce_own_args product;
    struct lce_labels labels;
    const int32_t *index;       /* of the tokens of all rows, from row 0 of the first chunk on; or NULL */
    struct lce_tile_sum *tiles; /* of this chunk: [rows][COUNT] */
    float *targets;             /* [rows] */
    const float *references;    /* [rows] what odds are relative to (odds.cuh); not read for exponentials */
    const struct lce_odds_row *known; /* [rows] instead of all these, for gradients */
    float to_bits;                    /* log2(e) / temperature */
    int32_t begin;                    /* the class of the first column */
    int32_t count;
};

/* Copies the rows of a product to the caller's rows. */
struct lce_own_rows_args {
    struct lce_own_args product;
    const void *from; /* its out */
    void *to;
    int64_t from_stride, to_stride; /* elements */
    int32_t width;                  /* of its tiles */
    const int32_t *index;           /* or NULL: row r to row r */
    /* For a product of odds (odds.cuh): */
    const struct lce_odds_factors *factors; /* [rows]; or NULL: it is of gradients */
    struct lce_labels labels;
    const void *weight;
    int64_t weight_stride;
};

#endif
