/* test_simcuda_graph.c - graphs of the simulated driver: what their memory nodes hold, and when. */
#include "simcuda_kit.h"

static uint64_t figure(CUgraphMem_attribute attribute)
{
    cuuint64_t value = 12345;
    OK(cuDeviceGetGraphMemAttribute(0, attribute, &value));
    return value;
}

#define USED          figure(CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT)
#define USED_HIGH     figure(CU_GRAPH_MEM_ATTR_USED_MEM_HIGH)
#define RESERVED      figure(CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT)
#define RESERVED_HIGH figure(CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH)

static CUgraphNode add_alloc(CUgraph graph, CUgraphNode after, size_t size, CUdeviceptr *address)
{
    CUDA_MEM_ALLOC_NODE_PARAMS params = {
        .poolProps = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}},
        .bytesize = size};
    CUgraphNode node;
    OK(cuGraphAddMemAllocNode(&node, graph, &after, after ? 1 : 0, &params));
    *address = params.dptr;
    return node;
}

static CUgraphNode add_free(CUgraph graph, CUgraphNode after, CUdeviceptr address)
{
    CUgraphNode node;
    OK(cuGraphAddMemFreeNode(&node, graph, &after, after ? 1 : 0, address));
    return node;
}

static CUgraphExec instantiate(CUgraph graph, unsigned long long flags)
{
    CUgraphExec exec;
    OK(cuGraphInstantiateWithFlags(&exec, graph, flags));
    return exec;
}

/* ---- memory that a graph frees itself ---- */

SIM_TEST(a_graph_takes_what_it_holds_at_once_and_keeps_it_until_the_trim)
{
    CUgraph graph;
    CUdeviceptr a, b, c;
    begin();
    size_t before = used();
    OK(cuGraphCreate(&graph, 0));
    CUgraphNode node = add_alloc(graph, NULL, 8 * MIB, &a);
    node = add_alloc(graph, node, 4 * MIB, &b);
    node = add_free(graph, node, a);
    node = add_alloc(graph, node, 6 * MIB, &c); /* 8 + 4, then 4 + 6: 12 at once, not 18 */
    node = add_free(graph, node, b);
    add_free(graph, node, c);
    CHECK(a != b && b != c && a != c);
    CUgraphExec exec = instantiate(graph, 0);
    CHECK(used() == before && RESERVED == 0); /* nothing before the first launch */
    OK(cuGraphLaunch(exec, NULL));
    CHECK(used() == before + 12 * MIB && RESERVED == 12 * MIB && USED == 12 * MIB);
    OK(cuGraphLaunch(exec, NULL));
    CHECK(used() == before + 12 * MIB);
    IS(cuMemFree(a), CUDA_ERROR_INVALID_VALUE); /* the graph's own affair */
    OK(cuGraphExecDestroy(exec));
    OK(cuGraphDestroy(graph));
    CHECK(RESERVED == 12 * MIB && USED == 0); /* kept for the next one */
    OK(cuDeviceGraphMemTrim(0));
    CHECK(used() == before && RESERVED == 0 && RESERVED_HIGH == 12 * MIB && USED_HIGH == 12 * MIB);
    cuuint64_t zero = 0, one = 1;
    IS(cuDeviceSetGraphMemAttribute(0, CU_GRAPH_MEM_ATTR_USED_MEM_HIGH, &one), CUDA_ERROR_INVALID_VALUE);
    IS(cuDeviceSetGraphMemAttribute(0, CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT, &zero), CUDA_ERROR_INVALID_VALUE);
    OK(cuDeviceSetGraphMemAttribute(0, CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH, &zero));
    CHECK(RESERVED_HIGH == 0);
}

