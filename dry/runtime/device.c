/*
 * device.c - devices, and the context of the calling thread: the program's own where it made one current,
 * else the device's primary one.  The first call that needs that, or cudaSetDevice, makes it; it is held to
 * the end, or to cudaDeviceReset.
 */
#include "runtime.h"

#include <pthread.h>

#define DEVICES 64

static _Thread_local int selected;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static CUcontext primary[DEVICES]; /* each that was ever retained */
static bool retained[DEVICES];     /* ... and not reset since */
static bool was_reset, begun;

cudaError_t rt_begin(void)
{
    if (__atomic_load_n(&begun, __ATOMIC_RELAXED))
        return cudaSuccess;
    if (!rt_driver_there())
        return cudaErrorInsufficientDriver;
    CUresult result = DRIVER(cuInit)(0);
    if (result == CUDA_SUCCESS)
        __atomic_store_n(&begun, true, __ATOMIC_RELAXED);
    return (cudaError_t)result;
}

cudaError_t rt_device(int device, CUcontext *out)
{
    int count = 0;
    CUresult result = DRIVER(cuDeviceGetCount)(&count);
    if (result != CUDA_SUCCESS)
        return (cudaError_t)result;
    if (device < 0 || device >= count || device >= DEVICES)
        return count ? cudaErrorInvalidDevice : cudaErrorNoDevice;
    pthread_mutex_lock(&mutex);
    if (!retained[device])
        result = DRIVER(cuDevicePrimaryCtxRetain)(&primary[device], device);
    retained[device] = result == CUDA_SUCCESS;
    *out = primary[device];
    pthread_mutex_unlock(&mutex);
    return (cudaError_t)result;
}

static cudaError_t use(int device)
{
    CUcontext context;
    cudaError_t error = rt_device(device, &context);
    return error ? error : (cudaError_t)DRIVER(cuCtxSetCurrent)(context);
}

/* Of the device whose primary context CONTEXT was before a reset; -1: it is none such. */
static int reset_device(CUcontext context)
{
    int device = -1;
    if (!__atomic_load_n(&was_reset, __ATOMIC_ACQUIRE))
        return device;
    pthread_mutex_lock(&mutex);
    for (int i = 0; i < DEVICES; i++)
        if (!retained[i] && primary[i] == context)
            device = i;
    pthread_mutex_unlock(&mutex);
    return device;
}

cudaError_t rt_enter(void)
{
    CUcontext context = NULL;
    cudaError_t error = rt_begin();
    if (error == cudaSuccess)
        error = (cudaError_t)DRIVER(cuCtxGetCurrent)(&context);
    if (error != cudaSuccess)
        return error;
    int device = context ? reset_device(context) : selected;
    return device < 0 ? cudaSuccess : use(device);
}

int rt_current_device(void)
{
    CUcontext context = NULL;
    CUdevice device;
    DRIVER(cuCtxGetCurrent)(&context);
    return context && DRIVER(cuCtxGetDevice)(&device) == CUDA_SUCCESS ? device : selected;
}

DRY_API cudaError_t CUDARTAPI cudaGetDeviceCount(int *count)
{
    RT_CALL(rt_begin);
    CUresult result = DRIVER(cuDeviceGetCount)(count);
    return rt_done(result == CUDA_SUCCESS && *count == 0 ? CUDA_ERROR_NO_DEVICE : result);
}

DRY_API cudaError_t CUDARTAPI cudaGetDevice(int *device)
{
    RT_CALL(rt_begin);
    if (!device)
        return rt_failed(cudaErrorInvalidValue);
    *device = rt_current_device();
    return cudaSuccess;
}

DRY_API cudaError_t CUDARTAPI cudaSetDevice(int device)
{
    RT_CALL(rt_begin);
    cudaError_t error = use(device);
    if (error == cudaSuccess)
        selected = device;
    return rt_failed(error);
}

DRY_API cudaError_t CUDARTAPI cudaInitDevice(int device, unsigned int deviceFlags, unsigned int flags)
{
    RT_CALL(rt_begin);
    CUcontext context;
    CUresult result = CUDA_SUCCESS;
    if (flags & cudaInitDeviceFlagsAreValid)
        result = DRIVER(cuDevicePrimaryCtxSetFlags)(device, deviceFlags);
    return result == CUDA_SUCCESS ? rt_failed(rt_device(device, &context)) : rt_done(result);
}

DRY_API cudaError_t CUDARTAPI cudaSetDeviceFlags(unsigned int flags)
{
    RT_CALL(rt_begin);
    return rt_done(DRIVER(cuDevicePrimaryCtxSetFlags)(rt_current_device(), flags));
}

DRY_API cudaError_t CUDARTAPI cudaGetDeviceFlags(unsigned int *flags)
{
    RT_CALL(rt_begin);
    int active;
    return rt_done(DRIVER(cuDevicePrimaryCtxGetState)(rt_current_device(), flags, &active));
}

DRY_API cudaError_t CUDARTAPI cudaDeviceReset(void)
{
    RT_CALL(rt_begin);
    int device = rt_current_device();
    pthread_mutex_lock(&mutex);
    CUresult result = DRIVER(cuDevicePrimaryCtxReset)(device);
    if (result == CUDA_SUCCESS && device < DEVICES)
        retained[device] = false;
    __atomic_store_n(&was_reset, true, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&mutex);
    return rt_done(result);
}

static cudaError_t peer(int device, unsigned int flags, bool enable)
{
    CUcontext context;
    cudaError_t error = rt_device(device, &context);
    if (error != cudaSuccess)
        return rt_failed(error);
    return rt_done(enable ? DRIVER(cuCtxEnablePeerAccess)(context, flags)
                          : DRIVER(cuCtxDisablePeerAccess)(context));
}

DRY_API cudaError_t CUDARTAPI cudaDeviceEnablePeerAccess(int peerDevice, unsigned int flags)
{
    RT_CALL(rt_enter);
    return peer(peerDevice, flags, true);
}

DRY_API cudaError_t CUDARTAPI cudaDeviceDisablePeerAccess(int peerDevice)
{
    RT_CALL(rt_enter);
    return peer(peerDevice, 0, false);
}

DRY_API cudaError_t CUDARTAPI cudaRuntimeGetVersion(int *runtimeVersion)
{
    if (!runtimeVersion)
        return rt_failed(cudaErrorInvalidValue);
    *runtimeVersion = RT_VERSION;
    return cudaSuccess;
}

/* A driver that is not there has version 0, which is no error. */
DRY_API cudaError_t CUDARTAPI cudaDriverGetVersion(int *driverVersion)
{
    if (!driverVersion)
        return rt_failed(cudaErrorInvalidValue);
    *driverVersion = 0;
    return rt_driver_there() ? rt_done(DRIVER(cuDriverGetVersion)(driverVersion)) : cudaSuccess;
}
