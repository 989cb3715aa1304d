/*
 * naive.cu - the passes of the usual eager loss, each over a whole matrix of its own:
 *
 *     logits -> upcast (fp32) -> log_probability (fp32)
 *     its gradient (fp32, over upcast) -> g (in the logits' type)
 *
 * One CTA per row.  Deliberately simple: it is the baseline.
 */
#include <math_constants.h>

#include "device.cuh"

namespace lce
{

struct NaiveRow {
    int64_t row, label;
    bool counted;
};

__device__ inline NaiveRow naive_row(const lce_softmax_args &a)
{
    const int64_t row = blockIdx.x;
    const bool counted = a.state[row] == LCE_COUNTED;
    return {row, counted ? label_of(a.labels, row) : 0, counted};
}

__device__ inline float naive_weight(const lce_softmax_args &a, int64_t c)
{
    return a.class_weights ? a.class_weights[c] : 1;
}

__device__ inline float naive_loss(const lce_softmax_args &a, const NaiveRow &r, const float *log_probability,
                                   float lse, float weighed)
{
    const float ce = (1 - a.smoothing) * naive_weight(a, r.label) * -log_probability[r.label] -
                     a.smoothing / a.labels.vocab * weighed;
    return ce * a.stats->loss_ce + a.z_loss * lse * lse * a.stats->loss_zl;
}

} // namespace lce

template <typename L, typename T> __device__ void upcast(const lce_naive_args &n)
{
    const lce_softmax_args &a = n.softmax;
    const int64_t row = blockIdx.x, vocab = a.labels.vocab;
    for (int64_t c = threadIdx.x; c < vocab; c += blockDim.x) {
        float z = lce::to_float(static_cast<const L *>(a.logits)[row * a.stride + c]);
        if (a.bias)
            z += lce::to_float(static_cast<const T *>(a.bias)[c]);
        n.upcast[row * vocab + c] = (a.softcap > 0 ? a.softcap * tanhf(z / a.softcap) : z) / a.temperature;
    }
}

extern "C" __global__ void lce_naive_log_softmax(const lce_naive_args n)
{
    const lce_softmax_args &a = n.softmax;
    const lce::NaiveRow r = lce::naive_row(a);
    const float *z = n.upcast + r.row * a.labels.vocab;
    float *out = n.log_probability + r.row * a.labels.vocab, largest = -CUDART_INF_F, sum = 0, weighed = 0;
    for (int64_t c = threadIdx.x; c < a.labels.vocab; c += blockDim.x)
        largest = fmaxf(largest, z[c]);
    largest = lce::block_max(largest);
    for (int64_t c = threadIdx.x; c < a.labels.vocab; c += blockDim.x)
        sum += expf(z[c] - largest);
    const float log_sum = logf(lce::block_sum(sum)), lse = largest + log_sum;
    for (int64_t c = threadIdx.x; c < a.labels.vocab; c += blockDim.x) {
        out[c] = z[c] - largest - log_sum; /* in this order, as in PyTorch */
        weighed += a.smoothing > 0 ? lce::naive_weight(a, c) * out[c] : 0;
    }
    weighed = lce::block_sum(weighed); /* also a barrier: out is written */
    if (threadIdx.x == 0) {
        n.lse[r.row] = lse;
        if (a.loss && r.counted)
            a.loss[r.row] = lce::naive_loss(a, r, out, lse, weighed);
    }
}

extern "C" __global__ void lce_naive_gradient(const lce_naive_args n)
{
    const lce_softmax_args &a = n.softmax;
    const lce::NaiveRow r = lce::naive_row(a);
    const float own = (a.grad_output && a.reduction == 2 ? a.grad_output[r.row] : 1) / a.temperature;
    const float ce = own * a.stats->u_ce, zl = own * a.stats->u_zl;
    const float hard = ce * (1 - a.smoothing) * (r.counted ? lce::naive_weight(a, r.label) : 0);
    const float soft = ce * a.smoothing / a.labels.vocab;
    const float scale =
        hard + soft * static_cast<float>(a.stats->all_weights) + zl * 2 * a.z_loss * n.lse[r.row];
    for (int64_t c = threadIdx.x; c < a.labels.vocab; c += blockDim.x) {
        const float log_p = n.log_probability[r.row * a.labels.vocab + c], z = log_p + n.lse[r.row];
        float g = scale * expf(log_p) - (c == r.label ? hard : 0) - soft * lce::naive_weight(a, c);
        if (a.softcap > 0) {
            const float share = z * a.temperature / a.softcap;
            g *= 1 - share * share;
        }
        n.upcast[r.row * a.labels.vocab + c] = r.counted ? g : 0;
    }
}

template <typename T> __device__ void cast(const lce_naive_args &n)
{
    const int64_t row = blockIdx.x, vocab = n.softmax.labels.vocab;
    for (int64_t c = threadIdx.x; c < n.softmax.stride; c += blockDim.x)
        static_cast<T *>(n.g)[row * n.softmax.stride + c] =
            lce::from_float<T>(c < vocab ? n.upcast[row * vocab + c] : 0);
}

#define UPCAST(type, L, T)                                                                                   \
    extern "C" __global__ void lce_naive_upcast_##type(const lce_naive_args n)                               \
    {                                                                                                        \
        upcast<L, T>(n);                                                                                     \
    }
#define KERNELS(type, T)                                                                                     \
    UPCAST(type, T, T)                                                                                       \
    extern "C" __global__ void lce_naive_cast_##type(const lce_naive_args n)                                 \
    {                                                                                                        \
        cast<T>(n);                                                                                          \
    }

KERNELS(f32, float)
KERNELS(f16, __half)
KERNELS(bf16, __nv_bfloat16)
UPCAST(wide_f16, float, __half)
UPCAST(wide_bf16, float, __nv_bfloat16)
