/*
 * matmul_cpu.c - the matrix product on the CPU: blocks of 4 rows by 16 columns held in vector registers, with
 * AVX2 where the processor has it.  A transposed b is first copied into plain order; a transposed a is read
 * with a stride.
 */
#include "backend_cpu.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROWS    4
#define COLUMNS 16

typedef float lanes __attribute__((vector_size(32), aligned(4), may_alias));

struct product {
    const struct matmul *call;
    float *out;
    const float *a, *b;     /* b in plain order: [k, n] */
    size_t a_row, a_column; /* strides */
};

static void one_row(const struct product *p, int r, int from)
{
    const struct matmul *c = p->call;
    float *out = &p->out[(size_t)r * (size_t)c->n];
    for (int j = from; j < c->n; j++) {
        float sum = c->add ? out[j] : 0;
        for (int k = 0; k < c->k; k++)
            sum += p->a[(size_t)r * p->a_row + (size_t)k * p->a_column] *
                   p->b[(size_t)k * (size_t)c->n + (size_t)j];
        out[j] = sum;
    }
}

static inline __attribute__((always_inline)) void block(const struct product *p, int r, int j)
{
    const struct matmul *c = p->call;
    size_t n = (size_t)c->n;
    lanes sum[ROWS][2] = {0};
    const float *a = &p->a[(size_t)r * p->a_row], *b = &p->b[j];
    for (int k = 0; k < c->k; k++, a += p->a_column, b += n) {
        lanes left = *(const lanes *)b, right = *(const lanes *)(b + 8);
        for (int i = 0; i < ROWS; i++) {
            float x = a[(size_t)i * p->a_row];
            sum[i][0] += x * left;
            sum[i][1] += x * right;
        }
    }
    for (int i = 0; i < ROWS; i++) {
        float *out = &p->out[((size_t)r + (size_t)i) * n + (size_t)j];
        for (int half = 0; half < 2; half++) {
            lanes *to = (lanes *)(out + half * 8);
            if (c->add)
                *to += sum[i][half];
            else
                *to = sum[i][half];
        }
    }
}

static inline __attribute__((always_inline)) void blocks(const struct product *p, int begin, int end)
{
    int whole = p->call->n / COLUMNS * COLUMNS, r = begin;
    for (; r + ROWS <= end; r += ROWS)
        for (int j = 0; j < whole; j += COLUMNS)
            block(p, r, j);
    for (int row = begin; row < end; row++)
        one_row(p, row, row < r ? whole : 0);
}

static void rows_plain(const void *call, int begin, int end)
{
    blocks(call, begin, end);
}

#ifdef __x86_64__
__attribute__((target("avx2,fma"))) static void rows_avx2(const void *call, int begin, int end)
{
    blocks(call, begin, end);
}
#endif

static float *transposed(const float *b, int k, int n)
{
    float *plain = malloc((size_t)k * (size_t)n * sizeof *plain);
    if (!plain) {
        fprintf(stderr, "train_lm: no host memory for a matrix of %d x %d\n", k, n);
        exit(1);
    }
    for (int j = 0; j < n; j++)
        for (int i = 0; i < k; i++)
            plain[(size_t)i * (size_t)n + (size_t)j] = b[(size_t)j * (size_t)k + (size_t)i];
    return plain;
}

void cpu_matmul(const struct matmul *c)
{
    const float *b = (const float *)(uintptr_t)c->b;
    float *plain = c->transpose_b ? transposed(b, c->k, c->n) : NULL;
    struct product p = {.call = c,
                        .out = (float *)(uintptr_t)c->out,
                        .a = (const float *)(uintptr_t)c->a,
                        .b = plain ? plain : b,
                        .a_row = c->transpose_a ? 1 : (size_t)c->k,
                        .a_column = c->transpose_a ? (size_t)c->m : 1};
    cpu_rows *work = rows_plain;
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        work = rows_avx2;
#endif
    cpu_parallel(work, &p, c->m, 16);
    free(plain);
}
