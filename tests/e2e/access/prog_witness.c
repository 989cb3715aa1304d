// link: cuda
/*
 * prog_witness.c - blocks of 2 MiB or more that are idle in every way.  Ends with 4 where the device
 * refuses it a block.
 */
#include "prog.h"

#include <unistd.h>

static const char ptx[] = ".visible .entry simcuda_nothing_two(.param .u64 a, .param .u64 b) { ret; }\n";
static CUfunction two;

static CUdeviceptr block(uint64_t mib)
{
    CUdeviceptr p;
    OK(cuMemAlloc(&p, mib * MIB));
    return p;
}

static void refused(CUresult result)
{
    if (result == CUDA_SUCCESS)
        return;
    printf("refused: %d\n", (int)result);
    exit(4);
}

static void use(CUdeviceptr a, CUdeviceptr b)
{
    refused(cuLaunchKernel(two, 1, 1, 1, 1, 1, 1, 0, NULL, (void *[]){&a, &b}, NULL));
}

static void with_graph(void)
{
    CUdeviceptr before = block(10), during, small, late = block(12);
    CUstream stream;
    CUgraph graph;
    CUgraphExec exec;
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    use(before, before);
    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    during = block(14);
    OK(cuMemAlloc(&small, 4096));
    refused(cuLaunchKernel(two, 1, 1, 1, 1, 1, 1, 0, stream, (void *[]){&before, &during}, NULL));
    refused(cuLaunchKernel(two, 1, 1, 1, 1, 1, 1, 0, stream, (void *[]){&small, &during}, NULL));
    OK(cuMemFree(small));
    OK(cuStreamEndCapture(stream, &graph));
    OK(cuGraphInstantiate(&exec, graph, 0));
    for (int i = 0; i < 3; i++) {
        refused(cuGraphLaunch(exec, stream));
        use(late, late);
    }
    OK(cuGraphExecDestroy(exec));
    OK(cuGraphDestroy(graph));
    use(late, late);
    OK(cuMemFree(during));
    OK(cuMemFree(before));
    OK(cuMemFree(late));
    OK(cuStreamDestroy(stream));
}

int main(void)
{
    CUmodule module;
    begin();
    OK(cuModuleLoadData(&module, ptx));
    OK(cuModuleGetFunction(&two, module, "simcuda_nothing_two"));
    CUdeviceptr never = block(2), early = block(4), late = block(6), paused = block(8), small;
    OK(cuMemAlloc(&small, 4096));
    refused(cuMemsetD8(paused, 7, 8 * MIB));
    refused(cuMemsetD8(late, 5, 6 * MIB));
    use(late, small);
    usleep(200000); /* more than a millisecond of a clock at a hundredth of its speed */
    for (int i = 0; i < 5; i++) {
        CUdeviceptr temporary = block(4);
        use(temporary, small);
        use(temporary, late);
        OK(cuMemFree(temporary));
    }
    refused(cuMemcpyDtoD(early, late, 4 * MIB));
    unsigned char bytes[2] = {0};
    refused(cuMemcpyDtoH(&bytes[0], paused + 8 * MIB - 1, 1));
    refused(cuMemcpyDtoH(&bytes[1], early + 4 * MIB - 1, 1));
    use(paused, early);
    with_graph();
    OK(cuMemFree(never));
    OK(cuMemFree(early));
    OK(cuMemFree(late));
    OK(cuMemFree(paused));
    OK(cuMemFree(small));
    printf("%d %d\n", bytes[0], bytes[1]);
    return 0;
}
