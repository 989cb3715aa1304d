/*
 * device.c - cuInit, the simulated devices, and what is left of their memory.
 *
 *      SIMCUDA_CAPACITY=140GiB   memory of each (default: the card's); the host pays for what is touched
 *      SIMCUDA_BANNER=0          do not say at cuInit that there is no GPU
 *      SIMCUDA_SHUTDOWN=1        once exit runs what was registered before cuInit, most calls answer
 *                                CUDA_ERROR_DEINITIALIZED, as a real driver's do
 */
#define _GNU_SOURCE /* secure_getenv */
#include "sim.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct sim_device sim_devices[SIM_MAX_DEVICES];
int sim_device_count;
static volatile bool initialized;
static volatile bool gone;
/* 1 in the process that called cuInit; the kernel wipes it in every child with memory of its own, also after
 * a raw clone that runs no atfork handler. */
static volatile char *own_process;

int simcuda_version(void)
{
    return SIM_VERSION;
}

bool sim_initialized(void)
{
    return initialized;
}
bool sim_shut_down(void)
{
    return gone;
}
bool sim_forked(void)
{
    return initialized && own_process && !*own_process;
}
bool sim_valid_device(CUdevice device)
{
    return device >= 0 && device < sim_device_count;
}

long long simcuda_capacity_bytes(int device)
{
    return device >= 0 && device < simcuda_device_count()
               ? (long long)sim_env_bytes("SIMCUDA_CAPACITY", sim_card()->memory)
               : -1;
}

long long simcuda_used_bytes(int device)
{
    if (device < 0 || device >= simcuda_device_count())
        return -1;
    if (!initialized || sim_forked())
        return 0;
    sim_lock();
    long long used = (long long)sim_devices[device].used;
    sim_unlock();
    return used;
}

bool sim_charge(int device, uint64_t bytes)
{
    struct sim_device *d = &sim_devices[device];
    if (bytes > d->capacity - d->used)
        return false;
    d->used += bytes;
    return true;
}

void sim_uncharge(int device, uint64_t bytes)
{
    sim_devices[device].used -= bytes;
}

static void banner(void)
{
    static const char text[] = "simcuda: simulated CUDA driver, no GPU involved\n";
    const char *choice = getenv("SIMCUDA_BANNER");
    if (choice && strcmp(choice, "0") == 0)
        return;
    ssize_t written = write(STDERR_FILENO, text, sizeof text - 1);
    (void)written;
}

static void shut_down(void)
{
    gone = true;
}

static void initialize(void)
{
    sim_visible_fix();
    sim_device_count = simcuda_device_count();
    for (int i = 0; i < sim_device_count; i++) {
        sim_devices[i].capacity = (uint64_t)simcuda_capacity_bytes(i);
        sim_devices[i].primary = (struct sim_context){.device = i, .primary = true, .api_version = 3020};
    }
    sim_pools_init();
    void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page != MAP_FAILED && madvise(page, 4096, MADV_WIPEONFORK) == 0) {
        own_process = page;
        *own_process = 1;
    }
    banner();
    const char *ends = getenv("SIMCUDA_SHUTDOWN");
    if (ends && strcmp(ends, "1") == 0)
        atexit(shut_down);
    initialized = true;
}

/* Loads the library that CUDA_INJECTION64_PATH names and calls its InitializeInjection, as the driver does at
 * its start; one that cannot be loaded is passed over. */
static void inject(void)
{
    const char *path = secure_getenv("CUDA_INJECTION64_PATH");
    void *library = path && *path ? dlopen(path, RTLD_LAZY | RTLD_LOCAL) : NULL;
    int (*begin)(void) = library ? (int (*)(void))dlsym(library, "InitializeInjection") : NULL;
    if (begin)
        begin();
}

CUresult cuInit(unsigned int flags)
{
    SIM_CALL(SIM_NOTHING);
    if (flags)
        return CUDA_ERROR_INVALID_VALUE;
    if (sim_forked())
        return CUDA_ERROR_NOT_INITIALIZED;
    if (!initialized) {
        initialize();
        inject();
    }
    return sim_device_count ? CUDA_SUCCESS : CUDA_ERROR_NO_DEVICE;
}

