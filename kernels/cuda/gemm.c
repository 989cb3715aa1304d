/*
 * gemm.c - products by cuBLASLt: one that is described and whose algorithm is chosen, and those of each shape
 * that a plan's run has.
 *
 * cuBLASLt is column-major, so a row-major product is out^T = b^T a^T, in the same memory.  The algorithm is
 * one of those that its heuristic proposes when the plan is made.  Nothing is timed, so the same shape,
 * types, strides, alignment, GPU and version give the same bits.
 */
#include <string.h>

#include "cuda.h"

static int failed(const struct lce_blas *blas, const char *what, cublasStatus_t status)
{
    return lce_fail(LCE_GEMM_ERROR, "cuBLASLt: %s: %s", what, blas->status_name(status));
}

static cudaDataType_t data_type(int dtype)
{
    return dtype == LCE_F32 ? CUDA_R_32F : dtype == LCE_F16 ? CUDA_R_16F : CUDA_R_16BF;
}

static cublasStatus_t describe(const struct lce_blas *blas, const struct lce_product *p, struct lce_gemm *g)
{
    const bool tf32 = p->tf32 && p->dtype == LCE_F32;
    const cublasOperation_t first = p->transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N;
    const cublasOperation_t second = p->transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N;
    const cublasLtPointerMode_t pointers =
        p->device_factors ? CUBLASLT_POINTER_MODE_DEVICE : CUBLASLT_POINTER_MODE_HOST;
    cublasStatus_t s =
        blas->desc_create(&g->desc, tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F, CUDA_R_32F);
    if (!s)
        s = blas->desc_set(g->desc, CUBLASLT_MATMUL_DESC_TRANSA, &first, sizeof first);
    if (!s)
        s = blas->desc_set(g->desc, CUBLASLT_MATMUL_DESC_TRANSB, &second, sizeof second);
    if (!s)
        s = blas->desc_set(g->desc, CUBLASLT_MATMUL_DESC_POINTER_MODE, &pointers, sizeof pointers);
    return s;
}

static cublasStatus_t layout(const struct lce_blas *blas, cublasLtMatrixLayout_t *l, int dtype, int64_t rows,
                             int64_t columns, bool transposed, int64_t stride)
{
    return blas->layout_create(l, data_type(dtype), (uint64_t)(transposed ? columns : rows),
                               (uint64_t)(transposed ? rows : columns), stride);
}

static cublasStatus_t layouts(const struct lce_blas *blas, const struct lce_product *p, struct lce_gemm *g)
{
    cublasStatus_t s = layout(blas, &g->a, p->dtype, p->n, p->k, p->transpose_b, p->b_stride);
    if (!s)
        s = layout(blas, &g->b, p->dtype, p->k, p->m, p->transpose_a, p->a_stride);
    if (!s)
        s = layout(blas, &g->out, p->out_dtype, p->n, p->m, false, p->out_stride);
    return s;
}

static cublasStatus_t prefer(const struct lce_blas *blas, cublasLtMatmulPreference_t preference,
                             size_t scratch, uint32_t alignment)
{
    const uint64_t most = scratch;
    /* not INPLACE: it adds partial sums in the order of arrival */
    const uint32_t schemes = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE | CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE;
    static const cublasLtMatmulPreferenceAttributes_t which[] = {
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES};
    cublasStatus_t s =
        blas->preference_set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &most, sizeof most);
    if (!s)
        s = blas->preference_set(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &schemes,
                                 sizeof schemes);
    for (int i = 0; !s && i < 4; i++)
        s = blas->preference_set(preference, which[i], &alignment, sizeof alignment);
    return s;
}

/* ---- which of the proposals ---- */

enum { PROPOSALS = 8, MANY_TILES = 8 /* per multiprocessor: then the last round matters little */ };

/* The tiles that do well on Hopper in 16 bits, best first, ended by 0.  The extents are cuBLASLt's,
 * column-major.
 *
 * Its first proposal has tiles as large as a multiprocessor can hold.  But arithmetic stops while a tile is
 * written, and logits and dweight, with short sums, write much.  Two smaller tiles share a multiprocessor,
 * and one computes while the other is written.  Measured on an H200 (bf16, three shapes, 512 to 2048 tokens,
 * power cap active): logits 3 to 11 %, dweight 9 to 29 % less time. */
