/*
 * torch.c - an allocator for PyTorch's pluggable interface (torch.cuda.memory.CUDAPluggableAllocator).
 *
 * torch says for which stream a block is and on which it was used (record_stream), so the host does not wait
 * here, but for a block that another device's stream used (foreign.c): a block that is freed goes back to its
 * stream's queue, once other streams have done what they were given before.  Sizes count in units of 512
 * bytes, as torch's own allocator counts; 0 bytes are NULL, as torch's. A device that can have no arena is
 * served by the driver: a cudaMalloc for each block.
 */
#define _GNU_SOURCE
#include "torch.h"

#include "arena/away/away.h"
#include "arena/away/park.h"
#include "core/log.h"
#include "core/options.h"

#include <errno.h>
#include <stdio.h>

/* How many blocks the driver gave; while there are none they are not looked for. */
static uint64_t plain_blocks;

/* How much of a device's memory torch may have, in bytes, and as the fraction that was set; limit 0: all.
 * Atomic. */
static uint64_t limit_of[VS_SERVED_DEVICES];
static double fraction_of[VS_SERVED_DEVICES];

static bool on_device(int device)
{
    return device >= 0 && device < VS_SERVED_DEVICES;
}

/* ---- the arena of a device ---- */

/* The primary context, made as the runtime would at its first call.  One reference of ours stays, as the
 * runtime's own does; a context that there is but for the others would go with the last of them. */
CUcontext vs_torch_primary(int device)
{
    static _Atomic bool kept[VS_SERVED_DEVICES];
    CUcontext primary = NULL;
    if (vs_hook_cuDevicePrimaryCtxRetain(&primary, device) != CUDA_SUCCESS)
        return NULL;
    /* relaxed: the first one keeps its reference */
    if (atomic_exchange_explicit(&kept[device], true, memory_order_relaxed))
        vs_hook_cuDevicePrimaryCtxRelease_v2(device);
    return primary;
}

/* Makes the device's context current where none of its is, and the arena in it.
 *
 * Torch calls with its device current, but the runtime may not have made that device's context yet. */
static struct vs_arena *first_arena(int device, struct vs_served **s)
{
    CUcontext before = NULL;
    CUdevice current = -1;
    vs_drv_cuCtxGetCurrent(&before);
    if (before && vs_drv_cuCtxGetDevice(&current) == CUDA_SUCCESS && current == device)
        return vs_served_here(s);
    CUcontext primary = vs_torch_primary(device);
    if (!primary || vs_drv_cuCtxSetCurrent(primary) != CUDA_SUCCESS)
        return NULL;
    struct vs_arena *arena = vs_served_here(s);
    if (before)
        vs_drv_cuCtxSetCurrent(before);
    return arena;
}

static struct vs_arena *arena_of(int device, struct vs_served **s)
{
    if (!on_device(device) || vs_options.allocator != VS_ALLOCATOR_ARENA)
        return NULL;
    *s = &vs_served[device];
    struct vs_arena *arena = vs_served_arena(*s);
    return arena || vs_served_refused(*s) ? arena : first_arena(device, s);
}

/* ---- malloc ---- */

static bool beyond_limit(int device, uint64_t size)
{
    uint64_t limit = __atomic_load_n(&limit_of[device], __ATOMIC_RELAXED); /* a number by itself */
    return limit && vs_torch_allocated(device) + size > limit;
}

static int take(struct vs_served *s, struct vs_arena *arena, struct vs_torch_pool *pool, uint64_t size,
                CUstream stream, uint64_t *address)
{
    if (pool)
        return vs_torch_pool_malloc(s, pool, stream, size, address);
    return vs_arena_malloc(arena, vs_served_stream_queue(s, stream, true), size, address);
}

/* What torch's allocation came to. */
struct taken {
    uint64_t address, reserved; /* bytes that the device's arena holds */
    struct vs_served *s;
    struct vs_given given;
    bool refused; /* by the driver, which had no more for the arena, and not by a limit of torch's own */
};

static int from_arena(struct taken *t, struct vs_arena *arena, struct vs_torch_pool *pool, uint64_t size,
                      CUstream stream)
{
    int device = (int)(t->s - vs_served);
    if (beyond_limit(device, size))
        return CUDA_ERROR_OUT_OF_MEMORY;
    int status = take(t->s, arena, pool, size, stream, &t->address);
    if (status == CUDA_ERROR_OUT_OF_MEMORY && vs_torch_pools_retire(t->s)) {
        vs_torch_count_retry(device);
        status = take(t->s, arena, pool, size, stream, &t->address);
    }
    for (unsigned tries = 0; pool == NULL && vs_park_retries(t->s, arena, status, size, &tries);)
        status = take(t->s, arena, pool, size, stream, &t->address);
    t->refused = status == CUDA_ERROR_OUT_OF_MEMORY;
    return status;
}

