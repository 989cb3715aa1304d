/*
 * llm_like.cu - a language model trained in CUDA C++ alone, built as such programs are: one cudaMalloc each
 * for parameters, activations, gradients and optimizer state, cuBLAS for the products, kernels of its own
 * between them, a cudaFuncSetAttribute before each launch that takes much shared memory, an NVTX range around
 * everything.
 *
 *      nvcc -O2 -std=c++17 -o llm_like llm_like.cu -lcublas
 *      llm_like FACTS [STEPS]
 *
 * The model: an embedding, LAYERS blocks x += W2 gelu(W1 layernorm(x)), an output layer with the embedding's
 * weights, cross-entropy over the next token of a text made here; Adam.  Prints the loss of each step to its
 * last bit (fp32, no atomics on floats but in a fixed order: two runs print the same) and writes to FACTS, as
 * JSON: the bytes that it asked cudaMalloc for (held_bytes) and the milliseconds of each step (step_ms).
 */
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include <cublas_v2.h>
#include <cuda_runtime.h>
#include <nvtx3/nvToolsExt.h>

constexpr int LAYERS = 12, C = 512, HIDDEN = 4 * C, V = 4096, T = 2048;

#define CHECK(call)                                                                                          \
    do {                                                                                                     \
        int status_ = (int)(call);                                                                           \
        if (status_ != 0) {                                                                                  \
            fprintf(stderr, "llm_like.cu:%d: %s: error %d\n", __LINE__, #call, status_);                     \
            exit(1);                                                                                         \
        }                                                                                                    \
    } while (0)

struct Range {
    explicit Range(const char *name) { nvtxRangePushA(name); }
    ~Range() { nvtxRangePop(); }
};

static size_t held;
static cublasHandle_t blas;

static float *device_floats(size_t n)
{
    float *p;
    CHECK(cudaMalloc(&p, n * sizeof(float)));
    held += n * sizeof(float);
    CHECK(cudaMemset(p, 0, n * sizeof(float)));
    return p;
}

/* ---- kernels: one block a row, unless they say otherwise ---- */

__device__ float sum_of_block(float value, float *shared)
{
    shared[threadIdx.x] = value;
    __syncthreads();
    for (int half = blockDim.x / 2; half > 0; half /= 2) {
        if (threadIdx.x < half)
            shared[threadIdx.x] += shared[threadIdx.x + half];
        __syncthreads();
    }
    float sum = shared[0];
    __syncthreads();
    return sum;
}

__global__ void embed(float *x, const float *table, const int *token)
{
    for (int i = threadIdx.x; i < C; i += blockDim.x)
        x[blockIdx.x * C + i] = table[token[blockIdx.x] * C + i];
}

/* The row lies in dynamic shared memory, behind the threads' sums. */
__global__ void layernorm(float *y, float *mean, float *scale, const float *x)
{
    extern __shared__ float shared[];
    float *row = shared + blockDim.x, sum = 0, squares = 0;
    for (int i = threadIdx.x; i < C; i += blockDim.x)
        sum += row[i] = x[blockIdx.x * C + i];
    float m = sum_of_block(sum, shared) / C;
    for (int i = threadIdx.x; i < C; i += blockDim.x)
        squares += (row[i] - m) * (row[i] - m);
    float s = rsqrtf(sum_of_block(squares, shared) / C + 1e-5f);
    for (int i = threadIdx.x; i < C; i += blockDim.x)
        y[blockIdx.x * C + i] = (row[i] - m) * s;
    if (threadIdx.x == 0)
        mean[blockIdx.x] = m, scale[blockIdx.x] = s;
}

/* dx += the gradient through the layernorm whose output had the gradient dy. */
__global__ void layernorm_back(float *dx, const float *dy, const float *x, const float *mean,
                               const float *scale)
{
    extern __shared__ float shared[];
    float m = mean[blockIdx.x], s = scale[blockIdx.x], sum = 0, product = 0;
    for (int i = threadIdx.x; i < C; i += blockDim.x) {
        float d = dy[blockIdx.x * C + i];
        sum += d;
        product += d * (x[blockIdx.x * C + i] - m) * s;
    }
    sum = sum_of_block(sum, shared) / C;
    product = sum_of_block(product, shared) / C;
    for (int i = threadIdx.x; i < C; i += blockDim.x) {
        size_t at = (size_t)blockIdx.x * C + i;
        dx[at] += s * (dy[at] - sum - (x[at] - m) * s * product);
    }
}

/* One thread an element. */
__global__ void gelu(float *y, const float *x, size_t n)
{
    size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    if (i < n)
        y[i] = 0.5f * x[i] * (1 + erff(x[i] * 0.70710678f));
}

__global__ void gelu_back(float *d, const float *x, size_t n)
{
    size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    if (i < n)
        d[i] *= 0.5f * (1 + erff(x[i] * 0.70710678f)) + x[i] * 0.39894228f * expf(-0.5f * x[i] * x[i]);
}

/* Logits become their own gradient; the loss of each row goes to LOSS. */
__global__ void cross_entropy(float *logits, float *loss, const int *target)
{
    extern __shared__ float shared[];
    float *row = logits + (size_t)blockIdx.x * V, sum = 0;
    for (int i = threadIdx.x; i < V; i += blockDim.x)
        sum += expf(row[i]); /* small numbers: the model is young */
    sum = sum_of_block(sum, shared);
    if (threadIdx.x == 0)
        loss[blockIdx.x] = logf(sum) - row[target[blockIdx.x]];
    __syncthreads();
    for (int i = threadIdx.x; i < V; i += blockDim.x)
        row[i] = (expf(row[i]) / sum - (i == target[blockIdx.x])) / T;
}

/* One block a column, over the rows in order: no atomics. */
__global__ void embed_back(float *table, const float *dx, const int *token)
{
    if (threadIdx.x == 0)
        for (int row = 0; row < T; row++)
            table[token[row] * C + blockIdx.x] += dx[row * C + blockIdx.x];
}

__global__ void adam(float *w, float *m, float *v, const float *g, size_t n, float step)
{
    size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    m[i] = 0.9f * m[i] + 0.1f * g[i];
    v[i] = 0.95f * v[i] + 0.05f * g[i] * g[i];
    w[i] -= 1e-3f * (m[i] / (1 - powf(0.9f, step))) / (sqrtf(v[i] / (1 - powf(0.95f, step))) + 1e-8f);
}

/* ---- the model ---- */

struct Model {
    size_t parameters = (size_t)V * C + (size_t)LAYERS * 2 * C * HIDDEN;
    size_t layer_floats = (size_t)T * (2 * C + 2 * HIDDEN + 2);
    float *w = device_floats(parameters), *g = device_floats(parameters);
    float *acts = device_floats(LAYERS * layer_floats + (size_t)T * C),
          *logits = device_floats((size_t)T * V);
    float *dx = device_floats((size_t)T * C), *dn = device_floats((size_t)T * C),
          *dh = device_floats((size_t)T * HIDDEN);
    float *loss = device_floats(T), *m = nullptr, *v = nullptr;
    int *token, *target;

    float *w1(float *base, int l) { return base + (size_t)V * C + (size_t)l * 2 * C * HIDDEN; }
    float *w2(float *base, int l) { return w1(base, l) + (size_t)C * HIDDEN; }
    /* of a layer: its input, the normalized input, W1's product, its gelu, mean and scale */
    float *input(int l) { return acts + l * layer_floats; }
    float *normal(int l) { return input(l) + (size_t)T * C; }
    float *product(int l) { return normal(l) + (size_t)T * C; }
    float *active(int l) { return product(l) + (size_t)T * HIDDEN; }
    float *means(int l) { return active(l) + (size_t)T * HIDDEN; }
    float *last() { return acts + LAYERS * layer_floats; }
};

/* Row-major: out[rows, columns] (+)= a[rows, inner] b[inner, columns], either transposed as it lies. */
static void product(float *out, const float *a, bool ta, const float *b, bool tb, int rows, int columns,
                    int inner, bool add)
{
    float one = 1, beta = add;
    CHECK(cublasSgemm(blas, tb ? CUBLAS_OP_T : CUBLAS_OP_N, ta ? CUBLAS_OP_T : CUBLAS_OP_N, columns, rows,
                      inner, &one, b, tb ? inner : columns, a, ta ? rows : inner, &beta, out, columns));
}

static unsigned blocks_for(size_t n)
{
    return (unsigned)((n + 255) / 256);
}

static void forward(Model &m)
{
    Range range("forward");
    constexpr size_t hidden_floats = (size_t)T * HIDDEN, shared = (256 + C) * sizeof(float);
    embed<<<T, 256>>>(m.input(0), m.w, m.token);
    for (int l = 0; l < LAYERS; l++) {
        Range layer("layer");
        float *next = l + 1 < LAYERS ? m.input(l + 1) : m.last();
        CHECK(cudaFuncSetAttribute(layernorm, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared));
        layernorm<<<T, 256, shared>>>(m.normal(l), m.means(l), m.means(l) + T, m.input(l));
        product(m.product(l), m.normal(l), false, m.w1(m.w, l), false, T, HIDDEN, C, false);
        gelu<<<blocks_for(hidden_floats), 256>>>(m.active(l), m.product(l), hidden_floats);
        CHECK(cudaMemcpyAsync(next, m.input(l), (size_t)T * C * sizeof(float), cudaMemcpyDeviceToDevice));
        product(next, m.active(l), false, m.w2(m.w, l), false, T, C, HIDDEN, true);
    }
}

static void loss_of(Model &m)
{
    Range range("logits");
    product(m.logits, m.last(), false, m.w, true, T, V, C, false);
    cross_entropy<<<T, 256, 256 * sizeof(float)>>>(m.logits, m.loss, m.target);
}

static void backward(Model &m)
{
    Range range("backward");
    constexpr size_t hidden_floats = (size_t)T * HIDDEN, shared = (256 + C) * sizeof(float);
    CHECK(cudaMemsetAsync(m.g, 0, m.parameters * sizeof(float)));
    product(m.dx, m.logits, false, m.w, false, T, C, V, false);
    product(m.g, m.logits, true, m.last(), false, V, C, T, true);
    for (int l = LAYERS - 1; l >= 0; l--) {
        Range layer("layer");
        product(m.w2(m.g, l), m.active(l), true, m.dx, false, HIDDEN, C, T, false);
        product(m.dh, m.dx, false, m.w2(m.w, l), true, T, HIDDEN, C, false);
        gelu_back<<<blocks_for(hidden_floats), 256>>>(m.dh, m.product(l), hidden_floats);
        product(m.w1(m.g, l), m.normal(l), true, m.dh, false, C, HIDDEN, T, false);
        product(m.dn, m.dh, false, m.w1(m.w, l), true, T, C, HIDDEN, false);
        CHECK(cudaFuncSetAttribute(layernorm_back, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared));
        layernorm_back<<<T, 256, shared>>>(m.dx, m.dn, m.input(l), m.means(l), m.means(l) + T);
    }
    embed_back<<<C, 32>>>(m.g, m.dx, m.token);
}

static void update(Model &m, int step)
{
    Range range("optimizer");
    if (!m.m) /* at the first step, as such programs do */
        m.m = device_floats(m.parameters), m.v = device_floats(m.parameters);
    adam<<<blocks_for(m.parameters), 256>>>(m.w, m.m, m.v, m.g, m.parameters, (float)step);
}

static void begin_model(Model &m)
{
    std::vector<float> weights(m.parameters);
    std::vector<int> text(T + 1);
    unsigned long long state = 1;
    auto random = [&] {
        return (unsigned)((state = state * 6364136223846793005ull + 1442695040888963407ull) >> 33);
    };
    for (float &w : weights)
        w = ((float)(random() % 20001) / 10000 - 1) * 0.02f;
    for (int i = 0; i <= T; i++)
        text[i] = (int)(i % 7 ? (text[i - 1] * 31 + 7) % V : random() % V);
    CHECK(cudaMalloc(&m.token, T * sizeof(int)));
    CHECK(cudaMalloc(&m.target, T * sizeof(int)));
    held += 2 * T * sizeof(int);
    CHECK(cudaMemcpy(m.w, weights.data(), weights.size() * sizeof(float), cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(m.token, text.data(), T * sizeof(int), cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(m.target, text.data() + 1, T * sizeof(int), cudaMemcpyHostToDevice));
}

static double train_step(Model &m, int step)
{
    std::vector<float> loss(T);
    auto begin = std::chrono::steady_clock::now();
    forward(m);
    loss_of(m);
    backward(m);
    update(m, step);
    CHECK(cudaMemcpy(loss.data(), m.loss, T * sizeof(float), cudaMemcpyDeviceToHost));
    double ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count(),
           sum = 0;
    for (float l : loss)
        sum += l;
    printf("step %d loss %a\n", step, sum / T);
    return ms;
}

int main(int argc, char **argv)
{
    int steps = argc > 2 ? atoi(argv[2]) : 60;
    FILE *facts = argc > 1 ? fopen(argv[1], "w") : nullptr;
    if (!facts) {
        fprintf(stderr, "llm_like: usage: llm_like FACTS [STEPS]\n");
        return 2;
    }
    CHECK(cudaSetDevice(0));
    CHECK(cublasCreate(&blas));
    CHECK(cublasSetMathMode(blas, CUBLAS_PEDANTIC_MATH));
    Model m;
    begin_model(m);
    std::vector<double> ms;
    for (int step = 1; step <= steps; step++) {
        Range range("step");
        ms.push_back(train_step(m, step));
    }
    fprintf(facts, "{\"held_bytes\": %zu, \"step_ms\": [", held);
    for (size_t i = 0; i < ms.size(); i++)
        fprintf(facts, "%s%.3f", i ? ", " : "", ms[i]);
    fputs("]}\n", facts);
    return fclose(facts) != 0;
}
