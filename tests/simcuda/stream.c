/*
 * stream.c - streams, events, host functions, and the refusal of device code.
 *
 * Everything is executed when it is called, so a stream is always idle and an event complete once it is
 * recorded; its time is the moment of recording.  cuLaunchHostFunc calls the function on the calling thread,
 * before it returns, without the driver's lock.  Modules and kernels need a GPU: CUDA_ERROR_NOT_SUPPORTED.
 */
#include "sim.h"

#include <stdlib.h>
#include <time.h>

struct stream {
    struct stream *next;
    struct sim_context *owner;
    unsigned flags;
    int priority;
    unsigned long long id;
};
struct event {
    struct event *next;
    struct sim_context *owner;
    unsigned flags;
    uint64_t recorded_ns; /* 0: never */
};
static struct stream *streams;
static struct event *events;
static unsigned long long next_id = 3; /* 1 and 2: the legacy and the per-thread default stream */

static bool is_default(CUstream stream)
{
    return !stream || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD;
}

static struct stream **link_of(CUstream handle)
{
    struct stream **link = &streams;
    while (*link && *link != (struct stream *)(void *)handle)
        link = &(*link)->next;
    return link;
}

bool sim_valid_stream(CUstream stream)
{
    return is_default(stream) || *link_of(stream);
}

/* A stream brings its own device, whatever is current; the default streams are those of the current context.
 */
int sim_stream_device(CUstream stream)
{
    const struct sim_context *owner = is_default(stream) ? sim_context_current() : (*link_of(stream))->owner;
    return owner->device;
}

void sim_streams_free_of(struct sim_context *owner)
{
    for (struct stream **link = &streams, *s; (s = *link);)
        if (s->owner == owner) {
            *link = s->next;
            free(s);
        } else {
            link = &s->next;
        }
    for (struct event **link = &events, *e; (e = *link);)
        if (e->owner == owner) {
            *link = e->next;
            free(e);
        } else {
            link = &e->next;
        }
}

static CUresult create_stream(CUstream *out, unsigned flags, int priority)
{
    if (!out || (flags & ~(unsigned)CU_STREAM_NON_BLOCKING))
        return CUDA_ERROR_INVALID_VALUE;
    struct stream *stream = calloc(1, sizeof *stream);
    if (!stream)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *stream = (struct stream){.next = streams,
                              .owner = sim_context_current(),
                              .flags = flags,
                              .priority = priority > 0    ? 0
                                          : priority < -5 ? -5
                                                          : priority,
                              .id = next_id++};
    streams = stream;
    *out = (CUstream)(void *)stream;
    return CUDA_SUCCESS;
}

CUresult cuStreamCreate(CUstream *out, unsigned int flags)
{
    SIM_CALL(SIM_CONTEXT);
    return create_stream(out, flags, 0);
}

CUresult cuStreamCreateWithPriority(CUstream *out, unsigned int flags, int priority)
{
    SIM_CALL(SIM_CONTEXT);
    return create_stream(out, flags, priority);
}

static CUresult destroy_stream(CUstream handle)
{
    struct stream **link = link_of(handle), *stream = *link;
    if (!stream)
        return CUDA_ERROR_INVALID_HANDLE;
    *link = stream->next;
    free(stream);
    return CUDA_SUCCESS;
}

CUresult cuStreamDestroy(CUstream stream)
{
    SIM_CALL(SIM_CONTEXT);
    return destroy_stream(stream);
}

CUresult cuStreamDestroy_v2(CUstream stream)
{
    SIM_CALL(SIM_CONTEXT);
    return destroy_stream(stream);
}

static CUresult synchronize(CUstream stream)
{
    if (!sim_valid_stream(stream))
        return CUDA_ERROR_INVALID_HANDLE;
    sim_pools_synchronize(sim_stream_device(stream));
    return CUDA_SUCCESS;
}

