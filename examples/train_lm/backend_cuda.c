/*
 * backend_cuda.c - the model's arithmetic on a GPU: loads the kernels that the program carries and launches
 * them on the default stream, so that a copy to the host waits for them.
 */
#include "backend.h"

#include <math.h>
#include <stdio.h>

#define THREADS 256
#define TILE    64

#ifdef TRAIN_LM_KERNELS

extern const unsigned char train_lm_kernels[]; /* kernels_image.S */

#define KERNELS(X)                                                                                           \
    X(gather)                                                                                                \
    X(scatter)                                                                                               \
    X(matmul)                                                                                                \
    X(bias_gelu)                                                                                             \
    X(gelu_backward)                                                                                         \
    X(column_sum)                                                                                            \
    X(log_softmax)                                                                                           \
    X(log_softmax_backward)                                                                                  \
    X(adamw)

static struct {
    const struct driver *cu;
    CUmodule module;
#define X(kernel) CUfunction kernel;
    KERNELS(X)
#undef X
} gpu;

static void launch(CUfunction kernel, unsigned int x, unsigned int y, void **arguments)
{
    driver_check(gpu.cu, gpu.cu->launch(kernel, x, y, 1, THREADS, 1, 1, 0, NULL, arguments, NULL),
                 "launching a kernel");
}

#define ARGUMENTS(...) ((void *[]){__VA_ARGS__})

static unsigned int blocks_of(long count, int size)
{
    return (unsigned int)((count + size - 1) / size);
}

static void cuda_gather(CUdeviceptr out, CUdeviceptr table, CUdeviceptr ids, int rows, int width)
{
    launch(gpu.gather, (unsigned int)rows, 1, ARGUMENTS(&out, &table, &ids, &width));
}

static void cuda_scatter(CUdeviceptr table, CUdeviceptr in, CUdeviceptr order, CUdeviceptr starts,
                         int entries, int width)
{
    launch(gpu.scatter, (unsigned int)entries, 1, ARGUMENTS(&table, &in, &order, &starts, &width));
}

static void cuda_matmul(const struct matmul *call)
{
    struct matmul c = *call;
    int transpose_a = c.transpose_a, transpose_b = c.transpose_b, add = c.add;
    launch(gpu.matmul, blocks_of(c.n, TILE), blocks_of(c.m, TILE),
           ARGUMENTS(&c.out, &c.a, &c.b, &c.m, &c.n, &c.k, &transpose_a, &transpose_b, &add));
}

static void cuda_bias_gelu(CUdeviceptr out, CUdeviceptr pre, CUdeviceptr bias, CUdeviceptr skip, int rows,
                           int width)
{
    long count = (long)rows * width;
    launch(gpu.bias_gelu, blocks_of(count, THREADS), 1, ARGUMENTS(&out, &pre, &bias, &skip, &count, &width));
}

static void cuda_gelu_backward(CUdeviceptr dpre, CUdeviceptr dout, CUdeviceptr pre, size_t elements)
{
    long count = (long)elements;
    launch(gpu.gelu_backward, blocks_of(count, THREADS), 1, ARGUMENTS(&dpre, &dout, &pre, &count));
}

static void cuda_column_sum(CUdeviceptr out, CUdeviceptr in, int rows, int width)
{
    launch(gpu.column_sum, blocks_of(width, THREADS), 1, ARGUMENTS(&out, &in, &rows, &width));
}

static void cuda_log_softmax(CUdeviceptr out, CUdeviceptr losses, CUdeviceptr in, CUdeviceptr targets,
                             int rows, int width)
{
    launch(gpu.log_softmax, (unsigned int)rows, 1, ARGUMENTS(&out, &losses, &in, &targets, &width));
}

static void cuda_log_softmax_backward(CUdeviceptr din, CUdeviceptr log_probability, CUdeviceptr targets,
                                      int rows, int width)
{
    launch(gpu.log_softmax_backward, (unsigned int)rows, 1,
           ARGUMENTS(&din, &log_probability, &targets, &rows, &width));
}

static void cuda_adamw(const struct adamw *call)
{
    struct adamw c = *call;
    long count = (long)c.count;
    float beta1 = ADAMW_BETA1, beta2 = ADAMW_BETA2, epsilon = ADAMW_EPSILON;
    float correct_mean = 1 - powf(beta1, (float)c.step), correct_variance = 1 - powf(beta2, (float)c.step);
    launch(gpu.adamw, blocks_of(count, THREADS), 1,
           ARGUMENTS(&c.weight, &c.gradient, &c.mean, &c.variance, &count, &c.rate, &c.decay, &beta1, &beta2,
                     &epsilon, &correct_mean, &correct_variance));
}

static void cuda_close(void)
{
    driver_check(gpu.cu, gpu.cu->module_unload(gpu.module), "cuModuleUnload");
}

static const struct backend table = {
    .name = "cuda",
    .gather = cuda_gather,
    .scatter = cuda_scatter,
    .matmul = cuda_matmul,
    .bias_gelu = cuda_bias_gelu,
    .gelu_backward = cuda_gelu_backward,
    .column_sum = cuda_column_sum,
    .log_softmax = cuda_log_softmax,
    .log_softmax_backward = cuda_log_softmax_backward,
    .adamw = cuda_adamw,
    .close = cuda_close,
};

const struct backend *backend_cuda(const struct driver *cu)
{
    gpu.cu = cu;
    if (!cu->module_load || !cu->module_unload || !cu->module_function || !cu->launch) {
        fprintf(stderr, "train_lm: libcuda.so.1 cannot launch kernels; update the driver\n");
        return NULL;
    }
    driver_check(cu, cu->module_load(&gpu.module, train_lm_kernels),
                 "loading the kernels (built for sm_90, or PTX 7.5)");
#define X(kernel)                                                                                            \
    driver_check(cu, cu->module_function(&gpu.kernel, gpu.module, #kernel), "finding kernel " #kernel);
    KERNELS(X)
#undef X
    return &table;
}

#else

const struct backend *backend_cuda(const struct driver *cu)
{
    fprintf(stderr, "train_lm: built without nvcc, so without kernels for %s; build again where nvcc is\n",
            cu->name);
    return NULL;
}

#endif
