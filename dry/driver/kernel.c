/*
 * kernel.c - kernels: their handles, parameters and names.  In dry mode every name is a kernel of every
 * image but PTX, whose text names its own.  Otherwise, as no device code runs, a kernel is found only if its
 * module is PTX and its own name begins with simcuda_nothing.
 *
 * A library's kernel (CUkernel) and the function that it is in a context are two handles.  Both can be
 * launched; questions about parameters and names take their own kind alone, as driver 13.0 does.
 */

#include "kernel.h"

#include <stdlib.h>
#include <string.h>

#define PROMISE "simcuda_nothing"
#define BUCKETS 16384u

static struct sim_map kernels;
static struct sim_kernel *buckets[BUCKETS]; /* by owner and name: PyTorch has thousands */

static struct sim_kernel **bucket_of(uint64_t owner, const char *name)
{
    uint64_t hash = owner * 0x9e3779b97f4a7c15ull;
    for (; *name; name++)
        hash = (hash ^ (unsigned char)*name) * 0x100000001b3ull;
    return &buckets[hash >> 40 & (BUCKETS - 1)];
}

static void drop(struct sim_kernel *k)
{
    struct sim_kernel **link = bucket_of(k->owner, k->name);
    while (*link != k)
        link = &(*link)->next;
    *link = k->next;
    sim_map_remove(&kernels, &k->range);
    free(k->parameters);
    free(k);
}

void sim_kernels_gone(uint64_t owner)
{
    uint64_t at = 0;
    for (struct sim_range *range; (range = sim_map_from(&kernels, at));) {
        at = range->start + 1;
        if (((struct sim_kernel *)range)->owner == owner)
            drop((struct sim_kernel *)range);
    }
}

struct sim_kernel *sim_kernel_of(const void *handle)
{
    return (struct sim_kernel *)sim_map_at(&kernels, (uint64_t)handle);
}

static struct sim_kernel *of_kind(const void *handle, bool function)
{
    struct sim_kernel *k = sim_kernel_of(handle);
    return k && k->function == function ? k : NULL;
}

/* ---- finding ---- */

