/* Graphs, arrays, imports, multicast objects, contexts and modules: which events each call makes. */
#include "hooks_kit.h"

#include <pthread.h>

#include "../../../dry/driver/newer.h"

static CUgraph const graph = (CUgraph)0x9a0;
static CUstream const stream = (CUstream)0x10100;

static int fresh(void **state)
{
    reset();
    memset(&fake_graph, 0, sizeof(fake_graph));
    fake_primary.retains = 0;
    return 0;
}

/* ---- graphs ---- */

static void node(bool frees, uint64_t address, uint64_t size)
{
    fake_graph.free[fake_graph.nodes] = frees;
    fake_graph.address[fake_graph.nodes] = address;
    fake_graph.size[fake_graph.nodes++] = size;
}

TEST(graphs_without_memory_are_never_read, fresh)
{
    CUgraphExec exec;
    node(false, 0xa000, 100);
    assert_int_equal(cuGraphInstantiateWithFlags(&exec, graph, 0), 0);
    assert_int_equal(cuGraphLaunch(exec, stream), 0);
    assert_int_equal(errno, 77);
    assert_int_equal(cuGraphExecDestroy(exec), 0);
    assert_int_equal(record_log->count, 0);
    assert_int_equal(fake_graph.reads, 0);
}

TEST(memory_nodes_are_events_of_their_own, fresh)
{
    CUDA_MEM_ALLOC_NODE_PARAMS params = {.bytesize = 4096};
    CUgraphNodeParams any = {.type = CU_GRAPH_NODE_TYPE_MEM_ALLOC,
                             .alloc = {.dptr = 0xb000, .bytesize = 8192}};
    CUgraphNode out;
    cuGraphAddMemAllocNode(&out, graph, NULL, 0, &params);
    SAYS(event(0), .op = VS_OP_GRAPH_NODE, .space = VS_SPACE_GRAPH, .address = 0xa000, .size = 4096,
         .arg0 = (uintptr_t)graph);
    cuGraphAddMemFreeNode(&out, graph, NULL, 0, 0xa000);
    SAYS(event(1), .op = VS_OP_GRAPH_NODE, .size = 0);
    cuGraphAddNode_v2(&out, graph, NULL, NULL, 0, &any);
    SAYS(event(2), .address = 0xb000, .arg1 = VS_API_cuGraphAddNode_v2);
    any.type = CU_GRAPH_NODE_TYPE_EMPTY;
    cuGraphAddNode_v2(&out, graph, NULL, NULL, 0, &any);
    assert_int_equal(record_log->count, 3);
}

/* A and C survive (C shares its address with B, which was freed), D belongs to another graph. */
static CUgraphExec instantiated(unsigned long long flags)
{
    CUgraphExec exec;
    node(false, 0xa000, 100);
    node(false, 0xb000, 200);
    node(true, 0xb000, 0);
    node(false, 0xb000, 300);
    node(true, 0xd000, 0);
    assert_int_equal(cuGraphInstantiateWithFlags(&exec, graph, flags), 0);
    return exec;
}

TEST(launch_allocates_what_survives_and_frees_what_others_made, fresh)
{
    CUgraphExec exec = instantiated(0);
    fake_graph.reserved = 1000;
    assert_int_equal(cuGraphLaunch(exec, stream), 0);
    assert_int_equal(errno, 77);
    EXPECT_OPS(VS_OP_FREE, VS_OP_ALLOC, VS_OP_ALLOC, VS_OP_POOL_RESERVED);
    assert_int_equal(event(0)->address, 0xd000);
    SAYS(event(1), .address = 0xa000, .size = 100, .space = VS_SPACE_GRAPH, .device = 1,
         .arg0 = (uintptr_t)stream, .arg1 = VS_API_cuGraphLaunch);
    SAYS(event(2), .address = 0xb000, .size = 300);
    SAYS(event(3), .address = VS_GRAPH_POOL(1), .space = VS_SPACE_GRAPH, .size = 1000);
    fake_graph.reserved = 0;
    cuDeviceGraphMemTrim(1);
    SAYS(event(4), .op = VS_OP_POOL_RESERVED, .size = 0);
    cuGraphExecDestroy(exec);
    assert_int_equal(record_log->count, 5);
    cuGraphLaunch(exec, stream); /* nothing is known of it any more */
    assert_int_equal(record_log->count, 5);
    cuMemFree_v2(0xa000);
    cuMemFree_v2(0xb000);
}

