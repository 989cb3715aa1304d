/* park_copy.c - see park_copy.h. */
#include "park_copy.h"

#include "calls.h"
#include "core/log.h"
#include "moved.h"

#define RUNS 64u /* of a block; one with more is not parked */

static struct {
    CUstream stream; /* NULL: there is none */
    uint32_t queue;  /* of the arena with this number */
    uint32_t number;
    CUevent fence;
} copies[VS_SERVED_DEVICES];

static uint32_t queue_of(const struct vs_served *s)
{
    return copies[s - vs_served].queue;
}

static CUstream stream_of(const struct vs_served *s)
{
    return copies[s - vs_served].stream;
}

/* ---- the copy stream ---- */

static CUresult make_copies(struct vs_served *s, struct vs_arena *arena, const struct vs_away_calls *call)
{
    CUstream stream = NULL;
    CUevent fence = NULL;
    uint32_t queue = VS_ARENA_ANY;
    CUresult status = call->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
    if (status == CUDA_SUCCESS)
        status = s->cuda.call.cuEventCreate(&fence, CU_EVENT_DISABLE_TIMING);
    if (status == CUDA_SUCCESS)
        status = (CUresult)vs_arena_open_queue(arena, (uint64_t)(uintptr_t)stream, 0, &queue);
    if (status != CUDA_SUCCESS) {
        if (fence != NULL)
            s->cuda.call.cuEventDestroy_v2(fence);
        if (stream != NULL)
            call->cuStreamDestroy_v2(stream);
        return status;
    }
    copies[s - vs_served].stream = stream;
    copies[s - vs_served].fence = fence;
    copies[s - vs_served].queue = queue;
    copies[s - vs_served].number = s->number;
    return CUDA_SUCCESS;
}

bool vs_park_copies(struct vs_served *s, struct vs_arena *arena)
{
    struct vs_away_thread t;
    const struct vs_away_calls *call = vs_away_calls();
    if (stream_of(s) != NULL && copies[s - vs_served].number == s->number)
        return true;
    if (call == NULL || s->cuda.call.record_context == NULL ||
        vs_away_enter(&t, s, s->cuda.context) != CUDA_SUCCESS)
        return false;
    CUresult status = make_copies(s, arena, call);
    vs_away_leave(&t);
    return status == CUDA_SUCCESS;
}

void vs_park_copies_end(struct vs_served *s)
{
    copies[s - vs_served].stream = NULL;
    copies[s - vs_served].fence = NULL;
}

static bool is_captured(const struct vs_served *s)
{
    return s->cuda.captures != NULL && __atomic_load_n(s->cuda.captures, __ATOMIC_ACQUIRE) != 0;
}

/* An event of the context would spoil a capture, and it stands for no other context's work. */
static bool can_fence(struct vs_served *s)
{
    uint64_t other;
    return stream_of(s) != NULL && !is_captured(s) &&
           (s->cuda.others == NULL || s->cuda.others->list(&s->cuda, &other, 1) == 0);
}

bool vs_park_fence(struct vs_served *s)
{
    struct vs_away_thread t;
    CUevent fence = copies[s - vs_served].fence;
    if (!can_fence(s) || vs_away_enter(&t, s, s->cuda.context) != CUDA_SUCCESS)
        return false;
    CUresult status = s->cuda.call.record_context(s->cuda.context, fence);
    if (status == CUDA_SUCCESS)
        status = vs_away_calls()->cuStreamWaitEvent(stream_of(s), fence, 0);
    vs_away_leave(&t);
    return status == CUDA_SUCCESS;
}

/* ---- blocks ---- */

/* The place of a run of W's on the host: as far from that of its first chunk as on the device.  A chunk of
 * two blocks has one place, of which the latest copy is right for both. */
static uint64_t place(const struct vs_watched *w, struct vs_arena_run run)
{
    return w->offset + (run.address - (w->address & ~(w->s->cuda.chunk - 1)));
}

static uint32_t runs_of(const struct vs_watched *w, struct vs_arena_run *run)
{
    uint32_t n = vs_arena_block_runs(w->arena, w->address, run, RUNS);
    return n <= RUNS ? n : 0;
}

static CUresult copy_out(const struct vs_watched *w, char *base)
{
    struct vs_arena_run run[RUNS];
    struct vs_away_thread t;
    uint32_t n = runs_of(w, run);
    CUresult status = n != 0 ? vs_away_enter(&t, w->s, w->s->cuda.context) : CUDA_ERROR_INVALID_VALUE;
    if (status != CUDA_SUCCESS)
        return status;
    for (uint32_t i = 0; i < n && status == CUDA_SUCCESS; i++)
        status = vs_away_calls()->cuMemcpyDtoHAsync_v2(base + place(w, run[i]), run[i].address, run[i].size,
                                                       stream_of(w->s));
    vs_away_leave(&t);
    return status;
}

bool vs_park_out(struct vs_watched *w, char *base)
{
    if (vs_arena_leave(w->arena, w->address, w->size) != 0)
        return false;
    w->parked = copy_out(w, base) == CUDA_SUCCESS && vs_arena_park(w->arena, w->address, queue_of(w->s)) == 0;
    if (!w->parked)
        vs_arena_return(w->arena, w->address);
    else
        vs_moved_watched(w, VS_AWAY_PARKED);
    return w->parked;
}

