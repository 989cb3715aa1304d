/* test_runtime.c - errors, devices, contexts and memory of the runtime's stand-in. */
#include "runtime_kit.h"

/* ---- errors ---- */

SIM_TEST(an_error_has_its_name_and_its_text)
{
    CHECK(strcmp(cudaGetErrorName(cudaErrorMemoryAllocation), "cudaErrorMemoryAllocation") == 0);
    CHECK(strcmp(cudaGetErrorString(cudaErrorMemoryAllocation), "out of memory") == 0);
    CHECK(strcmp(cudaGetErrorName(cudaSuccess), "cudaSuccess") == 0);
    CHECK(strcmp(cudaGetErrorString(cudaErrorIllegalAddress), "an illegal memory access was encountered") ==
          0);
    CHECK(strcmp(cudaGetErrorString((cudaError_t)12345), "unrecognized error code") == 0);
    CHECK(strcmp(cudaGetErrorName((cudaError_t)12345), "unrecognized error code") == 0);
}

static void *other_thread(void *unused)
{
    GOOD(cudaPeekAtLastError());
    return NULL;
}

SIM_TEST(a_thread_remembers_its_last_error_until_it_is_asked)
{
    pthread_t thread;
    void *p;
    GAVE(cudaMalloc(&p, (size_t)1 << 50), cudaErrorMemoryAllocation);
    CHECK(p == NULL);
    GOOD(cudaMalloc(&p, 1)); /* a call that succeeds forgets nothing */
    GAVE(cudaPeekAtLastError(), cudaErrorMemoryAllocation);
    CHECK(pthread_create(&thread, NULL, other_thread, NULL) == 0 && pthread_join(thread, NULL) == 0);
    GAVE(cudaGetLastError(), cudaErrorMemoryAllocation);
    GOOD(cudaGetLastError());
    GAVE(cudaSetDevice(99), cudaErrorInvalidDevice);
    GAVE(cudaGetLastError(), cudaErrorInvalidDevice);
}

extern CUresult simcuda_busy(CUcontext context, int busy);

SIM_TEST(not_to_be_ready_is_remembered_by_nobody)
{
    CUcontext context;
    cudaEvent_t event;
    GOOD(cudaEventCreate(&event));
    OK(cuCtxGetCurrent(&context));
    OK(simcuda_busy(context, 1));
    GOOD(cudaEventRecord(event, NULL));
    GAVE(cudaEventQuery(event), cudaErrorNotReady);
    OK(simcuda_busy(context, 0));
    GOOD(cudaEventQuery(event));
    GOOD(cudaGetLastError());
}

SIM_TEST(the_driver_says_whether_an_error_comes_again, "SIMCUDA_FAIL", "cuMemAlloc_v2:1=700")
{
    void *p;
    GAVE(cudaMalloc(&p, 64), cudaErrorIllegalAddress);
    GAVE(cudaGetLastError(), cudaErrorIllegalAddress);
    GOOD(cudaGetLastError());
    GOOD(cudaMalloc(&p, 64));
}

/* ---- devices and contexts ---- */

SIM_TEST(questions_make_no_context_and_the_first_work_makes_one)
{
    int n, device;
    struct cudaDeviceProp p;
    CUcontext context;
    GOOD(cudaGetDeviceCount(&n));
    GOOD(cudaGetDevice(&device));
    GOOD(cudaGetDeviceProperties(&p, 0));
    GOOD(cudaDeviceGetAttribute(&n, cudaDevAttrMultiProcessorCount, 0));
    OK(cuCtxGetCurrent(&context));
    CHECK(device == 0 && n == p.multiProcessorCount && simcuda_contexts(0) == 0 && !context);
    GOOD(cudaFree(NULL));
    OK(cuCtxGetCurrent(&context));
    CHECK(simcuda_contexts(0) == 1 && context);
}

