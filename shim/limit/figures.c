/*
 * figures.c - what programs are told of a device's memory, under a limit: the limit is the device's total,
 * and free is what it leaves, by cuMemGetInfo, cuDeviceTotalMem and NVML's functions of the same meaning.
 *
 * NVML is looked up by name (hooks/symbols/resolve.c); a program that is linked to it gets NVML's figures,
 * not the limit.
 */
#include "limit.h"

#include <stdatomic.h>
#include <string.h>

#include "core/options.h"
#include "hooks/hook.h"
#include "sample/sampler.h"

#define KNOWN 2 /* of NVML's functions */

struct info {
    uint64_t free, total;
};

static void limit_info(int device, struct info *i)
{
    uint64_t bytes = vs_limit_of(device), left;
    if (bytes == 0)
        return;
    left = vs_limit_left(device);
    i->free = i->free < left ? i->free : left;
    i->total = i->total < bytes ? i->total : bytes;
}

/* ---- the driver's ---- */

static CUresult get_info(size_t *free_bytes, size_t *total)
{
    CUdevice device = VS_LIMIT_NOWHERE;
    CUresult status = VS_BENEATH(cuMemGetInfo_v2)(free_bytes, total);
    if (status != CUDA_SUCCESS || vs_drv_cuCtxGetDevice(&device) != CUDA_SUCCESS)
        return status;
    struct info i = {free_bytes != NULL ? *free_bytes : 0, total != NULL ? *total : 0};
    limit_info(device, &i);
    if (free_bytes != NULL)
        *free_bytes = i.free;
    if (total != NULL)
        *total = i.total;
    return status;
}

static CUresult get_total(size_t *bytes, CUdevice device)
{
    CUresult status = VS_BENEATH(cuDeviceTotalMem_v2)(bytes, device);
    uint64_t limit = vs_limit_of(device);
    if (status == CUDA_SUCCESS && limit != 0 && *bytes > limit)
        *bytes = limit;
    return status;
}

const struct vs_limited vs_limited_figures[] = {
    {VS_API_cuMemGetInfo_v2, (void *)get_info}, {VS_API_cuDeviceTotalMem_v2, (void *)get_total}, {0}};

/* ---- NVML's ---- */

struct memory { /* nvmlMemory_t */
    unsigned long long total, free, used;
};

typedef int memory_function(void *nvml_device, void *memory);
static _Atomic(void *) real[KNOWN];

/* The device in this process whose handle NVML_DEVICE is.  Before the process has begun CUDA nothing tells;
 * where all have one limit it is that of the first. */
static int device_of(void *nvml_device)
{
    int count = 0;
    if (!vs_cuda_seen() || vs_drv_cuDeviceGetCount(&count) != CUDA_SUCCESS)
        return vs_limit_of(0) == vs_limit_of(1) ? 0 : VS_LIMIT_NOWHERE;
    for (int i = 0; i < count && i < VS_LIMITED_DEVICES; i++)
        if (vs_limit_of(i) != 0 && vs_limit_nvml_handle(i) == nvml_device)
            return i;
    return VS_LIMIT_NOWHERE;
}

static int ask_nvml(int which, void *nvml_device, void *memory)
{
    memory_function *function = (memory_function *)atomic_load_explicit(&real[which], memory_order_relaxed);
    return function(nvml_device, memory);
}

static int memory(void *nvml_device, void *out)
{
    struct memory *m = out;
    int result = ask_nvml(0, nvml_device, out), device = device_of(nvml_device);
    if (result != 0 || m->free > m->total || vs_limit_of(device) == 0)
        return result;
    struct info i = {m->free, m->total};
    limit_info(device, &i);
    *m = (struct memory){i.total, i.free, i.total - i.free};
    return result;
}

static int memory_v2(void *nvml_device, void *out)
{
    struct vs_nvml_memory *m = out;
    int result = ask_nvml(1, nvml_device, out), device = device_of(nvml_device);
    if (result != 0 || m->version != VS_NVML_MEMORY_VERSION || vs_limit_of(device) == 0)
        return result;
    struct info i = {m->free, m->total};
    limit_info(device, &i);
    m->total = i.total;
    m->free = i.free;
    m->reserved = 0;
    m->used = i.total - i.free;
    return result;
}

void *vs_limit_nvml(const char *name, void *found)
{
    static const struct {
        const char *name;
        memory_function *ours;
    } known[KNOWN] = {{"nvmlDeviceGetMemoryInfo", memory}, {"nvmlDeviceGetMemoryInfo_v2", memory_v2}};
    for (int i = 0; i < KNOWN; i++)
        if (strcmp(name, known[i].name) == 0) {
            atomic_store_explicit(&real[i], found, memory_order_relaxed);
            return (void *)known[i].ours;
        }
    return NULL;
}
