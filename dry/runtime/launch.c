/*
 * launch.c - kernels, given to the driver with what the program said; likewise in per_thread.c.
 */
#include "runtime.h"

#ifdef CUDA_API_PER_THREAD_DEFAULT_STREAM
#define __cudaLaunchKernel __cudaLaunchKernel_ptsz
#endif

DRY_API cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void **args, size_t shared,
                                       cudaStream_t stream);

/* An unknown handle is an unknown function here. */
static cudaError_t launched(CUresult result)
{
    return result == CUDA_ERROR_INVALID_HANDLE ? rt_failed(cudaErrorInvalidDeviceFunction) : rt_done(result);
}

cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void **args, size_t shared,
                               cudaStream_t stream)
{
    RT_CALL(rt_enter);
    return launched(DRIVER(cuLaunchKernel)((CUfunction)kernel, grid.x, grid.y, grid.z, block.x, block.y,
                                           block.z, (unsigned)shared, stream, args, NULL));
}

DRY_API cudaError_t CUDARTAPI cudaLaunchKernel(const void *func, dim3 gridDim, dim3 blockDim, void **args,
                                               size_t sharedMem, cudaStream_t stream)
{
    RT_KERNEL_CALL(kernel, func);
    return __cudaLaunchKernel(kernel, gridDim, blockDim, args, sharedMem, stream);
}

DRY_API cudaError_t CUDARTAPI cudaLaunchCooperativeKernel(const void *func, dim3 gridDim, dim3 blockDim,
                                                          void **args, size_t sharedMem, cudaStream_t stream)
{
    RT_KERNEL_CALL(kernel, func);
    return launched(DRIVER(cuLaunchCooperativeKernel)((CUfunction)kernel, gridDim.x, gridDim.y, gridDim.z,
                                                      blockDim.x, blockDim.y, blockDim.z, (unsigned)sharedMem,
                                                      stream, args));
}

DRY_API cudaError_t CUDARTAPI cudaLaunchKernelExC(const cudaLaunchConfig_t *config, const void *func,
                                                  void **args)
{
    RT_KERNEL_CALL(kernel, func);
    if (!config)
        return rt_failed(cudaErrorInvalidValue);
    CUlaunchConfig same = rt_launch_config(config);
    return launched(DRIVER(cuLaunchKernelEx)(&same, (CUfunction)kernel, args, NULL));
}
