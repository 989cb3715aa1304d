/*
 * alloc.c - the events of plain allocations and of every kind of free.
 *
 * A free's event has no device: an address does not show the device, and the current context need not be the
 * memory's.  The ledger pairs the free with its allocation.
 */
#include "events.h"

#include "caller.h"
#include "graph_nodes.h"
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
