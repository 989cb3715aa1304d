/* Linked with a driver, hooks preloaded: which events each function makes, and that the host sees nothing. */
#include "hooks_kit.h"

#include <pthread.h>

static CUcontext const context1 = (CUcontext)0x20001;

static int fresh(void **state)
{
    reset();
    return 0;
}

TEST(allocation_is_recorded_after_the_call_with_device_size_and_api, fresh)
{
    CUdeviceptr p = 0;
    errno = 0;
    assert_int_equal(cuMemAlloc_v2(&p, 4096), 0);
    assert_int_equal(errno, 77); /* the driver's, not ours */
    const struct vs_event *e = only_event();
    SAYS(e, .op = VS_OP_ALLOC, .space = VS_SPACE_DEVICE, .address = p, .size = 4096, .device = 0);
    assert_int_not_equal(e->context, 0);
    SAYS(e, .arg1 = VS_API_cuMemAlloc_v2, .status = 0);
}

TEST(failed_allocation_is_recorded_with_its_status_and_no_address, fresh)
{
    CUdeviceptr p = 5;
    fake.fail_next = CUDA_ERROR_OUT_OF_MEMORY;
    assert_int_equal(cuMemAlloc_v2(&p, 4096), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(p, 5);
    SAYS(event(0), .status = CUDA_ERROR_OUT_OF_MEMORY, .address = 0, .size = 4096);
}

/* What the driver had free belongs to it, and nobody else can ask in time: but at no other failure. */
TEST(driver_is_asked_what_it_has_free_where_memory_ran_out, fresh)
{
    CUdeviceptr p;
    fake.fail_next = CUDA_ERROR_OUT_OF_MEMORY;
    assert_int_equal(cuMemAlloc_v2(&p, 4096), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(record_log->count, 3);
    SAYS(event(1), .op = VS_OP_SAMPLE, .arg0 = VS_SAMPLE_OOM, .size = 700, .address = FAKE_FREE);
    SAYS(event(2), .arg0 = VS_SAMPLE_OOM_PROCESS, .size = record_log->used, .device = event(1)->device);
    fake.fail_next = CUDA_ERROR_INVALID_VALUE;
    assert_int_equal(cuMemAlloc_v2(&p, 4096), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(record_log->count, 4);
}

TEST(null_out_parameter_reaches_the_driver, fresh)
{
    assert_int_equal(cuMemAlloc_v2(NULL, 1), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(fake.calls, 1);
    assert_int_equal(only_event()->status, CUDA_ERROR_INVALID_VALUE);
}

TEST(pitched_allocation_takes_pitch_times_height, fresh)
{
    CUdeviceptr p;
    size_t pitch;
    assert_int_equal(cuMemAllocPitch_v2(&p, &pitch, 100, 10, 4), 0);
    assert_int_equal(only_event()->size, 512 * 10);
}

TEST(old_abi_writes_32_bits_only, fresh)
{
    struct {
        CUdeviceptr_v1 p, guard;
    } out = {0, 0xdeadbeef};
    assert_int_equal(cuMemAlloc(&out.p, 16), 0);
    assert_int_equal(out.guard, 0xdeadbeef);
    SAYS(only_event(), .address = 0x1234, .arg1 = VS_API_cuMemAlloc);
}

TEST(free_comes_before_the_call_and_failing_gives_it_back, fresh)
{
    assert_int_equal(cuMemFree_v2(0x1000), 0);
    const struct vs_event *e = only_event();
    SAYS(e, .op = VS_OP_FREE, .address = 0x1000, .device = VS_DEVICE_UNKNOWN);
    fake.fail_next = CUDA_ERROR_INVALID_VALUE;
    assert_int_equal(cuMemFree_v2(0x2000), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(errno, 77);
    assert_int_equal(record_log->count, 3);
    e = event(2);
    SAYS(e, .op = VS_OP_FREE_FAILED, .arg0 = 1, .address = 0x2000, .status = CUDA_ERROR_INVALID_VALUE);
}

TEST(free_of_null_is_no_event, fresh)
{
    assert_int_equal(cuMemFree_v2(0), 0);
    assert_int_equal(fake.calls, 1);
    assert_int_equal(record_log->count, 0);
}

TEST(call_inside_the_driver_is_one_event, fresh)
{
    void *p;
    assert_int_equal(cuMemAllocHost_v2(&p, 64), 0);
    assert_string_equal(fake.last, "cuMemHostAlloc");
    SAYS(only_event(), .arg1 = VS_API_cuMemAllocHost_v2, .space = VS_SPACE_PINNED,
         .device = VS_DEVICE_UNKNOWN);
    assert_int_equal(cuMemFreeHost(p), 0);
    assert_int_equal(record_log->count, 2);
}

TEST(jump_out_of_the_driver_does_not_silence_the_thread, fresh)
{
    CUdeviceptr p;
    jmp_buf here;
    fake.leave = &here;
    if (setjmp(here) == 0) {
        cuMemAlloc_v2(&p, 1);
        fail();
    }
    cuMemAlloc_v2(&p, 1);
    assert_int_equal(record_log->count, 1);
}

TEST(registered_pages_are_a_space_of_their_own, fresh)
{
    char page[64];
    assert_int_equal(cuMemHostRegister_v2(page, sizeof(page), 0), 0);
    SAYS(only_event(), .space = VS_SPACE_REGISTERED, .address = (uintptr_t)page);
    assert_int_equal(cuMemHostUnregister(page), 0);
    SAYS(event(1), .op = VS_OP_FREE, .space = VS_SPACE_REGISTERED);
}

TEST(nothing_is_recorded_where_recording_says_no, fresh)
{
    CUdeviceptr p;
    record_log->disabled = true;
    assert_int_equal(cuMemAlloc_v2(&p, 1), 0);
    assert_int_equal(cuMemFree_v2(p), 0);
    assert_int_equal(fake.calls, 2);
    assert_int_equal(record_log->count, 0);
}

TEST(start_prepares_the_unwinder_once, fresh)
{
    errno = 0;
    assert_int_equal(cuInit(0), 0);
    assert_int_equal(errno, 77);
    assert_int_equal(cuInit(0), 0);
    SAYS(record_log, .prepared = 1, .count = 0);
}

TEST(second_device_gets_a_row_and_its_own_context, fresh)
{
    CUdeviceptr p;
    cuMemAlloc_v2(&p, 1);
    int devices = record_log->devices;
    fake_set_context((uintptr_t)context1);
    cuMemAlloc_v2(&p, 1);
    cuMemAlloc_v2(&p, 1);
    assert_int_equal(record_log->devices, devices + 1);
    SAYS(&record_log->device, .ordinal = 1, .total_bytes = 1001);
    assert_string_equal(record_log->device.name, "one");
    assert_int_equal(record_log->device.uuid[3], 0xab);
    assert_true(record_log->simulated);
    assert_int_equal(event(1)->device, 1);
    assert_int_not_equal(event(1)->context, event(0)->context);
    assert_int_equal(event(2)->context, event(1)->context);
}

TEST(thread_without_context_has_no_device, fresh)
{
    CUdeviceptr p;
    fake_set_context(0);
    assert_int_equal(cuMemAlloc_v2(&p, 1), 0);
    SAYS(only_event(), .device = VS_DEVICE_UNKNOWN, .context = 0);
}

TEST(sample_is_taken_when_asked_for, fresh)
{
    CUdeviceptr p;
    record_log->sample_wanted = true;
    cuMemAlloc_v2(&p, 1);
    cuMemAlloc_v2(&p, 1);
    assert_int_equal(record_log->count, 3);
    SAYS(event(1), .op = VS_OP_SAMPLE, .size = 700, .arg0 = VS_SAMPLE_MEMINFO, .device = 0);
}

TEST(a_figure_that_cannot_be_is_no_sample, fresh)
{
    CUdeviceptr p;
    record_log->sample_wanted = true;
    fake.taken = -UINT64_C(701); /* more is free than there is */
    cuMemAlloc_v2(&p, 1);
    fake.taken = 0;
    assert_int_equal(record_log->count, 1);
}

TEST(physical_memory_is_placed_by_its_properties, fresh)
{
    CUmemGenericAllocationHandle h = 0;
    CUmemAllocationProp prop = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 2}};
    assert_int_equal(cuMemCreate(&h, 2 << 20, &prop, 0), 0);
    SAYS(only_event(), .op = VS_OP_PHYS_CREATE, .address = h, .device = 2, .space = VS_SPACE_DEVICE,
         .arg0 = (uint64_t)CU_MEM_LOCATION_TYPE_DEVICE << 32 | 2);
    prop.location.type = CU_MEM_LOCATION_TYPE_HOST_NUMA;
    cuMemCreate(&h, 2 << 20, &prop, 0);
    SAYS(event(1), .space = VS_SPACE_HOST_VMM, .device = VS_DEVICE_UNKNOWN);
}

TEST(mapping_and_its_undoing, fresh)
{
    CUdeviceptr va = 0;
    CUmemGenericAllocationHandle h = 0x55, again = 0;
    cuMemAddressReserve(&va, 4096, 0, 0, 0);
    cuMemMap(va, 4096, 7, h, 0);
    cuMemSetAccess(va, 4096, NULL, 3);
    cuMemRetainAllocationHandle(&again, (void *)va);
    cuMemImportFromShareableHandle(&again, NULL, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    fake.fail_next = CUDA_ERROR_INVALID_VALUE;
    cuMemUnmap(va, 4096);
    cuMemRelease(h);
    cuMemAddressFree(va, 4096);
    EXPECT_OPS(VS_OP_VA_RESERVE, VS_OP_MAP, VS_OP_SET_ACCESS, VS_OP_PHYS_RETAIN, VS_OP_PHYS_RETAIN,
               VS_OP_UNMAP, VS_OP_FREE_FAILED, VS_OP_PHYS_RELEASE, VS_OP_VA_FREE);
    const struct vs_event *map = event(1);
    SAYS(map, .address = va, .arg0 = h, .arg1 = 7);
    assert_int_equal(event(2)->arg0, 3);
    assert_int_equal(event(3)->arg0, va);
    assert_int_equal(event(4)->space, VS_SPACE_IMPORTED);
    assert_int_equal(event(6)->arg0, 5);
}

TEST(pool_is_asked_and_its_change_recorded, fresh)
{
    CUdeviceptr p;
    fake.reserved = 100;
    cuMemAllocAsync(&p, 10, NULL);
    cuMemAllocAsync(&p, 10, NULL);
    assert_int_equal(record_log->count, 3); /* two allocations, one change */
    const struct vs_event *e = event(1);
    assert_int_equal(event(0)->space, VS_SPACE_POOL);
    SAYS(e, .op = VS_OP_POOL_RESERVED, .size = 100, .arg0 = 5, .address = 0x9000);
    cuMemPoolTrimTo((CUmemoryPool)0x9000, 50);
    assert_int_equal(event(3)->size, 50);
    cuMemPoolDestroy((CUmemoryPool)0x9000);
    assert_int_equal(event(4)->size, 0);
    assert_int_equal(record_log->count, 5);
}

TEST(pool_is_reported_once_recording_takes_it, fresh)
{
    CUdeviceptr p;
    fake.reserved = 31;
    record_log->closed = true;
    cuMemAllocFromPoolAsync(&p, 10, (CUmemoryPool)0xc000, NULL);
    record_log->closed = false;
    cuMemAllocFromPoolAsync(&p, 10, (CUmemoryPool)0xc000, NULL);
    assert_int_equal(record_log->count, 2);
    assert_int_equal(event(1)->size, 31);
}

TEST(changed_current_pool_is_followed, fresh)
{
    CUdeviceptr p;
    fake.reserved = 1;
    cuMemAllocAsync(&p, 10, NULL);
    cuDeviceSetMemPool(0, (CUmemoryPool)0xa000);
    cuMemAllocAsync(&p, 10, NULL);
    assert_int_equal(event(record_log->count - 1)->address, 0xa000);
    cuDeviceSetMemPool(0, NULL);
}

TEST(captured_allocation_is_a_graph_node_and_asks_no_pool, fresh)
{
    CUdeviceptr p;
    fake.capturing = 1;
    fake.reserved = 12345;
    cuMemAllocAsync(&p, 10, (CUstream)0x10100);
    SAYS(only_event(), .op = VS_OP_GRAPH_NODE, .address = p, .size = 10, .arg0 = 0x10100,
         .arg1 = VS_API_cuMemAllocAsync);
    assert_int_equal(fake.pool_queries, 0);
    cuMemFreeAsync(p, (CUstream)0x10100);
    assert_int_equal(record_log->count, 2);
    SAYS(event(1), .op = VS_OP_GRAPH_NODE, .size = 0);
    fake.capturing = 0;
    cuMemFreeAsync(p, (CUstream)0x10100);
    assert_int_equal(event(2)->op, VS_OP_FREE);
}

TEST(per_thread_stream_is_told_from_the_legacy_one, fresh)
{
    CUdeviceptr p;
    cuMemAllocAsync(&p, 10, NULL); /* its pool's figure may have changed */
    record_log->count = 0;
    cuMemAllocAsync(&p, 10, NULL);
    cuMemAllocAsync_ptsz(&p, 10, NULL);
    cuMemFreeAsync_ptsz(p, (CUstream)0x10100);
    assert_int_equal(event(0)->arg0, 0);
    assert_int_equal(event(1)->arg0, (uintptr_t)CU_STREAM_PER_THREAD);
    SAYS(event(2), .arg0 = 0x10100, .space = VS_SPACE_NONE /* an address does not say what it is */);
}

TEST(refused_stream_is_not_shown_to_the_driver_again, fresh)
{
    CUdeviceptr p;
    for (int i = 0; i < 64; i++) {
        fake.fail_next = CUDA_ERROR_INVALID_HANDLE;
        cuMemAllocAsync(&p, 10, FAKE_BAD_STREAM);
        fake.fail_next = CUDA_ERROR_INVALID_HANDLE;
        cuMemFreeAsync(0x1000, FAKE_BAD_STREAM);
    }
    assert_int_equal(record_log->count, 3 * 64);
    assert_int_equal(event(0)->device, 0); /* the current context's */
}

TEST(stream_of_another_context_tells_the_device, fresh)
{
    CUdeviceptr p;
    cuMemAllocFromPoolAsync(&p, 10, (CUmemoryPool)0xd000,
                            (CUstream)0x30103); /* its context is 0x30003, the current one 0x10000 */
    assert_int_equal(event(0)->device, 3);
}

TEST(own_pool_tells_the_device, fresh)
{
    CUdeviceptr p;
    fake.reserved = 7;
    cuMemAllocFromPoolAsync(&p, 10, (CUmemoryPool)0xb000, NULL);
    assert_int_equal(event(0)->device, 3);
    SAYS(event(1), .address = 0xb000, .device = 3);
}

TEST(frees_ask_the_pool_now_and_then, fresh)
{
    CUdeviceptr p;
    cuMemAllocAsync(&p, 10, NULL);
    fake.reserved = 4711;
    fake.pool_queries = 0;
    for (int i = 0; i < 640; i++)
        cuMemFreeAsync(p, NULL);
    assert_true(fake.pool_queries >= 10 && fake.pool_queries <= 12);
}

static void *allocate(void *unused)
{
    CUdeviceptr p;
    fake_set_context((uintptr_t)context1);
    for (int i = 0; i < 1000; i++) {
        cuMemAlloc_v2(&p, 1);
        cuMemFree_v2(p);
    }
    return NULL;
}

TEST(threads_lose_no_event, fresh)
{
    pthread_t t[4];
    for (int i = 0; i < 4; i++)
        pthread_create(&t[i], NULL, allocate, NULL);
    for (int i = 0; i < 4; i++)
        pthread_join(t[i], NULL);
    assert_int_equal(record_log->count, 8000);
}

TEST(missing_function_of_a_loaded_driver_answers_302, fresh)
{
    /* the fake driver has no cuMemFree of 2.0; a reference to it would bind to our export */
    void *ours = dlopen(getenv("LD_PRELOAD"), RTLD_LAZY | RTLD_NOLOAD);
    CUresult (*f)(CUdeviceptr_v1) = dlsym(ours, "cuMemFree");
    assert_non_null(f);
    assert_int_equal(f(1), CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND);
    dlclose(ours);
    assert_int_equal(record_log->count, 0);
}

TEST(real_address_is_never_a_wrapper, fresh)
{
    void *(*real)(const char *) = (void *(*)(const char *))dlsym(RTLD_DEFAULT, "vramscope_test_real");
    int (*seen)(void) = (int (*)(void))dlsym(RTLD_DEFAULT, "vramscope_test_seen");
    CUdeviceptr p;
    cuMemAlloc_v2(&p, 1);
    assert_true(seen());
    assert_non_null(real("cuMemAlloc_v2"));
    assert_ptr_not_equal(real("cuMemAlloc_v2"), cuMemAlloc_v2);
    assert_null(real("cuNoSuchFunction"));
    assert_null(real("malloc"));
}
