/*
 * limits.c - what cuCtxSetLimit costs.  Three limits are memory: the stack of each thread that can be
 * resident, printf's FIFO, the heap of device-side malloc.  What is asked beyond the defaults is taken in
 * units of 2 MiB.
 */
#include "sim.h"

static const struct {
    CUlimit limit;
    size_t value;
} defaults[] = {
    {CU_LIMIT_STACK_SIZE, 1024},
    {CU_LIMIT_PRINTF_FIFO_SIZE, 1u << 20},
    {CU_LIMIT_MALLOC_HEAP_SIZE, 8u << 20},
    {CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT, 2048},
    {CU_LIMIT_MAX_L2_FETCH_GRANULARITY, 64},
    {CU_LIMIT_PERSISTING_L2_CACHE_SIZE, 0},
};
#define DEFAULTS (sizeof defaults / sizeof *defaults)

void sim_limits_init(struct sim_context *context)
{
    for (size_t i = 0; i < DEFAULTS; i++)
        context->limits[defaults[i].limit] = defaults[i].value;
}

/* The others are of older devices, or told and not set. */
static bool settable(CUlimit limit)
{
    for (size_t i = 0; i < DEFAULTS; i++)
        if (defaults[i].limit == limit)
            return true;
    return false;
}

static uint64_t beyond(uint64_t value, uint64_t by_default, uint64_t times)
{
    uint64_t extra = value > by_default ? value - by_default : 0, bytes;
    return __builtin_mul_overflow(extra, times, &bytes) || bytes > 1ull << 60 ? 1ull << 60 : bytes;
}

static uint64_t cost(const size_t *limits)
{
    uint64_t threads = (uint64_t)sim_card()->multiprocessors * (uint64_t)sim_capability()->threads;
    return sim_round(beyond(limits[CU_LIMIT_STACK_SIZE], 1024, threads) +
                         beyond(limits[CU_LIMIT_PRINTF_FIFO_SIZE], 1u << 20, 1) +
                         beyond(limits[CU_LIMIT_MALLOC_HEAP_SIZE], 8u << 20, 1),
                     SIM_GRANULARITY);
}

CUresult cuCtxGetLimit(size_t *value, CUlimit limit)
{
    SIM_CALL(SIM_CONTEXT);
    if (!value)
        return CUDA_ERROR_INVALID_VALUE;
    if (!settable(limit))
        return CUDA_ERROR_UNSUPPORTED_LIMIT;
    *value = sim_context_owner()->limits[limit];
    return CUDA_SUCCESS;
}

CUresult cuCtxSetLimit(CUlimit limit, size_t value)
{
    SIM_CALL(SIM_CONTEXT);
    struct sim_context *context = sim_context_owner();
    if (!settable(limit))
        return CUDA_ERROR_UNSUPPORTED_LIMIT;
    size_t before = context->limits[limit];
    context->limits[limit] = value;
    uint64_t wanted = cost(context->limits);
    if (wanted > context->limit_cost && !sim_charge(context->device, wanted - context->limit_cost)) {
        context->limits[limit] = before;
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (wanted < context->limit_cost)
        sim_uncharge(context->device, context->limit_cost - wanted);
    context->limit_cost = wanted;
    return CUDA_SUCCESS;
}
