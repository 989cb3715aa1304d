/*
 * expandable_fake.c oom|retry|grow - a caching allocator whose segments expand as those of libc10_cuda do.
 *
 * A segment is addresses for more than the device; physical pieces of 20 MiB are made until all are there
 * or the driver refuses, and only then mapped.  Refused, it gives back this request's pieces and its
 * cache, tries once more, and reports that it gives up.
 *
 *      oom     blocks of 100 MiB until none is left
 *      retry   400 MiB, freed and cached, then 800 MiB in another segment: refused at first
 *      grow    one block of 800 MiB, whose pieces take 50 ms each
 *
 * Prints its own counters: "max_allocated reserved direct".  ALLOCATOR and MAIN build its halves.
 */
#define _GNU_SOURCE
#include "prog.h"
#include <dlfcn.h>
#include <stdint.h>

#define PIECE (20 * MIB)
#define MOST  64

struct counters {
    size_t allocated, max_allocated, reserved;
};
struct segment {
    CUdeviceptr base;
    CUmemGenericAllocationHandle handle[MOST];
    size_t pieces, used; /* mapped from the base on; bytes of blocks likewise */
};
CUdeviceptr fake_malloc(struct segment *s, size_t size, unsigned pause_us);
void fake_free(struct segment *s, CUdeviceptr p, size_t size);
extern struct counters fake;
extern struct segment fake_segments[2];

#ifdef ALLOCATOR
struct device {
    int8_t type, index;
};
typedef void usage_fn(void *, int64_t, size_t, size_t, struct device);
typedef void oom_fn(int64_t, size_t, size_t, struct device);

struct counters fake;
struct segment fake_segments[2];
static const CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                         .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};

static void *report(const char *name)
{
    return dlsym(RTLD_DEFAULT, name);
}

static void tell(CUdeviceptr p, int64_t size)
{
    usage_fn *usage = (usage_fn *)report("_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE");
    fake.allocated += (size_t)size;
    if (fake.allocated > fake.max_allocated)
        fake.max_allocated = fake.allocated;
    if (usage)
        usage((void *)(uintptr_t)p, size, fake.allocated, fake.reserved, (struct device){1, 0});
}

static int map(struct segment *s, size_t to, unsigned pause_us)
{
    const CUmemAccessDesc access = {.location = prop.location, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    size_t from = s->pieces;
    for (size_t i = from; i < to; i++) {
        usleep(pause_us);
        if (cuMemCreate(&s->handle[i], PIECE, &prop, 0) == CUDA_SUCCESS)
            continue;
        for (size_t k = from; k < i; k++)
            OK(cuMemRelease(s->handle[k]));
        return 0;
    }
    for (size_t i = from; i < to; i++)
        OK(cuMemMap(s->base + i * PIECE, PIECE, 0, s->handle[i], 0));
    OK(cuMemSetAccess(s->base + from * PIECE, (to - from) * PIECE, &access, 1));
    s->pieces = to;
    fake.reserved += (to - from) * PIECE;
    return 1;
}

static void release_cached(void)
{
    for (int i = 0; i < 2; i++) {
        struct segment *s = &fake_segments[i];
        for (; s->used == 0 && s->pieces > 0; s->pieces--, fake.reserved -= PIECE) {
            OK(cuMemUnmap(s->base + (s->pieces - 1) * PIECE, PIECE));
            OK(cuMemRelease(s->handle[s->pieces - 1]));
        }
    }
}

CUdeviceptr fake_malloc(struct segment *s, size_t size, unsigned pause_us)
{
    oom_fn *oom = (oom_fn *)report("_ZN3c1027reportOutOfMemoryToProfilerElmmNS_6DeviceE");
    size_t pieces = (s->used + size + PIECE - 1) / PIECE;
    if (!s->base)
        OK(cuMemAddressReserve(&s->base, MOST * PIECE, 0, 0, 0));
    if (pieces > s->pieces && !map(s, pieces, pause_us)) {
        release_cached();
        if (!map(s, pieces, pause_us)) {
            if (oom)
                oom((int64_t)size, fake.allocated, fake.reserved, (struct device){1, 0});
            return 0;
        }
    }
    CUdeviceptr p = s->base + s->used;
    s->used += size;
    tell(p, (int64_t)size);
    return p;
}

void fake_free(struct segment *s, CUdeviceptr p, size_t size)
{
    s->used -= size;
    tell(p, -(int64_t)size);
}
#endif

#ifdef MAIN
int main(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "";
    struct segment *first = &fake_segments[0], *second = &fake_segments[1];
    CUdeviceptr direct;
    begin();
    OK(cuMemAlloc(&direct, 12345));
    go(1); /* whoever watches knows by now what the driver can be asked */
    fake_malloc(first, 512, 0);
    if (!strcmp(how, "oom")) {
        while (fake_malloc(first, 100 * MIB, 0)) {
        }
    } else if (!strcmp(how, "retry")) {
        fake_free(first, first->base, 512);
        fake_free(first, fake_malloc(first, 400 * MIB, 0), 400 * MIB);
        fake_malloc(second, 800 * MIB, 0);
    } else if (!strcmp(how, "grow")) {
        fake_malloc(second, 800 * MIB, 50000);
    }
    printf("%zu %zu 12345\n", fake.max_allocated, fake.reserved);
    return 0;
}
#endif
