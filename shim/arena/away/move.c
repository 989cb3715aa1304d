/* move.c - see move.h. */
#define _GNU_SOURCE
#include "move.h"

#include <time.h>

#include "calls.h"
#include "core/clock.h"
#include "host.h"

#define UNDER_WAY 8u /* pieces that are being copied at once */
#define PAUSE_NS  200000

/* A move under way: its stream and the events behind the last copies. */
struct move {
    struct vs_away_thread thread;
    const struct vs_away_calls *call;
    CUstream stream;
    CUevent event[UNDER_WAY];
};

/* ---- waiting for the device ---- */

static void pause_a_moment(void)
{
    nanosleep(&(struct timespec){0, PAUSE_NS}, NULL);
}

static CUresult poll(struct vs_arena_calls *driver, CUevent event, uint64_t until)
{
    CUresult status;
    while ((status = driver->cuEventQuery(event)) == CUDA_ERROR_NOT_READY && vs_clock_ns() < until)
        pause_a_moment();
    return status;
}

/* Of CONTEXT.  A driver before CUDA 12.5 cannot say by an event that a context is done: it is waited for, for
 * as long as it takes. */
static CUresult context_idle(struct vs_served *s, CUcontext context, uint64_t until)
{
    struct vs_away_thread t;
    struct vs_arena_calls *driver = &s->cuda.call;
    CUevent event = NULL;
    CUresult status = vs_away_enter(&t, s, context);
    if (status != CUDA_SUCCESS)
        return status;
    if (driver->record_context == NULL) {
        status = driver->cuCtxSynchronize();
    } else if ((status = driver->cuEventCreate(&event, CU_EVENT_DISABLE_TIMING)) == CUDA_SUCCESS) {
        status = driver->record_context(context, event);
        status = status == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED ? CUDA_ERROR_NOT_READY : status;
        status = status == CUDA_SUCCESS ? poll(driver, event, until) : status;
        driver->cuEventDestroy_v2(event);
    }
    vs_away_leave(&t);
    return status;
}

CUresult vs_move_idle(struct vs_served *s, uint64_t until)
{
    uint64_t number[512];
    CUresult status = context_idle(s, s->cuda.context, until);
    const struct vs_backing_others *others = s->cuda.others;
    uint32_t n = others != NULL ? others->list(&s->cuda, number, 512) : 0;
    for (uint32_t i = 0; i < n && i < 512 && status == CUDA_SUCCESS; i++) {
        CUcontext context;
        if (!others->keep(number[i], &context))
            continue; /* it has ended, and so has its work */
        status = context_idle(s, context, until);
        others->let(number[i]);
    }
    return status;
}

uint64_t vs_move_room(struct vs_served *s)
{
    struct vs_away_thread t;
    size_t left = 0, total;
    CUresult status = vs_away_enter(&t, s, s->cuda.context);
    if (status != CUDA_SUCCESS)
        return 0;
    status = s->cuda.call.cuMemGetInfo_v2(&left, &total);
    vs_away_leave(&t);
    return status == CUDA_SUCCESS ? left : 0;
}

/* ---- a move ---- */

static void end(struct move *m)
{
    for (unsigned i = 0; i < UNDER_WAY; i++)
        if (m->event[i] != NULL)
            m->thread.driver->cuEventDestroy_v2(m->event[i]);
    if (m->stream != NULL)
        m->call->cuStreamDestroy_v2(m->stream);
    vs_away_leave(&m->thread);
}

static CUresult begin(struct move *m, struct vs_served *s)
{
    *m = (struct move){.call = vs_away_calls()};
    CUresult status =
        m->call != NULL ? vs_away_enter(&m->thread, s, s->cuda.context) : CUDA_ERROR_NOT_SUPPORTED;
    if (status != CUDA_SUCCESS)
        return status;
    status = m->call->cuStreamCreate(&m->stream, CU_STREAM_NON_BLOCKING);
    for (unsigned i = 0; i < UNDER_WAY && status == CUDA_SUCCESS; i++)
        status = m->thread.driver->cuEventCreate(&m->event[i], CU_EVENT_DISABLE_TIMING);
    if (status != CUDA_SUCCESS)
        end(m);
    return status;
}

/* The copy of piece I has ended. */
static CUresult copied(struct move *m, size_t i)
{
    return m->thread.driver->cuEventSynchronize(m->event[i % UNDER_WAY]);
}

/* Copies piece I to the host's memory at BASE, or back. */
static CUresult copy(struct move *m, const struct vs_piece *p, char *base, size_t i, bool out)
{
    CUresult status = CUDA_SUCCESS;
    for (uint64_t done = 0, some; done < p->run.size && status == CUDA_SUCCESS; done += some) {
        char *host = base + p->offset + done;
        some = vs_host_together(p->offset + done, p->run.size - done);
        if (out)
            status = m->call->cuMemcpyDtoHAsync_v2(host, p->run.address + done, some, m->stream);
        else
            status = m->call->cuMemcpyHtoDAsync_v2(p->run.address + done, host, some, m->stream);
    }
    return status == CUDA_SUCCESS ? m->thread.driver->cuEventRecord(m->event[i % UNDER_WAY], m->stream)
                                  : status;
}

/* Step I copies piece I and sends the one that was copied UNDER_WAY steps before. */
CUresult vs_move_out(struct vs_served *s, struct vs_arena *arena, const struct vs_piece *piece, size_t count,
                     char *base, size_t *done)
{
    struct move m;
    *done = 0;
    CUresult status = begin(&m, s);
    if (status != CUDA_SUCCESS)
        return status;
    for (size_t i = 0; i < count + UNDER_WAY && status == CUDA_SUCCESS; i++) {
        if (i >= UNDER_WAY && i - UNDER_WAY < count) {
            status = copied(&m, i);
            if (status == CUDA_SUCCESS)
                status = (CUresult)vs_arena_send(arena, piece[i - UNDER_WAY].run);
            *done += status == CUDA_SUCCESS;
        }
        if (i < count && status == CUDA_SUCCESS)
            status = copy(&m, &piece[i], base, i, true);
    }
    m.call->cuStreamSynchronize(m.stream);
    end(&m);
    return status;
}

void vs_move_drop(struct vs_arena *arena, const struct vs_piece *piece, size_t count)
{
    for (size_t i = 0; i < count; i++)
        vs_arena_send(arena, piece[i].run);
}

CUresult vs_move_in(struct vs_served *s, struct vs_arena *arena, const struct vs_piece *piece, size_t count,
                    char *base)
{
    struct move m;
    size_t fetched = 0;
    CUresult status = begin(&m, s);
    if (status != CUDA_SUCCESS)
        return status;
    for (size_t i = 0; i < count && status == CUDA_SUCCESS; i++) {
        status = i >= UNDER_WAY ? copied(&m, i) : CUDA_SUCCESS;
        if (status == CUDA_SUCCESS)
            status = (CUresult)vs_arena_fetch(arena, piece[i].run);
        fetched += status == CUDA_SUCCESS;
        if (status == CUDA_SUCCESS)
            status = copy(&m, &piece[i], base, i, false);
    }
    CUresult last = m.call->cuStreamSynchronize(m.stream);
    status = status == CUDA_SUCCESS ? last : status;
    end(&m);
    if (status != CUDA_SUCCESS)
        vs_move_drop(arena, piece, fetched);
    return status;
}
