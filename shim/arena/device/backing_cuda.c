/*
 * backing_cuda.c - see backing_cuda.h.
 *
 * Chunks can be reached by everything that may want to: they have a handle that can be exported, and are made
 * for RDMA, where the device can.
 */
#include "backing_cuda.h"

#include "core/clock.h"

#include <pthread.h>
#include <string.h>

#define PEERS_MAX 64

#define SLOW_TOTAL_NS 2000000000u /* in making chunks, before the program's user is told why it waits */
#define SLOW_EACH_NS  1000000u    /* an idle H200 takes 30,000 */

/* ---- the thread's state around a call ---- */

struct state {
    bool pushed, relaxed;
    CUstreamCaptureMode mode;
    int cancel;
};

/* A thread that the program cancels must not end here, since it has the arena's lock.  After an error no
 * context is current, but no capture is disturbed either. */
static CUresult enter(struct vs_backing_cuda *b, struct state *s)
{
    CUcontext current = NULL;
    *s = (struct state){false, false, CU_STREAM_CAPTURE_MODE_RELAXED, 0};
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &s->cancel);
    CUresult status = b->call.cuCtxGetCurrent(&current);
    if (status == CUDA_SUCCESS && b->context && current != b->context) {
        status = b->call.cuCtxPushCurrent_v2(b->context);
        s->pushed = status == CUDA_SUCCESS;
    }
    s->relaxed = b->call.cuThreadExchangeStreamCaptureMode(&s->mode) == CUDA_SUCCESS;
    return status;
}

static void leave(struct vs_backing_cuda *b, struct state *s)
{
    CUcontext popped;
    if (s->relaxed)
        b->call.cuThreadExchangeStreamCaptureMode(&s->mode);
    if (s->pushed)
        b->call.cuCtxPopCurrent_v2(&popped);
    pthread_setcancelstate(s->cancel, NULL);
}

/* Makes CALL between enter and leave, and returns its status. */
#define AROUND(b, CALL)                                                                                      \
    do {                                                                                                     \
        struct state state_;                                                                                 \
        CUresult status_ = enter(b, &state_);                                                                \
        if (status_ == CUDA_SUCCESS)                                                                         \
            status_ = (CALL);                                                                                \
        leave(b, &state_);                                                                                   \
        return (int)status_;                                                                                 \
    } while (0)

/* Relaxed: the arena's lock orders the counts, and others only read them. */
static void one_more(uint64_t *calls)
{
    __atomic_fetch_add(calls, 1, __ATOMIC_RELAXED);
}

/* ---- memory ---- */

/* Reports, once, that the driver is slow: where many processes start on one GPU they wait for each other in
 * it, and a request of some GiB takes minutes, which looks like a hang.  The arena's lock is held here. */
static void took(struct vs_backing_cuda *b, uint64_t since)
{
    b->making_ns += b->now() - since;
    if (b->slow_reported || b->making_ns < SLOW_TOTAL_NS || b->making_ns / SLOW_EACH_NS < b->made)
        return;
    b->slow_reported = true;
    if (b->slow)
        b->slow(b);
}

static int reserve(void *context, uint64_t size, uint64_t *address)
{
    struct vs_backing_cuda *b = context;
    CUdeviceptr at = 0;
    struct state s;
    one_more(&b->memory_calls);
    CUresult status = enter(b, &s);
    if (status == CUDA_SUCCESS)
        status = b->call.cuMemAddressReserve(&at, size, 0, 0, 0);
    if (status == CUDA_SUCCESS && at % b->chunk != 0) { /* by itself it heeds its own granularity alone */
        b->call.cuMemAddressFree(at, size);
        status = b->call.cuMemAddressReserve(&at, size, b->chunk, 0, 0);
    }
    leave(b, &s);
    *address = at;
    return (int)status;
}

static void unreserve(void *context, uint64_t address, uint64_t size)
{
    struct vs_backing_cuda *b = context;
    struct state s;
    if (enter(b, &s) == CUDA_SUCCESS)
        b->call.cuMemAddressFree(address, size);
    leave(b, &s);
}

static int create(void *context, uint64_t size, uint64_t *handle)
{
    struct vs_backing_cuda *b = context;
    CUmemGenericAllocationHandle made = 0;
    struct state s;
    one_more(&b->memory_calls);
    uint64_t since = b->now();
    CUresult status = enter(b, &s);
    if (status == CUDA_SUCCESS)
        status = b->call.cuMemCreate(&made, size, &b->prop, 0);
    leave(b, &s);
    *handle = made;
    b->made += status == CUDA_SUCCESS ? size / b->chunk : 0;
    took(b, since);
    return (int)status;
}

/* Called even if no context can be made current, since it needs none: the core gives a handle back once, and
 * one that is not released then is lost. */
