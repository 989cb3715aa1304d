/*
 * find.c - finds the kernels of a plan by name, from its types and, for rows that stay in registers, their
 * length.
 */
#include <stdio.h>
#include <string.h>

#include "cuda.h"

enum { THREADS = 512, MANY_VECTORS = 8, GENERAL_VECTORS = 4, MOST_CLUSTER = 8 };

static const char *const kinds[CUDA_KINDS] = {"plain", "entropic", "general"};

static const char *type_name(int dtype)
{
    return dtype == LCE_F32 ? "f32" : dtype == LCE_F16 ? "f16" : "bf16";
}

static int find_typed(struct cuda_plan *plan, int image, const char *name, int dtype, CUfunction *function)
{
    char full[64];
    snprintf(full, sizeof full, "lce_%s_%s", name, type_name(dtype));
    return cuda_find(cuda_of(plan), image, full, function);
}

/* The names of the kernels of softmax.cu contain the types of logits and gradient. */
static const char *softmax_types(const struct cuda_plan *plan)
{
    const int dtype = plan->base.problem.dtype;
    return !plan->wide ? type_name(dtype) : dtype == LCE_F16 ? "wide_f16" : "wide_bf16";
}

/* The smallest number of vectors per thread, at least EACH, for which there is a kernel; 0: none.  With all
 * options a thread takes four at a time, any number of times unless gradients are narrower than logits. */
static int vectors_for(const struct cuda_plan *plan, int64_t each, bool general)
{
    if (general && (each <= GENERAL_VECTORS || !plan->wide))
        return GENERAL_VECTORS;
    if (each <= MANY_VECTORS)
        return general ? MANY_VECTORS : (int)each;
    if (each > 16 || cuda_logit_size(plan) != sizeof(float))
        return 0;
    return general || each > 12 ? 16 : 12;
}

/* Finds `loop`, which takes rows of any length and needs no cluster, if there are none; else the smallest
 * cluster whose registers hold a row with at most MOST vectors per thread (the largest cluster may have
 * more); `loop` if there is none. */
static int find_softmax(struct cuda_plan *plan, const char *kind, int64_t most, struct cuda_softmax *softmax)
{
    const int64_t vectors = plan->stride * (int64_t)cuda_logit_size(plan) / 16;
    const bool general = !strcmp(kind, "general");
    char name[64];
    int64_t each = vectors;
    for (softmax->cluster = 1;; softmax->cluster *= 2) {
        const int64_t threads = (int64_t)softmax->cluster * THREADS;
        each = cuda_round_up(vectors, threads) / threads;
        if (each <= most || softmax->cluster == MOST_CLUSTER)
            break;
    }
    const int count = cuda_has_clusters(plan) ? vectors_for(plan, each, general) : 0;
    if (count == 0) {
        softmax->cluster = 0;
        snprintf(name, sizeof name, "lce_softmax_%s_loop", softmax_types(plan));
    } else {
        snprintf(name, sizeof name, "lce_softmax_%s_%s_%d", softmax_types(plan), kind, count);
    }
    return cuda_find(cuda_of(plan), IMAGE_SOFTMAX, name, &softmax->function);
}

static int find_slabs(struct cuda_plan *plan)
{
    char name[64];
    int status = LCE_OK;
    for (int i = 0; !status && i < CUDA_KINDS; i++) {
        snprintf(name, sizeof name, "lce_slab_scan_%s_%s", softmax_types(plan), kinds[i]);
        status = cuda_find(cuda_of(plan), IMAGE_SLAB, name, &plan->kernels.scan[i]);
        snprintf(name, sizeof name, "lce_slab_gradient_%s_%s", softmax_types(plan), kinds[i]);
        if (!status)
            status = cuda_find(cuda_of(plan), IMAGE_SLAB, name, &plan->kernels.slab_gradient[i]);
    }
    return status ? status : cuda_find(cuda_of(plan), IMAGE_SLAB, "lce_parts", &plan->kernels.parts);
}

