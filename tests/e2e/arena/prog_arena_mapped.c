// link: cuda
/*
 * prog_arena_mapped PART - what the arena maps, for whom and until when.  Under the shim with the arena only:
 * it asks how the memory is mapped.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

#include "prog.h"

/* ---- peers ---- */

static int reaches(int device, CUdeviceptr p)
{
    CUmemLocation from = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device};
    unsigned long long flags = 0;
    OK(cuMemGetAccess(&flags, &from, p));
    return flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
}

/* A second device reaches all of it, in whatever order that was asked for. */
static void peers(void)
{
    CUcontext context[2];
    CUdeviceptr before, after, far;
    CUmemoryPool pool;
    CUmemAccessDesc desc = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
                            .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    OK(cuCtxGetCurrent(&context[0]));
    OK(cuDevicePrimaryCtxRetain(&context[1], 1));
    OK(cuMemAlloc(&before, 3 * MIB));
    CHECK(!reaches(1, before));
    OK(cuCtxSetCurrent(context[1]));
    OK(cuCtxEnablePeerAccess(context[0], 0)); /* from device 1, to what is there already */
    OK(cuCtxSetCurrent(context[0]));
    OK(cuMemAlloc(&after, 30 * MIB));
    CHECK(reaches(1, before) && reaches(1, after) && reaches(1, after + 29 * MIB));
    OK(cuDeviceGetDefaultMemPool(&pool, 1));
    OK(cuMemPoolSetAccess(pool, &desc, 1)); /* from device 0, before device 1 has any */
    OK(cuCtxSetCurrent(context[1]));
    OK(cuMemAllocAsync(&far, 5 * MIB, NULL));
    CHECK(reaches(1, far) && reaches(0, far));
    OK(cuMemFreeAsync(far, NULL));
    OK(cuMemFree(after)); /* of the other device */
    OK(cuCtxSetCurrent(context[0]));
    OK(cuCtxEnablePeerAccess(context[1], 0));
    IS(cuCtxEnablePeerAccess(context[1], 0), CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
    OK(cuCtxSetCurrent(context[1]));
    OK(cuMemAlloc(&far, 5 * MIB));
    CHECK(reaches(0, far));
    OK(cuMemFree(far));
    OK(cuCtxSetCurrent(context[0]));
    OK(cuMemFree(before));
}

/* A free waits for that device, though nothing was ever allocated there. Run with a failing second wait: of
 * the first free, the one for the device that may reach the memory. */
static void far(void)
{
    CUcontext context, other;
    CUdeviceptr p;
    OK(cuCtxGetCurrent(&context));
    OK(cuDevicePrimaryCtxRetain(&other, 1));
    OK(cuMemAlloc(&p, 3 * MIB));
    OK(cuCtxSetCurrent(other));
    OK(cuCtxEnablePeerAccess(context, 0));
    OK(cuCtxSetCurrent(context));
    IS(cuMemFree(p), CUDA_ERROR_LAUNCH_FAILED);
    OK(cuCtxGetCurrent(&other));
    CHECK(other == context);
    OK(cuMemFree(p));
    OK(cuMemAlloc(&p, 3 * MIB));
    OK(cuDevicePrimaryCtxReset(1)); /* nobody is there to be waited for */
    OK(cuMemFree(p));
}

/* PyTorch's blocks that were exported are free when PyTorch frees them. */
static void exported(void)
{
    void *(*take)(ssize_t, int, CUstream) = dlsym(RTLD_DEFAULT, "vramscope_torch_malloc");
    void (*give)(void *, ssize_t, int, CUstream) = dlsym(RTLD_DEFAULT, "vramscope_torch_free");
    CUdeviceptr p;
    CHECK(take && give);
    for (int i = 0; i < 40; i++) { /* ten times what the device has */
        CUipcMemHandle handle;
        void *block = take(100 * MIB, 0, NULL);
        CHECK(block != NULL);
        OK(cuIpcGetMemHandle(&handle, (CUdeviceptr)block));
        give(block, 100 * MIB, 0, NULL);
    }
    OK(cuMemAlloc(&p, 300 * MIB));
    OK(cuMemFree(p));
}

/* ---- captures ---- */

static int is_mapped(void)
{
    CUdeviceptr p;
    unsigned long long flags = 0;
    CUmemLocation here = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0};
    OK(cuMemAlloc(&p, MIB));
    CUresult status = cuMemGetAccess(&flags, &here, p & ~(2 * MIB - 1));
    OK(cuMemFree(p));
    return status == CUDA_SUCCESS;
}

static void *end_elsewhere(void *stream)
{
    CUgraph graph;
    CUcontext context;
    OK(cuDevicePrimaryCtxRetain(&context, 0));
    OK(cuCtxSetCurrent(context));
    CHECK(cuStreamEndCapture(stream, &graph) != CUDA_SUCCESS);
    return NULL;
}

/* Captures that fail, or end in other ways, are over. */
static void captures(void)
{
    CUstream a, b;
    CUgraph graph;
    CUcontext context;
    pthread_t thread;
    OK(cuStreamCreate(&a, CU_STREAM_NON_BLOCKING));
    OK(cuStreamCreate(&b, CU_STREAM_NON_BLOCKING));
    CHECK(is_mapped());
    for (int i = 0; i < 3; i++) { /* ends of nothing */
        CHECK(cuStreamEndCapture(a, &graph) != CUDA_SUCCESS);
        CHECK(cuStreamEndCapture(NULL, &graph) != CUDA_SUCCESS);
        CHECK(cuStreamBeginCapture(NULL, CU_STREAM_CAPTURE_MODE_RELAXED) != CUDA_SUCCESS);
    }
    CHECK(is_mapped());
    OK(cuStreamBeginCapture(a, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    CHECK(cuStreamBeginCapture(a, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL) != CUDA_SUCCESS);
    CHECK(pthread_create(&thread, NULL, end_elsewhere, a) == 0);
    pthread_join(thread, NULL);
    CHECK(cuStreamEndCapture(b, &graph) != CUDA_SUCCESS);
    OK(cuStreamEndCapture(a, &graph));
    OK(cuGraphDestroy(graph));
    CHECK(is_mapped());
    OK(cuStreamBeginCapture(a, CU_STREAM_CAPTURE_MODE_RELAXED));
    CHECK(!is_mapped()); /* the driver serves meanwhile */
    OK(cuStreamDestroy(a));
    CHECK(is_mapped());
    OK(cuStreamBeginCapture(b, CU_STREAM_CAPTURE_MODE_RELAXED));
    OK(cuDevicePrimaryCtxReset(0));
    OK(cuDevicePrimaryCtxRetain(&context, 0));
    OK(cuCtxSetCurrent(context));
    CHECK(is_mapped());
}

int main(int argc, char **argv)
{
    static const struct part parts[] = {
        {"peers", peers}, {"far", far}, {"exported", exported}, {"captures", captures}};
    begin();
    return play_part(argc, argv, parts, sizeof parts / sizeof *parts);
}
