// link: cuda
/*
 * prog_arena_hostile PART - what no program should do, and some do: whoever serves the memory says the same.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "prog.h"

#define SAY(call) printf("%s: %d\n", #call, (int)(call))
#define THREADS   3

static CUcontext primary;

/* Before cuInit, and where that, or the first context, fails. */
static void init(void)
{
    CUdeviceptr p = 0, base;
    CUcontext context = NULL;
    size_t bytes;
    SAY(cuMemAlloc(&p, 4096));
    SAY(cuMemFree(0x7f0000000000));
    SAY(cuMemAllocAsync(&p, 4096, NULL));
    SAY(cuMemGetAddressRange(&base, &bytes, 4096));
    SAY(cuInit(0));
    SAY(cuMemAlloc(&p, 4096)); /* no context yet */
    SAY(cuMemFree(0));
    SAY(cuDevicePrimaryCtxRetain(&context, 0));
    SAY(cuCtxSetCurrent(context));
    SAY(cuMemAlloc(&p, 4096));
    SAY(cuMemFree(p));
    SAY(cuMemFree(p));
}

/* After a reset: the old blocks, the old context, a new arena beside them. */
static void stale(void)
{
    CUdeviceptr p, q, r, base = 0;
    CUcontext context;
    size_t bytes = 0;
    int device = -1;
    OK(cuMemAlloc(&p, 5 * MIB));
    OK(cuMemAllocAsync(&q, 5 * MIB, NULL));
    for (int round = 0; round < 3; round++) {
        SAY(cuDevicePrimaryCtxReset(0));
        SAY(cuMemAlloc(&r, MIB));
        SAY(cuMemFree(p));
        SAY(cuMemFreeAsync(q, NULL));
        OK(cuDevicePrimaryCtxRetain(&context, 0));
        OK(cuCtxSetCurrent(context));
        SAY(cuMemFree(p));
        SAY(cuMemFreeAsync(q, NULL));
        SAY(cuMemGetAddressRange(&base, &bytes, p + MIB));
        SAY(cuPointerGetAttribute(&device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, q));
        OK(cuMemAlloc(&p, 9 * MIB));
        OK(cuMemAllocAsync(&q, 9 * MIB, NULL));
        OK(cuMemsetD32(p, 3, MIB));
        SAY(cuMemFree(p + MIB));
    }
    SAY(cuMemFree(p));
    SAY(cuMemFreeAsync(q, NULL));
    OK(cuCtxSynchronize());
}

