/*
 * pool_fake.c - the part of a library with a pool that calls the driver: pools.sh builds it as JAX's
 * xla_cuda_plugin.so and as CuPy's cupy_backends/cuda/api/runtime.so, and once as a library that nobody
 * knows.
 */
#include <cuda.h>

CUresult pool_begin(void)
{
    CUcontext context;
    CUresult status = cuInit(0);
    if (status == CUDA_SUCCESS)
        status = cuDevicePrimaryCtxRetain(&context, 0);
    return status == CUDA_SUCCESS ? cuCtxSetCurrent(context) : status;
}

CUresult pool_take(size_t size, CUdeviceptr *address)
{
    CUresult status = cuMemAlloc(address, size);
    return status;
}
