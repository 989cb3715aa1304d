/*
 * graph_exec.c - executable graphs: instantiate, upload, launch, update.
 *
 * A launch runs all nodes at once, on the calling thread.  Allocations that it makes and does not free
 * outlive both graphs.  cuMemFree, cuMemFreeAsync or another graph's free node frees them, and with
 * AUTO_FREE_ON_LAUNCH the next launch; without that flag the next launch is refused until they are freed.
 */
#include "graph.h"
#include "capture.h"

#include <stdlib.h>
#include <string.h>

#define FLAGS                                                                                                \
    (CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH | CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD |                  \
     CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY)

struct exec {
    struct sim_range range;  /* start = handle */
    struct sim_graph *graph; /* NULL: destroyed before */
    unsigned long long flags;
    struct sim_node *nodes;
    size_t count;
    bool mapped; /* uploaded or launched since the last trim */
    uint64_t peak[SIM_MAX_DEVICES];
    struct sim_kept *kept;
};
static struct sim_map execs;

static struct exec *next_exec(const struct exec *after)
{
    return (struct exec *)sim_map_from(&execs, after ? after->range.start + 1 : 0);
}

static struct exec *from_handle(CUgraphExec handle)
{
    return (struct exec *)sim_map_at(&execs, (uint64_t)handle);
}

static bool is_memory(const struct sim_node *node)
{
    return node->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC || node->type == CU_GRAPH_NODE_TYPE_MEM_FREE;
}

/* Whether NODE's allocation is made by EXEC itself. */
static bool own(const struct exec *exec, const struct sim_node *node)
{
    for (size_t i = 0; i < exec->count; i++)
        if (exec->nodes[i].type == CU_GRAPH_NODE_TYPE_MEM_ALLOC && exec->nodes[i].memory == node->memory)
            return true;
    return false;
}

/* ---- bytes ---- */

/* The most that it holds at once, by device. */
static void measure(struct exec *exec)
{
    uint64_t now[SIM_MAX_DEVICES] = {0};
    for (size_t i = 0; i < exec->count; i++) {
        const struct sim_node *node = &exec->nodes[i];
        if (!is_memory(node))
            continue;
        int device = node->memory->device;
        if (node->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC)
            now[device] += sim_graph_memory_bytes(node->memory);
        else if (own(exec, node))
            now[device] -= sim_graph_memory_bytes(node->memory);
        if (now[device] > exec->peak[device])
            exec->peak[device] = now[device];
    }
}

static uint64_t alive_of(const struct exec *exec, int device)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < exec->count; i++)
        if (exec->nodes[i].type == CU_GRAPH_NODE_TYPE_MEM_ALLOC && exec->nodes[i].memory->device == device &&
            exec->nodes[i].memory->block)
            sum += sim_graph_memory_bytes(exec->nodes[i].memory);
    return sum;
}

uint64_t sim_graph_execs_mapped(int device)
{
    uint64_t most = 0;
    for (struct exec *e = next_exec(NULL); e; e = next_exec(e)) {
        uint64_t beyond = e->mapped ? e->peak[device] - alive_of(e, device) : 0;
        most = beyond > most ? beyond : most;
    }
    return most;
}

void sim_graph_execs_unmap(int device)
{
    for (struct exec *e = next_exec(NULL); e; e = next_exec(e))
        if (e->peak[device])
            e->mapped = false;
}

static CUresult take_memory(struct exec *exec)
{
    for (int i = 0; i < sim_device_count; i++)
        if (exec->peak[i] && !sim_graph_memory_reserve(i, exec->peak[i] - alive_of(exec, i)))
            return CUDA_ERROR_OUT_OF_MEMORY;
    exec->mapped = true;
    for (int i = 0; i < sim_device_count; i++)
        if (exec->peak[i])
            sim_graph_memory_mark(i);
    return CUDA_SUCCESS;
}

/* ---- instantiate ---- */

