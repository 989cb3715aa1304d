/*
 * figure.c - what the driver says that this process has of a device: NVML's figure of the process.
 *
 * Where NVML does not tell processes apart (in many containers), what the device has in use beyond what it
 * had before this process's first context counts as this process's; without NVML it is cuMemGetInfo's. stderr
 * says so once, and the recording has it (fact limit_counts).
 */
#include "limit.h"

#include "core/options.h"
#include "core/log.h"
#include "hooks/meminfo.h"
#include "record/record.h"
#include "sample/sampler.h"
#include "trace/journal/journal.h"

uint64_t vs_limit_bytes[VS_LIMITED_DEVICES];

static struct figure {
    vs_nvml_device handle; /* NULL: NVML does not have it */
    bool looked, listed;   /* looked for it; NVML has listed this process */
    bool began;            /* the process has made a context */
    uint64_t others;       /* in use before that */
} figures[VS_LIMITED_DEVICES];

static struct figure *figure_of(int device)
{
    struct figure *f = &figures[device];
    CUuuid uuid;
    if (f->looked || (vs_drv_cuDeviceGetUuid_v2(&uuid, device) != CUDA_SUCCESS &&
                      vs_drv_cuDeviceGetUuid(&uuid, device) != CUDA_SUCCESS))
        return f;
    f->looked = true;
    if (vs_nvml_load())
        f->handle = vs_nvml_find((const uint8_t *)uuid.bytes);
    return f;
}

static uint64_t used_by_driver(int device)
{
    CUdevice here = VS_DEVICE_UNKNOWN;
    uint64_t left, total;
    if (vs_drv_cuCtxGetDevice(&here) != CUDA_SUCCESS || here != device || !vs_query_memory(&left, &total))
        return UINT64_MAX;
    return total - left;
}

static void say_shared(int device, const struct figure *f)
{
    static bool said;
    struct vs_journal *j = vs_record_journal();
    if (said)
        return;
    said = true;
    vs_log("limit: the driver has no figure of this process alone on device %d: what is in use there beyond "
           "the %.0f "
           "MiB before its first context counts as this process's",
           device, (double)f->others / (1 << 20));
    if (j != NULL)
        vs_journal_set_fact(j, "limit_counts", "device");
}

uint64_t vs_limit_used(int device)
{
    struct figure *f = figure_of(device);
    struct vs_used u = vs_nvml_used(f->handle, &f->listed);
    if (u.process != VS_BYTES_UNKNOWN)
        return u.process;
    if (!f->began)
        return 0;
    uint64_t whole = u.device != VS_BYTES_UNKNOWN ? u.device : used_by_driver(device);
    if (whole == UINT64_MAX)
        return UINT64_MAX;
    say_shared(device, f);
    return whole > f->others ? whole - f->others : 0;
}

void *vs_limit_nvml_handle(int device)
{
    return figure_of(device)->handle;
}

void vs_limit_before_context(int device)
{
    struct figure *f;
    if (vs_limit_of(device) == 0 || (f = figure_of(device))->began)
        return;
    struct vs_used u = vs_nvml_used(f->handle, &f->listed);
    if (u.process == VS_BYTES_UNKNOWN && u.device != VS_BYTES_UNKNOWN)
        f->others = u.device;
}

void vs_limit_context_made(int device)
{
    if (vs_limit_of(device) != 0)
        figure_of(device)->began = true;
}
