/*
 * work.c - work that takes its time, and waiting for it.
 *
 * Everything is executed when it is called, so nobody ever has to wait; a test that is about waiting says of
 * a context that it is busy (simcuda_busy).  Until it says otherwise, or the context ends, whoever waits for
 * the context, for one of its streams or for an event that was recorded in it meanwhile waits indeed, without
 * the driver's lock.
 */
#include "capture.h"

CUresult simcuda_busy(CUcontext handle, int busy)
{
    sim_lock();
    struct sim_context *context = sim_context_of(handle);
    if (context)
        context->busy = busy ? ++context->begun : 0;
    sim_wake();
    sim_unlock();
    return context ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

unsigned long simcuda_waits(CUcontext handle)
{
    sim_lock();
    const struct sim_context *context = sim_context_of(handle);
    unsigned long waits = context ? context->waits : 0;
    sim_unlock();
    return waits;
}

void sim_context_wait(struct sim_context *context)
{
    unsigned long given = context->begun;
    context->waits++;
    while (context->busy && context->busy <= given)
        sim_wait();
}

static CUresult synchronize(CUcontext handle)
{
    struct sim_context *context = handle ? sim_context_of(handle) : sim_context_current();
    if (!context || !context->alive)
        return CUDA_ERROR_INVALID_CONTEXT;
    SIM_UNSAFE();
    sim_context_wait(context);
    sim_pools_synchronize(context->device);
    return CUDA_SUCCESS;
}

CUresult cuCtxSynchronize(void)
{
    SIM_CALL(SIM_CONTEXT);
    return synchronize(NULL);
}

CUresult cuCtxSynchronize_v2(CUcontext handle)
{
    SIM_CALL(SIM_INITIALIZED);
    return synchronize(handle);
}
