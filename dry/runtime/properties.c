/*
 * properties.c - cudaGetDeviceProperties: each field is an attribute of the driver's.
 */
#include "runtime.h"

#include <string.h>

#if DRY_CUDART == 12
#include "properties12.h"
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
