/*
 * test_simcuda_objects.c - arrays, multicast objects, endpoints, contexts, limits and modules of the
 * simulated driver: what they cost, and what ends with what.
 */
#include "simcuda_kit.h"

#include "../../../dry/driver/newer.h"

/* ---- arrays ---- */

SIM_TEST(arrays_cost_what_their_texels_take)
{
    CUDA_ARRAY_DESCRIPTOR flat = {
        .Width = 1024, .Height = 512, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 4};
    CUDA_ARRAY3D_DESCRIPTOR deep = {.Width = 64,
                                    .Height = 64,
                                    .Depth = 64,
                                    .Format = CU_AD_FORMAT_HALF,
                                    .NumChannels = 4,
                                    .Flags = CUDA_ARRAY3D_SURFACE_LDST},
                            told;
    CUarray a, b, level;
    CUmipmappedArray mipmap;
    char text[8] = "";
    begin();
    size_t before = used();
    OK(cuArrayCreate(&a, &flat));
    CHECK(used() == before + 8 * MIB);
    OK(cuMemcpyHtoA(a, 8 * MIB - 6, "texel", 6));
    OK(cuMemcpyAtoH(text, a, 8 * MIB - 6, 6));
    CHECK(strcmp(text, "texel") == 0);
    IS(cuMemcpyHtoA(a, 8 * MIB - 4, "texel", 6), CUDA_ERROR_INVALID_VALUE);
    OK(cuArray3DCreate(&b, &deep));
    CHECK(used() == before + 10 * MIB);
    OK(cuArray3DGetDescriptor(&told, b));
    CHECK(told.Depth == 64 && told.Flags == CUDA_ARRAY3D_SURFACE_LDST && told.NumChannels == 4);
    deep.Width = deep.Height = 256, deep.Depth = 0;
    OK(cuMipmappedArrayCreate(&mipmap, &deep, 9)); /* 256 x 256 to 1 x 1 */
    OK(cuMipmappedArrayGetLevel(&level, mipmap, 3));
    OK(cuArray3DGetDescriptor(&told, level));
    CHECK(told.Width == 32 && told.Height == 32);
    IS(cuArrayDestroy(level), CUDA_ERROR_INVALID_HANDLE); /* the mipmap's */
    IS(cuMipmappedArrayGetLevel(&level, mipmap, 9), CUDA_ERROR_INVALID_VALUE);
    OK(cuMipmappedArrayDestroy(mipmap));
    IS(cuMipmappedArrayCreate(&mipmap, &deep, 10), CUDA_ERROR_INVALID_VALUE);
    OK(cuArrayDestroy(a));
    IS(cuArrayDestroy(a), CUDA_ERROR_INVALID_HANDLE);
    OK(cuArrayDestroy(b));
    CHECK(used() == before);
    flat.Width = 0;
    IS(cuArrayCreate(&a, &flat), CUDA_ERROR_INVALID_VALUE);
    flat = (CUDA_ARRAY_DESCRIPTOR){65536, 65536, CU_AD_FORMAT_FLOAT, 4};
    IS(cuArrayCreate(&a, &flat), CUDA_ERROR_OUT_OF_MEMORY);
    CHECK(used() == before);
}

static CUmemGenericAllocationHandle tile_pool(size_t size, unsigned usage)
{
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
    CUmemGenericAllocationHandle handle;
    prop.allocFlags.usage = (unsigned short)usage;
    OK(cuMemCreate(&handle, size, &prop, 0));
    return handle;
}

static CUarrayMapInfo region(CUarray array, unsigned x, unsigned width, CUmemGenericAllocationHandle handle)
{
    return (CUarrayMapInfo){.resourceType = CU_RESOURCE_TYPE_ARRAY,
                            .resource.array = array,
                            .subresource.sparseLevel = {.offsetX = x,
                                                        .extentWidth = width,
                                                        .extentHeight = 128,
                                                        .extentDepth = 1},
                            .memOperationType =
                                handle ? CU_MEM_OPERATION_TYPE_MAP : CU_MEM_OPERATION_TYPE_UNMAP,
                            .memHandleType = CU_MEM_HANDLE_TYPE_GENERIC,
                            .memHandle.memHandle = handle,
                            .deviceBitMask = 1};
}