TEST(failed_launch_takes_its_frees_back, fresh)
{
    CUgraphExec exec = instantiated(0);
    fake.fail_next = CUDA_ERROR_INVALID_VALUE;
    assert_int_equal(cuGraphLaunch(exec, stream), CUDA_ERROR_INVALID_VALUE);
    EXPECT_OPS(VS_OP_FREE, VS_OP_FREE_FAILED);
    SAYS(event(1), .arg0 = 0, .status = CUDA_ERROR_INVALID_VALUE);
    cuGraphExecDestroy(exec);
    cuMemFree_v2(0xd000);
}

TEST(automatic_free_frees_only_what_still_lives, fresh)
{
    CUgraphExec exec = instantiated(CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH);
    cuGraphLaunch(exec, stream);
    cuMemFreeAsync(0xa000, stream);
    record_log->count = 0;
    cuGraphLaunch(exec, stream);
    EXPECT_OPS(VS_OP_FREE, VS_OP_FREE, VS_OP_ALLOC, VS_OP_ALLOC);
    assert_int_equal(event(0)->address, 0xb000);
    assert_int_equal(event(1)->address, 0xd000);
    cuGraphExecDestroy(exec);
    cuMemFree_v2(0xa000);
    cuMemFree_v2(0xb000);
}

TEST(captured_launch_is_no_launch, fresh)
{
    CUgraphExec exec = instantiated(0);
    fake.capturing = 1;
    cuGraphLaunch(exec, stream);
    assert_int_equal(record_log->count, 0);
    cuGraphExecDestroy(exec);
}

/* So many that there is no room for all: each is followed or counted, none is neither. */
#define MANY 6000

TEST(executable_graphs_beyond_the_table_are_counted, fresh)
{
    CUgraphExec exec[MANY];
    int followed = 0;
    node(false, 0xa000, 512);
    record_log->untracked = 0;
    for (unsigned i = 0; i < MANY; i++)
        assert_int_equal(cuGraphInstantiateWithFlags(&exec[i], graph, i * 16ull), 0);
    for (unsigned i = 0; i < MANY; i++) {
        record_log->count = 0;
        cuGraphLaunch(exec[i], stream);
        followed += record_log->count > 0;
    }
    assert_true(followed > 3000 && followed < MANY);
    assert_int_equal(record_log->untracked, MANY - followed);
    for (unsigned i = 0; i < MANY; i++)
        cuGraphExecDestroy(exec[i]);
    cuGraphInstantiateWithFlags(&exec[0], graph, 16); /* and there is room again */
    assert_int_equal(record_log->untracked, MANY - followed);
    cuGraphExecDestroy(exec[0]);
}

TEST(addresses_beyond_the_table_are_counted, fresh)
{
    enum { GRAPHS = 2000, NODES = 8, ALL = GRAPHS * NODES };
    CUgraphExec exec[GRAPHS];
    int freed = 0;
    record_log->untracked = 0;
    for (unsigned i = 0; i < GRAPHS; i++) {
        fake_graph.nodes = 0;
        for (unsigned k = 0; k < NODES; k++)
            node(false, 0x10000000 + (i * NODES + k) * 512, 512);
        cuGraphInstantiateWithFlags(&exec[i], graph,
                                    i * 16ull | CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH);
        record_log->count = 0;
        cuGraphLaunch(exec[i], stream);
    }
    assert_true(record_log->untracked > 0);
    uint64_t untracked = record_log->untracked;
    for (unsigned i = 0; i < GRAPHS; i++) {
        record_log->count = 0;
        cuGraphLaunch(exec[i], stream);
        for (int k = 0; k < record_log->count; k++)
            freed += event(k)->op == VS_OP_FREE;
        for (unsigned k = 0; k < NODES; k++) /* make room: what is freed now need not be so again */
            cuMemFree_v2(0x10000000 + (i * NODES + k) * 512);
        cuGraphExecDestroy(exec[i]);
    }
    assert_int_equal(freed + (int)untracked, ALL);
}

/* ---- arrays ---- */

