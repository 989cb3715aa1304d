/*
 * static_cudart.cu - every kind of memory that the CUDA runtime and the driver give out, from a program with
 * a runtime inside (nvcc -cudart static).
 *
 *     static_cudart [all]             every section, then reset and what comes after it
 *     static_cudart open FD POOL_FD   the other process of the section on imports; reads the handles from FD
 *
 * A line per call, its name and status: the same with and without anything that watches. Multicast objects
 * are left alone: a mistake with them takes the machine.
 */
#include <cuda.h>
#include <cuda_runtime.h>
#include <dlfcn.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <thread>
#include <time.h>
#include <unistd.h>
#include <vector>

#define MiB       ((size_t)1 << 20)
#define TRY(call) (told(#call, (int)(call)))

extern char **environ;
static FILE *out = stdout;

static int told(const char *what, int status)
{
    fprintf(out, "%s: %d\n", what, status);
    return status;
}

__device__ char static_memory[16 * MiB];

__global__ void fill(float *p, size_t n, float value)
{
    size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    if (i < n)
        p[i] = value;
    if (i == 0)
        static_memory[0] = 1;
}

static void fill_all(void *p, size_t bytes, cudaStream_t stream = 0)
{
    size_t n = bytes / sizeof(float);
    fill<<<(unsigned)((n + 255) / 256), 256, 0, stream>>>((float *)p, n, 1.0f);
}

/* A driver function by its name, as NCCL and new PyTorch get theirs. */
template <typename F> static F driver(const char *name, unsigned version)
{
    void *function = nullptr;
    cudaDriverEntryPointQueryResult found;
    if (cudaGetDriverEntryPointByVersion(name, &function, version, cudaEnableDefault, &found) !=
            cudaSuccess ||
        found != cudaDriverEntryPointSuccess)
        fprintf(out, "%s: no such driver function\n", name);
    return (F)function;
}
#define DRIVER(name, version) driver<decltype(&name)>(#name, version)

/* ---- the sections; what they keep lives until the reset ---- */

static void plain()
{
    void *a, *b, *pitched;
    size_t pitch;
    cudaPitchedPtr volume;
    TRY(cudaMalloc(&a, 64 * MiB));
    TRY(cudaMalloc(&b, 12345));
    fill_all(a, 64 * MiB);
    TRY(cudaMallocPitch(&pitched, &pitch, 1000, 300));
    fprintf(out, "pitch %zu\n", pitch);
    TRY(cudaMalloc3D(&volume, make_cudaExtent(500, 60, 7)));
    TRY(cudaFree(b));
    TRY(cudaFree(nullptr));
    TRY(cudaFree(volume.ptr));
    void *refused = nullptr;
    TRY(cudaMalloc(&refused, (size_t)1 << 44));
    cudaGetLastError();
    TRY(cudaFree((void *)0x1234560000));
    cudaGetLastError();
    TRY(cudaDeviceSynchronize());
}

static void arrays()
{
    cudaArray_t two, three, layered, cube;
    cudaMipmappedArray_t levels;
    cudaChannelFormatDesc four = cudaCreateChannelDesc<float4>(),
                          one = cudaCreateChannelDesc<unsigned char>();
    TRY(cudaMallocArray(&two, &four, 1024, 1024));
    TRY(cudaMalloc3DArray(&three, &one, make_cudaExtent(100, 90, 80)));
    TRY(cudaMalloc3DArray(&layered, &four, make_cudaExtent(256, 256, 6), cudaArrayLayered));
    TRY(cudaMalloc3DArray(&cube, &four, make_cudaExtent(128, 128, 6), cudaArrayCubemap));
    TRY(cudaMallocMipmappedArray(&levels, &four, make_cudaExtent(1024, 1024, 0), 5));
    TRY(cudaFreeArray(three));
    TRY(cudaFreeArray(cube));
    TRY(cudaFreeMipmappedArray(levels));
    TRY(cudaMallocMipmappedArray(&levels, &one, make_cudaExtent(512, 256, 0), 3));
}

static void host()
{
    void *pinned, *mapped, *kept, *managed;
    TRY(cudaMallocHost(&pinned, 9 * MiB));
    TRY(cudaHostAlloc(&mapped, 3 * MiB, cudaHostAllocMapped | cudaHostAllocPortable));
    TRY(cudaHostAlloc(&kept, 5 * MiB, cudaHostAllocWriteCombined));
    void *own = aligned_alloc(4096, 4 * MiB), *own2 = aligned_alloc(4096, MiB);
    TRY(cudaHostRegister(own, 4 * MiB, cudaHostRegisterDefault));
    TRY(cudaHostRegister(own, 4 * MiB, cudaHostRegisterDefault));
    cudaGetLastError();
    TRY(cudaHostRegister(own2, MiB, cudaHostRegisterPortable));
    TRY(cudaHostUnregister(own));
    TRY(cudaFreeHost(pinned));
    TRY(cudaFreeHost(mapped));
    TRY(cudaMallocManaged(&managed, 4 * MiB));
    fill_all(managed, 4 * MiB);
    TRY(cudaDeviceSynchronize());
    TRY(cudaFree(managed));
    TRY(cudaMallocManaged(&managed, 2 * MiB, cudaMemAttachHost));
    free(own);
}