static size_t count_all(const struct sim_graph *graph)
{
    size_t count = 0;
    for (const struct sim_node *n = graph->first; n; n = n->next)
        count += n->type == CU_GRAPH_NODE_TYPE_GRAPH ? count_all(n->child) : 1;
    return count;
}

static struct sim_node *copy_all(struct sim_node *to, const struct sim_graph *graph)
{
    for (const struct sim_node *n = graph->first; n; n = n->next) {
        if (n->type == CU_GRAPH_NODE_TYPE_GRAPH) {
            to = copy_all(to, n->child);
            continue;
        }
        *to = *n;
        if (is_memory(to))
            to->memory->references++;
        if (to->type == CU_GRAPH_NODE_TYPE_KERNEL)
            sim_launch_ref(to->launch);
        to++;
    }
    return to;
}

static CUresult instantiate(CUgraphExec *out, CUgraph handle, unsigned long long flags)
{
    struct sim_graph *graph = sim_graph_find(handle);
    if (!out || !graph || graph->parent || graph->capturing || (flags & ~(unsigned long long)FLAGS) ||
        (graph->executables && sim_graph_has_memory(graph)))
        return CUDA_ERROR_INVALID_VALUE;
    struct exec *exec = calloc(1, sizeof *exec);
    size_t count = count_all(graph);
    struct sim_node *nodes = exec ? calloc(count + 1, sizeof *nodes) : NULL;
    if (!nodes) {
        free(exec);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    copy_all(nodes, graph);
    *exec = (struct exec){{.start = (uint64_t)exec, .size = 1}, graph, flags, nodes, count, false, {0}, NULL};
    exec->kept = sim_kept_copy(graph->kept);
    measure(exec);
    sim_map_insert(&execs, &exec->range);
    graph->executables++;
    *out = (CUgraphExec)(void *)exec;
    return CUDA_SUCCESS;
}

static void destroy(struct exec *exec)
{
    if (exec->graph)
        exec->graph->executables--;
    for (size_t i = 0; i < exec->count; i++)
        if (is_memory(&exec->nodes[i]))
            sim_graph_memory_unref(exec->nodes[i].memory);
        else if (exec->nodes[i].type == CU_GRAPH_NODE_TYPE_KERNEL)
            sim_launch_unref(exec->nodes[i].launch);
    sim_map_remove(&execs, &exec->range);
    struct sim_kept *kept = exec->kept;
    free(exec->nodes);
    free(exec);
    sim_kept_end(kept);
}

void sim_graph_gone(const struct sim_graph *graph)
{
    for (struct exec *e = next_exec(NULL); e; e = next_exec(e))
        if (e->graph == graph)
            e->graph = NULL;
}

SIM_SAME(cuGraphInstantiate, cuGraphInstantiate_v2, SIM_CONTEXT,
         (CUgraphExec * out, CUgraph graph, CUgraphNode *error, char *log, size_t size),
         instantiate(out, graph, 0))

CUresult cuGraphInstantiateWithFlags(CUgraphExec *out, CUgraph graph, unsigned long long flags)
{
    SIM_CALL(SIM_CONTEXT);
    return flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD ? CUDA_ERROR_INVALID_VALUE
                                                      : instantiate(out, graph, flags);
}

static CUresult instantiate_with(CUgraphExec *out, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *params,
                                 bool per_thread)
{
    if (!params)
        return CUDA_ERROR_INVALID_VALUE;
    CUstream stream = per_thread ? sim_ptsz(params->hUploadStream) : params->hUploadStream;
    CUresult result = sim_stream_check(stream);
    if (result == CUDA_SUCCESS)
        result = instantiate(out, graph, params->flags);
    params->hErrNode_out = NULL;
    params->result_out =
        result == CUDA_SUCCESS ? CUDA_GRAPH_INSTANTIATE_SUCCESS : CUDA_GRAPH_INSTANTIATE_ERROR;
    if (result != CUDA_SUCCESS || !(params->flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD))
        return result;
    result = take_memory(from_handle(*out));
    if (result != CUDA_SUCCESS) {
        destroy(from_handle(*out));
        params->result_out = CUDA_GRAPH_INSTANTIATE_ERROR;
    }
    return result;
}

CUresult cuGraphInstantiateWithParams(CUgraphExec *out, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *params)
{
    SIM_CALL(SIM_CONTEXT);
    return instantiate_with(out, graph, params, false);
}

CUresult cuGraphInstantiateWithParams_ptsz(CUgraphExec *out, CUgraph graph,
                                           CUDA_GRAPH_INSTANTIATE_PARAMS *params)
{
    SIM_CALL(SIM_CONTEXT);
    return instantiate_with(out, graph, params, true);
}

CUresult cuGraphExecDestroy(CUgraphExec handle)
{
    SIM_CALL(SIM_INITIALIZED);
    struct exec *exec = from_handle(handle);
    if (!exec)
        return CUDA_ERROR_INVALID_VALUE;
    destroy(exec);
    return CUDA_SUCCESS;
}

CUresult cuGraphExecGetFlags(CUgraphExec handle, cuuint64_t *flags)
{
    SIM_CALL(SIM_INITIALIZED);
    const struct exec *exec = from_handle(handle);
    if (!exec || !flags)
        return CUDA_ERROR_INVALID_VALUE;
    *flags = exec->flags;
    return CUDA_SUCCESS;
}

/* ---- launch ---- */

static bool left_unfreed(const struct exec *exec)
{
    for (size_t i = 0; i < exec->count; i++)
        if (exec->nodes[i].type == CU_GRAPH_NODE_TYPE_MEM_ALLOC && exec->nodes[i].memory->block)
            return true;
    return false;
}

static void free_left(struct exec *exec)
{
    for (size_t i = 0; i < exec->count; i++)
        if (exec->nodes[i].type == CU_GRAPH_NODE_TYPE_MEM_ALLOC && exec->nodes[i].memory->block)
            sim_graph_memory_free(exec->nodes[i].memory->block);
}

/* Memory of other graphs that it frees must be alive: told before anything runs. */
static bool can_run(const struct exec *exec)
{
    for (size_t i = 0; i < exec->count; i++)
        if (exec->nodes[i].type == CU_GRAPH_NODE_TYPE_MEM_FREE && !exec->nodes[i].memory->block &&
            !own(exec, &exec->nodes[i]))
            return false;
    return true;
}

static void run_host(const struct sim_node *node)
{
    CUhostFn function = node->host.function;
    void *data = node->host.data;
    sim_unlock();
    function(data);
    sim_lock();
}

static CUresult run(const struct sim_node *node)
{
    switch ((int)node->type) {
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
        return sim_graph_memory_begin(node->memory) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
        return node->memory->block ? sim_graph_memory_free(node->memory->block) : CUDA_ERROR_INVALID_VALUE;
    case CU_GRAPH_NODE_TYPE_MEMCPY:
        return sim_copy(node->copy.to, node->copy.from, node->copy.size);
    case CU_GRAPH_NODE_TYPE_MEMSET:
        return sim_fill(node->fill.to, node->fill.pattern, node->fill.width, node->fill.count);
    case CU_GRAPH_NODE_TYPE_KERNEL:
        return sim_launch_run(node->launch);
    case CU_GRAPH_NODE_TYPE_HOST:
        run_host(node);
        return CUDA_SUCCESS;
    default:
        return CUDA_SUCCESS;
    }
}

/* A launch into a capturing stream would be a child node: graphs that were instantiated can't be made one
 * here. */
static CUresult check_launch(const struct exec *exec, CUstream stream)
{
    CUresult result = sim_stream_check(stream);
    if (result == CUDA_SUCCESS && !exec)
        result = CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS && sim_capturing(stream))
        result = sim_capture_invalidate(stream, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    return result;
}

static CUresult launch(CUgraphExec handle, CUstream stream)
{
    struct exec *exec = from_handle(handle);
    CUresult result = check_launch(exec, stream);
    if (result != CUDA_SUCCESS)
        return result;
    bool automatic = exec->flags & CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH;
    if ((left_unfreed(exec) && !automatic) || !can_run(exec))
        return CUDA_ERROR_INVALID_VALUE;
    free_left(exec);
    result = take_memory(exec);
    for (size_t i = 0; i < exec->count && result == CUDA_SUCCESS; i++)
        result = run(&exec->nodes[i]);
    return result;
}

static CUresult upload(CUgraphExec handle, CUstream stream)
{
    struct exec *exec = from_handle(handle);
    CUresult result = check_launch(exec, stream);
    return result == CUDA_SUCCESS ? take_memory(exec) : result;
}

CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream)
{
    SIM_CALL(SIM_CONTEXT);
    return launch(exec, stream);
}