SIM_TEST(memory_bound_into_a_sparse_array_lives_while_it_is_bound)
{
    CUDA_ARRAY3D_DESCRIPTOR desc = {.Width = 4096,
                                    .Height = 4096,
                                    .Format = CU_AD_FORMAT_FLOAT,
                                    .NumChannels = 1,
                                    .Flags = CUDA_ARRAY3D_SPARSE};
    CUarray array;
    CUDA_ARRAY_SPARSE_PROPERTIES told;
    begin();
    size_t before = used();
    OK(cuArray3DCreate(&array, &desc));
    CHECK(used() == before); /* 64 MiB of nothing */
    OK(cuArrayGetSparseProperties(&told, array));
    CHECK(told.tileExtent.width == 128 && told.tileExtent.height == 128 && told.tileExtent.depth == 1);
    CUmemGenericAllocationHandle pool = tile_pool(2 * MIB, CU_MEM_CREATE_USAGE_TILE_POOL),
                                 plain = tile_pool(2 * MIB, 0);
    CUarrayMapInfo list[2] = {region(array, 0, 256, pool), region(array, 256, 128, plain)};
    IS(cuMemMapArrayAsync(list, 2, NULL), CUDA_ERROR_INVALID_VALUE); /* the second: nothing is done */
    OK(cuMemRelease(plain));
    list[1] = region(array, 256, 128, pool);
    list[1].offset = 2 * 65536;
    OK(cuMemMapArrayAsync(list, 2, NULL));
    list[0] = region(array, 0, 100, pool);
    IS(cuMemMapArrayAsync(list, 1, NULL), CUDA_ERROR_INVALID_VALUE); /* part of a tile */
    OK(cuMemRelease(pool));
    CHECK(used() == before + 2 * MIB); /* bound */
    list[0] = region(array, 0, 256, 0);
    OK(cuMemMapArrayAsync(list, 1, NULL));
    CHECK(used() == before + 2 * MIB); /* by the other region */
    OK(cuArrayDestroy(array));
    CHECK(used() == before);
}

SIM_TEST(the_small_levels_of_a_sparse_mipmap_are_its_tail)
{
    CUDA_ARRAY3D_DESCRIPTOR desc = {.Width = 512,
                                    .Height = 512,
                                    .Format = CU_AD_FORMAT_FLOAT,
                                    .NumChannels = 1,
                                    .Flags = CUDA_ARRAY3D_SPARSE};
    CUmipmappedArray mipmap;
    CUDA_ARRAY_SPARSE_PROPERTIES told;
    begin();
    size_t before = used();
    OK(cuMipmappedArrayCreate(&mipmap, &desc, 10));
    OK(cuMipmappedArrayGetSparseProperties(&told, mipmap));
    CHECK(told.miptailFirstLevel == 3 && told.miptailSize == 65536); /* 64 x 64 is no tile */
    CUarrayMapInfo info = {.resourceType = CU_RESOURCE_TYPE_MIPMAPPED_ARRAY,
                           .resource.mipmap = mipmap,
                           .subresourceType = CU_ARRAY_SPARSE_SUBRESOURCE_TYPE_MIPTAIL,
                           .subresource.miptail = {.size = 65536},
                           .memOperationType = CU_MEM_OPERATION_TYPE_MAP,
                           .memHandleType = CU_MEM_HANDLE_TYPE_GENERIC,
                           .memHandle.memHandle = tile_pool(2 * MIB, CU_MEM_CREATE_USAGE_TILE_POOL),
                           .deviceBitMask = 1};
    OK(cuMemMapArrayAsync(&info, 1, NULL));
    OK(cuMemRelease(info.memHandle.memHandle));
    CHECK(used() == before + 2 * MIB);
    OK(cuMipmappedArrayDestroy(mipmap));
    CHECK(used() == before);
}

/* ---- multicast ---- */

