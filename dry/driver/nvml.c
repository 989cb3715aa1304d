/*
 * nvml.c - the few NVML functions that vramscope asks, beside the simulated driver: sim/libnvidia-ml.so.1.
 *
 * It finds the simulated driver in its own process (never loads one) and answers with its figures: this
 * process alone uses the device, and is listed as long as it has a context there.
 *
 *      SIMCUDA_NVML=off      nvmlInit_v2 fails (no driver)
 *      SIMCUDA_NVML=nopid    processes are not told apart, as inside many containers
 *      SIMCUDA_NVML=crowd    another process is listed as well
 *      SIMCUDA_NVML_US=5000  how long a list of processes takes
 */
#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define API __attribute__((visibility("default")))

enum {
    NVML_SUCCESS = 0,
    NVML_UNINITIALIZED = 1,
    NVML_INVALID_ARGUMENT = 2,
    NVML_NOT_SUPPORTED = 3,
    NVML_NOT_FOUND = 6,
    NVML_INSUFFICIENT_SIZE = 7,
    NVML_DRIVER_NOT_LOADED = 9
};
typedef int nvmlReturn_t;
typedef struct device *nvmlDevice_t; /* ordinal + 1 */
typedef struct {
    unsigned long long total, free, used;
} nvmlMemory_t;
typedef struct {
    unsigned version;
    unsigned long long total, reserved, free, used;
} nvmlMemory_v2_t;
typedef struct {
    unsigned pid;
    unsigned long long usedGpuMemory;
    unsigned gpuInstanceId, computeInstanceId;
} nvmlProcessInfo_t;

API nvmlReturn_t nvmlInit_v2(void);
API nvmlReturn_t nvmlInitWithFlags(unsigned flags);
API nvmlReturn_t nvmlShutdown(void);
API const char *nvmlErrorString(nvmlReturn_t result);
API nvmlReturn_t nvmlDeviceGetCount_v2(unsigned *count);
API nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t *device);
API nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *device);
API nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *uuid, unsigned length);
API nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory);
API nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *memory);
API nvmlReturn_t nvmlDeviceGetComputeRunningProcesses(nvmlDevice_t device, unsigned *count,
                                                      nvmlProcessInfo_t *infos);
API nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned *count,
                                                         nvmlProcessInfo_t *infos);

static long long (*used_bytes)(int);
static long long (*capacity_bytes)(int);
static int (*contexts)(int);
static int (*device_count)(void);
static int users;

static bool mode_is(const char *mode)
{
    const char *chosen = getenv("SIMCUDA_NVML");
    return chosen && strcmp(chosen, mode) == 0;
}

/* The driver that this process has loaded, however (it may be RTLD_LOCAL). */
static bool find_driver(void)
{
    void *driver = dlopen("libcuda.so.1", RTLD_NOLOAD | RTLD_LAZY);
    if (!driver)
        return false;
    *(void **)&used_bytes = dlsym(driver, "simcuda_used_bytes");
    *(void **)&capacity_bytes = dlsym(driver, "simcuda_capacity_bytes");
    *(void **)&contexts = dlsym(driver, "simcuda_contexts");
    *(void **)&device_count = dlsym(driver, "simcuda_device_count");
    dlclose(driver);
    return used_bytes && capacity_bytes && contexts && device_count;
}

