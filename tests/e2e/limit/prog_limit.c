// link: cuda
/*
 * prog_limit.c ROAD MIB - takes device memory by ROAD, piece after piece, until it is refused,
 * and says what NVML then has for this process.
 *
 * "ok" if that is at most MIB, the limit, and the next piece would have passed it; the exit status is 1
 * otherwise. Then all is given back, and as much can be taken again.  For the simulated driver and a GPU
 * alike.
 */
#define _GNU_SOURCE
#include <cuda.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MIB    (1ull << 20)
#define PIECES 262144
#define CHECK(call)                                                                                          \
    do {                                                                                                     \
        CUresult status_ = (call);                                                                           \
        if (status_ != CUDA_SUCCESS)                                                                         \
            fail(#call, status_);                                                                            \
    } while (0)

static unsigned long long pieces[PIECES], piece = 20 * MIB;
static size_t taken;
static CUdevice device;
static CUstream stream;
static CUmemoryPool pool;

static void fail(const char *call, CUresult status)
{
    printf("FAIL %s: %d\n", call, status);
    exit(1);
}

/* ---- NVML: the list of processes, which vramscope does not change, and a device's memory, which it does
 * ---- */

struct process {
    unsigned pid;
    unsigned long long used;
    unsigned gpu_instance, compute_instance;
};
struct memory {
    unsigned long long total, free, used;
};

static int (*list)(void *, unsigned *, struct process *);
static int (*memory_info)(void *, struct memory *);
static void *handle;

static void open_nvml(void)
{
    void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW);
    int (*init)(void), (*find)(unsigned, void **);
    *(void **)&init = dlsym(library, "nvmlInit_v2");
    *(void **)&find = dlsym(library, "nvmlDeviceGetHandleByIndex_v2");
    *(void **)&list = dlsym(library, "nvmlDeviceGetComputeRunningProcesses_v3");
    *(void **)&memory_info = dlsym(library, "nvmlDeviceGetMemoryInfo");
    if (init() != 0 || find(0, &handle) != 0)
        handle = NULL;
}

static unsigned long long used(void)
{
    static long long (*simulated)(int);
    struct process all[256];
    unsigned n = 256;
    *(void **)&simulated = dlsym(RTLD_DEFAULT, "simcuda_used_bytes"); /* the simulated driver's own figure */
    if (simulated != NULL)
        return (unsigned long long)simulated(0);
    if (handle == NULL || list(handle, &n, all) != 0)
        return 0;
    for (unsigned i = 0; i < n; i++)
        if (all[i].pid == (unsigned)getpid())
            return all[i].used;
    return 0;
}

/* Whether NVML and the driver agree on what is free of LIMIT. */
static int told_alike(unsigned long long limit, unsigned long long free_bytes)
{
    struct memory m;
    return handle == NULL || (memory_info(handle, &m) == 0 && m.total == limit && m.free == free_bytes &&
                              m.used == limit - free_bytes);
}

/* ---- roads: each takes one more piece ---- */

static CUresult by_alloc(unsigned long long *out)
{
    return cuMemAlloc(out, piece);
}

static CUresult by_pitch(unsigned long long *out)
{
    size_t pitch;
    return cuMemAllocPitch(out, &pitch, 1000, piece / 1024, 4);
}

static CUresult by_create(unsigned long long *out)
{
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location = {CU_MEM_LOCATION_TYPE_DEVICE, device}};
    return cuMemCreate(out, piece, &prop, 0);
}

/* As inference servers do: in a thread without a context, beside memory that lies on the host. */
static CUresult by_create_alone(unsigned long long *out)
{
    CUmemAllocationProp host = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location = {CU_MEM_LOCATION_TYPE_HOST, 0}};
    unsigned long long beside;
    CHECK(cuCtxSetCurrent(NULL));
    CUresult status = cuMemCreate(&beside, 2 * MIB, &host, 0);
    if (status == CUDA_SUCCESS) /* older drivers have none */
        CHECK(cuMemRelease(beside));
    return by_create(out);
}

static CUresult by_pool(unsigned long long *out)
{
    return cuMemAllocAsync(out, piece, stream);
}

static CUresult by_own_pool(unsigned long long *out)
{
    return cuMemAllocFromPoolAsync(out, piece, pool, stream);
}

static CUresult by_array(unsigned long long *out)
{
    CUDA_ARRAY_DESCRIPTOR array = {2048, piece / 8192, CU_AD_FORMAT_FLOAT, 1};
    return cuArrayCreate((CUarray *)out, &array);
}

