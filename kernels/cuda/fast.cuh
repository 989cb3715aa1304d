/*
 * fast.cuh - passes over rows of logits in registers without bias, softcap and smoothing: few instructions
 * for an element.  The label's logit is taken out beforehand, and its gradient put in afterwards.
 *
 * The temperature is in the factors: to_nats = 1 / temperature, to_bits = log2e / temperature.  A sum is
 * relative to exp(largest), `largest` being the largest logit times to_nats, rounded; its exponentials are
 * relative to 2^at, `at` being that logit times to_bits, rounded.  They differ by that; `residue` is the
 * ratio.
 */
#ifndef LCE_CUDA_FAST_CUH
#define LCE_CUDA_FAST_CUH

#include "row.cuh"

namespace lce
{

__device__ inline float largest_of(const Pack<float> &v)
{
    float z[4];
    widen(v, z);
    return fmaxf(fmaxf(z[0], z[1]), fmaxf(z[2], z[3]));
}

/* two at a time, without conversion */
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

/* The gradient of the label's logit, in the one thread of the row that has it. */
template <int Count> __device__ inline void put_label(const Row &r, int32_t base, float (&g)[Count])
{
    const int32_t at = r.label - base;
    if (static_cast<uint32_t>(at) < Count) {
#pragma unroll
        for (int i = 0; i < Count; i++)
            g[i] = i == at ? r.at_label : g[i];
    }
}

/* Moves number AT of the pack, if it exists, to *TARGET and leaves -inf, which adds nothing to a sum of
 * exponentials.  It has no branches and only constant indices, so that the pack stays in registers. */
template <typename T> __device__ inline void take_out(Pack<T> &v, int32_t at, float *target)
{
    if (static_cast<uint32_t>(at) >= static_cast<uint32_t>(Pack<T>::count))
        return;
    float z[Pack<T>::count], infinities[Pack<T>::count];
    widen(v, z);
#pragma unroll
    for (int i = 0; i < Pack<T>::count; i++) {
        *target = i == at ? z[i] : *target;
        infinities[i] = -CUDART_INF_F;
    }
    const uint32_t both = narrow<T>(infinities).x;
    const uint32_t mask = sizeof(T) == 4 ? 0xffffffffu : at % 2 ? 0xffff0000u : 0xffffu;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const uint32_t away = at / Pack<T>::per_word == i ? mask : 0;
        v.word[i] = (v.word[i] & ~away) | (both & away);
    }
}

/* 2^(z to_bits - at), rounded once before the exponential: the product is exact inside a fused multiply-add.
 * Logits must be below 2.3e38 in size, so that it is finite. */
__device__ inline float power(float z, float bits, float at)
{
    return exp2_fast(fmaf(z, bits, -at));
}
/* 2^at / exp(LARGEST): a common factor of all exponentials, as both are rounded. */
__device__ inline float residue(float largest, float at)
{
    return exp2_fast(fmaf(-largest, log2e, at));
}

/* Keeps the logits in registers: one exponential per element for the sum, relative to the largest logit of
 * some threads, and another one for the gradient, relative to the row's largest. */
template <typename L, int Vectors> struct Plain {
    float unit, bits, at, factor;

    __device__ explicit Plain(const lce_softmax_args &a) : unit(a.to_nats), bits(a.to_bits) {}
    __device__ Part sums(const Pack<L> (&v)[Vectors], float most)
    {
        const float largest = nats(finite_or_zero(most), unit);
        at = finite_or_zero(most) * bits;
        float sums[2] = {0, 0};
#pragma unroll
        for (int k = 0; k < Vectors; k++) {
            float z[Pack<L>::count];
            widen(v[k], z);
#pragma unroll
            for (int i = 0; i < Pack<L>::count; i++)
                sums[i % 2] += power(z[i], bits, at);
        }
        return {nats(most, unit), (sums[0] + sums[1]) * residue(largest, at), 0, 0};
    }
    __device__ void begin(const Row &r, float)
    {
        at = r.shift * log2e;
        factor = r.scale * r.inverse * residue(r.shift, at);
    }
    __device__ void gradient(const Pack<L> &v, int, float (&g)[Pack<L>::count])
    {
        widen(v, g);
#pragma unroll
        for (int i = 0; i < Pack<L>::count; i++)
            g[i] = factor * power(g[i], bits, at);
    }
};

