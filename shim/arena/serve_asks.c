/*
 * serve_asks.c - what the driver would say of memory pieces, said of the blocks that they make up.
 *
 * A block of the arena lies on granules, each an allocation of its own to the driver: asked for the range of
 * an address it would name one of them.  And what the arena holds but nobody uses is free to the program that
 * asks how much is.
 */
#include "log.h"
#include "served.h"

static CUresult serve_range(CUdeviceptr *base, size_t *size, CUdeviceptr address)
{
    struct vs_arena_block block;
    if (vs_serving || !vs_served_owner(address, &block))
        return VS_UNDER(cuMemGetAddressRange_v2)(base, size, address);
    if (base)
        *base = block.address;
    if (size)
        *size = block.size;
    return CUDA_SUCCESS;
}

/* The answer for a block, where the attribute is one of its range. */
static bool answer(void *data, CUpointer_attribute attribute, const struct vs_arena_block *block)
{
    if (attribute == CU_POINTER_ATTRIBUTE_RANGE_START_ADDR)
        *(CUdeviceptr *)data = block->address;
    else if (attribute == CU_POINTER_ATTRIBUTE_RANGE_SIZE)
        *(size_t *)data = block->size;
    else
        return false;
    return true;
}

static CUresult serve_attribute(void *data, CUpointer_attribute attribute, CUdeviceptr address)
{
    struct vs_arena_block block;
    CUresult status = VS_UNDER(cuPointerGetAttribute)(data, attribute, address);
    bool of_range =
        attribute == CU_POINTER_ATTRIBUTE_RANGE_START_ADDR || attribute == CU_POINTER_ATTRIBUTE_RANGE_SIZE;
    if (status == CUDA_SUCCESS && of_range && !vs_serving && vs_served_owner(address, &block))
        answer(data, attribute, &block);
    return status;
}

static CUresult serve_attributes(unsigned int count, CUpointer_attribute *attributes, void **data,
                                 CUdeviceptr address)
{
    struct vs_arena_block block;
    CUresult status = VS_UNDER(cuPointerGetAttributes)(count, attributes, data, address);
    if (status != CUDA_SUCCESS || vs_serving || !vs_served_owner(address, &block))
        return status;
    for (unsigned int i = 0; i < count; i++)
        answer(data[i], attributes[i], &block);
    return status;
}

static CUresult serve_info(size_t *free_bytes, size_t *total)
{
    CUdevice device = -1;
    CUresult status = VS_UNDER(cuMemGetInfo_v2)(free_bytes, total);
    if (status != CUDA_SUCCESS || vs_serving || !free_bytes ||
        vs_drv_cuCtxGetDevice(&device) != CUDA_SUCCESS || device < 0 || device >= VS_SERVED_DEVICES ||
        !vs_served_arena(&vs_served[device]))
        return status;
    struct vs_arena_stats stats;
    vs_arena_stats(vs_served_arena(&vs_served[device]), &stats);
    *free_bytes += stats.idle + stats.deferred; /* the second: once the device is done */
    return status;
}

/* The driver makes such handles for memory of its own only. */
static CUresult serve_ipc(CUipcMemHandle *handle, CUdeviceptr address)
{
    static atomic_flag said = ATOMIC_FLAG_INIT;
    struct vs_arena_block block;
    if (!vs_serving && vs_served_owner(address, &block) &&
        !atomic_flag_test_and_set_explicit(&said, memory_order_relaxed))
        vs_log("cuIpcGetMemHandle: the arena's memory cannot be shared so: run without "
               "VRAMSCOPE_ALLOCATOR=arena");
    return VS_UNDER(cuIpcGetMemHandle)(handle, address);
}

void vs_serve_install_asks(void)
{
    vs_override(VS_API_cuIpcGetMemHandle, (void *)serve_ipc);
    vs_override(VS_API_cuMemGetAddressRange_v2, (void *)serve_range);
    vs_override(VS_API_cuPointerGetAttribute, (void *)serve_attribute);
    vs_override(VS_API_cuPointerGetAttributes, (void *)serve_attributes);
    vs_override(VS_API_cuMemGetInfo_v2, (void *)serve_info);
}
