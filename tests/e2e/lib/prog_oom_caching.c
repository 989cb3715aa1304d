// link: cuda
/*
 * prog_oom_caching.c HOW [kill] - a caching allocator that runs out of memory as PyTorch's does.
 *
 * Refused by the driver, it gives back segments without blocks, asks once more, then reports and gives up.
 * On a device of 1 GiB, whose context takes 64 MiB, it has three segments of 300 MiB, and then
 *      absorb      one without blocks is given back, and the next 256 MiB fit
 *      giveup      none can be given back: asks for 512 MiB
 *      fragmented  each holds one small block: asks for 400 MiB
 *      limit       its own limit: the driver is not asked
 *      caught      gives up, frees everything, and goes on
 * Prints its counters of that moment: "allocated reserved blocks".
 */
#define _GNU_SOURCE
#include "prog.h"

#include <dlfcn.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#define SEGMENTS 3
#define SEGMENT  (300 * MIB)

struct device {
    int8_t type, index;
};
typedef void usage_fn(void *, int64_t, size_t, size_t, struct device);
typedef void oom_fn(int64_t, size_t, size_t, struct device);

static usage_fn *usage;
static oom_fn *oom;
static CUdeviceptr segment[SEGMENTS];
static size_t used[SEGMENTS]; /* bytes of blocks in it */
static size_t allocated, reserved, blocks;

static void tell(CUdeviceptr p, int64_t size)
{
    allocated += (size_t)size;
    blocks += size > 0 ? 1 : -1;
    if (usage)
        usage((void *)(uintptr_t)p, size, allocated, reserved, (struct device){1, 0});
}

static void take(int i, size_t offset, size_t size)
{
    used[i] += size;
    tell(segment[i] + offset, (int64_t)size);
}

static void give_back(int i, size_t offset, size_t size)
{
    used[i] -= size;
    tell(segment[i] + offset, -(int64_t)size);
}

static void make_segment(int i)
{
    OK(cuMemAlloc(&segment[i], SEGMENT));
    reserved += SEGMENT;
}

static void release_cached(void)
{
    for (int i = 0; i < SEGMENTS; i++) {
        if (!segment[i] || used[i])
            continue;
        OK(cuMemFree(segment[i]));
        segment[i] = 0;
        reserved -= SEGMENT;
    }
}

/* The allocator's malloc; 0 where it gives up. */
static CUdeviceptr request(size_t size, int limited)
{
    CUdeviceptr p = 0;
    if (!limited && cuMemAlloc(&p, size) != CUDA_SUCCESS) {
        release_cached();
        if (cuMemAlloc(&p, size) != CUDA_SUCCESS)
            p = 0;
    }
    if (p) {
        reserved += size;
        tell(p, (int64_t)size);
    } else if (oom) {
        oom((int64_t)size, allocated, reserved, (struct device){1, 0});
    }
    return p;
}

static void fill(const char *how)
{
    int small = !strcmp(how, "fragmented");
    for (int i = 0; i < SEGMENTS; i++) {
        make_segment(i);
        take(i, 0, small ? 64 * MIB : SEGMENT);
        if (!small)
            continue;
        take(i, 64 * MIB, MIB);
        give_back(i, 0, 64 * MIB);
    }
    if (!strcmp(how, "absorb"))
        give_back(1, 0, SEGMENT);
}

int main(int argc, char **argv)
{
    CHECK(argc >= 2);
    const char *how = argv[1];
    usage = (usage_fn *)dlsym(RTLD_DEFAULT, "_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE");
    oom = (oom_fn *)dlsym(RTLD_DEFAULT, "_ZN3c1027reportOutOfMemoryToProfilerElmmNS_6DeviceE");
    begin();
    CUdeviceptr direct;
    OK(cuMemAlloc(&direct, 12345));
    fill(how);
    size_t size = !strcmp(how, "absorb") ? 256 * MIB : !strcmp(how, "fragmented") ? 400 * MIB : 512 * MIB;
    CUdeviceptr p = request(size, !strcmp(how, "limit"));
    printf("%zu %zu %zu\n", allocated, reserved, blocks);
    fflush(stdout);
    if (!strcmp(how, "caught")) {
        for (int i = 0; i < SEGMENTS; i++)
            give_back(i, 0, SEGMENT);
        p = request(size, 0);
    }
    if (argc > 2)
        kill(getpid(), SIGKILL);
    return p ? 0 : 1;
}
