/*
 * random_memory.c - plain, managed, pooled, pinned and registered memory, and arrays.
 *
 *      alloc SPACE DEVICE CONTEXT ADDRESS SIZE STATUS      free ADDRESS STATUS
 */
#include "random.h"

static uint64_t some_size(struct task *t)
{
    switch (pick(t, 4)) {
    case 0:
        return 1 + pick(t, 5000);
    case 1:
        return 512 * (1 + (uint64_t)pick(t, 2000));
    case 2:
        return 2 * MIB * (1 + pick(t, 4));
    default:
        return chance(t, 10) ? 150 * MIB : 4096 * (1 + (uint64_t)pick(t, 3000));
    }
}

static void made(struct task *t, struct object *o, struct object what, const char *space, CUresult result)
{
    took(what.device, what.size, result == CUDA_SUCCESS);
    say(t, "alloc %s %d %llu %llu %llu %d", space, what.device, (unsigned long long)owner(t),
        (unsigned long long)(result ? 0 : what.handle), (unsigned long long)what.size, result);
    if (result == CUDA_SUCCESS)
        *o = what;
}

static void plain(struct task *t, struct object *o)
{
    CUdeviceptr p = 0;
    uint64_t size = some_size(t);
    takes(t->device, size);
    CUresult result = cuMemAlloc(&p, size);
    made(t, o, (struct object){PLAIN, p, size, owner(t), t->device, 0, 0, {{0}}}, "device", result);
}

/* Rows are a multiple of 512 bytes apart. */
static void pitched(struct task *t, struct object *o)
{
    CUdeviceptr p = 0;
    size_t pitch = 0, width = 1 + pick(t, 3000), height = 1 + pick(t, 200);
    uint64_t size = (width + 511) / 512 * 512 * height;
    takes(t->device, size);
    CUresult result = cuMemAllocPitch(&p, &pitch, width, height, 4);
    took(t->device, size, result == CUDA_SUCCESS);
    say(t, "alloc device %d %llu %llu %llu %d", t->device, (unsigned long long)owner(t),
        (unsigned long long)p, (unsigned long long)(result ? width * height : pitch * height), result);
    if (result == CUDA_SUCCESS)
        *o = (struct object){PLAIN, p, size, owner(t), t->device, 0, 0, {{0}}};
}

static void managed(struct task *t, struct object *o)
{
    CUdeviceptr p = 0;
    uint64_t size = 1 + pick(t, 100000);
    CUresult result = cuMemAllocManaged(&p, size, CU_MEM_ATTACH_GLOBAL);
    say(t, "alloc managed %d %llu %llu %llu %d", t->device, (unsigned long long)owner(t),
        (unsigned long long)p, (unsigned long long)size, result);
    if (result == CUDA_SUCCESS)
        *o = (struct object){MANAGED, p, size, owner(t), -1, 0, 0, {{0}}};
}

static void pinned(struct task *t, struct object *o)
{
    void *p = NULL;
    uint64_t size = 1 + pick(t, 100000);
    CUresult result = chance(t, 50) ? cuMemHostAlloc(&p, size, 0) : cuMemAllocHost(&p, size);
    made(t, o, (struct object){PINNED, (uintptr_t)p, size, owner(t), -1, 0, 0, {{0}}}, "pinned", result);
}

static void registered(struct task *t, struct object *o)
{
    uint64_t size = 4096 * (1 + (uint64_t)pick(t, 8));
    void *p = aligned_alloc(4096, size);
    CUresult result = cuMemHostRegister(p, size, 0);
    made(t, o, (struct object){REGISTERED, (uintptr_t)p, size, owner(t), -1, 0, 0, {{0}}}, "registered",
         result);
    if (result != CUDA_SUCCESS)
        free(p);
}

/* ---- pools ---- */

static void pooled(struct task *t, struct object *o)
{
    CUdeviceptr p = 0;
    uint64_t size = some_size(t);
    takes(t->device, size);
    CUresult result = cuMemAllocAsync(&p, size, chance(t, 80) ? NULL : CU_STREAM_PER_THREAD);
    made(t, o, (struct object){POOLED, p, size, 0, t->device, 0, 0, {{0}}}, "pool", result);
}