static int release(void *context, uint64_t handle)
{
    struct vs_backing_cuda *b = context;
    struct state s;
    one_more(&b->memory_calls);
    enter(b, &s);
    CUresult status = b->call.cuMemRelease(handle);
    leave(b, &s);
    return (int)status;
}

static int room(void *context, uint64_t *bytes)
{
    struct vs_backing_cuda *b = context;
    size_t left = 0, total;
    struct state s;
    CUresult status = enter(b, &s);
    if (status == CUDA_SUCCESS)
        status = b->call.cuMemGetInfo_v2(&left, &total);
    leave(b, &s);
    *bytes = left;
    return (int)status;
}

static int map(void *context, uint64_t address, uint64_t size, uint64_t handle)
{
    struct vs_backing_cuda *b = context;
    one_more(&b->memory_calls);
    AROUND(b, b->call.cuMemMap(address, size, 0, handle, 0));
}

static CUmemAccessDesc access_from(int device)
{
    return (CUmemAccessDesc){.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device},
                             .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
}

static int set_access(void *context, uint64_t address, uint64_t size, uint64_t peers)
{
    struct vs_backing_cuda *b = context;
    CUmemAccessDesc list[PEERS_MAX + 1] = {access_from(b->device)};
    size_t count = 1;
    for (int device = 0; device < PEERS_MAX; device++)
        if (peers >> device & 1 && device != b->device)
            list[count++] = access_from(device);
    one_more(&b->memory_calls);
    uint64_t since = b->now();
    struct state s;
    CUresult status = enter(b, &s);
    if (status == CUDA_SUCCESS)
        status = b->call.cuMemSetAccess(address, size, list, count);
    leave(b, &s);
    took(b, since);
    return (int)status;
}

static int unmap(void *context, uint64_t address, uint64_t size)
{
    struct vs_backing_cuda *b = context;
    one_more(&b->memory_calls);
    AROUND(b, b->call.cuMemUnmap(address, size));
}

/* ---- order ---- */

/* An error of the query means that a capture involves the legacy stream. */
static bool is_capturing(struct vs_backing_cuda *b, CUstream stream)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    return b->call.cuStreamIsCapturing(stream, &status) != CUDA_SUCCESS ||
           status != CU_STREAM_CAPTURE_STATUS_NONE;
}

static CUresult take_event(struct vs_backing_cuda *b, CUevent *event)
{
    if (b->spares) {
        *event = b->spare[--b->spares];
        return CUDA_SUCCESS;
    }
    return b->call.cuEventCreate(event, CU_EVENT_DISABLE_TIMING);
}

static CUevent forget_others(struct vs_backing_cuda *b, struct vs_wide_event *m)
{
    struct state s;
    enter(b, &s);
    CUevent own = vs_others_forget(b, m);
    leave(b, &s);
    return own;
}

static void forget(void *context, uint64_t handle)
{
    struct vs_backing_cuda *b = context;
    struct vs_wide_event *wide = vs_others_wide(b, handle);
    CUevent event = wide ? forget_others(b, wide) : (CUevent)(uintptr_t)handle;
    struct state s;
    if (!b->context) /* it went with the context */
        return;
    if (b->spares < VS_ARENA_SPARE_EVENTS) {
        b->spare[b->spares++] = event;
        return;
    }
    if (enter(b, &s) == CUDA_SUCCESS)
        b->call.cuEventDestroy_v2(event);
    leave(b, &s);
}

/* acquire: who began the capture that is over did so before */
static bool any_capture(const struct vs_backing_cuda *b)
{
    return b->captures && __atomic_load_n(b->captures, __ATOMIC_ACQUIRE);
}

static CUresult record_in(struct vs_backing_cuda *b, CUstream stream, CUevent event)
{
    return b->call.cuEventRecord(event, stream);
}

/* All streams of the context, known or not.  It would spoil a capture, wherever that is. */
static CUresult record_all(struct vs_backing_cuda *b, CUstream none, CUevent event)
{
    return b->call.record_context(b->context, event);
}

static CUresult record(struct vs_backing_cuda *b, CUstream stream, uint64_t *handle,
                       CUresult (*in)(struct vs_backing_cuda *, CUstream, CUevent))
{
    CUevent event;
    if (is_capturing(b, stream))
        return CUDA_ERROR_NOT_READY;
    CUresult status = take_event(b, &event);
    if (status != CUDA_SUCCESS)
        return status;
    *handle = (uint64_t)(uintptr_t)event;
    status = in(b, stream, event);
    if (status != CUDA_SUCCESS)
        forget(b, *handle);
    return status;
}

/* With those of other contexts, if any may touch the memory. */
static CUresult record_device(struct vs_backing_cuda *b, uint64_t *handle)
{
    CUresult status = record(b, NULL, handle, record_all);
    if (status != CUDA_SUCCESS || !b->others)
        return status;
    status = vs_others_record(b, (CUevent)(uintptr_t)*handle, handle);
    if (status != CUDA_SUCCESS)
        forget(b, *handle);
    return status;
}

