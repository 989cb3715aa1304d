/*
 * cuda.c - opens the CUDA back end (driver, cuBLASLt, the kernels' code) in the current context.
 */
#include <stdlib.h>

#include "cuda.h"

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
    int status = lce_driver_open(&l->driver);
    if (!status)
        status = check_device(l);
    if (!status)
        status = lce_blas_open(&l->blas);
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
