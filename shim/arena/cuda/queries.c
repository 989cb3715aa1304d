/*
 * queries.c - answers queries about addresses for blocks of the arena, as the driver does for its own memory.
 *
 * A block lies on chunks, each an allocation of its own to the driver.  Where the driver's answer about a
 * chunk could mislead a program, the answer is that for a block of cuMemAlloc's. Stream-ordered memory is
 * answered for in the same way: it can do what cuMemAlloc's can, which is more than the driver's pools allow.
 * What the arena holds but nobody uses is free to the program that asks how much is.
 */
#include "core/log.h"
#include "arena/away/away.h"
#include "arena/share/share.h"
#include "serving.h"

/* The block that holds ADDRESS, and the device whose arena it is of; NULL: an import's, which has none. */
struct found {
    struct vs_arena_block block;
    struct vs_served *of;
};

static bool any_arena(void)
{
    /* relaxed: a thread that queries an address of ours allocated it, or got it from the thread that did */
    return atomic_load_explicit(&vs_served_any, memory_order_relaxed);
}

static bool find(CUdeviceptr address, struct found *f)
{
    f->of = NULL;
    if (any_arena() && vs_served_in()) {
        vs_served_owner(address, &f->of, &f->block);
        vs_served_out();
    }
    return f->of || vs_imports_opened(address, &f->block);
}

bool vs_served_block_of(CUdeviceptr address, struct vs_owned *block)
{
    struct found f;
    if (!find(address, &f))
        return false;
    *block = (struct vs_owned){f.block.address, f.block.size};
    return true;
}

static CUresult serve_range(CUdeviceptr *base, size_t *size, CUdeviceptr address)
{
    struct found f;
    if (!find(address, &f))
        return VS_UNDER(cuMemGetAddressRange_v2)(base, size, address);
    if (base)
        *base = f.block.address;
    if (size)
        *size = f.block.size;
    return CUDA_SUCCESS;
}

/* ---- attributes of a pointer ---- */

/* The chunks that the block lies on, as a range. */
static uint64_t first_byte(const struct found *f)
{
    return f->block.address & ~(f->of->cuda.chunk - 1);
}

static uint64_t mapped_bytes(const struct found *f)
{
    uint64_t chunk = f->of->cuda.chunk, end = f->block.address + f->block.size;
    return ((end + chunk - 1) & ~(chunk - 1)) - first_byte(f);
}

/* Of a block of an arena only: an import is what the driver says it is.
 *
 *      RANGE_START_ADDR, RANGE_SIZE            the block, as it was asked for
 *      MAPPING_BASE_ADDR, MAPPING_SIZE         the chunks that it lies on
 *      CONTEXT                                 where it was allocated; virtual memory is no context's
 *      IS_LEGACY_CUDA_IPC_CAPABLE              yes: cuIpcGetMemHandle is served (share/exports.c)
 *      ALLOWED_HANDLE_TYPES                    none: a handle of one chunk is none of the block
 *      BUFFER_ID, MEMORY_BLOCK_ID              one for the whole block: its first chunk's
 */
static bool answer_block(void *data, CUpointer_attribute attribute, const struct found *f)
{
    switch ((int)attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
        return *(CUcontext *)data = f->of->cuda.context, true;
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
        return *(unsigned *)data = 1, true;
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
        return *(uint64_t *)data = 0, true;
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
        return *(uint64_t *)data = first_byte(f), true;
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
        return *(uint64_t *)data = mapped_bytes(f), true;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
    case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
        return VS_UNDER(cuPointerGetAttribute)(data, attribute, f->block.address) == CUDA_SUCCESS;
    default:
        return false;
    }
}

/* Puts the answer for the block into DATA, where it is another one than the driver's. */
static bool answer(void *data, CUpointer_attribute attribute, const struct found *f)
{
    if (attribute == CU_POINTER_ATTRIBUTE_RANGE_START_ADDR)
        *(CUdeviceptr *)data = f->block.address;
    else if (attribute == CU_POINTER_ATTRIBUTE_RANGE_SIZE)
        *(size_t *)data = f->block.size;
    else
        return f->of && answer_block(data, attribute, f);
    return true;
}

static CUresult serve_attribute(void *data, CUpointer_attribute attribute, CUdeviceptr address)
{
    struct found f;
    vs_away_ask(address);
    CUresult status = VS_UNDER(cuPointerGetAttribute)(data, attribute, address);
    /* an attribute that virtual memory has none of is INVALID_VALUE: the block may have one */
    if ((status == CUDA_SUCCESS || status == CUDA_ERROR_INVALID_VALUE) && data && find(address, &f) &&
        answer(data, attribute, &f))
        status = CUDA_SUCCESS;
    vs_away_asked();
    return status;
}

static CUresult serve_attributes(unsigned int count, CUpointer_attribute *attributes, void **data,
                                 CUdeviceptr address)
{
    struct found f;
    vs_away_ask(address);
    CUresult status = VS_UNDER(cuPointerGetAttributes)(count, attributes, data, address);
    if (status == CUDA_SUCCESS && find(address, &f))
        for (unsigned int i = 0; i < count; i++)
            answer(data[i], attributes[i], &f);
    vs_away_asked();
    return status;
}

/* Refused as for all memory that is not the program's own virtual memory: who had the handle of one chunk
 * would take it for the block. */
