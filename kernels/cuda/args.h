/*
 * args.h - the kernels' arguments: plain structs, the same in C and in CUDA C++.
 */
#ifndef LCE_CUDA_ARGS_H
#define LCE_CUDA_ARGS_H

#include <stdint.h>

enum { LCE_COUNTED = 0, LCE_IGNORED = 1, LCE_INVALID = 2 }; /* a token's state */

/* Sums over all tokens that are known before the logits; in device memory. */
struct lce_stats {
    double weights;     /* of the counted tokens' labels: D */
    double all_weights; /* of all classes */
    int64_t counted;    /* n */
    /* In fp16 probabilities divided by D would underflow.  So there g is LCE_F16_SCALE times the gradient
     * for an upstream gradient of 1 and no division, and the products multiply by alpha. */
    float alpha;
    float u_ce,
        u_zl; /* factors of g that all tokens share: the mean's division, a common upstream gradient */
    float loss_ce, loss_zl; /* factors of the loss: the mean's division */
    float zero, one, beta;  /* factors of the old output, in device memory like alpha */
    float u_entropy;        /* as u_ce, of the entropy's upstream gradient */
};
#define LCE_F16_SCALE 1024.0f

struct lce_labels {
    const void *labels;
    int64_t ignore_index;
    int64_t tokens;
    int32_t wide;         /* int64 labels */
    int32_t vocab;        /* of this rank's weight */
    int32_t begin, total; /* the class of its row 0; how many classes all ranks have */
};

struct lce_prepare_args {
    struct lce_labels labels;
    const float *class_weights;
    const float *grad_output;  /* for alpha */
    const float *grad_entropy; /* likewise; or NULL */
    struct lce_stats *stats;
    uint8_t *state;               /* [N] */
    int32_t *index;               /* [max_counted] the counted tokens, then -1; or NULL */
    float *loss, *entropy;        /* [N] of the tokens that do not count; or NULL */
    struct lce_slab_row *partial; /* likewise */
    int32_t *error_flag;
    int64_t max_counted;
    float beta;
    int32_t reduction;
    int32_t scaled;  /* u_ce is LCE_F16_SCALE */
    int32_t *counts; /* [labels.vocab], to be 0; or NULL (label_rows.cuh) */
    int32_t *used;   /* [2] likewise */
    int32_t *order;  /* [orders] likewise (product.cuh) */
    int32_t orders;
};

/* Partial sums of a row of logits, over the classes that were processed so far: struct lce_partial. */
struct lce_slab_row {
    float largest, sum; /* over all classes but the label: the largest logit, the sum of exp(z - largest) */
    float weighed;      /* the sum of w z */
    float target;       /* the label's logit, if it was among them; else 0 */
    float moment;       /* the sum of (z - largest) exp(z - largest), without the label */
};

struct lce_softmax_args {
    struct lce_labels labels;
    void *logits; /* row r at r * stride; becomes g, in its own type */
    int64_t stride;
    int64_t first; /* row 0 is entry FIRST of index, or token FIRST */
    const struct lce_stats *stats;
    const uint8_t *state;
    const int32_t *index;
    const void *bias;
    const float *class_weights; /* of row 0 of the weight and those after it */
    const float *grad_output;
    const float *grad_entropy; /* [N] or NULL */
    float *loss, *entropy;     /* [N] or NULL */
    float smoothing, z_loss, softcap, temperature;
    float to_nats, to_bits;      /* 1 / temperature, log2(e) / temperature: what a logit is multiplied by */
    float per_softcap, to_share; /* 1 / softcap, at most FLT_MAX; temperature / softcap */
    int32_t reduction;
    int32_t gradients;          /* whether g is wanted */
    int32_t moments;            /* whether the entropy or its gradient is, so that sums need moments */
    int32_t skips;              /* whether rows without a token are not written, see device.cuh */
    struct lce_slab_row *known; /* from row 0 on: where to keep each row's sums; or NULL */
};

/* Exponentials instead of logits (exponents.cuh): a tile has so many classes; how many tiles a row may have.
 */
enum { LCE_TILE_CLASSES = 192, LCE_MOST_TILES = 4096 };

