/*
 * captures.c - which streams are being captured.
 *
 * While a stream is captured nobody may wait for the device, and the driver serves.  A capture is known from
 * before it begins until it has ended: by cuStreamEndCapture, whatever that says, by the end of its stream or
 * of its context.  None begins while memory moves: who moves it looks for captures, and then waits for the
 * device.  The per-thread default stream is another one in each thread.
 */
#define _GNU_SOURCE
#include "serving.h"

#include <sys/syscall.h>
#include <unistd.h>

#include "arena/away/gate.h"

#define LISTED 256u /* captures at once; beyond it they are counted alone */

uint32_t vs_served_captures;

struct capture {
    CUstream stream; /* NULL: none */
    CUcontext context;
    pid_t thread; /* of the per-thread default stream; else 0 */
};

static struct vs_lock lock = VS_LOCK(CAPTURES); /* guards the next two */
static struct capture list[LISTED];
static uint32_t unlisted;

static pid_t thread_of(CUstream stream)
{
    return stream == CU_STREAM_PER_THREAD ? (pid_t)syscall(SYS_gettid) : 0;
}

static struct capture *find(CUstream stream, pid_t thread)
{
    for (uint32_t i = 0; i < LISTED; i++)
        if (list[i].stream == stream && list[i].thread == thread)
            return &list[i];
    return NULL;
}

static void begin(CUstream stream)
{
    CUcontext context = NULL;
    pid_t thread = thread_of(stream);
    if (thread || vs_drv_cuStreamGetCtx(stream, &context) != CUDA_SUCCESS)
        vs_drv_cuCtxGetCurrent(&context);
    vs_lock_take(&lock);
    struct capture *c = find(NULL, 0);
    if (c)
        *c = (struct capture){stream, context, thread};
    else
        unlisted++;
    __atomic_fetch_add(&vs_served_captures, 1, __ATOMIC_ACQ_REL); /* before the captured calls */
    vs_lock_give(&lock);
}

static void remove_one(void)
{
    __atomic_fetch_sub(&vs_served_captures, 1, __ATOMIC_RELEASE); /* after the captured calls */
}

void vs_capture_ended(CUstream stream)
{
    pid_t thread = thread_of(stream);
    /* relaxed: who ends a capture has begun it, or knows who did */
    if (!stream || __atomic_load_n(&vs_served_captures, __ATOMIC_RELAXED) == 0)
        return;
    vs_lock_take(&lock);
    struct capture *c = find(stream, thread);
    if (c) {
        *c = (struct capture){0};
        remove_one();
    } else if (unlisted) {
        unlisted--;
        remove_one();
    }
    vs_lock_give(&lock);
}

void vs_captures_forget(CUcontext context)
{
    vs_lock_take(&lock);
    for (uint32_t i = 0; i < LISTED; i++)
        if (list[i].stream && list[i].context == context) {
            list[i] = (struct capture){0};
            remove_one();
        }
    vs_lock_give(&lock);
}

/* Counted before it begins, so that nobody waits in between; not at all where it does not begin.  One that is
 * under way in the stream already makes the call fail, and goes on. */
#define BEGIN(symbol, parameters, arguments, captured)                                                       \
    static CUresult begin_##symbol parameters                                                                \
    {                                                                                                        \
        CUstream which = captured;                                                                           \
        vs_gate_enter_at_rest();                                                                             \
        if (which)                                                                                           \
            begin(which);                                                                                    \
        CUresult status = VS_UNDER(symbol) arguments;                                                        \
        if (status != CUDA_SUCCESS)                                                                          \
            vs_capture_ended(which);                                                                         \
        vs_gate_leave();                                                                                     \
        return status;                                                                                       \
    }
#define TO_GRAPH                                                                                             \
    (CUstream stream, CUgraph graph, const CUgraphNode *dependencies, const CUgraphEdgeData *edges,          \
     size_t count, CUstreamCaptureMode mode)
#define PTSZ(stream) ((stream) != NULL ? (stream) : CU_STREAM_PER_THREAD)

BEGIN(cuStreamBeginCapture, (CUstream stream), (stream), stream)
BEGIN(cuStreamBeginCapture_ptsz, (CUstream stream), (stream), PTSZ(stream))
BEGIN(cuStreamBeginCapture_v2, (CUstream stream, CUstreamCaptureMode mode), (stream, mode), stream)
BEGIN(cuStreamBeginCapture_v2_ptsz, (CUstream stream, CUstreamCaptureMode mode), (stream, mode), PTSZ(stream))
BEGIN(cuStreamBeginCaptureToGraph, TO_GRAPH, (stream, graph, dependencies, edges, count, mode), stream)
BEGIN(cuStreamBeginCaptureToGraph_ptsz, TO_GRAPH, (stream, graph, dependencies, edges, count, mode),
      PTSZ(stream))
#define RECAPTURE                                                                                            \
    (CUstream stream, CUstreamCaptureMode mode, CUgraph graph, CUgraphRecaptureCallback callback, void *data)
BEGIN(cuStreamBeginRecaptureToGraph, RECAPTURE, (stream, mode, graph, callback, data), stream)
BEGIN(cuStreamBeginRecaptureToGraph_ptsz, RECAPTURE, (stream, mode, graph, callback, data), PTSZ(stream))

/* An end that finds nothing to end, or that another thread has to make, ends nothing; all others do. */
static CUresult ended(CUstream stream, CUresult status)
{
    CUstreamCaptureStatus now = CU_STREAM_CAPTURE_STATUS_NONE;
    bool goes_on = status != CUDA_SUCCESS && vs_drv_cuStreamIsCapturing(stream, &now) == CUDA_SUCCESS &&
                   now != CU_STREAM_CAPTURE_STATUS_NONE;
    if (!goes_on)
        vs_capture_ended(stream);
    return status;
}

static CUresult end_capture(CUstream stream, CUgraph *graph)
{
    return ended(stream, VS_UNDER(cuStreamEndCapture)(stream, graph));
}

static CUresult end_capture_ptsz(CUstream stream, CUgraph *graph)
{
    return ended(PTSZ(stream), VS_UNDER(cuStreamEndCapture_ptsz)(stream, graph));
}

const struct vs_stand_in vs_stand_ins_captures[] = {
    {VS_API_cuStreamBeginCapture, (void *)begin_cuStreamBeginCapture},
    {VS_API_cuStreamBeginCapture_ptsz, (void *)begin_cuStreamBeginCapture_ptsz},
    {VS_API_cuStreamBeginCapture_v2, (void *)begin_cuStreamBeginCapture_v2},
    {VS_API_cuStreamBeginCapture_v2_ptsz, (void *)begin_cuStreamBeginCapture_v2_ptsz},
    {VS_API_cuStreamBeginCaptureToGraph, (void *)begin_cuStreamBeginCaptureToGraph},
    {VS_API_cuStreamBeginCaptureToGraph_ptsz, (void *)begin_cuStreamBeginCaptureToGraph_ptsz},
    {VS_API_cuStreamBeginRecaptureToGraph, (void *)begin_cuStreamBeginRecaptureToGraph},
    {VS_API_cuStreamBeginRecaptureToGraph_ptsz, (void *)begin_cuStreamBeginRecaptureToGraph_ptsz},
    {VS_API_cuStreamEndCapture, (void *)end_capture},
    {VS_API_cuStreamEndCapture_ptsz, (void *)end_capture_ptsz},
    {0}};