nvmlReturn_t nvmlInit_v2(void)
{
    if (mode_is("off") || !find_driver())
        return NVML_DRIVER_NOT_LOADED;
    users++;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlInitWithFlags(unsigned flags)
{
    return flags & ~1u ? NVML_INVALID_ARGUMENT : nvmlInit_v2();
}

nvmlReturn_t nvmlShutdown(void)
{
    if (!users)
        return NVML_UNINITIALIZED;
    users--;
    return NVML_SUCCESS;
}

const char *nvmlErrorString(nvmlReturn_t result)
{
    return result == NVML_SUCCESS             ? "Success"
           : result == NVML_UNINITIALIZED     ? "Uninitialized"
           : result == NVML_DRIVER_NOT_LOADED ? "Driver Not Loaded"
           : result == NVML_NOT_SUPPORTED     ? "Not Supported"
                                              : "Invalid Argument";
}

nvmlReturn_t nvmlDeviceGetCount_v2(unsigned *count)
{
    if (!users)
        return NVML_UNINITIALIZED;
    if (!count)
        return NVML_INVALID_ARGUMENT;
    *count = (unsigned)device_count();
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t *device)
{
    if (!users)
        return NVML_UNINITIALIZED;
    if (!device || index >= (unsigned)device_count())
        return NVML_INVALID_ARGUMENT;
    *device = (nvmlDevice_t)(uintptr_t)(index + 1);
    return NVML_SUCCESS;
}

/* The UUID that cuDeviceGetUuid gives ("simcuda-device-" and a letter), written as NVML writes it. */
static void uuid_text(int ordinal, char out[48])
{
    char raw[16] = "simcuda-device-";
    raw[15] = (char)('a' + ordinal);
    char *at = out + sprintf(out, "GPU-");
    for (int i = 0; i < 16; i++)
        at += sprintf(at, "%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", (unsigned char)raw[i]);
}

nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *device)
{
    char text[48];
    if (!users)
        return NVML_UNINITIALIZED;
    if (!uuid || !device)
        return NVML_INVALID_ARGUMENT;
    for (int i = 0; i < device_count(); i++) {
        uuid_text(i, text);
        if (strcmp(text, uuid) == 0)
            return nvmlDeviceGetHandleByIndex_v2((unsigned)i, device);
    }
    return NVML_NOT_FOUND;
}

/* The ordinal, or the error through RESULT. */
static int ordinal_of(nvmlDevice_t device, nvmlReturn_t *result)
{
    int ordinal = (int)(uintptr_t)device - 1;
    *result = !users                                     ? NVML_UNINITIALIZED
              : ordinal < 0 || ordinal >= device_count() ? NVML_INVALID_ARGUMENT
                                                         : NVML_SUCCESS;
    return ordinal;
}

nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *uuid, unsigned length)
{
    nvmlReturn_t result;
    char text[48];
    int ordinal = ordinal_of(device, &result);
    if (result != NVML_SUCCESS)
        return result;
    uuid_text(ordinal, text);
    if (!uuid)
        return NVML_INVALID_ARGUMENT;
    if (length <= strlen(text))
        return NVML_INSUFFICIENT_SIZE;
    strcpy(uuid, text);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory)
{
    nvmlReturn_t result;
    int ordinal = ordinal_of(device, &result);
    if (result != NVML_SUCCESS || !memory)
        return result != NVML_SUCCESS ? result : NVML_INVALID_ARGUMENT;
    memory->total = (unsigned long long)capacity_bytes(ordinal);
    memory->used = (unsigned long long)used_bytes(ordinal);
    memory->free = memory->total - memory->used;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *memory)
{
    nvmlMemory_t plain;
    nvmlReturn_t result = memory ? nvmlDeviceGetMemoryInfo(device, &plain) : NVML_INVALID_ARGUMENT;
    if (result != NVML_SUCCESS)
        return result;
    memory->total = plain.total;
    memory->reserved = 0;
    memory->free = plain.free;
    memory->used = plain.used;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned *count,
                                                     nvmlProcessInfo_t *infos)
{
    nvmlReturn_t result;
    int ordinal = ordinal_of(device, &result);
    if (result != NVML_SUCCESS || !count)
        return result != NVML_SUCCESS ? result : NVML_INVALID_ARGUMENT;
    if (mode_is("nopid") || !contexts(ordinal)) {
        *count = 0;
        return NVML_SUCCESS;
    }
    const char *delay = getenv("SIMCUDA_NVML_US");
    if (delay)
        usleep((useconds_t)strtoul(delay, NULL, 10));
    unsigned room = *count;
    *count = mode_is("crowd") ? 2 : 1;
    if (room < *count || !infos)
        return NVML_INSUFFICIENT_SIZE;
    infos[*count - 1] = (nvmlProcessInfo_t){.pid = 1, .gpuInstanceId = ~0u, .computeInstanceId = ~0u};
    infos[0] = (nvmlProcessInfo_t){.pid = (unsigned)getpid(),
                                   .usedGpuMemory = (unsigned long long)used_bytes(ordinal),
                                   .gpuInstanceId = 0xffffffffu,
                                   .computeInstanceId = 0xffffffffu};
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses(nvmlDevice_t device, unsigned *count,
                                                  nvmlProcessInfo_t *infos)
{
    return nvmlDeviceGetComputeRunningProcesses_v3(device, count, infos);
}
