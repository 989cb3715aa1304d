/*
 * pools.c - stream-ordered allocations, and graphs with memory nodes, under a limit.
 *
 * A pool gives what it holds before it takes more of the device, and says neither how much more nor when.  So
 * an allocation that could pass the limit is tried in what the pool holds unused.  If that fails, the
 * stream's frees are waited for, the pool is trimmed, and it is tried again.  What passes the limit all the
 * same is freed again, and refused.
 *
 * A graph's memory is taken by its first launch or its upload.  Where all its allocations together would not
 * fit, the upload shows whether they do.
 */
#include "limit.h"

#include "hooks/graph.h"
#include "hooks/place.h"

#define SEGMENT                                                                                              \
    (UINT64_C(32) << 20) /* bytes, in multiples of which pools and graphs take memory of the device */

static uint64_t segments(uint64_t bytes)
{
    return (bytes + SEGMENT - 1) / SEGMENT * SEGMENT;
}

struct ordered {
    CUdeviceptr *out;
    size_t size;
    CUmemoryPool pool; /* NULL: the current one of the stream's device */
    CUstream stream;
    CUresult (*call)(const struct ordered *);
};

static CUmemoryPool pool_of(const struct ordered *o, int device)
{
    CUmemoryPool pool = o->pool;
    if (pool == NULL && vs_drv_cuDeviceGetMemPool(&pool, device) != CUDA_SUCCESS)
        return NULL;
    return pool;
}

static uint64_t unused_of(CUmemoryPool pool)
{
    cuuint64_t reserved = 0, used = 0;
    if (vs_drv_cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &reserved) != CUDA_SUCCESS ||
        vs_drv_cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used) != CUDA_SUCCESS)
        return 0;
    return reserved > used ? reserved - used : 0;
}

static void give_back(const struct ordered *o, CUmemoryPool pool)
{
    vs_drv_cuStreamSynchronize(o->stream);
    VS_BENEATH(cuMemPoolTrimTo)(pool, 0);
}

/* The allocation as one of BYTES more of the device; false: refused. */
static bool granted(const struct ordered *o, int device, uint64_t bytes, CUmemoryPool pool, CUresult *status)
{
    struct vs_asked asked = vs_limit_ask(device, bytes);
    if (asked.refused)
        return false;
    *status = o->call(o);
    if (!vs_limit_passed(&asked, *status))
        return true;
    VS_BENEATH(cuMemFreeAsync)(*o->out, o->stream);
    give_back(o, pool);
    return false;
}

static CUresult ordered(const struct ordered *o)
{
    CUresult status;
    int device =
        vs_capturing(o->stream) == VS_CAPTURE_YES ? VS_LIMIT_NOWHERE : vs_place_stream(o->stream, 0).device;
    CUmemoryPool pool = vs_limit_of(device) != 0 ? pool_of(o, device) : NULL;
    if (pool == NULL)
        return o->call(o);
    if (granted(o, device, segments(o->size), pool, &status) ||
        (unused_of(pool) >= o->size && granted(o, device, 0, pool, &status)))
        return status;
    give_back(o, pool);
    return granted(o, device, segments(o->size), pool, &status) ? status : CUDA_ERROR_OUT_OF_MEMORY;
}

#define ALLOC(name, symbol)                                                                                  \
    static CUresult call_##name(const struct ordered *o)                                                     \
    {                                                                                                        \
        return VS_BENEATH(symbol)(o->out, o->size, o->stream);                                               \
    }                                                                                                        \
    static CUresult name(CUdeviceptr *out, size_t size, CUstream stream)                                     \
    {                                                                                                        \
        return ordered(&(struct ordered){out, size, NULL, stream, call_##name});                             \
    }
#define ALLOC_FROM(name, symbol)                                                                             \
    static CUresult call_##name(const struct ordered *o)                                                     \
    {                                                                                                        \
        return VS_BENEATH(symbol)(o->out, o->size, o->pool, o->stream);                                      \
    }                                                                                                        \
    static CUresult name(CUdeviceptr *out, size_t size, CUmemoryPool pool, CUstream stream)                  \
    {                                                                                                        \
        return ordered(&(struct ordered){out, size, pool, stream, call_##name});                             \
    }
ALLOC(alloc, cuMemAllocAsync)
ALLOC(alloc_of_thread, cuMemAllocAsync_ptsz)
ALLOC_FROM(alloc_from, cuMemAllocFromPoolAsync)
ALLOC_FROM(alloc_from_of_thread, cuMemAllocFromPoolAsync_ptsz)

/* ---- graphs ---- */

static bool fits(int device, CUgraphExec exec, CUstream stream)
{
    struct vs_asked asked = vs_limit_ask(device, segments(vs_graph_bytes(exec)));
    vs_limit_passed(&asked, CUDA_ERROR_UNKNOWN); /* as if it had not been made: the launch comes next */
    if (!asked.refused)
        return true;
    if (VS_BENEATH(cuGraphUpload)(exec, stream) != CUDA_SUCCESS)
        return true; /* the launch says why */
    asked = vs_limit_ask(device, 0);
    if (!asked.refused && !vs_limit_passed(&asked, CUDA_SUCCESS))
        return true;
    vs_drv_cuStreamSynchronize(stream);
    VS_BENEATH(cuDeviceGraphMemTrim)(device);
    return false;
}

static bool all_fit(CUgraphExec exec, CUstream stream)
{
    uint64_t devices = vs_graph_memory_seen() ? vs_graph_devices(exec) : 0;
    if (devices == 0 || vs_capturing(stream) == VS_CAPTURE_YES)
        return true;
    for (int device = 0; device < 64; device++)
        if (devices >> device & 1 && vs_limit_of(device) != 0 && !fits(device, exec, stream))
            return false;
    return true;
}

#define LAUNCH(name, symbol)                                                                                 \
    static CUresult name(CUgraphExec exec, CUstream stream)                                                  \
    {                                                                                                        \
        return all_fit(exec, stream) ? VS_BENEATH(symbol)(exec, stream) : CUDA_ERROR_OUT_OF_MEMORY;          \
    }
LAUNCH(launch, cuGraphLaunch)
LAUNCH(launch_of_thread, cuGraphLaunch_ptsz)
LAUNCH(upload, cuGraphUpload)
LAUNCH(upload_of_thread, cuGraphUpload_ptsz)

const struct vs_limited vs_limited_pools[] = {
    {VS_API_cuMemAllocAsync, (void *)alloc},
    {VS_API_cuMemAllocAsync_ptsz, (void *)alloc_of_thread},
    {VS_API_cuMemAllocFromPoolAsync, (void *)alloc_from},
    {VS_API_cuMemAllocFromPoolAsync_ptsz, (void *)alloc_from_of_thread},
    {VS_API_cuGraphLaunch, (void *)launch},
    {VS_API_cuGraphLaunch_ptsz, (void *)launch_of_thread},
    {VS_API_cuGraphUpload, (void *)upload},
    {VS_API_cuGraphUpload_ptsz, (void *)upload_of_thread},
    {0}};
