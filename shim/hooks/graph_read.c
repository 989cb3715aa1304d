/*
 * graph_read.c - reads the memory nodes of a graph and of its child graphs; see graph_read.h.
 *
 * One address may have several allocations in one graph, one after the other: as many frees cancel as many
 * allocations, and the allocation that was added last survives.
 */
#define _GNU_SOURCE
#include "graph_read.h"

#include "core/map.h"
#include "events.h"
#include "trace/event.h"

#define DEPTH_MAX 8 /* child graphs in child graphs */

static void read_alloc(struct vs_graph_reading *r, CUgraphNode node)
{
    CUDA_MEM_ALLOC_NODE_PARAMS params;
    if (vs_drv_cuGraphMemAllocNodeGetParams(node, &params) != CUDA_SUCCESS)
        return;
    int id;
    bool on_device = vs_on_device(&params.poolProps.location, &id) && id >= 0 && id < 64;
    if (on_device)
        r->devices |= UINT64_C(1) << id;
    r->at[r->n] = (struct vs_graph_node){.address = params.dptr,
                                         .size = params.bytesize,
                                         .order = r->n,
                                         .device = on_device ? (int8_t)id : VS_DEVICE_UNKNOWN,
                                         .space = on_device ? VS_SPACE_GRAPH : VS_SPACE_PINNED};
    r->n++;
}

static void read_free(struct vs_graph_reading *r, CUgraphNode node)
{
    CUdeviceptr address;
    if (vs_drv_cuGraphMemFreeNodeGetParams(node, &address) != CUDA_SUCCESS)
        return;
    r->at[r->n] = (struct vs_graph_node){.address = address, .order = r->n, .frees = true};
    r->n++;
}

static void read_graph(struct vs_graph_reading *r, CUgraph graph, int depth);

static void read_node(struct vs_graph_reading *r, CUgraphNode node, int depth)
{
    CUgraphNodeType type;
    CUgraph child;
    if (vs_drv_cuGraphNodeGetType(node, &type) != CUDA_SUCCESS)
        return;
    if (r->n == VS_GRAPH_NODES_MAX &&
        (type == CU_GRAPH_NODE_TYPE_MEM_ALLOC || type == CU_GRAPH_NODE_TYPE_MEM_FREE))
        r->beyond++;
    else if (type == CU_GRAPH_NODE_TYPE_MEM_ALLOC)
        read_alloc(r, node);
    else if (type == CU_GRAPH_NODE_TYPE_MEM_FREE)
        read_free(r, node);
    else if (type == CU_GRAPH_NODE_TYPE_GRAPH && depth < DEPTH_MAX &&
             vs_drv_cuGraphChildGraphNodeGetGraph(node, &child) == CUDA_SUCCESS)
        read_graph(r, child, depth + 1);
}

static void read_graph(struct vs_graph_reading *r, CUgraph graph, int depth)
{
    size_t n = 0;
    if (vs_drv_cuGraphGetNodes(graph, NULL, &n) != CUDA_SUCCESS || n == 0)
        return;
    CUgraphNode *nodes = vs_map(n * sizeof(*nodes));
    if (nodes == NULL) {
        r->beyond++;
        return;
    }
    size_t got = n;
    if (vs_drv_cuGraphGetNodes(graph, nodes, &got) == CUDA_SUCCESS)
        for (size_t i = 0; i < n && i < got; i++)
            read_node(r, nodes[i], depth);
    munmap(nodes, n * sizeof(*nodes));
}

static bool before(const struct vs_graph_node *a, const struct vs_graph_node *b)
{
    return a->address != b->address ? a->address < b->address : a->order < b->order;
}

static void sort(struct vs_graph_node *at, uint32_t n)
{
    for (uint32_t gap = n / 2; gap > 0; gap /= 2)
        for (uint32_t i = gap; i < n; i++) {
            struct vs_graph_node one = at[i];
            uint32_t j = i;
            for (; j >= gap && before(&one, &at[j - gap]); j -= gap)
                at[j] = at[j - gap];
            at[j] = one;
        }
}

/* Leaves, of each address, the allocation that survives or the free of another graph's. */
static uint32_t cancel(struct vs_graph_node *at, uint32_t n)
{
    uint32_t kept = 0;
    for (uint32_t i = 0, end; i < n; i = end) {
        int allocs = 0;
        uint32_t last = i;
        for (end = i; end < n && at[end].address == at[i].address; end++) {
            allocs += at[end].frees ? -1 : 1;
            if (!at[end].frees || at[last].frees)
                last = end;
        }
        if (allocs > 0)
            at[kept++] = at[last];
        else if (allocs < 0)
            at[kept++] =
                (struct vs_graph_node){.address = at[i].address, .space = VS_SPACE_GRAPH, .frees = true};
    }
    return kept;
}

bool vs_graph_read(struct vs_graph_reading *r, CUgraph graph)
{
    read_graph(r, graph, 0);
    bool any = r->n != 0;
    sort(r->at, r->n);
    r->n = cancel(r->at, r->n);
    return any;
}
