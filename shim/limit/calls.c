/*
 * calls.c - the functions that take memory of a device, under a limit; pools and graphs are in pools.c.
 *
 * What a context takes is not known before: one that passes the limit is given back, and the program gets the
 * error that it gets on a full device.
 */
#include "limit.h"

#include "hooks/events.h"
#include "hooks/place.h"

#define PITCH 512u /* bytes, to which the driver rounds rows up at the most */

/* DEVICE and BYTES of a call, the call, and what takes it back. */
#define ASKED(device, size, call, undo)                                                                      \
    struct vs_asked asked = vs_limit_ask(device, size);                                                      \
    if (asked.refused)                                                                                       \
        return CUDA_ERROR_OUT_OF_MEMORY;                                                                     \
    CUresult status = call;                                                                                  \
    if (!vs_limit_passed(&asked, status))                                                                    \
        return status;                                                                                       \
    undo;                                                                                                    \
    return CUDA_ERROR_OUT_OF_MEMORY;

/* ---- plain allocations ---- */

static uint64_t rows(size_t width, size_t height)
{
    uint64_t bytes;
    return __builtin_mul_overflow((width + PITCH - 1) / PITCH * PITCH, height, &bytes) ? UINT64_MAX : bytes;
}

static CUresult alloc(CUdeviceptr *out, size_t size)
{
    ASKED(VS_LIMIT_HERE, size, VS_BENEATH(cuMemAlloc_v2)(out, size), VS_BENEATH(cuMemFree_v2)(*out))
}

static CUresult alloc_rows(CUdeviceptr *out, size_t *pitch, size_t width, size_t height, unsigned element)
{
    ASKED(VS_LIMIT_HERE, rows(width, height),
          VS_BENEATH(cuMemAllocPitch_v2)(out, pitch, width, height, element), VS_BENEATH(cuMemFree_v2)(*out))
}

static CUresult alloc_32(CUdeviceptr_v1 *out, unsigned size)
{
    ASKED(VS_LIMIT_HERE, size, VS_BENEATH(cuMemAlloc)(out, size), VS_BENEATH(cuMemFree)(*out))
}

static CUresult alloc_rows_32(CUdeviceptr_v1 *out, unsigned *pitch, unsigned width, unsigned height,
                              unsigned element)
{
    ASKED(VS_LIMIT_HERE, rows(width, height), VS_BENEATH(cuMemAllocPitch)(out, pitch, width, height, element),
          VS_BENEATH(cuMemFree)(*out))
}

/* Pages of managed memory come to the device when it uses them, without a call.  Those of an allocation that
 * would not fit get the host as their place, where the device reads and writes them. */
static CUresult alloc_managed(CUdeviceptr *out, size_t size, unsigned flags)
{
    struct vs_asked asked = vs_limit_ask(VS_LIMIT_HERE, size);
    CUresult status = VS_BENEATH(cuMemAllocManaged)(out, size, flags);
    vs_limit_passed(&asked, CUDA_ERROR_UNKNOWN); /* none of it is on the device yet */
    if (status == CUDA_SUCCESS && asked.refused) {
        vs_drv_cuMemAdvise(*out, size, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, CU_DEVICE_CPU);
        vs_drv_cuMemAdvise(*out, size, CU_MEM_ADVISE_SET_ACCESSED_BY, asked.device);
    }
    return status;
}

/* ---- virtual memory management ---- */

static CUresult create(CUmemGenericAllocationHandle *handle, size_t size, const CUmemAllocationProp *prop,
                       unsigned long long flags)
{
    int device = VS_LIMIT_NOWHERE;
    if (prop == NULL || !vs_on_device(&prop->location, &device))
        device = VS_LIMIT_NOWHERE;
    ASKED(device, size, VS_BENEATH(cuMemCreate)(handle, size, prop, flags), VS_BENEATH(cuMemRelease)(*handle))
}

/* ---- arrays ---- */

#define SHAPE(a, depth, flags)                                                                               \
    (&(struct vs_array){(a)->Width, (a)->Height, depth, (a)->NumChannels, flags, (a)->Format})
#define BYTES_2D(a)         ((a) != NULL ? vs_array_bytes(SHAPE(a, 0, 0), 1) : 0)
#define BYTES_3D(a, levels) ((a) != NULL ? vs_array_bytes(SHAPE(a, (a)->Depth, (a)->Flags), levels) : 0)
#define ARRAY(name, symbol, descriptor, bytes)                                                               \
    static CUresult name(CUarray *out, const descriptor *a)                                                  \
    {                                                                                                        \
        ASKED(VS_LIMIT_HERE, bytes, VS_BENEATH(symbol)(out, a), VS_BENEATH(cuArrayDestroy)(*out))            \
    }
ARRAY(array_old, cuArrayCreate, CUDA_ARRAY_DESCRIPTOR_v1, BYTES_2D(a))
ARRAY(array, cuArrayCreate_v2, CUDA_ARRAY_DESCRIPTOR, BYTES_2D(a))
ARRAY(array_3d_old, cuArray3DCreate, CUDA_ARRAY3D_DESCRIPTOR_v1, BYTES_3D(a, 1))
ARRAY(array_3d, cuArray3DCreate_v2, CUDA_ARRAY3D_DESCRIPTOR, BYTES_3D(a, 1))

