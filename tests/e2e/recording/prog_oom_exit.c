// link: cuda
/*
 * prog_oom_exit.c HOW [kill] - runs out of memory and ends with status 3, as a program that checks its
 * calls, or by SIGKILL.
 *
 *      alloc, create, async   10 blocks of 16 MiB, then one that does not fit
 *      host, graph            likewise of page-locked memory; of a graph's memory node, at its launch
 *      first                  the very first allocation is refused
 *      loop                   5000 requests that are refused, of growing size
 */
#include "prog.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

static CUresult create(size_t size)
{
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    CUmemGenericAllocationHandle handle;
    return cuMemCreate(&handle, size, &prop, 0);
}

static CUresult launch(size_t size)
{
    CUDA_MEM_ALLOC_NODE_PARAMS params = {.poolProps = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                                       .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}},
                                         .bytesize = size};
    CUgraph graph;
    CUgraphNode node;
    CUgraphExec exec;
    OK(cuGraphCreate(&graph, 0));
    OK(cuGraphAddMemAllocNode(&node, graph, NULL, 0, &params));
    OK(cuGraphInstantiate(&exec, graph, 0));
    return cuGraphLaunch(exec, NULL);
}

static CUresult ask(const char *how, size_t size)
{
    CUdeviceptr p;
    void *host;
    if (!strcmp(how, "create"))
        return create(size);
    if (!strcmp(how, "graph"))
        return launch(size);
    if (!strcmp(how, "async"))
        return cuMemAllocAsync(&p, size, NULL);
    if (!strcmp(how, "host"))
        return cuMemHostAlloc(&host, size, 0);
    return cuMemAlloc(&p, size);
}

int main(int argc, char **argv)
{
    CHECK(argc >= 2);
    const char *how = argv[1];
    begin();
    for (int i = 0; i < 10 && strcmp(how, "first"); i++)
        OK(ask(how, 16 * MIB));
    CUresult result = CUDA_SUCCESS;
    if (!strcmp(how, "loop"))
        for (size_t i = 0; i < 5000; i++)
            IS(ask(how, 4096 * MIB + i * 512), CUDA_ERROR_OUT_OF_MEMORY);
    result = ask(how, 8192 * MIB);
    printf("%s: %d\n", how, (int)result);
    fflush(stdout);
    if (argc > 2)
        kill(getpid(), SIGKILL);
    return result ? 3 : 0;
}
