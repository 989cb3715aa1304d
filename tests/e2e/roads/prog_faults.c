// link: cuda
/* Calls every hooked function, says what each gave, and goes on whatever it was: a free that failed is tried
 * once more.  SIMCUDA_FAIL makes any of them fail. */
#define _GNU_SOURCE
#include "prog_calls.h"
#include <sys/mman.h>

static void free_twice(const char *symbol, CUdeviceptr p)
{
    CUresult (*f)(CUdeviceptr) = (CUresult(*)(CUdeviceptr))find(symbol);
    if (p && said(symbol, f(p)) != CUDA_SUCCESS)
        said(symbol, f(p));
}

static void free_async_twice(const char *symbol, CUdeviceptr p, CUstream stream)
{
    CUresult (*f)(CUdeviceptr, CUstream) = (CUresult(*)(CUdeviceptr, CUstream))find(symbol);
    if (p && said(symbol, f(p, stream)) != CUDA_SUCCESS)
        said(symbol, f(p, stream));
}

static void device_memory(void)
{
    CUdeviceptr p[3] = {0};
    unsigned v1[2] = {0}, small_pitch;
    size_t pitch;
    CALL(cuMemAlloc_v2, (CUdeviceptr *, size_t), &p[0], MIB);
    CALL(cuMemAllocPitch_v2, (CUdeviceptr *, size_t *, size_t, size_t, unsigned), &p[1], &pitch, 1000, 10, 4);
    CALL(cuMemAllocManaged, (CUdeviceptr *, size_t, unsigned), &p[2], 2 * MIB, CU_MEM_ATTACH_GLOBAL);
    CALL(cuMemAlloc, (unsigned *, unsigned), &v1[0], 3000);
    CALL(cuMemAllocPitch, (unsigned *, unsigned *, unsigned, unsigned, unsigned), &v1[1], &small_pitch, 100,
         10, 4);
    for (int i = 0; i < 3; i++)
        free_twice("cuMemFree_v2", p[i]);
    for (int i = 0; i < 2; i++) {
        if (v1[i] && CALL(cuMemFree, (unsigned), v1[i]) != CUDA_SUCCESS)
            CALL(cuMemFree, (unsigned), v1[i]);
    }
}

static void pools(void)
{
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                            .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
    CUmemLocation here = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0};
    CUmemoryPool pool, usual;
    CUstream stream;
    CUdeviceptr p[4] = {0};
    OK(cuDeviceGetDefaultMemPool(&usual, 0));
    OK(cuStreamCreate(&stream, 0));
    OK(cuMemPoolCreate(&pool, &props));
    CALL(cuMemAllocAsync, (CUdeviceptr *, size_t, CUstream), &p[0], MIB, stream);
    CALL(cuMemAllocAsync_ptsz, (CUdeviceptr *, size_t, CUstream), &p[1], 2 * MIB, stream);
    CALL(cuMemAllocFromPoolAsync, (CUdeviceptr *, size_t, CUmemoryPool, CUstream), &p[2], 3 * MIB, pool,
         stream);
    CALL(cuMemAllocFromPoolAsync_ptsz, (CUdeviceptr *, size_t, CUmemoryPool, CUstream), &p[3], 4 * MIB, pool,
         stream);
    for (int i = 0; i < 4; i++)
        free_async_twice(i % 2 ? "cuMemFreeAsync_ptsz" : "cuMemFreeAsync", p[i], stream);
    OK(cuStreamSynchronize(stream));
    CALL(cuDeviceSetMemPool, (CUdevice, CUmemoryPool), 0, pool);
    CALL(cuMemSetMemPool, (CUmemLocation *, CUmemAllocationType, CUmemoryPool), &here,
         CU_MEM_ALLOCATION_TYPE_PINNED, usual);
    cuDeviceSetMemPool(0, usual);
    CALL(cuMemPoolTrimTo, (CUmemoryPool, size_t), pool, 0);
    CALL(cuMemPoolDestroy, (CUmemoryPool), pool);
    OK(cuStreamDestroy(stream));
}