/* Keeps the exponentials in registers, relative to the largest logit of some threads; one factor then turns
 * them into probabilities.  If these threads have only -inf, the exponentials are 0 and so is the factor. */
template <typename L, int Vectors> struct Kept {
    float unit, bits, at, factor, e[Vectors][Pack<L>::count];

    __device__ explicit Kept(const lce_softmax_args &a) : unit(a.to_nats), bits(a.to_bits) {}
    __device__ Part sums(const Pack<L> (&v)[Vectors], float most)
    {
        const float largest = nats(finite_or_zero(most), unit);
        at = finite_or_zero(most) * bits;
        float sums[2] = {0, 0};
#pragma unroll
        for (int k = 0; k < Vectors; k++) {
            widen(v[k], e[k]);
#pragma unroll
            for (int i = 0; i < Pack<L>::count; i++)
                sums[i % 2] += e[k][i] = power(e[k][i], bits, at);
        }
        return {nats(most, unit), (sums[0] + sums[1]) * residue(largest, at), 0, 0};
    }
    __device__ void begin(const Row &r, float most)
    {
        factor = r.scale * r.inverse * exp2_fast((nats(most, unit) - r.shift) * log2e) *
                 residue(nats(finite_or_zero(most), unit), at);
    }
    __device__ void gradient(const Pack<L> &, int k, float (&g)[Pack<L>::count])
    {
#pragma unroll
        for (int i = 0; i < Pack<L>::count; i++)
            g[i] = factor * e[k][i];
    }
};

/* As Plain, with the moment beside the sum and the entropy's share of the gradient:
 *
 *     p_c (scale + above (log_sum - entropy - away)),      away = z_c - shift
 *
 * Where one logit is far above all others the entropy is tiny, and 0 times its own sum has to be 0.  So here
 * each logit times to_nats is rounded before the largest is subtracted, as the largest itself is (`nats`).
 * FLOOR stands for logits of -inf, where 0 times -inf must be 0: exp(FLOOR) is 0.  NaNs stay in the
 * exponential. */
template <typename L, int Vectors> struct Entropic {
    float unit, shift, offset, slope;
    static constexpr float floor = -140;

    __device__ explicit Entropic(const lce_softmax_args &a) : unit(a.to_nats) {}
    __device__ Part sums(const Pack<L> (&v)[Vectors], float most)
    {
        const float largest = nats(finite_or_zero(most), unit);
        float sums[2] = {0, 0}, moments[2] = {0, 0};
#pragma unroll
        for (int k = 0; k < Vectors; k++) {
            float z[Pack<L>::count];
            widen(v[k], z);
#pragma unroll
            for (int i = 0; i < Pack<L>::count; i++) {
                const float away = nats(z[i], unit) - largest, e = exp2_fast(away * log2e);
                sums[i % 2] += e;
                moments[i % 2] = fmaf(fmaxf(away, floor), e, moments[i % 2]);
            }
        }
        return {nats(most, unit), sums[0] + sums[1], 0, moments[0] + moments[1]};
    }
    __device__ void begin(const Row &r, float)
    {
        shift = r.shift;
        offset = r.scale * r.inverse;
        slope = 0;
        if (r.above != 0) {
            offset += r.above * r.inverse * (r.log_sum - r.entropy);
            slope = -r.above * r.inverse;
        }
    }
    __device__ void gradient(const Pack<L> &v, int, float (&g)[Pack<L>::count])
    {
        widen(v, g);
#pragma unroll
        for (int i = 0; i < Pack<L>::count; i++) {
            const float away = nats(g[i], unit) - shift;
            g[i] = exp2_fast(away * log2e) * fmaf(slope, fmaxf(away, floor), offset);
        }
    }
};

} // namespace lce

#endif
