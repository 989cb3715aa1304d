/*
 * random_blocks.c - a caching allocator as PyTorch's, under one mutex per device: native segments, or one
 * address range per device that grows by granules. Where the driver refuses it gives back what lies idle,
 * asks again, and only then gives up.
 *
 *     segment DEVICE CONTEXT ADDRESS SIZE STATUS
 *     block DEVICE ADDRESS SIZE ALLOCATED RESERVED     unblock, oom likewise
 */
#include "random.h"

#include <pthread.h>

#define GRANULE  (2 * MIB)
#define RANGE    (128 * GRANULE)
#define SEGMENTS 64
#define PIECES   512
#define MAPPED   1

struct c10_device {
    int8_t type, index;
};
__attribute__((weak)) void
usage(void *, int64_t, size_t, size_t,
      struct c10_device) __asm__("_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE");
__attribute__((weak)) void
    gave_up(int64_t, size_t, size_t,
            struct c10_device) __asm__("_ZN3c1027reportOutOfMemoryToProfilerElmmNS_6DeviceE");

__attribute__((weak)) int vramscope_auto_allocator(unsigned op, int device, uint64_t number, uint64_t more,
                                                   const char *key, const char *value);

struct segment {
    uint64_t base, size,
        handle; /* handle: of a granule, 0 a native segment, MAPPED: only its mapping is left */
};
struct piece { /* of a segment: a block, or free */
    uint64_t address, size;
    bool used;
};
static struct cache {
    pthread_mutex_t lock;
    struct segment segment[SEGMENTS];
    struct piece piece[PIECES];
    int segments, pieces;
    uint64_t range, allocated, reserved, peak;
} caches[DEVICES] = {{.lock = PTHREAD_MUTEX_INITIALIZER}, {.lock = PTHREAD_MUTEX_INITIALIZER}};

static struct c10_device on(int device)
{
    return (struct c10_device){1, (int8_t)device};
}

static void told(struct task *t, const struct cache *c, const char *verb, int device, uint64_t address,
                 uint64_t size)
{
    say(t, "%s %d %llu %llu %llu %llu", verb, device, (unsigned long long)address, (unsigned long long)size,
        (unsigned long long)c->allocated, (unsigned long long)c->reserved);
}

/* ---- from the driver ---- */

static bool native(struct task *t, struct cache *c, int device, uint64_t size)
{
    CUdeviceptr p = 0;
    size = size > 10 * MIB ? (size + GRANULE - 1) / GRANULE * GRANULE : size <= MIB ? 2 * MIB : 20 * MIB;
    if (c->segments == SEGMENTS || c->pieces == PIECES)
        return false;
    takes(device, size);
    CUresult result = cuMemAlloc(&p, size);
    took(device, size, result == CUDA_SUCCESS);
    say(t, "segment %d %llu %llu %llu %d", device, (unsigned long long)owner(t), (unsigned long long)p,
        (unsigned long long)size, result);
    if (result != CUDA_SUCCESS)
        return false;
    c->segment[c->segments++] = (struct segment){p, size, 0};
    c->piece[c->pieces++] = (struct piece){p, size, false};
    c->reserved += size;
    return true;
}

static CUmemGenericAllocationHandle made(struct task *t, int device)
{
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device}};
    CUmemGenericAllocationHandle h = 0;
    takes(device, GRANULE);
    CUresult result = cuMemCreate(&h, GRANULE, &prop, 0);
    took(device, GRANULE, result == CUDA_SUCCESS);
    say(t, "create %llu %llu %d %d M", (unsigned long long)h, (unsigned long long)GRANULE, device, result);
    return result == CUDA_SUCCESS ? h : 0;
}

static bool map(struct task *t, uint64_t at, CUmemGenericAllocationHandle h)
{
    CUresult result = cuMemMap(at, GRANULE, 0, h, 0);
    say(t, "map %llu %llu %llu %d", (unsigned long long)at, (unsigned long long)GRANULE,
        (unsigned long long)h, result);
    return result == CUDA_SUCCESS;
}

/* LAST: no mapping holds it. */
static void release(struct task *t, int device, CUmemGenericAllocationHandle h, bool last)
{
    CUresult result;
    do {
        if (last)
            gives(device, GRANULE);
        result = cuMemRelease(h);
        if (last)
            gave(device, GRANULE, result == CUDA_SUCCESS);
        say(t, "release %llu %d", (unsigned long long)h, result);
    } while (result != CUDA_SUCCESS);
}

