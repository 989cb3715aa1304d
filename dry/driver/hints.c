/*
 * hints.c - functions that ask the driver to be faster or to tell somebody else: here they change nothing.
 */
#include "capture.h"
#include "kernel.h"

#include <string.h>

#define NOTHING(name, params, result)                                                                        \
    CUresult name params                                                                                     \
    {                                                                                                        \
        SIM_CALL(SIM_CONTEXT);                                                                               \
        return result;                                                                                       \
    }
#define OF_KERNEL(handle) sim_kernel_of(handle) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE

NOTHING(cuFuncSetCacheConfig, (CUfunction f, CUfunc_cache config), OF_KERNEL(f))
NOTHING(cuFuncSetSharedMemConfig, (CUfunction f, CUsharedconfig config), OF_KERNEL(f))
NOTHING(cuFuncLoad, (CUfunction f), OF_KERNEL(f))
NOTHING(cuKernelSetCacheConfig, (CUkernel kernel, CUfunc_cache config, CUdevice device), OF_KERNEL(kernel))
NOTHING(cuCtxSetCacheConfig, (CUfunc_cache config), CUDA_SUCCESS)
NOTHING(cuCtxSetSharedMemConfig, (CUsharedconfig config), CUDA_SUCCESS)
NOTHING(cuCtxResetPersistingL2Cache, (void), CUDA_SUCCESS)
NOTHING(cuFlushGPUDirectRDMAWrites,
        (CUflushGPUDirectRDMAWritesTarget target, CUflushGPUDirectRDMAWritesScope scope), CUDA_SUCCESS)
NOTHING(cuProfilerInitialize, (const char *config, const char *output, int mode), CUDA_SUCCESS)
NOTHING(cuProfilerStart, (void), CUDA_SUCCESS)
NOTHING(cuProfilerStop, (void), CUDA_SUCCESS)

/* ---- of memory ---- */

#define OF_MEMORY(address, size)                                                                             \
    sim_accessible(address, size, false) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE

NOTHING(cuMemAdvise, (CUdeviceptr address, size_t size, CUmem_advise advice, CUdevice device),
        OF_MEMORY(address, size))
NOTHING(cuMemAdvise_v2, (CUdeviceptr address, size_t size, CUmem_advise advice, CUmemLocation location),
        OF_MEMORY(address, size))
NOTHING(cuPointerSetAttribute, (const void *value, CUpointer_attribute attribute, CUdeviceptr address),
        OF_MEMORY(address, 1))

/* ---- of streams: each with its twin, to which stream 0 is the thread's own ---- */

SIM_SAME(cuMemPrefetchAsync, cuMemPrefetchAsync_ptsz, SIM_CONTEXT,
         (CUdeviceptr address, size_t size, CUdevice device, CUstream stream), OF_MEMORY(address, size))
SIM_SAME(cuMemPrefetchAsync_v2, cuMemPrefetchAsync_v2_ptsz, SIM_CONTEXT,
         (CUdeviceptr address, size_t size, CUmemLocation location, unsigned int flags, CUstream stream),
         OF_MEMORY(address, size))
SIM_SAME(cuStreamAttachMemAsync, cuStreamAttachMemAsync_ptsz, SIM_CONTEXT,
         (CUstream stream, CUdeviceptr address, size_t size, unsigned int flags), OF_MEMORY(address, 1))
SIM_SAME(cuStreamCopyAttributes, cuStreamCopyAttributes_ptsz, SIM_CONTEXT, (CUstream to, CUstream from),
         sim_stream_check(to))
SIM_SAME(cuStreamSetAttribute, cuStreamSetAttribute_ptsz, SIM_CONTEXT,
         (CUstream stream, CUstreamAttrID attribute, const CUstreamAttrValue *value),
         sim_stream_check(stream))

static CUresult nothing_set(CUstream stream, CUstreamAttrValue *value)
{
    if (!value)
        return CUDA_ERROR_INVALID_VALUE;
    memset(value, 0, sizeof *value);
    return sim_stream_check(stream);
}
SIM_SAME(cuStreamGetAttribute, cuStreamGetAttribute_ptsz, SIM_CONTEXT,
         (CUstream stream, CUstreamAttrID attribute, CUstreamAttrValue *value), nothing_set(stream, value))

/* What is asked for is what would be there if nothing had been set. */
CUresult cuCtxGetCacheConfig(CUfunc_cache *config)
{
    SIM_CALL(SIM_CONTEXT);
    if (!config)
        return CUDA_ERROR_INVALID_VALUE;
    *config = CU_FUNC_CACHE_PREFER_NONE;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetSharedMemConfig(CUsharedconfig *config)
{
    SIM_CALL(SIM_CONTEXT);
    if (!config)
        return CUDA_ERROR_INVALID_VALUE;
    *config = CU_SHARED_MEM_CONFIG_FOUR_BYTE_BANK_SIZE;
    return CUDA_SUCCESS;
}

/* ---- the driver's log of errors: nothing is ever written to it ---- */

static const char nobody; /* whose address is every callback's handle */

CUresult cuLogsRegisterCallback(CUlogsCallback function, void *data, CUlogsCallbackHandle *out)
{
    SIM_CALL(SIM_NOTHING);
    if (!function)
        return CUDA_ERROR_INVALID_VALUE;
    if (out)
        *out = (CUlogsCallbackHandle)(void *)&nobody;
    return CUDA_SUCCESS;
}

CUresult cuLogsUnregisterCallback(CUlogsCallbackHandle callback)
{
    SIM_CALL(SIM_NOTHING);
    return CUDA_SUCCESS;
}

CUresult cuLogsCurrent(CUlogIterator *out, unsigned int flags)
{
    SIM_CALL(SIM_NOTHING);
    if (!out || flags)
        return CUDA_ERROR_INVALID_VALUE;
    *out = 0;
    return CUDA_SUCCESS;
}

CUresult cuLogsDumpToMemory(CUlogIterator *from, char *buffer, size_t *size, unsigned int flags)
{
    SIM_CALL(SIM_NOTHING);
    if (!buffer || !size || !*size || flags)
        return CUDA_ERROR_INVALID_VALUE;
    *buffer = 0;
    *size = 0;
    return CUDA_SUCCESS;
}