/* The event stands for what the copy stream waits for, too: it is made where nothing is copied. */
static CUresult copy_in(struct vs_watched *w, struct vs_arena_run run, const char *base)
{
    struct vs_away_thread t;
    CUresult status = vs_away_enter(&t, w->s, w->s->cuda.context);
    if (status != CUDA_SUCCESS)
        return status;
    if (w->back == NULL)
        status = w->s->cuda.call.cuEventCreate(&w->back, CU_EVENT_DISABLE_TIMING);
    if (status == CUDA_SUCCESS && run.size != 0 && base != NULL)
        status = vs_away_calls()->cuMemcpyHtoDAsync_v2(run.address, base + place(w, run), run.size,
                                                       stream_of(w->s));
    if (status == CUDA_SUCCESS)
        status = w->s->cuda.call.cuEventRecord(w->back, stream_of(w->s));
    vs_away_leave(&t);
    return status;
}

bool vs_park_in(struct vs_watched *w, const char *base)
{
    struct vs_arena_run back;
    if (vs_arena_unpark(w->arena, w->address, queue_of(w->s), &back) != 0)
        return false;
    CUresult status = copy_in(w, back, base);
    w->parked = false;
    vs_moved_watched(w, VS_AWAY_PARKED);
    w->coming = status == CUDA_SUCCESS;
    if (status != CUDA_SUCCESS) /* as the program's own next call will find */
        vs_log("park: the driver takes no copies any more (error %d)", (int)status);
    vs_arena_use(w->arena, w->address, queue_of(w->s)); /* its free waits for the copy */
    vs_arena_return(w->arena, w->address);
    return true;
}

/* These name a stream of the current context, which may be another than W's. */
static bool is_foreign(const struct vs_watched *w, CUstream stream)
{
    CUcontext current = NULL;
    bool special = stream == NULL || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD;
    return special &&
           (w->s->cuda.call.cuCtxGetCurrent(&current) != CUDA_SUCCESS || current != w->s->cuda.context);
}

bool vs_park_wait(struct vs_watched *w, CUstream stream)
{
    struct vs_away_thread t;
    bool host = w->coming && (stream == VS_PARK_NO_STREAM || is_foreign(w, stream));
    if (!w->coming || vs_away_enter(&t, w->s, w->s->cuda.context) != CUDA_SUCCESS)
        return !w->coming;
    w->coming = w->s->cuda.call.cuEventQuery(w->back) == CUDA_ERROR_NOT_READY;
    if (w->coming && !host)
        host = vs_away_calls()->cuStreamWaitEvent(stream, w->back, 0) != CUDA_SUCCESS;
    if (w->coming && host)
        w->coming = w->s->cuda.call.cuEventSynchronize(w->back) != CUDA_SUCCESS;
    vs_away_leave(&t);
    return !w->coming;
}

/* ---- time ---- */

CUevent vs_park_stamp(struct vs_served *s, CUstream stream)
{
    struct vs_away_thread t;
    CUevent event = NULL;
    if (stream == VS_PARK_NO_STREAM || is_captured(s) ||
        vs_away_enter(&t, s, s->cuda.context) != CUDA_SUCCESS)
        return NULL;
    if (s->cuda.call.cuEventCreate(&event, CU_EVENT_DEFAULT) == CUDA_SUCCESS &&
        s->cuda.call.cuEventRecord(event, stream) != CUDA_SUCCESS) {
        s->cuda.call.cuEventDestroy_v2(event);
        event = NULL;
    }
    vs_away_leave(&t);
    return event;
}

bool vs_park_reached(struct vs_served *s, CUevent event)
{
    struct vs_away_thread t;
    if (vs_away_enter(&t, s, s->cuda.context) != CUDA_SUCCESS)
        return false;
    bool reached = s->cuda.call.cuEventQuery(event) == CUDA_SUCCESS;
    vs_away_leave(&t);
    return reached;
}

float vs_park_between(struct vs_served *s, CUevent from, CUevent to)
{
    struct vs_away_thread t;
    float ms = -1;
    if (from == NULL || to == NULL || vs_away_enter(&t, s, s->cuda.context) != CUDA_SUCCESS)
        return ms;
    if (s->cuda.call.cuEventSynchronize(from) != CUDA_SUCCESS ||
        s->cuda.call.cuEventSynchronize(to) != CUDA_SUCCESS ||
        vs_away_calls()->cuEventElapsedTime(&ms, from, to) != CUDA_SUCCESS)
        ms = -1;
    s->cuda.call.cuEventDestroy_v2(from);
    s->cuda.call.cuEventDestroy_v2(to);
    vs_away_leave(&t);
    return ms;
}

double vs_park_rate(const struct vs_watched *w, char *base, uint64_t most)
{
    uint64_t bytes = w->size < most ? w->size : most;
    CUstream stream = stream_of(w->s);
    struct vs_away_thread t;
    CUevent from = vs_park_stamp(w->s, stream), to = NULL;
    if (from == NULL || vs_away_enter(&t, w->s, w->s->cuda.context) != CUDA_SUCCESS)
        return 0;
    if (vs_away_calls()->cuMemcpyDtoHAsync_v2(base, w->address, bytes, stream) == CUDA_SUCCESS)
        to = vs_park_stamp(w->s, stream);
    vs_away_calls()->cuStreamSynchronize(stream); /* the memory at BASE may go */
    vs_away_leave(&t);
    float ms = vs_park_between(w->s, from, to);
    return ms > 0 ? (double)bytes / ms * 1e3 : 0;
}