/* What a row has in a tile, without the label: the power of two that its exponentials are relative to, -inf
 * if all of them are 0, and their sum. */
struct lce_tile_sum {
    float exponent, sum;
};

/* The pass over exponentials. */
struct lce_exponents_args {
    struct lce_softmax_args softmax;  /* its logits are exponentials */
    const struct lce_tile_sum *tiles; /* [rows][COUNT] */
    const float *targets;             /* [rows] the label's logit, as the product has it */
    int32_t count;
};

/* What a row's odds (odds.cuh), and its label's row of the weight, are multiplied by in the gradient. */
struct lce_odds_factors {
    float others, label;
};

/* What is kept of a row, for gradients that are made later: the largest logit and the sum, as in
 * lce_slab_row; the power of two that its odds, or its sums of dinput, are relative to; its odds' factor.  By
 * slabs (odds.cuh) all of it is over the slabs so far, and the last slab makes the factor. */
struct lce_odds_row {
    float largest, sum, power, factor;
};

/* Before the product: the label's logit of each row, and how many tokens each class has. */
struct lce_odds_start_args {
    struct lce_labels labels;
    const void *x, *weight;
    void *rows;           /* [rows, hidden] where the rows of x are gathered; or NULL */
    const int32_t *index; /* of this chunk's rows; or NULL: row r is token FIRST + r */
    const uint8_t *state;
    float *references; /* [rows] */
    int32_t *counts;   /* [V]; or NULL */
    int64_t first;
    int64_t x_stride, weight_stride, hidden; /* elements */
    float to_bits;                           /* log2(e) / temperature */
    int32_t skips;                           /* see lce_softmax_args */
};

/* After it: the losses, the rows' factors, and x times them. */
struct lce_odds_rows_args {
    struct lce_softmax_args softmax;  /* its logits are odds */
    const struct lce_tile_sum *tiles; /* [rows][COUNT] */
    const float *targets;             /* [rows] the label's logit, as the product has it */
    const float *references;          /* [rows] what odds are relative to, if a tile does not say otherwise */
    struct lce_odds_factors *factors; /* [rows] */
    float *label_factors;             /* [N]; or NULL */
    struct lce_odds_row *kept;        /* [rows]; or NULL */
    const void *x;                    /* row 0 is row 0 of the logits */
    void *scaled;                     /* x times the factors, may be x; or NULL */
    int64_t x_stride, scaled_stride, hidden; /* elements */
    int32_t count;
};

/* Adds a slab to what is kept of each row (odds.cuh).  Of its odds x is not read, scaled and kept are
 * NULL, and targets are of all slabs. */
struct lce_odds_fold_args {
    struct lce_odds_rows_args slab;
    struct lce_odds_row *rows; /* [rows] */
    float *dinput;             /* [rows, hidden] the sums of the slabs before */
    int32_t first, last;       /* this is the first slab, the last */
};

/* Turns the sums of dinput over all slabs into dinput. */
struct lce_odds_store_args {
    struct lce_labels labels;
    const int32_t *index;                   /* of these rows */
    const struct lce_odds_factors *factors; /* [rows] */
    const float *from;                      /* [rows, hidden] */
    const void *weight;
    void *to; /* row r to row r */
    int64_t weight_stride, to_stride, hidden;
};

/* Moves row r of a matrix to row index[r] of it, for all counted tokens. */
struct lce_expand_args {
    void *matrix;
    int64_t stride, vectors; /* of 16 bytes: from row to row, of a row */
    const int32_t *index;    /* rises, so that index[r] >= r */
    const struct lce_stats *stats;
};
/* A block of this many threads moves so many vectors of every row. */
enum { LCE_EXPAND_THREADS = 1024, LCE_EXPAND_VECTORS = 4 };

/* Turns the product of odds and weight into dinput, in place. */
struct lce_odds_dinput_args {
    struct lce_labels labels;
    const struct lce_odds_factors *factors; /* [rows] */
    const uint8_t *state;
    const void *weight;
    void *out; /* row 0 is token FIRST's */
    int64_t first, weight_stride, out_stride, hidden;
};

