/*
 * answers.c - what the driver says about its memory, a line "= name value" each, which must be the same with
 * the arena and without.
 */
#define _GNU_SOURCE
#include "kit.h"

#include <pthread.h>

static void same(const char *name, const char *of, long long value)
{
    printf("= %s %s %lld\n", of, name, value);
}

/* ---- attributes ---- */

#define A(name)                                                                                              \
    {                                                                                                        \
#name, CU_POINTER_ATTRIBUTE_##name                                                                   \
    }
static const struct {
    const char *name;
    int number;
} all[] = {
    A(CONTEXT),
    A(MEMORY_TYPE),
    A(DEVICE_POINTER),
    A(HOST_POINTER),
    A(P2P_TOKENS),
    A(SYNC_MEMOPS),
    A(BUFFER_ID),
    A(IS_MANAGED),
    A(DEVICE_ORDINAL),
    A(IS_LEGACY_CUDA_IPC_CAPABLE),
    A(RANGE_START_ADDR),
    A(RANGE_SIZE),
    A(MAPPED),
    A(ALLOWED_HANDLE_TYPES),
    A(IS_GPU_DIRECT_RDMA_CAPABLE),
    A(ACCESS_FLAGS),
    A(MEMPOOL_HANDLE),
    A(MAPPING_SIZE),
    A(MAPPING_BASE_ADDR),
    A(MEMORY_BLOCK_ID),
};

static bool is_address(int attribute)
{
    return attribute == CU_POINTER_ATTRIBUTE_DEVICE_POINTER ||
           attribute == CU_POINTER_ATTRIBUTE_RANGE_START_ADDR;
}

static void attribute(const char *of, CUdeviceptr base, uint64_t inside, int which, const char *name,
                      CUcontext context)
{
    uint64_t v[4] = {0};
    char line[64];
    bool pooled = strncmp(of, "async", 5) == 0;
    CUresult status = CU(cuPointerGetAttribute, v, (CUpointer_attribute)which, base + inside);
    snprintf(line, sizeof line, "%s+%llu", of, (unsigned long long)inside);
    same(name, line, 1000 * (long long)status); /* the status, then the value */
    if (status != CUDA_SUCCESS)
        return;
    if (pooled && (which == CU_POINTER_ATTRIBUTE_CONTEXT || which == CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE ||
                   which == CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE ||
                   which == CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE))
        return; /* the arena's may be shared as cuMemAlloc's */
    if (is_address(which))
        same(name, line, (long long)(v[0] - base));
    else if (which == CU_POINTER_ATTRIBUTE_CONTEXT)
        same(name, line, v[0] == (uint64_t)context);
    else if (which == CU_POINTER_ATTRIBUTE_BUFFER_ID || which == CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID)
        same(name, line, v[0] != 0);
    else if (which == CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE)
        same(name, line, v[0] != 0);
    else if (which != CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR && which != CU_POINTER_ATTRIBUTE_MAPPING_SIZE &&
             which != CU_POINTER_ATTRIBUTE_P2P_TOKENS)
        same(name, line, (long long)v[0]);
}

static void attributes(const char *of, CUdeviceptr base, uint64_t size, CUcontext context)
{
    uint64_t inside[] = {0, size / 2 & ~255ull, size - 1};
    for (int i = 0; i < 3; i++) {
        for (unsigned a = 0; a < sizeof all / sizeof *all; a++)
            attribute(of, base, inside[i], all[a].number, all[a].name, context);
        CUdeviceptr start = 0;
        size_t bytes = 0;
        same("cuMemGetAddressRange", of, CU(cuMemGetAddressRange, &start, &bytes, base + inside[i]));
        same("range starts", of, (long long)(start - base));
        same("range bytes", of, (long long)bytes);
    }
}

