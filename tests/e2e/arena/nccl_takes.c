/* nccl_takes.c - the one thing of libnccl.so.2 that suspend_beside.sh is about: it asks the driver itself. */
#include <cuda.h>
#include <stddef.h>

CUresult take(size_t bytes);

CUresult take(size_t bytes)
{
    CUmemGenericAllocationHandle handle;
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    return cuMemCreate(&handle, bytes, &prop, 0);
}