static uint64_t bytes_of(CUDA_ARRAY3D_DESCRIPTOR d, unsigned levels)
{
    CUarray array;
    CUmipmappedArray mipmap;
    record_log->count = 0;
    assert_int_equal(levels ? cuMipmappedArrayCreate(&mipmap, &d, levels) : cuArray3DCreate_v2(&array, &d),
                     0);
    EXPECT_OPS(VS_OP_ALLOC);
    assert_int_equal(event(0)->space, VS_SPACE_ARRAY);
    return event(0)->size;
}

TEST(arrays_take_what_their_elements_take, fresh)
{
    const CUarray_format f = CU_AD_FORMAT_FLOAT;
    assert_int_equal(bytes_of((CUDA_ARRAY3D_DESCRIPTOR){4096, 4096, 0, f, 4, 0}, 0), 268435456);
    assert_int_equal(bytes_of((CUDA_ARRAY3D_DESCRIPTOR){100, 0, 0, CU_AD_FORMAT_HALF, 2, 0}, 0), 400);
    assert_int_equal(bytes_of((CUDA_ARRAY3D_DESCRIPTOR){100, 100, 100, f, 4, 0}, 0), 16000000);
    /* 5 levels of 1024 x 1024 float4: 1 + 1/4 + 1/16 + 1/64 + 1/256 of 16 MiB */
    assert_int_equal(bytes_of((CUDA_ARRAY3D_DESCRIPTOR){1024, 1024, 0, f, 4, 0}, 5), 22347776);
    /* no more levels than down to one element; layers stay, depth shrinks */
    assert_int_equal(bytes_of((CUDA_ARRAY3D_DESCRIPTOR){4, 2, 0, f, 1, 0}, 9), 4 * (8 + 2 + 1));
    assert_int_equal(bytes_of((CUDA_ARRAY3D_DESCRIPTOR){4, 4, 6, f, 1, CUDA_ARRAY3D_CUBEMAP}, 2),
                     4 * 6 * (16 + 4));
    assert_int_equal(bytes_of((CUDA_ARRAY3D_DESCRIPTOR){4, 4, 4, f, 1, 0}, 2), 4 * (64 + 8));
    /* blocks of 4 x 4, begun ones whole; planes of half the width and height */
    assert_int_equal(bytes_of((CUDA_ARRAY3D_DESCRIPTOR){10, 10, 0, CU_AD_FORMAT_BC1_UNORM, 4, 0}, 0), 9 * 8);
    assert_int_equal(bytes_of((CUDA_ARRAY3D_DESCRIPTOR){10, 10, 0, CU_AD_FORMAT_BC7_UNORM, 4, 0}, 0), 9 * 16);
    assert_int_equal(bytes_of((CUDA_ARRAY3D_DESCRIPTOR){16, 16, 0, CU_AD_FORMAT_NV12, 3, 0}, 0), 384);
    /* and as CUDA 13.1 names them: semi-planar 4:2:0, planar 4:4:4 in 16 bits */
    assert_int_equal(bytes_of((CUDA_ARRAY3D_DESCRIPTOR){16, 16, 0, (CUarray_format)0x53, 3, 0}, 0), 384);
    assert_int_equal(bytes_of((CUDA_ARRAY3D_DESCRIPTOR){16, 16, 0, (CUarray_format)0x5e, 3, 0}, 0), 1536);
    assert_int_equal(bytes_of((CUDA_ARRAY3D_DESCRIPTOR){16, 16, 16, f, 1, CUDA_ARRAY3D_SPARSE}, 0), 0);
}

TEST(array_is_freed_by_its_handle, fresh)
{
    CUDA_ARRAY_DESCRIPTOR d = {16, 2, CU_AD_FORMAT_UNSIGNED_INT8, 1};
    CUarray array;
    cuArrayCreate_v2(&array, &d);
    fake.fail_next = CUDA_ERROR_INVALID_HANDLE;
    cuArrayDestroy(array);
    cuArrayDestroy(array);
    EXPECT_OPS(VS_OP_ALLOC, VS_OP_FREE, VS_OP_FREE_FAILED, VS_OP_FREE);
    assert_int_equal(event(0)->size, 32);
    assert_int_equal(event(3)->address, (uintptr_t)array);
    record_log->count = 0;
    assert_int_equal(cuArrayCreate_v2(NULL, NULL), CUDA_ERROR_INVALID_VALUE);
    EXPECT_OPS(VS_OP_ALLOC);
    assert_int_equal(event(0)->status, CUDA_ERROR_INVALID_VALUE);
}

