/*
 * nvml.c - see nvml.h.
 *
 * The functions are declared here by their documented binary interface, so that building needs no NVIDIA
 * header or library.  NVML lists the processes of a device with what each uses.  Inside a container it may
 * list the host's pids, or none: then only the figure of the whole device is available.
 *
 * A MIG instance has a UUID of its own; the handle found by it gives the instance's figures.  If only the
 * GPU's UUID is known, the list has one entry per process and instance, and their sum is the process's
 * figure.
 */
#define _GNU_SOURCE
#include "nvml.h"

#include <dlfcn.h>
#include <stdio.h>
#include <unistd.h>

#define PROCESSES_MAX 1024
#define NOT_AVAILABLE UINT64_MAX

struct process { /* nvmlProcessInfo_t of the _v3 calls */
    unsigned pid;
    unsigned long long used;
    unsigned gpu_instance, compute_instance;
};
struct memory { /* nvmlMemory_v2_t */
    unsigned version;
    unsigned long long total, reserved, free, used;
};
#define MEMORY_VERSION (sizeof(struct memory) | 2u << 24)

typedef int list_function(vs_nvml_device, unsigned *, struct process *);

static struct {
    int (*init)(void);
    int (*by_uuid)(const char *, vs_nvml_device *);
    list_function *compute, *graphics;
    int (*memory)(vs_nvml_device, struct memory *);
} nvml;

bool vs_nvml_load(void)
{
    void *lib = dlopen("libnvidia-ml.so.1", RTLD_LAZY | RTLD_LOCAL);
    if (!lib)
        return false;
    *(void **)&nvml.init = dlsym(lib, "nvmlInit_v2");
    *(void **)&nvml.by_uuid = dlsym(lib, "nvmlDeviceGetHandleByUUID");
    *(void **)&nvml.compute = dlsym(lib, "nvmlDeviceGetComputeRunningProcesses_v3");
    *(void **)&nvml.graphics = dlsym(lib, "nvmlDeviceGetGraphicsRunningProcesses_v3");
    *(void **)&nvml.memory = dlsym(lib, "nvmlDeviceGetMemoryInfo_v2");
    return nvml.init && nvml.by_uuid && nvml.compute && nvml.init() == 0;
}

vs_nvml_device vs_nvml_find(const uint8_t uuid[16])
{
    static const char *const kinds[] = {"GPU", "MIG"};
    vs_nvml_device handle;
    char text[64];
    for (int k = 0; k < 2; k++) {
        int n = snprintf(text, sizeof text, "%s-", kinds[k]);
        for (int i = 0; i < 16; i++)
            n += snprintf(text + n, sizeof text - (size_t)n,
                          i == 4 || i == 6 || i == 8 || i == 10 ? "-%02x" : "%02x", uuid[i]);
        if (nvml.by_uuid(text, &handle) == 0)
            return handle;
    }
    return NULL;
}

enum listing { NO_LIST, NOT_IN_IT, WITHOUT_BYTES, WITH_BYTES };

/* Adds our process's bytes in one of the lists to *USED. */
static enum listing add_list(list_function *list, vs_nvml_device device, uint64_t *used)
{
    static struct process process[PROCESSES_MAX];
    unsigned count = PROCESSES_MAX, pid = (unsigned)getpid();
    enum listing listing = NOT_IN_IT;
    if (!list || list(device, &count, process) != 0)
        return NO_LIST;
    for (unsigned i = 0; i < count && i < PROCESSES_MAX; i++) {
        if (process[i].pid != pid)
            continue;
        bool answered = process[i].used != NOT_AVAILABLE;
        if (answered)
            *used = (*used == VS_BYTES_UNKNOWN ? 0 : *used) + process[i].used;
        listing = answered || listing == WITH_BYTES ? WITH_BYTES : WITHOUT_BYTES;
    }
    return listing;
}

/* A process is in one of the two lists. */
static enum listing add_lists(vs_nvml_device device, struct vs_used *u)
{
    enum listing compute = add_list(nvml.compute, device, &u->process), graphics;
    u->answered = compute != NO_LIST;
    if (compute == WITH_BYTES)
        return compute;
    graphics = add_list(nvml.graphics, device, &u->process);
    return graphics == WITH_BYTES || graphics == WITHOUT_BYTES ? graphics : compute;
}

struct vs_used vs_nvml_used(vs_nvml_device device, bool *listed)
{
    struct vs_used u = {VS_BYTES_UNKNOWN, VS_BYTES_UNKNOWN, false};
    struct memory memory = {.version = MEMORY_VERSION};
    if (!device)
        return u;
    enum listing listing = add_lists(device, &u);
    if (listing == NOT_IN_IT && *listed)
        u.process = 0;
    *listed = *listed || listing == WITH_BYTES;
    if (u.process == VS_BYTES_UNKNOWN && nvml.memory && nvml.memory(device, &memory) == 0)
        u.device = memory.used;
    return u;
}

static bool lists_another(list_function *list, vs_nvml_device device)
{
    static struct process process[PROCESSES_MAX];
    unsigned count = PROCESSES_MAX, pid = (unsigned)getpid();
    if (!list || list(device, &count, process) != 0)
        return true;
    for (unsigned i = 0; i < count; i++)
        if (process[i].pid != pid)
            return true;
    return false;
}

bool vs_nvml_others(vs_nvml_device device)
{
    return !device || lists_another(nvml.compute, device) ||
           (nvml.graphics && lists_another(nvml.graphics, device));
}
