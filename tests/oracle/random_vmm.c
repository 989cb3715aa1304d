/*
 * random_vmm.c - physical memory, address ranges, what is mapped and bound.
 *
 *      create HANDLE SIZE DEVICE STATUS WHO     WHO: - the program, M its caching allocator; DEVICE -1: host
 *      retain HANDLE ADDRESS STATUS             release HANDLE STATUS
 *      reserve ADDRESS SIZE STATUS              vafree ADDRESS SIZE STATUS
 *      map ADDRESS SIZE HANDLE STATUS           unmap ADDRESS SIZE STATUS
 *      multicast HANDLE SIZE STATUS
 *      bind OBJECT MEMORY STATUS                unbind OBJECT MEMORY STATUS
 */
#include "random.h"

#define GRANULE (2 * MIB)

typedef CUmemGenericAllocationHandle handle;

static bool create(struct task *t, handle *h, uint64_t size, int device, unsigned char usage)
{
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device}};
    prop.allocFlags.usage = usage;
    if (device < 0)
        prop.location = (CUmemLocation){.type = CU_MEM_LOCATION_TYPE_HOST_NUMA};
    *h = 0;
    takes(device, size);
    CUresult result = cuMemCreate(h, size, &prop, 0);
    took(device, size, result == CUDA_SUCCESS);
    say(t, "create %llu %llu %d %d -", (unsigned long long)*h, (unsigned long long)size, device, result);
    return result == CUDA_SUCCESS;
}

/* LAST: nothing else holds the SIZE bytes of DEVICE. */
static bool release(struct task *t, handle h, int device, uint64_t size, bool last)
{
    if (last)
        gives(device, size);
    CUresult result = cuMemRelease(h);
    if (last)
        gave(device, size, result == CUDA_SUCCESS);
    say(t, "release %llu %d", (unsigned long long)h, result);
    return result == CUDA_SUCCESS;
}

static bool reserve(struct task *t, CUdeviceptr *a, uint64_t size)
{
    *a = 0;
    CUresult result = cuMemAddressReserve(a, size, 0, 0, 0);
    say(t, "reserve %llu %llu %d", (unsigned long long)*a, (unsigned long long)size, result);
    return result == CUDA_SUCCESS;
}

static void vafree(struct task *t, CUdeviceptr a, uint64_t size)
{
    CUresult result = CUDA_ERROR_UNKNOWN;
    for (int i = 0; result != CUDA_SUCCESS && i < 3; i++) {
        result = cuMemAddressFree(a, size);
        say(t, "vafree %llu %llu %d", (unsigned long long)a, (unsigned long long)size, result);
    }
}

static bool map(struct task *t, CUdeviceptr a, uint64_t size, handle h)
{
    CUresult result = cuMemMap(a, size, 0, h, 0);
    say(t, "map %llu %llu %llu %d", (unsigned long long)a, (unsigned long long)size, (unsigned long long)h,
        result);
    return result == CUDA_SUCCESS;
}

static bool unmap(struct task *t, CUdeviceptr a, uint64_t size, int device, uint64_t ends)
{
    gives(device, ends);
    CUresult result = cuMemUnmap(a, size);
    gave(device, ends, result == CUDA_SUCCESS);
    say(t, "unmap %llu %llu %d", (unsigned long long)a, (unsigned long long)size, result);
    return result == CUDA_SUCCESS;
}

/* ---- one piece that lives for a while ---- */

static void make(struct task *t)
{
    struct object *o = vacant(t);
    handle h;
    int device = chance(t, 85) ? (int)pick(t, DEVICES) : -1;
    uint64_t size = GRANULE * (1 + pick(t, 3));
    if (o && create(t, &h, size, device, 0))
        *o = (struct object){PHYSICAL, h, size, 0, device, 1, 0, {{0}}};
}

static void map_once_more(struct task *t, struct object *o)
{
    CUdeviceptr a;
    if (o->maps == 3 || !o->refs || !reserve(t, &a, o->size))
        return;
    if (map(t, a, o->size, o->handle))
        o->at[o->maps++] = (struct mapping){a, o->size};
    else
        vafree(t, a, o->size);
}

static void unmap_one(struct task *t, struct object *o)
{
    struct mapping *m = &o->at[o->maps - 1];
    bool last = o->maps == 1 && o->refs == 0;
    if (!unmap(t, m->address, m->size, o->device, last ? o->size : 0))
        return;
    vafree(t, m->address, m->size);
    o->maps--;
    if (last)
        o->kind = NOTHING;
}

static void retain(struct task *t, struct object *o)
{
    handle h = 0;
    if (!o->maps)
        return;
    CUresult result = cuMemRetainAllocationHandle(&h, (void *)(uintptr_t)o->at[0].address);
    say(t, "retain %llu %llu %d", (unsigned long long)h, (unsigned long long)o->at[0].address, result);
    if (result != CUDA_SUCCESS)
        return;
    if (o->refs && h != o->handle) { /* two values for one memory: the program keeps the first */
        release(t, h, o->device, o->size, false);
        return;
    }
    o->handle = h;
    o->refs++;
}

void vmm_give_back(struct task *t, struct object *o)
{
    bool last = o->refs == 1 && o->maps == 0;
    if (o->refs && (o->maps == 0 || chance(t, 50))) {
        if (!release(t, o->handle, o->device, o->size, last))
            return;
        o->refs--;
        if (last)
            o->kind = NOTHING;
    } else if (o->maps) {
        unmap_one(t, o);
    }
}

