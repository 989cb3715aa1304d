/* calls.c - see calls.h. */
#include "calls.h"

const struct vs_away_calls *vs_away_calls(void)
{
    static struct vs_away_calls calls; /* threads that fill it at once write the same */
    static _Atomic bool filled;
    bool all = true;
    if (atomic_load_explicit(&filled, memory_order_acquire))
        return &calls;
#define X(symbol, parameters) all = (*(void **)&calls.symbol = vs_cuda_real(#symbol)) != NULL && all;
    VS_AWAY_CALLS(X)
#undef X
    if (all)
        atomic_store_explicit(&filled, true, memory_order_release);
    return all ? &calls : NULL;
}

CUresult vs_away_enter(struct vs_away_thread *t, struct vs_served *s, CUcontext context)
{
    CUcontext current = NULL;
    struct vs_arena_calls *driver = &s->cuda.call;
    CUresult status = context != NULL ? driver->cuCtxGetCurrent(&current) : CUDA_ERROR_CONTEXT_IS_DESTROYED;
    *t = (struct vs_away_thread){.driver = driver, .mode = CU_STREAM_CAPTURE_MODE_RELAXED};
    if (status == CUDA_SUCCESS && current != context) {
        status = driver->cuCtxPushCurrent_v2(context);
        t->pushed = status == CUDA_SUCCESS;
    }
    if (status == CUDA_SUCCESS)
        driver->cuThreadExchangeStreamCaptureMode(&t->mode);
    return status;
}

void vs_away_leave(struct vs_away_thread *t)
{
    CUcontext popped;
    t->driver->cuThreadExchangeStreamCaptureMode(&t->mode);
    if (t->pushed)
        t->driver->cuCtxPopCurrent_v2(&popped);
}