SIM_TEST(graphs_one_after_another_share_memory_which_goes_with_the_primary_context)
{
    CUgraph graph[2];
    CUgraphExec exec[2];
    CUdeviceptr a;
    begin();
    size_t before = used();
    for (int i = 0; i < 2; i++) {
        OK(cuGraphCreate(&graph[i], 0));
        CUgraphNode node = add_alloc(graph[i], NULL, (8 + 2 * (unsigned)i) * MIB, &a);
        add_free(graph[i], node, a);
        exec[i] = instantiate(graph[i], 0);
        OK(cuGraphUpload(exec[i], NULL));
    }
    CHECK(used() == before + 10 * MIB && RESERVED == 10 * MIB); /* one after another: the same bytes */
    OK(cuGraphLaunch(exec[0], NULL));
    OK(cuGraphLaunch(exec[1], NULL));
    CHECK(used() == before + 10 * MIB);
    OK(cuDevicePrimaryCtxReset(0));
    CHECK(RESERVED == 0);
}

/* ---- memory that outlives the launch ---- */

SIM_TEST(what_a_graph_leaves_allocated_is_freed_from_outside)
{
    CUgraph graph;
    CUdeviceptr a;
    begin();
    size_t before = used();
    OK(cuGraphCreate(&graph, 0));
    add_alloc(graph, NULL, 3 * MIB, &a);
    CUgraphExec exec = instantiate(graph, 0);
    IS(cuMemFree(a), CUDA_ERROR_INVALID_VALUE); /* not yet there */
    OK(cuGraphLaunch(exec, NULL));
    CHECK(used() == before + 4 * MIB);
    OK(cuMemsetD8(a, 7, 3 * MIB));
    CHECK(((char *)a)[3 * MIB - 1] == 7);
    IS(cuGraphLaunch(exec, NULL), CUDA_ERROR_INVALID_VALUE); /* while it is not freed */
    OK(cuMemFree(a));
    IS(cuMemFree(a), CUDA_ERROR_INVALID_VALUE);
    OK(cuGraphLaunch(exec, NULL));
    OK(cuMemFreeAsync(a, NULL));
    OK(cuGraphLaunch(exec, NULL));
    OK(cuGraphExecDestroy(exec));
    OK(cuGraphDestroy(graph));
    *(volatile char *)a = 1; /* outlives both */
    OK(cuDeviceGraphMemTrim(0));
    CHECK(used() == before + 4 * MIB && RESERVED == 4 * MIB); /* in use: not trimmed */
    OK(cuMemFree(a));
    CHECK(RESERVED == 4 * MIB);
    OK(cuDeviceGraphMemTrim(0));
    CHECK(used() == before);
}

SIM_TEST(auto_free_lets_a_graph_be_launched_again)
{
    CUgraph graph;
    CUdeviceptr a;
    begin();
    size_t before = used();
    OK(cuGraphCreate(&graph, 0));
    add_alloc(graph, NULL, 2 * MIB, &a);
    CUgraphExec exec = instantiate(graph, CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH);
    cuuint64_t flags;
    OK(cuGraphExecGetFlags(exec, &flags));
    CHECK(flags == CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH);
    for (int i = 0; i < 3; i++)
        OK(cuGraphLaunch(exec, NULL));
    CHECK(used() == before + 2 * MIB);
    OK(cuMemFree(a));
}

SIM_TEST(another_graph_may_free_it)
{
    CUgraph maker, freer;
    CUdeviceptr a;
    CUgraphNode node;
    begin();
    OK(cuGraphCreate(&maker, 0));
    OK(cuGraphCreate(&freer, 0));
    add_alloc(maker, NULL, 2 * MIB, &a);
    add_free(freer, NULL, a);
    IS(cuGraphAddMemFreeNode(&node, freer, NULL, 0, a), CUDA_ERROR_INVALID_VALUE); /* twice */
    IS(cuGraphAddMemFreeNode(&node, maker, NULL, 0, a), CUDA_ERROR_INVALID_VALUE); /* freed elsewhere */
    IS(cuGraphAddMemFreeNode(&node, maker, NULL, 0, a + 1),
       CUDA_ERROR_INVALID_VALUE); /* no allocation node's */
    CUgraphExec make = instantiate(maker, 0), release = instantiate(freer, 0);
    IS(cuGraphLaunch(release, NULL), CUDA_ERROR_INVALID_VALUE);
    OK(cuGraphLaunch(make, NULL));
    OK(cuGraphLaunch(release, NULL));
    OK(cuGraphLaunch(make, NULL));
    OK(cuMemFree(a));
}

