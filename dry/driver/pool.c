/*
 * pool.c - stream-ordered allocation out of memory pools.  A free piece can be had again at once, as no
 * stream is behind.
 *
 * Segments without a used piece go back to the device at cuMemPoolTrimTo, when something synchronizes and the
 * pool holds more than its release threshold (default 0), and when the primary context ends.
 */
#include "capture.h"
#include "graph.h"
#include "pool.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct sim_pool *pools;
static uint32_t next_id = 1;

struct sim_pool *sim_pool_new(int device)
{
    struct sim_pool *pool = calloc(1, sizeof *pool);
    if (!pool)
        return NULL;
    pool->device = device;
    pool->fd = -1;
    pool->id = next_id++;
    pool->reuse[0] = pool->reuse[1] = pool->reuse[2] = 1;
    pool->access[device] = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    pool->next = pools;
    pools = pool;
    return pool;
}

void sim_pools_init(void)
{
    for (int i = 0; i < sim_device_count; i++) {
        sim_devices[i].default_pool = sim_devices[i].pool = sim_pool_new(i);
        if (sim_devices[i].pool)
            sim_devices[i].pool->is_default = true;
    }
}

struct sim_pool *sim_pool_from(CUmemoryPool handle)
{
    for (struct sim_pool *p = pools; p; p = p->next)
        if (p == (struct sim_pool *)(void *)handle && !p->destroyed)
            return p;
    return NULL;
}

CUmemoryPool sim_pool_handle(struct sim_pool *pool)
{
    return (CUmemoryPool)(void *)pool;
}

void sim_pools_synchronize(int device)
{
    for (struct sim_pool *p = pools; p; p = p->next)
        if (p->device == device && p->reserved > p->threshold)
            sim_pool_trim(p, p->threshold);
}

/* ---- allocating ---- */

/* On a capturing stream memory comes from the graph, on the pool's device. */
static CUresult capture_alloc(CUdeviceptr *out, uint64_t size, const struct sim_pool *pool,
                              struct sim_graph *graph)
{
    CUDA_MEM_ALLOC_NODE_PARAMS params = {
        .poolProps = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = pool->device}},
        .bytesize = size};
    struct sim_node *node;
    CUresult result = sim_graph_add_alloc(graph, &params, &node);
    if (result == CUDA_SUCCESS)
        *out = params.dptr;
    return result;
}

