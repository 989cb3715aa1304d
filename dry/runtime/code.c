/*
 * code.c - fat binaries and what they register: which host function is which kernel, which host variable
 * which one on the device.
 *
 * PyTorch registers tens of thousands of kernels before main(), and calls a few.  So only addresses are
 * noted; the driver gets an image when one of its kernels is first asked for.
 */
#include "runtime.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* What nvcc puts around an image. */
struct wrapper {
    int magic, version;
    const void *image;
    void *more;
};
struct image {
    const struct wrapper *wrapper;
    CUlibrary library;
};
struct entry {
    const void *host;
    const char *name;
    struct image *image;
    union {
        CUkernel kernel;
        size_t size; /* of a variable */
    };
};
struct table {
    struct entry *entries;
    size_t count, room; /* a power of two, at most three quarters full */
};
static struct table kernels, variables;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

/* ---- tables by host address ---- */

static struct entry *slot(const struct table *table, const void *host)
{
    size_t mask = table->room - 1, i = ((uintptr_t)host * 0x9e3779b97f4a7c15u >> 20) & mask;
    while (table->entries[i].host && table->entries[i].host != host)
        i = (i + 1) & mask;
    return &table->entries[i];
}

static bool grow(struct table *table)
{
    struct table larger = {.count = table->count, .room = table->room ? 2 * table->room : 64};
    larger.entries = calloc(larger.room, sizeof *larger.entries);
    if (!larger.entries)
        return false;
    for (size_t i = 0; i < table->room; i++)
        if (table->entries[i].host)
            *slot(&larger, table->entries[i].host) = table->entries[i];
    free(table->entries);
    *table = larger;
    return true;
}

/* A second registration of an address is what counts: a library was unloaded and another lies there. */
static void note(struct table *table, struct entry entry)
{
    pthread_mutex_lock(&mutex);
    if (4 * (table->count + 1) <= 3 * table->room || grow(table)) {
        struct entry *place = slot(table, entry.host);
        table->count += place->host == NULL;
        *place = entry;
    }
    pthread_mutex_unlock(&mutex);
}

static struct entry *known(const struct table *table, const void *host)
{
    struct entry *entry = table->room && host ? slot(table, host) : NULL;
    return entry && entry->host ? entry : NULL;
}

/* ---- lookup ---- */

static CUresult load(struct image *image)
{
    if (image->library)
        return CUDA_SUCCESS;
    return DRIVER(cuLibraryLoadData)(&image->library, image->wrapper->image, NULL, NULL, 0, NULL, NULL, 0);
}

cudaError_t rt_kernel(const void *symbol, CUkernel *out)
{
    CUresult result = CUDA_SUCCESS;
    pthread_mutex_lock(&mutex);
    struct entry *entry = known(&kernels, symbol);
    if (entry && !entry->kernel && (result = load(entry->image)) == CUDA_SUCCESS)
        result = DRIVER(cuLibraryGetKernel)(&entry->kernel, entry->image->library, entry->name);
    *out = entry ? entry->kernel : (CUkernel)(uintptr_t)symbol;
    pthread_mutex_unlock(&mutex);
    return result == CUDA_ERROR_NOT_FOUND || !symbol ? cudaErrorInvalidDeviceFunction : (cudaError_t)result;
}

cudaError_t rt_variable(const void *symbol, CUdeviceptr *out, size_t *size)
{
    cudaError_t error = rt_enter();
    if (error != cudaSuccess)
        return error;
    CUresult result = CUDA_ERROR_NOT_FOUND;
    pthread_mutex_lock(&mutex);
    struct entry *entry = known(&variables, symbol);
    if (entry && (result = load(entry->image)) == CUDA_SUCCESS)
        result = DRIVER(cuLibraryGetGlobal)(out, NULL, entry->image->library, entry->name);
    *size = entry ? entry->size : 0;
    pthread_mutex_unlock(&mutex);
    return result == CUDA_ERROR_NOT_FOUND ? cudaErrorInvalidSymbol : (cudaError_t)result;
}

/* ---- what nvcc's host code calls ---- */

DRY_API void **__cudaRegisterFatBinary(void *wrapper);
DRY_API void __cudaRegisterFatBinaryEnd(void **handle);
DRY_API void __cudaUnregisterFatBinary(void **handle);
DRY_API char __cudaInitModule(void **handle);
DRY_API void __cudaRegisterFunction(void **handle, const char *host, char *device, const char *name,
                                    int threads, void *thread, void *block, void *threads_of_block,
                                    void *grid, int *warp);
DRY_API void __cudaRegisterVar(void **handle, char *host, char *device, const char *name, int external,
                               size_t size, int constant, int global);
DRY_API cudaError_t __cudaGetKernel(cudaKernel_t *kernel, const void *host);

void **__cudaRegisterFatBinary(void *wrapper)
{
    struct image *image = calloc(1, sizeof *image);
    if (image)
        image->wrapper = wrapper;
    return (void **)image;
}

void __cudaRegisterFatBinaryEnd(void **handle) {}

void __cudaUnregisterFatBinary(void **handle) {}

char __cudaInitModule(void **handle)
{
    return 1;
}

void __cudaRegisterFunction(void **handle, const char *host, char *device, const char *name, int threads,
                            void *thread, void *block, void *threads_of_block, void *grid, int *warp)
{
    if (handle)
        note(&kernels, (struct entry){.host = host, .name = name, .image = (struct image *)handle});
}

void __cudaRegisterVar(void **handle, char *host, char *device, const char *name, int external, size_t size,
                       int constant, int global)
{
    if (handle)
        note(&variables,
             (struct entry){.host = host, .name = name, .image = (struct image *)handle, .size = size});
}

/* ---- symbols ---- */

cudaError_t __cudaGetKernel(cudaKernel_t *kernel, const void *host)
{
    RT_CALL(rt_begin);
    return rt_failed(kernel ? rt_kernel(host, kernel) : cudaErrorInvalidValue);
}

DRY_API cudaError_t CUDARTAPI cudaGetKernel(cudaKernel_t *kernelPtr, const void *entryFuncAddr)
{
    return __cudaGetKernel(kernelPtr, entryFuncAddr);
}

DRY_API cudaError_t CUDARTAPI cudaGetFuncBySymbol(cudaFunction_t *functionPtr, const void *symbolPtr)
{
    RT_KERNEL_CALL(kernel, symbolPtr);
    return rt_done(DRIVER(cuKernelGetFunction)(functionPtr, kernel));
}

DRY_API cudaError_t CUDARTAPI cudaGetSymbolAddress(void **devPtr, const void *symbol)
{
    size_t size;
    return rt_failed(devPtr ? rt_variable(symbol, (void *)devPtr, &size) : cudaErrorInvalidValue);
}

DRY_API cudaError_t CUDARTAPI cudaGetSymbolSize(size_t *size, const void *symbol)
{
    CUdeviceptr address;
    return rt_failed(size ? rt_variable(symbol, &address, size) : cudaErrorInvalidValue);
}