static int find_tail(struct cuda_plan *plan)
{
    const struct lce_problem *p = &plan->base.problem;
    struct cuda_kernels *k = &plan->kernels;
    const bool narrow = p->dtype != LCE_F32;
    const bool wide[3] = {plan->wide, false, /* always in fp32 */
                          narrow && (plan->accumulates || p->grad_weight_dtype == LCE_F32)};
    static const char *const names[3] = {"logits", "dinput", "dweight"};
    CUfunction *const functions[3] = {&k->tail_logits, &k->tail_dinput, &k->tail_dweight};
    char name[64];
    int status = LCE_OK;
    for (int i = 0; !status && plan->tail && i < 3; i++) {
        snprintf(name, sizeof name, "lce_tail_%s_%s%s", names[i], wide[i] ? "wide_" : "",
                 type_name(p->dtype));
        status = cuda_find(cuda_of(plan), IMAGE_TAIL, name, functions[i]);
    }
    return status;
}

/* What belongs to our products. */
static int find_own(struct cuda_plan *plan)
{
    struct cuda_own_kernels *k = &plan->kernels.own;
    const int dtype = plan->base.problem.dtype;
    int status = cuda_own_find(plan);
    if (!status)
        status = find_typed(plan, IMAGE_PRODUCT, "own_scatter", dtype, &k->scatter);
    return status;
}

static int find_exponents(struct cuda_plan *plan)
{
    int status = cuda_own_find_exponents(plan);
    if (!status && plan->odds)
        status = cuda_odds_find(plan);
    return status ? status
                  : find_typed(plan, IMAGE_EXPONENTS, "exponents", plan->base.problem.dtype,
                               &plan->kernels.own.exponents_pass);
}

int cuda_find_kernels(struct cuda_plan *plan)
{
    const struct cuda_library *l = cuda_of(plan);
    const struct lce_problem *p = &plan->base.problem;
    struct cuda_kernels *k = &plan->kernels;
    int status = cuda_find(l, IMAGE_TOKENS, "lce_prepare", &k->prepare);
    if (!status)
        status = cuda_find(l, IMAGE_TOKENS, "lce_gather", &k->gather);
    if (!status)
        status = cuda_find(l, IMAGE_TOKENS, "lce_scatter", &k->scatter);
    if (!status)
        status = cuda_find(l, IMAGE_TOKENS, "lce_expand", &k->expand);
    if (!status)
        status = cuda_find(l, IMAGE_TOKENS, "lce_reduce", &k->reduce);
    if (!status)
        status = find_typed(plan, IMAGE_TOKENS, "blank", p->dtype, &k->blank);
    if (!status)
        status = find_typed(plan, IMAGE_TOKENS, "column_sum", p->dtype, &k->column_sum);
    if (!status)
        status = find_typed(plan, IMAGE_TOKENS, "store", p->grad_weight_dtype, &k->store);
    if (!status && cuda_sums_dinput(plan))
        status = find_typed(plan, IMAGE_TOKENS, "store", p->dtype, &k->store_input);
    if (!status)
        status = plan->own ? find_own(plan) : find_tail(plan);
    if (!status && plan->exponents)
        status = find_exponents(plan);
    if (!status && (cuda_sliced(plan) || lce_in_parts(p)))
        return find_slabs(plan);
    if (!status)
        status = find_softmax(plan, kinds[CUDA_PLAIN], MANY_VECTORS, &k->softmax[CUDA_PLAIN]);
    if (!status)
        status = find_softmax(plan, kinds[CUDA_ENTROPIC], MANY_VECTORS, &k->softmax[CUDA_ENTROPIC]);
    if (!status)
        status = find_softmax(plan, kinds[CUDA_GENERAL], GENERAL_VECTORS, &k->softmax[CUDA_GENERAL]);
    return status;
}
