/*
 * own_memory.h - device memory that a library takes for itself.  The driver's functions are found as the
 * program's own are, so that a recording sees these calls.
 */
#ifndef DRY_LIBRARIES_OWN_MEMORY_H
#define DRY_LIBRARIES_OWN_MEMORY_H

#include "measured.h"

#include <cuda.h>
#include <stdbool.h>
#include <stddef.h>

#pragma weak cuInit
#pragma weak cuMemAlloc_v2
#pragma weak cuMemFree_v2
#pragma weak cuMemGetInfo_v2
#pragma weak cuMemsetD32Async
#pragma weak cuCtxGetCurrent
#pragma weak cuCtxGetDevice
#pragma weak cuCtxSetCurrent
#pragma weak cuDevicePrimaryCtxRetain
#pragma weak cuDeviceGetAttribute

/* A context is current then, as the runtime would have made one: device 0's.  Without a driver none is. */
static inline bool own_context(void)
{
    CUcontext context = NULL;
    if (!cuInit || cuInit(0) != CUDA_SUCCESS || cuCtxGetCurrent(&context) != CUDA_SUCCESS)
        return false;
    return context || (cuDevicePrimaryCtxRetain(&context, 0) == CUDA_SUCCESS &&
                       cuCtxSetCurrent(context) == CUDA_SUCCESS);
}

/* 0 where there is no driver, no room, or nothing is asked for. */
static inline CUdeviceptr own_alloc(size_t bytes)
{
    CUdeviceptr memory = 0;
    return bytes && own_context() && cuMemAlloc_v2(&memory, bytes) == CUDA_SUCCESS ? memory : 0;
}

static inline void own_free(CUdeviceptr memory)
{
    if (memory && cuMemFree_v2)
        cuMemFree_v2(memory);
}

/* What the device has left. */
static inline size_t own_left(void)
{
    size_t left = 0, all = 0;
    return own_context() && cuMemGetInfo_v2(&left, &all) == CUDA_SUCCESS ? left : 0;
}

/* COUNT numbers of 32 bits on the device, in the stream's order. */
static inline void own_zero(CUdeviceptr memory, int count, void *stream)
{
    if (memory && count > 0 && own_context())
        cuMemsetD32Async(memory, 0, (size_t)count, stream);
}

/* The current device's compute capability, 90 for 9.0; 0 where none is current. */
static inline int own_capability(void)
{
    CUdevice device;
    int major = 0, minor = 0;
    if (!own_context() || cuCtxGetDevice(&device) != CUDA_SUCCESS)
        return 0;
    cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device);
    cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device);
    return 10 * major + minor;
}

/* Whether this is what these libraries' figures were read off: an H200, with those of CUDA's toolkit 13.0.2,
 * which PyTorch 2.11 requires.  Asked of PyTorch once: threads that come together find the same. */
__attribute__((unused)) static bool own_measured(void)
{
    enum { UNKNOWN, YES, NO, TOOLKIT = 130002 };
    static int known;
    int answer = __atomic_load_n(&known, __ATOMIC_RELAXED);
    if (answer == UNKNOWN && own_context()) {
        answer = dry_on_h200() && dry_wanted("cuda-toolkit").version == TOOLKIT ? YES : NO;
        __atomic_store_n(&known, answer, __ATOMIC_RELAXED);
    }
    return answer == YES;
}

#endif
