// link: cuda
/* Stream-ordered memory on a capturing stream: nodes, no memory, until the graph is launched. */
#include "prog.h"

int main(void)
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
    puts("done");
    return 0;
}
