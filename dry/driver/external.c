/*
 * external.c - memory of another API, imported as a file descriptor: any file that can be mapped shared.
 *
 * The descriptor is the driver's once the import succeeded.  Buffers and arrays of it outlive the import
 * object, and cost the device nothing: the bytes are the other API's.
 */
#include "share.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

struct external {
    struct sim_range range; /* start = handle */
    struct sim_context *owner;
    uint64_t size;
    int fd;
};
static struct sim_map externals;

static struct external *from_handle(CUexternalMemory handle)
{
    return (struct external *)sim_map_at(&externals, (uint64_t)handle);
}

static CUresult check(const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *desc)
{
    struct stat file;
    if (!desc || !desc->size || (desc->flags & ~(unsigned)CUDA_EXTERNAL_MEMORY_DEDICATED))
        return CUDA_ERROR_INVALID_VALUE;
    if (desc->type != CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD)
        return CUDA_ERROR_NOT_SUPPORTED;
    return fstat(desc->handle.fd, &file) != 0 || (uint64_t)file.st_size < desc->size
               ? CUDA_ERROR_INVALID_HANDLE
               : CUDA_SUCCESS;
}

CUresult cuImportExternalMemory(CUexternalMemory *out, const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *desc)
{
    SIM_CALL(SIM_CONTEXT);
    CUresult result = out ? check(desc) : CUDA_ERROR_INVALID_VALUE;
    if (result != CUDA_SUCCESS)
        return result;
    struct external *external = calloc(1, sizeof *external);
    if (!external)
        return CUDA_ERROR_OUT_OF_MEMORY;
    external->range.start = (uint64_t)external;
    external->range.size = 1;
    external->owner = sim_context_owner();
    external->size = desc->size;
    external->fd = desc->handle.fd;
    sim_map_insert(&externals, &external->range);
    *out = (CUexternalMemory)(void *)external;
    return CUDA_SUCCESS;
}

static void drop(struct external *external)
{
    close(external->fd);
    sim_map_remove(&externals, &external->range);
    free(external);
}

CUresult cuDestroyExternalMemory(CUexternalMemory handle)
{
    SIM_CALL(SIM_CONTEXT);
    struct external *external = from_handle(handle);
    if (!external)
        return CUDA_ERROR_INVALID_HANDLE;
    drop(external);
    return CUDA_SUCCESS;
}

void sim_externals_free_of(struct sim_context *owner)
{
    uint64_t at = 0;
    for (struct sim_range *range; (range = sim_map_from(&externals, at));) {
        at = range->start + 1;
        if (((struct external *)range)->owner == owner)
            drop((struct external *)range);
    }
}

CUresult cuExternalMemoryGetMappedBuffer(CUdeviceptr *out, CUexternalMemory handle,
                                         const CUDA_EXTERNAL_MEMORY_BUFFER_DESC *desc)
{
    SIM_CALL(SIM_CONTEXT);
    const struct external *external = from_handle(handle);
    struct sim_block *block;
    if (!external)
        return CUDA_ERROR_INVALID_HANDLE;
    if (!out || !desc || desc->flags || !desc->size || desc->offset > external->size ||
        desc->size > external->size - desc->offset)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = sim_import_file(external->fd, desc->offset, desc->size, &block);
    if (result == CUDA_SUCCESS)
        *out = block->range.start;
    return result;
}

/* The array's texels are not simulated, so it needs no mapping: only its extent is checked. */
CUresult cuExternalMemoryGetMappedMipmappedArray(CUmipmappedArray *out, CUexternalMemory handle,
                                                 const CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC *desc)
{
    SIM_CALL(SIM_CONTEXT);
    const struct external *external = from_handle(handle);
    if (!external)
        return CUDA_ERROR_INVALID_HANDLE;
    if (!out || !desc || desc->offset > external->size)
        return CUDA_ERROR_INVALID_VALUE;
    return sim_array_import(out, &desc->arrayDesc, desc->numLevels, external->owner->device,
                            external->size - desc->offset);
}
