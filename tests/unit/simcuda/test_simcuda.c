/* test_simcuda.c - what the simulated driver promises: everything else that is tested without a GPU stands on
 * it. */
#include "simcuda_kit.h"

/* ---- devices and contexts ---- */

SIM_TEST(nothing_works_before_init_nor_without_a_context)
{
    int count;
    CUdeviceptr p;
    IS(cuDeviceGetCount(&count), CUDA_ERROR_NOT_INITIALIZED);
    IS(cuMemAlloc(&p, 4096), CUDA_ERROR_NOT_INITIALIZED);
    OK(cuDriverGetVersion(&count));
    CHECK(count == 13050);
    OK(cuInit(0));
    IS(cuMemAlloc(&p, 4096), CUDA_ERROR_INVALID_CONTEXT);
    IS(cuInit(1), CUDA_ERROR_INVALID_VALUE);
}

SIM_TEST(devices_are_as_many_as_asked_and_tell_themselves_apart, "SIMCUDA_DEVICES", "3")
{
    int count, value;
    char name[64];
    CUdevice device;
    size_t total;
    CUuuid a, b;
    OK(cuInit(0));
    OK(cuDeviceGetCount(&count));
    CHECK(count == 3);
    OK(cuDeviceGet(&device, 2));
    IS(cuDeviceGet(&device, 3), CUDA_ERROR_INVALID_DEVICE);
    OK(cuDeviceGetName(name, sizeof name, 1));
    CHECK(strcmp(name, "simcuda simulated GPU 1") == 0);
    OK(cuDeviceTotalMem(&total, 0));
    CHECK(total == 4096 * MIB);
    OK(cuDeviceGetUuid(&a, 0));
    OK(cuDeviceGetUuid(&b, 1));
    CHECK(memcmp(&a, &b, sizeof a) != 0);
    OK(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 0));
    CHECK(value == 1);
}