TEST(sparse_array_binds_after_and_unbinds_before, fresh)
{
    CUarrayMapInfo list[2] = {{.resourceType = CU_RESOURCE_TYPE_ARRAY,
                               .resource.array = (CUarray)0x77,
                               .subresourceType = CU_ARRAY_SPARSE_SUBRESOURCE_TYPE_MIPTAIL,
                               .subresource.miptail.size = 65536,
                               .memOperationType = CU_MEM_OPERATION_TYPE_MAP,
                               .memHandle.memHandle = 0x55}};
    list[1] = list[0];
    list[1].memOperationType = CU_MEM_OPERATION_TYPE_UNMAP;
    cuMemMapArrayAsync(list, 1, stream);
    EXPECT_OPS(VS_OP_BIND);
    SAYS(event(0), .address = 0x77, .arg0 = 0x55, .size = 65536);
    cuMemMapArrayAsync(&list[1], 1, stream);
    SAYS(event(1), .op = VS_OP_UNBIND, .arg1 = event(0)->arg1 /* the same place */);
    fake.fail_next = CUDA_ERROR_INVALID_VALUE;
    cuMemMapArrayAsync(list, 2, stream);
    EXPECT_OPS(VS_OP_BIND, VS_OP_UNBIND, VS_OP_UNBIND, VS_OP_FREE_FAILED, VS_OP_BIND);
    assert_int_equal(event(4)->status, CUDA_ERROR_INVALID_VALUE);
}

/* ---- imports, multicast ---- */

TEST(imported_memory_is_marked_and_measured, fresh)
{
    CUdeviceptr p = 0;
    CUipcMemHandle handle = {{0}};
    assert_int_equal(cuIpcOpenMemHandle_v2(&p, handle, 0), 0);
    SAYS(event(0), .op = VS_OP_ALLOC, .space = VS_SPACE_IMPORTED, .size = 7777);
    cuIpcCloseMemHandle(p);
    SAYS(event(1), .op = VS_OP_FREE, .address = p);
}

TEST(imported_pool_is_not_asked_for_its_bytes, fresh)
{
    CUmemoryPool pool;
    CUdeviceptr p;
    fake.reserved = 5555;
    cuMemPoolImportFromShareableHandle(&pool, NULL, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
    cuMemAllocFromPoolAsync(&p, 10, pool, NULL);
    assert_int_equal(fake.pool_queries, 0);
    EXPECT_OPS(VS_OP_ALLOC);
    assert_int_equal(event(0)->space, VS_SPACE_IMPORTED);
}

TEST(mapped_graphics_resources_are_one_event_each, fresh)
{
    CUgraphicsResource r[70];
    for (int i = 0; i < 70; i++)
        r[i] = (CUgraphicsResource)(uintptr_t)(0x100 + i);
    cuGraphicsMapResources(70, r, stream);
    assert_int_equal(record_log->count, 70);
    assert_int_equal(event(69)->address, 0x100 + 69);
    fake.fail_next = CUDA_ERROR_NOT_MAPPED;
    cuGraphicsUnmapResources(2, r, stream);
    assert_int_equal(record_log->count, 74);
    assert_int_equal(event(73)->op, VS_OP_FREE_FAILED);
    cuGraphicsUnmapResources(70, r, stream); /* more than are remembered: the rest after the call */
    assert_int_equal(record_log->count, 144);
    SAYS(event(143), .op = VS_OP_FREE, .address = 0x100 + 69);
}

TEST(multicast_object_binds_memory_of_each_device, fresh)
{
    CUmemGenericAllocationHandle object = 0;
    CUmulticastObjectProp prop = {.numDevices = 2, .size = 1 << 21};
    cuMulticastCreate(&object, &prop);
    cuMulticastBindMem(object, 4096, 0x55, 0, 1 << 21, 0);
    cuMulticastUnbind(object, 1, 4096, 1 << 21);
    EXPECT_OPS(VS_OP_PHYS_CREATE, VS_OP_BIND, VS_OP_UNBIND);
    assert_int_equal(event(0)->space, VS_SPACE_MULTICAST);
    SAYS(event(1), .arg0 = 0x55, .arg1 = event(2)->arg1);
    cuMulticastUnbind(object, 0, 4096, 1 << 21);
    assert_int_not_equal(event(3)->arg1, event(2)->arg1);
}

/* Logical endpoints are objects whose names no handle is. */
TEST(endpoint_binds_memory_and_ends_like_a_multicast_object, fresh)
{
    const uint64_t object = UINT64_C(1) << 62 | 9;
    cuLogicalEndpointImport(9, "", CU_LOGICAL_ENDPOINT_IPC_HANDLE_TYPE_FABRIC);
    cuLogicalEndpointBindMem(9, 3, 4096, 0x55, 0, 1 << 21, 0);
    cuLogicalEndpointBindAddr(9, 3, 8192, (void *)0x66, 1 << 21, 0);
    cuLogicalEndpointUnbind(9, 3, 4096, 1 << 22);
    cuLogicalEndpointDestroy(9);
    EXPECT_OPS(VS_OP_PHYS_CREATE, VS_OP_BIND, VS_OP_BIND, VS_OP_UNBIND, VS_OP_PHYS_RELEASE);
    for (int i = 0; i < 5; i++)
        assert_int_equal(event(i)->address, object);
    assert_int_equal(event(0)->space, VS_SPACE_MULTICAST);
    assert_int_equal(event(1)->arg0, 0x55);
    assert_int_equal(event(2)->arg0, 0x66);
    assert_int_equal(event(2)->arg1 - event(1)->arg1, 4096); /* of one device the places follow each other */
    SAYS(event(3), .arg1 = event(1)->arg1, .size = 1 << 22);
}

/* The third form of a location names a part of a device, which is the device's. */
TEST(memory_of_a_part_of_a_device_is_the_devices, fresh)
{
    CUmemAllocationProp prop = {
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE_LOCALITY_DOMAIN, .id = 1 << 8 | 2}};
    CUmemGenericAllocationHandle handle;
    cuMemCreate(&handle, 4096, &prop, 0);
    SAYS(event(0), .space = VS_SPACE_DEVICE, .device = 2, .arg0 = UINT64_C(1) << 32 | 2);
    prop.location = (CUmemLocation){.type = CU_MEM_LOCATION_TYPE_HOST_NUMA, .id = 1};
    cuMemCreate(&handle, 4096, &prop, 0);
    assert_int_equal(event(1)->space, VS_SPACE_HOST_VMM);
}

