/*
 * matmul.c - the CPU's product in tiles of 4 rows by 16 columns, whose sums stay in vector registers.
 *
 * Every lane is a sum of its own, and products are not fused with additions: so wider registers (chosen at
 * run time) change the time and no bit of the result.
 */
#include "cpu.h"

enum { ROWS = 4, LANES = 8, COLUMNS = 2 * LANES };

typedef float lanes __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

#define INLINE static inline __attribute__((always_inline))

INLINE void tile(const struct lce_matmul *p, int64_t i, int64_t j)
{
    lanes sum[ROWS][2];
    for (int r = 0; r < ROWS; r++)
        for (int half = 0; half < 2; half++)
            sum[r][half] = *(const lanes *)(p->c + (i + r) * p->c_row + j + half * LANES);
    const float *a = p->a + i * p->a_row, *b = p->b + j;
    for (int64_t k = 0; k < p->k; k++, a += p->a_column, b += p->b_row) {
        const lanes left = *(const lanes *)b, right = *(const lanes *)(b + LANES);
        for (int r = 0; r < ROWS; r++) {
            const float x = a[r * p->a_row];
            sum[r][0] += x * left;
            sum[r][1] += x * right;
        }
    }
    for (int r = 0; r < ROWS; r++)
        for (int half = 0; half < 2; half++)
            *(lanes *)(p->c + (i + r) * p->c_row + j + half * LANES) = sum[r][half];
}

/* Columns FROM on of row I, one after the other. */
INLINE void edge(const struct lce_matmul *p, int64_t i, int64_t from)
{
    for (int64_t j = from; j < p->n; j++) {
        float sum = p->c[i * p->c_row + j];
        for (int64_t k = 0; k < p->k; k++)
            sum += p->a[i * p->a_row + k * p->a_column] * p->b[k * p->b_row + j];
        p->c[i * p->c_row + j] = sum;
    }
}

INLINE void whole(const struct lce_matmul *p)
{
    const int64_t columns = p->n / COLUMNS * COLUMNS, rows = p->m / ROWS * ROWS;
    for (int64_t j = 0; j < columns; j += COLUMNS) /* b's columns stay in the cache for all rows */
        for (int64_t i = 0; i < rows; i += ROWS)
            tile(p, i, j);
    for (int64_t i = 0; i < p->m; i++)
        edge(p, i, i < rows ? columns : 0);
}

#ifdef __x86_64__
__attribute__((target("avx2"))) static void wide(const struct lce_matmul *p)
{
    whole(p);
}
#endif

void lce_matmul(const struct lce_matmul *p)
{
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx2")) {
        wide(p);
        return;
    }
#endif
    whole(p);
}
