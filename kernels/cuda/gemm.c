/*
 * gemm.c - a row-major product by cuBLASLt, which is column-major: out^T = b^T a^T, the same memory.
 *
 * The algorithm is one of those that cuBLASLt's heuristic proposes when the plan is made.  Nothing is timed,
 * so the same shape, types, strides, alignment, GPU and version give the same bits.
 */
#include <string.h>

#include "libraries.h"

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
