/*
 * memory.c - device and managed memory: allocating, freeing, asking what an address is.  All memory that the
 * driver knows is a struct sim_block in one ordered map, whatever made it.
 */
#include "capture.h"
#include "graph.h"
#include "share.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

struct sim_map sim_blocks;
static unsigned long long next_id = 1;

struct sim_block *sim_block_find(uint64_t address)
{
    return (struct sim_block *)sim_map_at(&sim_blocks, address);
}

struct sim_block *sim_block_add(uint64_t address, uint64_t size, enum sim_kind kind, int device)
{
    struct sim_block *block = calloc(1, sizeof *block);
    if (!block)
        return NULL;
    block->range.start = address;
    block->range.size = size;
    block->kind = kind;
    block->device = device;
    block->id = next_id++;
    sim_map_insert(&sim_blocks, &block->range);
    return block;
}

void sim_block_drop(struct sim_block *block)
{
    sim_map_remove(&sim_blocks, &block->range);
    free(block);
}

CUresult sim_block_free(struct sim_block *block)
{
    uint64_t start = block->range.start, size = block->range.size;
    if (block->kind == SIM_POOLED)
        return sim_pool_free(block);
    if (block->kind == SIM_IMPORTED)
        return sim_import_free(block);
    if (block->kind == SIM_GRAPH)
        return sim_graph_memory_free(block);
    if (block->kind == SIM_DEVICE)
        sim_backing_free(block->device, start, size, block->detail);
    else if (block->kind == SIM_MANAGED || block->kind == SIM_PINNED)
        munmap((void *)start, sim_round(size, 4096));
    sim_block_drop(block);
    return CUDA_SUCCESS;
}

/* What was allocated in a context dies with it; pools and VMM memory belong to none. */
void sim_blocks_free_of(struct sim_context *owner)
{
    uint64_t at = 0;
    for (struct sim_range *range; (range = sim_map_from(&sim_blocks, at));) {
        at = range->start + range->size;
        if (((struct sim_block *)range)->owner == owner)
            sim_block_free((struct sim_block *)range);
    }
}

/* ---- allocating ---- */

