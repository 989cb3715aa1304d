// link: cuda
/*
 * prog_uncached silent|told BLOCKS [kill] - an allocator that caches nothing, on two threads: each block is
 * an allocation of the driver's, of a whole size.
 *
 * silent: it reports nothing, as PyTorch with PYTORCH_NO_CUDA_MEMORY_CACHING=1.  told: it reports every
 * block as well, with the totals, so that each is seen twice.  Prints "allocations frees allocated
 * max_allocated" at the end, or just before it kills itself.
 */
#define _GNU_SOURCE
#include "prog.h"

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#define MAX_LIVE 48

struct device {
    int8_t type, index;
};
typedef void report_fn(void *, int64_t, size_t, size_t, struct device);

static report_fn *report;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static size_t allocations, frees, allocated, max_allocated;
static CUcontext context;

static CUdeviceptr take(size_t size)
{
    CUdeviceptr p;
    pthread_mutex_lock(&mutex);
    OK(cuMemAlloc(&p, size));
    allocations++;
    allocated += size;
    max_allocated = allocated > max_allocated ? allocated : max_allocated;
    if (report)
        report((void *)(uintptr_t)p, (int64_t)size, allocated, allocated, (struct device){1, 0});
    pthread_mutex_unlock(&mutex);
    return p;
}

static void give_back(CUdeviceptr p, size_t size)
{
    pthread_mutex_lock(&mutex);
    frees++;
    allocated -= size;
    if (report)
        report((void *)(uintptr_t)p, -(int64_t)size, allocated, allocated + size, (struct device){1, 0});
    OK(cuMemFree(p));
    pthread_mutex_unlock(&mutex);
}

static void *work(void *count)
{
    CUdeviceptr live[MAX_LIVE] = {0};
    size_t size[MAX_LIVE];
    unsigned random = 1;
    OK(cuCtxSetCurrent(context));
    for (long i = 0; i < (long)count; i++) {
        unsigned at = (random = random * 1103515245 + 12345) >> 16 & 31;
        if (live[at])
            give_back(live[at], size[at]);
        size[at] = 512 * (1 + (random >> 8) % 6000);
        live[at] = take(size[at]);
    }
    for (unsigned i = 0; i < MAX_LIVE; i += 2)
        if (live[i])
            give_back(live[i], size[i]);
    return NULL;
}

int main(int argc, char **argv)
{
    CHECK(argc >= 3);
    if (!strcmp(argv[1], "told"))
        report = (report_fn *)dlsym(RTLD_DEFAULT, "_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE");
    begin();
    OK(cuCtxGetCurrent(&context));
    pthread_t other;
    pthread_create(&other, NULL, work, (void *)atol(argv[2]));
    work((void *)atol(argv[2]));
    pthread_join(other, NULL);
    printf("%zu %zu %zu %zu\n", allocations, frees, allocated, max_allocated);
    fflush(stdout);
    if (argc > 3)
        kill(getpid(), SIGKILL);
    return 0;
}