SIM_TEST(a_context_costs_bytes_and_takes_what_it_owns_with_it, "SIMCUDA_CONTEXT_BYTES", "10MiB")
{
    CUcontext primary = begin(), other, current;
    CUdeviceptr p;
    size_t before = used();
    CHECK(before == 10 * MIB); /* the primary's */
    OK(cuCtxCreate(&other, NULL, 0, 0));
    OK(cuCtxGetCurrent(&current));
    CHECK(current == other);
    OK(cuMemAlloc(&p, 8 * MIB));
    CHECK(used() == 28 * MIB);
    OK(cuCtxDestroy(other));
    OK(cuCtxGetCurrent(&current));
    CHECK(current == primary);
    CHECK(used() == before); /* with all that it owned */
    IS(cuMemFree(p), CUDA_ERROR_INVALID_VALUE);
    IS(cuCtxDestroy(primary), CUDA_ERROR_INVALID_CONTEXT);
    OK(cuDevicePrimaryCtxRelease(0));
    IS(cuMemAlloc(&p, 1), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    IS(cuDevicePrimaryCtxRelease(0), CUDA_ERROR_INVALID_CONTEXT);
}

static void *thread_without_context(void *unused)
{
    CUcontext current;
    CUdevice device;
    OK(cuCtxGetCurrent(&current));
    CHECK(!current);
    IS(cuCtxGetDevice(&device), CUDA_ERROR_INVALID_CONTEXT);
    return NULL;
}
SIM_TEST(the_current_context_is_per_thread)
{
    pthread_t thread;
    begin();
    CHECK(pthread_create(&thread, NULL, thread_without_context, NULL) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
}

/* ---- memory ---- */

SIM_TEST(memory_is_counted_bounded_and_really_there)
{
    begin();
    CUdeviceptr a, b, base;
    size_t before = used(), size;
    char text[8] = "";
    OK(cuMemAlloc(&a, 3 * MIB));
    CHECK(used() == before + 4 * MIB); /* in units of 2 MiB */
    OK(cuMemAlloc(&b, 1000));
    CHECK(b % 512 == 0 && used() == before + 6 * MIB); /* small ones share 2 MiB */
    OK(cuMemGetAddressRange(&base, &size, a + MIB));
    CHECK(base == a && size == 3 * MIB);
    OK(cuMemcpyHtoD(a + 3 * MIB - 6, "hello", 6));
    OK(cuMemcpyDtoD(b, a + 3 * MIB - 6, 6));
    OK(cuMemcpyDtoH(text, b, 6));
    CHECK(strcmp(text, "hello") == 0);
    IS(cuMemcpyHtoD(a + 3 * MIB - 4, "hello", 6), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemsetD32(a, 0x01020304, 100));
    CHECK(((unsigned *)a)[99] == 0x01020304);
    IS(cuMemFree(a + 512), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemFree(a));
    IS(cuMemFree(a), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemFree(b));
    CHECK(used() == before);
    IS(cuMemAlloc(&a, 0), CUDA_ERROR_INVALID_VALUE);
    IS(cuMemAlloc(NULL, 4096), CUDA_ERROR_INVALID_VALUE);
}

SIM_TEST(thousands_of_small_allocations_do_not_overlap)
{
    begin();
    enum { COUNT = 20000 };
    static CUdeviceptr p[COUNT];
    size_t before = used();
    for (int i = 0; i < COUNT; i++) {
        OK(cuMemAlloc(&p[i], 1 + (size_t)(i * 7919) % 5000));
        *(int *)p[i] = i;
    }
    for (int i = 0; i < COUNT; i++)
        CHECK(*(int *)p[i] == i);
    for (int i = 0; i < COUNT; i++)
        OK(cuMemFree(p[(i * 7919) % COUNT]));
    CHECK(used() == before);
}

SIM_TEST(a_device_larger_than_the_host_fills_up_to_its_last_byte, "SIMCUDA_CAPACITY", "140GiB")
{
    begin();
    CUdeviceptr p;
    size_t left, total;
    OK(cuMemGetInfo(&left, &total));
    CHECK(total == 140 * 1024 * MIB);
    IS(cuMemAlloc(&p, left + 1), CUDA_ERROR_OUT_OF_MEMORY);
    OK(cuMemAlloc(&p, left));
    IS(cuMemAlloc(&p, 1), CUDA_ERROR_OUT_OF_MEMORY);
}

SIM_TEST(host_and_managed_memory_stay_outside_the_device)
{
    begin();
    size_t before = used();
    static char own[8192];
    void *host;
    CUdeviceptr managed, p;
    unsigned type;
    OK(cuMemHostAlloc(&host, 3 * MIB, CU_MEMHOSTALLOC_PORTABLE));
    OK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (CUdeviceptr)host + 5));
    CHECK(type == CU_MEMORYTYPE_HOST);
    OK(cuMemHostRegister(own, sizeof own, 0));
    IS(cuMemHostRegister(own + 4096, 10, 0), CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
    OK(cuMemHostUnregister(own));
    IS(cuMemHostUnregister(own), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
    OK(cuMemAllocManaged(&managed, 5 * MIB, CU_MEM_ATTACH_GLOBAL));
    *(int *)managed = 5;
    OK(cuMemFreeHost(host));
    IS(cuMemFreeHost(host), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemFree(managed));
    CHECK(used() == before);
    IS(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (CUdeviceptr)own),
       CUDA_ERROR_INVALID_VALUE);
    CUresult (*old)(unsigned *, unsigned) =
        (CUresult(*)(unsigned *, unsigned))dlsym(RTLD_DEFAULT, "cuMemAlloc");
    unsigned low;
    OK(old(&low, 4096));
    OK(cuMemGetAddressRange(&p, NULL, low));
    CHECK(p == low);
    OK(cuMemFree(low));
}

/* ---- virtual memory management ---- */

static const CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                         .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
static const CUmemAccessDesc access_all = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
                                           .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};

