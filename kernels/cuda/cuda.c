/* cuda.c - opens the CUDA back end in the current context: driver, cuBLASLt, the kernels' code. */
#include <dlfcn.h>
#include <stdlib.h>

#include "cuda.h"

/* ---- the libraries, which are never closed: both keep threads and handlers alive ---- */

static void *first_of(const char *const *names, int flags)
{
    void *library = NULL;
    for (int i = 0; !library && names[i]; i++)
        library = dlopen(names[i], flags);
    return library;
}

static int find(void *library, const char *name, void *field, const char *file)
{
    void *symbol = dlsym(library, name);
    if (!symbol)
        return lce_fail(LCE_BACKEND_MISSING,
                        "lce_open: %s has no %s; a newer one is needed (CUDA 12.0 or later)", file, name);
    *(void **)field = symbol;
    return LCE_OK;
}

static int open_driver(struct lce_driver *driver)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return lce_fail(LCE_BACKEND_MISSING, "lce_open: no CUDA driver (%s); install one, or use LCE_CPU",
                        dlerror());
#define X(name, field, parameters)                                                                           \
    if (find(library, #name, &driver->field, "libcuda.so.1"))                                                \
        return LCE_BACKEND_MISSING;
    LCE_DRIVER_FUNCTIONS(X)
#undef X
#define X(name, field, parameters) *(void **)&driver->field = dlsym(library, #name);
    LCE_DRIVER_OPTIONAL(X)
#undef X
    return LCE_OK;
}

/* cuBLASLt has no fixed place.  It is the file that LCE_CUBLASLT names, else a copy that the process has
 * loaded (so that PyTorch and we share one), else what the loader finds by soname, newest first. */
static int open_blas(struct lce_blas *blas)
{
    static const char *const names[] = {"libcublasLt.so.13", "libcublasLt.so.12", NULL};
    const char *given = getenv("LCE_CUBLASLT");
    void *library = given ? dlopen(given, RTLD_NOW | RTLD_LOCAL) : first_of(names, RTLD_NOW | RTLD_NOLOAD);
    if (!library && !given)
        library = first_of(names, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return lce_fail(
            LCE_BACKEND_MISSING,
            "lce_open: cuBLASLt was not found (%s); put its directory on LD_LIBRARY_PATH (the CUDA toolkit's "
            "lib64, or nvidia/cu13/lib beside PyTorch) or its file in LCE_CUBLASLT",
            dlerror());
#define X(name, field, type, parameters)                                                                     \
    if (find(library, #name, &blas->field, "cuBLASLt"))                                                      \
        return LCE_BACKEND_MISSING;
    LCE_BLAS_FUNCTIONS(X)
#undef X
    return LCE_OK;
}

const char *lce_driver_error(const struct lce_driver *driver, CUresult status)
{
    const char *name = NULL;
    driver->error_name(status, &name);
    return name ? name : "an unknown error";
}

/* ---- the back end ---- */

extern const char lce_image_softmax[], lce_image_tokens[], lce_image_slab[], lce_image_tail[],
    lce_image_product[], lce_image_exponents[], lce_image_odds[];

static int device_failed(const struct cuda_library *l, const char *what, CUresult status)
{
    return lce_fail(LCE_DEVICE_ERROR, "lce_open: %s: %s", what, lce_driver_error(&l->driver, status));
}

static int check_device(struct cuda_library *l)
{
    CUdevice device;
    CUresult status = l->driver.context_current(&l->context);
    if (status)
        return device_failed(l, "no CUDA context is current in this thread; make one current first", status);
    if (!l->context)
        return lce_fail(LCE_DEVICE_ERROR,
                        "lce_open: no CUDA context is current in this thread; make one current first");
    status = l->driver.context_device(&device);
    if (!status)
        status = l->driver.attribute(&l->processors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device);
    if (!status)
        status = l->driver.attribute(&l->major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device);
    if (status)
        return device_failed(l, "asking the device", status);
    if (l->major < 8)
        return lce_fail(LCE_BACKEND_MISSING,
                        "lce_open: this GPU has compute capability %d.x; 8.0 (Ampere) or later is needed",
                        l->major);
    return LCE_OK;
}

static int load_images(struct cuda_library *l)
{
    const char *const images[] = {lce_image_softmax, lce_image_tokens,    lce_image_slab,
                                  lce_image_tail,    lce_image_exponents, lce_image_odds};
    for (int i = 0; i < IMAGE_PRODUCT; i++) {
        CUresult status = l->driver.library_load(&l->images[i], images[i], NULL, NULL, 0, NULL, NULL, 0);
        if (status)
            return device_failed(l, "loading the kernels", status);
    }
    static const char *const names[] = {"lce_scale_f32", "lce_scale_f16", "lce_scale_bf16"};
    for (int i = 0; i < 3; i++) {
        CUkernel kernel;
        CUresult status = l->driver.library_kernel(&kernel, l->images[IMAGE_TOKENS], names[i]);
        if (!status)
            status = l->driver.kernel_function(&l->scale[i], kernel);
        if (status)
            return device_failed(l, names[i], status);
    }
    return cuda_own_open(l, lce_image_product);
}

static void close_library(struct lce *base)
{
    struct cuda_library *l = (struct cuda_library *)base;
    if (l->handle)
        l->blas.destroy(l->handle);
    for (int i = 0; i < IMAGES; i++)
        if (l->images[i])
            l->driver.library_unload(l->images[i]);
    free(l);
}

static int open_library(struct cuda_library *l)
{
    int status = open_driver(&l->driver);
    if (!status)
        status = check_device(l);
    if (!status)
        status = open_blas(&l->blas);
    if (!status)
        status = load_images(l);
    if (status)
        return status;
    cublasStatus_t created = l->blas.create(&l->handle);
    return created ? lce_fail(LCE_GEMM_ERROR, "lce_open: cuBLASLt: %s", l->blas.status_name(created))
                   : LCE_OK;
}

int lce_cuda_open(struct lce **library)
{
    static const struct lce_operations operations = {
        close_library, cuda_plan_create, cuda_plan_destroy, cuda_run, 256, cuda_scale};
    struct cuda_library *l = calloc(1, sizeof *l);
    if (!l)
        return lce_fail(LCE_OUT_OF_MEMORY, "lce_open: no memory for the library");
    l->base.operations = &operations;
    int status = open_library(l);
    if (status)
        close_library(&l->base);
    else
        *library = &l->base;
    return status;
}