SIM_TEST(a_multicast_object_holds_what_is_bound_and_costs_nothing, "SIMCUDA_DEVICES", "2")
{
    CUmulticastObjectProp prop = {.numDevices = 2, .size = 4 * MIB};
    CUmemAllocationProp on[2];
    CUmemGenericAllocationHandle object, memory[2];
    CUdeviceptr address;
    begin();
    for (int i = 0; i < 2; i++) {
        on[i] = (CUmemAllocationProp){.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = i}};
        OK(cuMemCreate(&memory[i], 2 * MIB, &on[i], 0));
    }
    size_t before = used(); /* of device 0, its memory included */
    OK(cuMulticastCreate(&object, &prop));
    CHECK(used() == before);
    OK(cuMulticastAddDevice(object, 0));
    IS(cuMulticastAddDevice(object, 0), CUDA_ERROR_INVALID_VALUE);
    IS(cuMulticastBindMem(object, 0, memory[0], 0, 2 * MIB, 0),
       CUDA_ERROR_NOT_READY); /* the team is not complete */
    OK(cuMulticastAddDevice(object, 1));
    OK(cuMulticastBindMem(object, 0, memory[0], 0, 2 * MIB, 0));
    OK(cuMulticastBindMem(object, 0, memory[1], 0, 2 * MIB, 0));
    IS(cuMulticastBindMem(object, 0, memory[0], 0, 2 * MIB, 0), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemRelease(memory[0]));
    CHECK(used() == before); /* bound */
    OK(cuMemAddressReserve(&address, 4 * MIB, 0, 0, 0));
    OK(cuMemMap(address, 4 * MIB, 0, object, 0));
    IS(cuMulticastUnbind(object, 0, 2 * MIB, 2 * MIB), CUDA_ERROR_INVALID_VALUE);
    OK(cuMulticastUnbind(object, 0, 0, 2 * MIB));
    CHECK(used() == before - 2 * MIB);
    OK(cuMemRelease(object));
    OK(cuMemUnmap(address, 4 * MIB)); /* the object ends, and its other binding with it */
    IS(cuMulticastAddDevice(object, 1), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemRelease(memory[1]));
}

SIM_TEST(an_endpoint_holds_what_is_bound_until_it_ends, "SIMCUDA_DEVICES", "2")
{
    CUlogicalEndpointProp prop = {.type = CU_LOGICAL_ENDPOINT_TYPE_MULTICAST, .size = 8 * MIB};
    CUmemAllocationProp here = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
    CUmemGenericAllocationHandle memory;
    CUlogicalEndpointId id;
    cuuint64_t alignment, most;
    int ready;
    begin();
    prop.multicast.numDevices = 2;
    OK(cuLogicalEndpointGetLimits(&alignment, &most, &prop));
    CHECK(alignment == 2 * MIB && most >= prop.size);
    IS(cuLogicalEndpointCreate(7, &prop), CUDA_ERROR_INVALID_VALUE); /* its number was not reserved */
    OK(cuLogicalEndpointIdReserve(&id, 2));
    OK(cuLogicalEndpointCreate(id, &prop));
    IS(cuLogicalEndpointIdRelease(id, 2), CUDA_ERROR_INVALID_VALUE);
    OK(cuLogicalEndpointAddDevice(id, 0));
    OK(cuLogicalEndpointQuery(id, 1, &ready));
    CHECK(!ready);
    OK(cuMemCreate(&memory, 4 * MIB, &here, 0));
    IS(cuLogicalEndpointBindMem(id, 0, 0, memory, 0, 4 * MIB, 0), CUDA_ERROR_INVALID_VALUE); /* not ready */
    OK(cuLogicalEndpointAddDevice(id, 1));
    OK(cuLogicalEndpointQuery(id, 1, &ready));
    CHECK(ready);
    size_t before = used();
    IS(cuLogicalEndpointBindMem(id, 1, 0, memory, 0, 4 * MIB, 0), CUDA_ERROR_INVALID_VALUE); /* 0's memory */
    OK(cuLogicalEndpointBindMem(id, 0, 0, memory, 0, 2 * MIB, 0));
    OK(cuLogicalEndpointBindMem(id, 0, 2 * MIB, memory, 2 * MIB, 2 * MIB, 0));
    IS(cuLogicalEndpointBindMem(id, 0, 2 * MIB, memory, 0, 2 * MIB, 0), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemRelease(memory));
    CHECK(used() == before);                                                  /* bound */
    IS(cuLogicalEndpointUnbind(id, 0, 0, 6 * MIB), CUDA_ERROR_INVALID_VALUE); /* more than is bound */
    OK(cuLogicalEndpointUnbind(id, 0, 0, 4 * MIB));                           /* both */
    CHECK(used() == before - 4 * MIB);
    OK(cuMemCreate(&memory, 4 * MIB, &here, 0));
    OK(cuLogicalEndpointBindMem(id, 0, 0, memory, 0, 4 * MIB, 0));
    OK(cuMemRelease(memory));
    OK(cuLogicalEndpointDestroy(id)); /* and what is bound */
    CHECK(used() == before - 4 * MIB);
    IS(cuLogicalEndpointDestroy(id), CUDA_ERROR_INVALID_VALUE);
    OK(cuLogicalEndpointIdRelease(id, 2));
}

