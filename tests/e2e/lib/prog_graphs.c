// link: cuda
/* Graphs with memory nodes, made by hand: what they free themselves, what they leave, and who frees that. */
#include "prog.h"

static CUdeviceptr add_alloc(CUgraph graph, size_t size)
{
    CUDA_MEM_ALLOC_NODE_PARAMS params = {
        .poolProps = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}},
        .bytesize = size};
    CUgraphNode node;
    OK(cuGraphAddMemAllocNode(&node, graph, NULL, 0, &params));
    return params.dptr;
}

static void add_free(CUgraph graph, CUdeviceptr address)
{
    CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_MEM_FREE, .free.dptr = address};
    CUgraphNode node;
    OK(cuGraphAddNode(&node, graph, NULL, NULL, 0, &params));
}

static CUgraphExec instantiate(CUgraph graph, unsigned long long flags)
{
    CUgraphExec exec;
    OK(cuGraphInstantiateWithFlags(&exec, graph, flags));
    return exec;
}

/* Nothing is left: the graphs' pool alone grows. */
static void inside(void)
{
    CUgraph graph;
    OK(cuGraphCreate(&graph, 0));
    add_free(graph, add_alloc(graph, 8 * MIB));
    CUgraphExec exec = instantiate(graph, 0);
    OK(cuGraphUpload(exec, NULL));
    OK(cuGraphLaunch(exec, NULL));
    OK(cuGraphLaunch(exec, NULL));
    OK(cuGraphExecDestroy(exec));
    OK(cuGraphDestroy(graph));
    OK(cuDeviceGraphMemTrim(0));
}

static void outside(void)
{
    CUgraph graph;
    OK(cuGraphCreate(&graph, 0));
    CUdeviceptr a = add_alloc(graph, 3 * MIB);
    CUgraphExec exec = instantiate(graph, 0);
    OK(cuGraphLaunch(exec, NULL));
    IS(cuGraphLaunch(exec, NULL), CUDA_ERROR_INVALID_VALUE); /* not freed yet */
    OK(cuMemFree(a));
    OK(cuGraphLaunch(exec, NULL));
    OK(cuMemFreeAsync(a, NULL));
    OK(cuGraphExecDestroy(exec));
    OK(cuGraphDestroy(graph));
}

static void automatic(void)
{
    CUgraph graph;
    OK(cuGraphCreate(&graph, 0));
    CUdeviceptr a = add_alloc(graph, 2 * MIB);
    CUgraphExec exec = instantiate(graph, CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH);
    OK(cuGraphLaunch(exec, NULL));
    OK(cuGraphLaunch(exec, NULL));
    OK(cuMemFree(a));
    OK(cuGraphLaunch(exec, NULL)); /* freed already: nothing to free */
    OK(cuGraphExecDestroy(exec));
    OK(cuGraphDestroy(graph));
    OK(cuMemFree(a)); /* outlives both */
}

static void by_another(void)
{
    CUgraph maker, freer;
    OK(cuGraphCreate(&maker, 0));
    OK(cuGraphCreate(&freer, 0));
    CUdeviceptr a = add_alloc(maker, MIB);
    add_free(freer, a);
    CUgraphExec make = instantiate(maker, 0), release = instantiate(freer, 0);
    OK(cuGraphLaunch(make, NULL));
    OK(cuGraphLaunch(release, NULL));
    IS(cuGraphLaunch(release, NULL), CUDA_ERROR_INVALID_VALUE);
    OK(cuDeviceGraphMemTrim(0));
}

/* Stream-ordered memory on a capturing stream: nodes, no memory, until the graph is launched. */
static void capture(void)
{
    CUstream stream;
    CUdeviceptr kept, inner, real;
    CUgraph graph;
    CUgraphExec exec;
    begin();
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cuMemAllocAsync(&real, MIB, stream));
    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    OK(cuMemAllocAsync(&kept, 5 * MIB, stream));
    OK(cuMemAllocAsync(&inner, 2 * MIB, stream));
    OK(cuMemsetD8Async(kept, 1, 5 * MIB, stream));
    OK(cuMemFreeAsync(inner, stream));
    OK(cuStreamEndCapture(stream, &graph));
    OK(cuGraphInstantiate(&exec, graph, 0));
    OK(cuGraphLaunch(exec, stream));
    CHECK(*(volatile char *)kept == 1);
    OK(cuMemFreeAsync(kept, stream));

    /* a call that disturbs it: the capture is lost, what was captured with it */
    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    OK(cuMemAllocAsync(&inner, 2 * MIB, stream));
    IS(cuMemAlloc(&inner, MIB), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    IS(cuStreamEndCapture(stream, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    OK(cuMemFreeAsync(real, stream));
    OK(cuStreamSynchronize(stream));
    OK(cuDeviceGraphMemTrim(0));
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "capture") == 0) {
        capture();
    } else {
        begin();
        inside();
        outside();
        automatic();
        by_another();
    }
    puts("done");
    return 0;
}