static cudaMemPool_t new_pool(cudaMemAllocationHandleType handles)
{
    cudaMemPool_t pool = nullptr;
    cudaMemPoolProps props = {};
    props.allocType = cudaMemAllocationTypePinned;
    props.location.type = cudaMemLocationTypeDevice;
    props.handleTypes = handles;
    TRY(cudaMemPoolCreate(&pool, &props));
    return pool;
}

static void pools()
{
    cudaStream_t stream;
    void *a, *b, *c, *d;
    cuuint64_t keep = 256 * MiB;
    TRY(cudaStreamCreate(&stream));
    TRY(cudaMallocAsync(&a, 40 * MiB, stream));
    fill_all(a, 40 * MiB, stream);
    TRY(cudaFreeAsync(a, stream));
    TRY(cudaMallocAsync(&b, 10 * MiB, cudaStreamPerThread));
    TRY(cudaMallocAsync(&c, 1000, 0));
    cudaMemPool_t pool = new_pool(cudaMemHandleTypeNone);
    TRY(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &keep));
    TRY(cudaMallocFromPoolAsync(&d, 70 * MiB, pool, stream));
    TRY(cudaFreeAsync(d, stream));
    TRY(cudaStreamSynchronize(stream));
    TRY(cudaMemPoolTrimTo(pool, 0));
    TRY(cudaMallocFromPoolAsync(&d, 30 * MiB, pool, stream));
    cudaMemPool_t before;
    TRY(cudaDeviceGetMemPool(&before, 0));
    TRY(cudaDeviceSetMemPool(0, pool));
    TRY(cudaMallocAsync(&a, 5 * MiB, stream));
    TRY(cudaDeviceSetMemPool(0, before));
    TRY(cudaFree(a)); /* a plain free of stream-ordered memory */
    TRY(cudaFreeAsync(c, 0));
    TRY(cudaFreeAsync(d, stream));
    TRY(cudaStreamSynchronize(stream));
    TRY(cudaMemPoolDestroy(pool));
    TRY(cudaDeviceGetDefaultMemPool(&before, 0));
    TRY(cudaMemPoolTrimTo(before, 0));
}

