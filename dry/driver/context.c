/*
 * context.c - contexts: primary ones, counted per device, and created ones; each thread's stack of them.
 *
 * A context takes SIMCUDA_CONTEXT_BYTES (default: the card's) while it lives.  Contexts never go back to the
 * heap, so a stale handle is an error code and no crash.
 */
#include "capture.h"

#include <stdlib.h>

#define MAX_CURRENT 64

static struct sim_context *created;
static unsigned long long next_id = 1;
static _Thread_local struct sim_context *stack[MAX_CURRENT];
static _Thread_local int depth; /* the current context is stack[depth - 1], which may be NULL */

struct sim_context *sim_context_current(void)
{
    return depth ? stack[depth - 1] : NULL;
}

CUresult sim_context_check(void)
{
    const struct sim_context *context = sim_context_current();
    if (!context)
        return CUDA_ERROR_INVALID_CONTEXT;
    return context->alive ? CUDA_SUCCESS : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

struct sim_context *sim_context_owner(void)
{
    struct sim_context *context = sim_context_current();
    return context && context->green_of ? context->green_of : context;
}

static struct sim_context *from_handle(CUcontext handle)
{
    struct sim_context *wanted = (struct sim_context *)(void *)handle;
    for (int i = 0; i < sim_device_count; i++)
        if (wanted == &sim_devices[i].primary)
            return wanted;
    for (struct sim_context *c = created; c; c = c->next)
        if (c == wanted)
            return wanted;
    return NULL;
}

struct sim_context *sim_context_of(CUcontext handle)
{
    return from_handle(handle);
}

int simcuda_contexts(int device)
{
    int alive = 0;
    if (device < 0 || device >= sim_device_count || sim_forked())
        return 0;
    sim_lock();
    alive += sim_devices[device].primary.alive;
    for (struct sim_context *c = created; c; c = c->next)
        alive += c->alive && c->device == device;
    sim_unlock();
    return alive;
}

static CUcontext to_handle(struct sim_context *context)
{
    return (CUcontext)(void *)context;
}

static void set_current(struct sim_context *context)
{
    if (!depth)
        depth = 1;
    stack[depth - 1] = context;
}

static CUresult push(struct sim_context *context)
{
    if (depth == MAX_CURRENT)
        return CUDA_ERROR_OUT_OF_MEMORY;
    stack[depth++] = context;
    return CUDA_SUCCESS;
}

static CUresult activate(struct sim_context *context)
{
    uint64_t cost = context->green_of
                        ? SIM_GRANULARITY
                        : sim_env_bytes("SIMCUDA_CONTEXT_BYTES", (uint64_t)sim_card()->context_mib << 20);
    if (!sim_charge(context->device, cost))
        return CUDA_ERROR_OUT_OF_MEMORY;
    context->cost = cost;
    context->alive = true;
    context->id = next_id++;
    sim_limits_init(context);
    return CUDA_SUCCESS;
}

/* Green contexts go with the primary one that they are parts of. */
static void end_green_of(struct sim_context *primary)
{
    for (struct sim_context *c = created; c; c = c->next)
        if (c->green_of == primary)
            sim_context_end(c);
}

void sim_context_end(struct sim_context *context)
{
    if (!context->alive)
        return;
    if (context->primary) {
        end_green_of(context);
        sim_pools_end(context->device);
        sim_graph_memory_end(context->device);
    }
    sim_blocks_free_of(context);
    sim_arrays_free_of(context);
    sim_externals_free_of(context);
    sim_modules_free_of(context);
    sim_streams_free_of(context);
    sim_uncharge(context->device, context->cost + context->code_cost + context->limit_cost);
    context->code_cost = context->limit_cost = 0;
    context->alive = false;
    context->busy = 0;
    sim_wake();
}

/* ---- primary contexts ---- */

CUresult sim_primary_retain(int device)
{
    struct sim_context *primary = &sim_devices[device].primary;
    CUresult result = primary->alive ? CUDA_SUCCESS : activate(primary);
    primary->references += result == CUDA_SUCCESS;
    return result;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *out, CUdevice device)
{
    SIM_CALL(SIM_INITIALIZED);
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    if (!sim_valid_device(device))
        return CUDA_ERROR_INVALID_DEVICE;
    CUresult result = sim_primary_retain(device);
    if (result == CUDA_SUCCESS)
        *out = to_handle(&sim_devices[device].primary);
    return result;
}

CUresult sim_primary_release(int device)
{
    if (!sim_valid_device(device))
        return CUDA_ERROR_INVALID_DEVICE;
    struct sim_context *primary = &sim_devices[device].primary;
    if (!primary->references)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (--primary->references == 0)
        sim_context_end(primary);
    return CUDA_SUCCESS;
}

SIM_SAME(cuDevicePrimaryCtxRelease, cuDevicePrimaryCtxRelease_v2, SIM_INITIALIZED, (CUdevice device),
         sim_primary_release(device))

/* References stay and are still to be released; the next retain makes the context anew. */
static CUresult primary_reset(CUdevice device)
{
    if (!sim_valid_device(device))
        return CUDA_ERROR_INVALID_DEVICE;
    sim_context_end(&sim_devices[device].primary);
    return CUDA_SUCCESS;
}

SIM_SAME(cuDevicePrimaryCtxReset, cuDevicePrimaryCtxReset_v2, SIM_INITIALIZED, (CUdevice device),
         primary_reset(device))

static CUresult primary_set_flags(CUdevice device, unsigned flags)
{
    if (!sim_valid_device(device))
        return CUDA_ERROR_INVALID_DEVICE;
    sim_devices[device].primary.flags = flags;
    return CUDA_SUCCESS;
}

SIM_SAME(cuDevicePrimaryCtxSetFlags, cuDevicePrimaryCtxSetFlags_v2, SIM_INITIALIZED,
         (CUdevice device, unsigned int flags), primary_set_flags(device, flags))

CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned int *flags, int *active)
{
    SIM_CALL(SIM_INITIALIZED);
    if (!sim_valid_device(device))
        return CUDA_ERROR_INVALID_DEVICE;
    if (flags)
        *flags = sim_devices[device].primary.flags;
    if (active)
        *active = sim_devices[device].primary.alive;
    return CUDA_SUCCESS;
}