static CUresult make(struct sim_kernel **out, uint64_t owner, const struct sim_image *image, const char *name,
                     bool function)
{
    const char *text = image->text;
    bool promised = text && strncmp(name, PROMISE, strlen(PROMISE)) == 0;
    if (!promised && !sim_dry())
        return CUDA_ERROR_NOT_SUPPORTED;
    struct sim_parameters *parameters = text ? sim_ptx_parameters(text, name) : NULL;
    if (text && !parameters)
        return CUDA_ERROR_NOT_FOUND;
    struct sim_kernel *k = calloc(1, sizeof *k + strlen(name) + 1);
    if (!k) {
        free(parameters);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    k->range = (struct sim_range){.start = (uint64_t)k, .size = 1};
    k->owner = owner;
    k->function = function;
    k->code = image->code;
    k->parameters = parameters;
    k->dynamic_shared = 48 << 10;
    k->carveout = -1;
    strcpy(k->name, name);
    *out = k;
    return CUDA_SUCCESS;
}

static CUresult find(uint64_t *out, uint64_t owner, const struct sim_image *image, const char *name,
                     bool function)
{
    if (!out || !name)
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_kernel **bucket = bucket_of(owner, name), *k = *bucket;
    while (k && (k->owner != owner || strcmp(k->name, name) != 0))
        k = k->next;
    if (!k) {
        CUresult result = make(&k, owner, image, name, function);
        if (result != CUDA_SUCCESS)
            return result;
        k->next = *bucket;
        *bucket = k;
        sim_map_insert(&kernels, &k->range);
    }
    *out = k->range.start;
    return CUDA_SUCCESS;
}

CUresult cuModuleGetFunction(CUfunction *out, CUmodule module, const char *name)
{
    SIM_CALL(SIM_CONTEXT);
    const struct sim_image *image = sim_module_image((uint64_t)module);
    return image ? find((uint64_t *)out, (uint64_t)module, image, name, true) : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuLibraryGetKernel(CUkernel *out, CUlibrary library, const char *name)
{
    SIM_CALL(SIM_INITIALIZED);
    const struct sim_image *image = sim_library_image((uint64_t)library);
    return image ? find((uint64_t *)out, (uint64_t)library, image, name, false) : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuKernelGetFunction(CUfunction *out, CUkernel handle)
{
    SIM_CALL(SIM_CONTEXT);
    const struct sim_kernel *k = of_kind(handle, false);
    uint64_t module;
    CUresult result = k ? sim_library_module(k->owner, &module) : CUDA_ERROR_INVALID_HANDLE;
    return result == CUDA_SUCCESS ? find((uint64_t *)out, module, sim_module_image(module), k->name, true)
                                  : result;
}

/* ---- asking ---- */

size_t sim_parameters_end(const struct sim_kernel *k)
{
    const struct sim_parameters *p = k->parameters;
    return p && p->count ? p->at[p->count - 1].offset + p->at[p->count - 1].size : 0;
}

static CUresult info(const struct sim_kernel *k, size_t index, size_t *offset, size_t *size)
{
    if (!k)
        return CUDA_ERROR_INVALID_HANDLE;
    if (!k->parameters)
        return CUDA_ERROR_NOT_SUPPORTED;
    if (!offset || index >= k->parameters->count)
        return CUDA_ERROR_INVALID_VALUE;
    *offset = k->parameters->at[index].offset;
    if (size)
        *size = k->parameters->at[index].size;
    return CUDA_SUCCESS;
}

CUresult cuFuncGetParamInfo(CUfunction f, size_t index, size_t *offset, size_t *size)
{
    SIM_CALL(SIM_INITIALIZED);
    return info(of_kind(f, true), index, offset, size);
}

CUresult cuKernelGetParamInfo(CUkernel kernel, size_t index, size_t *offset, size_t *size)
{
    SIM_CALL(SIM_INITIALIZED);
    return info(of_kind(kernel, false), index, offset, size);
}

static CUresult name_of(const struct sim_kernel *k, const char **name)
{
    if (!k)
        return CUDA_ERROR_INVALID_HANDLE;
    if (!name)
        return CUDA_ERROR_INVALID_VALUE;
    *name = k->name;
    return CUDA_SUCCESS;
}

CUresult cuFuncGetName(const char **name, CUfunction f)
{
    SIM_CALL(SIM_INITIALIZED);
    return name_of(of_kind(f, true), name);
}

CUresult cuKernelGetName(const char **name, CUkernel kernel)
{
    SIM_CALL(SIM_INITIALIZED);
    return name_of(of_kind(kernel, false), name);
}

CUresult cuFuncGetModule(CUmodule *module, CUfunction f)
{
    SIM_CALL(SIM_INITIALIZED);
    const struct sim_kernel *k = of_kind(f, true);
    if (!k)
        return CUDA_ERROR_INVALID_HANDLE;
    if (!module)
        return CUDA_ERROR_INVALID_VALUE;
    *module = (CUmodule)(uintptr_t)k->owner;
    return CUDA_SUCCESS;
}

CUresult cuKernelGetLibrary(CUlibrary *library, CUkernel kernel)
{
    SIM_CALL(SIM_INITIALIZED);
    const struct sim_kernel *k = of_kind(kernel, false);
    if (!k)
        return CUDA_ERROR_INVALID_HANDLE;
    if (!library)
        return CUDA_ERROR_INVALID_VALUE;
    *library = (CUlibrary)(uintptr_t)k->owner;
    return CUDA_SUCCESS;
}

CUresult cuFuncIsLoaded(CUfunctionLoadingState *state, CUfunction f)
{
    SIM_CALL(SIM_INITIALIZED);
    if (!of_kind(f, true))
        return CUDA_ERROR_INVALID_HANDLE;
    if (!state)
        return CUDA_ERROR_INVALID_VALUE;
    *state = CU_FUNCTION_LOADING_STATE_LOADED;
    return CUDA_SUCCESS;
}
