// link: cuda
/*
 * prog_arena_world PART - memory among contexts, pools, threads, processes.  What a program may rely on,
 * whoever serves it.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "prog.h"

#define THREADS 4

static unsigned word_at(CUdeviceptr p)
{
    unsigned word = 0;
    OK(cuMemcpyDtoH(&word, p, 4));
    return word;
}

/* Allocated in one context, freed and used in another; contexts that end. */
static void contexts(void)
{
    CUcontext primary, other;
    CUdeviceptr p, q, r;
    OK(cuCtxGetCurrent(&primary));
    OK(cuMemAlloc(&p, 6 * MIB));
    OK(cuMemAlloc(&r, 6 * MIB));
    OK(cuCtxCreate(&other, NULL, 0, 0));
    OK(cuMemAlloc(&q, 6 * MIB));
    OK(cuMemsetD32(p, 7, MIB));
    CHECK(word_at(p + 4 * MIB - 4) == 7);
    OK(cuMemFree(p)); /* the primary's, with another one current */
    OK(cuCtxSetCurrent(primary));
    OK(cuMemFree(q)); /* and the other way round */
    OK(cuCtxSetCurrent(other));
    OK(cuMemAlloc(&q, 6 * MIB));
    OK(cuCtxDestroy(other)); /* its memory goes along, the primary's stays */
    OK(cuCtxSetCurrent(primary));
    IS(cuMemFree(q), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemsetD32(r, 8, MIB));
    CHECK(word_at(r) == 8);
    OK(cuMemAlloc(&q, 6 * MIB));
    OK(cuCtxSetCurrent(NULL));
    OK(cuMemFree(q)); /* the driver lets a thread without a context do so */
    IS(cuMemAlloc(&p, 4096), CUDA_ERROR_INVALID_CONTEXT);
    IS(cuMemFreeAsync(r, NULL), CUDA_ERROR_INVALID_CONTEXT);
    OK(cuCtxSetCurrent(primary));
    OK(cuMemFree(r));
}

/* ---- a reset under way ---- */

static atomic_bool done;

/* On a busy machine the device is full for a moment: what a reset ended is still being given back. */
static CUcontext retain(void)
{
    CUcontext context;
    CUresult status;
    while ((status = cuDevicePrimaryCtxRetain(&context, 0)) == CUDA_ERROR_OUT_OF_MEMORY)
        usleep(1000);
    OK(status);
    return context;
}

static void *churn(void *unused)
{
    CUcontext context = retain();
    OK(cuCtxSetCurrent(context));
    while (!done) {
        CUdeviceptr p[4] = {0}, base;
        size_t bytes;
        for (int i = 0; i < 4; i++)
            if (cuMemAlloc(&p[i], (unsigned)(i + 1) * MIB) != CUDA_SUCCESS)
                p[i] = 0;
        for (int i = 0; i < 4; i++) { /* errors are all right: a crash is not */
            if (p[i])
                cuMemGetAddressRange(&base, &bytes, p[i]);
            if (p[i] && i % 2)
                cuMemFreeAsync(p[i], NULL);
            else if (p[i])
                cuMemFree(p[i]);
        }
    }
    return unused;
}

/* The primary context is reset while other threads allocate and free. */
static void race(void)
{
    pthread_t t[THREADS];
    CUcontext context;
    CUdeviceptr p;
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_create(&t[i], NULL, churn, NULL) == 0);
    for (int i = 0; i < 40; i++) {
        usleep(5000);
        OK(cuDevicePrimaryCtxReset(0));
        context = retain();
    }
    done = true;
    for (int i = 0; i < THREADS; i++)
        pthread_join(t[i], NULL);
    OK(cuDevicePrimaryCtxReset(0));
    context = retain();
    OK(cuCtxSetCurrent(context));
    OK(cuMemAlloc(&p, 16 * MIB));
    OK(cuMemsetD32(p, 5, 4 * MIB));
    CHECK(word_at(p + 16 * MIB - 4) == 5);
    OK(cuMemFree(p));
}

/* ---- fork ---- */

/* The driver cannot be used there; nor may anything hang, or harm what is the parent's. */
static void child(CUdeviceptr p)
{
    CUdeviceptr q = 0, base;
    CUipcMemHandle handle;
    size_t bytes;
    CUresult status[] = {cuMemFree(p),
                         cuMemAlloc(&q, 4096),
                         cuMemFreeAsync(p, NULL),
                         cuMemAllocAsync(&q, 4096, NULL),
                         cuMemGetAddressRange(&base, &bytes, p),
                         cuMemGetInfo(&bytes, &bytes),
                         cuIpcGetMemHandle(&handle, p),
                         cuIpcCloseMemHandle(p)};
    for (unsigned i = 0; i < sizeof status / sizeof *status; i++)
        if (status[i] != CUDA_ERROR_NOT_INITIALIZED) {
            fprintf(stderr, "call %u in a fork's child: %d\n", i, status[i]);
            _exit(1);
        }
    _exit(0);
}

