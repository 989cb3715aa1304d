/*
 * graph_info.c - asking graphs and their nodes what they are.
 */
#include "graph.h"

#include <stdio.h>
#include <string.h>

static struct sim_node *node_of(CUgraphNode handle, CUgraphNodeType type)
{
    struct sim_node *node = sim_graph_node(handle);
    return node && node->type == type ? node : NULL;
}

/* LIST NULL: only the number.  More room than nodes: the rest is NULL. */
static CUresult list_nodes(CUgraph handle, CUgraphNode *list, size_t *count, bool roots)
{
    const struct sim_graph *graph = sim_graph_find(handle);
    size_t found = 0;
    if (!graph || !count)
        return CUDA_ERROR_INVALID_VALUE;
    for (struct sim_node *n = graph->first; n; n = n->next) {
        if (roots && n->dependencies)
            continue;
        if (list && found < *count)
            list[found] = (CUgraphNode)(void *)n;
        found++;
    }
    for (size_t i = found; list && i < *count; i++)
        list[i] = NULL;
    if (!list || found < *count)
        *count = found;
    return CUDA_SUCCESS;
}

CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode *list, size_t *count)
{
    SIM_CALL(SIM_INITIALIZED);
    return list_nodes(graph, list, count, false);
}

CUresult cuGraphGetRootNodes(CUgraph graph, CUgraphNode *list, size_t *count)
{
    SIM_CALL(SIM_INITIALIZED);
    return list_nodes(graph, list, count, true);
}

/* A graph's nodes run one after another here, so each depends on the one before it, whatever was said. */
static CUresult list_dependencies(CUgraphNode handle, CUgraphNode *list, size_t *count)
{
    const struct sim_node *node = sim_graph_node(handle);
    struct sim_node *before = NULL;
    if (!node || !count)
        return CUDA_ERROR_INVALID_VALUE;
    for (struct sim_node *n = node->graph->first; n != node; n = n->next)
        before = n;
    for (size_t i = 0; list && i < *count; i++)
        list[i] = i == 0 ? (CUgraphNode)(void *)before : NULL;
    if (!list || *count > 1)
        *count = before != NULL;
    return CUDA_SUCCESS;
}

CUresult cuGraphNodeGetDependencies(CUgraphNode node, CUgraphNode *list, size_t *count)
{
    SIM_CALL(SIM_INITIALIZED);
    return list_dependencies(node, list, count);
}

CUresult cuGraphNodeGetDependencies_v2(CUgraphNode node, CUgraphNode *list, CUgraphEdgeData *edges,
                                       size_t *count)
{
    SIM_CALL(SIM_INITIALIZED);
    if (edges && count)
        memset(edges, 0, *count * sizeof *edges);
    return list_dependencies(node, list, count);
}

static CUresult list_dependents(CUgraphNode handle, CUgraphNode *list, size_t *count)
{
    const struct sim_node *node = sim_graph_node(handle);
    if (!node || !count)
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; list && i < *count; i++)
        list[i] = i == 0 ? (CUgraphNode)(void *)node->next : NULL;
    if (!list || *count > 1)
        *count = node->next != NULL;
    return CUDA_SUCCESS;
}

CUresult cuGraphNodeGetDependentNodes(CUgraphNode node, CUgraphNode *list, size_t *count)
{
    SIM_CALL(SIM_INITIALIZED);
    return list_dependents(node, list, count);
}

CUresult cuGraphNodeGetDependentNodes_v2(CUgraphNode node, CUgraphNode *list, CUgraphEdgeData *edges,
                                         size_t *count)
{
    SIM_CALL(SIM_INITIALIZED);
    if (edges && count)
        memset(edges, 0, *count * sizeof *edges);
    return list_dependents(node, list, count);
}

/* FROM or TO NULL: only the number. */
static CUresult list_edges(CUgraph handle, CUgraphNode *from, CUgraphNode *to, size_t *count)
{
    const struct sim_graph *graph = sim_graph_find(handle);
    size_t found = 0;
    if (!graph || !count)
        return CUDA_ERROR_INVALID_VALUE;
    for (struct sim_node *n = graph->first; n && n->next; n = n->next, found++)
        if (from && to && found < *count) {
            from[found] = (CUgraphNode)(void *)n;
            to[found] = (CUgraphNode)(void *)n->next;
        }
    if (!from || !to || found < *count)
        *count = found;
    return CUDA_SUCCESS;
}

