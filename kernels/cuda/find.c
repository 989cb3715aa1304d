/*
 * find.c - finds a plan's kernels by name: by its types and, for rows that stay in registers, their length.
 */
#include <stdarg.h>
#include <stdio.h>

#include "cuda.h"

enum { THREADS = 512, MANY_VECTORS = 8, GENERAL_VECTORS = 4, MOST_CLUSTER = 8 };

static const char *const kinds[CUDA_KINDS] = {"plain", "entropic", "general"};

/* A search for one kernel after the other; those after one that is not there are left out. */
struct search {
    struct cuda_plan *plan;
    int status;
};

__attribute__((format(printf, 4, 5))) static void find(struct search *s, int image, CUfunction *function,
                                                       const char *format, ...)
{
    char name[64] = "lce_";
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(name + 4, sizeof name - 4, format, arguments);
    va_end(arguments);
    if (s->status)
        return;
    const struct cuda_library *l = cuda_of(s->plan);
    CUkernel kernel;
    CUresult status = l->driver.library_kernel(&kernel, l->images[image], name);
    if (!status) /* also loads its code, which must not happen during a run */
        status = l->driver.kernel_function(function, kernel);
    if (status)
        s->status = lce_fail(LCE_DEVICE_ERROR, "lce_plan_create: kernel %s: %s", name,
                             lce_driver_error(&l->driver, status));
}