static bool granule(struct task *t, struct cache *c, int device, uint64_t at)
{
    CUmemGenericAllocationHandle h = made(t, device);
    if (!h)
        return false;
    bool mapped = map(t, at, h);
    release(t, device, h, !mapped);
    if (mapped)
        c->segment[c->segments++] = (struct segment){at, GRANULE, MAPPED};
    return mapped;
}

static void unmap(struct task *t, struct cache *c, int device, int i)
{
    CUresult result;
    struct segment s = c->segment[i];
    do {
        if (s.handle == MAPPED)
            gives(device, GRANULE);
        result = cuMemUnmap(s.base, GRANULE);
        if (s.handle == MAPPED)
            gave(device, GRANULE, result == CUDA_SUCCESS);
        say(t, "unmap %llu %llu %d", (unsigned long long)s.base, (unsigned long long)GRANULE, result);
    } while (result != CUDA_SUCCESS);
    if (s.handle != MAPPED)
        release(t, device, s.handle, true);
    c->segment[i] = c->segment[--c->segments];
}

/* N granules from AT on, one by one. */
static bool each(struct task *t, struct cache *c, int device, uint64_t at, uint64_t n)
{
    int before = c->segments;
    for (uint64_t i = 0; i < n; i++)
        if (!granule(t, c, device, at + i * GRANULE)) {
            while (c->segments > before)
                unmap(t, c, device, c->segments - 1);
            return false;
        }
    return true;
}

/* The same, all of them made before the first is mapped. */
static bool together(struct task *t, struct cache *c, int device, uint64_t at, uint64_t n)
{
    CUmemGenericAllocationHandle handle[SEGMENTS];
    uint64_t have = 0, mapped = 0;
    while (have < n && (handle[have] = made(t, device)))
        have++;
    while (have == n && mapped < n && map(t, at + mapped * GRANULE, handle[mapped])) {
        c->segment[c->segments++] = (struct segment){at + mapped * GRANULE, GRANULE, handle[mapped]};
        mapped++;
    }
    if (mapped == n)
        return true;
    for (uint64_t i = mapped; i < have; i++)
        release(t, device, handle[i], true);
    for (; mapped; mapped--)
        unmap(t, c, device, c->segments - 1);
    return false;
}

/* As many granules in a row as are needed, or none. */
static bool expand(struct task *t, struct cache *c, int device, uint64_t size)
{
    uint64_t n = (size + GRANULE - 1) / GRANULE, at;
    if (!c->range) {
        CUdeviceptr p = 0;
        CUresult result = cuMemAddressReserve(&p, RANGE, 0, 0, 0);
        say(t, "reserve %llu %llu %d", (unsigned long long)p, (unsigned long long)RANGE, result);
        c->range = p;
    }
    if (!c->range || c->segments + (int)n > SEGMENTS || c->pieces == PIECES)
        return false;
    at = c->range;
    for (int i = 0; i < c->segments; i++) /* behind what is mapped */
        if (c->segment[i].base + GRANULE > at)
            at = c->segment[i].base + GRANULE;
    if (at + n * GRANULE > c->range + RANGE)
        return false;
    if (!(world.together ? together : each)(t, c, device, at, n))
        return false;
    c->piece[c->pieces++] = (struct piece){at, n * GRANULE, false};
    c->reserved += n * GRANULE;
    return true;
}

/* ---- giving back what lies idle ---- */

static bool idle(const struct cache *c, const struct segment *s)
{
    for (int i = 0; i < c->pieces; i++)
        if (c->piece[i].used && c->piece[i].address < s->base + s->size &&
            s->base < c->piece[i].address + c->piece[i].size)
            return false;
    return true;
}

/* The free pieces lose what lay in [START, END). */
static void cut(struct cache *c, uint64_t start, uint64_t end)
{
    for (int i = c->pieces; i-- > 0;) {
        struct piece *p = &c->piece[i], was = *p;
        if (was.used || was.address >= end || was.address + was.size <= start)
            continue;
        *p = c->piece[--c->pieces];
        if (was.address < start)
            c->piece[c->pieces++] = (struct piece){was.address, start - was.address, false};
        if (was.address + was.size > end && c->pieces < PIECES)
            c->piece[c->pieces++] = (struct piece){end, was.address + was.size - end, false};
    }
}

