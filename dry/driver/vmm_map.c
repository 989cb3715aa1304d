/*
 * vmm_map.c - address ranges of the virtual-memory API: reserving, mapping, access.
 *
 * Mapping duplicates the physical memory's pages to the address (mremap with an old size of 0), without
 * access: touching them before cuMemSetAccess is a SIGSEGV, as a kernel's access would be an error.
 */
#define _GNU_SOURCE /* memfd_create, mremap */
#include "sim.h"

#include <stdlib.h>
#include <sys/mman.h>

static struct sim_map reservations;

static bool aligned(uint64_t address, uint64_t size)
{
    return size && address % SIM_GRANULARITY == 0 && size % SIM_GRANULARITY == 0 && address + size > address;
}

/* The wished address is taken where it is free, and otherwise ignored: it is a hint. */
CUresult cuMemAddressReserve(CUdeviceptr *out, size_t size, size_t alignment, CUdeviceptr hint,
                             unsigned long long flags)
{
    SIM_CALL(SIM_INITIALIZED);
    if (!out || flags || !aligned(0, size) || (alignment & (alignment - 1)))
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_range *range = calloc(1, sizeof *range);
    uint64_t address = range ? sim_room_take(size, alignment, hint, PROT_NONE) : 0;
    if (!address) {
        free(range);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    range->start = address;
    range->size = size;
    sim_map_insert(&reservations, range);
    *out = address;
    return CUDA_SUCCESS;
}

CUresult cuMemAddressFree(CUdeviceptr address, size_t size)
{
    SIM_CALL(SIM_INITIALIZED);
    struct sim_range *range = sim_map_at(&reservations, address);
    if (!range || range->start != address || range->size != size ||
        sim_map_overlaps(&sim_blocks, address, size))
        return CUDA_ERROR_INVALID_VALUE;
    sim_room_give(address, size);
    sim_map_remove(&reservations, range);
    free(range);
    return CUDA_SUCCESS;
}

static bool reserved(uint64_t address, uint64_t size)
{
    const struct sim_range *range = sim_map_at(&reservations, address);
    return range && address + size <= range->start + range->size;
}

static bool map_pages(const struct sim_phys *phys, uint64_t address, uint64_t size)
{
    return mremap((void *)phys->pages, 0, size, MREMAP_MAYMOVE | MREMAP_FIXED, (void *)address) != MAP_FAILED;
}

bool sim_mappings_share(struct sim_phys *phys)
{
    for (struct sim_range *r = NULL; (r = sim_map_from(&sim_blocks, r ? r->start + 1 : 0));) {
        const struct sim_block *block = (struct sim_block *)r;
        if (block->kind == SIM_MAPPING && block->detail == phys &&
            (!sim_copy_pages(phys->fd, r->start, r->size) || !map_pages(phys, r->start, r->size)))
            return false;
    }
    return true;
}

CUresult cuMemMap(CUdeviceptr address, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
                  unsigned long long flags)
{
    SIM_CALL(SIM_INITIALIZED);
    struct sim_phys *phys = sim_phys_find(handle);
    if (!phys || flags || !aligned(address, size) || offset > phys->size || size > phys->size - offset ||
        !reserved(address, size) || sim_map_overlaps(&sim_blocks, address, size))
        return CUDA_ERROR_INVALID_VALUE;
    if (size != phys->size) /* a handle is mapped as a whole */
        return CUDA_ERROR_NOT_SUPPORTED;
    struct sim_block *block = sim_block_add(address, size, SIM_MAPPING, phys->device);
    if (!block)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (phys->pages && !map_pages(phys, address, size)) {
        sim_block_drop(block);
        return CUDA_ERROR_MAP_FAILED;
    }
    block->detail = phys;
    phys->mappings++;
    return CUDA_SUCCESS;
}

/* Whether [address, +size) is exactly a row of whole mappings. */
static bool whole_mappings(uint64_t address, uint64_t size)
{
    uint64_t end = address + size;
    while (address < end) {
        const struct sim_block *block = sim_block_find(address);
        if (!block || block->kind != SIM_MAPPING || block->range.start != address)
            return false;
        address += block->range.size;
    }
    return address == end;
}

static void unmap(struct sim_block *block)
{
    struct sim_phys *phys = block->detail;
    if (phys->pages && sim_dry())
        sim_room_private(block->range.start, block->range.size);
    else
        sim_room_protect(block->range.start, block->range.size);
    sim_block_drop(block);
    phys->mappings--;
    sim_phys_unref(phys);
}

CUresult cuMemUnmap(CUdeviceptr address, size_t size)
{
    SIM_CALL(SIM_INITIALIZED);
    if (!aligned(address, size) || !whole_mappings(address, size))
        return CUDA_ERROR_INVALID_VALUE;
    for (uint64_t at = address; at < address + size;) {
        struct sim_block *block = sim_block_find(at);
        at += block->range.size;
        unmap(block);
    }
    return CUDA_SUCCESS;
}

static bool protection_of(CUmemAccess_flags flags, unsigned *protection)
{
    *protection = flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE ? PROT_READ | PROT_WRITE
                  : flags == CU_MEM_ACCESS_FLAGS_PROT_READ    ? PROT_READ
                                                              : PROT_NONE;
    return flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE || flags == CU_MEM_ACCESS_FLAGS_PROT_READ ||
           flags == CU_MEM_ACCESS_FLAGS_PROT_NONE;
}

static void give_access(struct sim_block *block, const CUmemAccessDesc *descriptors, size_t count)
{
    unsigned one;
    for (size_t i = 0; i < count; i++)
        if (descriptors[i].location.type == CU_MEM_LOCATION_TYPE_DEVICE &&
            protection_of(descriptors[i].flags, &one))
            block->access[descriptors[i].location.id] = (uint8_t)one;
}

/* One CPU stands for every device: the widest access given to any of them now is what the pages get. */
CUresult cuMemSetAccess(CUdeviceptr address, size_t size, const CUmemAccessDesc *descriptors, size_t count)
{
    SIM_CALL(SIM_INITIALIZED);
    unsigned widest = PROT_NONE, one;
    if (!descriptors || !count || !aligned(address, size) || !whole_mappings(address, size))
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count; i++) {
        if (!protection_of(descriptors[i].flags, &one))
            return CUDA_ERROR_INVALID_VALUE;
        if (descriptors[i].location.type == CU_MEM_LOCATION_TYPE_DEVICE &&
            !sim_valid_device(descriptors[i].location.id))
            return CUDA_ERROR_INVALID_DEVICE;
        widest |= one;
    }
    if (!sim_dry() && mprotect((void *)address, size, (int)widest) != 0)
        return CUDA_ERROR_OUT_OF_MEMORY;
    for (uint64_t at = address; at < address + size;) {
        struct sim_block *block = sim_block_find(at);
        block->flags = widest;
        give_access(block, descriptors, count);
        at += block->range.size;
    }
    return CUDA_SUCCESS;
}

CUresult cuMemGetAccess(unsigned long long *flags, const CUmemLocation *location, CUdeviceptr address)
{
    SIM_CALL(SIM_INITIALIZED);
    const struct sim_block *block = sim_block_find(address);
    if (!flags || !location || !block || block->kind != SIM_MAPPING)
        return CUDA_ERROR_INVALID_VALUE;
    bool on_device = location->type == CU_MEM_LOCATION_TYPE_DEVICE;
    if (on_device && !sim_valid_device(location->id))
        return CUDA_ERROR_INVALID_DEVICE;
    unsigned access = on_device ? block->access[location->id] : block->flags;
    *flags = access & PROT_WRITE  ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
             : access & PROT_READ ? CU_MEM_ACCESS_FLAGS_PROT_READ
                                  : CU_MEM_ACCESS_FLAGS_PROT_NONE;
    return CUDA_SUCCESS;
}