CUresult cuGraphGetEdges(CUgraph graph, CUgraphNode *from, CUgraphNode *to, size_t *count)
{
    SIM_CALL(SIM_INITIALIZED);
    return list_edges(graph, from, to, count);
}

CUresult cuGraphGetEdges_v2(CUgraph graph, CUgraphNode *from, CUgraphNode *to, CUgraphEdgeData *edges,
                            size_t *count)
{
    SIM_CALL(SIM_INITIALIZED);
    if (edges && count)
        memset(edges, 0, *count * sizeof *edges);
    return list_edges(graph, from, to, count);
}

CUresult cuGraphDebugDotPrint(CUgraph handle, const char *path, unsigned int flags)
{
    SIM_CALL(SIM_INITIALIZED);
    const struct sim_graph *graph = sim_graph_find(handle);
    FILE *file = graph && path ? fopen(path, "we") : NULL;
    if (!file)
        return graph && path ? CUDA_ERROR_OPERATING_SYSTEM : CUDA_ERROR_INVALID_VALUE;
    fprintf(file, "digraph graph_%llx {\n", (unsigned long long)graph->range.start);
    for (const struct sim_node *n = graph->first; n; n = n->next) {
        fprintf(file, "  n%p [label=\"type %d\"];\n", (const void *)n, (int)n->type);
        if (n->next)
            fprintf(file, "  n%p -> n%p;\n", (const void *)n, (const void *)n->next);
    }
    fprintf(file, "}\n");
    return fclose(file) == 0 ? CUDA_SUCCESS : CUDA_ERROR_OPERATING_SYSTEM;
}

CUresult cuGraphNodeGetType(CUgraphNode handle, CUgraphNodeType *type)
{
    SIM_CALL(SIM_INITIALIZED);
    const struct sim_node *node = sim_graph_node(handle);
    if (!node || !type)
        return CUDA_ERROR_INVALID_VALUE;
    *type = node->type;
    return CUDA_SUCCESS;
}

CUresult cuGraphMemAllocNodeGetParams(CUgraphNode handle, CUDA_MEM_ALLOC_NODE_PARAMS *params)
{
    SIM_CALL(SIM_INITIALIZED);
    const struct sim_node *node = node_of(handle, CU_GRAPH_NODE_TYPE_MEM_ALLOC);
    if (!node || !params)
        return CUDA_ERROR_INVALID_VALUE;
    *params = node->params;
    return CUDA_SUCCESS;
}

CUresult cuGraphMemFreeNodeGetParams(CUgraphNode handle, CUdeviceptr *address)
{
    SIM_CALL(SIM_INITIALIZED);
    const struct sim_node *node = node_of(handle, CU_GRAPH_NODE_TYPE_MEM_FREE);
    if (!node || !address)
        return CUDA_ERROR_INVALID_VALUE;
    *address = node->memory->range.start;
    return CUDA_SUCCESS;
}

CUresult cuGraphChildGraphNodeGetGraph(CUgraphNode handle, CUgraph *graph)
{
    SIM_CALL(SIM_INITIALIZED);
    const struct sim_node *node = node_of(handle, CU_GRAPH_NODE_TYPE_GRAPH);
    if (!node || !graph)
        return CUDA_ERROR_INVALID_VALUE;
    *graph = (CUgraph)(void *)node->child;
    return CUDA_SUCCESS;
}

CUresult cuGraphNodeFindInClone(CUgraphNode *out, CUgraphNode original, CUgraph handle)
{
    SIM_CALL(SIM_INITIALIZED);
    const struct sim_graph *graph = sim_graph_find(handle);
    if (!out || !graph)
        return CUDA_ERROR_INVALID_VALUE;
    for (struct sim_node *n = graph->first; n; n = n->next)
        if (n->original && n->original == sim_graph_node(original)) {
            *out = (CUgraphNode)(void *)n;
            return CUDA_SUCCESS;
        }
    return CUDA_ERROR_INVALID_VALUE;
}
