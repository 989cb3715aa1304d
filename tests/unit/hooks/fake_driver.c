/*
 * fake_driver.c - a libcuda.so.1 for the tests of hooks/: hands out numbers and remembers what it was told.
 *
 * It is no simulation (dry/driver is): it does what a real driver might do to us.  cuMemAllocHost_v2 reaches
 * cuMemHostAlloc through the PLT; cuGetProcAddress gives some functions at other addresses than the exported
 * ones; built with FAKE_OLD it lacks cuGetProcAddress_v2 and everything of CUDA 11.2 and later but the first
 * form.
 */
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "fake_driver.h"

__thread struct fake_state fake;
static __thread CUcontext current;

void fake_set_context(uintptr_t context)
{
    current = (CUcontext)context;
}

CUresult fake_result(const char *called)
{
    CUresult status = fake.fail_next;
    fake.fail_next = CUDA_SUCCESS;
    fake.last = called;
    fake.calls++;
    jmp_buf *leave = fake.leave;
    fake.leave = NULL;
    if (leave != NULL)
        longjmp(*leave, 1);
    void (*during)(void) = fake.during;
    fake.during = NULL;
    if (during != NULL)
        during();
    errno = 77; /* a driver may do that; the host must see exactly this */
    return status;
}

CUresult fake_give(CUdeviceptr *out, const char *called)
{
    CUresult status = fake_result(called);
    if (out == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (status == CUDA_SUCCESS)
        *out = fake.next_address += 0x1000;
    return status;
}

CUresult cuInit(unsigned int flags)
{
    return fake_result("cuInit");
}
CUresult cuCtxGetCurrent(CUcontext *out)
{
    *out = current;
    return CUDA_SUCCESS;
}
CUresult cuCtxGetDevice(CUdevice *out)
{
    *out = (int)((uintptr_t)current & 0xf);
    return current ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}
CUresult cuDeviceGetName(char *name, int length, CUdevice device)
{
    strncpy(name, device == 1 ? "one" : "fake", (size_t)length);
    return CUDA_SUCCESS;
}
#ifndef FAKE_OLD
int simcuda_version(void);
int simcuda_version(void) /* by it a driver says that it is simulated */
{
    return 1;
}
#endif
CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device)
{
    *bytes = 1000 + (size_t)device;
    return CUDA_SUCCESS;
}
CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice device)
{
    memset(uuid, 0xab, sizeof(*uuid));
    return CUDA_SUCCESS;
}
CUresult cuMemGetInfo_v2(size_t *free_bytes, size_t *total_bytes)
{
    fake.info_queries++;
    *free_bytes = FAKE_FREE - fake.taken;
    *total_bytes = FAKE_FREE + 700;
    return CUDA_SUCCESS;
}
CUresult cuMemAlloc(CUdeviceptr_v1 *dptr, unsigned int bytes)
{
    CUresult status = fake_result("cuMemAlloc");
    *dptr = 0x1234;
    return status;
}
CUresult cuMemAlloc_v2(CUdeviceptr *dptr, size_t bytes)
{
    return fake_give(dptr, "cuMemAlloc_v2");
}
CUresult cuMemAllocPitch_v2(CUdeviceptr *dptr, size_t *pitch, size_t width, size_t height,
                            unsigned int element)
{
    if (pitch != NULL)
        *pitch = (width + 511) / 512 * 512;
    return fake_give(dptr, "cuMemAllocPitch_v2");
}
CUresult cuMemAllocManaged(CUdeviceptr *dptr, size_t bytes, unsigned int flags)
{
    return fake_give(dptr, "cuMemAllocManaged");
}
CUresult cuMemFree_v2(CUdeviceptr dptr)
{
    return fake_result("cuMemFree_v2");
}
CUresult cuMemHostAlloc(void **pp, size_t bytes, unsigned int flags)
{
    CUdeviceptr p = 0;
    CUresult status = fake_give(&p, "cuMemHostAlloc");
    *pp = (void *)p;
    return status;
}
CUresult cuMemAllocHost_v2(void **pp, size_t bytes)
{
    return cuMemHostAlloc(pp, bytes, 0); /* through the PLT: comes by our wrapper */
}
CUresult cuMemFreeHost(void *p)
{
    return fake_result("cuMemFreeHost");
}
CUresult cuMemHostRegister(void *p, size_t bytes, unsigned int flags)
{
    return fake_result("cuMemHostRegister");
}
CUresult cuMemHostRegister_v2(void *p, size_t bytes, unsigned int flags)
{
    return fake_result("cuMemHostRegister_v2");
}
CUresult cuMemHostUnregister(void *p)
{
    return fake_result("cuMemHostUnregister");
}

