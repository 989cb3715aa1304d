/*
 * driver.cpp - the functions of the CUDA driver that the linear cross-entropy and its checks call, over host
 * memory: work is done when it is put on a stream, and kernels are found by name in this library.  For
 * cross_entropy_emulated.sh alone; dry/driver is the driver that is simulated in earnest.
 */
#include <cuda.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "product_args.h"
#include "threads.h"

#undef cuCtxCreate
#undef cuCtxDestroy
#undef cuMemAlloc
#undef cuMemFree
#undef cuMemcpyDtoH
#undef cuMemcpyHtoD
#undef cuMemsetD8
#undef cuStreamDestroy

#define API extern "C" __attribute__((visibility("default"))) CUresult

static thread_local CUcontext current;
static const CUcontext primary = reinterpret_cast<CUcontext>(1), other = reinterpret_cast<CUcontext>(2);

/* ---- contexts, streams ---- */

API cuInit(unsigned)
{
    return CUDA_SUCCESS;
}
API cuGetErrorName(CUresult status, const char **name)
{
    *name = status == CUDA_SUCCESS ? "CUDA_SUCCESS" : "CUDA_ERROR_NOT_FOUND";
    return CUDA_SUCCESS;
}
API cuDeviceGet(CUdevice *device, int)
{
    *device = 0;
    return CUDA_SUCCESS;
}
/* The compute capability's first number; 8 has no clusters. */
static int major_number()
{
    const char *given = getenv("EMULATED_MAJOR");
    return given ? atoi(given) : 9;
}
API cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice)
{
    const char *count = getenv("EMULATED_PROCESSORS");
    *value = attribute == CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT       ? (count ? atoi(count) : 132)
             : attribute == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR ? major_number()
                                                                         : 0;
    return CUDA_SUCCESS;
}
API cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice)
{
    *context = primary;
    return CUDA_SUCCESS;
}
API cuCtxSetCurrent(CUcontext context)
{
    current = context;
    return CUDA_SUCCESS;
}
API cuCtxGetCurrent(CUcontext *context)
{
    *context = current;
    return CUDA_SUCCESS;
}
API cuCtxCreate_v2(CUcontext *context, unsigned, CUdevice)
{
    *context = current = other;
    return CUDA_SUCCESS;
}
API cuCtxDestroy_v2(CUcontext)
{
    current = primary;
    return CUDA_SUCCESS;
}
API cuCtxGetDevice(CUdevice *device)
{
    *device = 0;
    return CUDA_SUCCESS;
}
API cuCtxSynchronize()
{
    return CUDA_SUCCESS;
}
API cuStreamCreate(CUstream *stream, unsigned)
{
    *stream = reinterpret_cast<CUstream>(16);
    return CUDA_SUCCESS;
}
API cuStreamDestroy_v2(CUstream)
{
    return CUDA_SUCCESS;
}

/* ---- memory ---- */

static void *at(CUdeviceptr address)
{
    return reinterpret_cast<void *>(address);
}

API cuMemAlloc_v2(CUdeviceptr *address, size_t size)
{
    *address = reinterpret_cast<CUdeviceptr>(aligned_alloc(256, (size + 255) / 256 * 256));
    return *address ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}
API cuMemFree_v2(CUdeviceptr address)
{
    free(at(address));
    return CUDA_SUCCESS;
}
API cuMemsetD8_v2(CUdeviceptr address, unsigned char value, size_t size)
{
    memset(at(address), value, size);
    return CUDA_SUCCESS;
}
API cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t size)
{
    memcpy(at(to), from, size);
    return CUDA_SUCCESS;
}
API cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t size)
{
    memcpy(to, at(from), size);
    return CUDA_SUCCESS;
}

/* ---- kernels: a handle is the function's address, with its name found again from it ---- */

API cuLibraryLoadData(CUlibrary *library, const void *, CUjit_option *, void **, unsigned, CUlibraryOption *,
                      void **, unsigned)
{
    *library = reinterpret_cast<CUlibrary>(1);
    return CUDA_SUCCESS;
}
API cuLibraryUnload(CUlibrary)
{
    return CUDA_SUCCESS;
}
API cuLibraryGetKernel(CUkernel *kernel, CUlibrary, const char *name)
{
    static void *self = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    *kernel = static_cast<CUkernel>(dlsym(self, name));
    return *kernel ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}
API cuKernelGetFunction(CUfunction *function, CUkernel kernel)
{
    *function = reinterpret_cast<CUfunction>(kernel);
    return CUDA_SUCCESS;
}

static void *kernel_now;

template <typename Arguments> static void call(const void *arguments)
{
    reinterpret_cast<void (*)(Arguments)>(kernel_now)(*static_cast<const Arguments *>(arguments));
}

/* How a kernel of this name is called: they all take one struct. */
static void (*caller(const char *name))(const void *)
{
    static const struct {
        const char *prefix;
        void (*call)(const void *);
    } rows[] = {
        {"lce_softmax", call<lce_softmax_args>},
        {"lce_prepare", call<lce_prepare_args>},
        {"lce_gather", call<lce_rows_args>},
        {"lce_scatter", call<lce_rows_args>},
        {"lce_reduce", call<lce_reduce_args>},
        {"lce_blank", call<lce_blank_args>},
        {"lce_column_sum", call<lce_sum_args>},
        {"lce_store", call<lce_store_args>},
        {"lce_slab", call<lce_slab_args>},
        {"lce_scale", call<lce_scale_args>},
        {"lce_tail", call<lce_tail_args>},
        {"lce_parts", call<lce_parts_args>},
        {"lce_exponents", call<lce_exponents_args>},
        {"lce_odds_start", call<lce_odds_start_args>},
        {"lce_odds_rows", call<lce_odds_rows_args>},
        {"lce_odds_dinput", call<lce_odds_dinput_args>},
        {"lce_odds_fold", call<lce_odds_fold_args>},
        {"lce_odds_store", call<lce_odds_store_args>},
        {"lce_expand", call<lce_expand_args>},
        {"lce_label", call<lce_label_rows_args>},
        {"lce_own_scatter", call<lce_own_rows_args>},
        {"lce_own_odds", call<lce_own_exponents_args>},
        {"lce_own_gradient", call<lce_own_exponents_args>},
        {"lce_own_exponents", call<lce_own_exponents_args>},
        {"lce_own", call<lce_own_args>},
    };
    for (const auto &row : rows)
        if (!strncmp(name, row.prefix, strlen(row.prefix)))
            return row.call;
    return nullptr;
}

API cuLaunchKernelEx(const CUlaunchConfig *c, CUfunction function, void **arguments, void **)
{
    Dl_info info;
    kernel_now = reinterpret_cast<void *>(function);
    void (*kernel)(const void *) =
        dladdr(kernel_now, &info) && info.dli_sname ? caller(info.dli_sname) : nullptr;
    if (!kernel)
        return CUDA_ERROR_NOT_FOUND;
    if (major_number() < 9 &&
        (c->numAttrs ||
         (info.dli_sname && !strncmp(info.dli_sname, "lce_softmax", 11) && !strstr(info.dli_sname, "_loop"))))
        return CUDA_ERROR_NOT_SUPPORTED;
    if (!strncmp(info.dli_sname, "lce_own", 7)) { /* products.cpp */
        kernel(arguments[0]);
        return CUDA_SUCCESS;
    }
    const unsigned cluster = c->numAttrs ? c->attrs[0].value.clusterDim.x : 1;
    emulated::launch(kernel, arguments[0], c->gridDimX, cluster, c->blockDimX);
    return CUDA_SUCCESS;
}
