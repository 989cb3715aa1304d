/* park_copy.c - see park_copy.h. */
#include "park_copy.h"

#include "calls.h"
#include "host.h"
#include "core/log.h"
#include "moved.h"
#include "spill.h"
#include "store.h"

static struct {
    CUstream stream; /* NULL: there is none */
    uint32_t queue;  /* of the arena with this number */
    uint32_t number;
    CUevent fence;
} copies[VS_SERVED_DEVICES];
uint32_t vs_park_parked, vs_park_freed, vs_park_coming;

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
    if (call == NULL || s->cuda.call.record_context == NULL || s->cuda.chunk % VS_STORE_UNIT != 0 ||
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
    vs_store_end(s);
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

/* Copies of the run what the store keeps, OUT there or in. */
static CUresult copy(struct vs_served *s, struct vs_arena_run run, bool out)
{
    CUresult status = CUDA_SUCCESS;
    uint64_t end = run.address + run.size, bytes;
    for (uint64_t at = run.address; at < end && status == CUDA_SUCCESS; at += bytes) {
        char *kept = vs_store_at(s, at);
        bytes = kept != NULL ? vs_store_together(s, at, end) : VS_STORE_UNIT;
        if (kept != NULL && out)
            status = vs_away_calls()->cuMemcpyDtoHAsync_v2(kept, at, bytes, stream_of(s));
        else if (kept != NULL)
            status = vs_away_calls()->cuMemcpyHtoDAsync_v2(at, kept, bytes, stream_of(s));
    }
    return status;
}

static void drop(struct vs_served *s, struct vs_arena_run run)
{
    for (uint64_t at = run.address; at < run.address + run.size; at += VS_STORE_UNIT)
        vs_store_drop(s, at);
}

static bool have(struct vs_served *s, struct vs_arena_run run)
{
    bool all = true;
    for (uint64_t at = run.address; at < run.address + run.size && all; at += VS_STORE_UNIT)
        all = vs_store_have(s, at) != NULL;
    return all;
}

/* Of a chunk of several blocks the latest copy is right for all: it is made when the last of them goes.  A
 * block that has no other chunks goes without one. */
static CUresult copy_out(const struct vs_watched *w, struct vs_arena_run *run)
{
    struct vs_away_thread t;
    if (vs_arena_block_runs(w->arena, w->address, run, 1) == 0)
        return CUDA_SUCCESS;
    if (vs_away_enter(&t, w->s, w->s->cuda.context) != CUDA_SUCCESS)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult status = have(w->s, *run) ? copy(w->s, *run, true) : CUDA_ERROR_OUT_OF_MEMORY;
    vs_away_leave(&t);
    return status;
}

static enum vs_away_why why(void)
{
    return vs_spill_on() ? VS_AWAY_SPILLED : VS_AWAY_PARKED;
}

bool vs_park_out(struct vs_watched *w)
{
    struct vs_arena_run run = {0};
    if (vs_arena_leave(w->arena, w->address, w->size) != 0)
        return false;
    w->parked = copy_out(w, &run) == CUDA_SUCCESS && vs_arena_park(w->arena, w->address, queue_of(w->s)) == 0;
    if (!w->parked) {
        drop(w->s, run);
        vs_arena_return(w->arena, w->address);
    } else {
        vs_moved_watched(w, why());
    }
    vs_park_parked += w->parked;
    return w->parked;
}

static void set_coming(struct vs_watched *w, bool coming)
{
    vs_park_coming += coming - w->coming;
    w->coming = coming;
}

/* The event stands for what the copy stream waits for, too, and for neighbours' copies: it is made where
 * nothing is copied. */
static CUresult copy_in(struct vs_watched *w, struct vs_arena_run run)
{
    struct vs_away_thread t;
    CUresult status = vs_away_enter(&t, w->s, w->s->cuda.context);
    if (status != CUDA_SUCCESS)
        return status;
    if (w->back == NULL)
        status = w->s->cuda.call.cuEventCreate(&w->back, CU_EVENT_DISABLE_TIMING);
    if (status == CUDA_SUCCESS)
        status = copy(w->s, run, false);
    if (status == CUDA_SUCCESS)
        status = w->s->cuda.call.cuEventRecord(w->back, stream_of(w->s));
    vs_away_leave(&t);
    return status;
}

static int take_back(struct vs_watched *w)
{
    struct vs_arena_run back;
    int unparked = vs_arena_unpark(w->arena, w->address, queue_of(w->s), &back);
    if (unparked != 0)
        return unparked;
    CUresult status = copy_in(w, back);
    drop(w->s, back);
    w->parked = false;
    vs_moved_watched(w, why());
    vs_park_parked--;
    set_coming(w, status == CUDA_SUCCESS);
    if (status != CUDA_SUCCESS) /* as the program's own next call will find */
        vs_log("park: the driver takes no copies any more (error %d)", (int)status);
    w->awaited = false;
    return 0;
}

int vs_park_in(struct vs_watched *w)
{
    int status = w->parked ? take_back(w) : 0;
    if (status == 0 && w->freed && !vs_park_wait(w, VS_PARK_NO_STREAM)) /* its free is carried out now */
        status = VS_BACKING_NOT_READY;
    if (status == 0)
        vs_arena_return(w->arena, w->address);
    return status;
}

void vs_park_before_free(struct vs_watched *w)
{
    if (w->coming && !w->awaited)
        vs_arena_use(w->arena, w->address, queue_of(w->s));
}

void vs_park_drop(struct vs_watched *w)
{
    w->freed = true;
    vs_park_freed++;
    uint64_t mask = w->s->cuda.chunk - 1, from = (w->address + mask) & ~mask,
             end = (w->address + w->size) & ~mask;
    if (from < end)
        drop(w->s, (struct vs_arena_run){from, end - from});
}

void vs_park_forget(struct vs_watched *w)
{
    vs_park_parked -= w->parked;
    vs_park_freed -= w->freed;
    for (uint64_t at = w->address & -VS_STORE_UNIT; at < w->address + w->size && w->parked;
         at += VS_STORE_UNIT)
        vs_store_drop(w->s, at);
    if (w->back != NULL)
        w->s->cuda.call.cuEventDestroy_v2(w->back);
    set_coming(w, false);
    vs_watched_remove(w);
}

bool vs_park_is_idle(struct vs_served *s)
{
    struct vs_away_thread t;
    if (stream_of(s) == NULL || vs_away_enter(&t, s, s->cuda.context) != CUDA_SUCCESS)
        return false;
    bool idle = vs_away_calls()->cuStreamQuery(stream_of(s)) == CUDA_SUCCESS;
    vs_away_leave(&t);
    return idle;
}

void vs_park_unlock(struct vs_served *s, struct vs_host_store *part)
{
    struct vs_away_thread t;
    bool entered = vs_away_enter(&t, s, s->cuda.context) == CUDA_SUCCESS;
    vs_host_unlock(part);
    if (entered)
        vs_away_leave(&t);
}

const char *vs_park_room(struct vs_served *s, uint64_t bytes, char *why, size_t room)
{
    struct vs_away_thread t;
    if (vs_away_enter(&t, s, s->cuda.context) != CUDA_SUCCESS)
        return "the device's context has ended";
    const char *failed = vs_store_grow(s, bytes, why, room);
    vs_away_leave(&t);
    return failed;
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
        return true; /* a context that has ended makes no copies */
    set_coming(w, w->s->cuda.call.cuEventQuery(w->back) == CUDA_ERROR_NOT_READY);
    if (w->coming && !host)
        host = vs_away_calls()->cuStreamWaitEvent(stream, w->back, 0) != CUDA_SUCCESS;
    /* one handle stands for a stream of each thread */
    w->awaited = w->awaited || (!host && stream == w->own && stream != CU_STREAM_PER_THREAD);
    vs_away_leave(&t);
    return !w->coming || !host;
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

double vs_park_rate(const struct vs_watched *w, uint64_t most)
{
    char *base = vs_store_base(w->s);
    uint64_t bytes = w->size < most ? w->size : most;
    CUstream stream = stream_of(w->s);
    struct vs_away_thread t;
    CUevent from = vs_park_stamp(w->s, stream), to = NULL;
    if (base == NULL || from == NULL || vs_away_enter(&t, w->s, w->s->cuda.context) != CUDA_SUCCESS)
        return 0;
    if (vs_away_calls()->cuMemcpyDtoHAsync_v2(base, w->address, bytes, stream) == CUDA_SUCCESS)
        to = vs_park_stamp(w->s, stream);
    vs_away_leave(&t);
    float ms = vs_park_between(w->s, from, to);
    return ms > 0 ? (double)bytes / ms * 1e3 : 0;
}