/* ---- contexts, modules ---- */

TEST(context_ends_before_the_call_and_is_forgotten, fresh)
{
    CUcontext context;
    CUdeviceptr p;
    cuCtxCreate_v2(&context, 0, 2);
    SAYS(event(0), .op = VS_OP_CONTEXT_CREATE, .address = (uintptr_t)context, .device = 2,
         .arg0 = VS_CONTEXT_CREATED);
    fake_set_context((uintptr_t)context);
    cuMemAlloc_v2(&p, 10);
    assert_int_equal(event(1)->context, event(0)->context);
    fake.fail_next = CUDA_ERROR_INVALID_CONTEXT;
    cuCtxDestroy_v2(context);
    SAYS(event(2), .op = VS_OP_CONTEXT_DESTROY, .context = event(0)->context);
    SAYS(event(3), .op = VS_OP_FREE_FAILED, .arg0 = 2);
    cuCtxDestroy_v2(context);
    assert_int_equal(event(4)->op, VS_OP_CONTEXT_DESTROY);
    cuCtxDestroy_v2(context);
    assert_int_equal(event(5)->context, 0); /* the handle may come again for another one */
}

TEST(primary_context_lives_from_its_first_retain_to_its_last_release, fresh)
{
    CUcontext context;
    cuDevicePrimaryCtxRetain(&context, 1);
    cuDevicePrimaryCtxRetain(&context, 1);
    cuDevicePrimaryCtxRelease_v2(1);
    EXPECT_OPS(VS_OP_CONTEXT_CREATE);
    SAYS(event(0), .address = (uintptr_t)context, .arg0 = VS_CONTEXT_PRIMARY,
         .arg1 = VS_API_cuDevicePrimaryCtxRetain);
    cuDevicePrimaryCtxRelease_v2(1);
    EXPECT_OPS(VS_OP_CONTEXT_CREATE, VS_OP_CONTEXT_DESTROY);
    SAYS(event(1), .address = (uintptr_t)context, .context = event(0)->context);
    assert_int_equal(fake_primary.retains, 0); /* as the host left it */
}

