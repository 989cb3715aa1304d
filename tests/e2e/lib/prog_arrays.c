// link: cuda
/* Arrays: flat, deep, a mipmap, and a sparse one that memory is bound into. */
#include "prog.h"

static void plain(void)
{
    CUDA_ARRAY_DESCRIPTOR flat = {1024, 512, CU_AD_FORMAT_FLOAT, 4};
    CUDA_ARRAY3D_DESCRIPTOR deep = {
        .Width = 64, .Height = 64, .Depth = 64, .Format = CU_AD_FORMAT_HALF, .NumChannels = 2};
    CUarray a, b;
    CUmipmappedArray mipmap;
    OK(cuArrayCreate(&a, &flat));
    OK(cuArray3DCreate(&b, &deep));
    deep.Depth = 0;
    OK(cuMipmappedArrayCreate(&mipmap, &deep, 3)); /* 64, 32, 16 */
    OK(cuArrayDestroy(a));
    IS(cuArrayDestroy(a), CUDA_ERROR_INVALID_HANDLE);
    OK(cuMipmappedArrayDestroy(mipmap));
    OK(cuArrayDestroy(b));
    flat.Width = flat.Height = 65536;
    IS(cuArrayCreate(&a, &flat), CUDA_ERROR_OUT_OF_MEMORY);
}

static CUarrayMapInfo region(CUarray array, unsigned y, CUmemGenericAllocationHandle handle)
{
    return (CUarrayMapInfo){
        .resourceType = CU_RESOURCE_TYPE_ARRAY,
        .resource.array = array,
        .subresource.sparseLevel = {.offsetY = y, .extentWidth = 256, .extentHeight = 128, .extentDepth = 1},
        .memOperationType = handle ? CU_MEM_OPERATION_TYPE_MAP : CU_MEM_OPERATION_TYPE_UNMAP,
        .memHandleType = CU_MEM_HANDLE_TYPE_GENERIC,
        .memHandle.memHandle = handle,
        .deviceBitMask = 1};
}

static void sparse(void)
{
    CUDA_ARRAY3D_DESCRIPTOR desc = {.Width = 1024,
                                    .Height = 1024,
                                    .Format = CU_AD_FORMAT_FLOAT,
                                    .NumChannels = 1,
                                    .Flags = CUDA_ARRAY3D_SPARSE};
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
                                .allocFlags.usage = CU_MEM_CREATE_USAGE_TILE_POOL};
    CUarray array;
    CUmemGenericAllocationHandle pool;
    OK(cuArray3DCreate(&array, &desc));
    OK(cuMemCreate(&pool, 2 * MIB, &prop, 0));
    CUarrayMapInfo list[2] = {region(array, 0, pool), region(array, 128, pool)};
    OK(cuMemMapArrayAsync(list, 2, NULL));
    OK(cuMemRelease(pool)); /* held by both regions */
    list[0] = region(array, 0, 0);
    OK(cuMemMapArrayAsync(list, 1, NULL));
    OK(cuArrayDestroy(array)); /* with the other one, and the memory */
}

int main(void)
{
    begin();
    plain();
    sparse();
    puts("done");
    return 0;
}