SIM_TEST(physical_memory_lives_until_references_and_mappings_are_gone)
{
    begin();
    size_t before = used();
    CUdeviceptr va;
    CUmemGenericAllocationHandle handle, again;
    OK(cuMemAddressReserve(&va, 8 * MIB, 0, 0, 0));
    OK(cuMemCreate(&handle, 4 * MIB, &prop, 0));
    CHECK(used() == before + 4 * MIB);
    OK(cuMemMap(va, 4 * MIB, 0, handle, 0));
    OK(cuMemMap(va + 4 * MIB, 4 * MIB, 0, handle, 0));
    OK(cuMemSetAccess(va, 8 * MIB, &access_all, 1));
    ((volatile int *)va)[7] = 42; /* volatile: to the compiler two addresses are two ints */
    CHECK(((volatile int *)(va + 4 * MIB))[7] == 42);
    OK(cuMemRelease(handle));
    IS(cuMemRelease(handle), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemUnmap(va, 4 * MIB));
    CHECK(used() == before + 4 * MIB); /* still mapped once */
    OK(cuMemRetainAllocationHandle(&again, (void *)(va + 5 * MIB)));
    CHECK(again == handle);
    OK(cuMemUnmap(va + 4 * MIB, 4 * MIB));
    CHECK(used() == before + 4 * MIB); /* still referenced */
    OK(cuMemRelease(again));
    CHECK(used() == before);
    OK(cuMemAddressFree(va, 8 * MIB));
}

SIM_TEST(misuse_of_mappings_is_an_error_code)
{
    begin();
    CUdeviceptr va;
    CUmemGenericAllocationHandle handle;
    CUmemAllocationProp bad = prop;
    IS(cuMemCreate(&handle, 3 * MIB, &prop, 0), CUDA_ERROR_INVALID_VALUE);
    bad.location.id = 9;
    IS(cuMemCreate(&handle, 2 * MIB, &bad, 0), CUDA_ERROR_INVALID_DEVICE);
    IS(cuMemCreate(&handle, 1024 * 1024 * MIB, &prop, 0), CUDA_ERROR_OUT_OF_MEMORY);
    IS(cuMemAddressReserve(&va, 3 * MIB, 0, 0, 0), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemAddressReserve(&va, 8 * MIB, 0, 0, 0));
    OK(cuMemCreate(&handle, 2 * MIB, &prop, 0));
    IS(cuMemMap(va + 8 * MIB, 2 * MIB, 0, handle, 0), CUDA_ERROR_INVALID_VALUE); /* not reserved */
    IS(cuMemMap(va, 4 * MIB, 0, handle, 0), CUDA_ERROR_INVALID_VALUE);           /* more than it has */
    OK(cuMemMap(va, 2 * MIB, 0, handle, 0));
    IS(cuMemMap(va, 2 * MIB, 0, handle, 0), CUDA_ERROR_INVALID_VALUE); /* mapped already */
    OK(cuMemMap(va + 2 * MIB, 2 * MIB, 0, handle, 0));
    IS(cuMemSetAccess(va, 8 * MIB, &access_all, 1), CUDA_ERROR_INVALID_VALUE); /* a hole in it */
    IS(cuMemAddressFree(va, 8 * MIB), CUDA_ERROR_INVALID_VALUE);               /* mapped */
    IS(cuMemUnmap(va, 8 * MIB), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemUnmap(va, 4 * MIB)); /* two whole mappings at once */
    IS(cuMemUnmap(va, 2 * MIB), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemCreate(&handle, 4 * MIB, &prop, 0));
    IS(cuMemMap(va, 2 * MIB, 0, handle, 0), CUDA_ERROR_NOT_SUPPORTED); /* part of a handle */
    IS(cuMemMap(va, 2 * MIB, 2 * MIB, handle, 0), CUDA_ERROR_NOT_SUPPORTED);
    OK(cuMemMap(va, 4 * MIB, 0, handle, 0));
    IS(cuMemSetAccess(va, 2 * MIB, &access_all, 1), CUDA_ERROR_INVALID_VALUE); /* part of a mapping */
    IS(cuMemUnmap(va, 2 * MIB), CUDA_ERROR_INVALID_VALUE);
    IS(cuMemAddressFree(va, 4 * MIB), CUDA_ERROR_INVALID_VALUE);
    IS(cuMemcpyHtoD(va, "x", 1), CUDA_ERROR_INVALID_VALUE); /* no access yet */
}

