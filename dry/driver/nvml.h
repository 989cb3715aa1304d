/*
 * nvml.h - NVML's types and numbers, as far as the simulated one has them: nvml.c and nvml_facts.c.
 */
#ifndef DRY_DRIVER_NVML_H
#define DRY_DRIVER_NVML_H

#include <stdbool.h>
#include <stdint.h>

typedef enum {
    NVML_SUCCESS = 0,
    NVML_UNINITIALIZED = 1,
    NVML_INVALID_ARGUMENT = 2,
    NVML_NOT_SUPPORTED = 3,
    NVML_NOT_FOUND = 6,
    NVML_INSUFFICIENT_SIZE = 7,
    NVML_DRIVER_NOT_LOADED = 9
} nvmlReturn_t;
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
typedef struct {
    char busIdLegacy[16];
    unsigned domain, bus, device, pciDeviceId, pciSubSystemId;
    char busId[32];
} nvmlPciInfo_t;
typedef struct {
    unsigned gpu, memory;
} nvmlUtilization_t;
typedef struct {
    unsigned char clusterUuid[16];
    nvmlReturn_t status;
    unsigned cliqueId;
    unsigned char state;
} nvmlGpuFabricInfo_t;
typedef struct {
    unsigned version;
    unsigned char clusterUuid[16];
    nvmlReturn_t status;
    unsigned cliqueId;
    unsigned char state;
    unsigned healthMask;
} nvmlGpuFabricInfoV_t;

/* The rows of functions: NVML(name, parameters) */
#define NVML_FUNCTIONS(NVML)                                                                                 \
    NVML(nvmlInit, (void))                                                                                   \
    NVML(nvmlInit_v2, (void))                                                                                \
    NVML(nvmlInitWithFlags, (unsigned))                                                                      \
    NVML(nvmlShutdown, (void))                                                                               \
    NVML(nvmlSystemGetDriverVersion, (char *, unsigned))                                                     \
    NVML(nvmlSystemGetNVMLVersion, (char *, unsigned))                                                       \
    NVML(nvmlSystemGetCudaDriverVersion, (int *))                                                            \
    NVML(nvmlSystemGetCudaDriverVersion_v2, (int *))                                                         \
    NVML(nvmlDeviceGetCount, (unsigned *))                                                                   \
    NVML(nvmlDeviceGetCount_v2, (unsigned *))                                                                \
    NVML(nvmlDeviceGetHandleByIndex, (unsigned, nvmlDevice_t *))                                             \
    NVML(nvmlDeviceGetHandleByIndex_v2, (unsigned, nvmlDevice_t *))                                          \
    NVML(nvmlDeviceGetHandleByUUID, (const char *, nvmlDevice_t *))                                          \
    NVML(nvmlDeviceGetHandleByPciBusId_v2, (const char *, nvmlDevice_t *))                                   \
    NVML(nvmlDeviceGetUUID, (nvmlDevice_t, char *, unsigned))                                                \
    NVML(nvmlDeviceGetName, (nvmlDevice_t, char *, unsigned))                                                \
    NVML(nvmlDeviceGetIndex, (nvmlDevice_t, unsigned *))                                                     \
    NVML(nvmlDeviceGetMinorNumber, (nvmlDevice_t, unsigned *))                                               \
    NVML(nvmlDeviceGetPciInfo_v3, (nvmlDevice_t, nvmlPciInfo_t *))                                           \
    NVML(nvmlDeviceGetMemoryInfo, (nvmlDevice_t, nvmlMemory_t *))                                            \
    NVML(nvmlDeviceGetMemoryInfo_v2, (nvmlDevice_t, nvmlMemory_v2_t *))                                      \
    NVML(nvmlDeviceGetComputeRunningProcesses, (nvmlDevice_t, unsigned *, nvmlProcessInfo_t *))              \
    NVML(nvmlDeviceGetComputeRunningProcesses_v2, (nvmlDevice_t, unsigned *, nvmlProcessInfo_t *))           \
    NVML(nvmlDeviceGetComputeRunningProcesses_v3, (nvmlDevice_t, unsigned *, nvmlProcessInfo_t *))           \
    NVML(nvmlDeviceGetGraphicsRunningProcesses_v3, (nvmlDevice_t, unsigned *, nvmlProcessInfo_t *))          \
    NVML(nvmlDeviceGetCudaComputeCapability, (nvmlDevice_t, int *, int *))                                   \
    NVML(nvmlDeviceGetUtilizationRates, (nvmlDevice_t, nvmlUtilization_t *))                                 \
    NVML(nvmlDeviceGetMemoryBusWidth, (nvmlDevice_t, unsigned *))                                            \
    NVML(nvmlDeviceGetClockInfo, (nvmlDevice_t, int, unsigned *))                                            \
    NVML(nvmlDeviceGetMaxClockInfo, (nvmlDevice_t, int, unsigned *))                                         \
    NVML(nvmlDeviceGetComputeMode, (nvmlDevice_t, unsigned *))                                               \
    NVML(nvmlDeviceGetMigMode, (nvmlDevice_t, unsigned *, unsigned *))                                       \
    NVML(nvmlDeviceGetNvLinkState, (nvmlDevice_t, unsigned, unsigned *))                                     \
    NVML(nvmlDeviceGetNvLinkVersion, (nvmlDevice_t, unsigned, unsigned *))                                   \
    NVML(nvmlDeviceGetNvLinkCapability, (nvmlDevice_t, unsigned, int, unsigned *))                           \
    NVML(nvmlDeviceGetNvLinkRemoteDeviceType, (nvmlDevice_t, unsigned, unsigned *))                          \
    NVML(nvmlDeviceGetNvLinkRemotePciInfo_v2, (nvmlDevice_t, unsigned, nvmlPciInfo_t *))                     \
    NVML(nvmlDeviceGetP2PStatus, (nvmlDevice_t, nvmlDevice_t, int, unsigned *))                              \
    NVML(nvmlDeviceGetGpuFabricInfo, (nvmlDevice_t, nvmlGpuFabricInfo_t *))                                  \
    NVML(nvmlDeviceGetGpuFabricInfoV, (nvmlDevice_t, nvmlGpuFabricInfoV_t *))

#define NVML(name, parameters) extern __attribute__((visibility("default"))) nvmlReturn_t name parameters;
NVML_FUNCTIONS(NVML)
#undef NVML
extern __attribute__((visibility("default"))) const char *nvmlErrorString(nvmlReturn_t result);

/* nvml.c, for nvml_facts.c */
#define NVML_ORDINAL(device) ((int)(uintptr_t)(device)-1)
nvmlReturn_t nvml_check(nvmlDevice_t device, const void *out); /* OUT may not be NULL */
nvmlReturn_t nvml_text(char *out, unsigned length, const char *text);
int nvml_attribute(int ordinal, int attribute); /* a CUdevice_attribute */
const char *nvml_card(void);

#endif
