/*
 * products.c - describes a plan's products to cuBLASLt: of each shape that a run has one of each.
 */
#include "cuda.h"

/* The alignment in bytes of the plan's blocks of rows of STRIDE elements that lie one after the other. */
static uint32_t alignment_of(const struct cuda_plan *plan, int64_t stride)
{
    const uint64_t row = (uint64_t)stride * lce_dtype_size(plan->base.problem.dtype);
    uint32_t alignment = 16;
    while ((uint64_t)plan->chunk * row % alignment || (uint64_t)plan->from * row % alignment)
        alignment /= 2;
    return alignment;
}

/* No scratch where it would gain next to nothing, because the program may need the memory. */
static int make_product(const struct cuda_plan *plan, const struct lce_product *product, size_t scratch,
                        struct lce_gemm *out)
{
    const struct cuda_library *l = cuda_of(plan);
    const bool needs = lce_worth_splitting(product->m, product->n, l->processors);
    return lce_gemm_create(&l->blas, l->handle, product, needs ? scratch : 0, out);
}

/* Creates the products of N tokens by COLUMNS classes, of which there may be none. */
static int make_products(const struct cuda_plan *plan, int64_t n, int64_t columns, size_t scratch,
                         struct cuda_products *out)
{
    if (columns == 0)
        return LCE_OK;
    const struct lce_problem *p = &plan->base.problem;
    const int64_t x = plan->compacts ? p->hidden : p->input_stride,
                  dx = plan->compacts || cuda_sums_dinput(plan) ? p->hidden : p->grad_input_stride;
    struct lce_product common = {.dtype = p->dtype, .out_dtype = p->dtype, .tf32 = p->flags & LCE_ALLOW_TF32};
    struct lce_product logits = common, dinput = common, dweight = common;
    if (cuda_of(plan)->major == 9 && cuda_has_clusters(plan) &&
        p->dtype != LCE_F32) /* no other case was measured */
        logits.role = LCE_LOGITS, dweight.role = LCE_DWEIGHT;
    logits.m = n, logits.n = columns, logits.k = p->hidden;
    logits.a_stride = x, logits.b_stride = p->weight_stride, logits.out_stride = plan->stride;
    logits.transpose_b = true;
    logits.out_dtype = plan->wide ? LCE_F32 : p->dtype;
    logits.alignment = alignment_of(plan, x);
    dinput.m = n, dinput.n = p->hidden, dinput.k = columns;
    dinput.a_stride = plan->g_stride, dinput.b_stride = p->weight_stride, dinput.out_stride = dx;
    dinput.alignment = alignment_of(plan, dx);
    dinput.device_factors = plan->scaled;
    dinput.out_dtype = cuda_sums_dinput(plan) ? LCE_F32 : p->dtype;
    dweight.m = plan->borrowed ? p->vocab - plan->borrowed : columns, dweight.n = p->hidden, dweight.k = n;
    dweight.a_stride = plan->g_stride, dweight.b_stride = x;
    dweight.out_stride = plan->accumulates ? p->hidden : p->grad_weight_stride;
    dweight.out_dtype = plan->accumulates ? LCE_F32 : p->grad_weight_dtype;
    dweight.transpose_a = true;
    dweight.alignment = logits.alignment;
    dweight.device_factors = plan->scaled;
    int status = make_product(plan, &logits, scratch, &out->logits);
    if (!status && p->wants & LCE_WANT_GRAD_INPUT)
        status = make_product(plan, &dinput, scratch, &out->dinput);
    if (!status && p->wants & LCE_WANT_GRAD_WEIGHT)
        status = make_product(plan, &dweight, scratch, &out->dweight);
    return status;
}

/* Creates the products of every shape that a run has: the last chunk may be shorter, the last slab
 * narrower. */
int cuda_make_products(struct cuda_plan *plan, size_t scratch)
{
    const int64_t narrow = (plan->end - plan->begin - 1) % plan->columns + 1;
    int status = LCE_OK;
    for (int shorter = 0; !plan->own && plan->rows > 0 && shorter <= (plan->last != plan->chunk); shorter++)
        for (int narrower = 0; !status && narrower <= (narrow != plan->columns); narrower++)
            status = make_products(plan, shorter ? plan->last : plan->chunk,
                                   narrower || narrow == plan->columns ? narrow - plan->tail : plan->columns,
                                   scratch, &plan->products[shorter][narrower]);
    return status;
}

static size_t scratch_of(const struct cuda_products *products)
{
    size_t most = products->logits.workspace_size;
    most = products->dinput.workspace_size > most ? products->dinput.workspace_size : most;
    return products->dweight.workspace_size > most ? products->dweight.workspace_size : most;
}

/* The largest scratch of the plan's products. */
size_t cuda_most_scratch(const struct cuda_plan *plan)
{
    size_t most = 0;
    for (int i = 0; i < 4; i++) {
        const size_t one = scratch_of(&plan->products[i / 2][i % 2]);
        most = one > most ? one : most;
    }
    return most;
}

void cuda_drop_products(struct cuda_plan *plan)
{
    const struct lce_blas *blas = &cuda_of(plan)->blas;
    for (int i = 0; i < 4; i++) {
        struct cuda_products *products = &plan->products[i / 2][i % 2];
        lce_gemm_destroy(blas, &products->logits);
        lce_gemm_destroy(blas, &products->dinput);
        lce_gemm_destroy(blas, &products->dweight);
    }
}