CUresult cuMemAddressReserve(CUdeviceptr *p, size_t size, size_t alignment, CUdeviceptr at,
                             unsigned long long flags)
{
    return fake_give(p, "cuMemAddressReserve");
}
CUresult cuMemAddressFree(CUdeviceptr p, size_t size)
{
    return fake_result("cuMemAddressFree");
}
CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t size, const CUmemAllocationProp *prop,
                     unsigned long long flags)
{
    return fake_give((CUdeviceptr *)handle, "cuMemCreate");
}
CUresult cuMemRelease(CUmemGenericAllocationHandle handle)
{
    return fake_result("cuMemRelease");
}
CUresult cuMemMap(CUdeviceptr p, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
                  unsigned long long flags)
{
    return fake_result("cuMemMap");
}
CUresult cuMemUnmap(CUdeviceptr p, size_t size)
{
    return fake_result("cuMemUnmap");
}
CUresult cuMemSetAccess(CUdeviceptr p, size_t size, const CUmemAccessDesc *desc, size_t count)
{
    return fake_result("cuMemSetAccess");
}
CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *address)
{
    return fake_give((CUdeviceptr *)handle, "cuMemRetainAllocationHandle");
}
CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle, void *os,
                                        CUmemAllocationHandleType type)
{
    return fake_give((CUdeviceptr *)handle, "cuMemImportFromShareableHandle");
}

#ifndef FAKE_OLD
CUresult cuStreamGetCtx(CUstream stream, CUcontext *out)
{
    if (stream == FAKE_BAD_STREAM)
        abort(); /* a handle that is none may be a wild pointer to a driver */
    *out = (CUcontext)((uintptr_t)stream & ~(uintptr_t)0xff00);
    return CUDA_SUCCESS;
}
CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus *out)
{
    if (stream == FAKE_BAD_STREAM)
        abort();
    *out = fake.capturing ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE;
    return CUDA_SUCCESS;
}
CUresult cuPointerGetAttribute(void *data, CUpointer_attribute attribute, CUdeviceptr p)
{
    *(int *)data = attribute == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL ? 3
                   : attribute == CU_POINTER_ATTRIBUTE_MEMORY_TYPE  ? CU_MEMORYTYPE_DEVICE
                                                                    : 0;
    return CUDA_SUCCESS;
}
CUresult cuDeviceGetMemPool(CUmemoryPool *pool, CUdevice device)
{
    *pool = fake.device_pool ? fake.device_pool : (CUmemoryPool)(uintptr_t)(0x9000 + device);
    return CUDA_SUCCESS;
}
CUresult cuDeviceSetMemPool(CUdevice device, CUmemoryPool pool)
{
    fake.device_pool = pool;
    return fake_result("cuDeviceSetMemPool");
}
CUresult cuMemPoolDestroy(CUmemoryPool pool)
{
    return fake_result("cuMemPoolDestroy");
}
CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t keep)
{
    fake.reserved = keep;
    return fake_result("cuMemPoolTrimTo");
}
CUresult cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void *value)
{
    fake.pool_queries++;
    *(uint64_t *)value = attribute == CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT ? fake.reserved : 5;
    return CUDA_SUCCESS;
}
CUresult cuMemAllocAsync(CUdeviceptr *dptr, size_t bytes, CUstream stream)
{
    return fake_give(dptr, "cuMemAllocAsync");
}
CUresult cuMemAllocAsync_ptsz(CUdeviceptr *dptr, size_t bytes, CUstream stream)
{
    return fake_give(dptr, "cuMemAllocAsync_ptsz");
}
CUresult cuMemAllocFromPoolAsync(CUdeviceptr *dptr, size_t bytes, CUmemoryPool pool, CUstream stream)
{
    return fake_give(dptr, "cuMemAllocFromPoolAsync");
}
CUresult cuMemFreeAsync(CUdeviceptr dptr, CUstream stream)
{
    return fake_result("cuMemFreeAsync");
}
CUresult cuMemFreeAsync_ptsz(CUdeviceptr dptr, CUstream stream)
{
    return fake_result("cuMemFreeAsync_ptsz");
}
#endif

