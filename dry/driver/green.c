/*
 * green.c - green contexts: a part of a device's SIM_SMS multiprocessors, in the primary context, which owns
 * what is allocated while one is current.  One costs 2 MiB.
 */
#include "sim.h"

#include <stdlib.h>
#include <string.h>

#define SIM_SMS 16u

struct desc { /* never freed: the driver has no function for it either */
    struct desc *next;
    unsigned sms;
};
static struct desc *descs;

static CUdevResource sms(unsigned count)
{
    CUdevResource resource = {.type = CU_DEV_RESOURCE_TYPE_SM};
    resource.sm.smCount = count;
    resource.sm.minSmPartitionSize = 2;
    resource.sm.smCoscheduledAlignment = 2;
    return resource;
}

CUresult cuDeviceGetDevResource(CUdevice device, CUdevResource *out, CUdevResourceType type)
{
    SIM_CALL(SIM_INITIALIZED);
    if (!sim_valid_device(device))
        return CUDA_ERROR_INVALID_DEVICE;
    if (!out || type != CU_DEV_RESOURCE_TYPE_SM)
        return CUDA_ERROR_INVALID_RESOURCE_TYPE;
    *out = sms(SIM_SMS);
    return CUDA_SUCCESS;
}

CUresult cuDevSmResourceSplitByCount(CUdevResource *result, unsigned int *groups, const CUdevResource *input,
                                     CUdevResource *remaining, unsigned int flags, unsigned int least)
{
    SIM_CALL(SIM_INITIALIZED);
    if (!groups || !input || input->type != CU_DEV_RESOURCE_TYPE_SM || flags || least > input->sm.smCount)
        return CUDA_ERROR_INVALID_VALUE;
    unsigned each = least < 2 ? 2 : (unsigned)sim_round(least, 2), possible = input->sm.smCount / each;
    unsigned count = result && *groups < possible ? *groups : possible;
    for (unsigned i = 0; result && i < count; i++)
        result[i] = sms(each);
    if (remaining)
        *remaining = sms(input->sm.smCount - count * each);
    *groups = count;
    return CUDA_SUCCESS;
}

CUresult cuDevResourceGenerateDesc(CUdevResourceDesc *out, CUdevResource *resources, unsigned int count)
{
    SIM_CALL(SIM_INITIALIZED);
    if (!out || !resources || !count)
        return CUDA_ERROR_INVALID_VALUE;
    struct desc *desc = calloc(1, sizeof *desc);
    if (!desc)
        return CUDA_ERROR_OUT_OF_MEMORY;
    for (unsigned i = 0; i < count; i++)
        desc->sms += resources[i].sm.smCount;
    desc->next = descs;
    descs = desc;
    *out = (CUdevResourceDesc)(void *)desc;
    return CUDA_SUCCESS;
}

static bool known(CUdevResourceDesc handle)
{
    for (const struct desc *d = descs; d; d = d->next)
        if ((const void *)d == (const void *)handle)
            return d->sms && d->sms <= SIM_SMS;
    return false;
}

CUresult cuGreenCtxCreate(CUgreenCtx *out, CUdevResourceDesc desc, CUdevice device, unsigned int flags)
{
    SIM_CALL(SIM_INITIALIZED);
    if (!sim_valid_device(device))
        return CUDA_ERROR_INVALID_DEVICE;
    if (!out || flags != CU_GREEN_CTX_DEFAULT_STREAM || !known(desc))
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = sim_primary_retain(device);
    if (result != CUDA_SUCCESS)
        return result;
    struct sim_context *context = sim_context_new_green(device);
    if (!context) {
        sim_primary_release(device);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *out = (CUgreenCtx)(void *)context;
    return CUDA_SUCCESS;
}

static struct sim_context *from_handle(CUgreenCtx handle)
{
    struct sim_context *context = sim_context_of((CUcontext)(void *)handle);
    return context && context->green_of ? context : NULL;
}

CUresult cuGreenCtxDestroy(CUgreenCtx handle)
{
    SIM_CALL(SIM_INITIALIZED);
    struct sim_context *context = from_handle(handle);
    if (!context)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (!context->alive)
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    sim_context_end(context);
    sim_primary_release(context->device);
    return CUDA_SUCCESS;
}

CUresult cuCtxFromGreenCtx(CUcontext *out, CUgreenCtx handle)
{
    SIM_CALL(SIM_INITIALIZED);
    const struct sim_context *context = from_handle(handle);
    if (!context)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    *out = (CUcontext)(void *)handle;
    return CUDA_SUCCESS;
}

CUresult cuGreenCtxGetId(CUgreenCtx handle, unsigned long long *id)
{
    SIM_CALL(SIM_INITIALIZED);
    const struct sim_context *context = from_handle(handle);
    if (!context || !context->alive)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (!id)
        return CUDA_ERROR_INVALID_VALUE;
    *id = context->id;
    return CUDA_SUCCESS;
}
