/*
 * backing_others.c - events that cover, and waits for, the work of other contexts that may touch an arena's
 * memory.
 *
 * An event belongs to one context.  So an event that stands for several contexts' work has an event in each:
 * it is reached when all are, and when a context has ended its event counts as reached.  To the core it is a
 * number like any other event; its highest bit, which no address has, tells it apart.
 *
 * All calls here come between enter and leave of backing_cuda.c, which put the thread's context back.
 */
#include "backing_cuda.h"

#define WIDE (1ull << 63)
#define MOST 512 /* contexts */

struct vs_wide_event *vs_others_wide(struct vs_backing_cuda *b, uint64_t handle)
{
    return handle & WIDE ? &b->wide[handle & ~WIDE] : NULL;
}

/* With CONTEXT current. */
static CUresult in_context(struct vs_backing_cuda *b, CUcontext context, CUresult (*what)(CUevent),
                           CUevent event)
{
    CUcontext popped;
    CUresult status = b->call.cuCtxPushCurrent_v2(context);
    if (status != CUDA_SUCCESS)
        return status;
    status = what ? what(event) : b->call.cuCtxSynchronize();
    b->call.cuCtxPopCurrent_v2(&popped);
    return status;
}

/* WHAT of one other context's event, or (NULL) the wait for all of its work; SUCCESS where it has ended. */
static CUresult of_other(struct vs_backing_cuda *b, uint64_t number, CUresult (*what)(CUevent), CUevent event)
{
    CUcontext context;
    if (!b->others->keep(number, &context))
        return CUDA_SUCCESS;
    CUresult status = in_context(b, context, what, event);
    b->others->let(number);
    return status;
}

CUresult vs_others_synchronize(struct vs_backing_cuda *b)
{
    uint64_t number[MOST];
    CUresult status = CUDA_SUCCESS;
    uint32_t n = b->others->list(b, number, MOST);
    for (uint32_t i = 0; i < n && i < MOST && status == CUDA_SUCCESS; i++)
        status = of_other(b, number[i], NULL, NULL);
    return status;
}

/* An event in CONTEXT that stands for all that it was given. */
static CUresult record_in(struct vs_backing_cuda *b, CUcontext context, CUevent *event)
{
    CUcontext popped;
    CUresult status = b->call.cuCtxPushCurrent_v2(context);
    if (status != CUDA_SUCCESS)
        return status;
    status = b->call.cuEventCreate(event, CU_EVENT_DISABLE_TIMING);
    if (status == CUDA_SUCCESS) {
        status = b->call.record_context(context, *event);
        if (status != CUDA_SUCCESS)
            b->call.cuEventDestroy_v2(*event);
    }
    b->call.cuCtxPopCurrent_v2(&popped);
    return status;
}

static CUresult add_other(struct vs_backing_cuda *b, struct vs_wide_event *m, uint64_t number)
{
    CUcontext context;
    CUevent event;
    if (!b->others->keep(number, &context))
        return CUDA_SUCCESS;
    CUresult status = record_in(b, context, &event);
    b->others->let(number);
    if (status == CUDA_SUCCESS) {
        m->other[m->others].number = number;
        m->other[m->others++].event = event;
    }
    return status;
}

static struct vs_wide_event *free_wide(struct vs_backing_cuda *b)
{
    for (uint32_t i = 0; i < VS_ARENA_WIDE_EVENTS; i++)
        if (!b->wide[i].own)
            return &b->wide[i];
    return NULL;
}

CUresult vs_others_record(struct vs_backing_cuda *b, CUevent own, uint64_t *handle)
{
    uint64_t number[VS_ARENA_OTHERS];
    uint32_t n = b->others->list(b, number, VS_ARENA_OTHERS);
    struct vs_wide_event *m = n && n <= VS_ARENA_OTHERS ? free_wide(b) : NULL;
    CUresult status = CUDA_SUCCESS;
    if (n == 0)
        return CUDA_SUCCESS;
    if (!m)
        return CUDA_ERROR_NOT_READY; /* then the device is waited for */
    m->own = own;
    m->others = 0;
    for (uint32_t i = 0; i < n && status == CUDA_SUCCESS; i++)
        status = add_other(b, m, number[i]);
    if (status != CUDA_SUCCESS)
        vs_others_forget(b, m);
    else
        *handle = WIDE | (uint64_t)(m - b->wide);
    return status;
}

CUresult vs_others_query(struct vs_backing_cuda *b, struct vs_wide_event *m, CUresult (*what)(CUevent))
{
    CUresult status = CUDA_SUCCESS;
    for (uint32_t i = 0; i < m->others && status == CUDA_SUCCESS; i++)
        status = of_other(b, m->other[i].number, what, m->other[i].event);
    return status;
}

CUevent vs_others_forget(struct vs_backing_cuda *b, struct vs_wide_event *m)
{
    CUevent own = m->own;
    for (; m->others; m->others--)
        of_other(b, m->other[m->others - 1].number, b->call.cuEventDestroy_v2, m->other[m->others - 1].event);
    m->own = NULL;
    return own;
}
