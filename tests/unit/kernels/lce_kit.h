/*
 * lce_kit.h - a problem of random numbers with everything it needs.  Every output has a guard behind it and
 * begins as NaN: what is written too much, or not at all, shows.
 */
#ifndef TESTS_UNIT_KERNELS_LCE_KIT_H
#define TESTS_UNIT_KERNELS_LCE_KIT_H

#include <math.h>

#include "unit/test.h"
#include "half.h"
#include "linear_cross_entropy.h"

enum { GUARD = 64, GUARD_BYTE = 0x5a };

struct kit {
    struct lce_problem problem;
    struct lce_buffers buffers;
    struct lce_reference reference;
    int32_t error_flag;
    size_t loss_count, grad_input_bytes, grad_weight_bytes, grad_bias_bytes;
    uint64_t random;
};

static inline double kit_random(struct kit *k) /* -1 .. 1 */
{
    k->random = k->random * 6364136223846793005u + 1442695040888963407u;
    return (double)(k->random >> 11) * 0x1p-52 - 1;
}

/* 64-aligned memory of SIZE bytes, all ones (NaN in every type), and a guard behind */
static inline void *kit_memory(size_t size)
{
    char *memory = aligned_alloc(64, (size + GUARD + 63) / 64 * 64);
    assert_non_null(memory);
    memset(memory, 0xff, size);
    memset(memory + size, GUARD_BYTE, GUARD);
    return memory;
}

static inline void kit_guarded(const void *memory, size_t size)
{
    for (size_t i = 0; memory && i < GUARD; i++)
        assert_int_equal(((const unsigned char *)memory)[size + i], GUARD_BYTE);
}

static inline size_t kit_element(int dtype)
{
    return dtype == LCE_F32 ? 4 : 2;
}

/* ROWS of STRIDE random numbers up to SCALE; all are finite, also between the rows */
static inline void *kit_matrix(struct kit *k, int64_t rows, int64_t stride, int dtype, double scale)
{
    void *matrix = kit_memory((size_t)(rows * stride) * kit_element(dtype));
    for (int64_t i = 0; i < rows * stride; i++)
        lce_store(matrix, dtype, i, (float)(kit_random(k) * scale));
    return matrix;
}

static inline void kit_label(struct kit *k, int64_t token, int64_t label)
{
    if (k->problem.label_dtype == LCE_I64)
        ((int64_t *)(uintptr_t)k->buffers.labels)[token] = label;
    else
        ((int32_t *)(uintptr_t)k->buffers.labels)[token] = (int32_t)label;
}

static inline int64_t kit_or(int64_t value, int64_t otherwise)
{
    return value ? value : otherwise;
}

/* Inputs and outputs for k->problem, which is filled in already. */
static inline void kit_fill(struct kit *k, bool bias, bool weights, bool upstream)
{
    const struct lce_problem *p = &k->problem;
    struct lce_buffers *b = &k->buffers;
    const int dw = p->grad_weight_dtype == -1 ? p->dtype : p->grad_weight_dtype;
    k->random = k->random ? k->random : 42;
    b->input = kit_matrix(k, p->tokens, kit_or(p->input_stride, p->hidden), p->dtype, 1);
    b->weight = kit_matrix(k, p->vocab, kit_or(p->weight_stride, p->hidden), p->dtype, 1);
    b->bias = bias ? kit_matrix(k, 1, p->vocab, p->dtype, 1) : NULL;
    b->class_weights = weights ? kit_matrix(k, 1, p->vocab, LCE_F32, 1) : NULL;
    for (int64_t c = 0; weights && c < p->vocab; c++)
        ((float *)(uintptr_t)b->class_weights)[c] += 1.25f;
    b->grad_output = upstream ? kit_matrix(k, 1, p->tokens + 1, LCE_F32, 2) : NULL;
    b->labels = kit_memory((size_t)p->tokens * 8);
    for (int64_t i = 0; i < p->tokens; i++)
        kit_label(k, i, (int64_t)((kit_random(k) + 1) / 2 * (double)p->vocab));
    k->loss_count = p->reduction == LCE_NONE ? (size_t)p->tokens : 1;
    k->grad_input_bytes =
        (size_t)(p->tokens * kit_or(p->grad_input_stride, p->hidden)) * kit_element(p->dtype);
    k->grad_weight_bytes = (size_t)(p->vocab * kit_or(p->grad_weight_stride, p->hidden)) * kit_element(dw);
    k->grad_bias_bytes = (size_t)p->vocab * kit_element(dw);
    b->loss = kit_memory(k->loss_count * 4);
    b->grad_input = kit_memory(k->grad_input_bytes);
    b->grad_weight = kit_memory(k->grad_weight_bytes);
    b->grad_bias = kit_memory(k->grad_bias_bytes);
    b->error_flag = &k->error_flag;
    k->reference.loss = kit_memory(k->loss_count * 8);
    k->reference.grad_input = kit_memory((size_t)(p->tokens * p->hidden) * 8);
    k->reference.grad_weight = kit_memory((size_t)(p->vocab * p->hidden) * 8);
    k->reference.grad_bias = kit_memory((size_t)p->vocab * 8);
}

