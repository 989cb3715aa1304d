/*
 * stream.c - streams, events, host functions.
 *
 * Everything is executed when it is called, so a stream is always idle and an event complete once it is
 * recorded (but see work.c).  cuLaunchHostFunc calls the function before it returns, without the driver's
 * lock.
 */
#include "capture.h"
#include "graph.h"

#include <stdlib.h>

struct stream {
    struct stream *next;
    struct sim_context *owner;
    unsigned flags;
    int priority;
    unsigned long long id;
};
struct event {
    struct sim_range range; /* start = handle */
    struct sim_context *owner;
    unsigned flags;
    uint64_t recorded_ns;       /* 0: never */
    unsigned long long capture; /* that it was last recorded in, 0: none */
    CUstream recorded_on;       /* NULL: never recorded */
    unsigned long after;        /* the owner's piece of work that it was recorded after; 0: none */
    unsigned long launch;       /* likewise, of its launches */
};
static struct stream *streams;
static struct sim_map events;
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

bool sim_stream_blocking(CUstream stream)
{
    return stream == CU_STREAM_PER_THREAD ||
           (*link_of(stream) && !((*link_of(stream))->flags & CU_STREAM_NON_BLOCKING));
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
            sim_capture_forget((CUstream)(void *)s);
            *link = s->next;
            free(s);
        } else {
            link = &s->next;
        }
    uint64_t at = 0;
    for (struct sim_range *range; (range = sim_map_from(&events, at));) {
        at = range->start + 1;
        if (((struct event *)range)->owner == owner) {
            sim_map_remove(&events, range);
            free(range);
        }
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
                              .owner = sim_context_owner(),
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
    sim_capture_forget(handle);
    *link = stream->next;
    free(stream);
    return CUDA_SUCCESS;
}

SIM_SAME(cuStreamDestroy, cuStreamDestroy_v2, SIM_CONTEXT, (CUstream stream), destroy_stream(stream))

/* Whether it may be waited for or asked: not while it is capturing. */
static CUresult check_idle(CUstream stream)
{
    CUresult result = sim_stream_check(stream);
    return result == CUDA_SUCCESS && sim_capturing(stream)
               ? sim_capture_invalidate(stream, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED)
               : result;
}

static CUresult synchronize(CUstream stream)
{
    CUresult result = check_idle(stream);
    if (result != CUDA_SUCCESS)
        return result;
    sim_context_wait(is_default(stream) ? sim_context_owner() : (*link_of(stream))->owner);
    sim_pools_synchronize(sim_stream_device(stream));
    return CUDA_SUCCESS;
}

