// link: cuda
/*
 * prog_unused.c - memory that is reserved and that no call allocates.
 *
 *      graph      three memory nodes of a CUDA graph, launched: 3 x 64 MiB
 *      refused    three of 128 MiB beside 64 MiB of the program's own, and 3600 MiB are refused
 *      pool       a stream-ordered pool that keeps 1 GiB, and 3500 MiB are refused
 *      pools      two that hold 256 and 512 MiB, of which 512 are allocated
 *      import     512 MiB of a process that is forked first, by CUDA IPC
 */
#include "prog.h"

#include <sys/wait.h>
#include <unistd.h>

static void run_graph(size_t node)
{
    CUstream stream;
    CUgraph graph;
    CUgraphExec exec;
    CUdeviceptr at[3];
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    for (int i = 0; i < 3; i++)
        OK(cuMemAllocAsync(&at[i], node, stream));
    OK(cuMemsetD8Async(at[0], 0, MIB, stream));
    for (int i = 0; i < 3; i++)
        OK(cuMemFreeAsync(at[i], stream));
    OK(cuStreamEndCapture(stream, &graph));
    OK(cuGraphInstantiate(&exec, graph, 0));
    OK(cuGraphLaunch(exec, stream));
    OK(cuStreamSynchronize(stream));
}

static void graph(void)
{
    begin();
    run_graph(64 * MIB);
}

static void refused(void)
{
    CUdeviceptr plain, big;
    begin();
    OK(cuMemAlloc(&plain, 64 * MIB));
    run_graph(128 * MIB);
    IS(cuMemAlloc(&big, 3600 * MIB), CUDA_ERROR_OUT_OF_MEMORY);
}

static CUmemoryPool own_pool(CUstream *stream)
{
    CUmemoryPool pool;
    CUmemPoolProps what = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                           .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
    unsigned long long all = ~0ull;
    OK(cuStreamCreate(stream, CU_STREAM_NON_BLOCKING));
    OK(cuMemPoolCreate(&pool, &what));
    OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &all));
    return pool;
}

static void pool(void)
{
    CUstream stream;
    CUdeviceptr large, small, big;
    begin();
    CUmemoryPool pool = own_pool(&stream);
    OK(cuMemAllocFromPoolAsync(&large, 1024 * MIB, pool, stream));
    OK(cuMemAllocFromPoolAsync(&small, 64 * MIB, pool, stream));
    OK(cuMemFreeAsync(large, stream));
    OK(cuStreamSynchronize(stream));
    IS(cuMemAlloc(&big, 3500 * MIB), CUDA_ERROR_OUT_OF_MEMORY);
}

/* Two that keep 256 and 512 MiB. */
static void pools(void)
{
    CUstream stream;
    CUdeviceptr a, b;
    begin();
    CUmemoryPool small = own_pool(&stream), large = own_pool(&stream);
    OK(cuMemAllocFromPoolAsync(&a, 256 * MIB, small, stream));
    OK(cuMemAllocFromPoolAsync(&b, 512 * MIB, large, stream));
    OK(cuMemFreeAsync(a, stream));
    OK(cuStreamSynchronize(stream));
    OK(cuMemAlloc(&a, 2 * MIB));
}

static void import(void)
{
    int handles[2], done[2];
    CUipcMemHandle handle;
    CUdeviceptr theirs, own;
    CHECK(pipe(handles) == 0 && pipe(done) == 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        CHECK(read(done[0], &handle, 1) == 1); /* the file's name is its parent's */
        begin();
        OK(cuMemAlloc(&theirs, 512 * MIB));
        OK(cuIpcGetMemHandle(&handle, theirs));
        CHECK(write(handles[1], &handle, sizeof handle) == sizeof handle && read(done[0], &handle, 1) == 1);
        _exit(0);
    }
    begin();
    OK(cuMemAlloc(&own, 128 * MIB));
    CHECK(write(done[1], "x", 1) == 1);
    CHECK(read(handles[0], &handle, sizeof handle) == sizeof handle);
    OK(cuIpcOpenMemHandle(&theirs, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    OK(cuIpcCloseMemHandle(theirs));
    CHECK(write(done[1], "x", 1) == 1 && waitpid(child, NULL, 0) == child);
}

int main(int argc, char **argv)
{
    static const struct part parts[] = {
        {"graph", graph}, {"refused", refused}, {"pool", pool}, {"pools", pools}, {"import", import}};
    return play_part(argc, argv, parts, sizeof parts / sizeof *parts);
}