/* ---- restrictions and errors ---- */

SIM_TEST(graphs_with_memory_keep_the_drivers_restrictions)
{
    CUgraph graph, outer, clone;
    CUgraphExec exec, second;
    CUdeviceptr a;
    CUgraphNode node;
    begin();
    OK(cuGraphCreate(&graph, 0));
    OK(cuGraphCreate(&outer, 0));
    node = add_alloc(graph, NULL, 2 * MIB, &a);
    exec = instantiate(graph, 0);
    IS(cuGraphInstantiateWithFlags(&second, graph, 0), CUDA_ERROR_INVALID_VALUE);
    IS(cuGraphClone(&clone, graph), CUDA_ERROR_INVALID_VALUE);
    IS(cuGraphDestroyNode(node), CUDA_ERROR_INVALID_VALUE);
    IS(cuGraphAddChildGraphNode(&node, outer, NULL, 0, graph), CUDA_ERROR_INVALID_VALUE);
    OK(cuGraphExecDestroy(exec));
    exec = instantiate(graph, 0); /* one at a time */
    OK(cuGraphExecDestroy(exec));
    CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_GRAPH,
                                .graph = {.graph = graph, .ownership = CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE}};
    OK(cuGraphAddNode(&node, outer, NULL, NULL, 0, &params));
    IS(cuGraphDestroy(graph), CUDA_ERROR_INVALID_VALUE); /* the parent's */
    exec = instantiate(outer, 0);
    OK(cuGraphLaunch(exec, NULL));
    CHECK(RESERVED == 2 * MIB);
    OK(cuMemFree(a));
    IS(cuGraphLaunch((CUgraphExec)&a, NULL), CUDA_ERROR_INVALID_VALUE);
    IS(cuGraphLaunch(exec, (CUstream)&a), CUDA_ERROR_INVALID_HANDLE);
}

SIM_TEST(a_launch_can_run_out_of_memory, "SIMCUDA_CAPACITY", "128MiB")
{
    CUgraph graph;
    CUdeviceptr a, b;
    begin();
    OK(cuGraphCreate(&graph, 0));
    add_alloc(graph, NULL, 48 * MIB, &a);
    CUgraphExec exec = instantiate(graph, 0);
    OK(cuMemAlloc(&b, 32 * MIB));
    IS(cuGraphLaunch(exec, NULL), CUDA_ERROR_OUT_OF_MEMORY);
    IS(cuGraphUpload(exec, NULL), CUDA_ERROR_OUT_OF_MEMORY);
    OK(cuMemFree(b));
    OK(cuGraphLaunch(exec, NULL));
    IS(cuMemAlloc(&b, 32 * MIB), CUDA_ERROR_OUT_OF_MEMORY);
}

/* ---- nodes ---- */

static void count_up(void *counter)
{
    ++*(int *)counter;
}

