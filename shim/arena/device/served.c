/*
 * served.c - the devices with their arenas: which they are, whose an address is, who may reach their memory.
 */
#include "served.h"

struct vs_served vs_served[VS_SERVED_DEVICES] = {
    [0 ... VS_SERVED_DEVICES - 1] = {.streams = VS_LOCK(STREAMS)}};
_Atomic bool vs_served_any;
struct vs_lock vs_served_making = VS_LOCK(MAKING);
uint32_t vs_served_queue_changes = 1;

bool vs_served_is_primary(CUcontext context, CUdevice device)
{
    CUcontext primary = NULL;
    unsigned flags;
    int active = 0;
    if (vs_drv_cuDevicePrimaryCtxGetState(device, &flags, &active) != CUDA_SUCCESS || !active ||
        vs_drv_cuDevicePrimaryCtxRetain(&primary, device) != CUDA_SUCCESS)
        return false;
    vs_drv_cuDevicePrimaryCtxRelease_v2(device);
    return primary == context;
}

struct vs_arena *vs_served_owner(CUdeviceptr address, struct vs_served **out, struct vs_arena_block *block)
{
    for (int i = 0; i < VS_SERVED_DEVICES; i++) {
        struct vs_arena *arena = vs_served_arena(&vs_served[i]);
        if (arena && vs_arena_find(arena, address, block)) {
            *out = &vs_served[i];
            return arena;
        }
    }
    return NULL;
}

CUresult vs_served_peers(struct vs_served *s, uint64_t more)
{
    if (!vs_served_in())
        return CUDA_SUCCESS;
    vs_lock_take(&vs_served_making);
    uint64_t peers = atomic_fetch_or_explicit(&s->peers, more, memory_order_relaxed) | more;
    struct vs_arena *arena = atomic_load_explicit(&s->arena, memory_order_relaxed);
    int granted = arena ? vs_arena_set_peers(arena, peers) : 0;
    vs_lock_give(&vs_served_making);
    vs_served_out();
    return (CUresult)granted;
}
