/* cpu.h - what the files of the CPU back end share. */
#ifndef LCE_CPU_CPU_H
#define LCE_CPU_CPU_H

#include "internal.h"

enum { CPU_COUNTED, CPU_IGNORED, CPU_INVALID };

struct cpu_layout { /* offsets into the workspace */
    size_t state, index, logits, x, dx, weight, dweight, dbias, accumulator;
    int64_t chunk;
    bool accumulates; /* dweight is kept in fp32 from chunk to chunk */
};

struct cpu_sums {
    double weights;     /* of the counted tokens' labels */
    double all_weights; /* of all classes */
    double ce, zl;
    int64_t counted;
    bool invalid;
};

struct cpu_run {
    const struct lce_plan *plan;
    const struct lce_problem *p;
    const struct lce_buffers *b;
    const struct cpu_layout *l;
    struct cpu_sums *sums;
    uint8_t *state;          /* [N] */
    int32_t *index;          /* [chunk] which token each row is */
    float *logits;           /* [chunk, V] */
    float *x, *dx;           /* [chunk, H] */
    float *weight, *dweight; /* [BLOCK, H] */
    float *dbias;            /* [V] */
    float *accumulator;      /* [V, H] */
    int64_t first, count;    /* the chunk's rows, counted over all chunks */
};

/* Fills the states and those sums that need no logits; sets the error flag. */
void cpu_count(const struct cpu_run *r);
/* Without gradients the second run of a vocabulary in parts needs no logits. */
static inline bool cpu_needs_logits(const struct lce_problem *p)
{
    return p->parts == 0 || lce_wants_gradients(p) || p->flags & LCE_EXCHANGE;
}
/* Whether a chunk's two halves have an exchange between them (LCE_EXCHANGE). */
static inline bool cpu_exchanges(const struct lce_problem *p)
{
    return p->flags & LCE_EXCHANGE;
}

/* Turns the chunk's sums into logits, and writes what this rank's classes contribute to each row. */
void cpu_partial(const struct cpu_run *r);
/* Computes the loss, and what else is wanted, of the chunk's logits and overwrites these with their
 * gradients. */
void cpu_softmax(const struct cpu_run *r);
float cpu_reduced(const struct cpu_run *r);

/* c[m, n] += a[m, k] b[k, n] in fp32.  Element (i, j) of a is at a[i * a_row + j * a_column]; b and c are
   row-major with rows of b_row, c_row.  Each sum is in order of k: the same bits on every processor. */
struct lce_matmul {
    float *c;
    const float *a, *b;
    int64_t m, n, k;
    int64_t c_row, a_row, a_column, b_row;
};

void lce_matmul(const struct lce_matmul *product);

#endif