/* Nothing but contexts of the program's own. */
static void other(void)
{
    CUcontext context;
    CUdeviceptr p, q;
    CUstream stream;
    size_t pitch;
    OK(cuInit(0));
    OK(cuCtxCreate(&context, NULL, 0, 0));
    SAY(cuMemAlloc(&p, 5 * MIB));
    SAY(cuMemFree(p + 512));
    SAY(cuMemFree(p));
    SAY(cuMemFree(p));
    SAY(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    SAY(cuMemAllocAsync(&p, 5 * MIB, stream));
    SAY(cuMemFreeAsync(p, stream));
    SAY(cuMemAllocPitch(&p, &pitch, 1000, 10, 4));
    SAY(cuMemAlloc(&q, 3 * MIB));
    SAY(cuMemFree(p));
    SAY(cuCtxDestroy(context));
    SAY(cuMemFree(q));
    SAY(cuMemAlloc(&q, MIB));
    OK(cuCtxCreate(&context, NULL, 0, 0));
    SAY(cuMemFree(q));
    SAY(cuMemAlloc(&q, MIB));
    OK(cuCtxSetCurrent(NULL));
    SAY(cuMemFree(q));
    SAY(cuCtxDestroy(context));
    SAY(cuCtxDestroy(context));
    SAY(cuCtxSetCurrent(context));
    SAY(cuMemAlloc(&q, MIB));
}

/* Seventy contexts, each with memory, freed across. */
static void many(void)
{
    CUcontext context[70];
    CUdeviceptr p[70], mine;
    OK(cuMemAlloc(&mine, 5 * MIB));
    for (int i = 0; i < 70; i++) {
        OK(cuCtxCreate(&context[i], NULL, 0, 0));
        OK(cuMemAlloc(&p[i], MIB));
        OK(cuCtxPopCurrent(NULL));
    }
    OK(cuMemFree(mine));
    for (int i = 0; i < 70; i += 2)
        OK(cuMemFree(p[i]));
    for (int i = 0; i < 70; i++)
        OK(cuCtxDestroy(context[69 - i]));
    IS(cuMemFree(p[1]), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemAlloc(&mine, 5 * MIB));
    OK(cuMemFree(mine));
}

/* Blocks given to calls that are for other memory. */
static void wrong(void)
{
    CUdeviceptr p, piece;
    CUmemAccessDesc desc = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
                            .flags = CU_MEM_ACCESS_FLAGS_PROT_READ};
    CUmemPoolPtrExportData data;
    void *host = NULL;
    unsigned word = 0, flags;
    OK(cuMemAlloc(&p, 9 * MIB));
    OK(cuMemsetD32(p, 11, 9 * MIB / 4));
    piece = (p + 2 * MIB - 1) & ~(2 * MIB - 1);
    SAY(cuMemUnmap(piece, 2 * MIB));
    SAY(cuMemUnmap(piece, 4 * MIB));
    SAY(cuMemSetAccess(piece, 2 * MIB, &desc, 1));
    SAY(cuMemAddressFree(piece, 2 * MIB));
    SAY(cuMemFreeHost((void *)p));
    SAY(cuMemHostUnregister((void *)p));
    SAY(cuMemHostGetFlags(&flags, (void *)p));
    SAY(cuMemHostGetDevicePointer(&piece, (void *)p, 0) != CUDA_SUCCESS);
    SAY(cuIpcCloseMemHandle(p));
    SAY(cuMemPoolExportPointer(&data, p));
    SAY(cuArrayDestroy((CUarray)p) != CUDA_SUCCESS);
    OK(cuMemHostAlloc(&host, 4096, 0));
    SAY(cuMemFree((CUdeviceptr)host));
    SAY(cuMemFreeAsync((CUdeviceptr)host, NULL));
    OK(cuMemcpyDtoH(&word, p + 5 * MIB, 4));
    CHECK(word == 11);
    SAY(cuMemFree(p));
    SAY(cuMemUnmap(piece, 2 * MIB));
}

/* ---- threads ---- */

static atomic_bool done;

static void *churn(void *unused)
{
    CUdeviceptr p, q;
    if (cuCtxSetCurrent(primary) != CUDA_SUCCESS)
        return unused;
    while (!done) {
        if (cuMemAlloc(&p, 3 * MIB) == CUDA_SUCCESS)
            cuMemFree(p);
        if (cuMemAllocAsync(&q, 5 * MIB, NULL) == CUDA_SUCCESS)
            cuMemFreeAsync(q, NULL);
    }
    return unused;
}

static void start(pthread_t t[THREADS])
{
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_create(&t[i], NULL, churn, NULL) == 0);
}

static void stop(pthread_t t[THREADS])
{
    done = true;
    for (int i = 0; i < THREADS; i++)
        pthread_join(t[i], NULL);
}

/* A fork's child that does no CUDA ends as it likes, while threads of the parent allocate. */
static void child(void)
{
    pthread_t t[THREADS];
    start(t);
    for (int i = 0; i < 40; i++) {
        int status = -1;
        fflush(stdout);
        pid_t pid = fork();
        if (pid == 0) {
            alarm(120);
            i % 2 ? exit(7) : _exit(7);
        }
        CHECK(waitpid(pid, &status, 0) == pid);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 7);
    }
    stop(t);
}

/* Main returns while threads allocate. */
static void leave(void)
{
    pthread_t t[THREADS];
    start(t);
    usleep(20000);
}

static atomic_uint rung;

static void ring(int unused)
{
    rung++;
}