/* Another thread does the same in the middle of this one's call, from its begin to its end. */
static void *retains(void *unused)
{
    CUcontext context;
    cuDevicePrimaryCtxRetain(&context, 1);
    return NULL;
}

static void *releases(void *unused)
{
    cuDevicePrimaryCtxRelease_v2(1);
    return NULL;
}

static void by_another_thread(void *(*does)(void *))
{
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, does, NULL), 0);
    pthread_join(thread, NULL);
}

static void another_retains(void)
{
    by_another_thread(retains);
}

static void another_releases(void)
{
    by_another_thread(releases);
}

TEST(retains_and_releases_that_meet_make_and_end_one_context, fresh)
{
    CUcontext context;
    for (int i = 0; i < 2; i++) {
        record_log->count = 0;
        fake.during = another_retains;
        cuDevicePrimaryCtxRetain(&context, 1);
        assert_int_equal(fake_primary.retains, 2);
        EXPECT_OPS(VS_OP_CONTEXT_CREATE);
        fake.during = another_releases;
        cuDevicePrimaryCtxRelease_v2(1);
        assert_int_equal(fake_primary.retains, 0);
        EXPECT_OPS(VS_OP_CONTEXT_CREATE, VS_OP_CONTEXT_DESTROY);
        assert_int_equal(event(1)->address, (uintptr_t)context);
    }
}

TEST(reset_ends_the_primary_context_before_the_call, fresh)
{
    CUcontext context;
    cuDevicePrimaryCtxRetain(&context, 1);
    fake.fail_next = CUDA_ERROR_UNKNOWN;
    assert_int_equal(cuDevicePrimaryCtxReset_v2(1), CUDA_ERROR_UNKNOWN);
    EXPECT_OPS(VS_OP_CONTEXT_CREATE, VS_OP_CONTEXT_DESTROY, VS_OP_FREE_FAILED);
    assert_int_equal(event(2)->arg0, 1);
    assert_int_equal(cuDevicePrimaryCtxReset_v2(1), 0);
    EXPECT_OPS(VS_OP_CONTEXT_CREATE, VS_OP_CONTEXT_DESTROY, VS_OP_FREE_FAILED, VS_OP_CONTEXT_DESTROY);
    cuDevicePrimaryCtxReset_v2(1); /* not active: nothing ends */
    assert_int_equal(record_log->count, 4);
    fake_primary.retains = 1; /* by a road of the driver's own */
    cuDevicePrimaryCtxReset_v2(1);
    SAYS(event(4), .address = 0x600001, .device = 1);
}

TEST(reset_asks_what_the_pool_and_the_graphs_still_hold, fresh)
{
    CUcontext context; /* of the device on which the fake pools lie */
    CUdeviceptr p;
    cuDevicePrimaryCtxRetain(&context, 3);
    fake_set_context((uintptr_t)context);
    fake.reserved = 4096;
    cuMemAllocAsync(&p, 10, NULL);
    int before = record_log->count;
    assert_int_equal(event(before - 1)->op, VS_OP_POOL_RESERVED);
    cuDevicePrimaryCtxReset_v2(3); /* it outlives the context: told again, since the ledger doubts it */
    assert_int_equal(record_log->count, before + 2);
    assert_int_equal(event(before)->op, VS_OP_CONTEXT_DESTROY);
    SAYS(event(before + 1), .op = VS_OP_POOL_RESERVED, .address = event(before - 1)->address, .size = 4096);
}

TEST(limits_and_modules_are_recorded, fresh)
{
    unsigned char cubin[64] = {0x7f, 'E', 'L', 'F'};
    CUmodule module;
    *(uint64_t *)(cubin + 0x28) = 1000;
    *(uint16_t *)(cubin + 0x3a) = 64;
    *(uint16_t *)(cubin + 0x3c) = 10;
    cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 16384);
    cuModuleLoadData(&module, cubin);
    cuModuleUnload(module);
    EXPECT_OPS(VS_OP_LIMIT, VS_OP_MODULE_LOAD, VS_OP_MODULE_UNLOAD);
    SAYS(event(0), .address = CU_LIMIT_STACK_SIZE, .arg0 = 16384);
    SAYS(event(1), .address = (uintptr_t)module, .arg0 = 1640);
    assert_int_equal(event(2)->address, (uintptr_t)module);
}