CUresult cuGraphLaunch_ptsz(CUgraphExec exec, CUstream stream)
{
    SIM_CALL(SIM_CONTEXT);
    return launch(exec, sim_ptsz(stream));
}

CUresult cuGraphUpload(CUgraphExec exec, CUstream stream)
{
    SIM_CALL(SIM_CONTEXT);
    return upload(exec, stream);
}

CUresult cuGraphUpload_ptsz(CUgraphExec exec, CUstream stream)
{
    SIM_CALL(SIM_CONTEXT);
    return upload(exec, sim_ptsz(stream));
}

/* ---- update ---- */

static CUgraphExecUpdateResult compare(const struct exec *exec, const struct sim_node *nodes, size_t count)
{
    if (count != exec->count)
        return CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
    for (size_t i = 0; i < count; i++) {
        if (nodes[i].type != exec->nodes[i].type)
            return CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED;
        if (is_memory(&nodes[i]) && nodes[i].memory != exec->nodes[i].memory)
            return CU_GRAPH_EXEC_UPDATE_ERROR_NOT_SUPPORTED;
    }
    return CU_GRAPH_EXEC_UPDATE_SUCCESS;
}

/* The new parameters of its nodes; memory nodes can only stay what they are. */
static CUresult update(CUgraphExec handle, CUgraph graph_handle, CUgraphExecUpdateResult *why)
{
    struct exec *exec = from_handle(handle);
    const struct sim_graph *graph = sim_graph_find(graph_handle);
    *why = CU_GRAPH_EXEC_UPDATE_ERROR;
    if (!exec || !graph)
        return CUDA_ERROR_INVALID_VALUE;
    size_t count = count_all(graph);
    struct sim_node *nodes = calloc(count + 1, sizeof *nodes);
    if (!nodes)
        return CUDA_ERROR_OUT_OF_MEMORY;
    copy_all(nodes, graph);
    *why = compare(exec, nodes, count);
    for (size_t i = 0; i < count; i++)
        if (is_memory(&nodes[i]))
            sim_graph_memory_unref(nodes[i].memory);
    if (*why == CU_GRAPH_EXEC_UPDATE_SUCCESS)
        memcpy(exec->nodes, nodes, count * sizeof *nodes);
    free(nodes);
    return *why == CU_GRAPH_EXEC_UPDATE_SUCCESS ? CUDA_SUCCESS : CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
}

CUresult cuGraphExecUpdate(CUgraphExec exec, CUgraph graph, CUgraphNode *error, CUgraphExecUpdateResult *why)
{
    SIM_CALL(SIM_INITIALIZED);
    if (!why)
        return CUDA_ERROR_INVALID_VALUE;
    if (error)
        *error = NULL;
    return update(exec, graph, why);
}

CUresult cuGraphExecUpdate_v2(CUgraphExec exec, CUgraph graph, CUgraphExecUpdateResultInfo *info)
{
    SIM_CALL(SIM_INITIALIZED);
    if (!info)
        return CUDA_ERROR_INVALID_VALUE;
    memset(info, 0, sizeof *info);
    return update(exec, graph, &info->result);
}

struct sim_node *sim_exec_node(CUgraphExec handle, CUgraphNode node)
{
    struct exec *exec = from_handle(handle);
    for (size_t i = 0; exec && i < exec->count; i++)
        if (exec->nodes[i].range.start == (uint64_t)node)
            return &exec->nodes[i];
    return NULL;
}