/* Entropies, too, with their upstream gradient if ABOVE. */
static inline void kit_entropy(struct kit *k, bool above)
{
    const size_t count = (size_t)k->problem.tokens;
    k->problem.wants |= LCE_WANT_ENTROPY;
    k->buffers.entropy = kit_memory(count * 4);
    k->buffers.grad_entropy = above ? kit_matrix(k, 1, k->problem.tokens, LCE_F32, 2) : NULL;
    k->reference.entropy = kit_memory(count * 8);
}

static inline void kit_free(struct kit *k)
{
    struct lce_buffers *b = &k->buffers;
    const void *all[] = {b->input,
                         b->weight,
                         b->bias,
                         b->class_weights,
                         b->grad_output,
                         b->labels,
                         b->loss,
                         b->grad_input,
                         b->grad_weight,
                         b->grad_bias,
                         b->workspace,
                         b->entropy,
                         b->grad_entropy,
                         k->reference.entropy,
                         k->reference.loss,
                         k->reference.grad_input,
                         k->reference.grad_weight,
                         k->reference.grad_bias};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free((void *)(uintptr_t)all[i]);
}

static inline void kit_defaults(struct kit *k, int64_t tokens, int64_t hidden, int64_t vocab)
{
    memset(k, 0, sizeof *k);
    lce_problem_init(&k->problem);
    k->problem.tokens = tokens;
    k->problem.hidden = hidden;
    k->problem.vocab = vocab;
    k->problem.dtype = LCE_F32;
}

/* Plans and runs on the CPU with a workspace of exactly the size that was asked for, guarded. */
static inline void kit_run(struct kit *k, int mode, int64_t chunk)
{
    struct lce *library;
    struct lce_plan *plan;
    assert_int_equal(lce_open(LCE_CPU, &library), LCE_OK);
    assert_int_equal(lce_plan_create_chunk(library, &k->problem, mode, chunk, 0, &plan), LCE_OK);
    k->buffers.workspace_size = lce_plan_info(plan)->workspace_size;
    k->buffers.workspace = kit_memory(k->buffers.workspace_size);
    assert_int_equal(lce_run(plan, &k->buffers, NULL), LCE_OK);
    kit_guarded(k->buffers.workspace, k->buffers.workspace_size);
    kit_guarded(k->buffers.loss, k->loss_count * 4);
    kit_guarded(k->buffers.grad_input, k->grad_input_bytes);
    kit_guarded(k->buffers.grad_weight, k->grad_weight_bytes);
    kit_guarded(k->buffers.grad_bias, k->grad_bias_bytes);
    kit_guarded(k->buffers.entropy, (size_t)k->problem.tokens * 4);
    lce_plan_destroy(plan);
    lce_close(library);
    free(k->buffers.workspace);
    k->buffers.workspace = NULL;
}

/* |got - wanted| / |wanted| over ROWS by COLUMNS; both NaN is no difference, one NaN is infinite */
static inline double kit_distance(const void *got, int dtype, int64_t stride, const double *want,
                                  int64_t rows, int64_t columns)
{
    double difference = 0, size = 0;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < columns; c++) {
            double g = (double)lce_load(got, dtype, r * stride + c), w = want[r * columns + c];
            if (isnan(g) != isnan(w))
                return INFINITY;
            if (isnan(g))
                continue;
            difference += (g - w) * (g - w);
            size += w * w;
        }
    return size > 0 ? sqrt(difference / size) : sqrt(difference);
}

#endif
