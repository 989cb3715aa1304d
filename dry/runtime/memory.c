/*
 * memory.c - allocations and pointers, where the runtime differs from the driver: nothing is allocated for 0
 * bytes, and to free nothing is no error.
 */
#include "runtime.h"

#include <string.h>

DRY_API cudaError_t CUDARTAPI cudaMalloc(void **devPtr, size_t size)
{
    RT_CALL(rt_enter);
    if (!devPtr)
        return rt_failed(cudaErrorInvalidValue);
    *devPtr = NULL;
    return size ? rt_done(DRIVER(cuMemAlloc)((void *)devPtr, size)) : cudaSuccess;
}

DRY_API cudaError_t CUDARTAPI cudaFree(void *devPtr)
{
    RT_CALL(rt_enter);
    return devPtr ? rt_done(DRIVER(cuMemFree)((CUdeviceptr)devPtr)) : cudaSuccess;
}

DRY_API cudaError_t CUDARTAPI cudaHostAlloc(void **pHost, size_t size, unsigned int flags)
{
    RT_CALL(rt_enter);
    if (!pHost)
        return rt_failed(cudaErrorInvalidValue);
    *pHost = NULL;
    return size ? rt_done(DRIVER(cuMemHostAlloc)(pHost, size, flags)) : cudaSuccess;
}

DRY_API cudaError_t CUDARTAPI cudaMallocHost(void **ptr, size_t size)
{
    return cudaHostAlloc(ptr, size, 0);
}

DRY_API cudaError_t CUDARTAPI cudaFreeHost(void *ptr)
{
    RT_CALL(rt_enter);
    return ptr ? rt_done(DRIVER(cuMemFreeHost)(ptr)) : cudaSuccess;
}

DRY_API cudaError_t CUDARTAPI cudaMallocPitch(void **devPtr, size_t *pitch, size_t width, size_t height)
{
    RT_CALL(rt_enter);
    if (!devPtr || !pitch)
        return rt_failed(cudaErrorInvalidValue);
    *devPtr = NULL;
    *pitch = 0;
    return width && height ? rt_done(DRIVER(cuMemAllocPitch)((void *)devPtr, pitch, width, height, 4))
                           : cudaSuccess;
}

DRY_API cudaError_t CUDARTAPI cudaMalloc3D(struct cudaPitchedPtr *pitchedDevPtr, struct cudaExtent extent)
{
    if (!pitchedDevPtr)
        return rt_failed(cudaErrorInvalidValue);
    pitchedDevPtr->xsize = extent.width;
    pitchedDevPtr->ysize = extent.height;
    return cudaMallocPitch(&pitchedDevPtr->ptr, &pitchedDevPtr->pitch, extent.width,
                           extent.height * extent.depth);
}

/* Peers share one address space, so a copy between two is a copy. */
DRY_API cudaError_t CUDARTAPI cudaMemcpyPeer(void *dst, int dstDevice, const void *src, int srcDevice,
                                             size_t count)
{
    return cudaMemcpy(dst, src, count, cudaMemcpyDefault);
}

DRY_API cudaError_t CUDARTAPI cudaMemcpyPeerAsync(void *dst, int dstDevice, const void *src, int srcDevice,
                                                  size_t count, cudaStream_t stream)
{
    return cudaMemcpyAsync(dst, src, count, cudaMemcpyDefault, stream);
}

DRY_API cudaError_t CUDARTAPI cudaMemAdvise(const void *devPtr, size_t count, enum cudaMemoryAdvise advice,
                                            struct cudaMemLocation location)
{
    RT_CALL(rt_enter);
    CUmemLocation where = {.type = (CUmemLocationType)location.type, .id = location.id};
    return rt_done(DRIVER(cuMemAdvise)((CUdeviceptr)devPtr, count, (CUmem_advise)advice, where));
}

DRY_API cudaError_t CUDARTAPI cudaIpcOpenMemHandle(void **devPtr, cudaIpcMemHandle_t handle,
                                                   unsigned int flags)
{
    RT_CALL(rt_enter);
    CUipcMemHandle same;
    memcpy(&same, &handle, sizeof same);
    return rt_done(DRIVER(cuIpcOpenMemHandle)((void *)devPtr, same, flags));
}

DRY_API cudaError_t CUDARTAPI cudaIpcOpenEventHandle(cudaEvent_t *event, cudaIpcEventHandle_t handle)
{
    RT_CALL(rt_enter);
    CUipcEventHandle same;
    memcpy(&same, &handle, sizeof same);
    return rt_done(DRIVER(cuIpcOpenEventHandle)(event, same));
}

/* What of it programs of 12 know; they have no room for more. */
#define ATTRIBUTES_BYTES                                                                                     \
    (DRY_CUDART == 12 ? offsetof(struct cudaPointerAttributes, reserved)                                     \
                      : sizeof(struct cudaPointerAttributes))

/* What the driver does not know is pageable memory, which is an answer and no error. */
DRY_API cudaError_t CUDARTAPI cudaPointerGetAttributes(struct cudaPointerAttributes *attributes,
                                                       const void *ptr)
{
    RT_CALL(rt_enter);
    unsigned type = 0, managed = 0;
    int device = cudaInvalidDeviceId;
    void *on_device = NULL, *on_host = NULL;
    CUpointer_attribute asked[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED,
                                   CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, CU_POINTER_ATTRIBUTE_DEVICE_POINTER,
                                   CU_POINTER_ATTRIBUTE_HOST_POINTER};
    void *answers[] = {&type, &managed, &device, &on_device, &on_host};
    if (!attributes)
        return rt_failed(cudaErrorInvalidValue);
    CUresult result = DRIVER(cuPointerGetAttributes)(5, asked, answers, (CUdeviceptr)ptr);
    memset(attributes, 0, ATTRIBUTES_BYTES);
    attributes->type = managed                        ? cudaMemoryTypeManaged
                       : type == CU_MEMORYTYPE_DEVICE ? cudaMemoryTypeDevice
                       : type == CU_MEMORYTYPE_HOST   ? cudaMemoryTypeHost
                                                      : cudaMemoryTypeUnregistered;
    attributes->device = type ? device : cudaInvalidDeviceId;
    attributes->devicePointer = on_device;
    attributes->hostPointer = type ? on_host : (void *)(uintptr_t)ptr;
    return rt_done(result);
}