static void virtual_memory()
{
    auto reserve = DRIVER(cuMemAddressReserve, 10020);
    auto create = DRIVER(cuMemCreate, 10020);
    auto map = DRIVER(cuMemMap, 10020);
    auto access = DRIVER(cuMemSetAccess, 10020);
    auto unmap = DRIVER(cuMemUnmap, 10020);
    auto release = DRIVER(cuMemRelease, 10020);
    auto unreserve = DRIVER(cuMemAddressFree, 10020);
    auto retain = DRIVER(cuMemRetainAllocationHandle, 11000);
    auto give = DRIVER(cuMemExportToShareableHandle, 10020);
    auto take = DRIVER(cuMemImportFromShareableHandle, 10020);
    CUdeviceptr at = 0;
    CUmemGenericAllocationHandle first = 0, second = 0, again = 0, imported = 0;
    CUmemAllocationProp prop = {};
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
    prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    CUmemAccessDesc rights = {prop.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    int fd = -1;
    TRY(reserve(&at, 64 * MiB, 0, 0, 0));
    TRY(create(&first, 20 * MiB, &prop, 0));
    TRY(create(&second, 4 * MiB, &prop, 0));
    TRY(map(at, 20 * MiB, 0, first, 0));
    TRY(map(at + 20 * MiB, 4 * MiB, 0, second, 0));
    TRY(access(at, 24 * MiB, &rights, 1));
    fill_all((void *)at, 24 * MiB);
    TRY(cudaDeviceSynchronize());
    TRY(retain(&again, (void *)at));
    TRY(release(again));
    TRY(release(second)); /* its mapping keeps it alive */
    TRY(give(&fd, first, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    TRY(take(&imported, (void *)(uintptr_t)fd, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
    close(fd);
    TRY(release(imported));
    TRY(unmap(at + 20 * MiB, 4 * MiB));
    TRY(unmap(at, 20 * MiB));
    TRY(release(first));
    TRY(unreserve(at, 64 * MiB));
    TRY(reserve(&at, 16 * MiB, 0, 0, 0)); /* and one that lives on */
    TRY(create(&first, 16 * MiB, &prop, 0));
    TRY(map(at, 16 * MiB, 0, first, 0));
    TRY(access(at, 16 * MiB, &rights, 1));
}

static void hand_made_graph()
{
    cudaGraph_t graph, other;
    cudaGraphExec_t run, run_other;
    cudaGraphNode_t a, b, c;
    cudaStream_t stream;
    cudaMemAllocNodeParams p = {}, q = {};
    p.poolProps.allocType = q.poolProps.allocType = cudaMemAllocationTypePinned;
    p.poolProps.location.type = q.poolProps.location.type = cudaMemLocationTypeDevice;
    p.bytesize = 48 * MiB;
    q.bytesize = 24 * MiB;
    TRY(cudaStreamCreate(&stream));
    TRY(cudaGraphCreate(&graph, 0));
    TRY(cudaGraphAddMemAllocNode(&a, graph, nullptr, 0, &p));
    TRY(cudaGraphAddMemFreeNode(&b, graph, &a, 1, p.dptr));
    TRY(cudaGraphAddMemAllocNode(&c, graph, &b, 1, &q)); /* outlives the launch */
    TRY(cudaGraphInstantiate(&run, graph, 0));
    TRY(cudaGraphUpload(run, stream));
    TRY(cudaGraphLaunch(run, stream));
    TRY(cudaStreamSynchronize(stream));
    TRY(cudaGraphLaunch(run, stream)); /* refused: its memory is alive */
    cudaGetLastError();
    TRY(cudaGraphCreate(&other, 0)); /* another graph gives it back */
    TRY(cudaGraphAddMemFreeNode(&a, other, nullptr, 0, q.dptr));
    TRY(cudaGraphInstantiate(&run_other, other, 0));
    TRY(cudaGraphLaunch(run_other, stream));
    TRY(cudaGraphLaunch(run, stream));
    TRY(cudaFreeAsync(q.dptr, stream)); /* and a plain free */
    TRY(cudaStreamSynchronize(stream));
    TRY(cudaGraphExecDestroy(run));
    TRY(cudaGraphExecDestroy(run_other));
    TRY(cudaGraphDestroy(graph));
    TRY(cudaGraphDestroy(other));
    TRY(cudaDeviceGraphMemTrim(0));
}

static void captured_graph()
{
    cudaGraph_t graph;
    cudaGraphExec_t run;
    cudaStream_t stream;
    void *inside, *outliving;
    TRY(cudaStreamCreate(&stream));
    TRY(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    TRY(cudaMallocAsync(&inside, 32 * MiB, stream));
    fill_all(inside, 32 * MiB, stream);
    TRY(cudaFreeAsync(inside, stream));
    TRY(cudaMallocAsync(&outliving, 8 * MiB, stream));
    fill_all(outliving, 8 * MiB, stream);
    TRY(cudaStreamEndCapture(stream, &graph));
    TRY(cudaGraphInstantiate(&run, graph, cudaGraphInstantiateFlagAutoFreeOnLaunch));
    for (int i = 0; i < 3; i++)
        TRY(cudaGraphLaunch(run, stream));
    TRY(cudaStreamSynchronize(stream));
    TRY(cudaFreeAsync(outliving, stream));
    TRY(cudaStreamSynchronize(stream));
    TRY(cudaGraphExecDestroy(run));
    TRY(cudaGraphDestroy(graph));
}

/* ---- memory of another process ---- */

struct handles {
    cudaIpcMemHandle_t plain;
    cudaMemPoolPtrExportData pooled;
};

static int open_them(int fd, int pool_fd)
{
    struct handles h;
    void *p, *q;
    cudaMemPool_t pool;
    if (read(fd, &h, sizeof h) != sizeof h)
        return 1;
    setvbuf(out, nullptr, _IOLBF, 0); /* whatever ends it, what it did is told */
    TRY(cudaIpcOpenMemHandle(&p, h.plain, cudaIpcMemLazyEnablePeerAccess));
    fill_all(p, MiB);
    TRY(cudaDeviceSynchronize());
    TRY(cudaIpcCloseMemHandle(p));
    TRY(cudaMemPoolImportFromShareableHandle(&pool, (void *)(uintptr_t)pool_fd,
                                             cudaMemHandleTypePosixFileDescriptor, 0));
    if (TRY(cudaMemPoolImportPointer(&q, pool, &h.pooled)) == 0) {
        cudaMemAccessDesc rights = {{cudaMemLocationTypeDevice, 0}, cudaMemAccessFlagsProtReadWrite};
        TRY(cudaMemPoolSetAccess(pool, &rights, 1));
        TRY(cudaFreeAsync(q, 0));
    }
    TRY(cudaDeviceSynchronize());
    return 0;
}

static void imports(const char *self)
{
    struct handles h = {};
    void *mine, *pooled;
    int ends[2], fd = -1, status = 0;
    pid_t child;
    char numbers[2][16];
    TRY(cudaMalloc(&mine, 24 * MiB));
    TRY(cudaIpcGetMemHandle(&h.plain, mine));
    cudaMemPool_t pool = new_pool(cudaMemHandleTypePosixFileDescriptor);
    TRY(cudaMallocFromPoolAsync(&pooled, 6 * MiB, pool, 0));
    TRY(cudaDeviceSynchronize());
    TRY(cudaMemPoolExportToShareableHandle(&fd, pool, cudaMemHandleTypePosixFileDescriptor, 0));
    TRY(cudaMemPoolExportPointer(&h.pooled, pooled));
    if (pipe(ends) != 0 || write(ends[1], &h, sizeof h) != sizeof h)
        exit(1);
    fd = dup(fd); /* without close-on-exec */
    snprintf(numbers[0], sizeof numbers[0], "%d", ends[0]);
    snprintf(numbers[1], sizeof numbers[1], "%d", fd);
    char *argv[] = {(char *)self, (char *)"open", numbers[0], numbers[1], nullptr};
    fflush(out);
    if (posix_spawn(&child, self, nullptr, nullptr, argv, environ) == 0)
        waitpid(child, &status, 0);
    fprintf(out, "the other process ended with %d\n", status);
    close(ends[0]);
    close(ends[1]);
    close(fd);
    TRY(cudaFreeAsync(pooled, 0));
    TRY(cudaFree(mine));
    TRY(cudaDeviceSynchronize());
    TRY(cudaMemPoolDestroy(pool));
}

/* ---- threads, contexts, limits ---- */

static void several_threads()
{
    std::vector<std::thread> threads;
    for (int t = 0; t < 8; t++)
        threads.emplace_back([t] {
            for (int i = 0; i < 50; i++) {
                void *p, *q, *h;
                cudaMalloc(&p, (size_t)(1 + t) * 100000 + i);
                cudaMallocAsync(&q, (size_t)(1 + i) * 4096, cudaStreamPerThread);
                cudaMallocHost(&h, 4096);
                cudaFree(p);
                cudaFreeAsync(q, cudaStreamPerThread);
                cudaFreeHost(h);
            }
        });
    for (auto &t : threads)
        t.join();
    fprintf(out, "threads: %d\n", (int)cudaDeviceSynchronize());
}

static void another_context()
{
    auto create = DRIVER(cuCtxCreate, 12050);
    auto destroy = DRIVER(cuCtxDestroy, 4000);
    auto allocate = DRIVER(cuMemAlloc, 3020);
    auto set = DRIVER(cuCtxSetCurrent, 4000);
    auto get = DRIVER(cuCtxGetCurrent, 4000);
    CUcontext before = nullptr, second = nullptr;
    CUdeviceptr p = 0;
    TRY(get(&before));
    if (TRY(create(&second, nullptr, 0, 0)) != 0)
        return;
    TRY(allocate(&p, 32 * MiB)); /* goes with its context */
    TRY(destroy(second));
    TRY(set(before));
}

static void limits()
{
    TRY(cudaDeviceSetLimit(cudaLimitStackSize, 2048));
    TRY(cudaDeviceSetLimit(cudaLimitPrintfFifoSize, 4 * MiB));
    TRY(cudaDeviceSetLimit(cudaLimitMallocHeapSize, 16 * MiB));
}

static void mark()
{
    const char *folder = getenv("ORACLE_FACTS");
    struct timespec t;
    char path[4096];
    fflush(out);
    usleep(400000);
    if (folder == nullptr)
        return;
    snprintf(path, sizeof path, "%s/facts-%d.json", folder, (int)getpid());
    FILE *f = fopen(path, "w");
    clock_gettime(CLOCK_MONOTONIC, &t);
    if (f != nullptr) { /* NVML's figure comes from the recording's own sample of this moment */
        fprintf(f,
                "{\"pid\": %d, \"t_ns\": %lld, \"device\": 0, \"process_used\": null, \"device_used\": null, "
                "\"counters\": {}}\n",
                (int)getpid(), (long long)t.tv_sec * 1000000000 + t.tv_nsec);
        fclose(f);
    }
}

static void after_reset()
{
    void *p;
    TRY(cudaDeviceReset());
    TRY(cudaMalloc(&p, 7 * MiB));
    TRY(cudaFree(p));
    TRY(cudaMalloc(&p, 3 * MiB));
}

int main(int argc, char **argv)
{
    if (argc == 4 && strcmp(argv[1], "open") == 0)
        return open_them(atoi(argv[2]), atoi(argv[3]));
    if (TRY(cudaSetDevice(0)) != 0)
        return 1;
    plain();
    arrays();
    host();
    pools();
    virtual_memory();
    hand_made_graph();
    captured_graph();
    imports("/proc/self/exe");
    several_threads();
    limits();
    another_context();
    mark();
    after_reset();
    return 0;
}