/* A pool of its own, which ends while its allocation lives on (refs 1 says so). */
static void own_pool(struct task *t, struct object *o)
{
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                            .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = t->device}};
    CUmemoryPool pool;
    CUdeviceptr p = 0;
    uint64_t size = some_size(t);
    if (cuMemPoolCreate(&pool, &props) != CUDA_SUCCESS)
        return;
    takes(t->device, size);
    CUresult result = cuMemAllocFromPoolAsync(&p, size, pool, NULL);
    made(t, o, (struct object){POOLED, p, size, 0, t->device, 1, 0, {{0}}}, "pool", result);
    cuMemPoolDestroy(pool);
}

static void trim(struct task *t)
{
    CUmemoryPool pool;
    if (cuDeviceGetDefaultMemPool(&pool, t->device) == CUDA_SUCCESS)
        cuMemPoolTrimTo(pool, pick(t, 2) * MIB);
}

/* ---- arrays ---- */

static void array(struct task *t, struct object *o)
{
    CUDA_ARRAY_DESCRIPTOR desc = {1 + pick(t, 500), 1 + pick(t, 100), CU_AD_FORMAT_FLOAT, 1u << pick(t, 3)};
    uint64_t size = desc.Width * desc.Height * desc.NumChannels * 4;
    CUarray a = NULL;
    takes(t->device, size);
    CUresult result = cuArrayCreate(&a, &desc);
    made(t, o, (struct object){ARRAY, (uintptr_t)a, size, owner(t), t->device, 0, 0, {{0}}}, "array", result);
}

static uint64_t mipmap_bytes(const CUDA_ARRAY3D_DESCRIPTOR *d, unsigned levels)
{
    uint64_t bytes = 0;
    for (unsigned i = 0; i < levels; i++) {
        uint64_t w = d->Width >> i, h = d->Height >> i;
        bytes += (w ? w : 1) * (h ? h : 1) * d->NumChannels * 2;
    }
    return bytes;
}

static void mipmap(struct task *t, struct object *o)
{
    CUDA_ARRAY3D_DESCRIPTOR desc = {
        .Width = 8u << pick(t, 5), .Height = 8u << pick(t, 5), .Format = CU_AD_FORMAT_HALF, .NumChannels = 2};
    unsigned levels = 1 + pick(t, 4);
    uint64_t size = mipmap_bytes(&desc, levels);
    CUmipmappedArray a = NULL;
    takes(t->device, size);
    CUresult result = cuMipmappedArrayCreate(&a, &desc, levels);
    made(t, o, (struct object){MIPMAP, (uintptr_t)a, size, owner(t), t->device, 0, 0, {{0}}}, "array",
         result);
}

/* ---- turns ---- */

void memory_turn(struct task *t)
{
    static void (*const make[])(struct task * t, struct object * o) = {
        plain, plain, plain, pitched, managed, pinned, registered, pooled, pooled, own_pool, array, mipmap};
    struct object *o = vacant(t);
    if (chance(t, 3)) {
        trim(t);
    } else if (chance(t, 3)) { /* of nothing: the driver refuses */
        uint64_t nowhere = 0x1000 + pick(t, 1000) * 512;
        say(t, "free %llu %d", (unsigned long long)nowhere, cuMemFree(nowhere));
    } else if (o) {
        make[pick(t, sizeof make / sizeof *make)](t, o);
    }
}

static CUresult release(struct task *t, const struct object *o)
{
    switch (o->kind) {
    case PINNED:
        return cuMemFreeHost((void *)(uintptr_t)o->handle);
    case REGISTERED:
        return cuMemHostUnregister((void *)(uintptr_t)o->handle);
    case ARRAY:
        return cuArrayDestroy((CUarray)(uintptr_t)o->handle);
    case MIPMAP:
        return cuMipmappedArrayDestroy((CUmipmappedArray)(uintptr_t)o->handle);
    case POOLED:
        return chance(t, 70) ? cuMemFreeAsync(o->handle, NULL) : cuMemFree(o->handle);
    default:
        return cuMemFree(o->handle);
    }
}

void memory_give_back(struct task *t, struct object *o)
{
    struct object was = *o;
    gives(was.device, was.size);
    CUresult result = release(t, &was);
    gave(was.device, was.size, result == CUDA_SUCCESS);
    say(t, "free %llu %d", (unsigned long long)was.handle, result);
    if (result != CUDA_SUCCESS)
        return;
    if (was.kind == REGISTERED)
        free((void *)(uintptr_t)was.handle);
    o->kind = NOTHING;
}
