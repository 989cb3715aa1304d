/*
 * graph.c - graphs: nodes, child graphs, clones.
 *
 * Nodes run in the order in which they were made, which is right as a node can depend on earlier ones only:
 * cuGraphAddDependencies is not simulated (missing.def).
 * Graphs with memory nodes keep the driver's restrictions: one executable graph at a time, no clone, a child
 * only where ownership moves, no node destroyed.
 */
#include "graph.h"
#include "capture.h"

#include <stdlib.h>
#include <string.h>

static struct sim_map graphs, nodes;

struct sim_graph *sim_graph_find(CUgraph handle)
{
    return (struct sim_graph *)sim_map_at(&graphs, (uint64_t)handle);
}

struct sim_node *sim_graph_node(CUgraphNode handle)
{
    return (struct sim_node *)sim_map_at(&nodes, (uint64_t)handle);
}

static CUgraph to_handle(struct sim_graph *graph)
{
    return (CUgraph)(void *)graph;
}

struct sim_graph *sim_graph_new(void)
{
    struct sim_graph *graph = calloc(1, sizeof *graph);
    if (!graph)
        return NULL;
    graph->range.start = (uint64_t)graph;
    graph->range.size = 1;
    graph->last = &graph->first;
    sim_map_insert(&graphs, &graph->range);
    return graph;
}

static void end_node(struct sim_node *node)
{
    if (node->type == CU_GRAPH_NODE_TYPE_GRAPH)
        sim_graph_end(node->child);
    if (node->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC)
        node->memory->owner = NULL;
    if (node->type == CU_GRAPH_NODE_TYPE_MEM_FREE && node->memory->freed_in == node->graph)
        node->memory->freed_in = NULL;
    if (node->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC || node->type == CU_GRAPH_NODE_TYPE_MEM_FREE)
        sim_graph_memory_unref(node->memory);
    if (node->type == CU_GRAPH_NODE_TYPE_KERNEL)
        sim_launch_unref(node->launch);
    sim_map_remove(&nodes, &node->range);
    free(node);
}

void sim_graph_end(struct sim_graph *graph)
{
    for (struct sim_node *node = graph->first, *next; node; node = next) {
        next = node->next;
        end_node(node);
    }
    sim_graph_gone(graph);
    sim_map_remove(&graphs, &graph->range);
    struct sim_kept *kept = graph->kept;
    free(graph);
    sim_kept_end(kept);
}

struct sim_node *sim_graph_add(struct sim_graph *graph, CUgraphNodeType type)
{
    struct sim_node *node = calloc(1, sizeof *node);
    if (!node)
        return NULL;
    node->range.start = (uint64_t)node;
    node->range.size = 1;
    node->graph = graph;
    node->type = type;
    sim_map_insert(&nodes, &node->range);
    *graph->last = node;
    graph->last = &node->next;
    graph->count++;
    return node;
}

void sim_graph_swap(struct sim_node *a, struct sim_node *b)
{
    struct sim_node was = *a;
    memcpy(&a->memory, &b->memory, offsetof(struct sim_node, params) - offsetof(struct sim_node, memory));
    memcpy(&b->memory, &was.memory, offsetof(struct sim_node, params) - offsetof(struct sim_node, memory));
}

bool sim_graph_has_memory(const struct sim_graph *graph)
{
    for (const struct sim_node *n = graph->first; n; n = n->next)
        if (n->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC || n->type == CU_GRAPH_NODE_TYPE_MEM_FREE ||
            (n->type == CU_GRAPH_NODE_TYPE_GRAPH && sim_graph_has_memory(n->child)))
            return true;
    return false;
}

