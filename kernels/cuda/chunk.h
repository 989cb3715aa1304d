/* chunk.h - how many tokens to take at a time. */
#ifndef LCE_CUDA_CHUNK_H
#define LCE_CUDA_CHUNK_H

#include <stdbool.h>
#include <stdint.h>

#define LCE_MOST_SCRATCH (UINT64_C(32) << 20) /* for cuBLASLt */

struct lce_chunk_shape {
    int64_t tokens, hidden, vocab;
    int element;      /* bytes of an element of the logits */
    int grad_element; /* bytes of an element of dweight as it is accumulated; 0 where there is none */
    int grad_input;   /* whether dinput is wanted */
    int processors;   /* multiprocessors of the GPU */
    bool tail;        /* whether some classes go past the matrix library: tail.c */
    uint64_t budget;  /* bytes for a chunk and for the matrix library's scratch */
    uint64_t token;   /* bytes of a chunk's token */
};

/* Whether a product of m x n sums is so small that the GPU is only filled when each sum is split over several
 * multiprocessors; partial sums need scratch.  What is larger gained at most 2.1 % of the whole by scratch.
 */
bool lce_worth_splitting(int64_t m, int64_t n, int processors);

/* Seconds of a product [m, n] over k in bf16, with SCRATCH bytes for partial sums. */
double lce_product_seconds(int processors, int64_t m, int64_t n, int64_t k, uint64_t scratch);

/* Seconds of a product that takes ARITHMETIC seconds and adds to what it reads and writes, TRAFFIC bytes. */
double lce_adding_seconds(double arithmetic, double traffic);

/* Seconds that all chunks of CHUNK tokens are estimated to take: good for comparing chunks, for nothing else.
 */
double lce_chunk_seconds(const struct lce_chunk_shape *shape, int64_t chunk);

/* The same with the products of product.cu where all tokens count; only these two can be compared. */
double lce_own_seconds(const struct lce_chunk_shape *shape, int64_t chunk);

/* For those products, the chunk of at most MOST tokens: as few as can be, as even as tiles let them. */
int64_t lce_own_choose(const struct lce_chunk_shape *shape, int64_t most);

/* The fastest chunk of at most MOST tokens; of equals the smallest.  Considered are powers of two and halves
 * more, 256, 384, 512 to 2048, as they were measured, and all tokens, where these are no more.  Where MOST is
 * below 256, multiples of 16; below 128, MOST alone. */
int64_t lce_chunk_choose(const struct lce_chunk_shape *shape, int64_t most);

#endif