/* ---- several mappings that one unmap ends ---- */

static void several(struct task *t)
{
    CUdeviceptr a;
    handle h[4];
    int device = (int)pick(t, DEVICES), n = 0, wanted = 2 + (int)pick(t, 3);
    bool early = chance(t, 60), gone = true;
    if (!reserve(t, &a, 4 * GRANULE))
        return;
    while (n < wanted && create(t, &h[n], GRANULE, device, 0)) {
        if (!map(t, a + (uint64_t)n * GRANULE, GRANULE, h[n])) {
            while (!release(t, h[n], device, GRANULE, true))
                ;
            break;
        }
        n++;
    }
    for (int i = 0; early && i < n; i++)
        gone = release(t, h[i], device, GRANULE, false) && gone;
    if (n && (!early || gone)) {
        uint64_t ends = early ? (uint64_t)n * GRANULE : 0;
        while (!unmap(t, a, (uint64_t)n * GRANULE, device, ends))
            ;
        for (int i = 0; !early && i < n; i++)
            while (!release(t, h[i], device, GRANULE, true))
                ;
        vafree(t, a, 4 * GRANULE);
    } else if (!n) {
        vafree(t, a, 4 * GRANULE);
    }
}

/* ---- bound without an address ---- */

static bool bound(struct task *t, const char *verb, uint64_t object, handle h, CUresult result)
{
    say(t, "%s %llu %llu %d", verb, (unsigned long long)object, (unsigned long long)h, result);
    return result == CUDA_SUCCESS;
}

static void multicast(struct task *t)
{
    const CUmulticastObjectProp prop = {.numDevices = 1, .size = 2 * GRANULE};
    handle object = 0, h;
    int device = (int)pick(t, DEVICES);
    CUresult result = cuMulticastCreate(&object, &prop);
    say(t, "multicast %llu %llu %d", (unsigned long long)object, (unsigned long long)prop.size, result);
    if (result != CUDA_SUCCESS)
        return;
    cuMulticastAddDevice(object, device);
    if (create(t, &h, GRANULE, device, 0)) {
        bool is = bound(t, "bind", object, h, cuMulticastBindMem(object, 0, h, 0, GRANULE, 0));
        bool released = release(t, h, device, GRANULE, !is);
        if (is && chance(t, 50)) {
            if (released)
                gives(device, GRANULE);
            is = !bound(t, "unbind", object, h, cuMulticastUnbind(object, device, 0, GRANULE));
            if (released)
                gave(device, GRANULE, !is);
        }
        while (!released && !(released = release(t, h, device, GRANULE, !is)))
            ;
        if (is)
            gives(device, GRANULE);
        while (!release(t, object, -1, 0, false))
            ;
        if (is)
            gave(device, GRANULE, true);
        return;
    }
    release(t, object, -1, 0, false);
}

static CUarrayMapInfo region(CUarray array, handle h, int device)
{
    return (CUarrayMapInfo){
        .resourceType = CU_RESOURCE_TYPE_ARRAY,
        .resource.array = array,
        .subresource.sparseLevel = {.extentWidth = 256, .extentHeight = 128, .extentDepth = 1},
        .memOperationType = h ? CU_MEM_OPERATION_TYPE_MAP : CU_MEM_OPERATION_TYPE_UNMAP,
        .memHandleType = CU_MEM_HANDLE_TYPE_GENERIC,
        .memHandle.memHandle = h,
        .deviceBitMask = 1u << device};
}

/* Freed by the array's end, or by an unmap before it. */
static void sparse(struct task *t)
{
    const CUDA_ARRAY3D_DESCRIPTOR desc = {.Width = 1024,
                                          .Height = 1024,
                                          .Format = CU_AD_FORMAT_FLOAT,
                                          .NumChannels = 1,
                                          .Flags = CUDA_ARRAY3D_SPARSE};
    CUarray array = NULL;
    handle h = 0;
    CUresult result = cuArray3DCreate(&array, &desc);
    say(t, "alloc array %d %llu %llu 0 %d", t->device, (unsigned long long)owner(t),
        (unsigned long long)(uintptr_t)array, result);
    if (result != CUDA_SUCCESS)
        return;
    bool have = create(t, &h, GRANULE, t->device, CU_MEM_CREATE_USAGE_TILE_POOL), is = false;
    CUarrayMapInfo info = region(array, h, t->device), off = region(array, 0, t->device);
    if (have) {
        is = bound(t, "bind", (uintptr_t)array, h, cuMemMapArrayAsync(&info, 1, NULL));
        while (!release(t, h, t->device, GRANULE, !is))
            ;
    }
    if (is)
        gives(t->device, GRANULE);
    if (is && chance(t, 50))
        bound(t, "unbind", (uintptr_t)array, h, cuMemMapArrayAsync(&off, 1, NULL));
    do {
        result = cuArrayDestroy(array);
        say(t, "free %llu %d", (unsigned long long)(uintptr_t)array, result);
    } while (result != CUDA_SUCCESS);
    if (is)
        gave(t->device, GRANULE, true);
}

void vmm_turn(struct task *t)
{
    struct object *o = some(t, PHYSICAL);
    switch (pick(t, 10)) {
    case 0:
    case 1:
        several(t);
        return;
    case 2:
        multicast(t);
        return;
    case 3:
        sparse(t);
        return;
    case 4:
    case 5:
        if (o)
            retain(t, o);
        return;
    case 6:
    case 7:
        if (o)
            map_once_more(t, o);
        return;
    default:
        make(t);
    }
}