static int from_driver(uint64_t size, uint64_t *address)
{
    CUdeviceptr given = 0;
    CUresult status = vs_hook_cuMemAlloc_v2(&given, size);
    *address = given;
    if (status == CUDA_SUCCESS)
        __atomic_fetch_add(&plain_blocks, 1, __ATOMIC_RELAXED); /* a count */
    return (int)status;
}

static int allocate_once(uint64_t size, int device, CUstream stream, struct taken *t)
{
    /* torch's filter may throw: before anything is begun here */
    struct vs_torch_pool *pool = vs_torch_filtering() ? vs_torch_pool_of(device, stream) : NULL;
    if (!vs_served_in()) /* a fork's child */
        return CUDA_ERROR_NOT_INITIALIZED;
    struct vs_arena *arena = arena_of(device, &t->s);
    bool entered = arena && vs_provided_enter(__builtin_frame_address(0));
    int status = arena ? from_arena(t, arena, pool, size, stream) : 0;
    if (arena && vs_park_is_on())
        vs_park_malloc(t->s, arena, pool == NULL && status == 0 ? t->address : 0, size, stream);
    if (arena) {
        t->reserved = vs_arena_reserved(arena);
        vs_served_note(&t->given, t->s, arena);
    }
    vs_served_out();
    if (!arena)
        return from_driver(size, &t->address);
    if (t->refused)
        vs_provided_refused(&t->given, size, (CUresult)status);
    vs_provided_leave(entered, &t->given);
    return status;
}

static int allocate(uint64_t size, int device, CUstream stream, struct taken *t)
{
    const struct taken none = *t;
    uint32_t seen;
    int status;
    do {
        *t = none;
        seen = vs_away_before_malloc();
        status = allocate_once(size, device, stream, t);
    } while (status == VS_BACKING_NOT_READY && vs_away_since(seen));
    return status;
}

static void amount(char *out, size_t room, uint64_t bytes)
{
    static const char *const unit[] = {"bytes", "KiB", "MiB", "GiB"}; /* it has no more */
    double value = (double)bytes;
    int i = 0;
    for (; value >= 1024 && i < 3; i++)
        value /= 1024;
    snprintf(out, room, i ? "%.2f %s" : "%.0f %s", value, unit[i]);
}

/* The words of torch's own allocator, since programs search for them. */
static void say_oom(char *out, size_t room, int device, uint64_t size)
{
    size_t free_bytes = 0, total = 0;
    char requested[32], of[32], left[32], used[32], held[32];
    uint64_t reserved = 0;
    if (on_device(device) && vs_served_in()) {
        const struct vs_arena *arena = vs_served_arena(&vs_served[device]);
        reserved = arena ? vs_arena_reserved(arena) : 0;
        vs_served_out();
    }
    vs_drv_cuMemGetInfo_v2(&free_bytes, &total);
    uint64_t allocated = vs_torch_allocated(device);
    amount(requested, sizeof requested, size);
    amount(of, sizeof of, total);
    amount(left, sizeof left, free_bytes);
    amount(used, sizeof used, allocated);
    amount(held, sizeof held, reserved > allocated ? reserved - allocated : 0);
    snprintf(out, room,
             "CUDA out of memory. Tried to allocate %s. GPU %d has a total capacity of %s of which %s is "
             "free. Of the allocated memory %s is allocated by PyTorch, and %s is reserved by vramscope's "
             "arena but unallocated by PyTorch.",
             requested, device, of, left, used, held);
}

/* Throws; where it cannot, the return value is what a C program gets. */
static __attribute__((noinline, cold)) void *fail(CUresult status, int device, uint64_t size)
{
    static atomic_flag said = ATOMIC_FLAG_INIT;
    char message[512];
    if (status == CUDA_ERROR_OUT_OF_MEMORY) {
        vs_torch_count_oom(device, size);
        say_oom(message, sizeof message, device, size);
        vs_torch_raise_oom(message);
    } else {
        vs_torch_raise(status);
    }
    if (!atomic_flag_test_and_set_explicit(&said, memory_order_relaxed))
        vs_log("vramscope_torch_malloc: error %d, and no PyTorch here that could be told: NULL it is",
               (int)status);
    return NULL;
}

void *vramscope_torch_malloc(ssize_t size, int device, CUstream stream)
{
    struct taken t = {.given = VS_GIVEN_NOTHING};
    int saved = errno;
    if (size <= 0)
        return NULL;
    int status = allocate((uint64_t)size, device, stream, &t);
    if (__builtin_expect(status != CUDA_SUCCESS, 0))
        return fail((CUresult)status, device, (uint64_t)size);
    vs_torch_count(device, t.address, (uint64_t)size, true, stream, t.reserved);
    errno = saved;
    return (void *)(uintptr_t)t.address;
}

/* ---- free ---- */

static bool is_plain(struct vs_arena *arena, uint64_t address)
{
    struct vs_arena_block block;
    return __atomic_load_n(&plain_blocks, __ATOMIC_RELAXED) &&
           !(arena && vs_arena_find(arena, address, &block));
}

