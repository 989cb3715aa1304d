/*
 * gemm.h - one matrix product of a fixed shape, described and its algorithm chosen when the plan is made.
 */
#ifndef LCE_CUDA_GEMM_H
#define LCE_CUDA_GEMM_H

#include "libraries.h"

/* Products for which a better algorithm than cuBLASLt's first choice is known, see gemm.c. */
enum lce_role { LCE_ANY, LCE_LOGITS, LCE_DWEIGHT };

/* out[m, n] = a[m, k] b[k, n], all row-major; a may be stored as [k, m], b as [n, k].  Strides
 * in elements. */
struct lce_product {
    int64_t m, n, k;
    int64_t out_stride, a_stride, b_stride;
    enum lce_role role;
    int dtype, out_dtype; /* enum lce_dtype of a and b, and of out */
    uint32_t alignment;   /* bytes that the addresses of all three are multiples of */
    bool transpose_a, transpose_b;
    bool tf32;
    bool device_factors; /* alpha and beta are in device memory */
};

struct lce_gemm {
    cublasLtMatmulDesc_t desc;
    cublasLtMatrixLayout_t a, b, out; /* as cuBLASLt sees it: column-major, so a and b change places */
    cublasLtMatmulAlgo_t algorithm;
    size_t workspace_size;
};

struct lce_factors {
    const void *alpha, *beta; /* float */
};

/* Chooses the algorithm with at most SCRATCH bytes of scratch memory.  A gemm of zeros is the empty product;
 * running it does nothing. */
int lce_gemm_create(const struct lce_blas *blas, cublasLtHandle_t handle, const struct lce_product *product,
                    size_t scratch, struct lce_gemm *gemm);
void lce_gemm_destroy(const struct lce_blas *blas, struct lce_gemm *gemm);
int lce_gemm_run(const struct lce_blas *blas, cublasLtHandle_t handle, const struct lce_gemm *gemm, void *out,
                 const void *a, const void *b, const struct lce_factors *factors, void *scratch,
                 CUstream stream);

#endif