/* ---- contexts ---- */

static void allocate_all_kinds(void)
{
    CUdeviceptr a;
    CUarray array;
    CUmodule module;
    void *host;
    CUDA_ARRAY_DESCRIPTOR desc = {
        .Width = 1024, .Height = 512, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 4};
    OK(cuMemAlloc(&a, 4 * MIB));
    OK(cuMemAllocManaged(&a, 4 * MIB, CU_MEM_ATTACH_GLOBAL));
    OK(cuMemHostAlloc(&host, 4096, 0));
    OK(cuArrayCreate(&array, &desc));
    OK(cuModuleLoadData(&module, ".version 8.0\n"));
    OK(cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 24 * MIB));
}

SIM_TEST(a_context_takes_arrays_modules_and_limits_with_it_the_primary_one_pools_too)
{
    CUcontext other, primary = begin();
    CUdeviceptr pooled, kept;
    CUmemGenericAllocationHandle handle = tile_pool(2 * MIB, 0);
    size_t before = used();
    OK(cuCtxCreate(&other, NULL, 0, 0));
    allocate_all_kinds();
    CHECK(used() == before + (64 + 4 + 8 + 2 + 16) * MIB);
    OK(cuMemAlloc(&kept, MIB));
    OK(cuCtxDestroy(other));
    CHECK(used() == before);
    allocate_all_kinds();
    OK(cuMemAllocAsync(&pooled, MIB, NULL));
    CHECK(used() == before + (4 + 8 + 2 + 16 + 32) * MIB);
    OK(cuDevicePrimaryCtxReset(0));
    IS(cuMemAlloc(&kept, 1), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    OK(cuDevicePrimaryCtxRetain(&primary, 0));
    CHECK(used() == before); /* pools went too; physical memory belongs to no context */
    IS(cuMemFree(pooled), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemAllocAsync(&pooled, MIB, NULL)); /* the pool itself is as it was */
    OK(cuMemRelease(handle));
}

SIM_TEST(a_green_context_holds_the_primary_one_and_owns_nothing)
{
    CUdevResource all, half;
    CUdevResourceDesc desc;
    CUgreenCtx green;
    CUcontext current;
    CUdeviceptr a;
    unsigned groups = 1;
    begin();
    size_t before = used();
    OK(cuDeviceGetDevResource(0, &all, CU_DEV_RESOURCE_TYPE_SM));
    OK(cuDevSmResourceSplitByCount(&half, &groups, &all, NULL, 0, all.sm.smCount / 2));
    CHECK(groups == 1 && half.sm.smCount == all.sm.smCount / 2);
    OK(cuDevResourceGenerateDesc(&desc, &half, 1));
    IS(cuGreenCtxCreate(&green, desc, 0, 0), CUDA_ERROR_INVALID_VALUE);
    OK(cuGreenCtxCreate(&green, desc, 0, CU_GREEN_CTX_DEFAULT_STREAM));
    CHECK(used() == before + 2 * MIB);
    OK(cuCtxFromGreenCtx(&current, green));
    OK(cuCtxPushCurrent(current));
    OK(cuMemAlloc(&a, 2 * MIB));
    OK(cuCtxPopCurrent(NULL));
    IS(cuCtxDestroy(current), CUDA_ERROR_INVALID_CONTEXT);
    OK(cuDevicePrimaryCtxRelease(0)); /* the green one still holds it */
    OK(cuMemsetD8(a, 0, 1));
    OK(cuGreenCtxDestroy(green));
    IS(cuMemFree(a), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    IS(cuGreenCtxDestroy(green), CUDA_ERROR_CONTEXT_IS_DESTROYED);
}

SIM_TEST(limits_above_their_defaults_cost_memory)
{
    size_t value;
    begin();
    size_t before = used();
    OK(cuCtxGetLimit(&value, CU_LIMIT_STACK_SIZE));
    CHECK(value == 1024);
    OK(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 5 * 1024));
    CHECK(used() == before + 8 * MIB); /* 4 KiB more for 2048 threads */
    OK(cuCtxSetLimit(CU_LIMIT_PRINTF_FIFO_SIZE, 3 * MIB));
    CHECK(used() == before + 10 * MIB);
    IS(cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 1ull << 40), CUDA_ERROR_OUT_OF_MEMORY);
    OK(cuCtxGetLimit(&value, CU_LIMIT_MALLOC_HEAP_SIZE));
    CHECK(value == 8 * MIB && used() == before + 10 * MIB);
    OK(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 512));
    CHECK(used() == before + 2 * MIB);
    IS(cuCtxSetLimit(CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH, 4), CUDA_ERROR_UNSUPPORTED_LIMIT);
    IS(cuCtxSetLimit(CU_LIMIT_MAX, 4), CUDA_ERROR_UNSUPPORTED_LIMIT);
}