SIM_TEST(nodes_run_in_order_and_tell_what_they_are)
{
    CUgraph graph, inner, clone, found;
    CUgraphNode nodes[8], host, child, empty, twin;
    CUgraphNodeType type;
    CUgraphExec exec;
    int runs = 0;
    size_t count = 8;
    begin();
    OK(cuGraphCreate(&inner, 0));
    CUDA_HOST_NODE_PARAMS params = {.fn = count_up, .userData = &runs};
    OK(cuGraphAddHostNode(&host, inner, NULL, 0, &params));
    OK(cuGraphCreate(&graph, 0));
    OK(cuGraphAddEmptyNode(&empty, graph, NULL, 0));
    OK(cuGraphAddChildGraphNode(&child, graph, &empty, 1, inner));
    OK(cuGraphAddHostNode(&host, graph, &child, 1, &params));
    IS(cuGraphAddEmptyNode(&twin, inner, &empty, 1), CUDA_ERROR_INVALID_VALUE); /* of another graph */
    OK(cuGraphGetNodes(graph, nodes, &count));
    CHECK(count == 3 && nodes[0] == empty && nodes[1] == child && nodes[2] == host);
    OK(cuGraphGetRootNodes(graph, NULL, &count));
    CHECK(count == 1);
    OK(cuGraphNodeGetType(child, &type));
    CHECK(type == CU_GRAPH_NODE_TYPE_GRAPH);
    OK(cuGraphChildGraphNodeGetGraph(child, &found));
    CHECK(found != inner); /* cloned */
    OK(cuGraphClone(&clone, graph));
    OK(cuGraphNodeFindInClone(&twin, host, clone));
    OK(cuGraphNodeGetType(twin, &type));
    CHECK(type == CU_GRAPH_NODE_TYPE_HOST && twin != host);
    exec = instantiate(graph, 0);
    OK(cuGraphLaunch(exec, NULL));
    CHECK(runs == 2);
    CUgraphExecUpdateResultInfo info;
    OK(cuGraphExecUpdate(exec, clone, &info));
    OK(cuGraphDestroyNode(twin));
    IS(cuGraphExecUpdate(exec, clone, &info), CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
    CHECK(info.result == CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED);
    OK(cuGraphDestroy(clone));
    OK(cuGraphDestroy(graph));
    OK(cuGraphLaunch(exec, NULL)); /* lives without its graph */
    CHECK(runs == 4);
    OK(cuGraphExecDestroy(exec));
}

SIM_TEST(memory_nodes_tell_address_and_size)
{
    CUgraph graph;
    CUdeviceptr a, freed;
    CUDA_MEM_ALLOC_NODE_PARAMS params;
    CUgraphNodeType type;
    begin();
    OK(cuGraphCreate(&graph, 0));
    CUgraphNode node = add_alloc(graph, NULL, 1000, &a), last = add_free(graph, node, a);
    OK(cuGraphMemAllocNodeGetParams(node, &params));
    CHECK(params.dptr == a && params.bytesize == 1000 && params.poolProps.location.id == 0);
    OK(cuGraphMemFreeNodeGetParams(last, &freed));
    CHECK(freed == a);
    IS(cuGraphMemFreeNodeGetParams(node, &freed), CUDA_ERROR_INVALID_VALUE);
    OK(cuGraphNodeGetType(last, &type));
    CHECK(type == CU_GRAPH_NODE_TYPE_MEM_FREE);
    CUgraphNodeParams any = {.type = CU_GRAPH_NODE_TYPE_MEM_ALLOC,
                             .alloc = {.poolProps = params.poolProps, .bytesize = 5 * MIB}};
    OK(cuGraphAddNode(&node, graph, &last, NULL, 1, &any));
    CHECK(any.alloc.dptr && any.alloc.dptr != a);
    any.alloc.poolProps.location.id = 9;
    IS(cuGraphAddNode(&node, graph, NULL, NULL, 0, &any), CUDA_ERROR_INVALID_VALUE);
}

SIM_TEST(an_upload_takes_the_memory_without_a_launch)
{
    CUgraph graph;
    CUgraphExec exec;
    CUdeviceptr a;
    begin();
    OK(cuGraphCreate(&graph, 0));
    add_alloc(graph, NULL, 2 * MIB, &a);
    CUDA_GRAPH_INSTANTIATE_PARAMS params = {.flags = CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD};
    OK(cuGraphInstantiateWithParams(&exec, graph, &params));
    CHECK(params.result_out == CUDA_GRAPH_INSTANTIATE_SUCCESS && RESERVED == 2 * MIB);
    IS(cuMemFree(a), CUDA_ERROR_INVALID_VALUE); /* uploaded, not launched */
}