CUresult cuLaunchKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                        unsigned bz, unsigned shared, CUstream stream, void **params, void **extra)
{
    /* every argument must arrive: seven in registers and on the stack after them */
    uintptr_t told = gx + 2 * gy + 3 * gz + 4 * bx + 5 * by + 6 * bz + 7 * shared + 8 * (uintptr_t)stream +
                     9 * (uintptr_t)params + 10 * (uintptr_t)extra;
    fake.next_address = told;
    return fake_result("cuLaunchKernel");
}
CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction f, void **params, void **extra)
{
    return fake_result("cuLaunchKernelEx");
}
CUresult cuStreamCreate(CUstream *stream, unsigned flags)
{
    *stream = (CUstream)0x5500;
    return fake_result("cuStreamCreate");
}
/* A function of a module is where its name says, and a kernel's function beside it. */
CUresult cuModuleGetFunction(CUfunction *f, CUmodule module, const char *name)
{
    *f = (CUfunction)((uintptr_t)module + strtoul(name, NULL, 16));
    return fake_result("cuModuleGetFunction");
}
CUresult cuModuleGetGlobal_v2(CUdeviceptr *address, size_t *bytes, CUmodule module, const char *name)
{
    return fake_result("cuModuleGetGlobal_v2");
}
#ifndef FAKE_OLD
CUresult cuLibraryGetKernel(CUkernel *kernel, CUlibrary library, const char *name)
{
    *kernel = (CUkernel)((uintptr_t)library + strtoul(name, NULL, 16));
    return fake_result("cuLibraryGetKernel");
}
CUresult cuKernelGetFunction(CUfunction *f, CUkernel kernel)
{
    *f = (CUfunction)((uintptr_t)kernel + 8);
    return fake_result("cuKernelGetFunction");
}
CUresult cuLibraryUnload(CUlibrary library)
{
    return fake_result("cuLibraryUnload");
}
#endif
CUresult cuStreamDestroy_v2(CUstream stream)
{
    return fake_result("cuStreamDestroy_v2");
}
CUresult cuFuncSetAttribute(CUfunction f, CUfunction_attribute attribute, int value)
{
    return fake_result("cuFuncSetAttribute");
}

CUresult fake_alloc(CUdeviceptr *dptr, size_t bytes) __attribute__((alias("cuMemAlloc_v2")));
CUresult fake_free(CUdeviceptr dptr) __attribute__((alias("cuMemFree_v2")));
CUresult fake_launch(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                     unsigned bz, unsigned shared, CUstream stream, void **params, void **extra)
    __attribute__((alias("cuLaunchKernel")));

#ifndef FAKE_OLD
CUresult fake_kernel_function(CUfunction *f, CUkernel kernel) __attribute__((alias("cuKernelGetFunction")));
#endif

