/*
 * work.c - work that takes its time, and waiting for it.  Everything is executed when it is called; a test
 * that is about waiting says of a context that it is busy (simcuda_busy), and in dry mode sim_work_is_done
 * says when events are done.
 *
 *      SIMCUDA_CLOCK=work    events have the time that the device's work would take, by default the clock's:
 *                            1 ms for a launch and for each 50 MiB of a copy (SIMCUDA_LINK_MS: so many)
 */
#include "capture.h"
#include "facts.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { QUEUE = 1024, PATIENCE = 64 };
static __thread int asker;
static __thread bool launches;
static bool told;

/* Until the context is not busy any more, or ends, who waits for it, its streams or an event recorded
 * meanwhile waits indeed, without the driver's lock. */
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
    sim_work_wait(context, context->launches);
}

static uint64_t worked_ns = 1; /* by which no event was never recorded */

void sim_work_copied(uint64_t bytes)
{
    static uint64_t ms;
    ms = ms ? ms : sim_env_bytes("SIMCUDA_LINK_MS", 1);
    worked_ns += bytes * ms * 1000000 / (50ull << 20);
}

uint64_t sim_work_ns(void)
{
    static int by_work = -1;
    struct timespec now;
    const char *choice = by_work < 0 ? getenv("SIMCUDA_CLOCK") : NULL;
    if (by_work < 0)
        by_work = choice && !strcmp(choice, "work");
    clock_gettime(CLOCK_MONOTONIC, &now);
    return by_work ? worked_ns : (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

void sim_work_launched(struct sim_context *context)
{
    worked_ns += 1000000;
    context->launches++;
    context->asked = context->watched = 0;
    launches = true;
}

void simcuda_asks(int who)
{
    asker = who;
}

void sim_work_wait(struct sim_context *context, unsigned long launch)
{
    if (launch > context->done)
        context->done = launch;
}

static bool is_second(void)
{
    static int second = -1;
    const char *assume = second < 0 ? getenv("VRAMSCOPE_DRY_ASSUME") : NULL;
    if (second < 0)
        second = assume && !strcmp(assume, "second");
    return second;
}

/* In dry mode memory hangs on this: PyTorch's allocator hands out a block that several streams used
 * (record_stream) once the event is done.  A real device is done between the launch and the launch of QUEUE
 * more, which would have to wait for room.  Under the first assumption it is done at once.  Under the second
 * it is done as late as can be: when the host has waited for it, QUEUE launches came since, or the allocator
 * has asked PATIENCE times with no launch in between.  The same holds for NCCL's watchdog, which keeps the
 * tensors of a collective until it has seen that it is done (_dry_ranks.py tells so).  For others who ask it
 * is done at once, and from then on for the allocator, too. */
bool sim_work_is_done(struct sim_context *context, unsigned long launch)
{
    if (!sim_dry() || launch <= context->done || context->launches - launch >= QUEUE)
        return true;
    bool watchdog = asker == SIM_ASKS_LOOKS && !launches;
    if (asker != SIM_ASKS_ALLOCATOR && !watchdog) {
        if (asker != SIM_ASKS_LOOKS)
            sim_work_wait(context, launch);
        return true;
    }
    if (!told && !watchdog) {
        told = true;
        dry_fact("value\tPyTorch's allocator\twhen a GPU is done with blocks of several streams\tat once\t1");
    }
    if (is_second() && ++*(watchdog ? &context->watched : &context->asked) <= PATIENCE)
        return false;
    if (is_second())
        sim_work_wait(context, context->launches);
    return true;
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