/* ---- created contexts ---- */

static CUresult create(CUcontext *out, unsigned flags, CUdevice device, unsigned api_version)
{
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    if (!sim_valid_device(device))
        return CUDA_ERROR_INVALID_DEVICE;
    struct sim_context *context = calloc(1, sizeof *context);
    if (!context)
        return CUDA_ERROR_OUT_OF_MEMORY;
    context->device = device;
    context->flags = flags;
    context->api_version = api_version;
    CUresult result = activate(context);
    if (result == CUDA_SUCCESS)
        result = push(context);
    if (result != CUDA_SUCCESS) {
        sim_context_end(context);
        free(context);
        return result;
    }
    context->next = created;
    created = context;
    *out = to_handle(context);
    return CUDA_SUCCESS;
}

CUresult cuCtxCreate(CUcontext *out, unsigned int flags, CUdevice device)
{
    SIM_CALL(SIM_INITIALIZED);
    return create(out, flags, device, 3010);
}

CUresult cuCtxCreate_v2(CUcontext *out, unsigned int flags, CUdevice device)
{
    SIM_CALL(SIM_INITIALIZED);
    return create(out, flags, device, 3020);
}

CUresult cuCtxCreate_v3(CUcontext *out, CUexecAffinityParam *affinity, int count, unsigned int flags,
                        CUdevice device)
{
    SIM_CALL(SIM_INITIALIZED);
    return affinity || count ? CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY : create(out, flags, device, 3020);
}

CUresult cuCtxCreate_v4(CUcontext *out, CUctxCreateParams *params, unsigned int flags, CUdevice device)
{
    SIM_CALL(SIM_INITIALIZED);
    return params ? CUDA_ERROR_NOT_SUPPORTED : create(out, flags, device, 3020);
}

/* Current to nobody: that is for the caller of cuGreenCtxCreate to do. */
struct sim_context *sim_context_new_green(int device)
{
    struct sim_context *context = calloc(1, sizeof *context);
    if (!context)
        return NULL;
    context->device = device;
    context->api_version = 3020;
    context->green_of = &sim_devices[device].primary;
    if (activate(context) != CUDA_SUCCESS) {
        free(context);
        return NULL;
    }
    context->next = created;
    created = context;
    return context;
}

static CUresult destroy(CUcontext handle)
{
    struct sim_context *context = from_handle(handle);
    if (!context || context->primary || context->green_of)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (!context->alive)
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    sim_context_end(context);
    if (sim_context_current() == context)
        stack[--depth] = NULL;
    return CUDA_SUCCESS;
}

