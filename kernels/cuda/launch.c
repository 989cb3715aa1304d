/* launch.c - puts kernels on the stream. */
#include "cuda.h"

static CUlaunchConfig config_of(unsigned int blocks, unsigned int threads, CUstream stream)
{
    return (CUlaunchConfig){.gridDimX = blocks,
                            .gridDimY = 1,
                            .gridDimZ = 1,
                            .blockDimX = threads,
                            .blockDimY = 1,
                            .blockDimZ = 1,
                            .hStream = stream};
}

/* Of CALL, which the message names. */
static int launch(const struct cuda_library *l, const char *call, CUfunction function,
                  const CUlaunchConfig *config, const void *arguments)
{
    void *parameters[] = {(void *)(uintptr_t)arguments};
    CUresult status = l->driver.launch(config, function, parameters, NULL);
    return status ? lce_fail(LCE_DEVICE_ERROR, "%s: a kernel was not launched: %s", call,
                             lce_driver_error(&l->driver, status))
                  : LCE_OK;
}

int cuda_launch(const struct cuda_run *run, CUfunction function, unsigned int blocks, unsigned int threads,
                const void *arguments)
{
    const CUlaunchConfig config = config_of(blocks, threads, run->stream);
    return launch(cuda_of(run->plan), "lce_run", function, &config, arguments);
}

/* Launches CONFIG's blocks in clusters of so many. */
static int launch_clusters(const struct cuda_run *run, CUfunction function, CUlaunchConfig config,
                           unsigned int cluster, const void *arguments)
{
    CUlaunchAttribute attribute = {.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION};
    attribute.value.clusterDim.x = cluster;
    attribute.value.clusterDim.y = 1;
    attribute.value.clusterDim.z = 1;
    config.attrs = &attribute;
    config.numAttrs = 1;
    return launch(cuda_of(run->plan), "lce_run", function, &config, arguments);
}

int cuda_launch_cluster(const struct cuda_run *run, const struct cuda_softmax *softmax, int64_t rows,
                        const void *arguments)
{
    const unsigned int cluster = softmax->cluster;
    if (cluster == 0)
        return cuda_launch(run, softmax->function, (unsigned int)rows, 512, arguments);
    return launch_clusters(run, softmax->function, config_of((unsigned int)rows * cluster, 512, run->stream),
                           cluster, arguments);
}

int cuda_scale(const struct lce *base, void *matrix, uint64_t count, int dtype, const float *factor,
               void *stream)
{
    const struct cuda_library *l = (const struct cuda_library *)base;
    const uint64_t needed = (count + 255) / 256, most = (uint64_t)l->processors * 8; /* all at once */
    const uint32_t blocks = (uint32_t)(needed < most ? needed : most);
    const struct lce_scale_args arguments = {matrix, factor, (int64_t)count, blocks};
    const CUlaunchConfig config = config_of(blocks, 256, stream);
    int status = cuda_right_context(l, "lce_scale");
    return status ? status : launch(l, "lce_scale", l->scale[dtype], &config, &arguments);
}

/* Launches as many clusters as the device runs at once; each takes tiles until there are none left. */
int cuda_launch_product(const struct cuda_run *run, CUfunction function, const struct lce_own_args *arguments)
{
    CUlaunchConfig config =
        config_of((unsigned int)arguments->clusters * LCE_PRODUCT_CLUSTER, LCE_PRODUCT_THREADS, run->stream);
    config.sharedMemBytes = LCE_PRODUCT_SHARED;
    return launch_clusters(run, function, config, LCE_PRODUCT_CLUSTER, arguments);
}
