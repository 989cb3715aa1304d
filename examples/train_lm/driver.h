/*
 * driver.h - the few functions of the CUDA driver that the example calls, looked up in libcuda.so.1 at run
 * time: the program links to nothing of CUDA, starts without a driver, and says so.
 */
#ifndef EXAMPLES_TRAIN_LM_DRIVER_H
#define EXAMPLES_TRAIN_LM_DRIVER_H

#include <stdbool.h>
#include <stddef.h>
#include <cuda.h>

#define CU_FUNCTIONS(X)                                                                                      \
    X(cuInit, init, (unsigned int flags))                                                                    \
    X(cuGetErrorName, error_name, (CUresult status, const char **name))                                      \
    X(cuDeviceGet, device_get, (CUdevice * device, int ordinal))                                             \
    X(cuDeviceGetName, device_name, (char *name, int length, CUdevice device))                               \
    X(cuDevicePrimaryCtxRetain, context_retain, (CUcontext * context, CUdevice device))                      \
    X(cuDevicePrimaryCtxRelease_v2, context_release, (CUdevice device))                                      \
    X(cuCtxSetCurrent, context_set, (CUcontext context))                                                     \
    X(cuCtxSynchronize, synchronize, (void))                                                                 \
    X(cuMemAlloc_v2, mem_alloc, (CUdeviceptr * address, size_t size))                                        \
    X(cuMemFree_v2, mem_free, (CUdeviceptr address))                                                         \
    X(cuMemcpyHtoD_v2, copy_in, (CUdeviceptr to, const void *from, size_t size))                             \
    X(cuMemcpyDtoH_v2, copy_out, (void *to, CUdeviceptr from, size_t size))                                  \
    X(cuMemsetD8_v2, fill, (CUdeviceptr to, unsigned char value, size_t size))

/* Only a real GPU needs these: a driver without them can still serve the CPU back end. */
#define CU_KERNEL_FUNCTIONS(X)                                                                               \
    X(cuModuleLoadData, module_load, (CUmodule * module, const void *image))                                 \
    X(cuModuleUnload, module_unload, (CUmodule module))                                                      \
    X(cuModuleGetFunction, module_function, (CUfunction * function, CUmodule module, const char *name))      \
    X(cuLaunchKernel, launch,                                                                                \
      (CUfunction function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,                   \
       unsigned int block_x, unsigned int block_y, unsigned int block_z, unsigned int shared,                \
       CUstream stream, void **arguments, void **extra))

struct driver {
#define X(name, field, parameters) CUresult(*field) parameters;
    CU_FUNCTIONS(X)
    CU_KERNEL_FUNCTIONS(X)
#undef X
    CUdevice device;
    CUcontext context;
    char name[128];
    bool simulated; /* device memory is host memory: compute on the CPU */
};

/* Opens the driver and the first device.  On failure says why in one line and returns false. */
bool driver_open(struct driver *cu);
void driver_close(struct driver *cu);

/* Ends the program with one line where STATUS is an error; WHAT names the call and what it was for. */
void driver_check(const struct driver *cu, CUresult status, const char *what);

/* Device memory for COUNT floats.  WHAT is named when there is not enough. */
CUdeviceptr driver_floats(const struct driver *cu, size_t count, const char *what);
/* The same for any bytes. */
CUdeviceptr driver_bytes(const struct driver *cu, size_t size, const char *what);
/* Frees *ADDRESS and clears it; 0 is nothing to free. */
void driver_free(const struct driver *cu, CUdeviceptr *address);

#endif