static void trim(struct task *t, struct cache *c, int device)
{
    for (int i = c->segments; i-- > 0;) {
        struct segment s = c->segment[i];
        if (!idle(c, &s))
            continue;
        cut(c, s.base, s.base + s.size);
        c->reserved -= s.size;
        if (s.handle) {
            unmap(t, c, device, i);
            continue;
        }
        CUresult result;
        do {
            gives(device, s.size);
            result = cuMemFree(s.base);
            gave(device, s.size, result == CUDA_SUCCESS);
            say(t, "free %llu %d", (unsigned long long)s.base, result);
        } while (result != CUDA_SUCCESS);
        c->segment[i] = c->segment[--c->segments];
    }
}

/* ---- blocks ---- */

static struct piece *fitting(struct cache *c, uint64_t size)
{
    for (int i = 0; i < c->pieces; i++)
        if (!c->piece[i].used && c->piece[i].size >= size)
            return &c->piece[i];
    return NULL;
}

static bool grow(struct task *t, struct cache *c, int device, uint64_t size)
{
    if (!world.expandable && chance(t, 5)) /* one in store: no block says whose it is */
        native(t, c, device, 1);
    return (world.expandable ? expand : native)(t, c, device, size);
}

static void take(struct task *t, struct cache *c, int device)
{
    uint64_t size = 512 * (1 + (uint64_t)pick(t, chance(t, 15) ? 40000 : 3000));
    struct piece *p = fitting(c, size);
    if (!p && !grow(t, c, device, size)) {
        trim(t, c, device);
        if (c->segments + (int)(size / GRANULE) + 2 >= SEGMENTS || c->pieces + 2 >= PIECES)
            return; /* our own tables are full: no out of memory */
        if (!grow(t, c, device, size)) {
            told(t, c, "oom", device, 0, size);
            if (gave_up)
                gave_up((int64_t)size, c->allocated, c->reserved, on(device));
            return;
        }
    }
    p = fitting(c, size);
    if (!p || c->pieces == PIECES)
        return;
    if (p->size > size)
        c->piece[c->pieces++] = (struct piece){p->address + size, p->size - size, false};
    p->size = size;
    p->used = true;
    c->allocated += size;
    if (c->allocated > c->peak)
        c->peak = c->allocated;
    told(t, c, "block", device, p->address, size);
    if (usage)
        usage((void *)(uintptr_t)p->address, (int64_t)size, c->allocated, c->reserved, on(device));
}

static void give(struct task *t, struct cache *c, int device)
{
    uint32_t from = pick(t, (uint32_t)(c->pieces ? c->pieces : 1));
    for (int i = 0; i < c->pieces; i++) {
        struct piece *p = &c->piece[((int)from + i) % c->pieces];
        if (!p->used)
            continue;
        p->used = false;
        c->allocated -= p->size;
        told(t, c, "unblock", device, p->address, p->size);
        if (usage)
            usage((void *)(uintptr_t)p->address, -(int64_t)p->size, c->allocated, c->reserved, on(device));
        return;
    }
}

/* As PyTorch's functions are told of, under `vramscope run`: private pools, and streams that use a block. */
static void say_more(struct task *t, const struct cache *c, int device)
{
    enum { BEGIN = 38, END = 39, SHARED = 44 };
    uint64_t pool = 1 + pick(t, 3);
    if (!vramscope_auto_allocator)
        return;
    if (chance(t, 50))
        vramscope_auto_allocator(chance(t, 60) ? BEGIN : END, device, pool, pick(t, 2), "",
                                 chance(t, 50) ? "step\t12\t/home/ada/train.py\n" : "");
    for (int i = 0; i < c->pieces && i < 4; i++)
        if (c->piece[i].used)
            vramscope_auto_allocator(SHARED, device, c->piece[i].address, pick(t, 3), "", "");
}

void blocks_turn(struct task *t)
{
    struct cache *c = &caches[t->device];
    if (t->current != world.primary[t->device])
        return;
    pthread_mutex_lock(&c->lock);
    for (uint32_t n = 1 + pick(t, 6); n; n--)
        if (chance(t, 55))
            take(t, c, t->device);
        else
            give(t, c, t->device);
    if (chance(t, 5))
        trim(t, c, t->device);
    if (chance(t, 10))
        say_more(t, c, t->device);
    pthread_mutex_unlock(&c->lock);
}

void blocks_end(struct task *t)
{
    for (int d = 0; d < DEVICES; d++)
        fprintf(t->log, "# framework %d %llu %llu\n", d, (unsigned long long)caches[d].allocated,
                (unsigned long long)caches[d].peak);
}
