/* test_runtime_work.c - copies, streams, events, captures and graphs of the runtime's stand-in. */
#include "runtime_kit.h"

SIM_TEST(what_was_copied_is_there)
{
    char from[64], to[64];
    void *p, *q;
    for (int i = 0; i < 64; i++)
        from[i] = (char)i;
    GOOD(cudaMalloc(&p, 64));
    GOOD(cudaMalloc(&q, 64));
    GOOD(cudaMemcpy(p, from, 64, cudaMemcpyHostToDevice));
    GOOD(cudaMemcpyAsync(q, p, 64, cudaMemcpyDeviceToDevice, NULL));
    GOOD(cudaMemcpy(to, q, 64, cudaMemcpyDefault));
    CHECK(memcmp(from, to, 64) == 0);
    GOOD(cudaMemset(p, 7, 32));
    GOOD(cudaMemcpyPeer(to, 0, p, 0, 64));
    CHECK(to[31] == 7 && to[32] == 32);
    GAVE(cudaMemcpy(p, from, 64, (enum cudaMemcpyKind)9), cudaErrorInvalidMemcpyDirection);
    GOOD(cudaMemcpy(p, from, 0, cudaMemcpyHostToDevice));
}

SIM_TEST(rectangles_are_copied_by_their_pitches)
{
    char from[4][8], to[4][8] = {{0}};
    void *p;
    memset(from, 5, sizeof from);
    GOOD(cudaMalloc(&p, 4 * 16));
    GOOD(cudaMemset2D(p, 16, 1, 16, 4));
    GOOD(cudaMemcpy2D(p, 16, from, 8, 6, 4, cudaMemcpyHostToDevice));
    GOOD(cudaMemcpy2DAsync(to, 8, p, 16, 8, 4, cudaMemcpyDeviceToHost, NULL));
    GOOD(cudaDeviceSynchronize());
    CHECK(to[0][5] == 5 && to[0][6] == 1 && to[3][5] == 5 && to[3][7] == 1);
    GAVE(cudaMemcpy2D(p, 4, from, 8, 6, 4, cudaMemcpyHostToDevice), cudaErrorInvalidPitchValue);
    GOOD(cudaMemcpy2D(p, 16, from, 8, 6, 0, cudaMemcpyHostToDevice));
}

/* ---- host functions ---- */

static char order[8];
static void CUDART_CB first(void *data)
{
    strcat(order, data);
}

static void CUDART_CB second(cudaStream_t stream, cudaError_t error, void *data)
{
    CHECK(error == cudaSuccess);
    strcat(order, data);
}

SIM_TEST(functions_of_the_host_run_in_order)
{
    cudaStream_t stream;
    char a[] = "a", b[] = "b";
    GOOD(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    GOOD(cudaLaunchHostFunc(stream, first, a));
    GOOD(cudaStreamAddCallback(stream, second, b, 0));
    GOOD(cudaLaunchHostFunc(stream, first, a));
    GOOD(cudaStreamSynchronize(stream));
    CHECK(strcmp(order, "aba") == 0);
}

SIM_TEST(streams_and_events_are_the_drivers)
{
    cudaEvent_t start, end;
    cudaStream_t stream;
    float ms = -1;
    int priority, least, greatest;
    unsigned flags;
    GOOD(cudaDeviceGetStreamPriorityRange(&least, &greatest));
    GOOD(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, greatest));
    GOOD(cudaStreamGetPriority(stream, &priority));
    GOOD(cudaStreamGetFlags(stream, &flags));
    CHECK(priority == greatest && flags == cudaStreamNonBlocking);
    GOOD(cudaEventCreate(&start));
    GOOD(cudaEventCreateWithFlags(&end, cudaEventBlockingSync));
    GOOD(cudaEventRecord(start, stream));
    GOOD(cudaStreamWaitEvent(NULL, start, 0));
    GOOD(cudaEventRecordWithFlags(end, stream, cudaEventRecordDefault));
    GOOD(cudaEventSynchronize(end));
    GOOD(cudaEventQuery(end));
    GOOD(cudaEventElapsedTime(&ms, start, end));
    CHECK(ms >= 0);
    GOOD(cudaEventDestroy(start));
    GOOD(cudaStreamDestroy(stream));
}