/* One id for one allocation, another one for another. */
static void ids(CUdeviceptr a, CUdeviceptr b, uint64_t size)
{
    uint64_t id[3] = {0};
    CU(cuPointerGetAttribute, &id[0], CU_POINTER_ATTRIBUTE_BUFFER_ID, a);
    CU(cuPointerGetAttribute, &id[1], CU_POINTER_ATTRIBUTE_BUFFER_ID, a + size - 1);
    CU(cuPointerGetAttribute, &id[2], CU_POINTER_ATTRIBUTE_BUFFER_ID, b);
    same("BUFFER_ID is one within", "block", id[0] == id[1]);
    same("BUFFER_ID differs between", "blocks", id[0] != id[2]);
}

static void all_attributes(CUcontext context)
{
    static const uint64_t sizes[] = {1000, 4096, MIB, 2 * MIB, 3 * MIB + 512, 20 * MIB, 300 * MIB};
    CUdeviceptr p[8];
    char name[32];
    for (int i = 0; i < 7; i++) {
        OK(cuMemAlloc, &p[i], sizes[i]);
        snprintf(name, sizeof name, "alloc:%llu", (unsigned long long)sizes[i]);
        same("multiple of 512", name, p[i] % 512 == 0);
        attributes(name, p[i], sizes[i], context);
    }
    ids(p[5], p[6], sizes[5]);
    for (int i = 0; i < 7; i++)
        OK(cuMemFree, p[i]);
    OK(cuMemAllocAsync, &p[0], 5 * MIB, NULL);
    attributes("async:5M", p[0], 5 * MIB, context);
    OK(cuMemFreeAsync, p[0], NULL);
    OK(cuCtxSynchronize);
}

/* ---- errors ---- */

static void *no_context(void *p)
{
    CUdeviceptr q = 0;
    same("cuMemAlloc", "thread without context", CU(cuMemAlloc, &q, 4096));
    same("cuMemFree", "thread without context", CU(cuMemFree, *(CUdeviceptr *)p));
    same("cuMemAllocAsync", "thread without context", CU(cuMemAllocAsync, &q, 4096, NULL));
    return NULL;
}

static void frees(void)
{
    CUdeviceptr p, q;
    pthread_t thread;
    same("NULL", "cuMemFree", CU(cuMemFree, 0));
    same("NULL", "cuMemFreeAsync", CU(cuMemFreeAsync, 0, NULL));
    OK(cuMemAlloc, &p, 5 * MIB);
    same("interior", "cuMemFree", CU(cuMemFree, p + 512));
    same("interior granule", "cuMemFree", CU(cuMemFree, (p + 2 * MIB) & ~(2 * MIB - 1)));
    same("interior", "cuMemFreeAsync", CU(cuMemFreeAsync, p + 512, NULL));
    pthread_create(&thread, NULL, no_context, &p);
    pthread_join(thread, NULL);
    same("first", "cuMemFree", CU(cuMemFree, p));
    same("double", "cuMemFree", CU(cuMemFree, p));
    same("after cuMemFree", "cuMemFreeAsync", CU(cuMemFreeAsync, p, NULL));
    OK(cuMemAlloc, &p, 5 * MIB);
    same("of cuMemAlloc's", "cuMemFreeAsync", CU(cuMemFreeAsync, p, NULL));
    OK(cuCtxSynchronize);
    OK(cuMemAllocAsync, &q, 5 * MIB, NULL);
    same("of async memory", "cuMemFree", CU(cuMemFree, q));
    OK(cuCtxSynchronize);
    same("host address", "cuMemFree", CU(cuMemFree, (CUdeviceptr)&p));
    OK(cuCtxSynchronize);
}