static const char *type_name(int dtype)
{
    return dtype == LCE_F32 ? "f32" : dtype == LCE_F16 ? "f16" : "bf16";
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

/* Finds the kernel with the smallest cluster whose registers hold a row with at most MOST vectors per thread
 * (in the largest cluster more).  If there is none, or no clusters, it is `loop`, which takes any row. */
static void find_softmax(struct search *s, int kind, int64_t most)
{
    struct cuda_plan *plan = s->plan;
    struct cuda_softmax *softmax = &plan->kernels.softmax[kind];
    const int64_t vectors = plan->stride * (int64_t)cuda_logit_size(plan) / 16;
    int64_t each = vectors;
    for (softmax->cluster = 1;; softmax->cluster *= 2) {
        const int64_t threads = (int64_t)softmax->cluster * THREADS;
        each = cuda_round_up(vectors, threads) / threads;
        if (each <= most || softmax->cluster == MOST_CLUSTER)
            break;
    }
    const int count = cuda_has_clusters(plan) ? vectors_for(plan, each, kind == CUDA_GENERAL) : 0;
    if (count == 0) {
        softmax->cluster = 0;
        find(s, IMAGE_SOFTMAX, &softmax->function, "softmax_%s_loop", softmax_types(plan));
    } else {
        find(s, IMAGE_SOFTMAX, &softmax->function, "softmax_%s_%s_%d", softmax_types(plan), kinds[kind],
             count);
    }
}

static void find_slabs(struct search *s)
{
    struct cuda_kernels *k = &s->plan->kernels;
    for (int i = 0; i < CUDA_KINDS; i++) {
        find(s, IMAGE_SLAB, &k->scan[i], "slab_scan_%s_%s", softmax_types(s->plan), kinds[i]);
        find(s, IMAGE_SLAB, &k->slab_gradient[i], "slab_gradient_%s_%s", softmax_types(s->plan), kinds[i]);
    }
    find(s, IMAGE_SLAB, &k->parts, "parts");
}

/* Whether sums of dweight are wider than the input. */
static bool wide_dweight(const struct cuda_plan *plan)
{
    const struct lce_problem *p = &plan->base.problem;
    return p->dtype != LCE_F32 && (plan->accumulates || p->grad_weight_dtype == LCE_F32);
}

static void find_tail(struct search *s)
{
    const struct cuda_plan *plan = s->plan;
    struct cuda_kernels *k = &s->plan->kernels;
    const char *type = type_name(plan->base.problem.dtype);
    find(s, IMAGE_TAIL, &k->tail_logits, "tail_logits_%s%s", plan->wide ? "wide_" : "", type);
    find(s, IMAGE_TAIL, &k->tail_dinput, "tail_dinput_%s", type);
    find(s, IMAGE_TAIL, &k->tail_dweight, "tail_dweight_%s%s", wide_dweight(plan) ? "wide_" : "", type);
}

/* One of the products, which all need more shared memory than a kernel has unasked. */
static void find_product(struct search *s, CUfunction *function, const char *name)
{
    const struct lce_driver *driver = &cuda_of(s->plan)->driver;
    find(s, IMAGE_PRODUCT, function, "own_%s_%s", name, type_name(s->plan->base.problem.dtype));
    if (s->status)
        return;
    CUresult set =
        driver->function_set(*function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, LCE_PRODUCT_SHARED);
    if (set)
        s->status = lce_fail(LCE_DEVICE_ERROR, "lce_plan_create: shared memory of kernel lce_own_%s: %s",
                             name, lce_driver_error(driver, set));
}

static void find_own(struct search *s)
{
    const struct cuda_plan *plan = s->plan;
    struct cuda_own_kernels *k = &s->plan->kernels.own;
    const bool wide = wide_dweight(plan);
    find_product(s, &k->logits, plan->wide ? "logits_wide" : "logits");
    find_product(s, &k->dinput, cuda_sums_dinput(plan) ? "dinput_sums" : "dinput");
    find_product(s, &k->narrow_dinput, "dinput_narrow");
    find_product(s, &k->dweight, wide ? "dweight_wide" : "dweight");
    find_product(s, &k->narrow_dweight, wide ? "dweight_wide_narrow" : "dweight_narrow");
    find(s, IMAGE_PRODUCT, &k->scatter, "own_scatter_%s", type_name(plan->base.problem.dtype));
}

static void find_odds(struct search *s)
{
    struct cuda_own_kernels *k = &s->plan->kernels.own;
    find_product(s, &k->odds, "odds");
    find_product(s, &k->gradient, "gradient");
    find(s, IMAGE_ODDS, &k->odds_start, "odds_start");
    find(s, IMAGE_ODDS, &k->odds_rows, "odds_rows");
    find(s, IMAGE_ODDS, &k->odds_dinput, "odds_dinput");
    find(s, IMAGE_ODDS, &k->odds_fold, "odds_fold");
    find(s, IMAGE_ODDS, &k->odds_store, "odds_store");
    find(s, IMAGE_ODDS, &k->label_reserve, "label_reserve");
    find(s, IMAGE_ODDS, &k->label_place, "label_place");
    find(s, IMAGE_ODDS, &k->label_rows, "label_rows_%s", wide_dweight(s->plan) ? "f32" : "bf16");
}

int cuda_find_kernels(struct cuda_plan *plan)
{
    const struct lce_problem *p = &plan->base.problem;
    struct cuda_kernels *k = &plan->kernels;
    struct search s = {plan, LCE_OK};
    find(&s, IMAGE_TOKENS, &k->prepare, "prepare");
    find(&s, IMAGE_TOKENS, &k->gather, "gather");
    find(&s, IMAGE_TOKENS, &k->scatter, "scatter");
    find(&s, IMAGE_TOKENS, &k->expand, "expand");
    find(&s, IMAGE_TOKENS, &k->reduce, "reduce");
    find(&s, IMAGE_TOKENS, &k->blank, "blank_%s", type_name(p->dtype));
    find(&s, IMAGE_TOKENS, &k->column_sum, "column_sum_%s", type_name(p->dtype));
    find(&s, IMAGE_TOKENS, &k->store, "store_%s", type_name(p->grad_weight_dtype));
    if (cuda_sums_dinput(plan))
        find(&s, IMAGE_TOKENS, &k->store_input, "store_%s", type_name(p->dtype));
    if (plan->own)
        find_own(&s);
    else if (plan->tail)
        find_tail(&s);
    if (plan->exponents) {
        find_product(&s, &k->own.exponents, "exponents");
        find(&s, IMAGE_EXPONENTS, &k->own.exponents_pass, "exponents_%s", type_name(p->dtype));
        if (plan->odds)
            find_odds(&s);
    }
    if (cuda_sliced(plan) || lce_in_parts(p)) {
        find_slabs(&s);
    } else {
        find_softmax(&s, CUDA_PLAIN, MANY_VECTORS);
        find_softmax(&s, CUDA_ENTROPIC, MANY_VECTORS);
        find_softmax(&s, CUDA_GENERAL, GENERAL_VECTORS);
    }
    return s.status;
}
