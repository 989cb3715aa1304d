/* test_simcuda_capture.c - stream capture of the simulated driver: what becomes a node, what disturbs it. */
#include "simcuda_kit.h"

static CUstreamCaptureStatus status_of(CUstream stream)
{
    CUstreamCaptureStatus status;
    OK(cuStreamIsCapturing(stream, &status));
    return status;
}

static CUstream capture_on_new(CUstreamCaptureMode mode)
{
    CUstream stream;
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cuStreamBeginCapture(stream, mode));
    return stream;
}

SIM_TEST(work_on_a_capturing_stream_becomes_nodes_that_a_launch_runs)
{
    begin();
    size_t before = used(), count = 8;
    CUstream stream = capture_on_new(CU_STREAM_CAPTURE_MODE_GLOBAL);
    CUdeviceptr a, b;
    CUgraph graph;
    CUgraphExec exec;
    CUgraphNode nodes[8];
    char text[8] = "";
    CHECK(status_of(stream) == CU_STREAM_CAPTURE_STATUS_ACTIVE);
    OK(cuMemAllocAsync(&a, 3 * MIB, stream));
    OK(cuMemAllocAsync(&b, 1000, stream));
    OK(cuMemcpyHtoDAsync(a, "hello", 6, stream));
    OK(cuMemsetD8Async(a + 4, 'a', 1, stream));
    OK(cuMemcpyDtoHAsync(text, a, 6, stream));
    OK(cuMemFreeAsync(b, stream));
    CHECK(used() == before && !text[0]); /* nothing happened */
    OK(cuStreamEndCapture(stream, &graph));
    CHECK(status_of(stream) == CU_STREAM_CAPTURE_STATUS_NONE);
    OK(cuGraphGetNodes(graph, nodes, &count));
    CHECK(count == 6);
    OK(cuGraphInstantiate(&exec, graph, 0));
    OK(cuGraphLaunch(exec, stream));
    CHECK(strcmp(text, "hella") == 0);
    CHECK(used() == before + 6 * MIB);
    OK(cuMemFreeAsync(a, stream));
}

