// link: cuda
/* Stream-ordered allocation from the default pool and from one of our own. */
#include "prog.h"

int main(void)
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
    puts("done");
    return 0;
}
