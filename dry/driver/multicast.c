/*
 * multicast.c - multicast objects: handles like those of cuMemCreate, without memory of their own.  Nothing
 * is really broadcast.  Binding before all devices were added blocks in the real driver; here it is
 * CUDA_ERROR_NOT_READY, since a test should fail and not hang.
 */
#include "sim.h"

#include <stdlib.h>

struct bound {
    struct bound *next;
    struct sim_phys *phys;
    int device;
    uint64_t offset, size;
};
struct sim_multicast {
    struct bound *first;
    unsigned wanted, added;
    bool member[SIM_MAX_DEVICES];
};

static CUresult check_prop(const CUmulticastObjectProp *prop)
{
    if (!prop || prop->flags || !prop->size || prop->size % SIM_GRANULARITY || !prop->numDevices ||
        prop->numDevices > (unsigned)sim_device_count)
        return CUDA_ERROR_INVALID_VALUE;
    return prop->handleTypes & ~(unsigned long long)CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
               ? CUDA_ERROR_NOT_SUPPORTED
               : CUDA_SUCCESS;
}

CUresult cuMulticastGetGranularity(size_t *granularity, const CUmulticastObjectProp *prop,
                                   CUmulticastGranularity_flags option)
{
    SIM_CALL(SIM_INITIALIZED);
    if (!granularity || !prop ||
        (option != CU_MULTICAST_GRANULARITY_MINIMUM && option != CU_MULTICAST_GRANULARITY_RECOMMENDED))
        return CUDA_ERROR_INVALID_VALUE;
    *granularity = SIM_GRANULARITY;
    return CUDA_SUCCESS;
}

