/*
 * cublas.cpp - the functions of cuBLASLt that the linear cross-entropy calls: one algorithm, three loops in
 * fp32, no scratch.  Shapes, transpositions, strides and types are taken at their word.
 */
#include <cublasLt.h>
#include <stdlib.h>
#include <vector>

#include "half.h"

#define API extern "C" __attribute__((visibility("default"))) cublasStatus_t
#define OK  CUBLAS_STATUS_SUCCESS

struct Description {
    bool transposed[2];
};

struct Layout {
    int dtype;
    size_t rows, columns;
    int64_t stride;
};

extern "C" __attribute__((visibility("default"))) const char *cublasLtGetStatusName(cublasStatus_t)
{
    return "CUBLAS_STATUS_SUCCESS";
}
extern "C" __attribute__((visibility("default"))) size_t cublasLtGetVersion()
{
    return 130000;
}
API cublasLtCreate(cublasLtHandle_t *handle)
{
    *handle = reinterpret_cast<cublasLtHandle_t>(1);
    return OK;
}
API cublasLtDestroy(cublasLtHandle_t)
{
    return OK;
}
API cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *description, cublasComputeType_t, cudaDataType_t)
{
    *description = reinterpret_cast<cublasLtMatmulDesc_t>(new Description{});
    return OK;
}
API cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t description)
{
    delete reinterpret_cast<Description *>(description);
    return OK;
}
API cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t description, cublasLtMatmulDescAttributes_t attribute,
                                   const void *value, size_t)
{
    Description *d = reinterpret_cast<Description *>(description);
    const bool transposed = *static_cast<const int32_t *>(value) == CUBLAS_OP_T;
    if (attribute == CUBLASLT_MATMUL_DESC_TRANSA)
        d->transposed[0] = transposed;
    if (attribute == CUBLASLT_MATMUL_DESC_TRANSB)
        d->transposed[1] = transposed;
    return OK;
}
API cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *layout, cudaDataType type, uint64_t rows,
                               uint64_t columns, int64_t stride)
{
    const int dtype = type == CUDA_R_32F ? LCE_F32 : type == CUDA_R_16F ? LCE_F16 : LCE_BF16;
    *layout = reinterpret_cast<cublasLtMatrixLayout_t>(new Layout{dtype, rows, columns, stride});
    return OK;
}
API cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout)
{
    delete reinterpret_cast<Layout *>(layout);
    return OK;
}
API cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *preference)
{
    *preference = reinterpret_cast<cublasLtMatmulPreference_t>(1);
    return OK;
}
API cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t)
{
    return OK;
}
API cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t, cublasLtMatmulPreferenceAttributes_t,
                                         const void *, size_t)
{
    return OK;
}
API cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t, cublasLtMatrixLayout_t,
                                   cublasLtMatrixLayout_t, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                   cublasLtMatmulPreference_t, int, cublasLtMatmulHeuristicResult_t results[],
                                   int *found)
{
    *found = 1;
    results[0].workspaceSize = 0;
    return OK;
}
API cublasLtMatmulAlgoConfigGetAttribute(const cublasLtMatmulAlgo_t *, cublasLtMatmulAlgoConfigAttributes_t,
                                         void *, size_t, size_t *)
{
    return CUBLAS_STATUS_NOT_SUPPORTED;
}

/* Row I of op(A), or column I of op(B), as fp32: its elements lie STEP apart. */
static std::vector<float> widened(const void *matrix, const Layout &l, bool along_columns)
{
    const size_t count = along_columns ? l.rows : l.columns, length = along_columns ? l.columns : l.rows;
    std::vector<float> out(count * length);
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < length; k++) {
            const size_t row = along_columns ? i : k, column = along_columns ? k : i;
            out[i * length + k] = lce_load(
                matrix, l.dtype, static_cast<int64_t>(row) + static_cast<int64_t>(column) * l.stride);
        }
    return out;
}

static float dot(const float *a, const float *b, size_t count)
{
    float sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += a[i] * b[i];
    return sum;
}

API cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t description, const void *alpha, const void *a,
                   cublasLtMatrixLayout_t a_layout, const void *b, cublasLtMatrixLayout_t b_layout,
                   const void *beta, const void *, cublasLtMatrixLayout_t, void *out,
                   cublasLtMatrixLayout_t out_layout, const cublasLtMatmulAlgo_t *, void *, size_t,
                   cudaStream_t)
{
    const Description &d = *reinterpret_cast<Description *>(description);
    const Layout &la = *reinterpret_cast<Layout *>(a_layout), &lb = *reinterpret_cast<Layout *>(b_layout),
                 &lo = *reinterpret_cast<Layout *>(out_layout);
    const std::vector<float> rows = widened(a, la, !d.transposed[0]),
                             columns = widened(b, lb, d.transposed[1]);
    const size_t depth = d.transposed[0] ? la.rows : la.columns;
    if (rows.size() != lo.rows * depth || columns.size() != lo.columns * depth)
        return CUBLAS_STATUS_INVALID_VALUE;
    const float scale = *static_cast<const float *>(alpha), keep = *static_cast<const float *>(beta);
    for (size_t j = 0; j < lo.columns; j++)
        for (size_t i = 0; i < lo.rows; i++) {
            const int64_t place = static_cast<int64_t>(i) + static_cast<int64_t>(j) * lo.stride;
            const float before = keep != 0 ? keep * lce_load(out, lo.dtype, place) : 0;
            lce_store(out, lo.dtype, place,
                      scale * dot(&rows[i * depth], &columns[j * depth], depth) + before);
        }
    return OK;
}