/* ---- modules ---- */

SIM_TEST(modules_cost_their_image_and_run_nothing)
{
    static const struct {
        unsigned magic;
        unsigned short version, header;
        unsigned long long body;
        char code[32];
    } fat = {0xba55ed50u, 1, 16, 3 * MIB, ""};
    CUmodule module, inner, again;
    CUlibrary library;
    CUfunction function;
    begin();
    size_t before = used();
    OK(cuModuleLoadData(&module, &fat));
    CHECK(used() == before + 4 * MIB); /* 3 MiB and its header */
    IS(cuModuleGetFunction(&function, module, "kernel"), CUDA_ERROR_NOT_SUPPORTED);
    OK(cuModuleUnload(module));
    IS(cuModuleUnload(module), CUDA_ERROR_INVALID_HANDLE);
    CHECK(used() == before);
    IS(cuModuleLoadData(&module, "\x01\x02"), CUDA_ERROR_INVALID_IMAGE);
    IS(cuModuleLoad(&module, "/nowhere"), CUDA_ERROR_FILE_NOT_FOUND);
    OK(cuModuleLoad(&module, "/proc/self/exe"));
    OK(cuModuleUnload(module));
    OK(cuLibraryLoadData(&library, &fat, NULL, NULL, 0, NULL, NULL, 0));
    CHECK(used() == before); /* lazily */
    OK(cuLibraryGetModule(&inner, library));
    OK(cuLibraryGetModule(&again, library));
    CHECK(inner == again && used() == before + 4 * MIB);
    IS(cuModuleUnload(inner), CUDA_ERROR_INVALID_HANDLE); /* the library's */
    OK(cuLibraryUnload(library));
    CHECK(used() == before);
}

SIM_TEST(an_eager_library_is_loaded_at_once, "CUDA_MODULE_LOADING", "EAGER")
{
    CUlibrary library;
    CUmoduleLoadingMode mode;
    begin();
    size_t before = used();
    OK(cuModuleGetLoadingMode(&mode));
    CHECK(mode == CU_MODULE_EAGER_LOADING);
    OK(cuLibraryLoadData(&library, ".version 8.0\n", NULL, NULL, 0, NULL, NULL, 0));
    CHECK(used() == before + 2 * MIB);
    OK(cuLibraryUnload(library));
    CHECK(used() == before);
}
