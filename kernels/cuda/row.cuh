/*
 * row.cuh - the arithmetic of one row of logits: partial sums that can be combined in any grouping, the row's
 * factors and loss, the gradient of a logit.  L is the type of the logits, T that of the bias.
 *
 * The label's logit is kept apart from the sums over the others.  Where the softmax is peaked, 1 - p of the
 * label and the loss are small.  A difference of two numbers near 1, or near the log-sum-exp, would lose
 * their digits; a sum of small numbers keeps them.  y is the label, m the largest of the other logits, H the
 * entropy:
 *
 *     S' = sum over c != y of exp(z_c - m)      1 - p_y = S' / Z,     Z = S' + exp(z_y - m)
 *     ce = lse - z_y = log(1 + exp(t)),         t = (m - z_y) + log S'
 *     H  = p_y ce + sum over c != y of p_c (lse - z_c)
 *        = p_y ce + (S' (lse - m) - M) / Z,     M = sum over c != y of (z_c - m) exp(z_c - m) <= 0
 */
#ifndef LCE_CUDA_ROW_CUH
#define LCE_CUDA_ROW_CUH

#include <math_constants.h>

#include "device.cuh"

namespace lce
{

constexpr float log2e = 1.4426950408889634f, ln2 = 0.6931471805599453f;

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

/* Partial sums over a set of logits: the largest, the sum of exp(z - largest), the sum of w z, and, where the
 * entropy matters, the sum of (z - largest) exp(z - largest).  The label's logit is in `weighed` alone. */
struct Part {
    float largest, sum, weighed, moment;
};

__device__ inline float finite_or_zero(float largest)
{
    return largest == -CUDART_INF_F ? 0 : largest;
}

/* The moment of PART relative to SHIFT instead of its largest logit; FACTOR is exp(largest - shift). */
__device__ inline float moved(const Part &part, float shift, float factor)
{
    return factor == 0 ? 0 : factor * (part.moment + (part.largest - shift) * part.sum);
}

__device__ inline Part combine(Part a, Part b)
{
    const float largest = fmaxf(a.largest, b.largest), shift = finite_or_zero(largest);
    const float of_a = exp2_fast((a.largest - shift) * log2e), of_b = exp2_fast((b.largest - shift) * log2e);
    return {largest, a.sum * of_a + b.sum * of_b, a.weighed + b.weighed,
            moved(a, shift, of_a) + moved(b, shift, of_b)};
}

__device__ inline float warp_most(float value)
{
    for (int step = 16; step > 0; step /= 2)
        value = fmaxf(value, __shfl_xor_sync(~0u, value, step));
    return value;
}
/* Gives the same bits in all lanes, because both lanes of a pair add the same two numbers. */
__device__ inline float warp_sum(float value)
{
    for (int step = 16; step > 0; step /= 2)
        value += __shfl_xor_sync(~0u, value, step);
    return value;
}

__device__ inline Part warp_combine(Part part)
{
    for (int step = 16; step > 0; step /= 2) /* the smaller lane's first, in both lanes of each pair */
    {
        Part other = {__shfl_xor_sync(~0u, part.largest, step), __shfl_xor_sync(~0u, part.sum, step),
                      __shfl_xor_sync(~0u, part.weighed, step), __shfl_xor_sync(~0u, part.moment, step)};
        part = threadIdx.x & step ? combine(other, part) : combine(part, other);
    }
    return part;
}

/* Factors of one row: p_c = exp(z_c - shift) inverse, and before the softcap's slope
 *     g_c = scale p_c - soft w_c,    of the label    g_y = rest p_y - hard others - soft w_y,
 * where scale = hard + rest, and others = 1 - p_y.  With the entropy's upstream gradient, `above`, not 0,
 * each g_c has above p_c (-log p_c - entropy) besides; -log p_c is (shift - z_c) + log_sum, of the label ce.
 */
struct Row {
    int64_t token;
    int32_t label; /* from the first class of this rank on; not among its classes if another has it */
    bool counted;
    float lse, shift, inverse, others;
    float log_sum, ce, entropy, above;
    float scale, rest, hard, soft;
    float at_label; /* g_y without softcap and class weights */
};

/* The token of a row.  An index contains counted tokens only. */
__device__ inline Row token_of(const lce_softmax_args &a, int64_t row)
{
    Row r = {};
    r.token = a.index ? a.index[a.first + row] : a.first + row;
    r.counted = a.index ? r.token >= 0 : a.state[r.token] == LCE_COUNTED;
    return r;
}

__device__ inline Row row_of(const lce_softmax_args &a, int64_t row)
{
    Row r = token_of(a, row);
    if (r.counted)
        r.label = static_cast<int32_t>(label_of(a.labels, r.token) - a.labels.begin);
    return r;
}

__device__ inline float class_weight(const lce_softmax_args &a, int32_t c)
{
    return a.class_weights ? a.class_weights[c] : 1.0f;
}

/* A logit as it lies in memory times 1 / temperature, rounded, whatever is done with it next. */
__device__ inline float nats(float z, float unit)
{
#ifdef __CUDACC__
    return __fmul_rn(z, unit);
#else
    return z * unit;
#endif
}

/* The logit of class C, with bias, softcap and temperature. */
template <typename T, bool General>
__device__ inline float logit(const lce_softmax_args &a, float z, int32_t c)
{
    if (General) {
        if (a.bias)
            z += to_float(static_cast<const T *>(a.bias)[c]);
        if (a.softcap > 0)
            z = a.softcap * tanhf(z / a.softcap);
        return z / a.temperature;
    }
    return nats(z, a.to_nats);
}

/* log(1 + exp(t)), t the logarithm of the others' odds */
__device__ inline float row_surprise(const Part &all, float target)
{
    const float t = (all.largest - target) + logf(all.sum);
    return fmaxf(t, 0) + log1pf(expf(-fabsf(t)));
}

/* After row_shares and with r.ce. */
__device__ inline float row_entropy(const Row &r, const Part &all)
{
    const float own = 1 - r.others, of_others = exp2_fast((all.largest - r.shift) * log2e) * r.inverse;
    float sum = own == 0 ? 0 : own * r.ce; /* ce may be infinite */
    if (all.sum != 0)
        sum += of_others * (all.sum * ((r.shift - all.largest) + r.log_sum) - all.moment);
    return sum;
}

__device__ inline float row_loss(const lce_softmax_args &a, const Row &r, const Part &all)
{
    const float soft = a.smoothing / a.labels.total;
    float ce = (1 - a.smoothing) * class_weight(a, r.label) * r.ce;
    if (soft > 0)
        ce += soft * (static_cast<float>(a.stats->all_weights) * r.lse - all.weighed);
    return ce * a.stats->loss_ce + a.z_loss * r.lse * r.lse * a.stats->loss_zl;
}

/* The row's factors of the gradient; they include the upstream gradient and the mean's division or, for
 * fp16, the scale instead. */
__device__ inline void row_factors(const lce_softmax_args &a, Row &r)
{
    const float own = (a.grad_output && a.reduction == 2 ? a.grad_output[r.token] : 1) / a.temperature;
    const float ce = own * a.stats->u_ce, zl = own * a.stats->u_zl;
    r.hard = ce * (1 - a.smoothing) * class_weight(a, r.label);
    r.soft = ce * a.smoothing / a.labels.total;
    r.rest = r.soft * static_cast<float>(a.stats->all_weights) + zl * 2 * a.z_loss * r.lse;
    r.scale = r.hard + r.rest;
    const float share = 1 - r.others;
    r.at_label = r.rest * share - r.hard * r.others;
    r.above = a.grad_entropy ? a.grad_entropy[r.token] * a.stats->u_entropy / a.temperature : 0;
    if (r.above != 0 && share != 0) /* else ce may be infinite */
        r.at_label += r.above * share * (r.ce - r.entropy);
}

/* Computes the factors of the row's probabilities from its sums. */
__device__ inline void row_shares(Row &r, const Part &all, float target)
{
    const float largest = fmaxf(all.largest, target);
    r.shift = finite_or_zero(largest);
    const float others = all.sum * exp2_fast((all.largest - r.shift) * log2e);
    const float sum = others + exp2_fast((target - r.shift) * log2e);
    r.inverse = 1 / sum;
    r.others = others * r.inverse;
    r.log_sum = logf(sum);
    r.lse = largest + r.log_sum;
}

template <typename T>
__device__ inline float gradient(const lce_softmax_args &a, const Row &r, float raw, int32_t c)
{
    const float z = logit<T, true>(a, raw, c);
    const float p = exp2_fast((z - r.shift) * log2e) * r.inverse;
    float g = c == r.label ? r.rest * p - r.hard * r.others : r.scale * p;
    g -= r.soft * class_weight(a, c);
    if (r.above != 0 && p != 0)
        g += r.above * p * ((c == r.label ? r.ce : (r.shift - z) + r.log_sum) - r.entropy);
    if (a.softcap > 0) {
        const float share = z * a.temperature / a.softcap;
        g *= 1 - share * share;
    }
    return g;
}

template <typename L, typename T>
__device__ inline Part part_of(const lce_softmax_args &a, const Row &r, const Pack<L> &v, int32_t base)
{
    const bool moments = a.moments;
    Part part = {-CUDART_INF_F, 0, 0, 0};
    float z[Pack<L>::count];
    widen(v, z);
#pragma unroll
    for (int i = 0; i < Pack<L>::count; i++) {
        const int32_t c = base + i;
        const bool inside = c < a.labels.vocab;
        z[i] = inside ? logit<T, true>(a, z[i], c) : -CUDART_INF_F;
        if (a.smoothing > 0 && inside)
            part.weighed += class_weight(a, c) * z[i];
        if (c == r.label)
            z[i] = -CUDART_INF_F;
        part.largest = fmaxf(part.largest, z[i]);
    }
    const float shift = finite_or_zero(part.largest);
#pragma unroll
    for (int i = 0; i < Pack<L>::count; i++) {
        const float e = exp2_fast((z[i] - shift) * log2e);
        part.sum += e;
        if (moments && e > 0) /* z may be -inf */
            part.moment += (z[i] - shift) * e;
    }
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

/* ---- rows in memory: loads that stop at the end of the vocabulary, the end of a row, stores ---- */

/* One per CTA: its warps' parts, then its own part at [0] of total. */
template <int Threads> struct Shared {
    Part warp[Threads / 32];
    Part total;
};

template <int Threads> __device__ inline Part block_combine(Part part, Shared<Threads> *shared)
{
    part = warp_combine(part);
    if (threadIdx.x % 32 == 0)
        shared->warp[threadIdx.x / 32] = part;
    __syncthreads();
    part = threadIdx.x % 32 < Threads / 32 ? shared->warp[threadIdx.x % 32] : Part{-CUDART_INF_F, 0, 0, 0};
    return warp_combine(part);
}

/* Replaces numbers beyond the vocabulary by -inf, which adds nothing and has gradient 0; COUNT numbers are
 * inside. */
template <typename T> __device__ inline void cut(Pack<T> &v, int32_t count)
{
    float infinities[Pack<T>::count];
#pragma unroll
    for (int i = 0; i < Pack<T>::count; i++)
        infinities[i] = -CUDART_INF_F;
    const uint32_t both = narrow<T>(infinities).x;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const int32_t left = count - i * Pack<T>::per_word;
        const uint32_t keep = left <= 0 ? 0 : left >= Pack<T>::per_word ? 0xffffffffu : 0xffffu;
        v.word[i] = (v.word[i] & keep) | (both & ~keep);
    }
}

template <typename T> __device__ inline Pack<T> load(const uint4 *line, int32_t vector, int32_t vocab)
{
    const int32_t inside = vocab - vector * Pack<T>::count;
    const uint4 raw = inside > 0 ? line[vector] : make_uint4(0, 0, 0, 0);
    Pack<T> v = {{raw.x, raw.y, raw.z, raw.w}};
    if (inside < Pack<T>::count)
        cut(v, inside);
    return v;
}

/* Writes the row's loss and entropy, in one thread of the row; then computes the gradient's factors, in every
 * thread.  Entropies are GENERAL. */
template <bool General = true>
__device__ inline void finish_row(const lce_softmax_args &a, Row &r, const Part &all, float target,
                                  bool writer)
{
    row_shares(r, all, target);
    const bool moments = General && a.moments;
    if (moments || (writer && a.loss))
        r.ce = row_surprise(all, target);
    if (moments)
        r.entropy = row_entropy(r, all);
    if (writer && a.loss)
        a.loss[r.token] = row_loss(a, r, all);
    if (General && writer && a.entropy)
        a.entropy[r.token] = r.entropy;
    if (a.gradients)
        row_factors(a, r);
}

/* Writes the gradients of VECTOR's logits as numbers of type T. */
template <typename T, int Count> __device__ inline void store(T *row, int32_t vector, const float (&g)[Count])
{
    if constexpr (Count == Pack<T>::count)
        reinterpret_cast<uint4 *>(row)[vector] = narrow<T>(g);
    else
        reinterpret_cast<uint2 *>(row)[vector] =
            make_uint2(narrow_word({g[0], g[1]}, T()), narrow_word({g[2], g[3]}, T()));
}

} // namespace lce

#endif