CUresult cuMulticastCreate(CUmemGenericAllocationHandle *out, const CUmulticastObjectProp *prop)
{
    SIM_CALL(SIM_INITIALIZED);
    CUresult result = out ? check_prop(prop) : CUDA_ERROR_INVALID_VALUE;
    if (result != CUDA_SUCCESS)
        return result;
    struct sim_multicast *multicast = calloc(1, sizeof *multicast);
    struct sim_phys *phys = multicast ? sim_phys_new(prop->size, -1) : NULL;
    if (!phys) {
        free(multicast);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    multicast->wanted = prop->numDevices;
    phys->device = -1;
    phys->multicast = multicast;
    phys->prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    *out = phys->range.start;
    return CUDA_SUCCESS;
}

static struct sim_phys *object(CUmemGenericAllocationHandle handle)
{
    struct sim_phys *phys = sim_phys_find(handle);
    return phys && phys->multicast ? phys : NULL;
}

CUresult cuMulticastAddDevice(CUmemGenericAllocationHandle handle, CUdevice device)
{
    SIM_CALL(SIM_INITIALIZED);
    struct sim_phys *phys = object(handle);
    if (!sim_valid_device(device))
        return CUDA_ERROR_INVALID_DEVICE;
    if (!phys || phys->multicast->member[device] || phys->multicast->added == phys->multicast->wanted)
        return CUDA_ERROR_INVALID_VALUE;
    phys->multicast->member[device] = true;
    phys->multicast->added++;
    return CUDA_SUCCESS;
}

bool sim_aligned_within(uint64_t offset, uint64_t size, uint64_t room)
{
    return size && offset % SIM_GRANULARITY == 0 && size % SIM_GRANULARITY == 0 && offset <= room &&
           size <= room - offset;
}

static bool is_bound(const struct sim_multicast *multicast, int device, uint64_t offset, uint64_t size)
{
    for (const struct bound *b = multicast->first; b; b = b->next)
        if (b->device == device && b->offset < offset + size && offset < b->offset + b->size)
            return true;
    return false;
}

static CUresult bind(struct sim_phys *phys, uint64_t offset, struct sim_phys *memory, uint64_t from,
                     uint64_t size, unsigned long long flags)
{
    if (!phys || !memory || flags || memory->multicast || memory->device < 0 ||
        !phys->multicast->member[memory->device] || !sim_aligned_within(offset, size, phys->size) ||
        !sim_aligned_within(from, size, memory->size) ||
        is_bound(phys->multicast, memory->device, offset, size))
        return CUDA_ERROR_INVALID_VALUE;
    if (phys->multicast->added < phys->multicast->wanted)
        return CUDA_ERROR_NOT_READY;
    struct bound *bound = calloc(1, sizeof *bound);
    if (!bound)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *bound = (struct bound){phys->multicast->first, memory, memory->device, offset, size};
    phys->multicast->first = bound;
    memory->mappings++;
    return CUDA_SUCCESS;
}

CUresult cuMulticastBindMem(CUmemGenericAllocationHandle handle, size_t offset,
                            CUmemGenericAllocationHandle memory, size_t from, size_t size,
                            unsigned long long flags)
{
    SIM_CALL(SIM_INITIALIZED);
    return bind(object(handle), offset, sim_phys_find(memory), from, size, flags);
}

/* Memory of a pool could be bound too; here only mapped physical memory can. */
static CUresult bind_address(CUmemGenericAllocationHandle handle, size_t offset, CUdeviceptr address,
                             size_t size, unsigned long long flags)
{
    const struct sim_block *block = sim_block_find(address);
    if (!block || block->kind != SIM_MAPPING)
        return CUDA_ERROR_INVALID_VALUE;
    return bind(object(handle), offset, block->detail, address - block->range.start, size, flags);
}

CUresult cuMulticastBindAddr(CUmemGenericAllocationHandle handle, size_t offset, CUdeviceptr address,
                             size_t size, unsigned long long flags)
{
    SIM_CALL(SIM_INITIALIZED);
    return bind_address(handle, offset, address, size, flags);
}

/* The second forms name the device; device memory must be its own, and the host's can't be bound here. */
CUresult cuMulticastBindMem_v2(CUmemGenericAllocationHandle handle, CUdevice device, size_t offset,
                               CUmemGenericAllocationHandle memory, size_t from, size_t size,
                               unsigned long long flags)
{
    SIM_CALL(SIM_INITIALIZED);
    struct sim_phys *phys = sim_phys_find(memory);
    if (!sim_valid_device(device))
        return CUDA_ERROR_INVALID_DEVICE;
    return phys && phys->device == device ? bind(object(handle), offset, phys, from, size, flags)
                                          : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMulticastBindAddr_v2(CUmemGenericAllocationHandle handle, CUdevice device, size_t offset,
                                CUdeviceptr address, size_t size, unsigned long long flags)
{
    SIM_CALL(SIM_INITIALIZED);
    const struct sim_block *block = sim_block_find(address);
    if (!sim_valid_device(device))
        return CUDA_ERROR_INVALID_DEVICE;
    bool own =
        block && block->kind == SIM_MAPPING && ((const struct sim_phys *)block->detail)->device == device;
    return own ? bind_address(handle, offset, address, size, flags) : CUDA_ERROR_INVALID_VALUE;
}

static void drop(struct bound **link)
{
    struct bound *bound = *link;
    *link = bound->next;
    bound->phys->mappings--;
    sim_phys_unref(bound->phys);
    free(bound);
}

CUresult cuMulticastUnbind(CUmemGenericAllocationHandle handle, CUdevice device, size_t offset, size_t size)
{
    SIM_CALL(SIM_INITIALIZED);
    struct sim_phys *phys = object(handle);
    if (!sim_valid_device(device))
        return CUDA_ERROR_INVALID_DEVICE;
    struct bound **link = phys ? &phys->multicast->first : NULL;
    while (link && *link && ((*link)->device != device || (*link)->offset != offset || (*link)->size != size))
        link = &(*link)->next;
    if (!link || !*link)
        return CUDA_ERROR_INVALID_VALUE;
    drop(link);
    return CUDA_SUCCESS;
}

void sim_multicast_end(struct sim_multicast *multicast)
{
    while (multicast->first)
        drop(&multicast->first);
    free(multicast);
}