CUresult cuGraphCreate(CUgraph *out, unsigned int flags)
{
    SIM_CALL(SIM_INITIALIZED);
    struct sim_graph *graph = out && !flags ? sim_graph_new() : NULL;
    if (!out || flags)
        return CUDA_ERROR_INVALID_VALUE;
    *out = to_handle(graph);
    return graph ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuGraphDestroy(CUgraph handle)
{
    SIM_CALL(SIM_INITIALIZED);
    struct sim_graph *graph = sim_graph_find(handle);
    if (!graph || graph->parent || graph->capturing)
        return CUDA_ERROR_INVALID_VALUE;
    sim_graph_end(graph);
    return CUDA_SUCCESS;
}

/* ---- adding nodes ---- */

/* All of one graph, none twice. */
static bool dependencies_fit(const struct sim_graph *graph, const CUgraphNode *list, size_t count)
{
    if (count && !list)
        return false;
    for (size_t i = 0; i < count; i++) {
        const struct sim_node *node = sim_graph_node(list[i]);
        if (!node || node->graph != graph)
            return false;
        for (size_t j = 0; j < i; j++)
            if (list[j] == list[i])
                return false;
    }
    return true;
}

static CUresult check_alloc(const CUDA_MEM_ALLOC_NODE_PARAMS *params)
{
    if (!params || !params->bytesize || params->poolProps.allocType != CU_MEM_ALLOCATION_TYPE_PINNED ||
        params->poolProps.handleTypes != CU_MEM_HANDLE_TYPE_NONE ||
        params->poolProps.location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
        !sim_valid_device(params->poolProps.location.id) ||
        params->accessDescCount > (size_t)sim_device_count ||
        (params->accessDescCount && !params->accessDescs))
        return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}

CUresult sim_graph_add_alloc(struct sim_graph *graph, CUDA_MEM_ALLOC_NODE_PARAMS *params,
                             struct sim_node **out)
{
    CUresult result = check_alloc(params);
    if (result != CUDA_SUCCESS)
        return result;
    if (graph->executables)
        return CUDA_ERROR_NOT_SUPPORTED;
    struct sim_graph_memory *memory = sim_graph_memory_new(params->poolProps.location.id, params->bytesize);
    if (!memory)
        return CUDA_ERROR_OUT_OF_MEMORY;
    memory->references = 1;
    *out = sim_graph_add(graph, CU_GRAPH_NODE_TYPE_MEM_ALLOC);
    if (!*out) {
        sim_graph_memory_unref(memory);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    memory->owner = graph;
    params->dptr = memory->range.start;
    (*out)->memory = memory;
    (*out)->params = *params;
    (*out)->params.accessDescs = NULL; /* the caller's */
    (*out)->params.accessDescCount = 0;
    return CUDA_SUCCESS;
}

static bool frees(const struct sim_graph *graph, const struct sim_graph_memory *memory)
{
    for (const struct sim_node *n = graph->first; n; n = n->next)
        if (n->type == CU_GRAPH_NODE_TYPE_MEM_FREE && n->memory == memory)
            return true;
    return false;
}

CUresult sim_graph_add_free(struct sim_graph *graph, uint64_t address, struct sim_node **out)
{
    struct sim_graph_memory *memory = sim_graph_memory_find(address);
    if (!memory || memory->range.start != address || frees(graph, memory) ||
        (memory->freed_in && (memory->freed_in == memory->owner || memory->owner == graph)))
        return CUDA_ERROR_INVALID_VALUE;
    *out = sim_graph_add(graph, CU_GRAPH_NODE_TYPE_MEM_FREE);
    if (!*out)
        return CUDA_ERROR_OUT_OF_MEMORY;
    memory->references++;
    memory->freed_in = graph;
    (*out)->memory = memory;
    return CUDA_SUCCESS;
}

static struct sim_graph *copy_of(const struct sim_graph *graph);

/* Another node in a copy of the graph, which has no memory nodes. */
static bool copy_node(struct sim_graph *to, struct sim_node *node)
{
    struct sim_graph *child = node->type == CU_GRAPH_NODE_TYPE_GRAPH ? copy_of(node->child) : NULL;
    struct sim_node *copy =
        node->type != CU_GRAPH_NODE_TYPE_GRAPH || child ? sim_graph_add(to, node->type) : NULL;
    if (!copy) {
        if (child)
            sim_graph_end(child);
        return false;
    }
    copy->original = node;
    copy->dependencies = node->dependencies;
    if (child) {
        copy->child = child;
        child->parent = to;
    } else if (node->type == CU_GRAPH_NODE_TYPE_MEMCPY) {
        copy->copy = node->copy;
    } else if (node->type == CU_GRAPH_NODE_TYPE_MEMSET) {
        copy->fill = node->fill;
    } else if (node->type == CU_GRAPH_NODE_TYPE_KERNEL) {
        copy->launch = node->launch;
        sim_launch_ref(node->launch);
    } else if (node->type == CU_GRAPH_NODE_TYPE_HOST) {
        copy->host = node->host;
    }
    return true;
}

static struct sim_graph *copy_of(const struct sim_graph *graph)
{
    struct sim_graph *copy = sim_graph_new();
    for (struct sim_node *n = graph->first; copy && n; n = n->next)
        if (!copy_node(copy, n)) {
            sim_graph_end(copy);
            return NULL;
        }
    return copy;
}

static bool contains(const struct sim_graph *outer, const struct sim_graph *graph)
{
    for (; graph; graph = graph->parent)
        if (graph == outer)
            return true;
    return false;
}

static CUresult add_child(struct sim_graph *graph, CUgraph handle, bool move, struct sim_node **out)
{
    struct sim_graph *child = sim_graph_find(handle);
    if (!child || contains(child, graph) || (!move && sim_graph_has_memory(child)) ||
        (move && (child->parent || child->capturing || child->executables)))
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_graph *inner = move ? child : copy_of(child);
    *out = inner ? sim_graph_add(graph, CU_GRAPH_NODE_TYPE_GRAPH) : NULL;
    if (!*out) {
        if (inner && !move)
            sim_graph_end(inner);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    (*out)->child = inner;
    inner->parent = graph;
    return CUDA_SUCCESS;
}

static CUresult add_host(struct sim_graph *graph, CUhostFn function, void *data, struct sim_node **out)
{
    *out = function ? sim_graph_add(graph, CU_GRAPH_NODE_TYPE_HOST) : NULL;
    if (!*out)
        return function ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_INVALID_VALUE;
    (*out)->host.function = function;
    (*out)->host.data = data;
    return CUDA_SUCCESS;
}

/* The two structures differ in name only. */
static CUresult add_alloc_v2(struct sim_graph *graph, CUDA_MEM_ALLOC_NODE_PARAMS_v2 *params,
                             struct sim_node **out)
{
    CUDA_MEM_ALLOC_NODE_PARAMS old;
    _Static_assert(sizeof old == sizeof *params, "one layout");
    memcpy(&old, params, sizeof old);
    CUresult result = sim_graph_add_alloc(graph, &old, out);
    params->dptr = result == CUDA_SUCCESS ? old.dptr : params->dptr;
    return result;
}

static CUresult add_any(struct sim_graph *graph, CUgraphNodeParams *params, struct sim_node **out)
{
    switch ((int)params->type) {
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
        return add_alloc_v2(graph, &params->alloc, out);
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
        return sim_graph_add_free(graph, params->free.dptr, out);
    case CU_GRAPH_NODE_TYPE_EMPTY:
        *out = sim_graph_add(graph, CU_GRAPH_NODE_TYPE_EMPTY);
        return *out ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    case CU_GRAPH_NODE_TYPE_GRAPH:
        return add_child(graph, params->graph.graph,
                         params->graph.ownership == CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE, out);
    case CU_GRAPH_NODE_TYPE_HOST:
        return add_host(graph, params->host.fn, params->host.userData, out);
    default:
        return CUDA_ERROR_NOT_SUPPORTED;
    }
}

/* What all functions that add a node do around it; ADD uses `graph` and `node`. */
#define ADD_NODE(out, list, count, add)                                                                      \
    SIM_CALL(SIM_CONTEXT);                                                                                   \
    struct sim_graph *graph = sim_graph_find(handle);                                                        \
    struct sim_node *node = NULL;                                                                            \
    if (!(out) || !graph || !dependencies_fit(graph, list, count))                                           \
        return CUDA_ERROR_INVALID_VALUE;                                                                     \
    CUresult result = add;                                                                                   \
    if (result == CUDA_SUCCESS) {                                                                            \
        node->dependencies = count;                                                                          \
        *(out) = (CUgraphNode)(void *)node;                                                                  \
    }                                                                                                        \
    return result

CUresult cuGraphAddMemAllocNode(CUgraphNode *out, CUgraph handle, const CUgraphNode *list, size_t count,
                                CUDA_MEM_ALLOC_NODE_PARAMS *params)
{
    ADD_NODE(out, list, count, sim_graph_add_alloc(graph, params, &node));
}

CUresult cuGraphAddMemFreeNode(CUgraphNode *out, CUgraph handle, const CUgraphNode *list, size_t count,
                               CUdeviceptr address)
{
    ADD_NODE(out, list, count, sim_graph_add_free(graph, address, &node));
}

CUresult cuGraphAddEmptyNode(CUgraphNode *out, CUgraph handle, const CUgraphNode *list, size_t count)
{
    CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_EMPTY};
    ADD_NODE(out, list, count, add_any(graph, &params, &node));
}

CUresult cuGraphAddChildGraphNode(CUgraphNode *out, CUgraph handle, const CUgraphNode *list, size_t count,
                                  CUgraph child)
{
    ADD_NODE(out, list, count, add_child(graph, child, false, &node));
}

CUresult cuGraphAddHostNode(CUgraphNode *out, CUgraph handle, const CUgraphNode *list, size_t count,
                            const CUDA_HOST_NODE_PARAMS *params)
{
    ADD_NODE(out, list, count,
             params ? add_host(graph, params->fn, params->userData, &node) : CUDA_ERROR_INVALID_VALUE);
}

CUresult cuGraphAddNode(CUgraphNode *out, CUgraph handle, const CUgraphNode *list, size_t count,
                        CUgraphNodeParams *params)
{
    ADD_NODE(out, list, count, params ? add_any(graph, params, &node) : CUDA_ERROR_INVALID_VALUE);
}

CUresult cuGraphAddNode_v2(CUgraphNode *out, CUgraph handle, const CUgraphNode *list,
                           const CUgraphEdgeData *edges, size_t count, CUgraphNodeParams *params)
{
    ADD_NODE(out, list, count, params ? add_any(graph, params, &node) : CUDA_ERROR_INVALID_VALUE);
}

CUresult cuGraphAddNode_v3(CUgraphNode *out, CUgraph handle, const CUgraphNode *list,
                           const CUgraphEdgeData *edges, size_t count, CUgraphNodeParams *params)
{
    ADD_NODE(out, list, count, params ? add_any(graph, params, &node) : CUDA_ERROR_INVALID_VALUE);
}

/* ---- copies ---- */

CUresult cuGraphClone(CUgraph *out, CUgraph original)
{
    SIM_CALL(SIM_INITIALIZED);
    struct sim_graph *graph = sim_graph_find(original);
    if (!out || !graph || sim_graph_has_memory(graph))
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_graph *copy = copy_of(graph);
    *out = to_handle(copy);
    return copy ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuGraphDestroyNode(CUgraphNode handle)
{
    SIM_CALL(SIM_INITIALIZED);
    struct sim_node *node = sim_graph_node(handle);
    if (!node || sim_graph_has_memory(node->graph))
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_graph *graph = node->graph;
    struct sim_node **link = &graph->first;
    while (*link != node)
        link = &(*link)->next;
    *link = node->next;
    if (graph->last == &node->next)
        graph->last = link;
    graph->count--;
    end_node(node);
    return CUDA_SUCCESS;
}