static CUresult mipmapped(CUmipmappedArray *out, const CUDA_ARRAY3D_DESCRIPTOR *a, unsigned levels)
{
    ASKED(VS_LIMIT_HERE, BYTES_3D(a, levels), VS_BENEATH(cuMipmappedArrayCreate)(out, a, levels),
          VS_BENEATH(cuMipmappedArrayDestroy)(*out))
}

/* ---- contexts ---- */

static CUresult made(CUdevice device, CUresult status)
{
    if (status == CUDA_SUCCESS)
        vs_limit_context_made(device);
    return status;
}

#define CONTEXT(device, call, undo)                                                                          \
    vs_limit_before_context(device);                                                                         \
    ASKED(device, 0, made(device, call), undo)

static bool is_active(CUdevice device)
{
    unsigned flags;
    int active = 0;
    return vs_drv_cuDevicePrimaryCtxGetState(device, &flags, &active) == CUDA_SUCCESS && active;
}

/* Most retains only count a reference, and are granted even where code has passed the limit. */
static CUresult retain(CUcontext *out, CUdevice device)
{
    if (is_active(device))
        return VS_BENEATH(cuDevicePrimaryCtxRetain)(out, device);
    CONTEXT(device, VS_BENEATH(cuDevicePrimaryCtxRetain)(out, device),
            vs_drv_cuDevicePrimaryCtxRelease_v2(device))
}

static CUresult context_old(CUcontext *out, unsigned flags, CUdevice device)
{
    CONTEXT(device, VS_BENEATH(cuCtxCreate)(out, flags, device), VS_BENEATH(cuCtxDestroy_v2)(*out))
}

static CUresult context(CUcontext *out, unsigned flags, CUdevice device)
{
    CONTEXT(device, VS_BENEATH(cuCtxCreate_v2)(out, flags, device), VS_BENEATH(cuCtxDestroy_v2)(*out))
}

static CUresult context_v3(CUcontext *out, CUexecAffinityParam *params, int count, unsigned flags,
                           CUdevice device)
{
    CONTEXT(device, VS_BENEATH(cuCtxCreate_v3)(out, params, count, flags, device),
            VS_BENEATH(cuCtxDestroy_v2)(*out))
}

static CUresult context_v4(CUcontext *out, struct CUctxCreateParams_st *params, unsigned flags,
                           CUdevice device)
{
    CONTEXT(device, VS_BENEATH(cuCtxCreate_v4)(out, params, flags, device), VS_BENEATH(cuCtxDestroy_v2)(*out))
}

/* A heap and a buffer for device code have the size that is asked for; stacks are the figure's. */
static CUresult set_limit(CUlimit limit, size_t value)
{
    bool sized = limit == CU_LIMIT_MALLOC_HEAP_SIZE || limit == CU_LIMIT_PRINTF_FIFO_SIZE;
    ASKED(sized ? VS_LIMIT_HERE : VS_LIMIT_NOWHERE, value, VS_BENEATH(cuCtxSetLimit)(limit, value), (void)0)
}

static const struct vs_limited calls[] = {{VS_API_cuMemAlloc_v2, (void *)alloc},
                                          {VS_API_cuMemAllocPitch_v2, (void *)alloc_rows},
                                          {VS_API_cuMemAlloc, (void *)alloc_32},
                                          {VS_API_cuMemAllocPitch, (void *)alloc_rows_32},
                                          {VS_API_cuMemAllocManaged, (void *)alloc_managed},
                                          {VS_API_cuMemCreate, (void *)create},
                                          {VS_API_cuArrayCreate, (void *)array_old},
                                          {VS_API_cuArrayCreate_v2, (void *)array},
                                          {VS_API_cuArray3DCreate, (void *)array_3d_old},
                                          {VS_API_cuArray3DCreate_v2, (void *)array_3d},
                                          {VS_API_cuMipmappedArrayCreate, (void *)mipmapped},
                                          {VS_API_cuDevicePrimaryCtxRetain, (void *)retain},
                                          {VS_API_cuCtxCreate, (void *)context_old},
                                          {VS_API_cuCtxCreate_v2, (void *)context},
                                          {VS_API_cuCtxCreate_v3, (void *)context_v3},
                                          {VS_API_cuCtxCreate_v4, (void *)context_v4},
                                          {VS_API_cuCtxSetLimit, (void *)set_limit},
                                          {0}};

void vs_limit_install(void)
{
    static const struct vs_limited *const lists[] = {calls, vs_limited_pools, vs_limited_figures};
    if (*vs_options.limit == 0 || vs_device_limits(vs_options.limit, vs_limit_bytes) != NULL)
        return;
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        for (const struct vs_limited *row = lists[i]; row->function != NULL; row++)
            vs_put_beneath(row->api, row->function);
}
