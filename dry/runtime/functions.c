/*
 * functions.c - a kernel's attributes and occupancy, the configuration of a launch that is under way,
 * functions of the driver by name, the profiler.
 */
#include "runtime.h"

#include <string.h>

/* ---- attributes ---- */

static const struct {
    size_t offset;
    CUfunction_attribute attribute;
} integers[] =
    {
#define A(field, name) {offsetof(struct cudaFuncAttributes, field), CU_FUNC_ATTRIBUTE_##name},
        A(maxThreadsPerBlock, MAX_THREADS_PER_BLOCK) A(numRegs, NUM_REGS) A(ptxVersion, PTX_VERSION)
            A(binaryVersion, BINARY_VERSION) A(cacheModeCA, CACHE_MODE_CA)
                A(maxDynamicSharedSizeBytes, MAX_DYNAMIC_SHARED_SIZE_BYTES)
                    A(preferredShmemCarveout, PREFERRED_SHARED_MEMORY_CARVEOUT)
                        A(clusterDimMustBeSet, CLUSTER_SIZE_MUST_BE_SET)
                            A(requiredClusterWidth, REQUIRED_CLUSTER_WIDTH)
                                A(requiredClusterHeight, REQUIRED_CLUSTER_HEIGHT) A(requiredClusterDepth,
                                                                                    REQUIRED_CLUSTER_DEPTH)
                                    A(clusterSchedulingPolicyPreference, CLUSTER_SCHEDULING_POLICY_PREFERENCE)
                                        A(nonPortableClusterSizeAllowed, NON_PORTABLE_CLUSTER_SIZE_ALLOWED)},
  sizes[] = {A(sharedSizeBytes, SHARED_SIZE_BYTES) A(constSizeBytes, CONST_SIZE_BYTES)
                 A(localSizeBytes, LOCAL_SIZE_BYTES)
#undef A
};

static CUresult ask(CUkernel kernel, CUfunction_attribute attribute, int *value)
{
    return DRIVER(cuKernelGetAttribute)(value, attribute, kernel, rt_current_device());
}

DRY_API cudaError_t CUDARTAPI cudaFuncGetAttributes(struct cudaFuncAttributes *attr, const void *func)
{
    RT_KERNEL_CALL(kernel, func);
    if (!attr)
        return rt_failed(cudaErrorInvalidValue);
    memset(attr, 0, sizeof *attr);
    CUresult result = CUDA_SUCCESS;
    for (size_t i = 0; i < sizeof integers / sizeof *integers && result == CUDA_SUCCESS; i++)
        result = ask(kernel, integers[i].attribute, (int *)((char *)attr + integers[i].offset));
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes && result == CUDA_SUCCESS; i++) {
        int value = 0;
        result = ask(kernel, sizes[i].attribute, &value);
        *(size_t *)((char *)attr + sizes[i].offset) = (size_t)value;
    }
    return rt_done(result);
}

DRY_API cudaError_t CUDARTAPI cudaFuncSetAttribute(const void *func, enum cudaFuncAttribute attr, int value)
{
    RT_KERNEL_CALL(kernel, func);
    return rt_done(
        DRIVER(cuKernelSetAttribute)((CUfunction_attribute)attr, value, kernel, rt_current_device()));
}

DRY_API cudaError_t CUDARTAPI cudaFuncGetName(const char **name, const void *func)
{
    RT_KERNEL_CALL(kernel, func);
    return rt_done(DRIVER(cuKernelGetName)(name, kernel));
}

/* A preference, which nothing follows from here. */
DRY_API cudaError_t CUDARTAPI cudaFuncSetCacheConfig(const void *func, enum cudaFuncCache cacheConfig)
{
    RT_KERNEL_CALL(kernel, func);
    return cudaSuccess;
}

/* ---- occupancy ---- */

DRY_API cudaError_t CUDARTAPI cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
    int *numBlocks, const void *func, int blockSize, size_t dynamicSMemSize, unsigned int flags)
{
    RT_KERNEL_CALL(kernel, func);
    return rt_done(DRIVER(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags)(
        numBlocks, (CUfunction)kernel, blockSize, dynamicSMemSize, flags));
}

