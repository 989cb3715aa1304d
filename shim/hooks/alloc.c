/*
 * alloc.c - the events of plain allocations and of every kind of free, and the sample that the drain asks
 * for.
 *
 * A free's event carries no device: an address says nothing about where it lies, and the current context need
 * not be the memory's.  The ledger pairs it with its allocation.
 */
#include "cuda.h"
#include "hook.h"

/* The host's own memory lies on no device, whatever context is current. */
static bool on_device(enum vs_space space)
{
    return space != VS_SPACE_PINNED && space != VS_SPACE_REGISTERED;
}

void vs_after_alloc(enum vs_api api, enum vs_space space, uint64_t address, uint64_t size, CUresult status)
{
    vs_place_prepare(status);
    struct vs_place place = vs_place_current();
    struct vs_event event = {.op = VS_OP_ALLOC,
                             .space = space,
                             .device = on_device(space) ? place.device : VS_DEVICE_UNKNOWN,
                             .context = place.context,
                             .status = status,
                             .address = address,
                             .size = size,
                             .arg1 = api};
    vs_record(&event);
    vs_sample_if_asked();
}

uint64_t vs_before_free(enum vs_api api, enum vs_op op, enum vs_space space, uint64_t address, uint64_t size,
                        uint64_t stream)
{
    struct vs_event event = {.op = op,
                             .space = space,
                             .device = VS_DEVICE_UNKNOWN,
                             .address = address,
                             .size = size,
                             .arg0 = stream,
                             .arg1 = api};
    return vs_record(&event);
}

void vs_after_free(uint64_t seq, enum vs_space space, uint64_t address, CUresult status)
{
    if (status == CUDA_SUCCESS) {
        vs_sample_if_asked();
        return;
    }
    if (seq == VS_SEQ_NONE) /* the free itself is not in the journal: nothing to take back */
        return;
    struct vs_event event = {.op = VS_OP_FREE_FAILED,
                             .space = space,
                             .device = VS_DEVICE_UNKNOWN,
                             .status = status,
                             .address = address,
                             .arg0 = seq};
    vs_record(&event);
}

void vs_sample_if_asked(void)
{
    if (!vs_sample_take_request())
        return;
    struct vs_place place = vs_place_current();
    if (place.device == VS_DEVICE_UNKNOWN)
        return;
    /* In a thread whose capture mode is global or thread-local, a query that the driver holds for unsafe
     * would break somebody's stream capture: relaxed for the time of ours. */
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    bool exchanged = vs_drv_cuThreadExchangeStreamCaptureMode(&mode) == CUDA_SUCCESS;
    size_t free_bytes = 0, total_bytes = 0;
    CUresult status = vs_drv_cuMemGetInfo_v2(&free_bytes, &total_bytes);
    if (exchanged)
        vs_drv_cuThreadExchangeStreamCaptureMode(&mode);
    if (status != CUDA_SUCCESS)
        return;
    struct vs_event event = {.op = VS_OP_SAMPLE,
                             .device = place.device,
                             .context = place.context,
                             .size = total_bytes - free_bytes,
                             .arg0 = VS_SAMPLE_MEMINFO};
    vs_record(&event);
}

bool vs_cuda_used_bytes(int device, uint64_t *bytes)
{
    unsigned flags;
    int active = 0;
    CUcontext context;
    size_t free_bytes = 0, total_bytes = 0;
    if (vs_drv_cuDevicePrimaryCtxGetState(device, &flags, &active) != CUDA_SUCCESS || !active ||
        vs_drv_cuDevicePrimaryCtxRetain(&context, device) != CUDA_SUCCESS)
        return false;
    bool known = vs_drv_cuCtxSetCurrent(context) == CUDA_SUCCESS &&
                 vs_drv_cuMemGetInfo_v2(&free_bytes, &total_bytes) == CUDA_SUCCESS;
    vs_drv_cuCtxSetCurrent(NULL);
    vs_drv_cuDevicePrimaryCtxRelease_v2(device);
    *bytes = total_bytes - free_bytes;
    return known;
}
