/*
 * host.c - page-locked host memory: the driver's (cuMemHostAlloc) or the program's own (cuMemHostRegister).
 * Nothing is really locked: RLIMIT_MEMLOCK of the test machine is no concern of a program for a GPU.
 */
#include "capture.h"

#include <sys/mman.h>

#define ALLOC_FLAGS (CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED)
#define REGISTER_FLAGS                                                                                       \
    (CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP | CU_MEMHOSTREGISTER_IOMEMORY |              \
     CU_MEMHOSTREGISTER_READ_ONLY)

static CUresult alloc_pinned(void **out, uint64_t size, unsigned flags)
{
    SIM_UNSAFE();
    if (!out || !size || (flags & ~(unsigned)ALLOC_FLAGS))
        return CUDA_ERROR_INVALID_VALUE;
    uint64_t address = sim_map_pages(sim_round(size, 4096), 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE);
    struct sim_block *block =
        address ? sim_block_add(address, size, SIM_PINNED, sim_context_current()->device) : NULL;
    if (!block)
        return CUDA_ERROR_OUT_OF_MEMORY;
    block->owner = sim_context_owner();
    block->flags = flags | CU_MEMHOSTALLOC_DEVICEMAP;
    *out = (void *)address;
    return CUDA_SUCCESS;
}

CUresult cuMemHostAlloc(void **out, size_t size, unsigned int flags)
{
    SIM_CALL(SIM_CONTEXT);
    return alloc_pinned(out, size, flags);
}

CUresult cuMemAllocHost(void **out, unsigned int size)
{
    SIM_CALL(SIM_CONTEXT);
    return alloc_pinned(out, size, 0);
}

CUresult cuMemAllocHost_v2(void **out, size_t size)
{
    SIM_CALL(SIM_CONTEXT);
    return alloc_pinned(out, size, 0);
}

static struct sim_block *block_at(const void *address, enum sim_kind kind)
{
    struct sim_block *block = sim_block_find((uint64_t)address);
    return block && block->kind == kind && block->range.start == (uint64_t)address ? block : NULL;
}

CUresult cuMemFreeHost(void *address)
{
    SIM_CALL(SIM_CONTEXT);
    SIM_UNSAFE();
    struct sim_block *block = block_at(address, SIM_PINNED);
    return block ? sim_block_free(block) : CUDA_ERROR_INVALID_VALUE;
}

static CUresult register_pages(void *address, uint64_t size, unsigned flags)
{
    SIM_UNSAFE();
    if (!address || !size || (flags & ~(unsigned)REGISTER_FLAGS) || (uint64_t)address + size < size)
        return CUDA_ERROR_INVALID_VALUE;
    if (sim_map_overlaps(&sim_blocks, (uint64_t)address, size))
        return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
    struct sim_block *block =
        sim_block_add((uint64_t)address, size, SIM_REGISTERED, sim_context_current()->device);
    if (!block)
        return CUDA_ERROR_OUT_OF_MEMORY;
    block->owner = sim_context_owner();
    block->flags = flags;
    return CUDA_SUCCESS;
}

SIM_SAME(cuMemHostRegister, cuMemHostRegister_v2, SIM_CONTEXT,
         (void *address, size_t size, unsigned int flags), register_pages(address, size, flags))

CUresult cuMemHostUnregister(void *address)
{
    SIM_CALL(SIM_CONTEXT);
    SIM_UNSAFE();
    struct sim_block *block = block_at(address, SIM_REGISTERED);
    sim_context_wait(sim_context_current()); /* as an H200's driver does, for kernels that run */
    return block ? sim_block_free(block) : CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
}

static bool is_host(const struct sim_block *block)
{
    return block && (block->kind == SIM_PINNED || block->kind == SIM_REGISTERED);
}

CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *out, void *address, unsigned int flags)
{
    SIM_CALL(SIM_CONTEXT);
    if (!out || flags || !is_host(sim_block_find((uint64_t)address)))
        return CUDA_ERROR_INVALID_VALUE;
    *out = (CUdeviceptr)address;
    return CUDA_SUCCESS;
}

/* A host address of 64 bits has no 32-bit device pointer. */
CUresult cuMemHostGetDevicePointer(CUdeviceptr_v1 *out, void *address, unsigned int flags)
{
    SIM_CALL(SIM_CONTEXT);
    if (!out || flags || !is_host(sim_block_find((uint64_t)address)) || (uint64_t)address > UINT32_MAX)
        return CUDA_ERROR_INVALID_VALUE;
    *out = (CUdeviceptr_v1)(uint64_t)address;
    return CUDA_SUCCESS;
}

CUresult cuMemHostGetFlags(unsigned int *flags, void *address)
{
    SIM_CALL(SIM_CONTEXT);
    const struct sim_block *block = sim_block_find((uint64_t)address);
    if (!flags || !block || block->kind != SIM_PINNED)
        return CUDA_ERROR_INVALID_VALUE;
    *flags = block->flags;
    return CUDA_SUCCESS;
}
