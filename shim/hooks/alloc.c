/*
 * alloc.c - the events of plain allocations, of every kind of free, and of memory that is imported: another
 * process's (IPC) or another API's (graphics, external memory).
 *
 * A free's event has no device, since neither its address nor the current context shows it: the ledger pairs
 * it with its allocation.
 */
#include "events.h"

#include "graph.h"
#include "meminfo.h"
#include "place.h"
#include "provided.h"
#include "record/record.h"

/* The host's own memory lies on no device, whatever context is current. */
static bool on_device(enum vs_space space)
{
    return space != VS_SPACE_PINNED && space != VS_SPACE_REGISTERED;
}

void vs_after_given(enum vs_api api, enum vs_space space, const struct vs_given *g, uint64_t address,
                    uint64_t size, const void *caller, CUresult status)
{
    if (!vs_record_takes()) /* no queries for an event that is not recorded */
        return;
    vs_place_prepare(status);
    bool provided = g->space != VS_SPACE_NONE;
    struct vs_place place = provided ? vs_place_known(g->context) : vs_place_nowhere;
    if (place.device == VS_DEVICE_UNKNOWN)
        place = vs_place_current();
    vs_provided_report();
    struct vs_event event = {.op = VS_OP_ALLOC,
                             .space = provided ? g->space : space,
                             .device = on_device(space) ? place.device : VS_DEVICE_UNKNOWN,
                             .context = place.context,
                             .status = status,
                             .address = address,
                             .size = size,
                             .arg1 = api | VS_CALLED_BY(vs_caller_of(caller))};
    vs_record(&event);
    vs_sample_after(status);
}

void vs_after_alloc(enum vs_api api, enum vs_space space, uint64_t address, uint64_t size, const void *caller,
                    CUresult status)
{
    static const struct vs_given nothing = VS_GIVEN_NOTHING;
    vs_after_given(api, space, &nothing, address, size, caller, status);
}

uint64_t vs_before_free(enum vs_api api, enum vs_op op, enum vs_space space, uint64_t address, uint64_t size,
                        uint64_t stream)
{
    if (vs_graph_memory_seen() && op == VS_OP_FREE)
        vs_graph_freed(address);
    return vs_event(op, space, vs_place_nowhere, address, size, stream, api, CUDA_SUCCESS);
}

void vs_after_free(uint64_t seq, enum vs_space space, uint64_t address, CUresult status)
{
    vs_provided_report();
    if (status == CUDA_SUCCESS) {
        vs_sample_if_requested();
        return;
    }
    if (seq == VS_SEQ_NONE) /* the free itself is not in the journal, so there is nothing to undo */
        return;
    vs_event(VS_OP_FREE_FAILED, space, vs_place_nowhere, address, 0, seq, 0, status);
}

/* ---- imports ----
 *
 * Imported memory counts in no device's total (space IMPORTED), because its owner counts it.  External memory
 * has its size once, at its import; what is mapped from it has size 0.  The same IPC handle opened again
 * gives the same address, and the ledger counts references. */

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