static void *on_first(void *unused)
{
    int device;
    void *p;
    struct cudaPointerAttributes what;
    GOOD(cudaGetDevice(&device));
    GOOD(cudaMalloc(&p, 64));
    GOOD(cudaPointerGetAttributes(&what, p));
    CHECK(device == 0 && what.device == 0);
    return NULL;
}

SIM_TEST(each_thread_has_its_device_and_the_others_are_peers, "SIMCUDA_DEVICES", "2")
{
    int device, n;
    pthread_t thread;
    void *p;
    struct cudaPointerAttributes what;
    GOOD(cudaGetDeviceCount(&n));
    CHECK(n == 2);
    GOOD(cudaSetDevice(1));
    CHECK(simcuda_contexts(0) == 0 && simcuda_contexts(1) == 1);
    GOOD(cudaGetDevice(&device));
    GOOD(cudaMalloc(&p, 64));
    GOOD(cudaPointerGetAttributes(&what, p));
    CHECK(device == 1 && what.device == 1);
    CHECK(pthread_create(&thread, NULL, on_first, NULL) == 0 && pthread_join(thread, NULL) == 0);
    GOOD(cudaDeviceCanAccessPeer(&n, 1, 0));
    GOOD(cudaDeviceEnablePeerAccess(0, 0));
    GAVE(cudaDeviceEnablePeerAccess(0, 0), cudaErrorPeerAccessAlreadyEnabled);
    GOOD(cudaDeviceDisablePeerAccess(0));
    GAVE(cudaDeviceDisablePeerAccess(0), cudaErrorPeerAccessNotEnabled);
    GAVE(cudaDeviceEnablePeerAccess(7, 0), cudaErrorInvalidDevice);
}

SIM_TEST(a_context_that_the_program_made_is_used)
{
    CUcontext own, now;
    void *p;
    OK(cuInit(0));
    OK(cuCtxCreate(&own, NULL, 0, 0));
    GOOD(cudaMalloc(&p, 64));
    OK(cuCtxGetCurrent(&now));
    CHECK(now == own && simcuda_contexts(0) == 1);
}

SIM_TEST(after_a_reset_the_next_call_makes_the_context_anew)
{
    void *p;
    int value = 0;
    GOOD(cudaMalloc(&p, 64 * MIB));
    size_t held = used();
    GOOD(cudaDeviceReset());
    CHECK(simcuda_contexts(0) == 0);
    GOOD(cudaMalloc(&p, 64)); /* and a new one */
    GOOD(cudaMemcpy(p, &value, sizeof value, cudaMemcpyHostToDevice));
    CHECK(simcuda_contexts(0) == 1 && used() < held);
}

SIM_TEST(without_a_device_all_say_so, "SIMCUDA_DEVICES", "0")
{
    int n = 7;
    void *p;
    GAVE(cudaGetDeviceCount(&n), cudaErrorNoDevice);
    GAVE(cudaMalloc(&p, 64), cudaErrorNoDevice);
}

static int asked(enum cudaDeviceAttr attribute)
{
    int value = -1;
    GOOD(cudaDeviceGetAttribute(&value, attribute, 0));
    return value;
}

SIM_TEST(properties_are_the_drivers_attributes)
{
    struct cudaDeviceProp p;
    GOOD(cudaGetDeviceProperties(&p, 0));
    CHECK(p.name[0] && p.totalGlobalMem > 0);
    CHECK(p.major == asked(cudaDevAttrComputeCapabilityMajor) && p.warpSize == 32);
    CHECK(p.maxGridSize[2] == asked(cudaDevAttrMaxGridDimZ));
    CHECK(p.sharedMemPerBlockOptin == (size_t)asked(cudaDevAttrMaxSharedMemoryPerBlockOptin));
    CHECK(p.l2CacheSize == asked(cudaDevAttrL2CacheSize) &&
          p.clusterLaunch == asked(cudaDevAttrClusterLaunch));
    GAVE(cudaGetDeviceProperties(&p, 5), cudaErrorInvalidDevice);
    GAVE(cudaGetDeviceProperties(NULL, 0), cudaErrorInvalidValue);
}

