/*
 * nvml_facts.c - what NVML says of a card and its neighbours that does not change in a process.  What needs a
 * GPU (temperature, power, errors) is not there.
 */
#include "nvml.h"

#include <cuda.h>
#include <stdio.h>
#include <string.h>

#define DRIVER "580.95.05"

static int attribute(nvmlDevice_t device, CUdevice_attribute which)
{
    return nvml_attribute(0, (int)which); /* all are alike */
}

nvmlReturn_t nvmlSystemGetDriverVersion(char *out, unsigned length)
{
    return nvml_text(out, length, DRIVER);
}

nvmlReturn_t nvmlSystemGetNVMLVersion(char *out, unsigned length)
{
    return nvml_text(out, length, "13." DRIVER);
}

nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char *out, unsigned length)
{
    nvmlReturn_t result = nvml_check(device, out);
    return result == NVML_SUCCESS ? nvml_text(out, length, nvml_card()) : result;
}

nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t *info)
{
    nvmlReturn_t result = nvml_check(device, info);
    if (result != NVML_SUCCESS)
        return result;
    unsigned bus = (unsigned)NVML_ORDINAL(device) + 1;
    *info = (nvmlPciInfo_t){
        .bus = bus, .pciDeviceId = (unsigned)attribute(device, CU_DEVICE_ATTRIBUTE_GPU_PCI_DEVICE_ID)};
    snprintf(info->busIdLegacy, sizeof info->busIdLegacy, "0000:%02X:00.0", bus);
    snprintf(info->busId, sizeof info->busId, "00000000:%02X:00.0", bus);
    return NVML_SUCCESS;
}

/* One word that VALUE says of DEVICE. */
#define WORD(name, value)                                                                                    \
    nvmlReturn_t name(nvmlDevice_t device, unsigned *out)                                                    \
    {                                                                                                        \
        nvmlReturn_t result = nvml_check(device, out);                                                       \
        if (result == NVML_SUCCESS)                                                                          \
            *out = (unsigned)(value);                                                                        \
        return result;                                                                                       \
    }
WORD(nvmlDeviceGetIndex, NVML_ORDINAL(device))
WORD(nvmlDeviceGetMinorNumber, NVML_ORDINAL(device))
WORD(nvmlDeviceGetMemoryBusWidth, attribute(device, CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH))
WORD(nvmlDeviceGetComputeMode, attribute(device, CU_DEVICE_ATTRIBUTE_COMPUTE_MODE))

nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int *major, int *minor)
{
    nvmlReturn_t result = minor ? nvml_check(device, major) : NVML_INVALID_ARGUMENT;
    if (result != NVML_SUCCESS)
        return result;
    *major = attribute(device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
    *minor = attribute(device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
    return NVML_SUCCESS;
}

/* Nothing is computed. */
nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t *rates)
{
    nvmlReturn_t result = nvml_check(device, rates);
    if (result == NVML_SUCCESS)
        *rates = (nvmlUtilization_t){0, 0};
    return result;
}

/* In MHz; 2 is memory's clock. */
nvmlReturn_t nvmlDeviceGetMaxClockInfo(nvmlDevice_t device, int type, unsigned *clock)
{
    nvmlReturn_t result = nvml_check(device, clock);
    if (result == NVML_SUCCESS)
        *clock = (unsigned)attribute(device, type == 2 ? CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE
                                                       : CU_DEVICE_ATTRIBUTE_CLOCK_RATE) /
                 1000;
    return result;
}

nvmlReturn_t nvmlDeviceGetClockInfo(nvmlDevice_t device, int type, unsigned *clock)
{
    return nvmlDeviceGetMaxClockInfo(device, type, clock);
}

/* No card is cut into instances. */
nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned *current, unsigned *pending)
{
    nvmlReturn_t result = pending ? nvml_check(device, current) : NVML_INVALID_ARGUMENT;
    if (result == NVML_SUCCESS)
        *current = *pending = 0;
    return result;
}

/* ---- neighbours ---- */

enum { LINK_TO_SWITCH = 2, STATE_NOT_SUPPORTED = 0, LINKS_OF_9 = 18, LINKS_OF_8 = 12 };

/* The cards with HBM that have several in a machine are joined by switches; LINK counts from 0. */
static nvmlReturn_t check_link(nvmlDevice_t device, unsigned link, const void *out)
{
    nvmlReturn_t result = nvml_check(device, out);
    if (result != NVML_SUCCESS)
        return result;
    int major = attribute(device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
    bool linked = attribute(device, CU_DEVICE_ATTRIBUTE_ECC_ENABLED) && major >= 8;
    unsigned links = !linked ? 0 : major >= 9 ? LINKS_OF_9 : LINKS_OF_8;
    return link < links ? NVML_SUCCESS : links ? NVML_INVALID_ARGUMENT : NVML_NOT_SUPPORTED;
}

#define LINK(name, value)                                                                                    \
    nvmlReturn_t name(nvmlDevice_t device, unsigned link, unsigned *out)                                     \
    {                                                                                                        \
        nvmlReturn_t result = check_link(device, link, out);                                                 \
        if (result == NVML_SUCCESS)                                                                          \
            *out = (unsigned)(value);                                                                        \
        return result;                                                                                       \
    }
LINK(nvmlDeviceGetNvLinkState, 1)
LINK(nvmlDeviceGetNvLinkVersion, attribute(device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) >= 9 ? 5 : 4)
LINK(nvmlDeviceGetNvLinkRemoteDeviceType, LINK_TO_SWITCH)

nvmlReturn_t nvmlDeviceGetNvLinkCapability(nvmlDevice_t device, unsigned link, int capability, unsigned *has)
{
    nvmlReturn_t result = check_link(device, link, has);
    if (result == NVML_SUCCESS)
        *has = 1;
    return result;
}

/* The same switch at the end of every link. */
nvmlReturn_t nvmlDeviceGetNvLinkRemotePciInfo_v2(nvmlDevice_t device, unsigned link, nvmlPciInfo_t *info)
{
    nvmlReturn_t result = check_link(device, link, info);
    if (result != NVML_SUCCESS)
        return result;
    *info = (nvmlPciInfo_t){.bus = 0x80};
    strcpy(info->busIdLegacy, "0000:80:00.0");
    strcpy(info->busId, "00000000:80:00.0");
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetP2PStatus(nvmlDevice_t device, nvmlDevice_t peer, int index, unsigned *status)
{
    nvmlReturn_t result = nvml_check(device, status);
    if (result == NVML_SUCCESS)
        result = nvml_check(peer, status);
    if (result == NVML_SUCCESS)
        *status = 0; /* it works */
    return result;
}

/* No machine's fabric reaches further than the machine. */
nvmlReturn_t nvmlDeviceGetGpuFabricInfo(nvmlDevice_t device, nvmlGpuFabricInfo_t *info)
{
    nvmlReturn_t result = nvml_check(device, info);
    if (result == NVML_SUCCESS)
        *info = (nvmlGpuFabricInfo_t){.state = STATE_NOT_SUPPORTED};
    return result;
}

nvmlReturn_t nvmlDeviceGetGpuFabricInfoV(nvmlDevice_t device, nvmlGpuFabricInfoV_t *info)
{
    nvmlReturn_t result = nvml_check(device, info);
    if (result == NVML_SUCCESS)
        *info = (nvmlGpuFabricInfoV_t){.version = info->version, .state = STATE_NOT_SUPPORTED};
    return result;
}