static CUresult alloc_device(uint64_t *out, uint64_t size)
{
    struct sim_context *context = sim_context_owner();
    SIM_UNSAFE();
    if (!out || !size)
        return CUDA_ERROR_INVALID_VALUE;
    void *detail;
    uint64_t address = sim_backing_alloc(context->device, size, &detail);
    if (!address)
        return CUDA_ERROR_OUT_OF_MEMORY;
    struct sim_block *block = sim_block_add(address, size, SIM_DEVICE, context->device);
    if (!block) {
        sim_backing_free(context->device, address, size, detail);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    block->owner = context;
    block->detail = detail;
    *out = address;
    return CUDA_SUCCESS;
}

CUresult cuMemAlloc_v2(CUdeviceptr *out, size_t size)
{
    SIM_CALL(SIM_CONTEXT);
    uint64_t address;
    CUresult result = alloc_device(out ? &address : NULL, size);
    if (result == CUDA_SUCCESS)
        *out = address;
    return result;
}

/* The first ABI's pointers have 32 bits. */
static CUresult alloc_low(CUdeviceptr_v1 *out, uint64_t size)
{
    int device = sim_context_current()->device;
    uint64_t bytes = sim_round(size, SIM_GRANULARITY);
    SIM_UNSAFE();
    if (!out || !size)
        return CUDA_ERROR_INVALID_VALUE;
    if (!sim_charge(device, bytes))
        return CUDA_ERROR_OUT_OF_MEMORY;
    uint64_t address = sim_map_pages(bytes, SIM_GRANULARITY, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_32BIT);
    struct sim_block *block = address ? sim_block_add(address, size, SIM_DEVICE, device) : NULL;
    if (!block) {
        if (address)
            munmap((void *)address, bytes);
        sim_uncharge(device, bytes);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    block->owner = sim_context_owner();
    *out = (CUdeviceptr_v1)address;
    return CUDA_SUCCESS;
}

CUresult cuMemAlloc(CUdeviceptr_v1 *out, unsigned int size)
{
    SIM_CALL(SIM_CONTEXT);
    return alloc_low(out, size);
}

/* Rows start at multiples of 512 bytes. */
static bool pitched(uint64_t width, uint64_t height, unsigned element, uint64_t *pitch, uint64_t *size)
{
    if ((element != 4 && element != 8 && element != 16) || !width || !height)
        return false;
    *pitch = sim_round(width, 512);
    return *pitch >= width && !__builtin_mul_overflow(*pitch, height, size);
}

CUresult cuMemAllocPitch_v2(CUdeviceptr *out, size_t *pitch, size_t width, size_t height,
                            unsigned int element)
{
    SIM_CALL(SIM_CONTEXT);
    uint64_t row, size, address;
    if (!out || !pitch || !pitched(width, height, element, &row, &size))
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = alloc_device(&address, size);
    if (result == CUDA_SUCCESS) {
        *out = address;
        *pitch = row;
    }
    return result;
}

CUresult cuMemAllocPitch(CUdeviceptr_v1 *out, unsigned int *pitch, unsigned int width, unsigned int height,
                         unsigned int element)
{
    SIM_CALL(SIM_CONTEXT);
    uint64_t row, size;
    if (!out || !pitch || !pitched(width, height, element, &row, &size))
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = alloc_low(out, size);
    if (result == CUDA_SUCCESS)
        *pitch = (unsigned)row;
    return result;
}

/* Migrates between host and device; the simulated device keeps all of it on the host and charges nothing. */
CUresult cuMemAllocManaged(CUdeviceptr *out, size_t size, unsigned int flags)
{
    SIM_CALL(SIM_CONTEXT);
    SIM_UNSAFE();
    if (!out || !size ||
        (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST && flags != CU_MEM_ATTACH_SINGLE))
        return CUDA_ERROR_INVALID_VALUE;
    uint64_t address = sim_map_pages(sim_round(size, 4096), 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE);
    if (!address)
        return CUDA_ERROR_OUT_OF_MEMORY;
    struct sim_block *block = sim_block_add(address, size, SIM_MANAGED, sim_context_current()->device);
    if (!block) {
        munmap((void *)address, sim_round(size, 4096));
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    block->owner = sim_context_owner();
    *out = address;
    return CUDA_SUCCESS;
}

bool sim_freeable(const struct sim_block *block)
{
    return block->kind == SIM_DEVICE || block->kind == SIM_MANAGED || block->kind == SIM_POOLED ||
           block->kind == SIM_GRAPH || (block->kind == SIM_IMPORTED && sim_import_freeable(block));
}

/* As the real driver, a thread without a context may free, too. */
static CUresult free_device(uint64_t address)
{
    struct sim_block *block = sim_block_find(address);
    CUresult context = sim_context_check();
    SIM_UNSAFE();
    if (block && block->range.start == address && sim_freeable(block) &&
        (context == CUDA_SUCCESS || context == CUDA_ERROR_INVALID_CONTEXT))
        return sim_block_free(block);
    return context != CUDA_SUCCESS ? context : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemFree_v2(CUdeviceptr address)
{
    SIM_CALL(SIM_INITIALIZED);
    return free_device(address);
}

CUresult cuMemFree(CUdeviceptr_v1 address)
{
    SIM_CALL(SIM_INITIALIZED);
    return free_device(address);
}

/* ---- asking ---- */

CUresult cuMemGetInfo_v2(size_t *left, size_t *total)
{
    SIM_CALL(SIM_CONTEXT);
    const struct sim_device *device = &sim_devices[sim_context_current()->device];
    if (!left || !total)
        return CUDA_ERROR_INVALID_VALUE;
    *left = device->capacity - device->used;
    *total = device->capacity;
    return CUDA_SUCCESS;
}

static unsigned fit32(uint64_t value)
{
    return value > UINT32_MAX ? UINT32_MAX : (unsigned)value;
}

CUresult cuMemGetInfo(unsigned int *left, unsigned int *total)
{
    SIM_CALL(SIM_CONTEXT);
    const struct sim_device *device = &sim_devices[sim_context_current()->device];
    if (!left || !total)
        return CUDA_ERROR_INVALID_VALUE;
    *left = fit32(device->capacity - device->used);
    *total = fit32(device->capacity);
    return CUDA_SUCCESS;
}

CUresult cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *size, CUdeviceptr address)
{
    SIM_CALL(SIM_CONTEXT);
    const struct sim_block *block = sim_block_find(address);
    if (!block)
        return CUDA_ERROR_NOT_FOUND;
    if (base)
        *base = block->range.start;
    if (size)
        *size = block->range.size;
    return CUDA_SUCCESS;
}

CUresult cuMemGetAddressRange(CUdeviceptr_v1 *base, unsigned int *size, CUdeviceptr_v1 address)
{
    SIM_CALL(SIM_CONTEXT);
    const struct sim_block *block = sim_block_find(address);
    if (!block)
        return CUDA_ERROR_NOT_FOUND;
    if (base)
        *base = (CUdeviceptr_v1)block->range.start;
    if (size)
        *size = fit32(block->range.size);
    return CUDA_SUCCESS;
}

static bool on_host(const struct sim_block *block)
{
    return block->kind == SIM_PINNED || block->kind == SIM_REGISTERED;
}

/* The value and its size in bytes; 0: not known. */
static size_t pointer_attribute(CUpointer_attribute attribute, const struct sim_block *block,
                                uint64_t address, uint64_t *value)
{
    switch ((int)attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
        return *value = (uint64_t)block->owner, 8;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        return *value = on_host(block) ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE, 4;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
        return *value = address, 8;
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
        return *value = address, on_host(block) || block->kind == SIM_MANAGED ? 8 : 0;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
    case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
        return *value = block->id, 8;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
        return *value = block->kind == SIM_MANAGED, 4;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        return *value = (uint64_t)(uint32_t)block->device, 4;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
        return *value = block->range.start, 8;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
        return *value = block->range.size, 8;
    case CU_POINTER_ATTRIBUTE_MAPPED:
        return *value = 1, 4;
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
        return *value = block->kind == SIM_DEVICE, 4;
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
        return *value = block->kind == SIM_DEVICE ||
                        (block->kind == SIM_MAPPING &&
                         ((const struct sim_phys *)block->detail)->prop.allocFlags.gpuDirectRDMACapable),
               4;
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
        return *value = block->kind == SIM_MAPPING
                            ? (uint64_t)((const struct sim_phys *)block->detail)->prop.requestedHandleTypes
                            : 0,
               8;
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
        return *value = (uint64_t)sim_pool_of(block), 8;
    default:
        return 0;
    }
}

CUresult cuPointerGetAttribute(void *data, CUpointer_attribute attribute, CUdeviceptr address)
{
    SIM_CALL(SIM_CONTEXT);
    const struct sim_block *block = sim_block_find(address);
    uint64_t value;
    if (!data || !block)
        return CUDA_ERROR_INVALID_VALUE;
    size_t size = pointer_attribute(attribute, block, address, &value);
    memcpy(data, &value, size);
    return size ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* An unknown address is no error here: every value is zero, the device ordinal -2. */
CUresult cuPointerGetAttributes(unsigned int count, CUpointer_attribute *wanted, void **data,
                                CUdeviceptr address)
{
    SIM_CALL(SIM_CONTEXT);
    static const struct sim_block unknown = {.device = -2};
    const struct sim_block *block = sim_block_find(address);
    if (!count || !wanted || !data)
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < count; i++) {
        uint64_t value;
        size_t size = pointer_attribute(wanted[i], block ? block : &unknown, address, &value);
        if (!block && wanted[i] != CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL)
            value = 0;
        memcpy(data[i], &value, size);
    }
    return CUDA_SUCCESS;
}

/* Files of device memory are for other devices' drivers, of which there are none. */
CUresult cuMemGetHandleForAddressRange(void *handle, CUdeviceptr address, size_t size,
                                       CUmemRangeHandleType type, unsigned long long flags)
{
    SIM_CALL(SIM_CONTEXT);
    return CUDA_ERROR_NOT_SUPPORTED;
}
