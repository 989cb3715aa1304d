/*
 * real_cudart.c - a CUDA runtime, and the driver's functions for mapping, without a device: memory is
 * addresses, which are drawn, so that no order of them follows from the order of calls.  Each call that takes
 * or gives memory is a line of the output (real_replay.c reads it).
 *
 * real.sh adds what else PyTorch's library wants of these, and of NVML: functions that answer 0.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define MEMORY   (UINT64_C(140) << 30)
#define SEGMENTS (UINT64_C(1) << 44) /* each a place of 4 GiB */
#define RANGES   (UINT64_C(1) << 61) /* each a place of 1 TiB */
#define PLACES   65536

static uint8_t taken[PLACES];

static uint64_t draw(void)
{
    uint32_t place;
    do
        place = (uint32_t)random() % PLACES;
    while (taken[place]);
    taken[place] = 1;
    return place;
}

int cudaMalloc(void **p, size_t size)
{
    uint64_t address = SEGMENTS + (draw() << 32);
    *p = (void *)(uintptr_t)address;
    printf("segment %llu %zu\n", (unsigned long long)address, size);
    return 0;
}
int cudaFree(void *p)
{
    printf("gone\n");
    taken[((uint64_t)(uintptr_t)p - SEGMENTS) >> 32] = 0;
    return 0;
}
int cudaGetDevice(int *device)
{
    return *device = 0;
}
int cudaGetDeviceCount(int *count)
{
    *count = 1;
    return 0;
}
int cudaMemGetInfo(size_t *free, size_t *all)
{
    *free = *all = MEMORY;
    return 0;
}
/* Behind a name, an identifier and the like of 288 bytes the properties begin with the memory. */
int cudaGetDeviceProperties(uint64_t *properties, int device)
{
    (void)device;
    properties[36] = MEMORY;
    return 0;
}
int cudaGetDeviceProperties_v2(uint64_t *properties, int device)
{
    return cudaGetDeviceProperties(properties, device);
}
int cudaStreamIsCapturing(void *stream, int *status)
{
    (void)stream;
    return *status = 0;
}
const char *cudaGetErrorString(int error)
{
    (void)error;
    return "";
}

/* ---- the driver ---- */

int cuMemAddressReserve(uint64_t *address, size_t size, size_t alignment, uint64_t at, uint64_t flags)
{
    (void)alignment, (void)at, (void)flags;
    *address = RANGES + (draw() << 40);
    printf("range %llu %zu\n", (unsigned long long)*address, size);
    return 0;
}
int cuDeviceGetAttribute(int *value, int which, int device)
{
    (void)which, (void)device;
    *value = 1;
    return 0;
}
int cudaGetDriverEntryPoint(const char *name, void **function, uint64_t flags, int *status)
{
    (void)flags;
    if (status)
        *status = 0;
    *function = dlsym(RTLD_DEFAULT, name);
    return 0;
}
int cudaGetDriverEntryPointByVersion(const char *name, void **function, unsigned version, uint64_t flags,
                                     int *status)
{
    (void)version;
    return cudaGetDriverEntryPoint(name, function, flags, status);
}