static void *spin(void *context)
{
    CUdeviceptr p;
    OK(cuCtxSetCurrent(context));
    while (!done) {
        OK(cuMemAlloc(&p, 3 * MIB));
        OK(cuMemFree(p));
    }
    return NULL;
}

/* A child that inherits everything frees its parent's memory, while threads of that allocate. */
static void forked(void)
{
    pthread_t t[THREADS];
    CUdeviceptr p;
    CUcontext context;
    OK(cuCtxGetCurrent(&context));
    OK(cuMemAlloc(&p, 2 * MIB));
    OK(cuMemsetD32(p, 11, MIB / 2));
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_create(&t[i], NULL, spin, context) == 0);
    for (int i = 0; i < 60; i++) { /* some of them while a thread is inside */
        int status;
        pid_t pid = fork();
        CHECK(pid >= 0);
        if (pid == 0) {
            alarm(120);
            child(p);
        }
        CHECK(waitpid(pid, &status, 0) == pid);
        CHECK(status == 0);
    }
    done = true;
    for (int i = 0; i < THREADS; i++)
        pthread_join(t[i], NULL);
    CHECK(word_at(p) == 11);
    OK(cuMemFree(p));
}

/* ---- after main ---- */

static CUdeviceptr late[3];
static CUresult answer = CUDA_SUCCESS;

__attribute__((destructor)) static void free_late(void)
{
    for (int i = 0; i < 3; i++)
        if (late[i])
            CHECK(cuMemFree(late[i]) == answer);
}

/* Blocks freed by a destructor that runs after main. */
static void after_main(void)
{
    for (unsigned i = 0; i < 3; i++)
        OK(cuMemAlloc(&late[i], (i + 1) * 3 * MIB));
}

/* The same, when the driver has shut down. */
static void after_the_driver(void)
{
    after_main();
    answer = CUDA_ERROR_DEINITIALIZED;
}

/* ---- pools ---- */

static cuuint64_t figure(CUmemoryPool pool, CUmemPool_attribute attribute)
{
    cuuint64_t value = ~0ull;
    OK(cuMemPoolGetAttribute(pool, attribute, &value));
    return value;
}

static void other_pool(CUmemoryPool normal)
{
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                            .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
    CUmemoryPool own, current;
    CUdeviceptr p, q;
    OK(cuMemPoolCreate(&own, &props));
    OK(cuMemAllocFromPoolAsync(&p, 5 * MIB, own, NULL));
    CHECK(figure(own, CU_MEMPOOL_ATTR_USED_MEM_CURRENT) == 5 * MIB);
    OK(cuDeviceSetMemPool(0, own));
    OK(cuMemAllocAsync(&q, 7 * MIB, NULL));
    CHECK(figure(own, CU_MEMPOOL_ATTR_USED_MEM_CURRENT) == 12 * MIB);
    CHECK(figure(normal, CU_MEMPOOL_ATTR_USED_MEM_CURRENT) == 0);
    OK(cuMemFreeAsync(p, NULL));
    OK(cuMemFree(q));
    OK(cuMemPoolDestroy(own)); /* the default one is current again */
    OK(cuDeviceGetMemPool(&current, 0));
    CHECK(current == normal);
    OK(cuMemAllocAsync(&q, 7 * MIB, NULL));
    CHECK(figure(normal, CU_MEMPOOL_ATTR_USED_MEM_CURRENT) == 7 * MIB);
    OK(cuMemFreeAsync(q, NULL));
}

/* The default pool by its names, another current pool, figures, trim. */
static void pools(void)
{
    CUmemoryPool pool;
    CUdeviceptr p, q, direct;
    cuuint64_t zero = 0;
    OK(cuDeviceGetDefaultMemPool(&pool, 0));
    OK(cuMemAlloc(&direct, 20 * MIB)); /* no pool's */
    OK(cuMemAllocAsync(&p, 3 * MIB, NULL));
    OK(cuMemAllocFromPoolAsync(&q, 10 * MIB, pool, NULL));
    CHECK(figure(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT) == 13 * MIB);
    CHECK(figure(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) >= 13 * MIB);
    CHECK(figure(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH) >= 13 * MIB);
    OK(cuMemFreeAsync(q, NULL));
    OK(cuMemFree(p)); /* by either name */
    OK(cuCtxSynchronize());
    CHECK(figure(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT) == 0);
    CHECK(figure(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH) == 13 * MIB);
    OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &zero));
    CHECK(figure(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH) == 0);
    OK(cuMemPoolTrimTo(pool, 0));
    CHECK(figure(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) == 0);
    OK(cuMemsetD32(direct, 1, 5 * MIB)); /* stays, of course */
    OK(cuMemFree(direct));
    other_pool(pool);
}