/* ---- captures ---- */

static enum cudaStreamCaptureStatus status_of(cudaStream_t stream)
{
    enum cudaStreamCaptureStatus status;
    GOOD(cudaStreamIsCapturing(stream, &status));
    return status;
}

static size_t nodes_of(cudaGraph_t graph)
{
    size_t n = 0;
    GOOD(cudaGraphGetNodes(graph, NULL, &n));
    return n;
}

SIM_TEST(a_capture_makes_a_graph_and_one_that_was_broken_none)
{
    void *host = add_kernel(ptx, "simcuda_nothing"), *p;
    int n = 0;
    void *arguments[] = {&p, &n};
    cudaStream_t stream;
    cudaGraph_t graph, inside;
    cudaGraphExec_t exec;
    unsigned long long id = 0;
    enum cudaStreamCaptureStatus status;
    GOOD(cudaMalloc(&p, 64));
    GOOD(cudaStreamCreate(&stream));
    GOOD(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    GOOD(cudaLaunchKernel(host, (dim3){1, 1, 1}, (dim3){1, 1, 1}, arguments, 0, stream));
    GOOD(cudaMemsetAsync(p, 0, 64, stream));
    GOOD(cudaStreamGetCaptureInfo(stream, &status, &id, &inside, NULL, NULL, NULL));
    CHECK(status == cudaStreamCaptureStatusActive && id && status_of(stream) == status);
    GAVE(cudaStreamSynchronize(stream), cudaErrorStreamCaptureUnsupported);
    CHECK(status_of(stream) == cudaStreamCaptureStatusInvalidated);
    GAVE(cudaStreamEndCapture(stream, &graph), cudaErrorStreamCaptureInvalidated);
    GAVE(cudaGetLastError(), cudaErrorStreamCaptureInvalidated);
    GOOD(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
    GOOD(cudaLaunchKernel(host, (dim3){1, 1, 1}, (dim3){1, 1, 1}, arguments, 0, stream));
    GOOD(cudaMemsetAsync(p, 0, 64, stream));
    GOOD(cudaStreamEndCapture(stream, &graph));
    CHECK(nodes_of(graph) == 2 && status_of(stream) == cudaStreamCaptureStatusNone);
    GOOD(cudaGraphInstantiate(&exec, graph, 0));
    GOOD(cudaGraphLaunch(exec, stream));
    GOOD(cudaGraphExecDestroy(exec));
    GOOD(cudaGraphDestroy(graph));
}

SIM_TEST(nodes_that_a_value_on_the_device_decides_are_refused)
{
    cudaGraph_t graph;
    cudaGraphConditionalHandle handle;
    GOOD(cudaGraphCreate(&graph, 0));
    GAVE(cudaGraphConditionalHandleCreate(&handle, graph, 1, cudaGraphCondAssignDefault),
         cudaErrorNotSupported);
}

/* ---- the thread's own default stream ---- */

cudaError_t cudaStreamIsCapturing_ptsz(cudaStream_t stream, enum cudaStreamCaptureStatus *status);
cudaError_t cudaMemsetAsync_ptsz(void *p, int value, size_t count, cudaStream_t stream);

SIM_TEST(either_default_stream_has_functions_of_its_own)
{
    cudaGraph_t graph;
    void *p;
    enum cudaStreamCaptureStatus status;
    GOOD(cudaMalloc(&p, 64));
    GOOD(cudaStreamBeginCapture(cudaStreamPerThread, cudaStreamCaptureModeRelaxed));
    GOOD(cudaStreamIsCapturing_ptsz(NULL, &status));
    CHECK(status == cudaStreamCaptureStatusActive);
    GOOD(cudaMemsetAsync_ptsz(p, 0, 64, NULL));
    GOOD(cudaStreamEndCapture(cudaStreamPerThread, &graph));
    CHECK(nodes_of(graph) == 1);
}

int main(int argc, char **argv)
{
    return in_dry_mode(argv);
}
