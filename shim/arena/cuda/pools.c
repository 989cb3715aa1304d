/*
 * pools.c - memory pools beside an arena.
 *
 * A device's default pool is the arena: what is allocated from it by either name comes from there, a trim of
 * it trims the arena, its figures are the arena's.  Pools that a program makes itself are the driver's, also
 * where one is the device's current pool.
 */
#include "serving.h"

static struct vs_served *arena_of_pool(CUmemoryPool pool)
{
    for (int i = 0; i < VS_SERVED_DEVICES; i++)
        if (pool && vs_served_arena(&vs_served[i]) && vs_served[i].pool == pool)
            return &vs_served[i];
    return NULL;
}

/* The stream's device's pools have changed: is the default one the current one still? */
static void look_again(void)
{
    for (int i = 0; i < VS_SERVED_DEVICES; i++)
        if (vs_served_arena(&vs_served[i]))
            vs_served_look_at_pool(&vs_served[i]);
}

void vs_served_look_at_pool(struct vs_served *s)
{
    CUmemoryPool current = NULL;
    s->pool = NULL;
    vs_drv_cuDeviceGetDefaultMemPool(&s->pool, s->cuda.device);
    bool known = vs_drv_cuDeviceGetMemPool(&current, s->cuda.device) == CUDA_SUCCESS;
    /* relaxed: a program that sets a pool and allocates in another thread orders the two itself */
    atomic_store_explicit(&s->other_pool, known && current != s->pool, memory_order_relaxed);
}

#define SETS(symbol, parameters, arguments)                                                                  \
    static CUresult serve_##symbol parameters                                                                \
    {                                                                                                        \
        CUresult status = VS_UNDER(symbol) arguments;                                                        \
        look_again();                                                                                        \
        return status;                                                                                       \
    }
SETS(cuDeviceSetMemPool, (CUdevice device, CUmemoryPool pool), (device, pool))
SETS(cuMemSetMemPool, (CUmemLocation * at, CUmemAllocationType type, CUmemoryPool pool), (at, type, pool))
SETS(cuMemPoolDestroy, (CUmemoryPool pool), (pool))

/* ---- figures ----
 *
 *      used        stream-ordered memory of whatever stream, as long as it is not freed
 *      reserved    that, and what is cached: all of the arena but what cuMemAlloc gave out
 *
 * The release threshold has no meaning: the arena gives back when memory is short, or trimmed.  Where the
 * driver serves (while a graph is captured), its pool holds memory too: figures are sums. */

static void raise(_Atomic uint64_t *high, uint64_t to)
{
    uint64_t was = atomic_load_explicit(high, memory_order_relaxed);
    while (was < to &&
           !atomic_compare_exchange_weak_explicit(high, &was, to, memory_order_relaxed, memory_order_relaxed))
        ;
}

static uint64_t pool_reserved(struct vs_served *s, const struct vs_arena_stats *stats)
{
    uint64_t direct = stats->allocated - stats->ordered;
    uint64_t reserved = stats->reserved - (direct < stats->reserved ? direct : stats->reserved);
    raise(&s->pool_reserved_high, reserved);
    return reserved;
}

static uint64_t figure(struct vs_served *s, CUmemPool_attribute attribute)
{
    struct vs_arena *arena = vs_served_arena(s);
    struct vs_arena_stats stats = {0};
    if (arena)
        vs_arena_stats(arena, &stats);
    uint64_t reserved = pool_reserved(s, &stats);
    switch (attribute) {
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
        return reserved;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
        return atomic_load_explicit(&s->pool_reserved_high, memory_order_relaxed);
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
        return stats.ordered;
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
        return stats.high_ordered;
    default:
        return 0;
    }
}

static bool is_figure(CUmemPool_attribute attribute)
{
    return attribute == CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT ||
           attribute == CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH || attribute == CU_MEMPOOL_ATTR_USED_MEM_CURRENT ||
           attribute == CU_MEMPOOL_ATTR_USED_MEM_HIGH;
}

