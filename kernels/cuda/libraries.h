/*
 * libraries.h - the functions of the CUDA driver and of cuBLASLt that we call.  They are looked up at run
 * time, so that this library loads on machines without CUDA.
 */
#ifndef LCE_CUDA_LIBRARIES_H
#define LCE_CUDA_LIBRARIES_H

#include <cublasLt.h>
#include <cuda.h>

#include "internal.h"

#define LCE_DRIVER_FUNCTIONS(X)                                                                              \
    X(cuGetErrorName, error_name, (CUresult status, const char **name))                                      \
    X(cuCtxGetCurrent, context_current, (CUcontext * context))                                               \
    X(cuCtxGetDevice, context_device, (CUdevice * device))                                                   \
    X(cuDeviceGetAttribute, attribute, (int *value, CUdevice_attribute attribute, CUdevice device))          \
    X(cuLibraryLoadData, library_load,                                                                       \
      (CUlibrary * library, const void *code, CUjit_option *jit, void **jit_values, unsigned int jit_count,  \
       CUlibraryOption *options, void **values, unsigned int count))                                         \
    X(cuLibraryUnload, library_unload, (CUlibrary library))                                                  \
    X(cuLibraryGetKernel, library_kernel, (CUkernel * kernel, CUlibrary library, const char *name))          \
    X(cuKernelGetFunction, kernel_function, (CUfunction * function, CUkernel kernel))                        \
    X(cuLaunchKernelEx, launch,                                                                              \
      (const CUlaunchConfig *config, CUfunction function, void **arguments, void **extra))

/* NULL if the driver lacks it */
#define LCE_DRIVER_OPTIONAL(X)                                                                               \
    X(cuFuncSetAttribute, function_set, (CUfunction function, CUfunction_attribute attribute, int value))    \
    X(cuTensorMapEncodeTiled, encode_map,                                                                    \
      (CUtensorMap * map, CUtensorMapDataType type, cuuint32_t rank, void *address, const cuuint64_t *size,  \
       const cuuint64_t *stride, const cuuint32_t *box, const cuuint32_t *step,                              \
       CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle, CUtensorMapL2promotion promotion,       \
       CUtensorMapFloatOOBfill fill))

#define LCE_BLAS_FUNCTIONS(X)                                                                                \
    X(cublasLtGetStatusName, status_name, const char *, (cublasStatus_t status))                             \
    X(cublasLtGetVersion, version, size_t, (void))                                                           \
    X(cublasLtCreate, create, cublasStatus_t, (cublasLtHandle_t * handle))                                   \
    X(cublasLtDestroy, destroy, cublasStatus_t, (cublasLtHandle_t handle))                                   \
    X(cublasLtMatmulDescCreate, desc_create, cublasStatus_t,                                                 \
      (cublasLtMatmulDesc_t * desc, cublasComputeType_t compute, cudaDataType_t scale))                      \
    X(cublasLtMatmulDescDestroy, desc_destroy, cublasStatus_t, (cublasLtMatmulDesc_t desc))                  \
    X(cublasLtMatmulDescSetAttribute, desc_set, cublasStatus_t,                                              \
      (cublasLtMatmulDesc_t desc, cublasLtMatmulDescAttributes_t attribute, const void *value, size_t size)) \
    X(cublasLtMatrixLayoutCreate, layout_create, cublasStatus_t,                                             \
      (cublasLtMatrixLayout_t * layout, cudaDataType type, uint64_t rows, uint64_t columns, int64_t stride)) \
    X(cublasLtMatrixLayoutDestroy, layout_destroy, cublasStatus_t, (cublasLtMatrixLayout_t layout))          \
    X(cublasLtMatmulPreferenceCreate, preference_create, cublasStatus_t,                                     \
      (cublasLtMatmulPreference_t * preference))                                                             \
    X(cublasLtMatmulPreferenceDestroy, preference_destroy, cublasStatus_t,                                   \
      (cublasLtMatmulPreference_t preference))                                                               \
    X(cublasLtMatmulPreferenceSetAttribute, preference_set, cublasStatus_t,                                  \
      (cublasLtMatmulPreference_t preference, cublasLtMatmulPreferenceAttributes_t attribute,                \
       const void *value, size_t size))                                                                      \
    X(cublasLtMatmulAlgoGetHeuristic, heuristic, cublasStatus_t,                                             \
      (cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t a,                         \
       cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,                         \
       cublasLtMatmulPreference_t preference, int asked, cublasLtMatmulHeuristicResult_t results[],          \
       int *found))                                                                                          \
    X(cublasLtMatmulAlgoConfigGetAttribute, algorithm_get, cublasStatus_t,                                   \
      (const cublasLtMatmulAlgo_t *algorithm, cublasLtMatmulAlgoConfigAttributes_t attribute, void *value,   \
       size_t size, size_t *written))                                                                        \
    X(cublasLtMatmul, matmul, cublasStatus_t,                                                                \
      (cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, const void *alpha, const void *a,                 \
       cublasLtMatrixLayout_t a_layout, const void *b, cublasLtMatrixLayout_t b_layout, const void *beta,    \
       const void *c, cublasLtMatrixLayout_t c_layout, void *d, cublasLtMatrixLayout_t d_layout,             \
       const cublasLtMatmulAlgo_t *algorithm, void *workspace, size_t workspace_size, cudaStream_t stream))

struct lce_driver {
#define X(name, field, parameters) CUresult(*field) parameters;
    LCE_DRIVER_FUNCTIONS(X)
    LCE_DRIVER_OPTIONAL(X)
#undef X
};

struct lce_blas {
#define X(name, field, type, parameters) type(*field) parameters;
    LCE_BLAS_FUNCTIONS(X)
#undef X
};

/* The name of an error, such as "CUDA_ERROR_INVALID_VALUE". */
const char *lce_driver_error(const struct lce_driver *driver, CUresult status);

/* ---- gemm.c: a product of a fixed shape, whose algorithm is chosen when the plan is made ---- */

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
