/*
 * runtime.h - inside the stand-ins for CUDA's runtime: libcudart.so.13, and libcudart.so.12 where DRY_CUDART
 * is 12.
 *
 * A call is asked of the driver, whose functions are found by cuGetProcAddress, so that a hook of it sees
 * each call once.  The runtime keeps a thread's device and last error, and which host function means which
 * kernel.
 */
#ifndef DRY_RUNTIME_RUNTIME_H
#define DRY_RUNTIME_RUNTIME_H

#if DRY_CUDART == 12 /* what 13 has under the first name, 12 has under another */
#include "names12.h"
#endif
#include <cuda.h>
#include <cudaTypedefs.h>
#include <cuda_runtime_api.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "facts.h"

#define RT_VERSION (DRY_CUDART == 12 ? 12080 : 13000) /* what it says that it is */

/* ---- the driver's functions ---- */

enum rt_driver_function {
#define D(base, version) RT_##base,
#include "driver.def"
#undef D
    RT_END
};
struct rt_driver_types {
#define D(base, version) PFN_##base##_v##version type_##base;
#include "driver.def"
#undef D
};

/* The driver's function; where it has none, its name is said and the process ends. */
void *rt_driver(enum rt_driver_function function, bool per_thread);
bool rt_driver_there(void);

#ifdef CUDA_API_PER_THREAD_DEFAULT_STREAM
#define RT_PER_THREAD true
#else
#define RT_PER_THREAD false
#endif
#define RT_DRIVER(function, type)                                                                            \
    ((__typeof__(((struct rt_driver_types *)0)->type))rt_driver(function, RT_PER_THREAD))
#define DRIVER(base) RT_DRIVER(RT_##base, type_##base) /* cuda.h has macros of these names */

/* ---- errors: each way out of a call goes through one of these ---- */

cudaError_t rt_done(CUresult result);
cudaError_t rt_failed(cudaError_t error); /* remembered as the thread's last one */

/* ---- contexts ---- */

cudaError_t rt_begin(void); /* the driver is ready */
cudaError_t rt_enter(void); /* ... and the thread has a context */
cudaError_t rt_device(int device, CUcontext *out);
int rt_current_device(void);

/* First statement of an exported function.  Work on a device needs a context, a question about one does not.
 */
#define RT_CALL(need)                                                                                        \
    do {                                                                                                     \
        cudaError_t entered = need();                                                                        \
        if (entered != cudaSuccess)                                                                          \
            return rt_failed(entered);                                                                       \
    } while (0)

/* A call that the driver has likewise: one row of calls.def or streams.def. */
#define CALL(name, parameters, base, arguments)                                                              \
    DRY_API cudaError_t CUDARTAPI name parameters                                                            \
    {                                                                                                        \
        RT_CALL(rt_enter);                                                                                   \
        return rt_done(RT_DRIVER(RT_##base, type_##base) arguments);                                         \
    }
#define ASK(name, parameters, base, arguments)                                                               \
    DRY_API cudaError_t CUDARTAPI name parameters                                                            \
    {                                                                                                        \
        RT_CALL(rt_begin);                                                                                   \
        return rt_done(RT_DRIVER(RT_##base, type_##base) arguments);                                         \
    }

/* ---- code ---- */

/* The kernel of a host function, or SYMBOL itself where it is a kernel's handle. */
cudaError_t rt_kernel(const void *symbol, CUkernel *out);
/* First statement of a function that is about one. */
#define RT_KERNEL_CALL(kernel, symbol)                                                                       \
    CUkernel kernel;                                                                                         \
    RT_CALL(rt_enter);                                                                                       \
    do {                                                                                                     \
        cudaError_t found = rt_kernel(symbol, &kernel);                                                      \
        if (found != cudaSuccess)                                                                            \
            return rt_failed(found);                                                                         \
    } while (0)
cudaError_t rt_variable(const void *symbol, CUdeviceptr *out, size_t *size);

/* A launch's attributes are the driver's, by number and layout. */
__attribute__((unused)) static CUlaunchConfig rt_launch_config(const cudaLaunchConfig_t *config)
{
    return (CUlaunchConfig){.gridDimX = config->gridDim.x,
                            .gridDimY = config->gridDim.y,
                            .gridDimZ = config->gridDim.z,
                            .blockDimX = config->blockDim.x,
                            .blockDimY = config->blockDim.y,
                            .blockDimZ = config->blockDim.z,
                            .sharedMemBytes = (unsigned)config->dynamicSmemBytes,
                            .hStream = config->stream,
                            .attrs = (void *)config->attrs,
                            .numAttrs = config->numAttrs};
}

#endif
