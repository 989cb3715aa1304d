/* launch.c - looks kernels up and puts them on the stream. */
#include "cuda.h"

int cuda_find(const struct cuda_library *library, int image, const char *name, CUfunction *function)
{
    CUkernel kernel;
    CUresult status = library->driver.library_kernel(&kernel, library->images[image], name);
    if (!status) /* also loads its code, which must not happen during a run */
        status = library->driver.kernel_function(function, kernel);
    return status ? lce_fail(LCE_DEVICE_ERROR, "lce_plan_create: kernel %s: %s", name,
                             lce_driver_error(&library->driver, status))
                  : LCE_OK;
}

static int launch(const struct cuda_run *run, CUfunction function, const CUlaunchConfig *config,
                  const void *arguments)
{
    const struct lce_driver *driver = &cuda_of(run->plan)->driver;
    void *parameters[] = {(void *)(uintptr_t)arguments};
    CUresult status = driver->launch(config, function, parameters, NULL);
    return status ? lce_fail(LCE_DEVICE_ERROR, "lce_run: a kernel was not launched: %s",
                             lce_driver_error(driver, status))
                  : LCE_OK;
}

int cuda_launch(const struct cuda_run *run, CUfunction function, unsigned int blocks, unsigned int threads,
                const void *arguments)
{
    const CUlaunchConfig config = {.gridDimX = blocks,
                                   .gridDimY = 1,
                                   .gridDimZ = 1,
                                   .blockDimX = threads,
                                   .blockDimY = 1,
                                   .blockDimZ = 1,
                                   .hStream = run->stream};
    return launch(run, function, &config, arguments);
}

int cuda_launch_cluster(const struct cuda_run *run, const struct cuda_softmax *softmax, int64_t rows,
                        const void *arguments)
{
    CUlaunchAttribute attribute = {.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION};
    attribute.value.clusterDim.x = softmax->cluster;
    attribute.value.clusterDim.y = 1;
    attribute.value.clusterDim.z = 1;
    const CUlaunchConfig config = {.gridDimX = (unsigned int)rows * (softmax->cluster ? softmax->cluster : 1),
                                   .gridDimY = 1,
                                   .gridDimZ = 1,
                                   .blockDimX = 512,
                                   .blockDimY = 1,
                                   .blockDimZ = 1,
                                   .hStream = run->stream,
                                   .attrs = &attribute,
                                   .numAttrs = softmax->cluster ? 1 : 0};
    return launch(run, softmax->function, &config, arguments);
}

int cuda_scale(const struct lce *base, void *matrix, uint64_t count, int dtype, const float *factor,
               void *stream)
{
    const struct cuda_library *l = (const struct cuda_library *)base;
    const uint64_t needed = (count + 255) / 256, most = (uint64_t)l->processors * 8; /* all at once */
    const uint32_t blocks = (uint32_t)(needed < most ? needed : most);
    const struct lce_scale_args arguments = {matrix, factor, (int64_t)count, blocks};
    const CUlaunchConfig config = {.gridDimX = blocks,
                                   .gridDimY = 1,
                                   .gridDimZ = 1,
                                   .blockDimX = 256,
                                   .blockDimY = 1,
                                   .blockDimZ = 1,
                                   .hStream = stream};
    void *parameters[] = {(void *)(uintptr_t)&arguments};
    int status = cuda_right_context(l, "lce_scale");
    if (status)
        return status;
    CUresult launched = l->driver.launch(&config, l->scale[dtype], parameters, NULL);
    return launched ? lce_fail(LCE_DEVICE_ERROR, "lce_scale: a kernel was not launched: %s",
                               lce_driver_error(&l->driver, launched))
                    : LCE_OK;
}

/* Launches as many clusters as the device runs at once; each takes tiles until there are none left. */
int cuda_launch_product(const struct cuda_run *run, CUfunction function, const struct lce_own_args *arguments)
{
    CUlaunchAttribute attribute = {.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION};
    attribute.value.clusterDim.x = LCE_PRODUCT_CLUSTER;
    attribute.value.clusterDim.y = 1;
    attribute.value.clusterDim.z = 1;
    const CUlaunchConfig config = {.gridDimX = (unsigned int)arguments->clusters * LCE_PRODUCT_CLUSTER,
                                   .gridDimY = 1,
                                   .gridDimZ = 1,
                                   .blockDimX = LCE_PRODUCT_THREADS,
                                   .blockDimY = 1,
                                   .blockDimZ = 1,
                                   .sharedMemBytes = LCE_PRODUCT_SHARED,
                                   .hStream = run->stream,
                                   .attrs = &attribute,
                                   .numAttrs = 1};
    return launch(run, function, &config, arguments);
}