/* Memory of one device used and freed in a stream of another. */
static void streams(void)
{
    CUcontext first, second;
    CUstream there;
    CUdeviceptr p, q;
    int device = -1;
    OK(cuCtxGetCurrent(&first));
    OK(cuDevicePrimaryCtxRetain(&second, 1));
    OK(cuCtxSetCurrent(second));
    OK(cuMemAlloc(&q, MIB));
    OK(cuStreamCreate(&there, CU_STREAM_NON_BLOCKING));
    OK(cuCtxSetCurrent(first));
    OK(cuMemAllocAsync(&p, 4 * MIB, there)); /* on the stream's device */
    OK(cuPointerGetAttribute(&device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, p));
    CHECK(device == 1);
    OK(cuMemFreeAsync(p, there));
    OK(cuMemAllocAsync(&p, 4 * MIB, NULL));
    OK(cuMemFreeAsync(p, there)); /* of this device, in a stream of that one */
    OK(cuMemFree(q));
    OK(cuStreamDestroy(there));
    OK(cuCtxSynchronize());
}

/* ---- memory that is short ---- */

static void fill_up(void)
{
    static CUdeviceptr p[4096];
    unsigned n = 0;
    while (n < 4096 && cuMemAlloc(&p[n], 8 * MIB) == CUDA_SUCCESS)
        n++;
    CHECK(n > 10);
    for (unsigned i = 0; i < n; i++)
        OK(cuMemFree(p[i]));
}

/* Everything cached is there for what the arena does not serve. Each takes nearly all: what is cached must be
 * given back first. */
static void is_short(void)
{
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
    CUDA_ARRAY_DESCRIPTOR desc = {.Width = 16384, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 4};
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                            .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
    CUmemGenericAllocationHandle handle;
    CUmemoryPool pool;
    CUarray array;
    CUdeviceptr p;
    CUgraph graph;
    CUgraphExec exec;
    CUDA_MEM_ALLOC_NODE_PARAMS node = {.poolProps = props};
    CUgraphNode n;
    size_t left, total;
    OK(cuMemGetInfo(&left, &total));
    size_t most = left / 8 * 7 / (2 * MIB) * (2 * MIB);
    fill_up();
    OK(cuMemCreate(&handle, most, &prop, 0));
    OK(cuMemRelease(handle));
    fill_up();
    desc.Height = most / 16384 / 16;
    OK(cuArrayCreate(&array, &desc));
    OK(cuArrayDestroy(array));
    fill_up();
    OK(cuMemPoolCreate(&pool, &props));
    OK(cuMemAllocFromPoolAsync(&p, most, pool, NULL));
    OK(cuMemFreeAsync(p, NULL));
    OK(cuMemPoolDestroy(pool));
    fill_up();
    node.bytesize = most;
    OK(cuGraphCreate(&graph, 0));
    OK(cuGraphAddMemAllocNode(&n, graph, NULL, 0, &node));
    OK(cuGraphInstantiate(&exec, graph, CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH));
    OK(cuGraphLaunch(exec, NULL));
    OK(cuMemFree(node.dptr));
    OK(cuGraphExecDestroy(exec));
    OK(cuGraphDestroy(graph));
    OK(cuDeviceGraphMemTrim(0));
    IS(cuMemCreate(&handle, total * 2, &prop, 0), CUDA_ERROR_OUT_OF_MEMORY);
}

/* Managed and host memory. */
static void managed(void)
{
    CUdeviceptr p;
    void *host;
    int is = 0;
    OK(cuMemAllocManaged(&p, 5 * MIB, CU_MEM_ATTACH_GLOBAL));
    OK(cuPointerGetAttribute(&is, CU_POINTER_ATTRIBUTE_IS_MANAGED, p + MIB));
    CHECK(is);
    *(volatile int *)p = 3;
    OK(cuMemFree(p));
    OK(cuMemHostAlloc(&host, 5 * MIB, 0));
    IS(cuMemFree((CUdeviceptr)host), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemFreeHost(host));
}

int main(int argc, char **argv)
{
    static const struct part parts[] = {
        {"contexts", contexts},     {"race", race},   {"fork", forked},     {"late", after_main},
        {"gone", after_the_driver}, {"pools", pools}, {"streams", streams}, {"short", is_short},
        {"managed", managed}};
    begin();
    return play_part(argc, argv, parts, sizeof parts / sizeof *parts);
}
