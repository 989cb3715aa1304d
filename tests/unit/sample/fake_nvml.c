/* fake_nvml.c - a libnvidia-ml.so.1 with one device, whose list of processes is what the test says. */
#include "fake_nvml.h"

#include <string.h>

#define API __attribute__((visibility("default")))

struct entry { /* of drivers that write the longer ones; the others end before the last number */
    unsigned pid;
    unsigned long long used;
    unsigned gpu_instance, compute_instance;
    unsigned long long protected;
};

API struct fake_nvml *fake_nvml(void);
API int nvmlInit_v2(void);
API int nvmlDeviceGetHandleByUUID(const char *uuid, void **device);
API int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned *count, void *list);

static struct fake_nvml said;

struct fake_nvml *fake_nvml(void)
{
    return &said;
}

int nvmlInit_v2(void)
{
    return 0;
}

int nvmlDeviceGetHandleByUUID(const char *uuid, void **device)
{
    *device = &said;
    return 0;
}

int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned *count, void *list)
{
    for (unsigned i = 0; i < said.count; i++) {
        struct entry e = {said.pid[i], said.used[i], ~0u, ~0u, 0};
        memcpy((char *)list + i * said.entry, &e, said.entry);
    }
    *count = said.count;
    return 0;
}
