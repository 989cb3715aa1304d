/* driver.c - opens libcuda.so.1 and asks it for memory; see driver.h. */
#include "driver.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool lookup(void *library, const char *name, void *field)
{
    void *function = dlsym(library, name);
    memcpy(field, &function, sizeof function);
    return function != NULL;
}

static bool load(struct driver *cu)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        fprintf(stderr,
                "train_lm: no CUDA driver (%s): run on a GPU machine, or put the simulated libcuda.so.1 on "
                "LD_LIBRARY_PATH\n",
                dlerror());
        return false;
    }
    const char *missing = NULL;
#define X(name, field, parameters)                                                                           \
    if (!lookup(library, #name, &cu->field) && !missing)                                                     \
        missing = #name;
    CU_FUNCTIONS(X)
    if (missing) {
        fprintf(stderr, "train_lm: libcuda.so.1 has no %s: this driver is too old\n", missing);
        return false;
    }
    CU_KERNEL_FUNCTIONS(X)
#undef X
    cu->simulated = dlsym(library, "simcuda_version") != NULL;
    return true;
}

static const char *error_name(const struct driver *cu, CUresult status)
{
    const char *name = NULL;
    if (cu->error_name(status, &name) != CUDA_SUCCESS || !name)
        return "an unknown error";
    return name;
}

bool driver_open(struct driver *cu)
{
    memset(cu, 0, sizeof *cu);
    if (!load(cu))
        return false;
    CUresult status = cu->init(0);
    if (status == CUDA_SUCCESS)
        status = cu->device_get(&cu->device, 0);
    if (status == CUDA_SUCCESS)
        status = cu->device_name(cu->name, sizeof cu->name, cu->device);
    if (status == CUDA_SUCCESS)
        status = cu->context_retain(&cu->context, cu->device);
    if (status == CUDA_SUCCESS)
        status = cu->context_set(cu->context);
    if (status != CUDA_SUCCESS) {
        fprintf(stderr, "train_lm: no usable CUDA device: the driver says %s; check nvidia-smi\n",
                error_name(cu, status));
        return false;
    }
    return true;
}

void driver_close(struct driver *cu)
{
    cu->context_set(NULL);
    cu->context_release(cu->device);
}

void driver_check(const struct driver *cu, CUresult status, const char *what)
{
    if (status == CUDA_SUCCESS)
        return;
    fprintf(stderr, "train_lm: %s failed: %s\n", what, error_name(cu, status));
    exit(1);
}

CUdeviceptr driver_bytes(const struct driver *cu, size_t size, const char *what)
{
    CUdeviceptr address = 0;
    CUresult status = cu->mem_alloc(&address, size);
    if (status == CUDA_SUCCESS)
        return address;
    fprintf(stderr, "train_lm: no device memory for %s (%.1f MiB): %s; lower --batch, --hidden or --vocab\n",
            what, (double)size / (1 << 20), error_name(cu, status));
    exit(1);
}

CUdeviceptr driver_floats(const struct driver *cu, size_t count, const char *what)
{
    return driver_bytes(cu, count * sizeof(float), what);
}

void driver_free(const struct driver *cu, CUdeviceptr *address)
{
    if (*address)
        driver_check(cu, cu->mem_free(*address), "cuMemFree");
    *address = 0;
}
