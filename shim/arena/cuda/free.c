/*
 * free.c - cuMemFree out of an arena.
 *
 * cuMemFree waits for the device, and what it frees is complete when it returns, as with the driver: programs
 * rely on that wait. While a stream is being captured nothing may wait; the block then stays until the device
 * is known to be done. VRAMSCOPE_ARENA_FREE=defer, the default where PYTORCH_NO_CUDA_MEMORY_CACHING is set,
 * does not wait: freed blocks join a backlog (arena/core/deferred.c), and a free waits only where that is too
 * long.
 */
#include "core/options.h"
#include "arena/away/park.h"
#include "arena/share/share.h"
#include "serving.h"

#include <stdlib.h>

/* PyTorch without its cache frees every tensor by cudaFree, and does not mean to wait for each. */
static bool frees_wait(void)
{
    static _Atomic int known; /* 1 wait, 2 defer; each thread would find the same */
    int how = atomic_load_explicit(&known, memory_order_relaxed);
    if (how == 0) {
        bool uncached =
            vs_options.arena_free == VS_ARENA_FREE_AUTO && getenv("PYTORCH_NO_CUDA_MEMORY_CACHING");
        how = uncached || vs_options.arena_free == VS_ARENA_FREE_DEFER ? 2 : 1;
        atomic_store_explicit(&known, how, memory_order_relaxed);
    }
    return how == 1;
}

/* Waits for the device as the driver's free does, and for other contexts that may reach the memory.
 * NOT_READY: no wait is possible now. */
static CUresult wait_for_device(struct vs_served *s, struct vs_arena *arena)
{
    uint64_t ticket = vs_arena_ticket(arena);
    __atomic_fetch_add(&s->free_waits, 1, __ATOMIC_RELAXED); /* a count */
    CUresult status = (CUresult)vs_backing_cuda_synchronize(&s->cuda);
    if (status == CUDA_SUCCESS)
        vs_arena_synchronized(arena, ticket);
    return status;
}

CUresult vs_served_take_back(struct vs_served *s, struct vs_arena *arena, const struct vs_arena_block *block,
                             uint32_t queue, unsigned flags)
{
    if (vs_park_is_on())
        vs_park_free(s, arena, block->address);
    if (block->pins)
        vs_exports_block_ends(s, arena, block->address);
    return (CUresult)vs_arena_free(arena, block->address, queue, flags);
}

/* What the driver's free promises, then the block is the arena's again. */
static CUresult free_block(struct vs_served *s, struct vs_arena *arena, const struct vs_arena_block *block)
{
    unsigned flags = VS_FREE_DEFER;
    CUresult status = CUDA_SUCCESS;
    if (frees_wait()) {
        status = wait_for_device(s, arena);
        if (status == CUDA_SUCCESS)
            flags = 0;
        else if (status == CUDA_ERROR_NOT_READY)
            status = CUDA_SUCCESS;
    }
    if (status != CUDA_SUCCESS)
        return status;
    return vs_served_take_back(s, arena, block, VS_ARENA_ANY, flags);
}

/* The short way, where frees do not wait and no block is exported.  False: nothing was done. */
static bool free_at_once(struct vs_given *g, CUdeviceptr address)
{
    /* relaxed: a program that exports a block and frees it in another thread orders the two itself */
    if (frees_wait() || __atomic_load_n(&vs_served_exports, __ATOMIC_RELAXED) != 0)
        return false;
    for (int i = 0; i < VS_SERVED_DEVICES; i++) {
        struct vs_served *s = &vs_served[i];
        struct vs_arena *arena = vs_served_arena(s);
        if (arena && vs_park_is_on())
            vs_park_free(s, arena, address);
        if (!arena || vs_arena_free(arena, address, VS_ARENA_ANY, VS_FREE_DEFER) != 0)
            continue;
        vs_served_note(g, s, arena);
        return true;
    }
    return false;
}

/* What the driver says of any call, once it has shut down. */
static CUresult ask_driver(void)
{
    CUcontext current;
    return atomic_load_explicit(&vs_served_exiting, memory_order_relaxed) ? vs_drv_cuCtxGetCurrent(&current)
                                                                          : CUDA_SUCCESS;
}

/* As the driver's: a thread without a context may free, too. */
bool vs_served_free(struct vs_given *g, CUdeviceptr address)
{
    struct vs_arena_block block;
    struct vs_served *s;
    if (!address || !vs_served_in())
        return false;
    g->status = ask_driver();
    if (g->status == CUDA_SUCCESS && free_at_once(g, address)) {
        vs_served_out();
        return true;
    }
    struct vs_arena *arena = vs_served_owner(address, &s, &block);
    if (arena && g->status == CUDA_SUCCESS)
        g->status = block.address == address ? free_block(s, arena, &block) : CUDA_ERROR_INVALID_VALUE;
    if (arena)
        vs_served_note(g, s, arena);
    vs_served_out();
    return arena != NULL;
}