static CUresult serve_get(CUmemoryPool pool, CUmemPool_attribute attribute, void *value)
{
    CUresult status = VS_UNDER(cuMemPoolGetAttribute)(pool, attribute, value);
    if (status != CUDA_SUCCESS || !is_figure(attribute) || !vs_served_in())
        return status;
    struct vs_served *s = arena_of_pool(pool);
    if (s)
        *(cuuint64_t *)value += figure(s, attribute);
    vs_served_out();
    return status;
}

static void used_high_from_now(struct vs_served *s)
{
    struct vs_arena *arena = vs_served_arena(s);
    if (arena)
        vs_arena_high_from_now(arena, VS_HIGH_ORDERED);
}

/* Setting a peak resets it to the present value. */
static CUresult serve_set_attribute(CUmemoryPool pool, CUmemPool_attribute attribute, void *value)
{
    CUresult status = VS_UNDER(cuMemPoolSetAttribute)(pool, attribute, value);
    if (status != CUDA_SUCCESS || !is_figure(attribute) || !vs_served_in())
        return status;
    struct vs_served *s = arena_of_pool(pool);
    if (s && attribute == CU_MEMPOOL_ATTR_USED_MEM_HIGH)
        used_high_from_now(s);
    if (s && attribute == CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH)
        atomic_store_explicit(&s->pool_reserved_high, figure(s, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT),
                              memory_order_relaxed);
    vs_served_out();
    return status;
}

/* ---- what is done with a pool ---- */

static CUresult serve_trim(CUmemoryPool pool, size_t keep)
{
    CUresult status = VS_UNDER(cuMemPoolTrimTo)(pool, keep);
    if (status != CUDA_SUCCESS || !vs_served_in())
        return status;
    struct vs_served *s = arena_of_pool(pool);
    struct vs_arena *arena = s ? vs_served_arena(s) : NULL;
    if (arena) {
        struct vs_arena_stats stats;
        vs_arena_stats(arena, &stats);
        vs_arena_trim(arena, keep > stats.ordered ? keep - stats.ordered : 0);
    }
    vs_served_out();
    return status;
}

static uint64_t devices_of(const CUmemAccessDesc *desc, size_t count)
{
    uint64_t devices = 0;
    for (size_t i = 0; i < count; i++)
        if (desc[i].location.type == CU_MEM_LOCATION_TYPE_DEVICE && desc[i].location.id >= 0 &&
            desc[i].location.id < VS_SERVED_DEVICES && desc[i].flags != CU_MEM_ACCESS_FLAGS_PROT_NONE)
            devices |= 1ull << desc[i].location.id;
    return devices;
}

/* The device whose default pool it is, which need not have an arena yet. */
static struct vs_served *device_of_default(CUmemoryPool pool)
{
    CUmemoryPool one = NULL;
    for (int i = 0; i < VS_SERVED_DEVICES; i++) {
        if (vs_drv_cuDeviceGetDefaultMemPool(&one, i) != CUDA_SUCCESS)
            return NULL;
        if (one == pool)
            return &vs_served[i];
    }
    return NULL;
}

/* Access that is taken away stays: nothing may rely on a fault. */
static CUresult serve_access(CUmemoryPool pool, const CUmemAccessDesc *desc, size_t count)
{
    CUresult status = VS_UNDER(cuMemPoolSetAccess)(pool, desc, count);
    struct vs_served *s = status == CUDA_SUCCESS ? device_of_default(pool) : NULL;
    return s ? vs_served_peers(s, devices_of(desc, count)) : status;
}

const struct vs_stand_in vs_stand_ins_pools[] = {
    {VS_API_cuDeviceSetMemPool, (void *)serve_cuDeviceSetMemPool},
    {VS_API_cuMemSetMemPool, (void *)serve_cuMemSetMemPool},
    {VS_API_cuMemPoolDestroy, (void *)serve_cuMemPoolDestroy},
    {VS_API_cuMemPoolGetAttribute, (void *)serve_get},
    {VS_API_cuMemPoolSetAttribute, (void *)serve_set_attribute},
    {VS_API_cuMemPoolTrimTo, (void *)serve_trim},
    {VS_API_cuMemPoolSetAccess, (void *)serve_access},
    {0}};