/* For both default streams no field is kept. */
static CUresult read_stream(CUstream handle, struct stream *out)
{
    const struct stream *stream = is_default(handle) ? NULL : *link_of(handle);
    *out = stream ? *stream
                  : (struct stream){.owner = sim_context_current(),
                                    .id = handle == CU_STREAM_PER_THREAD ? 2 : 1};
    return stream || is_default(handle) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

#define TWICE(name, twin, params, body)                                                                      \
    CUresult name params                                                                                     \
    {                                                                                                        \
        SIM_CALL(SIM_CONTEXT);                                                                               \
        body                                                                                                 \
    }                                                                                                        \
    CUresult twin params                                                                                     \
    {                                                                                                        \
        SIM_CALL(SIM_CONTEXT);                                                                               \
        body                                                                                                 \
    }
#define GETTER(name, twin, type, expression)                                                                 \
    TWICE(name, twin, (CUstream handle, type * out), {                                                       \
        struct stream s;                                                                                     \
        CUresult result = out ? read_stream(handle, &s) : CUDA_ERROR_INVALID_VALUE;                          \
        if (result == CUDA_SUCCESS)                                                                          \
            *out = expression;                                                                               \
        return result;                                                                                       \
    })

TWICE(cuStreamQuery, cuStreamQuery_ptsz, (CUstream stream),
      { return sim_valid_stream(stream) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE; })
TWICE(cuStreamSynchronize, cuStreamSynchronize_ptsz, (CUstream stream), { return synchronize(stream); })
GETTER(cuStreamGetFlags, cuStreamGetFlags_ptsz, unsigned int, s.flags)
GETTER(cuStreamGetPriority, cuStreamGetPriority_ptsz, int, s.priority)
GETTER(cuStreamGetId, cuStreamGetId_ptsz, unsigned long long, s.id)
GETTER(cuStreamGetCtx, cuStreamGetCtx_ptsz, CUcontext, (CUcontext)(void *)s.owner)
GETTER(cuStreamIsCapturing, cuStreamIsCapturing_ptsz, CUstreamCaptureStatus, CU_STREAM_CAPTURE_STATUS_NONE)

/* ---- events ---- */

static struct event **event_link(CUevent handle)
{
    struct event **link = &events;
    while (*link && *link != (struct event *)(void *)handle)
        link = &(*link)->next;
    return link;
}

TWICE(cuStreamWaitEvent, cuStreamWaitEvent_ptsz, (CUstream stream, CUevent event, unsigned int flags),
      { return sim_valid_stream(stream) && *event_link(event) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE; })

CUresult cuEventCreate(CUevent *out, unsigned int flags)
{
    SIM_CALL(SIM_CONTEXT);
    if (!out || (flags & ~7u))
        return CUDA_ERROR_INVALID_VALUE;
    struct event *event = calloc(1, sizeof *event);
    if (!event)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *event = (struct event){.next = events, .owner = sim_context_current(), .flags = flags};
    events = event;
    *out = (CUevent)(void *)event;
    return CUDA_SUCCESS;
}

static CUresult destroy_event(CUevent handle)
{
    struct event **link = event_link(handle), *event = *link;
    if (!event)
        return CUDA_ERROR_INVALID_HANDLE;
    *link = event->next;
    free(event);
    return CUDA_SUCCESS;
}

CUresult cuEventDestroy(CUevent event)
{
    SIM_CALL(SIM_CONTEXT);
    return destroy_event(event);
}

CUresult cuEventDestroy_v2(CUevent event)
{
    SIM_CALL(SIM_CONTEXT);
    return destroy_event(event);
}

static CUresult record(CUevent handle, CUstream stream)
{
    struct event *event = *event_link(handle);
    struct timespec now;
    if (!event || !sim_valid_stream(stream))
        return CUDA_ERROR_INVALID_HANDLE;
    clock_gettime(CLOCK_MONOTONIC, &now);
    event->recorded_ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
    return CUDA_SUCCESS;
}

TWICE(cuEventRecord, cuEventRecord_ptsz, (CUevent event, CUstream stream), { return record(event, stream); })
TWICE(cuEventRecordWithFlags, cuEventRecordWithFlags_ptsz,
      (CUevent event, CUstream stream, unsigned int flags),
      { return flags & ~1u ? CUDA_ERROR_INVALID_VALUE : record(event, stream); })

CUresult cuEventQuery(CUevent event)
{
    SIM_CALL(SIM_CONTEXT);
    return *event_link(event) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuEventSynchronize(CUevent event)
{
    SIM_CALL(SIM_CONTEXT);
    if (!*event_link(event))
        return CUDA_ERROR_INVALID_HANDLE;
    sim_pools_synchronize(sim_context_current()->device);
    return CUDA_SUCCESS;
}

static CUresult elapsed(float *milliseconds, CUevent start, CUevent end)
{
    const struct event *from = *event_link(start), *to = *event_link(end);
    if (!milliseconds)
        return CUDA_ERROR_INVALID_VALUE;
    if (!from || !to || !from->recorded_ns || !to->recorded_ns ||
        ((from->flags | to->flags) & CU_EVENT_DISABLE_TIMING))
        return CUDA_ERROR_INVALID_HANDLE;
    *milliseconds = (float)((double)(int64_t)(to->recorded_ns - from->recorded_ns) / 1e6);
    return CUDA_SUCCESS;
}

CUresult cuEventElapsedTime(float *milliseconds, CUevent start, CUevent end)
{
    SIM_CALL(SIM_CONTEXT);
    return elapsed(milliseconds, start, end);
}

CUresult cuEventElapsedTime_v2(float *milliseconds, CUevent start, CUevent end)
{
    SIM_CALL(SIM_CONTEXT);
    return elapsed(milliseconds, start, end);
}

/* ---- host functions ---- */

static CUresult run_host(CUstream stream, CUhostFn function, void *data)
{
    if (!sim_valid_stream(stream))
        return CUDA_ERROR_INVALID_HANDLE;
    if (!function)
        return CUDA_ERROR_INVALID_VALUE;
    sim_unlock();
    function(data);
    sim_lock();
    return CUDA_SUCCESS;
}

TWICE(cuLaunchHostFunc, cuLaunchHostFunc_ptsz, (CUstream stream, CUhostFn function, void *data),
      { return run_host(stream, function, data); })
