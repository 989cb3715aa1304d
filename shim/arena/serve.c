/*
 * serve.c - see serve.h.
 *
 * cuMemAlloc takes from the current device's arena, made at the first request with the current context. Where
 * there can be none (a device without virtual memory management, no room for the books), the driver serves as
 * ever.
 *
 * cuMemFree keeps the driver's promise: it waits for the device, and what it frees is complete when it
 * returns.  Programs rely on that wait.  While a stream is being captured nothing may wait; the block then
 * stays until the device is known to be done.  VRAMSCOPE_ARENA_FREE=defer never waits: freed blocks are
 * collected, and one wait serves for all of them when memory is short.
 *
 * What the arenas hold is told as the reserved size of a pool, when it has changed; blocks are its
 * allocations.
 */
#include "serve.h"

#include "arena.h"
#include "backing_cuda.h"
#include "hooks/cuda.h"
#include "hooks/hook.h"
#include "lock.h"
#include "log.h"
#include "options.h"

#include <stdatomic.h>
#include <string.h>

#define DEVICES 64
#define PITCH   512u

struct served {
    _Atomic(struct vs_arena *) arena; /* published last */
    bool refused;                     /* there can be none */
    struct vs_backing_cuda cuda;
    uint64_t peers;         /* devices that asked for access before there was an arena */
    struct vs_lock telling; /* what is read is told before anybody reads again */
    uint64_t told;          /* reserved bytes, as last recorded */
};

static struct served device_of[DEVICES];
static struct vs_lock making;
static __thread bool inside; /* this thread's calls of the driver are ours */

/* ---- the driver under us ---- */

#define REAL(symbol) ((__typeof__(&symbol))vs_real_under(VS_API_##symbol))

static bool fill_calls(struct vs_arena_calls *calls)
{
    bool all = true;
#define X(symbol, parameters) all = all && (calls->symbol = vs_cuda_real(#symbol)) != NULL;
    VS_ARENA_CALLS(X)
#undef X
    return all;
}

/* ---- arenas ---- */

static struct served *current(void)
{
    CUdevice device = -1;
    if (vs_drv_cuCtxGetDevice(&device) != CUDA_SUCCESS || device < 0 || device >= DEVICES)
        return NULL;
    return &device_of[device];
}

static int make_arena(struct served *s, CUdevice device)
{
    struct vs_backing backing;
    struct vs_arena *arena;
    struct vs_arena_config config = {.capacity = 0};
    size_t total = 0;
    if (!fill_calls(&s->cuda.call) || vs_drv_cuCtxGetCurrent(&s->cuda.context) != CUDA_SUCCESS ||
        vs_drv_cuDeviceTotalMem_v2(&total, device) != CUDA_SUCCESS)
        return CUDA_ERROR_NOT_SUPPORTED;
    s->cuda.device = device;
    config.capacity = total;
    int status = (int)vs_backing_cuda_init(&s->cuda, &backing);
    if (status == 0)
        status = vs_arena_create(&arena, &backing, &config);
    if (status == 0 && s->peers)
        status = vs_arena_set_peers(arena, s->peers);
    /* release: who sees the pointer sees what it points to */
    if (status == 0)
        atomic_store_explicit(&s->arena, arena, memory_order_release);
    return status;
}

/* The arena of the current device; NULL: the driver serves. */
static struct vs_arena *arena_here(struct served **out)
{
    struct served *s = current();
    *out = s;
    if (!s)
        return NULL;
    /* acquire: pairs with make_arena's release */
    struct vs_arena *arena = atomic_load_explicit(&s->arena, memory_order_acquire);
    if (arena)
        return arena;
    vs_lock_take(&making);
    arena =
        atomic_load_explicit(&s->arena, memory_order_relaxed); /* under the lock that it is stored under */
    if (!arena && !s->refused) {
        int status = make_arena(s, (CUdevice)(s - device_of));
        s->refused = status != 0;
        if (status != 0)
            vs_log("device %d can have no arena (error %d): the driver's own allocator serves it",
                   (int)(s - device_of), status);
        arena = atomic_load_explicit(&s->arena, memory_order_relaxed);
    }
    vs_lock_give(&making);
    return arena;
}

/* The device whose arena has a live block that begins at ADDRESS. */
static struct served *owner_of(CUdeviceptr address, struct vs_arena_block *block)
{
    for (int i = 0; i < DEVICES; i++) {
        struct vs_arena *arena = atomic_load_explicit(&device_of[i].arena, memory_order_acquire);
        if (arena && vs_arena_find(arena, address, block) && block->address == address)
            return &device_of[i];
    }
    return NULL;
}

/* ---- the record ---- */

static void tell(struct served *s)
{
    struct vs_arena_stats stats;
    vs_lock_take(&s->telling);
    vs_arena_stats(atomic_load_explicit(&s->arena, memory_order_relaxed), &stats);
    if (stats.reserved != s->told) {
        struct vs_event event = {.op = VS_OP_POOL_RESERVED,
                                 .space = VS_SPACE_POOL,
                                 .device = (int8_t)(s - device_of),
                                 .address = (uint64_t)(uintptr_t)s,
                                 .size = stats.reserved,
                                 .arg0 = stats.allocated};
        if (vs_record(&event) != VS_SEQ_NONE)
            s->told = stats.reserved;
    }
    vs_lock_give(&s->telling);
}