static void body_no_access(void)
{
    begin();
    CUdeviceptr va;
    CUmemGenericAllocationHandle handle;
    OK(cuMemAddressReserve(&va, 2 * MIB, 0, 0, 0));
    OK(cuMemCreate(&handle, 2 * MIB, &prop, 0));
    OK(cuMemMap(va, 2 * MIB, 0, handle, 0));
    signal(SIGSEGV, SIG_DFL);
    *(volatile int *)va = 1;
}
TEST(touching_a_mapping_before_set_access_faults)
{
    int status = child_status(body_no_access, NULL, NULL);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
}

SIM_TEST(an_exported_handle_comes_back_as_a_reference)
{
    begin();
    CUmemAllocationProp shared = prop;
    CUmemGenericAllocationHandle handle, imported;
    int fd = -1;
    OK(cuMemCreate(&handle, 2 * MIB, &prop, 0));
    IS(cuMemExportToShareableHandle(&fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
       CUDA_ERROR_INVALID_VALUE);
    shared.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    OK(cuMemCreate(&handle, 2 * MIB, &shared, 0));
    OK(cuMemExportToShareableHandle(&fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    OK(cuMemImportFromShareableHandle(&imported, (void *)(intptr_t)fd,
                                      CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
    close(fd);
    size_t before = used();
    OK(cuMemRelease(handle));
    CHECK(used() == before);
    OK(cuMemRelease(imported));
    CHECK(used() == before - 2 * MIB);
}

/* ---- pools ---- */

static uint64_t pool_value(CUmemoryPool pool, CUmemPool_attribute attribute)
{
    cuuint64_t value;
    OK(cuMemPoolGetAttribute(pool, attribute, &value));
    return value;
}
SIM_TEST(a_pool_keeps_reserved_and_used_apart)
{
    begin();
    CUmemoryPool pool;
    CUdeviceptr a, b;
    cuuint64_t keep = 32 * MIB;
    size_t before = used();
    OK(cuDeviceGetDefaultMemPool(&pool, 0));
    OK(cuMemAllocAsync(&a, 1000, NULL));
    CHECK(pool_value(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT) == 1024);
    CHECK(pool_value(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) == 32 * MIB && used() == before + 32 * MIB);
    OK(cuMemAllocAsync(&b, 40 * MIB, NULL));
    OK(cuMemFreeAsync(b, NULL));
    IS(cuMemFreeAsync(b, NULL), CUDA_ERROR_INVALID_VALUE);
    CHECK(pool_value(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) ==
          72 * MIB); /* until something synchronizes */
    OK(cuStreamSynchronize(NULL));
    CHECK(pool_value(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) == 32 * MIB);
    OK(cuMemFree(a));
    OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep));
    OK(cuCtxSynchronize());
    CHECK(pool_value(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) == 32 * MIB); /* the threshold keeps it */
    OK(cuMemPoolTrimTo(pool, 0));
    CHECK(used() == before);
    CHECK(pool_value(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH) == 40 * MIB + 1024);
    IS(cuMemPoolDestroy(pool), CUDA_ERROR_INVALID_VALUE);
}

SIM_TEST(a_destroyed_pool_lives_until_its_last_allocation_is_freed)
{
    begin();
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                            .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
                            .maxSize = 4 * MIB};
    CUmemoryPool pool;
    CUdeviceptr p;
    size_t before = used();
    OK(cuMemPoolCreate(&pool, &props));
    IS(cuMemAllocFromPoolAsync(&p, 5 * MIB, pool, NULL), CUDA_ERROR_OUT_OF_MEMORY);
    OK(cuMemAllocFromPoolAsync(&p, 3 * MIB, pool, NULL));
    CHECK(used() == before + 4 * MIB);
    OK(cuMemPoolDestroy(pool));
    CHECK(used() == before + 4 * MIB); /* p is still in use */
    IS(cuMemAllocFromPoolAsync(&p, 512, pool, NULL), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemFreeAsync(p, NULL));
    CHECK(used() == before);
}

/* ---- streams, look-ups, faults ---- */

static void set_flag(void *flag)
{
    *(int *)flag = 1;
}
SIM_TEST(streams_and_events_are_ordered_and_kernels_refused)
{
    begin();
    CUstream stream;
    CUevent start, end;
    float ms;
    int flag = 0;
    CUstreamCaptureStatus capture;
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cuEventCreate(&start, 0));
    OK(cuEventCreate(&end, 0));
    IS(cuEventElapsedTime(&ms, start, end), CUDA_ERROR_INVALID_HANDLE);
    OK(cuEventRecord(start, stream));
    OK(cuLaunchHostFunc(stream, set_flag, &flag));
    OK(cuEventRecord(end, stream));
    OK(cuStreamWaitEvent(NULL, end, 0));
    OK(cuStreamSynchronize(stream));
    CHECK(flag == 1);
    OK(cuEventElapsedTime(&ms, start, end));
    CHECK(ms >= 0);
    OK(cuStreamIsCapturing(stream, &capture));
    CHECK(capture == CU_STREAM_CAPTURE_STATUS_NONE);
    OK(cuStreamDestroy(stream));
    IS(cuStreamQuery(stream), CUDA_ERROR_INVALID_HANDLE);
    IS(cuLaunchKernel(NULL, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL), CUDA_ERROR_INVALID_HANDLE);
}

static void *named(const char *symbol)
{
    void *found = dlsym(RTLD_DEFAULT, symbol);
    CHECK(found);
    return found;
}
static void query(const char *base, int version, cuuint64_t flags, const char *wanted, int wanted_status)
{
    void *p = (void *)1;
    CUdriverProcAddressQueryResult status = (CUdriverProcAddressQueryResult)99;
    OK(cuGetProcAddress_v2(base, &p, version, flags, &status));
    CHECK(p == (wanted ? named(wanted) : NULL));
    CHECK((int)status == wanted_status);
    OK(cuGetProcAddress_v2(base, &p, version, flags, NULL));
    CHECK(p == (wanted ? named(wanted) : NULL));
}
SIM_TEST(a_look_up_answers_by_version_and_stream_flag)
{
    void *p;
    query("cuMemAlloc", 2000, 0, "cuMemAlloc", 0);
    query("cuMemAlloc", 3020, 0, "cuMemAlloc_v2", 0);
    query("cuMemAlloc", 13000, 2, "cuMemAlloc_v2", 0);
    query("cuMemAllocAsync", 11020, 0, "cuMemAllocAsync", 0);
    query("cuMemAllocAsync", 11020, 1, "cuMemAllocAsync", 0);
    query("cuMemAllocAsync", 11020, 2, "cuMemAllocAsync_ptsz", 0);
    query("cuMemAllocAsync", 11010, 2, NULL, 2);
    query("cuMemcpyHtoD", 3020, 2, "cuMemcpyHtoD_v2", 0);
    query("cuMemcpyHtoD", 7000, 2, "cuMemcpyHtoD_v2_ptds", 0);
    query("cuGetProcAddress", 11030, 0, "cuGetProcAddress", 0);
    query("cuGetProcAddress", 12000, 0, "cuGetProcAddress_v2", 0);
    query("cuCtxCreate", 12040, 0, "cuCtxCreate_v3", 0);
    query("cuMulticastBindMem", 13000, 0, "cuMulticastBindMem", 0);
    query("cuMulticastBindMem", 13010, 0, "cuMulticastBindMem_v2", 0);
    query("cuGraphAddNode", 13020, 0, "cuGraphAddNode_v2", 0);
    query("cuGraphAddNode", 13040, 0, "cuGraphAddNode_v3", 0);
    query("cuLogicalEndpointCreate", 13020, 0, NULL, 2);
    query("cuNoSuchThing", 13000, 0, NULL, 1);
    IS(cuGetProcAddress_v2("cuMemAlloc", &p, 13060, 0, NULL), CUDA_ERROR_INVALID_VALUE);
    IS(cuGetProcAddress_v2("cuMemAlloc", &p, 13000, 3, NULL), CUDA_ERROR_INVALID_VALUE);
    IS(cuGetProcAddress_v2("", &p, 13000, 0, NULL), CUDA_ERROR_INVALID_VALUE);
    CUresult (*first)(const char *, void **, int, cuuint64_t) = named("cuGetProcAddress");
    IS(first("cuNoSuchThing", &p, 13000, 0), CUDA_ERROR_NOT_FOUND);
    OK(first("cuMemFree", &p, 13000, 0));
    CHECK(p == named("cuMemFree_v2"));
}

SIM_TEST(faults_come_at_the_call_they_are_ordered_for, "SIMCUDA_FAIL",
         "cuMemAlloc_v2:2=2,cuMemFree_v2:1=719,cuCtxSynchronize:*=999")
{
    begin();
    CUdeviceptr a, b;
    size_t before = used();
    OK(cuMemAlloc(&a, 4096));
    errno = 77;
    IS(cuMemAlloc(&b, 4096), CUDA_ERROR_OUT_OF_MEMORY);
    CHECK(errno == 77);
    OK(cuMemAlloc(&b, 4096));
    IS(cuMemFree(a), CUDA_ERROR_LAUNCH_FAILED);
    OK(cuMemFree(a)); /* the failed free freed nothing */
    OK(cuMemFree(b));
    CHECK(used() == before);
    IS(cuCtxSynchronize(), CUDA_ERROR_UNKNOWN);
    IS(cuCtxSynchronize(), CUDA_ERROR_UNKNOWN);
}

struct process_info {
    unsigned pid;
    unsigned long long used;
    unsigned instances[2];
};
SIM_TEST(nvml_tells_this_process_and_the_drivers_own_figure)
{
    begin();
    unsigned count = 8;
    void *device;
    char uuid[80];
    struct process_info infos[8];
    unsigned long long memory[3];
    CUdeviceptr p;
    OK(cuMemAlloc(&p, 6 * MIB));
    void *nvml = dlopen("libnvidia-ml.so.1", RTLD_NOW);
    CHECK(nvml);
    int (*init)(void) = (int (*)(void))dlsym(nvml, "nvmlInit_v2");
    int (*by_uuid)(const char *, void **) =
        (int (*)(const char *, void **))dlsym(nvml, "nvmlDeviceGetHandleByUUID");
    int (*by_index)(unsigned, void **) =
        (int (*)(unsigned, void **))dlsym(nvml, "nvmlDeviceGetHandleByIndex_v2");
    int (*get_uuid)(void *, char *, unsigned) =
        (int (*)(void *, char *, unsigned))dlsym(nvml, "nvmlDeviceGetUUID");
    int (*processes)(void *, unsigned *, void *) =
        (int (*)(void *, unsigned *, void *))dlsym(nvml, "nvmlDeviceGetComputeRunningProcesses_v3");
    int (*info)(void *, void *) = (int (*)(void *, void *))dlsym(nvml, "nvmlDeviceGetMemoryInfo");
    CHECK(by_index(0, &device) != 0); /* not initialized */
    CHECK(init() == 0);
    CHECK(by_index(0, &device) == 0);
    CHECK(get_uuid(device, uuid, sizeof uuid) == 0 && strncmp(uuid, "GPU-73696d63-", 13) == 0);
    CHECK(by_uuid(uuid, &device) == 0);
    CHECK(processes(device, &count, infos) == 0);
    CHECK(count == 1 && infos[0].pid == (unsigned)getpid() && infos[0].used == used());
    CHECK(info(device, memory) == 0 && memory[2] == used());
}

SIM_TEST(a_fork_child_of_an_initialized_process_gets_nothing)
{
    CUdeviceptr p;
    int status;
    begin();
    pid_t pid = fork();
    if (pid == 0) {
        IS(cuMemAlloc(&p, 4096), CUDA_ERROR_NOT_INITIALIZED);
        IS(cuInit(0), CUDA_ERROR_NOT_INITIALIZED);
        _exit(0);
    }
    CHECK(waitpid(pid, &status, 0) == pid && status == 0);
    OK(cuMemAlloc(&p, 4096));
}
