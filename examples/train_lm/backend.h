/*
 * backend.h - the arithmetic of the model, as a table of functions over device addresses: backend_cuda
 * launches the kernels of kernels.cu; backend_cpu computes the same on the CPU, for the simulated driver.
 *
 * Matrices are fp32, row-major, dense.  No function allocates device memory.  Sums have a fixed order: the
 * same seed gives the same losses on the same device.
 */
#ifndef EXAMPLES_TRAIN_LM_BACKEND_H
#define EXAMPLES_TRAIN_LM_BACKEND_H

#include "driver.h"

struct matmul {
    CUdeviceptr out, a, b; /* out[m,n] = a[m,k] b[k,n] */
    int m, n, k;
    bool transpose_a; /* a is stored [k,m] */
    bool transpose_b; /* b is stored [n,k] */
    bool add;         /* out += instead of out = */
};

struct adamw {
    CUdeviceptr weight, gradient, mean, variance;
    size_t count;
    float rate, decay;
    int step; /* from 1 */
};

struct backend {
    const char *name;
    /* out[r,:] = table[ids[r],:] for ROWS rows of WIDTH */
    void (*gather)(CUdeviceptr out, CUdeviceptr table, CUdeviceptr ids, int rows, int width);
    /* table[v,:] = sum of in[r,:] over the rows r = order[starts[v] .. starts[v+1]) */
    void (*scatter)(CUdeviceptr table, CUdeviceptr in, CUdeviceptr order, CUdeviceptr starts, int entries,
                    int width);
    void (*matmul)(const struct matmul *call);
    /* pre += bias (a row); out = gelu(pre), plus SKIP where that is not 0 */
    void (*bias_gelu)(CUdeviceptr out, CUdeviceptr pre, CUdeviceptr bias, CUdeviceptr skip, int rows,
                      int width);
    /* dpre = dout * gelu'(pre) */
    void (*gelu_backward)(CUdeviceptr dpre, CUdeviceptr dout, CUdeviceptr pre, size_t count);
    /* out[c] = sum over rows of in[r,c] */
    void (*column_sum)(CUdeviceptr out, CUdeviceptr in, int rows, int width);
    /* out = log softmax of each row; losses[r] = -out[r, targets[r]] */
    void (*log_softmax)(CUdeviceptr out, CUdeviceptr losses, CUdeviceptr in, CUdeviceptr targets, int rows,
                        int width);
    /* din = (exp(log_probability) - one at the target) / rows */
    void (*log_softmax_backward)(CUdeviceptr din, CUdeviceptr log_probability, CUdeviceptr targets, int rows,
                                 int width);
    void (*adamw)(const struct adamw *call);
    void (*close)(void);
};

#define ADAMW_BETA1   0.9f
#define ADAMW_BETA2   0.99f
#define ADAMW_EPSILON 1e-8f

/* NULL, with one line said, where the back end cannot be had. */
const struct backend *backend_cpu(void);
const struct backend *backend_cuda(const struct driver *cu);

#endif
