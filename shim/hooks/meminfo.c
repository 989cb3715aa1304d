/*
 * meminfo.c - samples of a device's used memory by the driver's own figure; see meminfo.h.
 *
 * The drain requests a sample from time to time, and the next hooked call of any thread takes it; after a
 * refusal for lack of memory a sample is taken at once.
 */
#include "meminfo.h"

#include "core/contracts.h"
#include "hook.h"
#include "place.h"
#include "record/record.h"
#include "sample/sampler.h"

struct meminfo {
    size_t free, total;
};

static bool is_plausible(const struct meminfo *m)
{
    if (m->total == 0 || m->free > m->total)
        return vs_contract_broken(VS_CONTRACT_DRIVER_FIGURES,
                                  "cuMemGetInfo says that %zu of %zu bytes are free", m->free, m->total);
    vs_contract_proven(VS_CONTRACT_DRIVER_FIGURES, "cuMemGetInfo's free bytes are a part of all");
    return true;
}

/* In a thread whose capture mode is global or thread-local, a query that the driver considers unsafe would
 * break a stream capture, so the mode is relaxed during ours. */
static bool query_meminfo(struct meminfo *m)
{
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    bool exchanged = vs_drv_cuThreadExchangeStreamCaptureMode(&mode) == CUDA_SUCCESS;
    CUresult status = vs_drv_cuMemGetInfo_v2(&m->free, &m->total);
    if (exchanged)
        vs_drv_cuThreadExchangeStreamCaptureMode(&mode);
    return status == CUDA_SUCCESS && is_plausible(m);
}

bool vs_query_free(uint64_t *bytes)
{
    struct meminfo m = {0, 0};
    bool known = query_meminfo(&m);
    *bytes = m.free;
    return known;
}

/* Samples the driver's free bytes on the host's own thread; returns the device, VS_DEVICE_UNKNOWN if there
 * is
 * no answer. */
static int sample_here(enum vs_sample_source source)
{
    struct meminfo m = {0, 0};
    struct vs_place place = vs_place_current();
    if (place.device == VS_DEVICE_UNKNOWN || !query_meminfo(&m))
        return VS_DEVICE_UNKNOWN;
    vs_event(VS_OP_SAMPLE, VS_SPACE_NONE, place, source == VS_SAMPLE_OOM ? m.free : 0, m.total - m.free,
             source, 0, CUDA_SUCCESS);
    return place.device;
}

/* Samples the device's figure and this process's at one moment, because only then their difference is the
 * memory of other processes. */
static void sample_refused(void)
{
    struct vs_used used;
    int device = sample_here(VS_SAMPLE_OOM);
    if (device == VS_DEVICE_UNKNOWN || !vs_used_now(device, &used) || used.process == VS_BYTES_UNKNOWN)
        return;
    vs_event(VS_OP_SAMPLE, VS_SPACE_NONE, (struct vs_place){(int8_t)device, 0}, 0, used.process,
             VS_SAMPLE_OOM_PROCESS, 0, CUDA_SUCCESS);
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