static void host_twice(const char *symbol, void *p)
{
    CUresult (*f)(void *) = (CUresult(*)(void *))find(symbol);
    if (p && said(symbol, f(p)) != CUDA_SUCCESS)
        said(symbol, f(p));
}

static void host_memory(void)
{
    void *p[3] = {0};
    char *mine = mmap(NULL, 16384, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(mine != MAP_FAILED);
    CALL(cuMemHostAlloc, (void **, size_t, unsigned), &p[0], 10000, 0);
    CALL(cuMemAllocHost_v2, (void **, size_t), &p[1], 20000);
    CALL(cuMemAllocHost, (void **, unsigned), &p[2], 30000);
    for (int i = 0; i < 3; i++)
        host_twice("cuMemFreeHost", p[i]);
    if (CALL(cuMemHostRegister_v2, (void *, size_t, unsigned), mine, 8192, 0) == CUDA_SUCCESS)
        host_twice("cuMemHostUnregister", mine);
    if (CALL(cuMemHostRegister, (void *, size_t, unsigned), mine + 8192, 8192, 0) == CUDA_SUCCESS)
        host_twice("cuMemHostUnregister", mine + 8192);
}

/* One handle mapped, retained, let go and unmapped. */
static void mapped(CUdeviceptr va, CUmemGenericAllocationHandle handle)
{
    const CUmemAccessDesc access = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
                                    .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemGenericAllocationHandle again = 0;
    if (CALL(cuMemMap, (CUdeviceptr, size_t, size_t, CUmemGenericAllocationHandle, unsigned long long), va,
             2 * MIB, 0, handle, 0) != CUDA_SUCCESS)
        return;
    CALL(cuMemSetAccess, (CUdeviceptr, size_t, const CUmemAccessDesc *, size_t), va, 2 * MIB, &access, 1);
    CALL(cuMemRetainAllocationHandle, (CUmemGenericAllocationHandle *, void *), &again, (void *)va);
    if (again && CALL(cuMemRelease, (CUmemGenericAllocationHandle), again) != CUDA_SUCCESS)
        CALL(cuMemRelease, (CUmemGenericAllocationHandle), again);
    if (CALL(cuMemUnmap, (CUdeviceptr, size_t), va, 2 * MIB) != CUDA_SUCCESS)
        CALL(cuMemUnmap, (CUdeviceptr, size_t), va, 2 * MIB);
}

static void virtual_memory(void)
{
    const CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                      .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
    CUmemGenericAllocationHandle handle = 0, foreign = 0;
    CUdeviceptr va = 0;
    CALL(cuMemAddressReserve, (CUdeviceptr *, size_t, size_t, CUdeviceptr, unsigned long long), &va, 2 * MIB,
         0, 0, 0);
    CALL(cuMemCreate,
         (CUmemGenericAllocationHandle *, size_t, const CUmemAllocationProp *, unsigned long long), &handle,
         2 * MIB, &prop, 0);
    CALL(cuMemImportFromShareableHandle, (CUmemGenericAllocationHandle *, void *, CUmemAllocationHandleType),
         &foreign, (void *)-1L, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    if (va && handle)
        mapped(va, handle);
    if (handle && CALL(cuMemRelease, (CUmemGenericAllocationHandle), handle) != CUDA_SUCCESS)
        CALL(cuMemRelease, (CUmemGenericAllocationHandle), handle);
    if (va && CALL(cuMemAddressFree, (CUdeviceptr, size_t), va, 2 * MIB) != CUDA_SUCCESS)
        CALL(cuMemAddressFree, (CUdeviceptr, size_t), va, 2 * MIB);
}

int main(void)
{
    begin();
    device_memory();
    pools();
    host_memory();
    virtual_memory();
    puts("done");
    return 0;
}