static void sizes(void)
{
    CUdeviceptr p = 0;
    size_t left, total, pitch = 0;
    OK(cuMemGetInfo, &left, &total);
    same("0", "cuMemAlloc", CU(cuMemAlloc, &p, 0));
    same("more than there is", "cuMemAlloc", CU(cuMemAlloc, &p, total + 1));
    same("2^50", "cuMemAlloc", CU(cuMemAlloc, &p, 1ull << 50));
    same("2^64-1", "cuMemAlloc", CU(cuMemAlloc, &p, ~0ull));
    same("0", "cuMemAllocAsync", CU(cuMemAllocAsync, &p, 0, NULL));
    same("2^50", "cuMemAllocAsync", CU(cuMemAllocAsync, &p, 1ull << 50, NULL));
    same("element of 3", "cuMemAllocPitch", CU(cuMemAllocPitch, &p, &pitch, 100, 100, 3));
    same("1000x20", "cuMemAllocPitch", CU(cuMemAllocPitch, &p, &pitch, 1000, 20, 4));
    same("pitch of 1000", "cuMemAllocPitch", (long long)pitch);
    OK(cuMemFree, p);
}

/* ---- what is done with memory ---- */

static void handles(CUdeviceptr p)
{
    CUmemGenericAllocationHandle handle;
    CUmemPoolPtrExportData data;
    unsigned one = 1;
    int fd = -1, can = 0;
    CUdeviceptr piece = (p + 2 * MIB) & ~(2 * MIB - 1);
    same("cuMemRetainAllocationHandle", "block", CU(cuMemRetainAllocationHandle, &handle, (void *)piece));
    same("cuMemUnmap", "block", CU(cuMemUnmap, piece, 2 * MIB));
    same("cuMemAddressFree", "block", CU(cuMemAddressFree, piece, 2 * MIB));
    same("cuMemPoolExportPointer", "block", CU(cuMemPoolExportPointer, &data, p));
    CU(cuPointerSetAttribute, &one, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, p); /* answers differ */
    OK(cuDeviceGetAttribute, &can, CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED, 0);
    same("dma-buf supported", "device", can);
    same("dma-buf of a piece", "block",
         CU(cuMemGetHandleForAddressRange, &fd, piece, 2 * MIB, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0));
    same("dma-buf across pieces", "block",
         CU(cuMemGetHandleForAddressRange, &fd, piece, 6 * MIB, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0));
}

static void managed_calls(CUdeviceptr p)
{
    CUmemLocation here = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0};
    same("cuMemAdvise", "block", CU(cuMemAdvise, p, 2 * MIB, CU_MEM_ADVISE_SET_READ_MOSTLY, here));
    same("cuMemPrefetchAsync", "block", CU(cuMemPrefetchAsync, p, 2 * MIB, here, 0, NULL));
}

static unsigned word_at(CUdeviceptr p)
{
    unsigned word = 0;
    CU(cuMemcpyDtoH, &word, p, 4);
    return word;
}

/* Rows of one pitch across every boundary of 2 MiB, in two and three dimensions, and back. */
static void copies(CUdeviceptr p, CUdeviceptr q)
{
    size_t pitch = 3 * MIB, width = 2 * MIB + 4096, rows = 5;
    CUcontext context = NULL;
    CUDA_MEMCPY2D flat = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                          .srcDevice = p,
                          .srcPitch = pitch,
                          .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                          .dstDevice = q,
                          .dstPitch = pitch,
                          .WidthInBytes = width,
                          .Height = rows};
    CUDA_MEMCPY3D deep = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                          .srcDevice = q,
                          .srcPitch = pitch,
                          .srcHeight = 1,
                          .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                          .dstDevice = p,
                          .dstPitch = pitch,
                          .dstHeight = 1,
                          .WidthInBytes = width,
                          .Height = 1,
                          .Depth = rows};
    same("cuMemsetD32", "pieces", CU(cuMemsetD32, p, 0x11223344, rows * pitch / 4));
    same("cuMemsetD32", "pieces", CU(cuMemsetD32, q, 5, rows * pitch / 4));
    same("cuMemcpy2D", "pieces", CU(cuMemcpy2D, &flat));
    same("last word", "cuMemcpy2D", word_at(q + (rows - 1) * pitch + width - 4));
    same("word behind", "cuMemcpy2D", word_at(q + (rows - 1) * pitch + width));
    same("cuMemsetD2D32", "pieces", CU(cuMemsetD2D32, q, pitch, 77, width / 4, rows));
    same("cuMemcpy3D", "pieces", CU(cuMemcpy3D, &deep));
    same("last word", "cuMemcpy3D", word_at(p + (rows - 1) * pitch + width - 4));
    same("word behind", "cuMemcpy3D", word_at(p + (rows - 1) * pitch + width));
    OK(cuCtxGetCurrent, &context);
    same("cuMemcpyPeer", "pieces", CU(cuMemcpyPeer, q, context, p, context, 9 * MIB));
    same("cuMemcpyPeer within one", "pieces", CU(cuMemcpyPeer, q, context, p, context, 4096));
    same("cuMemcpy", "pieces", CU(cuMemcpy, q, p, rows * pitch));
}

