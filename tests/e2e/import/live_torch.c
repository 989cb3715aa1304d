/*
 * live_torch.c - what stands around an allocator written in Python (live_allocator.py), so that a recorder
 * takes it for PyTorch's.
 *
 * RUNTIME is libcudart with its events, REAL libc10, CALLER libc10_cuda, which calls both through its PLT.
 */
#include <cuda.h>
#include <stddef.h>
#include <stdint.h>

struct device {
    int8_t type, index;
};

#ifdef RUNTIME
/* An event is a word: 0 not over, else over. */
int cudaEventRecord(void *event, void *stream)
{
    return 0;
}
int cudaEventQuery(void *event)
{
    return *(int *)event ? 0 : 600;
}
int cudaEventSynchronize(void *event)
{
    return 0;
}
int cudaEventDestroy(void *event)
{
    return 0;
}
int cudaStreamWaitEvent(void *stream, void *event, unsigned flags)
{
    return 0;
}
#endif

#ifndef RUNTIME
void usage(void *, int64_t, size_t, size_t,
           struct device) __asm__("_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE");
void oom(int64_t, size_t, size_t,
         struct device) __asm__("_ZN3c1027reportOutOfMemoryToProfilerElmmNS_6DeviceE");
#endif

#ifdef REAL
void usage(void *ptr, int64_t size, size_t allocated, size_t reserved, struct device d) {}
void oom(int64_t size, size_t allocated, size_t reserved, struct device d) {}
#endif

#ifdef CALLER
int cudaEventRecord(void *, void *);
int cudaEventQuery(void *);
int cudaEventSynchronize(void *);
int cudaEventDestroy(void *);
int cudaStreamWaitEvent(void *, void *, unsigned);

struct stream {
    struct device device;
    int64_t id;
};
struct stream current_stream(int8_t device) __asm__("_ZN3c104cuda20getCurrentCUDAStreamEa");

static __thread int64_t stream;
static const CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                         .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};

struct stream current_stream(int8_t device)
{
    return (struct stream){{1, device}, stream};
}

void live_stream(int64_t id)
{
    stream = id;
}
void live_report(uint64_t p, int64_t size, size_t allocated, size_t reserved)
{
    usage((void *)p, size, allocated, reserved, (struct device){1, 0});
}
/* As libc10's CPU allocator reports under torch's profiler. */
void live_report_cpu(uint64_t p, int64_t size)
{
    usage((void *)p, size, 64, 64, (struct device){0, -1});
}
void live_oom(int64_t size, size_t allocated, size_t reserved)
{
    oom(size, allocated, reserved, (struct device){1, 0});
}

/* ---- the driver ---- */

int live_begin(void)
{
    CUcontext context;
    return cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) || cuCtxSetCurrent(context);
}
uint64_t live_segment(size_t size)
{
    CUdeviceptr p;
    return cuMemAlloc(&p, size) ? 0 : p;
}
int live_segment_free(uint64_t p)
{
    return cuMemFree(p);
}
uint64_t live_reserve(size_t size)
{
    CUdeviceptr p;
    return cuMemAddressReserve(&p, size, 0, 0, 0) ? 0 : p;
}
int live_map(uint64_t at, size_t size, size_t unit)
{
    CUmemAccessDesc access = {.location = prop.location, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemGenericAllocationHandle handle;
    for (size_t done = 0; done < size; done += unit)
        if (cuMemCreate(&handle, unit, &prop, 0) || cuMemMap(at + done, unit, 0, handle, 0) ||
            cuMemRelease(handle))
            return 1;
    return cuMemSetAccess(at, size, &access, 1);
}
int live_unmap(uint64_t at, size_t size, size_t unit)
{
    for (size_t done = 0; done < size; done += unit)
        if (cuMemUnmap(at + done, unit))
            return 1;
    return 0;
}

/* ---- events, as libc10_cuda calls the runtime ---- */

int live_record(void *event)
{
    return cudaEventRecord(event, NULL);
}
int live_query(void *event)
{
    return cudaEventQuery(event);
}
int live_synchronize(void *event)
{
    return cudaEventSynchronize(event);
}
int live_destroy(void *event)
{
    return cudaEventDestroy(event);
}
int live_wait(void *event)
{
    return cudaStreamWaitEvent(NULL, event, 0);
}
#endif
