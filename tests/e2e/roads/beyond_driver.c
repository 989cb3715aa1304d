/*
 * beyond_driver.c - makes of the simulated driver, with whose objects it is linked, one that is newer than
 * vramscope: cuMemAlloc_v3 is another form of a hooked function, with other parameters; cuFooAlloc sounds
 * like memory, cuFooCount does not.
 */
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>
#include <string.h>

#define EXPORTED __attribute__((visibility("default")))

EXPORTED CUresult cuMemAlloc_v3(unsigned long long mark, CUdeviceptr *out, double share, size_t bytes);
EXPORTED CUresult cuFooAlloc(size_t bytes, CUdeviceptr *out);
EXPORTED CUresult cuFooCount(int *count);
void *sim_newer(const char *base, int version);

CUresult cuMemAlloc_v3(unsigned long long mark, CUdeviceptr *out, double share, size_t bytes)
{
    return mark == 0x5eed && share == 0.5 ? cuMemAlloc_v2(out, bytes) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuFooAlloc(size_t bytes, CUdeviceptr *out)
{
    return cuMemAlloc_v2(out, bytes);
}

CUresult cuFooCount(int *count)
{
    *count = 3;
    return CUDA_SUCCESS;
}

void *sim_newer(const char *base, int version)
{
    return version < 14000                   ? NULL
           : strcmp(base, "cuMemAlloc") == 0 ? (void *)cuMemAlloc_v3
           : strcmp(base, "cuFooAlloc") == 0 ? (void *)cuFooAlloc
           : strcmp(base, "cuFooCount") == 0 ? (void *)cuFooCount
                                             : NULL;
}