static void textures(CUdeviceptr p)
{
    CUtexObject texture = 0;
    CUDA_RESOURCE_DESC resource = {
        .resType = CU_RESOURCE_TYPE_LINEAR,
        .res.linear = {.devPtr = p, .format = CU_AD_FORMAT_FLOAT, .numChannels = 1, .sizeInBytes = 16 * MIB}};
    CUDA_TEXTURE_DESC desc = {.addressMode = {CU_TR_ADDRESS_MODE_CLAMP}};
    same("linear", "cuTexObjectCreate", CU(cuTexObjectCreate, &texture, &resource, &desc, NULL));
    if (texture)
        same("linear", "cuTexObjectDestroy", CU(cuTexObjectDestroy, texture));
}

static void uses(void)
{
    CUdeviceptr p, q, range = 0;
    OK(cuMemAlloc, &p, 16 * MIB);
    OK(cuMemAlloc, &q, 16 * MIB);
    handles(p);
    managed_calls(p);
    copies(p, q);
    textures(p);
    same("the program's own", "cuMemAddressReserve", CU(cuMemAddressReserve, &range, 64 * MIB, 0, 0, 0));
    if (range)
        same("the program's own", "cuMemAddressFree", CU(cuMemAddressFree, range, 64 * MIB));
    OK(cuMemFree, p);
    OK(cuMemFree, q);
}

/* ---- how much there is ---- */

static void figures(void)
{
    CUdeviceptr p;
    CUmemoryPool pool, current;
    cuuint64_t used = 0, reserved = 0, zero = 0;
    uint64_t before = free_bytes();
    OK(cuMemAlloc, &p, 512 * MIB);
    same("falls by the size", "free bytes", before - free_bytes() >= 512 * MIB);
    OK(cuMemFree, p);
    same("come back", "free bytes", free_bytes() >= before - 4 * MIB);
    OK(cuDeviceGetDefaultMemPool, &pool, 0);
    OK(cuDeviceGetMemPool, &current, 0);
    same("is current", "default pool", pool == current);
    OK(cuMemPoolSetAttribute, pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &zero);
    OK(cuMemAllocAsync, &p, 64 * MIB, NULL);
    OK(cuMemPoolGetAttribute, pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used);
    OK(cuMemPoolGetAttribute, pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &reserved);
    same("used", "default pool", (long long)used);
    same("reserved is no less", "default pool", reserved >= used);
    OK(cuMemFreeAsync, p, NULL);
    OK(cuCtxSynchronize);
    OK(cuMemPoolTrimTo, pool, 0);
    OK(cuMemPoolGetAttribute, pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used);
    OK(cuMemPoolGetAttribute, pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &reserved);
    same("used after the free", "default pool", (long long)used);
    same("reserved after the trim", "default pool", (long long)reserved);
    OK(cuMemPoolGetAttribute, pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &used);
    same("peak", "default pool", (long long)used);
}

int main(void)
{
    CUcontext context = begin();
    all_attributes(context);
    figures(); /* before frees: after those a pool of driver 580 counts 5 MiB as used that nobody has */
    frees();
    sizes();
    uses();
    puts("done");
    return 0;
}
