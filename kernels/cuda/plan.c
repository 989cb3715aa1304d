/*
 * plan.c - a plan for the GPU: the chunk, where everything lies in the workspace, the products' algorithms,
 * the kernels.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "chunk.h"
#include "cuda.h"

#define MIB (UINT64_C(1) << 20)
enum { THREADS = 512, MANY_VECTORS = 8, KEPT_VECTORS = 4, MOST_CLUSTER = 8 };

static int64_t round_up(int64_t count, int64_t unit)
{
    return (count + unit - 1) / unit * unit;
}

static size_t logit_size(const struct cuda_plan *plan)
{
    return plan->wide ? sizeof(float) : lce_dtype_size(plan->base.problem.dtype);
}

/* ---- the workspace ---- */

static size_t lay_out_naive(struct cuda_plan *plan, size_t total)
{
    const struct lce_problem *p = &plan->base.problem;
    const size_t n = (size_t)plan->rows, all = n * (size_t)p->vocab, e = lce_dtype_size(p->dtype);
    struct cuda_layout *l = &plan->layout;
    l->lse = lce_part(&total, n, sizeof(float));
    l->upcast = lce_part(&total, all, sizeof(float));
    l->log_probability = lce_part(&total, all, sizeof(float));
    l->g = lce_part(&total, lce_wants_gradients(p) ? n * (size_t)plan->stride : 0, e);
    return total;
}

/* All but cuBLASLt's scratch, which comes last. */
static size_t lay_out(struct cuda_plan *plan, int64_t chunk)
{
    const struct lce_problem *p = &plan->base.problem;
    const size_t n = (size_t)chunk, h = (size_t)p->hidden, v = (size_t)p->vocab, e = lce_dtype_size(p->dtype);
    struct cuda_layout *l = &plan->layout;
    size_t total = 0;
    l->stats = lce_part(&total, 1, sizeof(struct lce_stats));
    l->state = lce_part(&total, (size_t)p->tokens, 1);
    l->loss =
        lce_part(&total, p->reduction != LCE_NONE && p->wants & LCE_WANT_LOSS ? (size_t)p->tokens : 0, 4);
    l->index = lce_part(&total, plan->compacts ? (size_t)plan->rows : 0, sizeof(int32_t));
    l->rows = lce_part(&total, plan->compacts ? n * h : 0, e);
    l->dbias = lce_part(&total, p->wants & LCE_WANT_GRAD_BIAS ? v : 0, sizeof(float));
    l->accumulator = lce_part(&total, plan->accumulates ? v * h : 0, sizeof(float));
    l->logits = lce_part(&total, n * (size_t)plan->stride, logit_size(plan));
    if (plan->base.info.mode == LCE_NAIVE)
        total = lay_out_naive(plan, total);
    l->scratch = total;
    return total;
}

/* What a chunk's token takes of that. */
static uint64_t token_size(const struct cuda_plan *plan)
{
    const struct lce_problem *p = &plan->base.problem;
    const size_t row = plan->compacts ? (size_t)p->hidden * lce_dtype_size(p->dtype) : 0;
    return (size_t)plan->stride * logit_size(plan) + row;
}

/* dweight over several chunks, and the caller wants it rounded once: over one chunk it is anyway. */
static bool accumulates(const struct lce_problem *p, int64_t chunk, int64_t rows)
{
    return p->flags & LCE_F32_ACCUMULATE && p->wants & LCE_WANT_GRAD_WEIGHT &&
           p->grad_weight_dtype != LCE_F32 && chunk < rows;
}

static size_t size_with(struct cuda_plan *plan, int64_t chunk)
{
    plan->accumulates = accumulates(&plan->base.problem, chunk, plan->rows);
    return lay_out(plan, chunk);
}

/* ---- the chunk ---- */