/* After the event of a call that an arena served. */
static void tell_all(void)
{
    for (int i = 0; i < DEVICES; i++)
        if (atomic_load_explicit(&device_of[i].arena, memory_order_acquire))
            tell(&device_of[i]);
}

/* ---- what stands in the driver's place ---- */

static CUresult serve_alloc(CUdeviceptr *out, size_t size)
{
    struct served *s;
    if (inside || !out || size == 0)
        return REAL(cuMemAlloc_v2)(out, size);
    inside = true;
    struct vs_arena *arena = arena_here(&s);
    uint64_t address = 0;
    int status = arena ? vs_arena_malloc(arena, VS_ARENA_ANY, size, &address) : 0;
    inside = false;
    if (!arena)
        return REAL(cuMemAlloc_v2)(out, size);
    if (status == 0) {
        *out = address;
        vs_override_space = VS_SPACE_POOL;
    }
    return (CUresult)status;
}

static CUresult serve_pitch(CUdeviceptr *out, size_t *pitch, size_t width, size_t height,
                            unsigned int element)
{
    bool valid = out && pitch && width && height && (element == 4 || element == 8 || element == 16);
    size_t line = (width + PITCH - 1) & ~(size_t)(PITCH - 1), size;
    struct served *s;
    if (inside || !valid || line < width || __builtin_mul_overflow(line, height, &size) || !arena_here(&s))
        return REAL(cuMemAllocPitch_v2)(out, pitch, width, height, element);
    CUresult status = serve_alloc(out, size);
    if (status == CUDA_SUCCESS)
        *pitch = line;
    return status;
}

/* Waits for the device as the driver's free does.  NOT_READY: nothing can be waited for now. */
static CUresult wait_for_device(struct served *s, struct vs_arena *arena)
{
    uint64_t ticket = vs_arena_ticket(arena);
    CUresult status = (CUresult)vs_backing_cuda_settle(&s->cuda);
    if (status == CUDA_SUCCESS)
        vs_arena_settled(arena, ticket);
    return status;
}

static CUresult serve_free(CUdeviceptr address)
{
    struct vs_arena_block block;
    struct served *s = address && !inside ? owner_of(address, &block) : NULL;
    if (!s)
        return REAL(cuMemFree_v2)(address);
    struct vs_arena *arena = atomic_load_explicit(&s->arena, memory_order_relaxed);
    unsigned flags = VS_FREE_DEFER;
    inside = true;
    CUresult status = CUDA_SUCCESS;
    if (vs_options.arena_free == VS_ARENA_FREE_WAIT) {
        status = wait_for_device(s, arena);
        if (status == CUDA_SUCCESS)
            flags = 0;
        else if (status == CUDA_ERROR_NOT_READY)
            status = CUDA_SUCCESS;
    }
    if (status == CUDA_SUCCESS)
        status = (CUresult)vs_arena_free(arena, address, VS_ARENA_ANY, flags);
    inside = false;
    return status;
}

static int device_of_context(CUcontext context)
{
    CUdevice device = -1;
    CUcontext before = NULL;
    vs_drv_cuCtxGetCurrent(&before);
    if (vs_drv_cuCtxSetCurrent(context) == CUDA_SUCCESS)
        vs_drv_cuCtxGetDevice(&device);
    vs_drv_cuCtxSetCurrent(before);
    return device;
}

/* The current device may reach what lies on the peer's: all of its mappings, those to come included. */
static CUresult serve_peer(CUcontext peer, unsigned int flags)
{
    CUdevice from = -1;
    CUresult status = REAL(cuCtxEnablePeerAccess)(peer, flags);
    if (status != CUDA_SUCCESS || vs_drv_cuCtxGetDevice(&from) != CUDA_SUCCESS)
        return status;
    int device = device_of_context(peer);
    if (device < 0 || device >= DEVICES || from < 0 || from >= DEVICES)
        return status;
    struct served *s = &device_of[device];
    vs_lock_take(&making);
    s->peers |= 1ull << from;
    struct vs_arena *arena = atomic_load_explicit(&s->arena, memory_order_relaxed);
    inside = true;
    int granted = arena ? vs_arena_set_peers(arena, s->peers) : 0;
    inside = false;
    vs_lock_give(&making);
    return (CUresult)granted;
}

void vs_serve_install(void)
{
    vs_override(VS_API_cuMemAlloc_v2, (void *)serve_alloc);
    vs_override(VS_API_cuMemAllocPitch_v2, (void *)serve_pitch);
    vs_override(VS_API_cuMemFree_v2, (void *)serve_free);
    vs_override(VS_API_cuCtxEnablePeerAccess, (void *)serve_peer);
    vs_override_after = tell_all;
}
