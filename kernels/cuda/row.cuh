/*
 * row.cuh - the arithmetic of one row of logits: sums that can be put together in any grouping, the row's
 * factors, its loss, and the gradient of one logit, or of a thread's share of them.
 *
 * L is the type of the logits, T that of the bias.  Nothing here knows where a row lies.
 */
#ifndef LCE_ROW_CUH
#define LCE_ROW_CUH

#include <math_constants.h>

#include "device.cuh"

namespace lce
{

constexpr float log2e = 1.4426950408889634f;

__device__ inline float exp2_fast(float x)
{
#ifdef __CUDACC__
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
#else
    return exp2f(x);
#endif
}

/* Of a set of logits: the largest, the sum of exp(z - largest), and the sum of w z. */
struct Part {
    float largest, sum, weighed;
};

__device__ inline float finite_or_zero(float largest)
{
    return largest == -CUDART_INF_F ? 0 : largest;
}

__device__ inline Part combine(Part a, Part b)
{
    float largest = fmaxf(a.largest, b.largest), shift = finite_or_zero(largest);
    return {largest,
            a.sum * exp2_fast((a.largest - shift) * log2e) + b.sum * exp2_fast((b.largest - shift) * log2e),
            a.weighed + b.weighed};
}

__device__ inline Part warp_combine(Part part)
{
    for (int step = 16; step > 0; step /= 2) /* the smaller lane first, in both halves of each pair */
    {
        Part other = {__shfl_xor_sync(~0u, part.largest, step), __shfl_xor_sync(~0u, part.sum, step),
                      __shfl_xor_sync(~0u, part.weighed, step)};
        part = threadIdx.x & step ? combine(other, part) : combine(part, other);
    }
    return part;
}

/* Factors of one row: g_c = scale p_c - hard [c = label] - soft w_c, before the softcap's slope. */
struct Row {
    int64_t token;
    int32_t label;
    bool counted;
    float lse, scale, hard, soft;
};

__device__ inline Row row_of(const lce_softmax_args &a, int64_t row)
{
    Row r = {};
    r.token = a.index ? a.index[a.first + row] : a.first + row;
    r.counted = r.token >= 0 && a.state[r.token] == LCE_COUNTED;
    if (r.counted)
        r.label = static_cast<int32_t>(label_of(a.labels, r.token));
    return r;
}

__device__ inline float class_weight(const lce_softmax_args &a, int32_t c)
{
    return a.class_weights ? a.class_weights[c] : 1.0f;
}

/* The logit of class C as the loss sees it. */
template <typename T, bool General>
__device__ inline float logit(const lce_softmax_args &a, float z, int32_t c)
{
    if (General) {
        if (a.bias)
            z += to_float(static_cast<const T *>(a.bias)[c]);
        if (a.softcap > 0)
            z = a.softcap * tanhf(z / a.softcap);
    }
    return z;
}

__device__ inline float row_loss(const lce_softmax_args &a, const Row &r, const Part &all, float target)
{
    const float soft = a.smoothing / a.labels.vocab;
    float ce = (1 - a.smoothing) * class_weight(a, r.label) * (r.lse - target);
    if (soft > 0)
        ce += soft * (static_cast<float>(a.stats->all_weights) * r.lse - all.weighed);
    return ce * a.stats->loss_ce + a.z_loss * r.lse * r.lse * a.stats->loss_zl;
}

/* What the gradient of the row is made of: upstream and the mean's division are in it, for fp16 the scale
 * instead. */
__device__ inline void row_factors(const lce_softmax_args &a, Row &r)
{
    const float own = a.grad_output && a.reduction == 2 ? a.grad_output[r.token] : 1;
    const float ce = own * a.stats->u_ce, zl = own * a.stats->u_zl;
    r.hard = ce * (1 - a.smoothing) * class_weight(a, r.label);
    r.soft = ce * a.smoothing / a.labels.vocab;
    r.scale = r.hard + r.soft * static_cast<float>(a.stats->all_weights) + zl * 2 * a.z_loss * r.lse;
}

template <typename T>
__device__ inline float gradient(const lce_softmax_args &a, const Row &r, float raw, int32_t c)
{
    const float z = logit<T, true>(a, raw, c);
    float g = r.scale * exp2_fast((z - r.lse) * log2e);
    if (c == r.label)
        g -= r.hard;
    g -= r.soft * class_weight(a, c);
    if (a.softcap > 0)
        g *= 1 - z / a.softcap * (z / a.softcap);
    return g;
}

template <typename L, typename T>
__device__ inline Part part_of(const lce_softmax_args &a, const Pack<L> &v, int32_t base)
{
    Part part = {-CUDART_INF_F, 0, 0};
    float z[Pack<L>::count];
    widen(v, z);
#pragma unroll
    for (int i = 0; i < Pack<L>::count; i++) {
        const int32_t c = base + i;
        const bool inside = c < a.labels.vocab;
        z[i] = inside ? logit<T, true>(a, z[i], c) : -CUDART_INF_F;
        part.largest = fmaxf(part.largest, z[i]);
        if (a.smoothing > 0 && inside)
            part.weighed += class_weight(a, c) * z[i];
    }
    const float shift = finite_or_zero(part.largest);
#pragma unroll
    for (int i = 0; i < Pack<L>::count; i++)
        part.sum += exp2_fast((z[i] - shift) * log2e);
    return part;
}

template <typename L, typename T>
__device__ inline void gradient_of(const lce_softmax_args &a, const Row &r, const Pack<L> &v, int32_t base,
                                   float (&g)[Pack<L>::count])
{
    widen(v, g);
#pragma unroll
    for (int i = 0; i < Pack<L>::count; i++)
        g[i] = base + i < a.labels.vocab ? gradient<T>(a, r, g[i], base + i) : 0;
}

/* ---- the plain case, where what counts is how few instructions an element takes ---- */

__device__ inline float largest_of(const Pack<float> &v)
{
    float z[4];
    widen(v, z);
    return fmaxf(fmaxf(z[0], z[1]), fmaxf(z[2], z[3]));
}

/* two at a time, without widening */
template <typename T, typename Pair> __device__ inline float largest_of_pairs(const Pack<T> &v)
{
    const Pair *pair = reinterpret_cast<const Pair *>(v.word);
    const Pair most = __hmax2(__hmax2(pair[0], pair[1]), __hmax2(pair[2], pair[3]));
    return to_float(static_cast<T>(__hmax(most.x, most.y)));
}
__device__ inline float largest_of(const Pack<__half> &v)
{
    return largest_of_pairs<__half, __half2>(v);
}
__device__ inline float largest_of(const Pack<__nv_bfloat16> &v)
{
    return largest_of_pairs<__nv_bfloat16, __nv_bfloat162>(v);
}

template <typename L, int Vectors> __device__ inline float largest_of_all(const Pack<L> (&v)[Vectors])
{
    float largest = largest_of(v[0]);
#pragma unroll
    for (int k = 1; k < Vectors; k++)
        largest = fmaxf(largest, largest_of(v[k]));
    return largest;
}

/* Takes the label's part off, in the one thread of the row that has it. */
template <int Count> __device__ inline void subtract_label(const Row &r, int32_t base, float (&g)[Count])
{
    const int32_t at = r.label - base;
    if (static_cast<uint32_t>(at) < Count) {
#pragma unroll
        for (int i = 0; i < Count; i++)
            g[i] -= i == at ? r.hard : 0;
    }
}

/* The logits themselves stay in the registers: an exponential an element here, with one shift for all of the
 * thread's, and another one for the gradient. */
template <typename L, int Vectors> struct Plain {
    __device__ Part part(const Pack<L> (&v)[Vectors])
    {
        const float largest = largest_of_all(v), shift = -finite_or_zero(largest) * log2e;
        float sums[2] = {0, 0};
#pragma unroll
        for (int k = 0; k < Vectors; k++) {
            float z[Pack<L>::count];
            widen(v[k], z);
#pragma unroll
            for (int i = 0; i < Pack<L>::count; i++)
                sums[i % 2] += exp2_fast(fmaf(z[i], log2e, shift));
        }
        return {largest, sums[0] + sums[1], 0};
    }
    __device__ void begin(const Row &r) {}
    __device__ void gradient(const Row &r, const Pack<L> &v, int k, float (&g)[Pack<L>::count])
    {
        const float shift = -r.lse * log2e;
        widen(v, g);
#pragma unroll
        for (int i = 0; i < Pack<L>::count; i++)
            g[i] = r.scale * exp2_fast(fmaf(g[i], log2e, shift));
    }
};

/* The exponentials stay, over the largest logit of the thread; one factor then makes probabilities of them.
 * A thread that has nothing but -inf has zeros, and its factor is 0 too. */
template <typename L, int Vectors> struct Kept {
    float largest, factor, e[Vectors][Pack<L>::count];

    __device__ Part part(const Pack<L> (&v)[Vectors])
    {
        largest = largest_of_all(v);
        const float shift = -finite_or_zero(largest) * log2e;
        float sums[2] = {0, 0};
#pragma unroll
        for (int k = 0; k < Vectors; k++) {
            widen(v[k], e[k]);
#pragma unroll
            for (int i = 0; i < Pack<L>::count; i++)
                sums[i % 2] += e[k][i] = exp2_fast(fmaf(e[k][i], log2e, shift));
        }
        return {largest, sums[0] + sums[1], 0};
    }
    __device__ void begin(const Row &r)
    {
        factor = r.scale * exp2_fast((largest - r.lse) * log2e);
    }
    __device__ void gradient(const Row &r, const Pack<L> &, int k, float (&g)[Pack<L>::count])
    {
#pragma unroll
        for (int i = 0; i < Pack<L>::count; i++)
            g[i] = factor * e[k][i];
    }
};

} // namespace lce

#endif