/* what cuGetProcAddress gives where it is not the exported address */
static CUresult free_at_another_address(CUdeviceptr dptr)
{
    return cuMemFree_v2(dptr);
}
static CUresult bind_at_another_address(CUmemGenericAllocationHandle object, size_t offset,
                                        CUmemGenericAllocationHandle handle, size_t from, size_t size,
                                        unsigned long long flags)
{
    return fake_result("cuMulticastBindMem");
}
CUresult fake_unhooked(void)
{
    return CUDA_SUCCESS;
}
CUresult cuMemFree_v7(void);
CUresult cuMemFree_v7(void)
{
    return CUDA_SUCCESS;
}
CUresult cuMemcpyDtoH(void *to, CUdeviceptr_v1 from, unsigned int bytes)
{
    return CUDA_SUCCESS;
}
CUresult cuFooAlloc(void);
CUresult cuFooAlloc(void)
{
    return CUDA_SUCCESS;
}
CUresult fake_newer_alloc(void)
{
    return CUDA_SUCCESS;
}

static void *find_proc(const char *base, int version, unsigned long long flags);

CUresult cuGetProcAddress(const char *symbol, void **pfn, int version, cuuint64_t flags)
{
    if (symbol == NULL || pfn == NULL || flags > 2)
        return CUDA_ERROR_INVALID_VALUE;
    *pfn = find_proc(symbol, version, flags);
    errno = 78;
    return *pfn ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

#ifndef FAKE_OLD
CUresult cuGetProcAddress_v2(const char *symbol, void **pfn, int version, cuuint64_t flags,
                             CUdriverProcAddressQueryResult *found)
{
    CUresult status = cuGetProcAddress(symbol, pfn, version, flags);
    if (status == CUDA_ERROR_INVALID_VALUE)
        return status;
    if (found != NULL)
        *found = *pfn ? CU_GET_PROC_ADDRESS_SUCCESS : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    return status;
}
#endif

/* The functions by names that no preloaded library can take: a real driver gives its own addresses. */
#define OWN(symbol)                                                                                          \
    extern __typeof(symbol) own_##symbol __attribute__((alias(#symbol), visibility("hidden")));
OWN(cuInit)
OWN(cuMemAlloc)
OWN(cuMemAlloc_v2)
OWN(cuMemHostRegister)
OWN(cuMemcpyDtoH)
OWN(cuMemHostRegister_v2)
OWN(cuGetProcAddress)
#ifndef FAKE_OLD
OWN(cuGetProcAddress_v2)
OWN(cuMemAllocAsync)
OWN(cuMemAllocAsync_ptsz)
#endif

struct proc {
    const char *base;
    int version;
    unsigned long long flags; /* 2: the per-thread variant */
    void *p;
};

static void *find_proc(const char *base, int version, unsigned long long flags)
{
    const struct proc procs[] = {
        {"cuInit", 2000, 0, own_cuInit},
        {"cuMemAlloc", 2000, 0, own_cuMemAlloc},
        {"cuMemAlloc", 3020, 0, own_cuMemAlloc_v2},
        {"cuMemAlloc", 99000, 0, fake_newer_alloc},
        {"cuMemcpyDtoH", 2000, 0, own_cuMemcpyDtoH},
        {"cuMemFree", 3020, 0, free_at_another_address},
        {"cuMulticastBindMem", 12010, 0, bind_at_another_address},
        {"cuMemHostRegister", 4000, 0, own_cuMemHostRegister},
        {"cuMemHostRegister", 6050, 0, own_cuMemHostRegister_v2},
        {"cuUnhooked", 2000, 0, fake_unhooked},
        {"cuGetProcAddress", 11030, 0, own_cuGetProcAddress},
#ifndef FAKE_OLD
        {"cuGetProcAddress", 12000, 0, own_cuGetProcAddress_v2},
        {"cuMemAllocAsync", 11020, 0, own_cuMemAllocAsync},
        {"cuMemAllocAsync", 11020, 2, own_cuMemAllocAsync_ptsz},
#endif
    };
    void *best = NULL;
    for (size_t i = 0; i < sizeof(procs) / sizeof(procs[0]); i++)
        if (strcmp(procs[i].base, base) == 0 && procs[i].version <= version &&
            (procs[i].flags == 0 || (flags & 2)))
            best = procs[i].p;
    return best;
}
