/* matmul.h - the one product of the CPU path. */
#ifndef LCE_CPU_MATMUL_H
#define LCE_CPU_MATMUL_H

#include <stdint.h>

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