DRY_API cudaError_t CUDARTAPI cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *numBlocks, const void *func,
                                                                            int blockSize,
                                                                            size_t dynamicSMemSize)
{
    return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(numBlocks, func, blockSize, dynamicSMemSize,
                                                                  0);
}

DRY_API cudaError_t CUDARTAPI cudaOccupancyAvailableDynamicSMemPerBlock(size_t *dynamicSmemSize,
                                                                        const void *func, int numBlocks,
                                                                        int blockSize)
{
    RT_KERNEL_CALL(kernel, func);
    return rt_done(DRIVER(cuOccupancyAvailableDynamicSMemPerBlock)(dynamicSmemSize, (CUfunction)kernel,
                                                                   numBlocks, blockSize));
}

DRY_API cudaError_t CUDARTAPI cudaOccupancyMaxActiveClusters(int *numClusters, const void *func,
                                                             const cudaLaunchConfig_t *launchConfig)
{
    RT_KERNEL_CALL(kernel, func);
    if (!launchConfig)
        return rt_failed(cudaErrorInvalidValue);
    CUlaunchConfig config = rt_launch_config(launchConfig);
    return rt_done(DRIVER(cuOccupancyMaxActiveClusters)(numClusters, (CUfunction)kernel, &config));
}

DRY_API cudaError_t CUDARTAPI cudaOccupancyMaxPotentialClusterSize(int *clusterSize, const void *func,
                                                                   const cudaLaunchConfig_t *launchConfig)
{
    RT_KERNEL_CALL(kernel, func);
    if (!launchConfig)
        return rt_failed(cudaErrorInvalidValue);
    CUlaunchConfig config = rt_launch_config(launchConfig);
    return rt_done(DRIVER(cuOccupancyMaxPotentialClusterSize)(clusterSize, (CUfunction)kernel, &config));
}

/* ---- between <<< >>> and the function that launches ---- */

struct configuration {
    dim3 grid, block;
    size_t shared;
    cudaStream_t stream;
};
enum { DEPTH = 16 }; /* arguments of a launch may launch */
static _Thread_local struct configuration pushed[DEPTH];
static _Thread_local int depth;

DRY_API unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, void *stream);
DRY_API cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, void *stream);

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, void *stream)
{
    if (depth == DEPTH) {
        rt_failed(cudaErrorInvalidConfiguration);
        return 1;
    }
    pushed[depth++] = (struct configuration){grid, block, shared, stream};
    return 0;
}

cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, void *stream)
{
    if (depth == 0)
        return rt_failed(cudaErrorMissingConfiguration);
    const struct configuration *top = &pushed[--depth];
    *grid = top->grid;
    *block = top->block;
    *shared = top->shared;
    *(cudaStream_t *)stream = top->stream;
    return cudaSuccess;
}

/* ---- the driver's functions by name ---- */

DRY_API cudaError_t CUDARTAPI
cudaGetDriverEntryPointByVersion(const char *symbol, void **funcPtr, unsigned int cudaVersion,
                                 unsigned long long flags, enum cudaDriverEntryPointQueryResult *driverStatus)
{
    RT_CALL(rt_begin);
    return rt_done(DRIVER(cuGetProcAddress)(symbol, funcPtr, (int)cudaVersion, flags, (void *)driverStatus));
}

DRY_API cudaError_t CUDARTAPI cudaGetDriverEntryPoint(const char *symbol, void **funcPtr,
                                                      unsigned long long flags,
                                                      enum cudaDriverEntryPointQueryResult *driverStatus)
{
    return cudaGetDriverEntryPointByVersion(symbol, funcPtr, RT_VERSION, flags, driverStatus);
}

/* ---- a profiler, which is not there ---- */

DRY_API cudaError_t CUDARTAPI cudaProfilerStart(void);
DRY_API cudaError_t CUDARTAPI cudaProfilerStop(void);

cudaError_t cudaProfilerStart(void)
{
    return cudaSuccess;
}

cudaError_t cudaProfilerStop(void)
{
    return cudaSuccess;
}