/* For both default streams no field is kept. */
static CUresult read_stream(CUstream handle, struct stream *out)
{
    const struct stream *stream = is_default(handle) ? NULL : *link_of(handle);
    *out = stream
               ? *stream
               : (struct stream){.owner = sim_context_owner(), .id = handle == CU_STREAM_PER_THREAD ? 2 : 1};
    return stream || is_default(handle) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

/* It belongs to a context or to a green one, and only that one is said. */
static CUresult contexts_of(CUstream handle, CUcontext *context, CUgreenCtx *green)
{
    struct stream s;
    CUresult result = context || green ? read_stream(handle, &s) : CUDA_ERROR_INVALID_VALUE;
    if (result != CUDA_SUCCESS)
        return result;
    if (context)
        *context = (CUcontext)(void *)s.owner;
    if (green)
        *green = NULL;
    return CUDA_SUCCESS;
}

#define GETTER(name, twin, type, expression)                                                                 \
    SIM_SAME(name, twin, SIM_CONTEXT, (CUstream handle, type * out), ({                                      \
                 struct stream s;                                                                            \
                 CUresult result = out ? read_stream(handle, &s) : CUDA_ERROR_INVALID_VALUE;                 \
                 if (result == CUDA_SUCCESS)                                                                 \
                     *out = expression;                                                                      \
                 result;                                                                                     \
             }))

SIM_TWINS(cuStreamQuery, cuStreamQuery_ptsz, (CUstream stream), stream, check_idle)
SIM_TWINS(cuStreamSynchronize, cuStreamSynchronize_ptsz, (CUstream stream), stream, synchronize)
GETTER(cuStreamGetFlags, cuStreamGetFlags_ptsz, unsigned int, s.flags)
GETTER(cuStreamGetPriority, cuStreamGetPriority_ptsz, int, s.priority)
GETTER(cuStreamGetId, cuStreamGetId_ptsz, unsigned long long, s.id)
GETTER(cuStreamGetDevice, cuStreamGetDevice_ptsz, CUdevice, s.owner->device)
SIM_SAME(cuStreamGetCtx_v2, cuStreamGetCtx_v2_ptsz, SIM_CONTEXT,
         (CUstream handle, CUcontext *context, CUgreenCtx *green), contexts_of(handle, context, green))
CUresult cuStreamGetGreenCtx(CUstream handle, CUgreenCtx *green)
{
    SIM_CALL(SIM_CONTEXT);
    return contexts_of(handle, NULL, green);
}
GETTER(cuStreamGetCtx, cuStreamGetCtx_ptsz, CUcontext, (CUcontext)(void *)s.owner)

/* ---- events ---- */

static struct event *event_of(CUevent handle)
{
    return (struct event *)sim_map_at(&events, (uint64_t)handle);
}

static CUresult wait_event(CUstream stream, CUevent handle)
{
    const struct event *event = event_of(handle);
    CUresult result = sim_stream_check(stream);
    if (result == CUDA_SUCCESS && !event)
        result = CUDA_ERROR_INVALID_HANDLE;
    if (result != CUDA_SUCCESS || !event->recorded_on) /* never recorded: nothing to wait for */
        return result;
    return sim_capture_wait(stream, event->capture, event->recorded_on);
}

#define WAIT(stream) wait_event(stream, event)
SIM_TWINS(cuStreamWaitEvent, cuStreamWaitEvent_ptsz, (CUstream stream, CUevent event, unsigned int flags),
          stream, WAIT)

CUresult sim_event_new(CUevent *out, unsigned flags)
{
    if (!out || (flags & ~7u))
        return CUDA_ERROR_INVALID_VALUE;
    struct event *event = calloc(1, sizeof *event);
    if (!event)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *event = (struct event){
        .range = {.start = (uint64_t)event, .size = 1}, .owner = sim_context_owner(), .flags = flags};
    sim_map_insert(&events, &event->range);
    *out = (CUevent)(void *)event;
    return CUDA_SUCCESS;
}

CUresult cuEventCreate(CUevent *out, unsigned int flags)
{
    SIM_CALL(SIM_CONTEXT);
    return sim_event_new(out, flags);
}

bool sim_event_shareable(CUevent handle)
{
    const struct event *event = event_of(handle);
    return event && event->flags & CU_EVENT_INTERPROCESS && event->flags & CU_EVENT_DISABLE_TIMING;
}

static CUresult destroy_event(CUevent handle)
{
    struct event *event = event_of(handle);
    if (!event)
        return CUDA_ERROR_INVALID_HANDLE;
    sim_map_remove(&events, &event->range);
    free(event);
    return CUDA_SUCCESS;
}

SIM_SAME(cuEventDestroy, cuEventDestroy_v2, SIM_CONTEXT, (CUevent event), destroy_event(event))

static CUresult record(CUevent handle, CUstream stream)
{
    struct event *event = event_of(handle);
    CUresult result = sim_stream_check(stream);
    if (result != CUDA_SUCCESS || !event)
        return result != CUDA_SUCCESS ? result : CUDA_ERROR_INVALID_HANDLE;
    event->capture = sim_capture_record(stream);
    event->recorded_on = sim_capture_key(stream);
    event->after = event->owner->busy;
    event->launch = event->owner->launches;
    event->recorded_ns = event->capture ? 0 : sim_work_ns();
    return CUDA_SUCCESS;
}

static CUresult record_with(CUevent handle, CUstream stream, unsigned flags)
{
    return flags & ~1u ? CUDA_ERROR_INVALID_VALUE : record(handle, stream);
}

#define RECORD(stream)      record(event, stream)
#define RECORD_WITH(stream) record_with(event, stream, flags)
SIM_TWINS(cuEventRecord, cuEventRecord_ptsz, (CUevent event, CUstream stream), stream, RECORD)
SIM_TWINS(cuEventRecordWithFlags, cuEventRecordWithFlags_ptsz,
          (CUevent event, CUstream stream, unsigned int flags), stream, RECORD_WITH)

/* Refused while a stream of the context is captured, and spoils the capture. */
CUresult cuCtxRecordEvent(CUcontext context, CUevent handle)
{
    SIM_CALL(SIM_CONTEXT);
    struct sim_context *of = sim_context_of(context);
    const struct event *event = event_of(handle);
    if (!of || !event || event->owner != of)
        return CUDA_ERROR_INVALID_HANDLE;
    CUresult result = CUDA_SUCCESS;
    for (const struct stream *s = streams; s; s = s->next)
        if (s->owner == of && sim_capturing((CUstream)(void *)s))
            result = sim_capture_invalidate((CUstream)(void *)s, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    return result == CUDA_SUCCESS ? record(handle, NULL) : result;
}

static bool is_reached(const struct event *event)
{
    return !event->after || event->after != event->owner->busy;
}

static CUresult check_event(CUevent handle)
{
    const struct event *event = event_of(handle);
    if (!event)
        return CUDA_ERROR_INVALID_HANDLE;
    return event->capture ? CUDA_ERROR_CAPTURED_EVENT : CUDA_SUCCESS;
}

CUresult cuEventQuery(CUevent event)
{
    SIM_CALL(SIM_CONTEXT);
    CUresult result = check_event(event);
    const struct event *e = event_of(event);
    bool done = result != CUDA_SUCCESS || (is_reached(e) && sim_work_is_done(e->owner, e->launch));
    return done ? result : CUDA_ERROR_NOT_READY;
}

CUresult cuEventSynchronize(CUevent event)
{
    SIM_CALL(SIM_CONTEXT);
    CUresult result = check_event(event);
    if (result != CUDA_SUCCESS)
        return result;
    while (event_of(event) && !is_reached(event_of(event))) /* it may be destroyed meanwhile */
        sim_wait();
    if (event_of(event))
        sim_work_wait(event_of(event)->owner, event_of(event)->launch);
    sim_pools_synchronize(sim_context_current()->device);
    return CUDA_SUCCESS;
}

static CUresult elapsed(float *milliseconds, CUevent start, CUevent end)
{
    const struct event *from = event_of(start), *to = event_of(end);
    if (!milliseconds)
        return CUDA_ERROR_INVALID_VALUE;
    if (!from || !to || !from->recorded_ns || !to->recorded_ns ||
        ((from->flags | to->flags) & CU_EVENT_DISABLE_TIMING))
        return CUDA_ERROR_INVALID_HANDLE;
    *milliseconds = (float)((double)(int64_t)(to->recorded_ns - from->recorded_ns) / 1e6);
    return CUDA_SUCCESS;
}

SIM_SAME(cuEventElapsedTime, cuEventElapsedTime_v2, SIM_CONTEXT,
         (float *milliseconds, CUevent start, CUevent end), elapsed(milliseconds, start, end))

/* ---- host functions ---- */

static CUresult run_host(CUstream stream, CUhostFn function, void *data)
{
    CUresult result = sim_stream_check(stream);
    if (result == CUDA_SUCCESS && !function)
        result = CUDA_ERROR_INVALID_VALUE;
    if (result != CUDA_SUCCESS)
        return result;
    struct sim_graph *graph = sim_capture_graph(stream, &result);
    if (graph) {
        struct sim_node *node = sim_graph_add(graph, CU_GRAPH_NODE_TYPE_HOST);
        if (!node)
            return CUDA_ERROR_OUT_OF_MEMORY;
        node->host.function = function;
        node->host.data = data;
        return CUDA_SUCCESS;
    }
    if (result != CUDA_SUCCESS)
        return result;
    sim_unlock();
    function(data);
    sim_lock();
    return CUDA_SUCCESS;
}

#define RUN_HOST(stream) run_host(stream, function, data)
SIM_TWINS(cuLaunchHostFunc, cuLaunchHostFunc_ptsz, (CUstream stream, CUhostFn function, void *data), stream,
          RUN_HOST)

/* The older form tells the function of its stream and status, and is no node of a graph. */
static CUresult call_back(CUstream stream, CUstreamCallback function, void *data)
{
    CUresult result = check_idle(stream);
    if (result != CUDA_SUCCESS || !function)
        return result != CUDA_SUCCESS ? result : CUDA_ERROR_INVALID_VALUE;
    sim_unlock();
    function(stream, CUDA_SUCCESS, data);
    sim_lock();
    return CUDA_SUCCESS;
}

#define CALL_BACK(stream) call_back(stream, function, data)
SIM_TWINS(cuStreamAddCallback, cuStreamAddCallback_ptsz,
          (CUstream stream, CUstreamCallback function, void *data, unsigned int flags), stream, CALL_BACK)
