/*
 * nvml.c - what programs ask NVML: sim/libnvidia-ml.so.1.
 *
 * It answers with the figures of the simulated driver that this process has loaded; it never loads one
 * itself.  So it knows of no other process that uses the device.  Its devices are all the machine's, also
 * those that the process does not see.
 *
 *      SIMCUDA_NVML=off      nvmlInit_v2 fails (no driver)
 *      SIMCUDA_NVML=nopid    processes are not told apart, as inside many containers
 *      SIMCUDA_NVML=crowd    another process is listed as well
 *      SIMCUDA_NVML=late     the first lists with this process have a part of its memory
 *      SIMCUDA_NVML_US=5000  how long a list of processes takes
 */
#include "nvml.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static struct {
    long long (*used_bytes)(int);
    long long (*capacity_bytes)(int);
    int (*contexts)(int);
    int (*machine_devices)(void);
    int (*ordinal)(int);
    int (*attribute)(int, int);
    const char *(*card_name)(void);
    int (*version)(int *);
} driver;
static int users;

static bool mode_is(const char *mode)
{
    const char *chosen = getenv("SIMCUDA_NVML");
    return chosen && strcmp(chosen, mode) == 0;
}

/* The driver that this process has loaded, however (it may be RTLD_LOCAL). */
static bool find_driver(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOLOAD | RTLD_LAZY);
    if (!library)
        return false;
    *(void **)&driver.used_bytes = dlsym(library, "simcuda_used_bytes");
    *(void **)&driver.capacity_bytes = dlsym(library, "simcuda_capacity_bytes");
    *(void **)&driver.contexts = dlsym(library, "simcuda_contexts");
    *(void **)&driver.machine_devices = dlsym(library, "simcuda_machine_devices");
    *(void **)&driver.ordinal = dlsym(library, "simcuda_ordinal");
    *(void **)&driver.attribute = dlsym(library, "simcuda_attribute");
    *(void **)&driver.card_name = dlsym(library, "simcuda_card_name");
    *(void **)&driver.version = dlsym(library, "cuDriverGetVersion");
    dlclose(library);
    return driver.used_bytes && driver.capacity_bytes && driver.contexts && driver.machine_devices &&
           driver.ordinal && driver.attribute && driver.card_name && driver.version;
}

int nvml_attribute(int ordinal, int attribute)
{
    return driver.attribute(attribute, ordinal);
}

const char *nvml_card(void)
{
    return driver.card_name();
}

nvmlReturn_t nvml_check(nvmlDevice_t device, const void *out)
{
    int ordinal = NVML_ORDINAL(device);
    return !users                                                       ? NVML_UNINITIALIZED
           : !out || ordinal < 0 || ordinal >= driver.machine_devices() ? NVML_INVALID_ARGUMENT
                                                                        : NVML_SUCCESS;
}

nvmlReturn_t nvml_text(char *out, unsigned length, const char *text)
{
    if (!users)
        return NVML_UNINITIALIZED;
    if (!out)
        return NVML_INVALID_ARGUMENT;
    if (length <= strlen(text))
        return NVML_INSUFFICIENT_SIZE;
    strcpy(out, text);
    return NVML_SUCCESS;
}

/* ---- begin and end ---- */