static CUresult serve_retain(CUmemGenericAllocationHandle *handle, void *address)
{
    struct found f;
    return find((CUdeviceptr)address, &f) && f.of ? CUDA_ERROR_INVALID_VALUE
                                                  : VS_UNDER(cuMemRetainAllocationHandle)(handle, address);
}

/* Who has the descriptor of memory of the arena's reaches it without the driver (RDMA), or as a part of a
 * multicast object: the block stays where it is for good. */
static void stays(CUdeviceptr address, CUresult status)
{
    struct vs_arena_block block;
    struct vs_served *s;
    if (status != CUDA_SUCCESS || !any_arena() || !vs_served_in())
        return;
    struct vs_arena *arena = vs_served_owner(address, &s, &block);
    if (arena)
        vs_arena_pin(arena, block.address);
    vs_served_out();
}

static CUresult serve_descriptor(void *handle, CUdeviceptr address, size_t size, CUmemRangeHandleType type,
                                 unsigned long long flags)
{
    vs_away_give(address);
    CUresult status = VS_UNDER(cuMemGetHandleForAddressRange)(handle, address, size, type, flags);
    stays(address, status);
    vs_away_asked();
    return status;
}

static CUresult serve_bind(CUmemGenericAllocationHandle object, size_t offset, CUdeviceptr address,
                           size_t size, unsigned long long flags)
{
    vs_away_give(address);
    CUresult status = VS_UNDER(cuMulticastBindAddr)(object, offset, address, size, flags);
    stays(address, status);
    vs_away_asked();
    return status;
}

static CUresult serve_bind_v2(CUmemGenericAllocationHandle object, CUdevice device, size_t offset,
                              CUdeviceptr address, size_t size, unsigned long long flags)
{
    vs_away_give(address);
    CUresult status = VS_UNDER(cuMulticastBindAddr_v2)(object, device, offset, address, size, flags);
    stays(address, status);
    vs_away_asked();
    return status;
}

/* ---- what is for the program's own virtual memory ---- */

/* Whether ADDRESS is in a window of an arena's: the program has none of its own there, and must not take our
 * mappings apart. */
static bool is_ours(CUdeviceptr address)
{
    bool ours = false;
    if (!any_arena() || !vs_served_in())
        return false;
    for (int i = 0; i < VS_SERVED_DEVICES && !ours; i++) {
        struct vs_arena *arena = vs_served_arena(&vs_served[i]);
        ours = arena && vs_arena_covers(arena, address);
    }
    vs_served_out();
    return ours;
}

static CUresult serve_unmap(CUdeviceptr address, size_t size)
{
    return is_ours(address) ? CUDA_ERROR_INVALID_VALUE : VS_UNDER(cuMemUnmap)(address, size);
}

static CUresult serve_map(CUdeviceptr address, size_t size, size_t offset,
                          CUmemGenericAllocationHandle handle, unsigned long long flags)
{
    return is_ours(address) ? CUDA_ERROR_INVALID_VALUE
                            : VS_UNDER(cuMemMap)(address, size, offset, handle, flags);
}

static CUresult serve_access(CUdeviceptr address, size_t size, const CUmemAccessDesc *desc, size_t count)
{
    return is_ours(address) ? CUDA_ERROR_INVALID_VALUE : VS_UNDER(cuMemSetAccess)(address, size, desc, count);
}

static CUresult serve_unreserve(CUdeviceptr address, size_t size)
{
    return is_ours(address) ? CUDA_ERROR_INVALID_VALUE : VS_UNDER(cuMemAddressFree)(address, size);
}

/* ---- how much is free ---- */

static uint64_t unused_bytes(CUdevice device)
{
    struct vs_arena_stats stats = {0};
    if (device < 0 || device >= VS_SERVED_DEVICES || !vs_served_in())
        return 0;
    struct vs_arena *arena = vs_served_arena(&vs_served[device]);
    if (arena)
        vs_arena_stats(arena, &stats);
    vs_served_out();
    return stats.idle + stats.deferred; /* the second: once the device is done */
}

static CUresult serve_info(size_t *free_bytes, size_t *total)
{
    CUdevice device = -1;
    CUresult status = VS_UNDER(cuMemGetInfo_v2)(free_bytes, total);
    if (status == CUDA_SUCCESS && free_bytes && any_arena() && vs_drv_cuCtxGetDevice(&device) == CUDA_SUCCESS)
        *free_bytes += unused_bytes(device);
    return status;
}

const struct vs_stand_in vs_stand_ins_queries[] = {
    {VS_API_cuMemGetAddressRange_v2, (void *)serve_range},
    {VS_API_cuPointerGetAttribute, (void *)serve_attribute},
    {VS_API_cuPointerGetAttributes, (void *)serve_attributes},
    {VS_API_cuMemRetainAllocationHandle, (void *)serve_retain},
    {VS_API_cuMemGetHandleForAddressRange, (void *)serve_descriptor},
    {VS_API_cuMulticastBindAddr, (void *)serve_bind},
    {VS_API_cuMulticastBindAddr_v2, (void *)serve_bind_v2},
    {VS_API_cuMemUnmap, (void *)serve_unmap},
    {VS_API_cuMemMap, (void *)serve_map},
    {VS_API_cuMemSetAccess, (void *)serve_access},
    {VS_API_cuMemAddressFree, (void *)serve_unreserve},
    {VS_API_cuMemGetInfo_v2, (void *)serve_info},
    {0}};