SIM_TEST(an_unsafe_call_is_refused_and_invalidates_the_capture)
{
    CUdeviceptr a, b;
    CUgraph graph;
    void *host;
    begin();
    OK(cuMemAlloc(&b, 4096));
    CUstream stream = capture_on_new(CU_STREAM_CAPTURE_MODE_GLOBAL);
    OK(cuMemAllocAsync(&a, 4096, stream));
    IS(cuMemAlloc(&a, 4096), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    CHECK(status_of(stream) == CU_STREAM_CAPTURE_STATUS_INVALIDATED);
    IS(cuMemAllocAsync(&a, 4096, stream), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    IS(cuMemFree(b), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    IS(cuMemHostAlloc(&host, 4096, 0), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    IS(cuCtxSynchronize(), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    IS(cuStreamEndCapture(stream, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    CHECK(!graph);
    OK(cuMemFree(b));
    CHECK(status_of(stream) == CU_STREAM_CAPTURE_STATUS_NONE);
}

SIM_TEST(relaxed_captures_and_threads_may_allocate)
{
    CUdeviceptr a;
    CUgraph graph;
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    begin();
    CUstream stream = capture_on_new(CU_STREAM_CAPTURE_MODE_RELAXED);
    OK(cuMemAlloc(&a, 4096));
    OK(cuStreamEndCapture(stream, &graph));
    stream = capture_on_new(CU_STREAM_CAPTURE_MODE_GLOBAL);
    OK(cuThreadExchangeStreamCaptureMode(&mode));
    CHECK(mode == CU_STREAM_CAPTURE_MODE_GLOBAL);
    OK(cuMemFree(a)); /* this thread takes care itself */
    OK(cuThreadExchangeStreamCaptureMode(&mode));
    OK(cuStreamEndCapture(stream, &graph));
}

static CUcontext shared_context;
static CUresult other_result;
static void *allocate_elsewhere(void *unused)
{
    CUdeviceptr a;
    (void)unused;
    OK(cuCtxSetCurrent(shared_context));
    other_result = cuMemAlloc(&a, 4096);
    return NULL;
}

static CUresult allocation_of_another_thread(void)
{
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, allocate_elsewhere, NULL) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    return other_result;
}

SIM_TEST(a_global_capture_forbids_other_threads_a_local_one_does_not)
{
    CUgraph graph;
    shared_context = begin();
    CUstream stream = capture_on_new(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
    IS(allocation_of_another_thread(), CUDA_SUCCESS);
    OK(cuStreamEndCapture(stream, &graph));
    stream = capture_on_new(CU_STREAM_CAPTURE_MODE_GLOBAL);
    IS(allocation_of_another_thread(), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    IS(cuStreamEndCapture(stream, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}

SIM_TEST(the_legacy_stream_is_kept_out)
{
    CUstream blocking, free_stream;
    CUdeviceptr a;
    CUgraph graph;
    begin();
    IS(cuStreamBeginCapture(NULL, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    OK(cuStreamCreate(&blocking, 0));
    OK(cuStreamBeginCapture(blocking, CU_STREAM_CAPTURE_MODE_RELAXED));
    IS(cuMemAllocAsync(&a, 4096, NULL), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    IS(cuStreamEndCapture(blocking, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    free_stream = capture_on_new(CU_STREAM_CAPTURE_MODE_RELAXED);
    OK(cuMemAllocAsync(&a, 4096, NULL)); /* real memory */
    CHECK(*(volatile char *)a == 0);
    IS(cuStreamBeginCapture(free_stream, CU_STREAM_CAPTURE_MODE_RELAXED), CUDA_ERROR_ILLEGAL_STATE);
    IS(cuStreamEndCapture(blocking, &graph), CUDA_ERROR_ILLEGAL_STATE);
    IS(cuStreamSynchronize(free_stream), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    OK(cuStreamDestroy(free_stream));
}

SIM_TEST(streams_join_by_events_and_must_be_joined_again)
{
    CUstream other;
    CUevent forked, joined;
    CUdeviceptr a;
    CUgraph graph;
    begin();
    OK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    OK(cuEventCreate(&forked, 0));
    OK(cuEventCreate(&joined, 0));
    for (int join = 0; join < 2; join++) {
        CUstream stream = capture_on_new(CU_STREAM_CAPTURE_MODE_GLOBAL);
        OK(cuEventRecord(forked, stream));
        IS(cuEventSynchronize(forked), CUDA_ERROR_CAPTURED_EVENT);
        OK(cuStreamWaitEvent(other, forked, 0));
        CHECK(status_of(other) == CU_STREAM_CAPTURE_STATUS_ACTIVE);
        OK(cuMemAllocAsync(&a, 4096, other));
        IS(cuStreamEndCapture(other, &graph), CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
        if (join) {
            OK(cuEventRecord(joined, other));
            OK(cuStreamWaitEvent(stream, joined, 0));
        }
        IS(cuStreamEndCapture(stream, &graph), join ? CUDA_SUCCESS : CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
        CHECK(status_of(other) == CU_STREAM_CAPTURE_STATUS_NONE);
    }
}

SIM_TEST(a_capture_tells_its_graph_and_may_go_on_in_one)
{
    CUgraph graph, own;
    cuuint64_t id = 0;
    CUstreamCaptureStatus status;
    const CUgraphNode *last;
    const CUgraphEdgeData *edges;
    size_t count;
    CUdeviceptr a;
    begin();
    CUstream stream = capture_on_new(CU_STREAM_CAPTURE_MODE_GLOBAL);
    OK(cuStreamGetCaptureInfo(stream, &status, &id, &graph, &last, &edges, &count));
    CHECK(status == CU_STREAM_CAPTURE_STATUS_ACTIVE && id && graph && count == 0);
    IS(cuGraphDestroy(graph), CUDA_ERROR_INVALID_VALUE); /* while it is captured into */
    OK(cuMemAllocAsync(&a, 4096, stream));
    OK(cuStreamGetCaptureInfo(stream, &status, &id, &graph, &last, &edges, &count));
    CHECK(count == 1 && last[0]);
    OK(cuStreamEndCapture(stream, &own));
    CHECK(own == graph);
    OK(cuStreamBeginCaptureToGraph(stream, graph, last, NULL, 1, CU_STREAM_CAPTURE_MODE_GLOBAL));
    OK(cuMemFreeAsync(a, stream));
    OK(cuStreamEndCapture(stream, &own));
    OK(cuGraphGetNodes(graph, NULL, &count));
    CHECK(own == graph && count == 2);
    OK(cuStreamGetCaptureInfo(stream, &status, NULL, NULL, NULL, NULL, NULL));
    CHECK(status == CU_STREAM_CAPTURE_STATUS_NONE);
}

SIM_TEST(stream_0_of_the_ptsz_functions_is_the_threads_own)
{
    CUdeviceptr a;
    CUgraph graph;
    size_t count;
    begin();
    CUresult (*begin_ptsz)(CUstream, CUstreamCaptureMode);
    CUresult (*alloc_ptsz)(CUdeviceptr *, size_t, CUstream);
    OK(cuGetProcAddress("cuStreamBeginCapture", (void **)&begin_ptsz, 13000,
                        CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, NULL));
    OK(cuGetProcAddress("cuMemAllocAsync", (void **)&alloc_ptsz, 13000,
                        CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, NULL));
    OK(begin_ptsz(NULL, CU_STREAM_CAPTURE_MODE_GLOBAL));
    OK(alloc_ptsz(&a, 4096, NULL));
    OK(cuMemAllocAsync(&a, 4096, CU_STREAM_PER_THREAD));
    OK(cuStreamEndCapture(CU_STREAM_PER_THREAD, &graph));
    OK(cuGraphGetNodes(graph, NULL, &count));
    CHECK(count == 2);
}