/* A signal every 100 microseconds. */
static void signals(void)
{
    struct sigaction act = {.sa_handler = ring};
    struct itimerval often = {{0, 100}, {0, 100}}, never = {{0, 0}, {0, 0}};
    pthread_t t[THREADS];
    CUdeviceptr p;
    sigaction(SIGALRM, &act, NULL);
    start(t);
    setitimer(ITIMER_REAL, &often, NULL);
    for (int i = 0; i < 2000; i++) {
        OK(cuMemAlloc(&p, (unsigned)(i % 9 + 1) * MIB));
        OK(i % 3 ? cuMemFree(p) : cuMemFreeAsync(p, NULL));
    }
    while (rung < 50)
        usleep(100);
    setitimer(ITIMER_REAL, &never, NULL);
    stop(t);
}

static void *endless(void *unused)
{
    churn(unused);
    return NULL;
}

/* The first block that is exported, and one more: what is done differs. */
static void *share_cancelled(void *address)
{
    CUipcMemHandle handle;
    if (cuCtxSetCurrent(primary) == CUDA_SUCCESS) {
        pthread_cancel(pthread_self());
        cuIpcGetMemHandle(&handle, *(CUdeviceptr *)address);
    }
    return NULL;
}

/* Threads are cancelled while they allocate and share.  Deferred cancellation: a thread may end in any call
 * of libc's that is a point of it. */
static void cancel(void)
{
    pthread_t t[THREADS];
    CUdeviceptr p, shared[2];
    for (int i = 0; i < 2; i++) {
        pthread_t one;
        OK(cuMemAlloc(&shared[i], 4096));
        CHECK(pthread_create(&one, NULL, share_cancelled, &shared[i]) == 0);
        pthread_join(one, NULL);
    }
    for (int i = 0; i < 2; i++) {
        CUipcMemHandle handle;
        OK(cuIpcGetMemHandle(&handle, shared[i]));
        OK(cuMemFree(shared[i]));
    }
    start(t);
    for (int i = 0; i < 100; i++) {
        pthread_t one;
        CUcontext context;
        CHECK(pthread_create(&one, NULL, endless, NULL) == 0);
        OK(cuCtxCreate(&context, NULL, 0, 0));
        usleep(200);
        OK(cuCtxDestroy(context));
        pthread_cancel(one);
        done = true; /* where nothing in it is a point */
        pthread_join(one, NULL);
        done = false;
        OK(cuMemAlloc(&p, 5 * MIB));
        OK(cuMemFree(p));
    }
    stop(t);
}

/* The driver is closed and opened again. */
static void reopen(void)
{
    for (int i = 0; i < 3; i++) {
        void *driver = dlopen("libcuda.so.1", RTLD_NOW);
        CHECK(driver);
        __typeof__(&cuMemAlloc) alloc = (__typeof__(&cuMemAlloc))dlsym(driver, "cuMemAlloc_v2");
        __typeof__(&cuMemFree) give = (__typeof__(&cuMemFree))dlsym(driver, "cuMemFree_v2");
        CUdeviceptr p, q;
        OK(alloc(&p, 5 * MIB));
        OK(cuMemAlloc(&q, 5 * MIB));
        OK(give(q));
        dlclose(driver);
        OK(cuMemFree(p));
    }
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*play)(void);
        bool bare;
    } parts[] = {{"init", init, true},     {"stale", stale, false},     {"other", other, true},
                 {"many", many, false},    {"wrong", wrong, false},     {"child", child, false},
                 {"exit", leave, false},   {"signals", signals, false}, {"cancel", cancel, false},
                 {"reopen", reopen, false}};
    for (unsigned i = 0; i < sizeof parts / sizeof *parts; i++)
        if (argc > 1 && strcmp(argv[1], parts[i].name) == 0) {
            if (!parts[i].bare) {
                begin();
                OK(cuCtxGetCurrent(&primary));
            }
            parts[i].play();
            puts("done");
            return 0;
        }
    return 2;
}