/* ---- memory ---- */

SIM_TEST(nothing_is_allocated_for_0_bytes_and_to_free_nothing_is_no_error)
{
    void *p = &p, *q;
    size_t free_before, free_after, total, pitch;
    GOOD(cudaMalloc(&p, 0));
    CHECK(p == NULL);
    GOOD(cudaFree(NULL));
    GOOD(cudaFreeHost(NULL));
    GAVE(cudaMalloc(NULL, 4), cudaErrorInvalidValue);
    GOOD(cudaMemGetInfo(&free_before, &total));
    GOOD(cudaMalloc(&p, 8 * MIB));
    GOOD(cudaMemGetInfo(&free_after, &total));
    CHECK(free_before - free_after == 8 * MIB);
    GOOD(cudaFree(p));
    GAVE(cudaFree(p), cudaErrorInvalidValue);
    GOOD(cudaMallocPitch(&q, &pitch, 100, 10));
    CHECK(pitch >= 100 && pitch % 32 == 0);
    GOOD(cudaFree(q));
    GOOD(cudaMallocAsync(&p, 4096, NULL));
    GOOD(cudaFreeAsync(p, NULL));
}

static enum cudaMemoryType type_of(const void *p)
{
    struct cudaPointerAttributes what;
    GOOD(cudaPointerGetAttributes(&what, p));
    CHECK((what.type == cudaMemoryTypeUnregistered) == (what.device == cudaInvalidDeviceId));
    CHECK(what.type == cudaMemoryTypeUnregistered || what.devicePointer == p);
    return what.type;
}

SIM_TEST(a_pointer_says_which_memory_it_is)
{
    static char pages[2 * 4096] __attribute__((aligned(4096)));
    void *p;
    unsigned flags;
    GOOD(cudaMalloc(&p, 64));
    CHECK(type_of(p) == cudaMemoryTypeDevice);
    GOOD(cudaMallocManaged(&p, 64, cudaMemAttachGlobal));
    CHECK(type_of(p) == cudaMemoryTypeManaged);
    GOOD(cudaHostAlloc(&p, 64, cudaHostAllocPortable));
    CHECK(type_of(p) == cudaMemoryTypeHost);
    GOOD(cudaHostGetFlags(&flags, p));
    CHECK(flags & cudaHostAllocPortable);
    CHECK(type_of(pages) == cudaMemoryTypeUnregistered);
    GOOD(cudaHostRegister(pages, sizeof pages, cudaHostRegisterDefault));
    CHECK(type_of(pages) == cudaMemoryTypeHost);
    GAVE(cudaHostRegister(pages, sizeof pages, 0), cudaErrorHostMemoryAlreadyRegistered);
    GOOD(cudaHostUnregister(pages));
    CHECK(type_of(pages) == cudaMemoryTypeUnregistered);
}

SIM_TEST(pools_are_the_drivers)
{
    cudaMemPool_t pool, mine;
    uint64_t kept = 3 * MIB, said = 0;
    void *p;
    struct cudaMemPoolProps properties = {.allocType = cudaMemAllocationTypePinned,
                                          .location = {.type = cudaMemLocationTypeDevice, .id = 0}};
    GOOD(cudaDeviceGetDefaultMemPool(&pool, 0));
    GOOD(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &kept));
    GOOD(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &said));
    CHECK(said == kept);
    GOOD(cudaMemPoolCreate(&mine, &properties));
    GOOD(cudaMallocFromPoolAsync(&p, 1000, mine, NULL));
    GOOD(cudaMemPoolGetAttribute(mine, cudaMemPoolAttrUsedMemCurrent, &said));
    CHECK(said >= 1000);
    GOOD(cudaFreeAsync(p, NULL));
    GOOD(cudaMemPoolTrimTo(mine, 0));
    GOOD(cudaMemPoolDestroy(mine));
}

int main(int argc, char **argv)
{
    return in_dry_mode(argv);
}
