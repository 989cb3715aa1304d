/*
 * graph_nodes.c - memory nodes of graphs: recorded as GRAPH_NODE when they are made, because they are not
 * memory yet.
 *
 * The functions that add one make them, and so do stream-ordered allocations and frees on a stream that is
 * being captured.
 */
#define _GNU_SOURCE
#include "graph.h"

#include <errno.h>

#include "core/fork.h"
#include "place.h"
#include "record/record.h"
#include "trace/journal/journal.h"

#define LIVE   8192u /* surviving allocations at once */
#define PROBES 64u

_Atomic bool vs_graph_memory;

void vs_graph_not_followed(uint64_t n)
{
    struct vs_journal *j = vs_record_journal();
    if (j != NULL && n != 0)
        vs_journal_untracked(j, n);
}

/* The range of addresses of nodes' allocations: only the free of such an address can be a node itself.  Both
 * words are relaxed: the thread that frees an address is synchronized with the one that allocated it. */
static _Atomic uint64_t lowest = UINT64_MAX, highest;

static void note_address(uint64_t address)
{
    uint64_t seen = atomic_load_explicit(&lowest, memory_order_relaxed);
    while (address < seen && !atomic_compare_exchange_weak_explicit(
                                 &lowest, &seen, address, memory_order_relaxed, memory_order_relaxed))
        ;
    seen = atomic_load_explicit(&highest, memory_order_relaxed);
    while (address > seen && !atomic_compare_exchange_weak_explicit(
                                 &highest, &seen, address, memory_order_relaxed, memory_order_relaxed))
        ;
}

void vs_after_graph_node(enum vs_api api, uint64_t where, uint64_t address, uint64_t size, CUresult status)
{
    if (status == CUDA_SUCCESS) {
        note_address(address);
        atomic_store_explicit(&vs_graph_memory, true, memory_order_relaxed);
    }
    vs_event(VS_OP_GRAPH_NODE, VS_SPACE_GRAPH, vs_place_current(), address, size, where, api, status);
}

void vs_after_graph_add_node(enum vs_api api, CUgraph graph, const CUgraphNodeParams *params, CUresult status)
{
    uint64_t where = (uint64_t)(uintptr_t)graph;
    if (params != NULL && params->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC)
        vs_after_graph_node(api, where, status == CUDA_SUCCESS ? params->alloc.dptr : 0,
                            params->alloc.bytesize, status);
    else if (params != NULL && params->type == CU_GRAPH_NODE_TYPE_MEM_FREE)
        vs_after_graph_node(api, where, params->free.dptr, 0, status);
}

bool vs_graph_each_node(CUgraph graph, void (*visit)(void *context, CUgraphNode node, int depth),
                        void *context, int depth)
{
    size_t n = 0;
    if (vs_drv_cuGraphGetNodes(graph, NULL, &n) != CUDA_SUCCESS)
        return false;
    size_t bytes = n * sizeof(CUgraphNode), got = n;
    CUgraphNode *nodes = n != 0 ? vs_map(bytes) : NULL;
    if (nodes == NULL)
        return n == 0;
    bool listed = vs_drv_cuGraphGetNodes(graph, nodes, &got) == CUDA_SUCCESS;
    for (size_t i = 0; listed && i < n && i < got; i++)
        visit(context, nodes[i], depth);
    munmap(nodes, bytes);
    return listed;
}

/* ---- capture ---- */

enum vs_capture vs_capturing(CUstream stream)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    /* an error means that a capture that involves the legacy stream is in progress */
    if (vs_drv_cuStreamIsCapturing(stream, &status) != CUDA_SUCCESS)
        return VS_CAPTURE_UNKNOWN;
    return status == CU_STREAM_CAPTURE_STATUS_NONE ? VS_CAPTURE_NO : VS_CAPTURE_YES;
}

bool vs_graph_captured_free(CUdeviceptr address, CUstream stream)
{
    if (address < atomic_load_explicit(&lowest, memory_order_relaxed) ||
        address > atomic_load_explicit(&highest, memory_order_relaxed) || !vs_record_enabled())
        return false;
    int saved = errno;
    bool captured = vs_capturing(stream) == VS_CAPTURE_YES;
    errno = saved;
    return captured;
}

/* ---- addresses that survived a launch and were not freed since: a hash set, filled by compare-and-swap. One
 * that finds no place is not tracked ---- */

static _Atomic uint64_t live[LIVE];
static _Atomic uint32_t live_count;

static _Atomic uint64_t *live_slot(uint64_t address, uint64_t wanted)
{
    uint32_t at = (uint32_t)((address >> 9) * 2654435761u);
    for (uint32_t i = 0; i < PROBES; i++, at++)
        if (atomic_load_explicit(&live[at % LIVE], memory_order_relaxed) == wanted)
            return &live[at % LIVE];
    return NULL;
}

bool vs_graph_survived(uint64_t address)
{
    return live_slot(address, address) != NULL;
}

/* Relaxed: a word is complete in itself, and the host orders an allocation and its free. */
void vs_graph_survives(uint64_t address)
{
    _Atomic uint64_t *slot;
    if (vs_graph_survived(address))
        return;
    while ((slot = live_slot(address, 0)) != NULL) {
        uint64_t none = 0;
        if (!atomic_compare_exchange_strong_explicit(slot, &none, address, memory_order_relaxed,
                                                     memory_order_relaxed))
            continue;
        atomic_fetch_add_explicit(&live_count, 1, memory_order_relaxed);
        return;
    }
    vs_graph_not_followed(1);
}

void vs_graph_freed(uint64_t address)
{
    if (atomic_load_explicit(&live_count, memory_order_relaxed) == 0)
        return;
    _Atomic uint64_t *slot = live_slot(address, address);
    if (slot != NULL && atomic_compare_exchange_strong_explicit(slot, &address, 0, memory_order_relaxed,
                                                                memory_order_relaxed))
        atomic_fetch_sub_explicit(&live_count, 1, memory_order_relaxed);
}
