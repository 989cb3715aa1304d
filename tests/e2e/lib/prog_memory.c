// link: cuda
/* prog_memory.c async|host - stream-ordered memory of the default pool and of one of our own; memory outside
 * of the device's totals: pinned, registered, managed. */
#include "prog.h"

static void ordered(void)
{
    CUdeviceptr a, b, c;
    CUstream stream;
    CUmemoryPool pool;
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                            .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
    begin();
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cuMemAllocAsync(&a, 1 * MIB, stream)); /* the pool takes 32 MiB */
    OK(cuMemAllocAsync(&b, 40 * MIB, NULL));  /* and 40 more */
    OK(cuMemFreeAsync(b, stream));
    OK(cuMemAllocAsync(&b, 2 * MIB, stream)); /* out of what it has */
    OK(cuMemPoolCreate(&pool, &props));
    OK(cuMemAllocFromPoolAsync(&c, 3 * MIB, pool, stream));
    OK(cuMemFreeAsync(c, stream));
    OK(cuMemPoolTrimTo(pool, 0));
    OK(cuMemPoolDestroy(pool));
    OK(cuMemFreeAsync(a, stream));
    OK(cuMemFree(b)); /* allowed */
    IS(cuMemFreeAsync(a, stream), CUDA_ERROR_INVALID_VALUE);
    OK(cuStreamSynchronize(stream));
    OK(cuStreamDestroy(stream));
}

static char own[3 * 4096];

static void host(void)
{
    void *a, *b;
    CUdeviceptr managed;
    begin();
    OK(cuMemHostAlloc(&a, 10000, CU_MEMHOSTALLOC_PORTABLE));
    OK(cuMemAllocHost(&b, 20000));
    OK(cuMemHostRegister(own, sizeof own, 0));
    OK(cuMemAllocManaged(&managed, 30000, CU_MEM_ATTACH_GLOBAL));
    IS(cuMemHostRegister(own, sizeof own, 0), CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
    OK(cuMemHostUnregister(own));
    OK(cuMemFreeHost(a));
    IS(cuMemFreeHost(own), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemFreeHost(b));
    OK(cuMemFree(managed));
}

int main(int argc, char **argv)
{
    static const struct part parts[] = {{"async", ordered}, {"host", host}};
    return play_part(argc, argv, parts, sizeof parts / sizeof *parts);
}