static void to_driver(uint64_t address)
{
    __atomic_fetch_sub(&plain_blocks, 1, __ATOMIC_RELAXED);
    vs_hook_cuMemFree_v2(address);
}

static void to_arena(struct vs_served *s, struct vs_arena *arena, uint64_t address, CUstream stream,
                     struct vs_given *g)
{
    /* relaxed: a program that records a use and frees in another thread orders the two itself */
    if (__builtin_expect(__atomic_load_n(&vs_torch_foreigns, __ATOMIC_RELAXED) != 0, 0))
        vs_torch_foreign_wait(s, address);
    if (__builtin_expect(__atomic_load_n(&vs_served_exports, __ATOMIC_RELAXED) != 0, 0))
        vs_exports_block_ends(s, arena, address);
    uint32_t queue = vs_torch_queue(s, address, stream);
    if (vs_park_is_on())
        vs_park_free(s, arena, address);
    vs_arena_free(arena, address, queue, queue == VS_ARENA_ANY ? VS_FREE_DEFER | VS_FREE_NO_WAIT : 0);
    vs_served_note(g, s, arena);
}

void vramscope_torch_free(void *ptr, ssize_t size, int device, CUstream stream)
{
    uint64_t address = (uintptr_t)ptr;
    struct vs_given given = VS_GIVEN_NOTHING;
    int saved = errno;
    if (!ptr || !on_device(device) || !vs_served_in())
        return;
    struct vs_served *s = &vs_served[device];
    struct vs_arena *arena = vs_served_arena(s);
    bool plain = is_plain(arena, address), served = arena && !plain; /* otherwise it ended with the context */
    vs_torch_count(device, address, (uint64_t)size, false, stream, arena ? vs_arena_reserved(arena) : 0);
    bool entered = served && vs_provided_enter(__builtin_frame_address(0));
    if (served)
        to_arena(s, arena, address, stream, &given);
    vs_served_out();
    if (served)
        vs_provided_leave(entered, &given);
    if (plain)
        to_driver(address);
    errno = saved;
}

/* ---- the rest of the interface ---- */

/* Work of STREAM touches the block, so its free waits for that stream as well.  A stream without a queue
 * cannot be queried: the block then stays until the device is done. */
void vramscope_torch_record_stream(void *ptr, CUstream stream)
{
    struct vs_arena_block block;
    struct vs_served *s;
    if (!ptr || !vs_served_in())
        return;
    struct vs_arena *arena = vs_served_owner((uintptr_t)ptr, &s, &block);
    if (arena && vs_torch_foreign(s, stream)) {
        vs_torch_foreign_use(s, block.address, stream);
    } else if (arena) {
        uint32_t queue = vs_torch_queue(s, block.address, stream);
        if (queue != block.queue)
            vs_arena_use(arena, block.address, queue);
    }
    vs_served_out();
}

void *vramscope_torch_base_alloc(void *ptr, size_t *size)
{
    struct vs_arena_block block;
    struct vs_served *s;
    if (!vs_served_in())
        return ptr;
    bool ours = vs_served_owner((uintptr_t)ptr, &s, &block) != NULL;
    vs_served_out();
    if (ours && size)
        *size = block.size;
    return ours ? (void *)(uintptr_t)block.address : ptr;
}

/* torch.cuda.empty_cache(): what is idle goes back to the driver, of all devices. */
static void reset(struct vs_served *s)
{
    if (!vs_served_in())
        return;
    struct vs_given given = VS_GIVEN_NOTHING;
    struct vs_arena *arena = vs_served_arena(s);
    bool entered = arena && vs_provided_enter(__builtin_frame_address(0));
    if (arena) {
        vs_torch_pools_retire(s);
        vs_arena_trim(arena, 0);
        vs_served_note(&given, s, arena);
    }
    vs_served_out();
    if (arena)
        vs_provided_leave(entered, &given);
}

void vramscope_torch_reset(void)
{
    for (int i = 0; i < VS_SERVED_DEVICES; i++)
        if (vs_served_arena(&vs_served[i]))
            reset(&vs_served[i]);
}

void vramscope_torch_memory_fraction(double fraction, int device)
{
    size_t total = 0;
    if (!on_device(device) || !(fraction >= 0 && fraction <= 1) ||
        vs_drv_cuDeviceTotalMem_v2(&total, device) != CUDA_SUCCESS)
        return;
    uint64_t limit = fraction < 1 ? (uint64_t)(fraction * (double)total) : 0;
    if (fraction < 1 && !limit)
        limit = 1;                                                     /* nothing at all */
    __atomic_store(&fraction_of[device], &fraction, __ATOMIC_RELAXED); /* numbers by themselves */
    __atomic_store_n(&limit_of[device], limit, __ATOMIC_RELAXED);
}

double vramscope_torch_get_memory_fraction(int device)
{
    double fraction = 1;
    if (on_device(device) && __atomic_load_n(&limit_of[device], __ATOMIC_RELAXED))
        __atomic_load(&fraction_of[device], &fraction, __ATOMIC_RELAXED);
    return fraction;
}
