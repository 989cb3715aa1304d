/*
 * options.cuh - a pass over rows of logits in registers with all options: bias, softcap, temperature, class
 * weights, smoothing, entropies.
 *
 * Logits stay in registers as they lie in memory; what the options make of them is computed again in each
 * sweep (the largest, the sums, the gradient), as registers are scarcer than arithmetic.  Whether an option
 * is given is the same for all threads, so its branch costs next to nothing.
 */
#ifndef LCE_CUDA_OPTIONS_CUH
#define LCE_CUDA_OPTIONS_CUH

#include "fast.cuh"

namespace lce
{

/* Adds the bias of the classes from BASE on, of which there are VOCAB in all, to a vector's logits. */
template <typename T, int Count>
__device__ inline void add_bias(const void *array, int32_t base, int32_t vocab, float (&z)[Count])
{
    const T *bias = static_cast<const T *>(array) + base;
    if (base + Count > vocab) {
#pragma unroll
        for (int i = 0; i < Count; i++)
            z[i] += base + i < vocab ? to_float(bias[i]) : 0;
    } else if constexpr (Count == Pack<T>::count) {
        const uint4 raw = *reinterpret_cast<const uint4 *>(bias);
        const Pack<T> pack = {{raw.x, raw.y, raw.z, raw.w}};
        float wide[Count];
        widen(pack, wide);
#pragma unroll
        for (int i = 0; i < Count; i++)
            z[i] += wide[i];
    } else {
        const uint2 raw = *reinterpret_cast<const uint2 *>(bias);
        const float2 low = widen_word(raw.x, T()), high = widen_word(raw.y, T());
        z[0] += low.x, z[1] += low.y, z[2] += high.x, z[3] += high.y;
    }
}

__device__ inline float softcap_share(const lce_softmax_args &a, float z)
{
    return tanhf(z * a.per_softcap);
}

/* A logit that has its bias, as the softmax has it. */
__device__ inline float optioned(const lce_softmax_args &a, float z)
{
    if (a.softcap > 0)
        z = a.softcap * softcap_share(a, z);
    return isinf(a.to_nats) ? z / a.temperature : nats(z, a.to_nats);
}

template <typename L, typename T, int Vectors> struct General {
    const lce_softmax_args &a;
    int32_t label;
    float shift, offset, slope, soft;
    static constexpr int count = Pack<L>::count;

    __device__ General(const lce_softmax_args &arguments, int32_t own) : a(arguments), label(own) {}

    /* The logits from class BASE on, -inf beyond the vocabulary and for the label. */
    __device__ void logits(const Pack<L> &v, int32_t base, float (&z)[count])
    {
        widen(v, z);
        if (a.bias)
            add_bias<T>(a.bias, base, a.labels.vocab, z);
        if (a.softcap > 0) {
#pragma unroll
            for (int i = 0; i < count; i++)
                z[i] = inside(base + i) ? a.softcap * softcap_share(a, z[i]) : -CUDART_INF_F;
        }
        if (isinf(a.to_nats)) {
#pragma unroll
            for (int i = 0; i < count; i++)
                z[i] /= a.temperature;
        } else {
#pragma unroll
            for (int i = 0; i < count; i++)
                z[i] = nats(z[i], a.to_nats);
        }
    }
    __device__ bool inside(int32_t c) const
    {
        return c < a.labels.vocab && c != label;
    }
    __device__ float weight(int32_t c) const
    {
        return inside(c) ? class_weight(a, c) : 0;
    }

    __device__ float most(const Pack<L> (&v)[Vectors], int32_t first, int32_t step)
    {
        float largest = -CUDART_INF_F;
        if (!a.bias) /* what else there is keeps the order */
            return optioned(a, largest_of_all(v));
#pragma unroll
        for (int k = 0; k < Vectors; k++) {
            float z[count];
            logits(v[k], (first + k * step) * count, z);
#pragma unroll
            for (int i = 0; i < count; i++)
                largest = fmaxf(largest, z[i]);
        }
        return largest;
    }
    __device__ Part sums(const Pack<L> (&v)[Vectors], float most, int32_t first, int32_t step)
    {
        const float largest = finite_or_zero(most);
        float sum = 0, moment = 0, weighed = 0;
#pragma unroll
        for (int k = 0; k < Vectors; k++) {
            const int32_t base = (first + k * step) * count;
            float z[count];
            logits(v[k], base, z);
            if (a.smoothing > 0) {
#pragma unroll
                for (int i = 0; i < count; i++)
                    weighed += inside(base + i) ? weight(base + i) * z[i] : 0;
            }
#pragma unroll
            for (int i = 0; i < count; i++) {
                const float away = z[i] - largest, e = exp2_fast(away * log2e);
                sum += e;
                moment = fmaf(fmaxf(away, Entropic<L, Vectors>::floor), e, moment);
            }
        }
        return {most, sum, weighed, moment};
    }
    __device__ void begin(const Row &r)
    {
        shift = r.shift;
        offset = r.scale * r.inverse;
        slope = 0;
        soft = r.soft;
        if (r.above != 0) {
            offset += r.above * r.inverse * (r.log_sum - r.entropy);
            slope = -r.above * r.inverse;
        }
    }
    /* What the softcap multiplies the gradient of logit Z by. */
    __device__ float steepness(float z) const
    {
        const float share = z * a.to_share;
        return fmaf(-share, share, 1);
    }
    __device__ void gradient(const Pack<L> &v, int32_t base, float (&g)[count])
    {
        float z[count];
        logits(v, base, z);
#pragma unroll
        for (int i = 0; i < count; i++) {
            const float away = z[i] - shift;
            g[i] = exp2_fast(away * log2e) * fmaf(slope, fmaxf(away, Entropic<L, Vectors>::floor), offset);
        }
        if (soft != 0) {
#pragma unroll
            for (int i = 0; i < count; i++)
                g[i] -= soft * weight(base + i);
        }
        if (a.softcap > 0) {
#pragma unroll
            for (int i = 0; i < count; i++)
                g[i] = inside(base + i) ? g[i] * steepness(z[i]) : 0;
        }
    }
    /* The label's logit as it lay in memory, with all options. */
    __device__ float of_label(float z) const
    {
        return optioned(a, a.bias ? z + to_float(static_cast<const T *>(a.bias)[label]) : z);
    }
    __device__ float at_label(const Row &r, float target) const
    {
        const float g = r.at_label - r.soft * class_weight(a, r.label);
        return a.softcap > 0 ? g * steepness(target) : g;
    }
};

} // namespace lce

#endif
