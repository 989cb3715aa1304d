// link: cuda
/*
 * prog_beside.c LIBRARY - holds 20 MiB of the arena's, and beside it 6 MiB that LIBRARY asked the driver for
 * and 4 MiB of a graph's.  Says "ready", and ends when its standard input does.
 */
#include <dlfcn.h>

#include "prog.h"

static void take_graph(void)
{
    CUgraph graph;
    CUgraphExec exec;
    CUgraphNode node;
    CUDA_MEM_ALLOC_NODE_PARAMS params = {.poolProps = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                                       .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}},
                                         .bytesize = 4 * MIB};
    OK(cuGraphCreate(&graph, 0));
    OK(cuGraphAddMemAllocNode(&node, graph, NULL, 0, &params));
    OK(cuGraphInstantiate(&exec, graph, 0));
    OK(cuGraphLaunch(exec, NULL));
    OK(cuCtxSynchronize());
}

int main(int argc, char **argv)
{
    CUdeviceptr block;
    char c;
    CHECK(argc == 2);
    begin();
    OK(cuMemAlloc(&block, 20 * MIB));
    void *library = dlopen(argv[1], RTLD_NOW);
    CUresult (*take)(size_t) = library ? (CUresult(*)(size_t))dlsym(library, "take") : NULL;
    CHECK(take);
    OK(take(6 * MIB));
    take_graph();
    puts("ready");
    fflush(stdout);
    CHECK(read(0, &c, 1) == 0);
    return 0;
}