nvmlReturn_t nvmlInit_v2(void)
{
    if (mode_is("off") || !find_driver())
        return NVML_DRIVER_NOT_LOADED;
    users++;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlInit(void)
{
    return nvmlInit_v2();
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

nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int *version)
{
    if (!version)
        return NVML_INVALID_ARGUMENT;
    return users && driver.version(version) == 0 ? NVML_SUCCESS : NVML_UNINITIALIZED;
}

nvmlReturn_t nvmlSystemGetCudaDriverVersion(int *version)
{
    return nvmlSystemGetCudaDriverVersion_v2(version);
}

const char *nvmlErrorString(nvmlReturn_t result)
{
    static const char *const texts[] = {[NVML_SUCCESS] = "Success",
                                        [NVML_UNINITIALIZED] = "Uninitialized",
                                        [NVML_INVALID_ARGUMENT] = "Invalid Argument",
                                        [NVML_NOT_SUPPORTED] = "Not Supported",
                                        [NVML_NOT_FOUND] = "Not Found",
                                        [NVML_INSUFFICIENT_SIZE] = "Insufficient Size",
                                        [NVML_DRIVER_NOT_LOADED] = "Driver Not Loaded"};
    const char *text = (unsigned)result < sizeof texts / sizeof *texts ? texts[result] : NULL;
    return text ? text : "Unknown Error";
}

/* ---- devices ---- */

nvmlReturn_t nvmlDeviceGetCount_v2(unsigned *count)
{
    if (!users)
        return NVML_UNINITIALIZED;
    if (!count)
        return NVML_INVALID_ARGUMENT;
    *count = (unsigned)driver.machine_devices();
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetCount(unsigned *count)
{
    return nvmlDeviceGetCount_v2(count);
}

nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t *device)
{
    if (!users)
        return NVML_UNINITIALIZED;
    if (!device || index >= (unsigned)driver.machine_devices())
        return NVML_INVALID_ARGUMENT;
    *device = (nvmlDevice_t)(uintptr_t)(index + 1);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetHandleByIndex(unsigned index, nvmlDevice_t *device)
{
    return nvmlDeviceGetHandleByIndex_v2(index, device);
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
    for (int i = 0; i < driver.machine_devices(); i++) {
        uuid_text(i, text);
        if (strcmp(text, uuid) == 0)
            return nvmlDeviceGetHandleByIndex_v2((unsigned)i, device);
    }
    return NVML_NOT_FOUND;
}

/* As cuDeviceGetPCIBusId writes them: device N is on bus N + 1. */
nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char *id, nvmlDevice_t *device)
{
    unsigned domain, bus, slot;
    if (!users)
        return NVML_UNINITIALIZED;
    if (!id || !device || sscanf(id, "%x:%x:%x", &domain, &bus, &slot) != 3)
        return NVML_INVALID_ARGUMENT;
    if (domain || slot || bus < 1 || bus > (unsigned)driver.machine_devices())
        return NVML_NOT_FOUND;
    return nvmlDeviceGetHandleByIndex_v2(bus - 1, device);
}

nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *uuid, unsigned length)
{
    nvmlReturn_t result = nvml_check(device, uuid);
    char text[48];
    if (result != NVML_SUCCESS)
        return result;
    uuid_text(NVML_ORDINAL(device), text);
    return nvml_text(uuid, length, text);
}

/* ---- memory ---- */

nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory)
{
    nvmlReturn_t result = nvml_check(device, memory);
    if (result != NVML_SUCCESS)
        return result;
    int ordinal = driver.ordinal(NVML_ORDINAL(device));
    memory->total = (unsigned long long)driver.capacity_bytes(0); /* all are alike */
    memory->used = ordinal < 0 ? 0 : (unsigned long long)driver.used_bytes(ordinal);
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
    nvmlReturn_t result = nvml_check(device, count);
    if (result != NVML_SUCCESS)
        return result;
    int ordinal = driver.ordinal(NVML_ORDINAL(device));
    if (mode_is("nopid") || ordinal < 0 || !driver.contexts(ordinal)) {
        *count = 0;
        return NVML_SUCCESS;
    }
    const char *delay = getenv("SIMCUDA_NVML_US");
    if (delay)
        usleep((useconds_t)strtoul(delay, NULL, 10));
    static _Atomic unsigned long long lists;
    unsigned long long used = (unsigned long long)driver.used_bytes(ordinal), part = ++lists << 20;
    if (mode_is("late") && lists < 8 && part < used)
        used = part;
    unsigned room = *count;
    *count = mode_is("crowd") ? 2 : 1;
    if (room < *count || !infos)
        return NVML_INSUFFICIENT_SIZE;
    infos[*count - 1] = (nvmlProcessInfo_t){.pid = 1, .gpuInstanceId = ~0u, .computeInstanceId = ~0u};
    infos[0] = (nvmlProcessInfo_t){.pid = (unsigned)getpid(),
                                   .usedGpuMemory = used,
                                   .gpuInstanceId = 0xffffffffu,
                                   .computeInstanceId = 0xffffffffu};
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v2(nvmlDevice_t device, unsigned *count,
                                                     nvmlProcessInfo_t *infos)
{
    return nvmlDeviceGetComputeRunningProcesses_v3(device, count, infos);
}

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses(nvmlDevice_t device, unsigned *count,
                                                  nvmlProcessInfo_t *infos)
{
    return nvmlDeviceGetComputeRunningProcesses_v3(device, count, infos);
}

/* Nothing draws. */
nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses_v3(nvmlDevice_t device, unsigned *count,
                                                      nvmlProcessInfo_t *infos)
{
    nvmlReturn_t result = nvml_check(device, count);
    if (result == NVML_SUCCESS)
        *count = 0;
    return result;
}