SIM_SAME(cuCtxDestroy, cuCtxDestroy_v2, SIM_INITIALIZED, (CUcontext handle), destroy(handle))

/* ---- current ---- */

static CUresult push_current(CUcontext handle)
{
    struct sim_context *context = from_handle(handle);
    return context ? push(context) : CUDA_ERROR_INVALID_CONTEXT;
}

SIM_SAME(cuCtxPushCurrent, cuCtxPushCurrent_v2, SIM_INITIALIZED, (CUcontext handle), push_current(handle))

static CUresult pop_current(CUcontext *out)
{
    struct sim_context *context = sim_context_current();
    if (!context)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (out)
        *out = to_handle(context);
    stack[--depth] = NULL;
    return CUDA_SUCCESS;
}

SIM_SAME(cuCtxPopCurrent, cuCtxPopCurrent_v2, SIM_INITIALIZED, (CUcontext * out), pop_current(out))

CUresult cuCtxSetCurrent(CUcontext handle)
{
    SIM_CALL(SIM_INITIALIZED);
    if (handle && !from_handle(handle))
        return CUDA_ERROR_INVALID_CONTEXT;
    set_current(handle ? from_handle(handle) : NULL);
    return CUDA_SUCCESS;
}

CUresult cuCtxGetCurrent(CUcontext *out)
{
    SIM_CALL(SIM_INITIALIZED);
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    *out = to_handle(sim_context_current());
    return CUDA_SUCCESS;
}

static struct sim_context *given_or_current(CUcontext handle)
{
    struct sim_context *context = handle ? from_handle(handle) : sim_context_current();
    return context && context->alive ? context : NULL;
}

static CUresult context_device(CUdevice *device, CUcontext handle)
{
    const struct sim_context *context = given_or_current(handle);
    if (!device)
        return CUDA_ERROR_INVALID_VALUE;
    if (!context)
        return CUDA_ERROR_INVALID_CONTEXT;
    *device = context->device;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetDevice(CUdevice *device)
{
    SIM_CALL(SIM_CONTEXT);
    return context_device(device, NULL);
}

CUresult cuCtxGetDevice_v2(CUdevice *device, CUcontext handle)
{
    SIM_CALL(SIM_INITIALIZED);
    return context_device(device, handle);
}

/* ---- properties ---- */

CUresult cuCtxGetFlags(unsigned int *flags)
{
    SIM_CALL(SIM_CONTEXT);
    if (!flags)
        return CUDA_ERROR_INVALID_VALUE;
    *flags = sim_context_current()->flags;
    return CUDA_SUCCESS;
}

CUresult cuCtxSetFlags(unsigned int flags)
{
    SIM_CALL(SIM_CONTEXT);
    sim_context_current()->flags = flags;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetId(CUcontext handle, unsigned long long *id)
{
    SIM_CALL(SIM_INITIALIZED);
    const struct sim_context *context = given_or_current(handle);
    if (!context)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (!id)
        return CUDA_ERROR_INVALID_VALUE;
    *id = context->id;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetApiVersion(CUcontext handle, unsigned int *version)
{
    SIM_CALL(SIM_INITIALIZED);
    const struct sim_context *context = given_or_current(handle);
    if (!context)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (!version)
        return CUDA_ERROR_INVALID_VALUE;
    *version = context->api_version;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest)
{
    SIM_CALL(SIM_CONTEXT);
    if (least)
        *least = 0;
    if (greatest)
        *greatest = -5;
    return CUDA_SUCCESS;
}

static CUresult peer_access(CUcontext handle, bool enable)
{
    const struct sim_context *peer = from_handle(handle), *current = sim_context_current();
    if (!peer || !peer->alive || peer->device == current->device)
        return CUDA_ERROR_INVALID_CONTEXT;
    bool *enabled = &sim_devices[current->device].peers[peer->device];
    if (*enabled == enable)
        return enable ? CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED : CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
    *enabled = enable;
    return CUDA_SUCCESS;
}

CUresult cuCtxEnablePeerAccess(CUcontext handle, unsigned int flags)
{
    SIM_CALL(SIM_CONTEXT);
    return flags ? CUDA_ERROR_INVALID_VALUE : peer_access(handle, true);
}

CUresult cuCtxDisablePeerAccess(CUcontext handle)
{
    SIM_CALL(SIM_CONTEXT);
    return peer_access(handle, false);
}
