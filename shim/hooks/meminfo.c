/*
 * meminfo.c - samples of what the driver says is used of a device; see meminfo.h.
 *
 * The drain asks for a sample now and then, and the next hooked call of any thread takes it; a refusal for
 * lack of memory is sampled at once.
 */
#include "meminfo.h"

#include "hook.h"
#include "place.h"
#include "record/record.h"
#include "sample/sampler.h"

struct meminfo {
    size_t free, total;
};

/* In a thread whose capture mode is global or thread-local, a query that the driver holds for unsafe would
 * break somebody's stream capture: relaxed for the time of ours. */
static bool query_meminfo(struct meminfo *m)
{
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    bool exchanged = vs_drv_cuThreadExchangeStreamCaptureMode(&mode) == CUDA_SUCCESS;
    CUresult status = vs_drv_cuMemGetInfo_v2(&m->free, &m->total);
    if (exchanged)
        vs_drv_cuThreadExchangeStreamCaptureMode(&mode);
    return status == CUDA_SUCCESS;
}

bool vs_query_free(uint64_t *bytes)
{
    struct meminfo m = {0, 0};
    bool known = query_meminfo(&m);
    *bytes = m.free;
    return known;
}

/* What the driver has free, asked on the host's own thread; the device, VS_DEVICE_UNKNOWN where it won't say.
 */
static int sample_here(enum vs_sample_source source)
{
    struct meminfo m = {0, 0};
    struct vs_place place = vs_place_current();
    if (place.device == VS_DEVICE_UNKNOWN || !query_meminfo(&m))
        return VS_DEVICE_UNKNOWN;
    struct vs_event event = {.op = VS_OP_SAMPLE,
                             .device = place.device,
                             .context = place.context,
                             .address = source == VS_SAMPLE_OOM ? m.free : 0,
                             .size = m.total - m.free,
                             .arg0 = source};
    vs_record(&event);
    return place.device;
}

/* Samples the device's figure and this process's at one moment: only then is their difference what other
 * processes hold. */
static void sample_refused(void)
{
    struct vs_used used;
    int device = sample_here(VS_SAMPLE_OOM);
    if (device == VS_DEVICE_UNKNOWN || !vs_used_now(device, &used) || used.process == VS_BYTES_UNKNOWN)
        return;
    struct vs_event event = {
        .op = VS_OP_SAMPLE, .device = (int8_t)device, .size = used.process, .arg0 = VS_SAMPLE_OOM_PROCESS};
    vs_record(&event);
}

void vs_sample_if_requested(void)
{
    if (vs_sample_take_request())
        sample_here(VS_SAMPLE_MEMINFO);
}

void vs_sample_after(CUresult status)
{
    if (status == CUDA_ERROR_OUT_OF_MEMORY)
        sample_refused();
    else
        vs_sample_if_requested();
}

uint64_t vs_cuda_current(void)
{
    CUcontext context = NULL;
    if (!vs_cuda_seen() || vs_drv_cuCtxGetCurrent(&context) != CUDA_SUCCESS)
        return 0;
    return (uint64_t)(uintptr_t)context;
}

bool vs_cuda_used_bytes(uint64_t context, int *device, uint64_t *bytes)
{
    if (vs_drv_cuCtxSetCurrent((CUcontext)(uintptr_t)context) != CUDA_SUCCESS)
        return false;
    struct meminfo m = {0, 0};
    bool known = vs_drv_cuCtxGetDevice(device) == CUDA_SUCCESS && query_meminfo(&m);
    vs_drv_cuCtxSetCurrent(NULL);
    *bytes = m.total - m.free;
    return known;
}