static const int *good_tiles(enum lce_role role)
{
    static const int logits[] = {CUBLASLT_MATMUL_TILE_144x128, CUBLASLT_MATMUL_TILE_168x128,
                                 CUBLASLT_MATMUL_TILE_176x128, 0};
    static const int dweight[] = {CUBLASLT_MATMUL_TILE_128x160, 0};
    static const int none[] = {0};
    return role == LCE_LOGITS ? logits : role == LCE_DWEIGHT ? dweight : none;
}

static bool has_tile(const struct lce_blas *blas, const cublasLtMatmulHeuristicResult_t *r, int tile)
{
    uint32_t its = 0;
    size_t written = 0;
    return blas->algorithm_get(&r->algo, CUBLASLT_ALGO_CONFIG_TILE_ID, &its, sizeof its, &written) ==
               CUBLAS_STATUS_SUCCESS &&
           (int)its == tile && r->wavesCount >= MANY_TILES;
}

static int best_of(const struct lce_blas *blas, const struct lce_product *p,
                   const cublasLtMatmulHeuristicResult_t *results, int found)
{
    for (const int *tile = good_tiles(p->role); *tile; tile++)
        for (int i = 0; i < found && i < PROPOSALS; i++)
            if (has_tile(blas, &results[i], *tile))
                return i;
    return 0;
}

static int choose(const struct lce_blas *blas, cublasLtHandle_t handle, const struct lce_product *p,
                  size_t scratch, struct lce_gemm *g)
{
    cublasLtMatmulPreference_t preference;
    cublasLtMatmulHeuristicResult_t results[16];
    int found = 0;
    cublasStatus_t s = blas->preference_create(&preference);
    if (s)
        return failed(blas, "preference", s);
    s = prefer(blas, preference, scratch, p->alignment);
    if (!s)
        s = blas->heuristic(handle, g->desc, g->a, g->b, g->out, g->out, preference, 16, results, &found);
    blas->preference_destroy(preference);
    if (s || found == 0)
        return lce_fail(LCE_GEMM_ERROR,
                        "cuBLASLt has no algorithm for [%lld, %lld] = [.., %lld] in type %d: %s",
                        (long long)p->m, (long long)p->n, (long long)p->k, p->dtype, blas->status_name(s));
    const int best = best_of(blas, p, results, found);
    g->algorithm = results[best].algo;
    g->workspace_size = results[best].workspaceSize;
    return LCE_OK;
}

int lce_gemm_create(const struct lce_blas *blas, cublasLtHandle_t handle, const struct lce_product *product,
                    size_t scratch, struct lce_gemm *gemm)
{
    memset(gemm, 0, sizeof *gemm);
    cublasStatus_t s = describe(blas, product, gemm);
    if (!s)
        s = layouts(blas, product, gemm);
    int status = s ? failed(blas, "describing a product", s) : choose(blas, handle, product, scratch, gemm);
    if (status)
        lce_gemm_destroy(blas, gemm);
    return status;
}

void lce_gemm_destroy(const struct lce_blas *blas, struct lce_gemm *gemm)
{
    const cublasLtMatrixLayout_t all[] = {gemm->a, gemm->b, gemm->out};
    for (int i = 0; i < 3; i++)
        if (all[i])
            blas->layout_destroy(all[i]);
    if (gemm->desc)
        blas->desc_destroy(gemm->desc);
    memset(gemm, 0, sizeof *gemm);
}

int lce_gemm_run(const struct lce_blas *blas, cublasLtHandle_t handle, const struct lce_gemm *gemm, void *out,
                 const void *a, const void *b, const struct lce_factors *factors, void *scratch,
                 CUstream stream)
{
    if (!gemm->desc) /* an empty product adds nothing, and the caller applies beta */
        return LCE_OK;
    cublasStatus_t s = blas->matmul(handle, gemm->desc, factors->alpha, b, gemm->a, a, gemm->b, factors->beta,
                                    out, gemm->out, out, gemm->out, &gemm->algorithm, scratch,
                                    gemm->workspace_size, (cudaStream_t)stream);
    return s ? failed(blas, "a product", s) : LCE_OK;
}

/* ---- the products of a plan ---- */

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