static int record_stream_event(void *context, uint64_t stream, uint64_t *handle)
{
    struct vs_backing_cuda *b = context;
    one_more(&b->order_calls);
    if (stream != VS_BACKING_DEVICE)
        AROUND(b, record(b, (CUstream)(uintptr_t)stream, handle, record_in));
    if (!b->call.record_context || !b->context || any_capture(b))
        return VS_BACKING_NOT_READY;
    AROUND(b, record_device(b, handle));
}

/* The result of WHAT (a query, or a wait) for the event, and for its parts in other contexts. */
static CUresult ask(struct vs_backing_cuda *b, uint64_t handle, CUresult (*what)(CUevent))
{
    struct vs_wide_event *wide = vs_others_wide(b, handle);
    CUresult status = what(wide ? wide->own : (CUevent)(uintptr_t)handle);
    return status == CUDA_SUCCESS && wide ? vs_others_query(b, wide, what) : status;
}

static int await(void *context, uint64_t handle)
{
    struct vs_backing_cuda *b = context;
    if (any_capture(b))
        return VS_BACKING_NOT_READY;
    one_more(&b->order_calls);
    AROUND(b, ask(b, handle, b->call.cuEventSynchronize));
}

static int reached(void *context, uint64_t handle)
{
    struct vs_backing_cuda *b = context;
    one_more(&b->order_calls);
    AROUND(b, ask(b, handle, b->call.cuEventQuery));
}

static CUresult wait_in(struct vs_backing_cuda *b, CUstream stream, uint64_t handle)
{
    return is_capturing(b, stream) ? CUDA_ERROR_NOT_READY
                                   : b->call.cuStreamWaitEvent(stream, (CUevent)(uintptr_t)handle, 0);
}

static int stream_wait(void *context, uint64_t stream, uint64_t handle)
{
    struct vs_backing_cuda *b = context;
    one_more(&b->order_calls);
    AROUND(b, wait_in(b, (CUstream)(uintptr_t)stream, handle));
}

static CUresult synchronize_all(struct vs_backing_cuda *b)
{
    if (is_capturing(b, NULL))
        return CUDA_ERROR_NOT_READY;
    CUresult status = b->call.cuCtxSynchronize();
    return status == CUDA_SUCCESS && b->others ? vs_others_synchronize(b) : status;
}

static int synchronize(void *context)
{
    struct vs_backing_cuda *b = context;
    if (any_capture(b))
        return VS_BACKING_NOT_READY;
    AROUND(b, synchronize_all(b));
}

int vs_backing_cuda_synchronize(struct vs_backing_cuda *b)
{
    return synchronize(b);
}

/* ---- making one ---- */

static bool can(const struct vs_backing_cuda *b, CUdevice_attribute attribute)
{
    int value = 0;
    return b->call.cuDeviceGetAttribute(&value, attribute, b->device) == CUDA_SUCCESS && value;
}

static void fill_prop(struct vs_backing_cuda *b)
{
    memset(&b->prop, 0, sizeof b->prop);
    b->prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    b->prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    b->prop.location.id = b->device;
    if (can(b, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED))
        b->prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    if (can(b, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED))
        b->prop.allocFlags.gpuDirectRDMACapable = 1;
}

CUresult vs_backing_cuda_init(struct vs_backing_cuda *b, struct vs_backing *backing)
{
    size_t chunk = 0;
    if (!can(b, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED))
        return CUDA_ERROR_NOT_SUPPORTED;
    fill_prop(b);
    CUresult status =
        b->call.cuMemGetAllocationGranularity(&chunk, &b->prop, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED);
    if (status != CUDA_SUCCESS)
        return status;
    while (2 * chunk <= b->coarse)
        chunk *= 2;
    b->chunk = chunk;
    b->spares = 0;
    memset(b->wide, 0, sizeof b->wide);
    b->memory_calls = b->order_calls = b->made = b->making_ns = 0;
    b->slow_reported = false;
    if (!b->now)
        b->now = vs_clock_ns;
    *backing = (struct vs_backing){b,       chunk,       reserve,    unreserve,   create,
                                   release, map,         set_access, unmap,       record_stream_event,
                                   reached, stream_wait, forget,     synchronize, await,
                                   room};
    if (can(b, CU_DEVICE_ATTRIBUTE_INTEGRATED)) /* more can be had there than is free: the host gives way */
        backing->room = NULL;
    return CUDA_SUCCESS;
}

void vs_backing_cuda_end(struct vs_backing_cuda *b)
{
    struct state s;
    if (enter(b, &s) == CUDA_SUCCESS)
        while (b->spares)
            b->call.cuEventDestroy_v2(b->spare[--b->spares]);
    leave(b, &s);
}
