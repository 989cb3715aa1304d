// link: cuda
/* The virtual-memory API as a caching allocator uses it: one range, many handles, and one handle mapped
 * twice. */
#include "prog.h"

static const CUmemAllocationProp on_device = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                              .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
static const CUmemAllocationProp on_host = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                            .location = {.type = CU_MEM_LOCATION_TYPE_HOST_NUMA, .id = 0}};
static const CUmemAccessDesc access_all = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
                                           .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};

/* reserve, create and map three segments, one access for all, handles released early: the memory goes at the
 * unmap */
static void expandable_segment(void)
{
    CUdeviceptr va;
    CUmemGenericAllocationHandle handle[3];
    OK(cuMemAddressReserve(&va, 64 * MIB, 0, 0, 0));
    for (int i = 0; i < 3; i++) {
        OK(cuMemCreate(&handle[i], 20 * MIB, &on_device, 0));
        OK(cuMemMap(va + (unsigned)i * 20 * MIB, 20 * MIB, 0, handle[i], 0));
    }
    OK(cuMemSetAccess(va, 60 * MIB, &access_all, 1));
    *(volatile int *)(va + 59 * MIB) = 1;
    OK(cuMemRelease(handle[0]));
    OK(cuMemUnmap(va, 20 * MIB));
    OK(cuMemUnmap(va + 20 * MIB, 40 * MIB));
    OK(cuMemRelease(handle[1]));
    OK(cuMemRelease(handle[2]));
    OK(cuMemAddressFree(va, 64 * MIB));
}

static void aliases(void)
{
    CUdeviceptr va;
    CUmemGenericAllocationHandle handle, again;
    OK(cuMemAddressReserve(&va, 4 * MIB, 0, 0, 0));
    OK(cuMemCreate(&handle, 2 * MIB, &on_device, 0));
    OK(cuMemMap(va, 2 * MIB, 0, handle, 0));
    OK(cuMemMap(va + 2 * MIB, 2 * MIB, 0, handle, 0));
    OK(cuMemSetAccess(va, 4 * MIB, &access_all, 1));
    *(volatile int *)va = 7;
    CHECK(*(volatile int *)(va + 2 * MIB) == 7);
    OK(cuMemRelease(handle));
    OK(cuMemRetainAllocationHandle(&again, (void *)va));
    OK(cuMemUnmap(va, 4 * MIB));
    OK(cuMemRelease(again)); /* the last thing that held it */
    OK(cuMemAddressFree(va, 4 * MIB));
}

static void refused(void)
{
    CUmemGenericAllocationHandle handle;
    CUdeviceptr va;
    IS(cuMemCreate(&handle, 3 * MIB, &on_device, 0), CUDA_ERROR_INVALID_VALUE);
    IS(cuMemCreate(&handle, 1ull << 42, &on_device, 0), CUDA_ERROR_OUT_OF_MEMORY);
    OK(cuMemAddressReserve(&va, 2 * MIB, 0, 0, 0));
    OK(cuMemCreate(&handle, 2 * MIB, &on_host, 0));
    IS(cuMemMap(va, 4 * MIB, 0, handle, 0), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemMap(va, 2 * MIB, 0, handle, 0));
    IS(cuMemAddressFree(va, 2 * MIB), CUDA_ERROR_INVALID_VALUE); /* while it is mapped */
    IS(cuMemUnmap(va + 2 * MIB, 2 * MIB), CUDA_ERROR_INVALID_VALUE);
    IS(cuMemRelease(12345), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemUnmap(va, 2 * MIB));
    OK(cuMemRelease(handle));
}

int main(void)
{
    begin();
    expandable_segment();
    aliases();
    refused();
    puts("done");
    return 0;
}
