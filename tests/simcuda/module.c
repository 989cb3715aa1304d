/*
 * module.c - device code is refused: there is no GPU to run it.
 *
 * CUDA_ERROR_NOT_SUPPORTED, so that a program which tries a kernel learns why nothing was computed, instead
 * of reading memory that nobody wrote.
 */
#include "sim.h"

#define REFUSE(name, ...)                                                                                    \
    CUresult name(__VA_ARGS__)                                                                               \
    {                                                                                                        \
        SIM_CALL(SIM_CONTEXT);                                                                               \
        return CUDA_ERROR_NOT_SUPPORTED;                                                                     \
    }

REFUSE(cuModuleLoad, CUmodule *module, const char *path)
REFUSE(cuModuleLoadData, CUmodule *module, const void *image)
REFUSE(cuModuleLoadDataEx, CUmodule *module, const void *image, unsigned int count, CUjit_option *options,
       void **values)
REFUSE(cuModuleUnload, CUmodule module)
REFUSE(cuModuleGetFunction, CUfunction *function, CUmodule module, const char *name)
REFUSE(cuLaunchKernel, CUfunction function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,
       unsigned int block_x, unsigned int block_y, unsigned int block_z, unsigned int shared, CUstream stream,
       void **params, void **extra)
REFUSE(cuLaunchKernel_ptsz, CUfunction function, unsigned int grid_x, unsigned int grid_y,
       unsigned int grid_z, unsigned int block_x, unsigned int block_y, unsigned int block_z,
       unsigned int shared, CUstream stream, void **params, void **extra)