/* A class's row of dweight, or, if it has many tokens, a slice of it. */
struct lce_label_item {
    int32_t label, begin, count; /* its slots */
    int32_t slice;               /* -1: the whole row */
};

/* The tokens of each class, and their share of its row of dweight (label_rows.cuh). */
struct lce_label_rows_args {
    struct lce_labels labels;
    const uint8_t *state;
    int32_t *counts;              /* [V] tokens of the class */
    int32_t *ends;                /* [V] where the class's slots end; counts up to there */
    int32_t *slots;               /* [N] tokens, those of a class one after the other */
    struct lce_label_item *items; /* one for each block */
    int32_t *used;                /* how many slots there are, and how many items */
    const float *label_factors;   /* [N] */
    const void *x;
    void *out;                            /* dweight */
    int64_t x_stride, out_stride, hidden; /* elements */
    int32_t slices;                       /* of a row */
};
/* A class with more tokens than this is taken in slices of so many columns. */
enum { LCE_LABEL_FEW = 64, LCE_LABEL_SLICE = 512 };

struct lce_slab_args {
    struct lce_softmax_args softmax; /* its logits are those of the slab: [rows, COLUMNS] */
    struct lce_slab_row *rows;       /* of the block */
    int32_t begin, columns;          /* classes of the slab */
    int32_t partial;                 /* rows are what one rank's classes contribute: of no loss yet */
    int32_t by_token;                /* rows is of all tokens */
};

/* Turns the partial results of all ranks into the sums of each row. */
struct lce_parts_args {
    struct lce_softmax_args softmax;
    const struct lce_slab_row *partials; /* [parts][stride] */
    struct lce_slab_row *rows;           /* [count] */
    int64_t count, stride;
    int32_t parts;
    int32_t by_token; /* partials are of all tokens; otherwise of these rows */
};

/* Copies rows between two matrices, by an index. */
struct lce_rows_args {
    void *to;
    const void *from;
    int64_t to_stride, from_stride; /* bytes */
    const int32_t *index;           /* of the rows; -1 is none */
    int64_t width;                  /* 2-byte words in a row */
    int32_t skips;                  /* see lce_softmax_args */
};

struct lce_blank_args {
    void *matrix; /* [N, H] dinput */
    int64_t stride, hidden;
    const uint8_t *state;
    int32_t zero_ignored; /* otherwise only invalid tokens' rows are written, with NaN */
};

struct lce_sum_args {
    const void *g; /* [rows, V] */
    int64_t stride;
    float *sums;                   /* [V] */
    const struct lce_stats *stats; /* NULL: all ROWS; otherwise counted rows, numbered from FIRST */
    int64_t first;
    int32_t rows, vocab;
    int32_t add; /* add to the old value */
};

/* to = beta to + alpha from, over rows by columns; row r of `from` goes to row index[r], nowhere if that is
 * -1 */
struct lce_store_args {
    void *to;
    const float *from;    /* NULL: zeros */
    const int32_t *index; /* or NULL: to row r */
    const struct lce_stats *stats;
    int64_t to_stride, from_stride; /* elements */
    int64_t columns;
    uint32_t blocks; /* of 256 threads, for a row */
    float beta;
    int32_t scaled; /* multiply from by stats->alpha */
};

/* The numbers of a dense matrix, aligned to 16 bytes, times a factor. */
struct lce_scale_args {
    void *matrix;
    const float *factor;
    int64_t count;
    uint32_t blocks; /* of 256 threads */
};

/* The last classes of the vocabulary: rows of weight and of dweight, columns of logits and of g. */
struct lce_tail_args {
    const void *x, *weight, *g;
    void *out;
    const struct lce_stats *stats;
    int64_t x_stride, weight_stride, g_stride, out_stride; /* elements */
    int64_t rows, hidden;
    int32_t classes;
    uint32_t blocks; /* dinput: of 256 threads, for a row */
    float beta;
    int32_t scaled; /* multiply the sum by stats->alpha */
};

struct lce_reduce_args {
    const float *losses; /* [N] */
    float *loss;
    const struct lce_stats *stats;
    int64_t tokens;
    int32_t mean;
};

#endif
