/*
 * alloc.c - the events of plain allocations and of every kind of free, and the sample that the drain asks
 * for.
 *
 * A free's event carries no device: an address says nothing about where it lies, and the current context need
 * not be the memory's.  The ledger pairs it with its allocation.
 */
#include "cuda.h"
#include "hook.h"
#include "sample/sampler.h"

/* The host's own memory lies on no device, whatever context is current. */
static bool on_device(enum vs_space space)
{
    return space != VS_SPACE_PINNED && space != VS_SPACE_REGISTERED;
}

void vs_after_given(enum vs_api api, enum vs_space space, const struct vs_given *g, uint64_t address,
                    uint64_t size, const void *caller, CUresult status)
{
    if (!vs_record_takes()) /* nothing is asked for what goes nowhere */
        return;
    vs_place_prepare(status);
    bool provided = g->space != VS_SPACE_NONE;
    struct vs_place place = provided ? vs_place_known(g->context) : vs_place_nowhere;
    if (place.device == VS_DEVICE_UNKNOWN)
        place = vs_place_current();
    vs_provided_report();
    struct vs_event event = {.op = VS_OP_ALLOC,
                             .space = provided ? g->space : space,
                             .device = on_device(space) ? place.device : VS_DEVICE_UNKNOWN,
                             .context = place.context,
                             .status = status,
                             .address = address,
                             .size = size,
                             .arg1 = api | VS_ASKED_BY(vs_asker_of(caller))};
    vs_record(&event);
    vs_sample_after(status);
}

void vs_after_alloc(enum vs_api api, enum vs_space space, uint64_t address, uint64_t size, const void *caller,
                    CUresult status)
{
    static const struct vs_given nothing = VS_GIVEN_NOTHING;
    vs_after_given(api, space, &nothing, address, size, caller, status);
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
    if (vs_graph_memory_seen() && op == VS_OP_FREE)
        vs_graph_freed(address);
    return vs_record(&event);
}

void vs_after_free(uint64_t seq, enum vs_space space, uint64_t address, CUresult status)
{
    vs_provided_report();
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

struct meminfo {
    size_t free, total;
};

/* In a thread whose capture mode is global or thread-local, a query that the driver holds for unsafe would
 * break somebody's stream capture: relaxed for the time of ours. */
static bool ask_meminfo(struct meminfo *m)
{
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    bool exchanged = vs_drv_cuThreadExchangeStreamCaptureMode(&mode) == CUDA_SUCCESS;
    CUresult status = vs_drv_cuMemGetInfo_v2(&m->free, &m->total);
    if (exchanged)
        vs_drv_cuThreadExchangeStreamCaptureMode(&mode);
    return status == CUDA_SUCCESS;
}

bool vs_ask_free(uint64_t *bytes)
{
    struct meminfo m = {0, 0};
    bool known = ask_meminfo(&m);
    *bytes = m.free;
    return known;
}

/* What the driver has free, asked on the host's own thread; the device, VS_DEVICE_UNKNOWN where it won't say.
 */
static int sample_here(enum vs_sample_source source)
{
    struct meminfo m = {0, 0};
    struct vs_place place = vs_place_current();
    if (place.device == VS_DEVICE_UNKNOWN || !ask_meminfo(&m))
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

/* Both figures of one moment, the device's and this process's: only so can the rest be told apart. */
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

void vs_sample_if_asked(void)
{
    if (vs_sample_take_request())
        sample_here(VS_SAMPLE_MEMINFO);
}

void vs_sample_after(CUresult status)
{
    if (status == CUDA_ERROR_OUT_OF_MEMORY)
        sample_refused();
    else
        vs_sample_if_asked();
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
    bool known = vs_drv_cuCtxGetDevice(device) == CUDA_SUCCESS && ask_meminfo(&m);
    vs_drv_cuCtxSetCurrent(NULL);
    *bytes = m.total - m.free;
    return known;
}