CUresult cuDriverGetVersion(int *version)
{
    SIM_CALL(SIM_NOTHING);
    if (!version)
        return CUDA_ERROR_INVALID_VALUE;
    *version = SIM_CUDA;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
    SIM_CALL(SIM_INITIALIZED);
    if (!device)
        return CUDA_ERROR_INVALID_VALUE;
    if (!sim_valid_device(ordinal))
        return CUDA_ERROR_INVALID_DEVICE;
    *device = ordinal;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetCount(int *count)
{
    SIM_CALL(SIM_INITIALIZED);
    if (!count)
        return CUDA_ERROR_INVALID_VALUE;
    *count = sim_device_count;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetName(char *name, int length, CUdevice device)
{
    SIM_CALL(SIM_INITIALIZED);
    if (!name || length <= 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (!sim_valid_device(device))
        return CUDA_ERROR_INVALID_DEVICE;
    if (sim_card_is_real())
        snprintf(name, (size_t)length, "%s", sim_card()->name);
    else
        snprintf(name, (size_t)length, "%s %d", sim_card()->name, device);
    return CUDA_SUCCESS;
}

static CUresult device_uuid(CUuuid *uuid, CUdevice device)
{
    if (!uuid)
        return CUDA_ERROR_INVALID_VALUE;
    if (!sim_valid_device(device))
        return CUDA_ERROR_INVALID_DEVICE;
    memcpy(uuid->bytes, "simcuda-device-0", sizeof uuid->bytes);
    uuid->bytes[15] = (char)('a' + sim_physical(device));
    return CUDA_SUCCESS;
}

SIM_SAME(cuDeviceGetUuid, cuDeviceGetUuid_v2, SIM_INITIALIZED, (CUuuid * uuid, CUdevice device),
         device_uuid(uuid, device))

CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device)
{
    SIM_CALL(SIM_INITIALIZED);
    if (!bytes)
        return CUDA_ERROR_INVALID_VALUE;
    if (!sim_valid_device(device))
        return CUDA_ERROR_INVALID_DEVICE;
    *bytes = sim_devices[device].capacity;
    return CUDA_SUCCESS;
}

CUresult cuDeviceTotalMem(unsigned int *bytes, CUdevice device)
{
    SIM_CALL(SIM_INITIALIZED);
    if (!bytes)
        return CUDA_ERROR_INVALID_VALUE;
    if (!sim_valid_device(device))
        return CUDA_ERROR_INVALID_DEVICE;
    uint64_t capacity = sim_devices[device].capacity;
    *bytes = capacity > UINT32_MAX ? UINT32_MAX : (unsigned)capacity;
    return CUDA_SUCCESS;
}

CUresult cuDeviceComputeCapability(int *major, int *minor, CUdevice device)
{
    SIM_CALL(SIM_INITIALIZED);
    if (!major || !minor)
        return CUDA_ERROR_INVALID_VALUE;
    if (!sim_valid_device(device))
        return CUDA_ERROR_INVALID_DEVICE;
    *major = sim_card()->capability / 10;
    *minor = sim_card()->capability % 10;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetPCIBusId(char *id, int length, CUdevice device)
{
    SIM_CALL(SIM_INITIALIZED);
    if (!id || length < 13)
        return CUDA_ERROR_INVALID_VALUE;
    if (!sim_valid_device(device))
        return CUDA_ERROR_INVALID_DEVICE;
    snprintf(id, (size_t)length, "0000:%02X:00.0", sim_physical(device) + 1);
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetByPCIBusId(CUdevice *device, const char *id)
{
    SIM_CALL(SIM_INITIALIZED);
    unsigned domain, bus, slot;
    if (!device || !id || sscanf(id, "%x:%x:%x", &domain, &bus, &slot) != 3)
        return CUDA_ERROR_INVALID_VALUE;
    int ordinal = domain || slot ? -1 : simcuda_ordinal((int)bus - 1);
    if (ordinal < 0)
        return CUDA_ERROR_INVALID_DEVICE;
    *device = ordinal;
    return CUDA_SUCCESS;
}

CUresult cuDeviceCanAccessPeer(int *can, CUdevice device, CUdevice peer)
{
    SIM_CALL(SIM_INITIALIZED);
    if (!can)
        return CUDA_ERROR_INVALID_VALUE;
    if (!sim_valid_device(device) || !sim_valid_device(peer))
        return CUDA_ERROR_INVALID_DEVICE;
    *can = device != peer;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetP2PAttribute(int *value, CUdevice_P2PAttribute attribute, CUdevice device, CUdevice peer)
{
    SIM_CALL(SIM_INITIALIZED);
    if (!value)
        return CUDA_ERROR_INVALID_VALUE;
    if (!sim_valid_device(device) || !sim_valid_device(peer) || device == peer)
        return CUDA_ERROR_INVALID_DEVICE;
    *value = attribute != CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK;
    return CUDA_SUCCESS;
}

/* Locally unique ids are Windows'. */
CUresult cuDeviceGetLuid(char *luid, unsigned int *nodes, CUdevice device)
{
    SIM_CALL(SIM_INITIALIZED);
    return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult cuDeviceGetExecAffinitySupport(int *supported, CUexecAffinityType type, CUdevice device)
{
    SIM_CALL(SIM_INITIALIZED);
    if (!supported)
        return CUDA_ERROR_INVALID_VALUE;
    *supported = 0;
    return sim_valid_device(device) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}
