/*
 * streams.c - the rows of streams.def as functions, and what else there is for either default stream.  The
 * direction of a copy follows from the addresses, not from what the program says.
 */
#include "runtime.h"

#include "streams.def"

static bool is_direction(enum cudaMemcpyKind kind)
{
    return (unsigned)kind <= cudaMemcpyDefault;
}

DRY_API cudaError_t CUDARTAPI cudaMemcpy(void *dst, const void *src, size_t count, enum cudaMemcpyKind kind)
{
    RT_CALL(rt_enter);
    if (!is_direction(kind))
        return rt_failed(cudaErrorInvalidMemcpyDirection);
    return rt_done(DRIVER(cuMemcpy)((CUdeviceptr)dst, (CUdeviceptr)src, count));
}

DRY_API cudaError_t CUDARTAPI cudaMemcpyAsync(void *dst, const void *src, size_t count,
                                              enum cudaMemcpyKind kind, cudaStream_t stream)
{
    RT_CALL(rt_enter);
    if (!is_direction(kind))
        return rt_failed(cudaErrorInvalidMemcpyDirection);
    return rt_done(DRIVER(cuMemcpyAsync)((CUdeviceptr)dst, (CUdeviceptr)src, count, stream));
}

static CUDA_MEMCPY2D rectangle(void *dst, size_t dpitch, const void *src, size_t spitch, size_t width,
                               size_t height)
{
    return (CUDA_MEMCPY2D){.srcMemoryType = CU_MEMORYTYPE_UNIFIED,
                           .srcDevice = (CUdeviceptr)src,
                           .srcPitch = spitch,
                           .dstMemoryType = CU_MEMORYTYPE_UNIFIED,
                           .dstDevice = (CUdeviceptr)dst,
                           .dstPitch = dpitch,
                           .WidthInBytes = width,
                           .Height = height};
}

DRY_API cudaError_t CUDARTAPI cudaMemcpy2D(void *dst, size_t dpitch, const void *src, size_t spitch,
                                           size_t width, size_t height, enum cudaMemcpyKind kind)
{
    RT_CALL(rt_enter);
    if (width > dpitch || width > spitch)
        return rt_failed(cudaErrorInvalidPitchValue);
    CUDA_MEMCPY2D copy = rectangle(dst, dpitch, src, spitch, width, height);
    return width && height ? rt_done(DRIVER(cuMemcpy2DUnaligned)(&copy)) : cudaSuccess;
}

DRY_API cudaError_t CUDARTAPI cudaMemcpy2DAsync(void *dst, size_t dpitch, const void *src, size_t spitch,
                                                size_t width, size_t height, enum cudaMemcpyKind kind,
                                                cudaStream_t stream)
{
    RT_CALL(rt_enter);
    if (width > dpitch || width > spitch)
        return rt_failed(cudaErrorInvalidPitchValue);
    CUDA_MEMCPY2D copy = rectangle(dst, dpitch, src, spitch, width, height);
    return width && height ? rt_done(DRIVER(cuMemcpy2DAsync)(&copy, stream)) : cudaSuccess;
}

/* The COUNT bytes at OFFSET of the variable SYMBOL. */
static cudaError_t part_of(const void *symbol, size_t offset, size_t count, void **out)
{
    CUdeviceptr address = 0;
    size_t size = 0;
    cudaError_t error = rt_variable(symbol, &address, &size);
    if (error == cudaSuccess && (offset > size || count > size - offset))
        error = cudaErrorInvalidValue;
    *out = (void *)(uintptr_t)(address + offset);
    return rt_failed(error);
}

DRY_API cudaError_t CUDARTAPI cudaMemcpyToSymbol(const void *symbol, const void *src, size_t count,
                                                 size_t offset, enum cudaMemcpyKind kind)
{
    void *to;
    cudaError_t error = part_of(symbol, offset, count, &to);
    return error ? error : cudaMemcpy(to, src, count, kind);
}

DRY_API cudaError_t CUDARTAPI cudaMemcpyToSymbolAsync(const void *symbol, const void *src, size_t count,
                                                      size_t offset, enum cudaMemcpyKind kind,
                                                      cudaStream_t stream)
{
    void *to;
    cudaError_t error = part_of(symbol, offset, count, &to);
    return error ? error : cudaMemcpyAsync(to, src, count, kind, stream);
}

DRY_API cudaError_t CUDARTAPI cudaMemcpyFromSymbol(void *dst, const void *symbol, size_t count, size_t offset,
                                                   enum cudaMemcpyKind kind)
{
    void *from;
    cudaError_t error = part_of(symbol, offset, count, &from);
    return error ? error : cudaMemcpy(dst, from, count, kind);
}

DRY_API cudaError_t CUDARTAPI cudaMemcpyFromSymbolAsync(void *dst, const void *symbol, size_t count,
                                                        size_t offset, enum cudaMemcpyKind kind,
                                                        cudaStream_t stream)
{
    void *from;
    cudaError_t error = part_of(symbol, offset, count, &from);
    return error ? error : cudaMemcpyAsync(dst, from, count, kind, stream);
}

/* ---- launches ---- */

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