static int64_t largest_within(struct cuda_plan *plan, uint64_t budget)
{
    int64_t low = 0, high = plan->rows > 0 ? plan->rows : 1;
    if (size_with(plan, high) <= budget) /* one chunk may need less than two: no accumulator */
        return high;
    while (low < high) {
        int64_t middle = low + (high - low + 1) / 2;
        if (size_with(plan, middle) <= budget)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

static int64_t choose_chunk(struct cuda_plan *plan, uint64_t budget, bool given)
{
    const struct lce_problem *p = &plan->base.problem;
    int64_t most = largest_within(plan, budget - budget / 64); /* something for cuBLASLt */
    if (most == 0)
        most = largest_within(plan, budget);
    if (!given && most < 128)
        most = 128; /* the default was too small for a problem this large */
    if (most == 0)
        return 0;
    const uint64_t token = token_size(plan), fixed = size_with(plan, most) - (uint64_t)most * token;
    const struct lce_chunk_shape shape = {
        .tokens = plan->rows,
        .hidden = p->hidden,
        .vocab = p->vocab,
        .element = (int)logit_size(plan),
        .grad_element = p->wants & LCE_WANT_GRAD_WEIGHT ? (int)lce_dtype_size(p->grad_weight_dtype) : 0,
        .grad_input = (p->wants & LCE_WANT_GRAD_INPUT) != 0,
        .processors = cuda_of(plan)->processors,
        .budget = budget > fixed ? budget - fixed : 0,
        .token = token,
    };
    return lce_chunk_choose(&shape, most);
}

static uint64_t default_budget(int mode)
{
    return (mode == LCE_LEAN ? 128 : 512) * MIB;
}

static int too_small(struct cuda_plan *plan, uint64_t budget, int64_t chunk)
{
    return lce_fail(LCE_BUDGET_TOO_SMALL,
                    "lce_plan_create: a budget of %llu bytes; the smallest plan needs %zu",
                    (unsigned long long)budget, size_with(plan, chunk > 0 ? chunk : 1));
}

/* Sets chunk, last, layout and *SCRATCH: how much of the budget cuBLASLt may have. */
static int settle_chunk(struct cuda_plan *plan, int64_t chunk, uint64_t budget, size_t *scratch)
{
    const uint64_t within = budget ? budget : default_budget(plan->base.info.mode);
    if (plan->base.info.mode == LCE_NAIVE)
        chunk = plan->rows > 0 ? plan->rows : 1;
    else if (chunk == 0)
        chunk = choose_chunk(plan, within, budget != 0);
    if (plan->rows > 0 && chunk > plan->rows)
        chunk = plan->rows;
    size_t size = chunk > 0 ? size_with(plan, chunk) : SIZE_MAX;
    if (budget && size > budget)
        return too_small(plan, budget, chunk);
    *scratch = LCE_MOST_SCRATCH;
    if (budget && budget - size < *scratch)
        *scratch = (size_t)((budget - size) / 256 * 256);
    if (!budget && plan->base.info.mode != LCE_NAIVE && size < within && within - size < *scratch)
        *scratch = (size_t)((within - size) / 256 * 256);
    plan->chunk = chunk;
    plan->last = plan->rows > 0 ? (plan->rows - 1) % chunk + 1 : 0;
    return LCE_OK;
}

/* ---- products ---- */

/* Rows of CHUNK times STRIDE elements lie one after the other: what their addresses are multiples of. */
static uint32_t alignment_of(const struct lce_problem *p, int64_t chunk, int64_t stride)
{
    const uint64_t step = (uint64_t)chunk * (uint64_t)stride * lce_dtype_size(p->dtype);
    uint32_t alignment = 16;
    while (step % alignment)
        alignment /= 2;
    return alignment;
}

/* Scratch is memory that others may need: none where it would gain next to nothing. */
static int make_product(const struct cuda_plan *plan, const struct lce_product *product, size_t scratch,
                        struct lce_gemm *out)
{
    const struct cuda_library *l = cuda_of(plan);
    const bool needs = lce_worth_splitting(product->m, product->n, l->processors);
    return lce_gemm_create(&l->blas, l->handle, product, needs ? scratch : 0, out);
}

static int make_products(const struct cuda_plan *plan, int64_t n, size_t scratch, struct cuda_products *out)
{
    const struct lce_problem *p = &plan->base.problem;
    const int64_t x = plan->compacts ? p->hidden : p->input_stride,
                  dx = plan->compacts ? p->hidden : p->grad_input_stride;
    struct lce_product common = {.dtype = p->dtype, .out_dtype = p->dtype, .tf32 = p->flags & LCE_ALLOW_TF32};
    struct lce_product logits = common, dinput = common, dweight = common;
    logits.m = n, logits.n = p->vocab, logits.k = p->hidden;
    logits.a_stride = x, logits.b_stride = p->weight_stride, logits.out_stride = plan->stride;
    logits.transpose_b = true;
    logits.out_dtype = plan->wide ? LCE_F32 : p->dtype;
    logits.proposal = p->proposals & 15;
    logits.alignment = alignment_of(p, plan->chunk, x);
    dinput.m = n, dinput.n = p->hidden, dinput.k = p->vocab;
    dinput.a_stride = plan->g_stride, dinput.b_stride = p->weight_stride, dinput.out_stride = dx;
    dinput.alignment = alignment_of(p, plan->chunk, dx);
    dinput.proposal = p->proposals >> 4 & 15;
    dinput.device_factors = plan->scaled;
    dweight.m = p->vocab, dweight.n = p->hidden, dweight.k = n;
    dweight.a_stride = plan->g_stride, dweight.b_stride = x;
    dweight.out_stride = plan->accumulates ? p->hidden : p->grad_weight_stride;
    dweight.out_dtype = plan->accumulates ? LCE_F32 : p->grad_weight_dtype;
    dweight.transpose_a = true;
    dweight.proposal = p->proposals >> 8 & 15;
    dweight.alignment = logits.alignment;
    dweight.device_factors = plan->scaled;
    int status = make_product(plan, &logits, scratch, &out->logits);
    if (!status && p->wants & LCE_WANT_GRAD_INPUT)
        status = make_product(plan, &dinput, scratch, &out->dinput);
    if (!status && p->wants & LCE_WANT_GRAD_WEIGHT)
        status = make_product(plan, &dweight, scratch, &out->dweight);
    return status;
}

static size_t scratch_of(const struct cuda_products *products)
{
    size_t most = products->logits.workspace_size;
    most = products->dinput.workspace_size > most ? products->dinput.workspace_size : most;
    return products->dweight.workspace_size > most ? products->dweight.workspace_size : most;
}

static void drop_products(const struct cuda_library *l, struct cuda_products *products)
{
    lce_gemm_destroy(&l->blas, &products->logits);
    lce_gemm_destroy(&l->blas, &products->dinput);
    lce_gemm_destroy(&l->blas, &products->dweight);
}

/* ---- kernels ---- */

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

/* How the kernels of softmax.cu are named: by the types of logits and gradient. */
static const char *softmax_types(const struct cuda_plan *plan)
{
    const int dtype = plan->base.problem.dtype;
    return !plan->wide ? type_name(dtype) : dtype == LCE_F16 ? "wide_f16" : "wide_bf16";
}

/* The number of vectors a thread that there is a kernel for: at least EACH, or 0. */
static int vectors_for(const struct cuda_plan *plan, int64_t each, bool general)
{
    if (each <= MANY_VECTORS)
        return general ? (each <= 2 ? 2 : MANY_VECTORS) : (int)each;
    if (each > 16 || logit_size(plan) != sizeof(float))
        return 0;
    return general || each > 12 ? 16 : 12;
}

/* The smallest cluster whose registers hold a row, MOST vectors a thread unless it is the largest cluster;
 * `loop` where none does. */
static int find_softmax(struct cuda_plan *plan, const char *kind, int64_t most, struct cuda_softmax *softmax)
{
    const int64_t vectors = plan->stride * (int64_t)logit_size(plan) / 16;
    const bool general = !strcmp(kind, "general");
    char name[64];
    int64_t each = vectors;
    for (softmax->cluster = 1;; softmax->cluster *= 2) {
        const int64_t threads = (int64_t)softmax->cluster * THREADS;
        each = round_up(vectors, threads) / threads;
        if (each <= most || softmax->cluster == MOST_CLUSTER)
            break;
    }
    const int count = vectors_for(plan, each, general);
    if (count == 0) {
        softmax->cluster = 1;
        snprintf(name, sizeof name, "lce_softmax_%s_loop", softmax_types(plan));
    } else {
        snprintf(name, sizeof name, "lce_softmax_%s_%s_%d", softmax_types(plan), kind, count);
    }
    return cuda_find(cuda_of(plan), IMAGE_SOFTMAX, name, &softmax->function);
}

/* For measuring: keeping the exponentials of 16-bit logits, where a thread's share is small enough. */
static int find_plain(struct cuda_plan *plan)
{
    const struct lce_problem *p = &plan->base.problem;
    const bool kept = p->proposals >> 12 & 1 && logit_size(plan) == 2 &&
                      plan->stride <= (int64_t)MOST_CLUSTER * THREADS * KEPT_VECTORS * 8;
    return find_softmax(plan, kept ? "kept" : "plain", kept ? KEPT_VECTORS : MANY_VECTORS,
                        &plan->kernels.plain);
}

static int find_naive(struct cuda_plan *plan)
{
    struct cuda_kernels *k = &plan->kernels;
    const int dtype = plan->base.problem.dtype;
    char upcast[64];
    snprintf(upcast, sizeof upcast, "lce_naive_upcast_%s", softmax_types(plan));
    int status = cuda_find(cuda_of(plan), IMAGE_NAIVE, upcast, &k->upcast);
    if (!status)
        status = find_typed(plan, IMAGE_NAIVE, "naive_cast", dtype, &k->cast);
    if (!status)
        status = cuda_find(cuda_of(plan), IMAGE_NAIVE, "lce_naive_log_softmax", &k->log_softmax);
    return status ? status : cuda_find(cuda_of(plan), IMAGE_NAIVE, "lce_naive_gradient", &k->gradient);
}

static int find_kernels(struct cuda_plan *plan)
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
        status = cuda_find(l, IMAGE_TOKENS, "lce_reduce", &k->reduce);
    if (!status)
        status = find_typed(plan, IMAGE_TOKENS, "settle", p->dtype, &k->settle);
    if (!status)
        status = find_typed(plan, IMAGE_TOKENS, "column_sum", p->dtype, &k->column_sum);
    if (!status)
        status = find_typed(plan, IMAGE_TOKENS, "store", p->grad_weight_dtype, &k->store);
    if (!status)
        status = find_plain(plan);
    if (!status)
        status = find_softmax(plan, "general", MANY_VECTORS, &k->general);
    if (!status && plan->base.info.mode == LCE_NAIVE)
        status = find_naive(plan);
    return status;
}

/* ---- all of it ---- */

static int fill(struct cuda_plan *plan, int64_t chunk, uint64_t budget)
{
    size_t scratch = 0;
    int status = settle_chunk(plan, chunk, budget, &scratch);
    if (!status && plan->rows > 0)
        status = make_products(plan, plan->chunk, scratch, &plan->full);
    if (!status && plan->rows > 0 && plan->last != plan->chunk)
        status = make_products(plan, plan->last, scratch, &plan->tail);
    if (!status)
        status = find_kernels(plan);
    if (status)
        return status;
    const size_t full = scratch_of(&plan->full), tail = scratch_of(&plan->tail);
    struct lce_plan_info *info = &plan->base.info;
    info->gemm_size = full > tail ? full : tail;
    info->workspace_size = plan->layout.scratch + info->gemm_size;
    info->chunk_tokens = plan->chunk;
    info->chunks = (int32_t)((plan->rows + plan->chunk - 1) / plan->chunk);
    info->logits_size = (uint64_t)plan->chunk * (uint64_t)plan->stride * logit_size(plan);
    return LCE_OK;
}

static int choose_mode(const struct lce_problem *p, int mode, uint64_t budget)
{
    if (mode != LCE_AUTO)
        return mode;
    const bool wide = p->flags & LCE_F32_LOGITS;
    const uint64_t enough = 1024 * (uint64_t)p->vocab * lce_dtype_size(wide ? LCE_F32 : p->dtype);
    return !budget || budget >= enough ? LCE_FAST : LCE_LEAN;
}

int cuda_plan_create(struct lce *library, const struct lce_problem *problem, int mode, int64_t chunk,
                     uint64_t budget, struct lce_plan **out)
{
    struct cuda_plan *plan = calloc(1, sizeof *plan);
    if (!plan)
        return lce_fail(LCE_OUT_OF_MEMORY, "lce_plan_create: no memory for a plan");
    plan->base.library = library;
    plan->base.problem = *problem;
    plan->base.info.mode = choose_mode(problem, mode, budget);
    plan->compacts = problem->max_counted > 0 && problem->max_counted < problem->tokens &&
                     plan->base.info.mode != LCE_NAIVE;
    plan->rows = plan->compacts ? problem->max_counted : problem->tokens;
    plan->scaled = problem->dtype == LCE_F16 && problem->reduction != LCE_NONE;
    plan->stride = round_up(problem->vocab, 64); /* rows of logits begin at whole cache lines */
    plan->wide = problem->flags & LCE_F32_LOGITS && problem->dtype != LCE_F32;
    plan->g_stride = plan->stride * (plan->wide && plan->base.info.mode != LCE_NAIVE ? 2 : 1);
    int status = fill(plan, chunk, budget);
    if (status)
        cuda_plan_destroy(&plan->base);
    else
        *out = &plan->base;
    return status;
}

void cuda_plan_destroy(struct lce_plan *base)
{
    struct cuda_plan *plan = (struct cuda_plan *)base;
    drop_products(cuda_of(plan), &plan->full);
    drop_products(cuda_of(plan), &plan->tail);
    free(plan);
}
