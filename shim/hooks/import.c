/*
 * import.c - memory of another process (IPC) or another API (graphics, external memory).  It is marked
 * (space IMPORTED) and counts in no device's total, because its owner counts it.
 *
 * The driver is queried for the size of an IPC mapping.  External memory counts once, at its import; the
 * buffers and arrays mapped from it have size 0.  The same IPC handle opened again gives the same address,
 * and the ledger counts references.
 */
#include "events.h"

#include "provided.h"

static void record_import(enum vs_api api, uint64_t address, uint64_t size, CUresult status)
{
    vs_after_alloc(api, VS_SPACE_IMPORTED, address, size, NULL, status);
}

void vs_after_import(enum vs_api api, CUdeviceptr address, CUresult status)
{
    CUdeviceptr base;
    size_t size = 0;
    struct vs_owned whole; /* a provider's shared block: many pieces, one size */
    if (status == CUDA_SUCCESS && address != 0) {
        if (vs_provided_owner(address, &whole))
            size = whole.size;
        else
            vs_drv_cuMemGetAddressRange_v2(&base, &size, address);
    }
    record_import(api, address, size, status);
}

/* The driver knows the size of a mapped buffer, but not of a mapped texture, which counts 0. */
static uint64_t mapped_bytes(CUgraphicsResource resource)
{
    CUdeviceptr address;
    size_t size = 0;
    return vs_drv_cuGraphicsResourceGetMappedPointer_v2(&address, &size, resource) == CUDA_SUCCESS ? size : 0;
}

void vs_after_graphics_map(enum vs_api api, unsigned count, CUgraphicsResource *resources, CUresult status)
{
    if (status != CUDA_SUCCESS || resources == NULL) {
        record_import(api, 0, 0, status);
        return;
    }
    for (unsigned i = 0; i < count; i++)
        record_import(api, (uint64_t)(uintptr_t)resources[i], mapped_bytes(resources[i]), status);
}

static uint64_t unmaps(enum vs_api api, CUgraphicsResource resource)
{
    return vs_before_free(api, VS_OP_FREE, VS_SPACE_IMPORTED, (uint64_t)(uintptr_t)resource, 0, 0);
}

void vs_before_graphics_unmap(enum vs_api api, unsigned count, CUgraphicsResource *resources,
                              struct vs_many *undone)
{
    undone->count = 0;
    for (unsigned i = 0; resources != NULL && i < count && i < VS_MANY; i++) {
        undone->address[i] = (uint64_t)(uintptr_t)resources[i];
        undone->seq[undone->count++] = unmaps(api, resources[i]);
    }
}

void vs_after_graphics_unmap(enum vs_api api, unsigned count, CUgraphicsResource *resources,
                             const struct vs_many *undone, CUresult status)
{
    for (unsigned i = 0; i < undone->count; i++)
        vs_after_free(undone->seq[i], VS_SPACE_IMPORTED, undone->address[i], status);
    for (unsigned i = undone->count; resources != NULL && status == CUDA_SUCCESS && i < count; i++)
        unmaps(api, resources[i]);
}