static CUresult pool_alloc(CUdeviceptr *out, uint64_t size, struct sim_pool *pool, CUstream stream)
{
    uint64_t rounded = sim_round(size, PIECE), segment = sim_round(size, SIM_GRANULARITY);
    CUresult result = sim_stream_check(stream);
    if (result != CUDA_SUCCESS)
        return result;
    if (!out || !size || !pool || pool->exporter || segment < size)
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_graph *graph = sim_capture_graph(stream, &result);
    if (graph)
        return capture_alloc(out, size, pool, graph);
    if (result != CUDA_SUCCESS)
        return result;
    struct piece *piece = sim_pool_find(pool, rounded);
    if (!piece && ((segment < SEGMENT && sim_pool_grow(pool, SEGMENT)) || sim_pool_grow(pool, segment)))
        piece = sim_pool_find(pool, rounded);
    if (!piece || !sim_piece_cut(piece, rounded))
        return CUDA_ERROR_OUT_OF_MEMORY;
    struct sim_block *block = sim_block_add(piece->start, size, SIM_POOLED, pool->device);
    if (!block) {
        sim_piece_give_back(piece);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    block->detail = piece;
    pool->used += rounded;
    if (pool->used > pool->used_high)
        pool->used_high = pool->used;
    *out = piece->start;
    return CUDA_SUCCESS;
}

static void bury(struct sim_pool *pool)
{
    if (!pool->destroyed || pool->used)
        return;
    sim_pool_trim(pool, 0);
    if (pool->fd >= 0)
        close(pool->fd);
    struct sim_pool **link = &pools;
    while (*link != pool)
        link = &(*link)->next;
    *link = pool->next;
    free(pool);
}

CUresult sim_pool_free(struct sim_block *block)
{
    struct piece *piece = block->detail;
    struct sim_pool *pool = piece->segment->pool;
    pool->used -= piece->size;
    sim_piece_give_back(piece);
    sim_block_drop(block);
    bury(pool);
    return CUDA_SUCCESS;
}

static void free_allocations(struct sim_pool *pool)
{
    uint64_t at = 0;
    for (struct sim_range *range; (range = sim_map_from(&sim_blocks, at));) {
        at = range->start + range->size;
        struct sim_block *block = (struct sim_block *)range;
        if (block->kind == SIM_POOLED && ((struct piece *)block->detail)->segment->pool == pool) {
            pool->used -= ((struct piece *)block->detail)->size;
            sim_piece_give_back(block->detail);
            sim_block_drop(block);
        }
    }
}

void sim_pools_end(int device)
{
    for (struct sim_pool *p = pools, *next; p; p = next) {
        next = p->next;
        if (p->device != device)
            continue;
        free_allocations(p);
        sim_pool_trim(p, 0);
        bury(p);
    }
}

CUmemoryPool sim_pool_of(const struct sim_block *block)
{
    return block->kind == SIM_POOLED ? sim_pool_handle(((struct piece *)block->detail)->segment->pool) : NULL;
}

/* The pool that is current on the stream's device; an invalid stream is for pool_alloc to refuse. */
static struct sim_pool *current_pool(CUstream stream)
{
    int device = sim_valid_stream(stream) ? sim_stream_device(stream) : sim_context_current()->device;
    return sim_devices[device].pool;
}

CUresult cuMemAllocAsync(CUdeviceptr *out, size_t size, CUstream stream)
{
    SIM_CALL(SIM_CONTEXT);
    return pool_alloc(out, size, current_pool(stream), stream);
}

CUresult cuMemAllocAsync_ptsz(CUdeviceptr *out, size_t size, CUstream stream)
{
    SIM_CALL(SIM_CONTEXT);
    return pool_alloc(out, size, current_pool(stream), sim_ptsz(stream));
}

CUresult cuMemAllocFromPoolAsync(CUdeviceptr *out, size_t size, CUmemoryPool pool, CUstream stream)
{
    SIM_CALL(SIM_CONTEXT);
    return pool_alloc(out, size, sim_pool_from(pool), stream);
}

CUresult cuMemAllocFromPoolAsync_ptsz(CUdeviceptr *out, size_t size, CUmemoryPool pool, CUstream stream)
{
    SIM_CALL(SIM_CONTEXT);
    return pool_alloc(out, size, sim_pool_from(pool), sim_ptsz(stream));
}

/* Memory of cuMemAlloc may be freed this way too. */
static CUresult free_async(uint64_t address, CUstream stream)
{
    struct sim_block *block = sim_block_find(address);
    CUresult result = sim_stream_check(stream);
    if (result != CUDA_SUCCESS)
        return result;
    struct sim_graph *graph = sim_capture_graph(stream, &result);
    struct sim_node *node;
    if (graph)
        return sim_graph_add_free(graph, address, &node);
    if (result != CUDA_SUCCESS)
        return result;
    if (!block || block->range.start != address || !sim_freeable(block) || block->kind == SIM_MANAGED)
        return CUDA_ERROR_INVALID_VALUE;
    return sim_block_free(block);
}

CUresult cuMemFreeAsync(CUdeviceptr address, CUstream stream)
{
    SIM_CALL(SIM_CONTEXT);
    return free_async(address, stream);
}

CUresult cuMemFreeAsync_ptsz(CUdeviceptr address, CUstream stream)
{
    SIM_CALL(SIM_CONTEXT);
    return free_async(address, sim_ptsz(stream));
}

/* ---- pools ---- */

CUresult cuMemPoolCreate(CUmemoryPool *out, const CUmemPoolProps *props)
{
    SIM_CALL(SIM_INITIALIZED);
    if (!out || !props || props->allocType != CU_MEM_ALLOCATION_TYPE_PINNED)
        return CUDA_ERROR_INVALID_VALUE;
    if (props->location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
        (props->handleTypes & ~(unsigned)CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR))
        return CUDA_ERROR_NOT_SUPPORTED;
    if (!sim_valid_device(props->location.id))
        return CUDA_ERROR_INVALID_DEVICE;
    struct sim_pool *pool = sim_pool_new(props->location.id);
    if (!pool)
        return CUDA_ERROR_OUT_OF_MEMORY;
    pool->shareable = props->handleTypes != CU_MEM_HANDLE_TYPE_NONE;
    pool->max_size = sim_round(props->maxSize, SIM_GRANULARITY);
    *out = sim_pool_handle(pool);
    return CUDA_SUCCESS;
}

/* A pool that is destroyed with allocations in use lives on until they are freed. */
CUresult cuMemPoolDestroy(CUmemoryPool handle)
{
    SIM_CALL(SIM_INITIALIZED);
    struct sim_pool *pool = sim_pool_from(handle);
    if (!pool || pool->is_default)
        return CUDA_ERROR_INVALID_VALUE;
    if (sim_devices[pool->device].pool == pool)
        sim_devices[pool->device].pool = sim_devices[pool->device].default_pool;
    pool->destroyed = true;
    bury(pool);
    return CUDA_SUCCESS;
}

CUresult cuMemPoolTrimTo(CUmemoryPool handle, size_t keep)
{
    SIM_CALL(SIM_INITIALIZED);
    struct sim_pool *pool = sim_pool_from(handle);
    if (!pool)
        return CUDA_ERROR_INVALID_VALUE;
    sim_pool_trim(pool, keep);
    return CUDA_SUCCESS;
}

static uint64_t *attribute64(struct sim_pool *pool, CUmemPool_attribute attribute)
{
    switch (attribute) {
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
        return &pool->threshold;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
        return &pool->reserved;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
        return &pool->reserved_high;
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
        return &pool->used;
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
        return &pool->used_high;
    default:
        return NULL;
    }
}

CUresult cuMemPoolGetAttribute(CUmemoryPool handle, CUmemPool_attribute attribute, void *value)
{
    SIM_CALL(SIM_INITIALIZED);
    struct sim_pool *pool = sim_pool_from(handle);
    if (!pool || !value)
        return CUDA_ERROR_INVALID_VALUE;
    const uint64_t *field = attribute64(pool, attribute);
    if (field)
        memcpy(value, field, sizeof *field);
    else if (attribute >= CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES &&
             attribute <= CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES)
        memcpy(value, &pool->reuse[attribute - 1], sizeof(int));
    else
        return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}

CUresult cuMemPoolSetAttribute(CUmemoryPool handle, CUmemPool_attribute attribute, void *value)
{
    SIM_CALL(SIM_INITIALIZED);
    struct sim_pool *pool = sim_pool_from(handle);
    uint64_t wanted;
    if (!pool || !value)
        return CUDA_ERROR_INVALID_VALUE;
    if (attribute >= CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES &&
        attribute <= CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES) {
        memcpy(&pool->reuse[attribute - 1], value, sizeof(int));
        return CUDA_SUCCESS;
    }
    memcpy(&wanted, value, sizeof wanted);
    if (attribute == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD)
        pool->threshold = wanted;
    else if (attribute == CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH && !wanted)
        pool->reserved_high = pool->reserved;
    else if (attribute == CU_MEMPOOL_ATTR_USED_MEM_HIGH && !wanted)
        pool->used_high = pool->used;
    else
        return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}

CUresult cuMemPoolSetAccess(CUmemoryPool handle, const CUmemAccessDesc *map, size_t count)
{
    SIM_CALL(SIM_INITIALIZED);
    struct sim_pool *pool = sim_pool_from(handle);
    if (!pool || !map || !count)
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count; i++) {
        if (map[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE || !sim_valid_device(map[i].location.id))
            return CUDA_ERROR_INVALID_DEVICE;
        pool->access[map[i].location.id] = map[i].flags;
    }
    return CUDA_SUCCESS;
}

CUresult cuMemPoolGetAccess(CUmemAccess_flags *flags, CUmemoryPool handle, CUmemLocation *location)
{
    SIM_CALL(SIM_INITIALIZED);
    const struct sim_pool *pool = sim_pool_from(handle);
    if (!flags || !pool || !location)
        return CUDA_ERROR_INVALID_VALUE;
    if (location->type != CU_MEM_LOCATION_TYPE_DEVICE || !sim_valid_device(location->id))
        return CUDA_ERROR_INVALID_DEVICE;
    *flags = pool->access[location->id];
    return CUDA_SUCCESS;
}

static CUresult pool_of_device(CUmemoryPool *out, CUdevice device, bool by_default)
{
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    if (!sim_valid_device(device))
        return CUDA_ERROR_INVALID_DEVICE;
    *out = sim_pool_handle(by_default ? sim_devices[device].default_pool : sim_devices[device].pool);
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *out, CUdevice device)
{
    SIM_CALL(SIM_INITIALIZED);
    return pool_of_device(out, device, true);
}

CUresult cuDeviceGetMemPool(CUmemoryPool *out, CUdevice device)
{
    SIM_CALL(SIM_INITIALIZED);
    return pool_of_device(out, device, false);
}

static CUresult set_pool(CUdevice device, CUmemoryPool handle)
{
    struct sim_pool *pool = sim_pool_from(handle);
    if (!sim_valid_device(device))
        return CUDA_ERROR_INVALID_DEVICE;
    if (!pool || pool->exporter || pool->device != device)
        return CUDA_ERROR_INVALID_VALUE;
    sim_devices[device].pool = pool;
    return CUDA_SUCCESS;
}

CUresult cuDeviceSetMemPool(CUdevice device, CUmemoryPool handle)
{
    SIM_CALL(SIM_INITIALIZED);
    return set_pool(device, handle);
}

/* The same by location; pools on the host and managed ones are not simulated. */
static CUresult check_location(const CUmemLocation *location, CUmemAllocationType type)
{
    if (!location)
        return CUDA_ERROR_INVALID_VALUE;
    return location->type == CU_MEM_LOCATION_TYPE_DEVICE && type == CU_MEM_ALLOCATION_TYPE_PINNED
               ? CUDA_SUCCESS
               : CUDA_ERROR_NOT_SUPPORTED;
}

CUresult cuMemGetDefaultMemPool(CUmemoryPool *out, CUmemLocation *location, CUmemAllocationType type)
{
    SIM_CALL(SIM_INITIALIZED);
    CUresult result = check_location(location, type);
    return result == CUDA_SUCCESS ? pool_of_device(out, location->id, true) : result;
}

CUresult cuMemGetMemPool(CUmemoryPool *out, CUmemLocation *location, CUmemAllocationType type)
{
    SIM_CALL(SIM_INITIALIZED);
    CUresult result = check_location(location, type);
    return result == CUDA_SUCCESS ? pool_of_device(out, location->id, false) : result;
}

CUresult cuMemSetMemPool(CUmemLocation *location, CUmemAllocationType type, CUmemoryPool pool)
{
    SIM_CALL(SIM_INITIALIZED);
    CUresult result = check_location(location, type);
    return result == CUDA_SUCCESS ? set_pool(location->id, pool) : result;
}
