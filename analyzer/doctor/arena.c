/*
 * arena.c - checks whether VRAMSCOPE_ALLOCATOR=arena can serve a device: the driver's features that it needs,
 * and address space.  It runs in a child process (gpu.c).
 *
 * The arena reserves windows of addresses with room for half as much again as the device: one per stream and
 * size class, and one for alias mappings.  There are more than enough addresses, but `ulimit -v` counts each
 * of them.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "doctor.h"
#include "base/units.h"

#define HAS_VMM     102    /* CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED */
#define RECOMMENDED 1      /* CU_MEM_ALLOC_GRANULARITY_RECOMMENDED */
#define MAPPINGS    450000 /* the arena's own limit, below the driver's */
#define WINDOWS     3 /* needed by every program: small and large blocks without a stream, alias mappings */

struct prop { /* CUmemAllocationProp */
    int type, handles, location, device;
    void *security;
    unsigned char flags[8];
};
typedef int (*attribute_fn)(int *, int, int);
typedef int (*granularity_fn)(size_t *, const struct prop *, int);
typedef int (*total_fn)(size_t *, int);
typedef int (*retain_fn)(void **, int);
typedef int (*current_fn)(void *);
typedef int (*reserve_fn)(unsigned long long *, size_t, size_t, unsigned long long, unsigned long long);
typedef int (*unreserve_fn)(unsigned long long, size_t);

#define NO_ARENA "VRAMSCOPE_ALLOCATOR=arena leaves this device to the driver's own allocator"

static bool has_vmm(void *cuda, int device)
{
    attribute_fn get = (attribute_fn)dlsym(cuda, "cuDeviceGetAttribute");
    int value = 0;
    return get && get(&value, HAS_VMM, device) == 0 && value && dlsym(cuda, "cuMemMap");
}

static size_t granule_of(void *cuda, int device)
{
    struct prop prop = {.type = 1, .location = 1, .device = device}; /* pinned, on the device */
    granularity_fn get = (granularity_fn)dlsym(cuda, "cuMemGetAllocationGranularity");
    size_t granule = 0;
    return get && get(&granule, &prop, RECOMMENDED) == 0 ? granule : 0;
}

/* The size of a window as the arena computes it: a power of two of granularity units. */
static size_t window_of(size_t total, size_t granule)
{
    size_t window = 64 * granule;
    while (window < total / 2 * 3)
        window *= 2;
    return window;
}

/* How many of WINDOWS windows can be reserved at once; -1: no context could be made. */
static int reserve(void *cuda, int device, size_t window)
{
    retain_fn retain = (retain_fn)dlsym(cuda, "cuDevicePrimaryCtxRetain");
    current_fn set = (current_fn)dlsym(cuda, "cuCtxSetCurrent");
    reserve_fn take = (reserve_fn)dlsym(cuda, "cuMemAddressReserve");
    unreserve_fn give = (unreserve_fn)dlsym(cuda, "cuMemAddressFree");
    unsigned long long at[WINDOWS];
    void *context;
    int n = 0;
    if (!retain || !set || !take || !give || retain(&context, device) != 0 || set(context) != 0)
        return -1;
    while (n < WINDOWS && take(&at[n], window, 0, 0, 0) == 0)
        n++;
    for (int i = 0; i < n; i++)
        give(at[i], window);
    return n;
}

static void say_addresses(struct doctor *d, const char *topic, size_t window, int got)
{
    struct rlimit limit = {RLIM_INFINITY, RLIM_INFINITY};
    getrlimit(RLIMIT_AS, &limit);
    bool limited = limit.rlim_cur != RLIM_INFINITY;
    char *todo = xformat("raise ulimit -v beyond %s, or do without VRAMSCOPE_ALLOCATOR=arena",
                         units_bytes((int64_t)window * (WINDOWS + 1), false).s);
    if (limited && limit.rlim_cur / WINDOWS < window)
        doctor_say(
            d, DOCTOR_WARN, topic, todo, "ulimit -v is %s: the arena reserves %s of addresses and more",
            units_bytes((int64_t)limit.rlim_cur, false).s, units_bytes((int64_t)window * WINDOWS, false).s);
    else if (got >= 0 && got < WINDOWS)
        doctor_say(d, DOCTOR_WARN, topic, NO_ARENA, "only %d of %d windows of %s could be reserved", got,
                   WINDOWS, units_bytes((int64_t)window, false).s);
    free(todo);
}

static void say_device(struct doctor *d, void *cuda, int device)
{
    total_fn get_total = (total_fn)dlsym(cuda, "cuDeviceTotalMem_v2");
    size_t total = 0, granule = granule_of(cuda, device);
    char *topic = xformat("arena %d", device);
    if (!has_vmm(cuda, device) || !granule || !get_total || get_total(&total, device) != 0) {
        doctor_say(d, DOCTOR_WARN, topic, NO_ARENA, "this device has no virtual memory management");
    } else {
        size_t before = d->count, window = window_of(total, granule);
        /* address space belongs to the process, so one context is enough */
        say_addresses(d, topic, window, d->quick || device > 0 ? -1 : reserve(cuda, device, window));
        if (total / granule > MAPPINGS / 2)
            doctor_say(d, DOCTOR_WARN, topic,
                       "expect alias mappings to be removed again: the report counts them",
                       "the device has %zu chunks, and at most %d can be mapped at a time", total / granule,
                       MAPPINGS);
        if (d->count == before)
            doctor_say(d, DOCTOR_OK, topic, NULL, "can serve: chunks of %s, windows of %s",
                       units_bytes((int64_t)granule, false).s, units_bytes((int64_t)window, false).s);
    }
    free(topic);
}

void doctor_arena(struct doctor *d, void *cuda, int devices)
{
    for (int i = 0; i < devices && i < 16; i++)
        say_device(d, cuda, i);
}
