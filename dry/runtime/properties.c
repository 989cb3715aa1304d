/*
 * properties.c - cudaGetDeviceProperties: each field is an attribute of the driver's.
 */
#include "runtime.h"

#include <string.h>

#if DRY_CUDART == 12 /* CUDA 13 took eight fields out and put seven in */
struct properties12 {
    char name[256];
    char uuid[16], luid[8];
    unsigned luidDeviceNodeMask;
    size_t totalGlobalMem, sharedMemPerBlock;
    int regsPerBlock, warpSize;
    size_t memPitch;
    int maxThreadsPerBlock, maxThreadsDim[3], maxGridSize[3], clockRate;
    size_t totalConstMem;
    int major, minor;
    size_t textureAlignment, texturePitchAlignment;
    int deviceOverlap, multiProcessorCount, kernelExecTimeoutEnabled, integrated, canMapHostMemory,
        computeMode;
    int maxTexture1D, maxTexture1DMipmap, maxTexture1DLinear;
    int maxTexture2D[2], maxTexture2DMipmap[2], maxTexture2DLinear[3], maxTexture2DGather[2];
    int maxTexture3D[3], maxTexture3DAlt[3], maxTextureCubemap;
    int maxTexture1DLayered[2], maxTexture2DLayered[3], maxTextureCubemapLayered[2];
    int maxSurface1D, maxSurface2D[2], maxSurface3D[3];
    int maxSurface1DLayered[2], maxSurface2DLayered[3], maxSurfaceCubemap, maxSurfaceCubemapLayered[2];
    size_t surfaceAlignment;
    int concurrentKernels, ECCEnabled, pciBusID, pciDeviceID, pciDomainID, tccDriver, asyncEngineCount;
    int unifiedAddressing, memoryClockRate, memoryBusWidth, l2CacheSize, persistingL2CacheMaxSize;
    int maxThreadsPerMultiProcessor, streamPrioritiesSupported, globalL1CacheSupported, localL1CacheSupported;
    size_t sharedMemPerMultiprocessor;
    int regsPerMultiprocessor, managedMemory, isMultiGpuBoard, multiGpuBoardGroupID;
    int hostNativeAtomicSupported, singleToDoublePrecisionPerfRatio, pageableMemoryAccess;
    int concurrentManagedAccess, computePreemptionSupported, canUseHostPointerForRegisteredMem;
    int cooperativeLaunch, cooperativeMultiDeviceLaunch;
    size_t sharedMemPerBlockOptin;
    int pageableMemoryAccessUsesHostPageTables, directManagedMemAccessFromHost;
    int maxBlocksPerMultiProcessor, accessPolicyMaxWindowSize;
    size_t reservedSharedMemPerBlock;
    int hostRegisterSupported, sparseCudaArraySupported, hostRegisterReadOnlySupported;
    int timelineSemaphoreInteropSupported, memoryPoolsSupported, gpuDirectRDMASupported;
    unsigned gpuDirectRDMAFlushWritesOptions;
    int gpuDirectRDMAWritesOrdering;
    unsigned memoryPoolSupportedHandleTypes;
    int deferredMappingCudaArraySupported, ipcEventSupported, clusterLaunch, unifiedFunctionPointers;
    int reserved[63];
};
_Static_assert(sizeof(struct properties12) == 1032, "as programs of CUDA 12 allocate it");
typedef struct properties12 properties;
#define NEW(field, attribute)
#define OLD P
#else
typedef struct cudaDeviceProp properties;
#define NEW P
#define OLD(field, attribute)
#endif

static const struct {
    unsigned short offset, attribute;
} fields[] = {
#define P(field, attribute) {offsetof(properties, field), CU_DEVICE_ATTRIBUTE_##attribute},
#include "properties.def"
#undef P
};

DRY_API cudaError_t CUDARTAPI cudaGetDeviceProperties(struct cudaDeviceProp *prop, int device)
{
    RT_CALL(rt_begin);
    properties *out = (void *)prop;
    if (!out)
        return rt_failed(cudaErrorInvalidValue);
    memset(out, 0, sizeof *out);
    CUresult result = DRIVER(cuDeviceGetName)(out->name, sizeof out->name, device);
    if (result == CUDA_SUCCESS)
        result = DRIVER(cuDeviceGetUuid)((CUuuid *)&out->uuid, device);
    if (result == CUDA_SUCCESS)
        result = DRIVER(cuDeviceTotalMem)(&out->totalGlobalMem, device);
    for (size_t i = 0; i < sizeof fields / sizeof *fields && result == CUDA_SUCCESS; i++) {
        int value = 0;
        result = DRIVER(cuDeviceGetAttribute)(&value, (CUdevice_attribute)fields[i].attribute, device);
        memcpy((char *)out + fields[i].offset, &value, sizeof value); /* its other bytes are 0 */
    }
    return rt_done(result);
}