/* A graph whose allocation outlives its launch. */
static CUresult by_graph(unsigned long long *out)
{
    CUDA_MEM_ALLOC_NODE_PARAMS params = {.poolProps = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                                       .location = {CU_MEM_LOCATION_TYPE_DEVICE, device}},
                                         .bytesize = piece};
    CUgraph graph;
    CUgraphNode node;
    CUgraphExec exec;
    CHECK(cuGraphCreate(&graph, 0));
    CHECK(cuGraphAddMemAllocNode(&node, graph, NULL, 0, &params));
    CHECK(cuGraphInstantiateWithFlags(&exec, graph, 0));
    *out = params.dptr;
    CUresult status = cuGraphLaunch(exec, stream);
    cuStreamSynchronize(stream);
    return status;
}

static void give(unsigned long long one)
{
    CHECK(cuMemFree(one));
}

static void give_handle(unsigned long long one)
{
    CHECK(cuMemRelease(one));
}

static void give_ordered(unsigned long long one)
{
    CHECK(cuMemFreeAsync(one, stream));
}

static void give_array(unsigned long long one)
{
    CHECK(cuArrayDestroy((CUarray)one));
}

static const struct road {
    const char *name;
    CUresult (*take)(unsigned long long *);
    void (*give)(unsigned long long);
    unsigned long long piece;
} roads[] = {{"alloc", by_alloc, give, 20 * MIB},
             {"large", by_alloc, give, 300 * MIB},
             {"small", by_alloc, give, 4096},
             {"pitch", by_pitch, give, 20 * MIB},
             {"create", by_create, give_handle, 2 * MIB},
             {"create_alone", by_create_alone, give_handle, 34 * MIB},
             {"pool", by_pool, give_ordered, 20 * MIB},
             {"own_pool", by_own_pool, give_ordered, 7 * MIB},
             {"array", by_array, give_array, 8 * MIB},
             {"graph", by_graph, give_ordered, 32 * MIB},
             {"threads", by_alloc, give, 6 * MIB}};

static const struct road *road;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static CUcontext context;
static CUresult last;

static void *take_all(void *unused)
{
    unsigned long long one;
    CUresult status;
    CHECK(cuCtxSetCurrent(context));
    while ((status = road->take(&one)) == CUDA_SUCCESS) {
        pthread_mutex_lock(&lock);
        if (taken < PIECES)
            pieces[taken++] = one;
        pthread_mutex_unlock(&lock);
    }
    last = status;
    return NULL;
}

static void round_of(unsigned long long limit, const char *which)
{
    pthread_t threads[8];
    int n = strcmp(road->name, "threads") == 0 ? 8 : 1;
    taken = 0;
    for (int i = 0; i < n; i++)
        pthread_create(&threads[i], NULL, take_all, NULL);
    for (int i = 0; i < n; i++)
        pthread_join(threads[i], NULL);
    cuCtxSynchronize();
    unsigned long long now = used(), free_bytes = 0, total = 0;
    cuMemGetInfo((size_t *)&free_bytes, (size_t *)&total);
    unsigned long long slack = piece > 2 * MIB ? piece : 2 * MIB;
    if (strstr(road->name, "pool") || strcmp(road->name, "graph") == 0)
        slack += 32 * MIB; /* such memory is mapped in larger pieces */
    int good = last == CUDA_ERROR_OUT_OF_MEMORY && now <= limit && now + slack + 2 * MIB > limit &&
               total == limit && free_bytes <= limit - now && told_alike(limit, free_bytes);
    printf("%s %s %s: status %d, %zu pieces, %.1f of %.1f MiB, told %.1f free of %.1f\n",
           good ? "ok" : "FAIL", road->name, which, last, taken, (double)now / MIB, (double)limit / MIB,
           (double)free_bytes / MIB, (double)total / MIB);
    for (size_t i = 0; i < taken; i++)
        road->give(pieces[i]);
    cuCtxSynchronize();
    if (!good)
        exit(1);
}

int main(int argc, char **argv)
{
    unsigned long long limit = strtoull(argv[2], NULL, 10) * MIB;
    size_t total;
    open_nvml();
    CHECK(cuInit(0));
    CHECK(cuDeviceGet(&device, 0));
    CHECK(cuDeviceTotalMem(&total, device));
    CUresult status = cuDevicePrimaryCtxRetain(&context, device);
    if (strcmp(argv[1], "context") == 0) {
        printf("%s context: status %d, total %zu\n", status == CUDA_ERROR_OUT_OF_MEMORY ? "ok" : "FAIL",
               status, total);
        return status != CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (status != CUDA_SUCCESS)
        fail("context", status);
    CHECK(cuCtxSetCurrent(context));
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                            .location = {CU_MEM_LOCATION_TYPE_DEVICE, device}};
    CHECK(cuMemPoolCreate(&pool, &props));
    for (size_t i = 0; i < sizeof roads / sizeof *roads; i++)
        if (strcmp(roads[i].name, argv[1]) == 0)
            road = &roads[i];
    if (road == NULL)
        fail("road", 0);
    piece = road->piece;
    round_of(limit, "first");
    round_of(limit, "again");
    return 0;
}
