/*
 * kernels.cu - the model's arithmetic on a GPU (backend.h says what each kernel computes).  nvcc makes a fat
 * binary of it, which the program carries inside.  fp32, no atomics: sums have a fixed order.
 */

#define TILE    64 /* matrix product: a block makes TILE x TILE results, a thread 4 x 4 */
#define DEPTH   16
#define PADDED  (TILE + 4) /* so that neighbours along k fall into different banks */
#define THREADS 256

extern "C" __global__ void gather(float *out, const float *table, const int *ids, int width)
{
    long row = blockIdx.x;
    for (int i = threadIdx.x; i < width; i += blockDim.x)
        out[row * width + i] = table[(long)ids[row] * width + i];
}

extern "C" __global__ void scatter(float *table, const float *in, const int *order, const int *starts,
                                   int width)
{
    long entry = blockIdx.x;
    for (int i = threadIdx.x; i < width; i += blockDim.x) {
        float sum = 0;
        for (int at = starts[entry]; at < starts[entry + 1]; at++)
            sum += in[(long)order[at] * width + i];
        table[entry * width + i] = sum;
    }
}

/* One tile of a (rows = m) or b (columns = n) into shared memory, zeros outside; element (k, i) of the tile.
 */
__device__ static void load_tile(float (*tile)[PADDED], const float *from, int first, int count, int k0,
                                 int depth, long stride_i, long stride_k)
{
    bool along_k = stride_k == 1; /* neighbouring threads read neighbouring addresses */
    for (int at = threadIdx.x; at < TILE * DEPTH; at += THREADS) {
        int k = along_k ? at % DEPTH : at / TILE, i = along_k ? at / DEPTH : at % TILE;
        bool inside = first + i < count && k0 + k < depth;
        tile[k][i] = inside ? from[(first + i) * stride_i + (k0 + k) * stride_k] : 0.0f;
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
    matmul(float *out, const float *a, const float *b, int m, int n, int k, int transpose_a, int transpose_b,
           int add)
{
    __shared__ float tile_a[DEPTH][PADDED], tile_b[DEPTH][PADDED];
    int row0 = blockIdx.y * TILE, column0 = blockIdx.x * TILE;
    int my_row = threadIdx.x / 16 * 4, my_column = threadIdx.x % 16 * 4;
    float sum[4][4] = {};
    for (int k0 = 0; k0 < k; k0 += DEPTH) {
        load_tile(tile_a, a, row0, m, k0, k, transpose_a ? 1 : k, transpose_a ? m : 1);
        load_tile(tile_b, b, column0, n, k0, k, transpose_b ? k : 1, transpose_b ? 1 : n);
        __syncthreads();
        for (int d = 0; d < DEPTH; d++)
            for (int i = 0; i < 4; i++)
                for (int j = 0; j < 4; j++)
                    sum[i][j] += tile_a[d][my_row + i] * tile_b[d][my_column + j];
        __syncthreads();
    }
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 4; j++) {
            long row = row0 + my_row + i, column = column0 + my_column + j;
            if (row < m && column < n)
                out[row * n + column] = sum[i][j] + (add ? out[row * n + column] : 0.0f);
        }
}

#define GELU_A 0.7978845608f /* sqrt(2 / pi) */
#define GELU_B 0.044715f

extern "C" __global__ void bias_gelu(float *out, float *pre, const float *bias, const float *skip, long count,
                                     int width)
{
    long i = (long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count)
        return;
    float x = pre[i] += bias[i % width];
    out[i] = 0.5f * x * (1 + tanhf(GELU_A * (x + GELU_B * x * x * x))) + (skip ? skip[i] : 0.0f);
}

extern "C" __global__ void gelu_backward(float *dpre, const float *dout, const float *pre, long count)
{
    long i = (long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count)
        return;
    float x = pre[i], t = tanhf(GELU_A * (x + GELU_B * x * x * x));
    dpre[i] = dout[i] * (0.5f * (1 + t) + 0.5f * x * (1 - t * t) * GELU_A * (1 + 3 * GELU_B * x * x));
}

extern "C" __global__ void column_sum(float *out, const float *in, int rows, int width)
{
    int column = blockIdx.x * blockDim.x + threadIdx.x;
    if (column >= width)
        return;
    float sum = 0;
    for (long row = 0; row < rows; row++)
        sum += in[row * width + column];
    out[column] = sum;
}

/* The block's sum or maximum, in every thread. */
template <bool maximum> __device__ static float reduce(float value)
{
    __shared__ float part[THREADS];
    part[threadIdx.x] = value;
    __syncthreads();
    for (int half = THREADS / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) {
            float other = part[threadIdx.x + half];
            part[threadIdx.x] = maximum ? fmaxf(part[threadIdx.x], other) : part[threadIdx.x] + other;
        }
        __syncthreads();
    }
    float result = part[0];
    __syncthreads();
    return result;
}

extern "C" __global__ void log_softmax(float *out, float *losses, const float *in, const int *targets,
                                       int width)
{
    const float *x = in + (long)blockIdx.x * width;
    float *y = out + (long)blockIdx.x * width;
    float top = -INFINITY, sum = 0;
    for (int i = threadIdx.x; i < width; i += THREADS)
        top = fmaxf(top, x[i]);
    top = reduce<true>(top);
    for (int i = threadIdx.x; i < width; i += THREADS)
        sum += expf(x[i] - top);
    float shift = top + logf(reduce<false>(sum));
    for (int i = threadIdx.x; i < width; i += THREADS)
        y[i] = x[i] - shift;
    if (threadIdx.x == 0)
        losses[blockIdx.x] = shift - x[targets[blockIdx.x]];
}

extern "C" __global__ void log_softmax_backward(float *din, const float *log_probability, const int *targets,
                                                int rows, int width)
{
    const float *x = log_probability + (long)blockIdx.x * width;
    float *y = din + (long)blockIdx.x * width;
    for (int i = threadIdx.x; i < width; i += THREADS)
        y[i] = (expf(x[i]) - (i == targets[blockIdx.x] ? 1.0f : 0.0f)) / (float)rows;
}

extern "C" __global__ void adamw(float *weight, const float *gradient, float *mean, float *variance,
                                 long count, float rate, float decay, float beta1, float beta2, float epsilon,
                                 float correct_mean, float correct_variance)
{
    long i = (long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count)
        return;
    float g = gradient[i];
    float m = mean[i] = beta1 * mean[i] + (1 - beta1) * g;
    float v = variance[i] = beta2 * variance[i] + (1 - beta2) * g * g;
    weight[i] -= rate * (m / correct_mean / (sqrtf(v / correct_variance) + epsilon) + decay * weight[i]);
}
