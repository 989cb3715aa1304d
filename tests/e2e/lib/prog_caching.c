// link: cuda
/*
 * prog_caching.c native|expandable BLOCKS [kill|wait|forever] - a caching allocator on two threads that
 * reports each block as PyTorch's does.
 *
 * forever: until it is killed, with pauses that a ring of 1024 events can stand.  Prints its own counters
 * at its end: "allocations frees allocated max_allocated reserved max_reserved direct".  Without the shim
 * nobody has the report function, and nothing is reported.
 */
#define _GNU_SOURCE
#include "prog.h"

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#define GRANULE  (2 * MIB)
#define MAX_LIVE 64

struct device {
    int8_t type, index;
};
typedef void report_fn(void *, int64_t, size_t, size_t, struct device);

static struct {
    bool expandable, forever;
    CUdeviceptr spare[65][2 * MAX_LIVE]; /* forever: free blocks by size / 512 */
    int spares[65];
    CUdeviceptr base; /* expandable: the address range; native: the current segment */
    size_t used, end; /* of the current segment or the mapped part of the range */
    size_t allocations, frees, allocated, max_allocated, reserved, max_reserved, direct;
} a;
static report_fn *report;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static CUcontext context;

static void tell(CUdeviceptr p, int64_t size)
{
    if (report)
        report((void *)(uintptr_t)p, size, a.allocated, a.reserved, (struct device){1, 0});
}

static void grow_expandable(size_t size)
{
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    CUmemAccessDesc access = {.location = prop.location, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    size_t begin = a.end;
    if (!a.base)
        OK(cuMemAddressReserve(&a.base, 1024 * MIB, 0, 0, 0));
    for (; a.end - a.used < size; a.end += GRANULE) {
        CUmemGenericAllocationHandle handle;
        OK(cuMemCreate(&handle, GRANULE, &prop, 0));
        OK(cuMemMap(a.base + a.end, GRANULE, 0, handle, 0));
        OK(cuMemRelease(handle));
    }
    OK(cuMemSetAccess(a.base + begin, a.end - begin, &access, 1));
    a.reserved += a.end - begin;
}

static void grow_native(size_t size)
{
    size_t segment = size > 10 * MIB ? (size + GRANULE - 1) / GRANULE * GRANULE : 20 * MIB;
    OK(cuMemAlloc(&a.base, segment));
    a.used = 0;
    a.end = segment;
    a.reserved += segment;
}

static CUdeviceptr place(size_t size)
{
    if (a.spares[size / 512])
        return a.spare[size / 512][--a.spares[size / 512]];
    if (a.end - a.used < size)
        (a.expandable ? grow_expandable : grow_native)(size);
    a.used += size;
    return a.base + a.used - size;
}

static CUdeviceptr take(size_t size)
{
    pthread_mutex_lock(&mutex);
    CUdeviceptr p = place(size);
    a.allocations++;
    a.allocated += size;
    a.max_allocated = a.allocated > a.max_allocated ? a.allocated : a.max_allocated;
    a.max_reserved = a.reserved > a.max_reserved ? a.reserved : a.max_reserved;
    tell(p, (int64_t)size);
    pthread_mutex_unlock(&mutex);
    return p;
}

static void give_back(CUdeviceptr p, size_t size)
{
    pthread_mutex_lock(&mutex);
    a.frees++;
    a.allocated -= size;
    if (a.forever)
        a.spare[size / 512][a.spares[size / 512]++] = p;
    tell(p, -(int64_t)size);
    pthread_mutex_unlock(&mutex);
}

/* Some blocks live on, the rest come and go; now and then a library asks the driver itself. */
static void *work(void *count)
{
    CUdeviceptr live[MAX_LIVE] = {0};
    size_t size[MAX_LIVE];
    unsigned random = 1;
    OK(cuCtxSetCurrent(context));
    for (long i = 0; a.forever || i < (long)count; i++) {
        if (a.forever && i % 128 == 0)
            usleep(1000);
        unsigned at = (random = random * 1103515245 + 12345) >> 16 & (MAX_LIVE - 1);
        if (live[at])
            give_back(live[at], size[at]);
        size[at] = 512 * (1 + (random >> 8) % 64);
        live[at] = take(size[at]);
        if (i % 1000 == 999) {
            CUdeviceptr p;
            OK(cuMemAlloc(&p, 12345));
            __atomic_fetch_add(&a.direct, 12345, __ATOMIC_RELAXED);
        }
    }
    return NULL;
}

int main(int argc, char **argv)
{
    CHECK(argc >= 3);
    a.expandable = !strcmp(argv[1], "expandable");
    a.forever = argc > 3 && !strcmp(argv[3], "forever");
    report = (report_fn *)dlsym(RTLD_DEFAULT, "_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE");
    begin();
    OK(cuCtxGetCurrent(&context));
    pthread_t other;
    pthread_create(&other, NULL, work, (void *)atol(argv[2]));
    work((void *)atol(argv[2]));
    pthread_join(other, NULL);
    printf("%zu %zu %zu %zu %zu %zu %zu\n", a.allocations, a.frees, a.allocated, a.max_allocated, a.reserved,
           a.max_reserved, a.direct);
    fflush(stdout);
    if (argc > 3) {
        if (!strcmp(argv[3], "wait")) /* for whoever kills it */
            pause();
        kill(getpid(), SIGKILL);
    }
    return 0;
}
