/* life.c - what happens around memory, whoever serves it: life wait | capture | full | reset. */
#define _GNU_SOURCE
#include "kit.h"

#include <pthread.h>

/* ---- what a free waits for ---- */

/* Work on another block, in a stream that nothing else waits for. */
static void wait_of_free(void)
{
    CUdeviceptr p, q;
    CUstream stream;
    OK(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
    OK(cuMemAlloc, &p, 128 * MIB);
    OK(cuMemAlloc, &q, 4096);
    for (unsigned i = 0; i < 20; i++)
        OK(cuMemsetD32Async, p, i, 32 * MIB, stream);
    CUresult before = CU(cuStreamQuery, stream);
    OK(cuMemFree, q);
    CUresult after = CU(cuStreamQuery, stream);
    printf("~ the stream before the free: %s\n",
           before == CUDA_ERROR_NOT_READY ? "busy" : "done, so this shows nothing");
    verdict(after == CUDA_SUCCESS, "after a free all work is done");
    OK(cuMemFree, p);
    OK(cuStreamDestroy, stream);
}

/* ---- captures ---- */

static volatile bool go_on;

static void *allocate(void *context)
{
    CUdeviceptr p;
    long n = 0, refused = 0;
    OK(cuCtxSetCurrent, context);
    CUstreamCaptureMode relaxed = CU_STREAM_CAPTURE_MODE_RELAXED;
    OK(cuThreadExchangeStreamCaptureMode, &relaxed);
    for (; go_on; n++)
        if (CU(cuMemAlloc, &p, 3 * MIB) || CU(cuMemFree, p))
            refused++;
    printf("~ pairs in another thread meanwhile: %ld, refused: %ld\n", n, refused);
    return refused == 0 ? (void *)context : NULL;
}

static unsigned word_at(CUdeviceptr p)
{
    unsigned word = 0;
    OK(cuMemcpyDtoH, &word, p, 4);
    return word;
}

static void capture(CUcontext context)
{
    CUstream stream, other;
    CUgraph graph;
    CUgraphExec exec;
    CUdeviceptr p, q, r;
    pthread_t thread;
    void *good;
    OK(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
    OK(cuStreamCreate, &other, CU_STREAM_NON_BLOCKING);
    OK(cuMemAlloc, &p, 64 * MIB);
    go_on = true;
    pthread_create(&thread, NULL, allocate, context);
    for (unsigned i = 0; i < 20; i++) {
        OK(cuStreamBeginCapture, stream, CU_STREAM_CAPTURE_MODE_RELAXED);
        OK(cuMemsetD32Async, p, i, 16 * MIB, stream);
        OK(cuMemAllocAsync, &q, 8 * MIB, stream); /* a node */
        OK(cuMemsetD32Async, q, i, 2 * MIB, stream);
        OK(cuMemFreeAsync, q, stream);
        OK(cuMemAllocAsync, &r, 8 * MIB, other); /* not one */
        OK(cuMemFreeAsync, r, other);
        OK(cuStreamEndCapture, stream, &graph);
        OK(cuGraphInstantiate, &exec, graph, 0);
        OK(cuGraphLaunch, exec, stream);
        OK(cuStreamSynchronize, stream);
        if (word_at(p + 64 * MIB - 4) != i)
            die("the graph's word", 0, __LINE__);
        OK(cuGraphExecDestroy, exec);
        OK(cuGraphDestroy, graph);
    }
    go_on = false;
    pthread_join(thread, &good);
    verdict(good != NULL, "allocations go on in another thread while graphs are captured");
    OK(cuMemFree, p);
    verdict(true, "20 graphs captured, launched and right");
}

/* ---- memory that runs out ---- */

#define MANY 4096

static void fill_up(uint64_t piece)
{
    static CUdeviceptr p[MANY];
    unsigned n = 0;
    CUresult status;
    while (n < MANY && (status = CU(cuMemAlloc, &p[n], piece)) == CUDA_SUCCESS)
        n++;
    printf("~ %u pieces of %llu MiB until error %d, %llu MiB left\n", n, (unsigned long long)(piece / MIB),
           n < MANY ? (int)status : 0, (unsigned long long)(free_bytes() / MIB));
    verdict(n == MANY || status == CUDA_ERROR_OUT_OF_MEMORY, "a full device is out of memory");
    for (unsigned i = 0; i < n; i++)
        OK(cuMemFree, p[i]);
}

static CUmemAllocationProp on_device(void)
{
    return (CUmemAllocationProp){.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                 .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
}

/* All but 16 GiB of a large device in one handle: what is tried then is as good, and sooner over. */
static CUmemGenericAllocationHandle take_most(void)
{
    CUmemGenericAllocationHandle handle = 0;
    CUmemAllocationProp prop = on_device();
    uint64_t left = free_bytes(), keep = 16384 * MIB;
    if (left > 2 * keep)
        OK(cuMemCreate, &handle, (left - keep) / (2 * MIB) * (2 * MIB), &prop, 0);
    return handle;
}

/* What the arena holds and nobody uses must be there for whatever else takes memory. */
static void full(void)
{
    CUmemGenericAllocationHandle handle = 0;
    CUmemAllocationProp prop = on_device();
    CUarray array = NULL;
    CUdeviceptr p = 0;
    CUgraph graph;
    CUmemGenericAllocationHandle rest = take_most();
    uint64_t most = free_bytes() / 10 * 9 / (2 * MIB) * (2 * MIB);
    CUDA_ARRAY3D_DESCRIPTOR desc = {.Width = 16384,
                                    .Height = 16384,
                                    .Depth = most / 2 / 16384 / 16384 / 16,
                                    .Format = CU_AD_FORMAT_FLOAT,
                                    .NumChannels = 4};
    if (desc.Depth > 16384)
        desc.Depth = 16384;
    fill_up(1024 * MIB);
    verdict(CU(cuMemCreate, &handle, most, &prop, 0) == CUDA_SUCCESS, "cuMemCreate of what was freed");
    if (handle)
        OK(cuMemRelease, handle);
    fill_up(600 * MIB);
    verdict(CU(cuMemAlloc, &p, most) == CUDA_SUCCESS, "cuMemAlloc of what was freed, in one piece");
    if (p)
        OK(cuMemFree, p);
    if (desc.Depth) {
        verdict(CU(cuArray3DCreate, &array, &desc) == CUDA_SUCCESS, "an array of what was freed");
        if (array)
            OK(cuArrayDestroy, array);
    }
    fill_up(1024 * MIB);
    p = 0;
    OK(cuGraphCreate, &graph, 0);
    verdict(CU(cuMemAllocAsync, &p, most, NULL) == CUDA_SUCCESS, "cuMemAllocAsync of what was freed");
    if (p)
        OK(cuMemFreeAsync, p, NULL);
    OK(cuCtxSynchronize);
    OK(cuGraphDestroy, graph);
    CUcontext context = NULL;
    fill_up(1024 * MIB);
    verdict(CU(cuCtxCreate, &context, NULL, 0, 0) == CUDA_SUCCESS, "a context beside what is cached");
    if (context)
        OK(cuCtxDestroy, context);
    if (rest)
        OK(cuMemRelease, rest);
}

/* ---- the end of a context ---- */

static void reset(CUcontext context)
{
    CUdeviceptr p, q;
    uint64_t before = free_bytes();
    for (int i = 0; i < 3; i++) {
        OK(cuMemAlloc, &p, 4096 * MIB);
        OK(cuMemAllocAsync, &q, 100 * MIB, NULL);
        OK(cuMemsetD32, p, 1, 1024 * MIB);
        OK(cuDevicePrimaryCtxReset, 0);
        OK(cuDevicePrimaryCtxRetain, &context, 0);
        OK(cuCtxSetCurrent, context);
        uint64_t after = free_bytes();
        printf("~ after reset %d: %lld MiB fewer free than at the start\n", i + 1,
               (long long)(before - after) / (long long)MIB);
        verdict(after + 512 * MIB > before, "a reset gives all memory back");
    }
    verdict(CU(cuMemFree, p) != CUDA_SUCCESS, "memory of a context that is gone cannot be freed");
    OK(cuMemAlloc, &p, 64 * MIB);
    OK(cuMemsetD32, p, 9, 16 * MIB);
    verdict(word_at(p + 64 * MIB - 4) == 9, "memory after a reset");
    OK(cuMemFree, p);
}

int main(int argc, char **argv)
{
    const char *part = argc > 1 ? argv[1] : "";
    CUcontext context = begin();
    if (!strcmp(part, "wait"))
        wait_of_free();
    else if (!strcmp(part, "capture"))
        capture(context);
    else if (!strcmp(part, "full"))
        full();
    else if (!strcmp(part, "reset"))
        reset(context);
    else
        return 2;
    puts("done");
    return 0;
}
