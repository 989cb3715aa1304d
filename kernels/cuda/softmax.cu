/*
 * softmax.cu - the pass over a chunk of logits: each row's loss, and in place its gradient.
 *
 * A cluster of CTAs takes one row.  Each thread loads its share, VECTORS times 16 bytes, into registers, all
 * loads in flight at once; the largest logit and the sum of exponentials are found per thread, per warp, per
 * CTA, and over the cluster through distributed shared memory; then the gradient is computed from the same
 * registers and written once. So a row is read once and written once.  Partial results are combined in a
 * fixed order.
 *
 *     row:  | CTA 0: vectors 0 .. 512 K | CTA 1 | CTA 2 | CTA 3 |     vector k of thread t: (cta K + k) 512 +
 * t
 *
 * `plain` knows none of the options that need a logit's own class (bias, softcap, class weights, smoothing);
 * `general` knows all.  `loop` reads the row twice and takes any length.
 */
#include <cooperative_groups.h>
#include <math_constants.h>

#include "device.cuh"

namespace lce
{

constexpr int threads = 512;
constexpr float log2e = 1.4426950408889634f;

__device__ inline float exp2_fast(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
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

/* One per CTA: its warps' parts, then its own part at [0] of total. */
struct Shared {
    Part warp[threads / 32];
    Part total;
};

__device__ inline Part block_combine(Part part, Shared *shared)
{
    part = warp_combine(part);
    if (threadIdx.x % 32 == 0)
        shared->warp[threadIdx.x / 32] = part;
    __syncthreads();
    part = threadIdx.x % 32 < threads / 32 ? shared->warp[threadIdx.x % 32] : Part{-CUDART_INF_F, 0, 0};
    return warp_combine(part);
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

template <typename T>
__device__ inline Part part_of(const lce_softmax_args &a, const Pack<T> &v, int32_t base)
{
    Part part = {-CUDART_INF_F, 0, 0};
    float z[Pack<T>::count];
    widen(v, z);
#pragma unroll
    for (int i = 0; i < Pack<T>::count; i++) {
        const int32_t c = base + i;
        const bool inside = c < a.labels.vocab;
        z[i] = inside ? logit<T, true>(a, z[i], c) : -CUDART_INF_F;
        part.largest = fmaxf(part.largest, z[i]);
        if (a.smoothing > 0 && inside)
            part.weighed += class_weight(a, c) * z[i];
    }
    const float shift = finite_or_zero(part.largest);
#pragma unroll
    for (int i = 0; i < Pack<T>::count; i++)
        part.sum += exp2_fast((z[i] - shift) * log2e);
    return part;
}

template <typename T>
__device__ inline uint4 gradient_of(const lce_softmax_args &a, const Row &r, const Pack<T> &v, int32_t base)
{
    float g[Pack<T>::count];
    widen(v, g);
#pragma unroll
    for (int i = 0; i < Pack<T>::count; i++)
        g[i] = base + i < a.labels.vocab ? gradient<T>(a, r, g[i], base + i) : 0;
    return narrow<T>(g);
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

/* One exponential an element, with one shift for all of the thread's. */
template <typename T, int Vectors> __device__ inline Part plain_part(const Pack<T> (&v)[Vectors])
{
    float largest = largest_of(v[0]), sums[2] = {0, 0};
#pragma unroll
    for (int k = 1; k < Vectors; k++)
        largest = fmaxf(largest, largest_of(v[k]));
    const float shift = -finite_or_zero(largest) * log2e;
#pragma unroll
    for (int k = 0; k < Vectors; k++) {
        float z[Pack<T>::count];
        widen(v[k], z);
#pragma unroll
        for (int i = 0; i < Pack<T>::count; i++)
            sums[i % 2] += exp2_fast(fmaf(z[i], log2e, shift));
    }
    return {largest, sums[0] + sums[1], 0};
}

template <typename T> __device__ inline uint4 plain_gradient(const Row &r, const Pack<T> &v, int32_t base)
{
    float g[Pack<T>::count];
    const float shift = -r.lse * log2e;
    const int32_t at = r.label - base;
    widen(v, g);
#pragma unroll
    for (int i = 0; i < Pack<T>::count; i++)
        g[i] = r.scale * exp2_fast(fmaf(g[i], log2e, shift));
    if (static_cast<uint32_t>(at) < Pack<T>::count) { /* in one thread of the row */
#pragma unroll
        for (int i = 0; i < Pack<T>::count; i++)
            g[i] -= i == at ? r.hard : 0;
    }
    return narrow<T>(g);
}

/* What lies beyond the vocabulary becomes -inf, which adds nothing and has gradient 0: COUNT numbers are
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

/* The row's loss, by one thread of the row; then what its gradient needs, in every thread. */
__device__ inline void finish_row(const lce_softmax_args &a, Row &r, const Part &all, float target,
                                  bool writer)
{
    r.lse = all.largest + logf(all.sum);
    if (writer && a.loss)
        a.loss[r.token] = row_loss(a, r, all, target);
    if (a.gradients)
        row_factors(a, r);
}

__device__ inline Part cluster_combine(Part part, Shared *shared)
{
    auto cluster = cooperative_groups::this_cluster();
    if (threadIdx.x == 0)
        shared->total = part;
    cluster.sync();
    Part all = {-CUDART_INF_F, 0, 0};
    for (unsigned i = 0; i < cluster.num_blocks(); i++)
        all = combine(all, *cluster.map_shared_rank(&shared->total, i));
    return all;
}

template <typename T, int Vectors, bool General>
__device__ inline void softmax_rows(const lce_softmax_args &a)
{
    __shared__ Shared shared;
    auto cluster = cooperative_groups::this_cluster();
    const int64_t row = blockIdx.x / cluster.num_blocks();
    const int32_t vectors = static_cast<int32_t>(a.stride / Pack<T>::count);
    const int32_t first = static_cast<int32_t>(cluster.block_rank() * Vectors * threads + threadIdx.x);
    Row r = row_of(a, row);
    T *logits = static_cast<T *>(a.logits) + row * a.stride;
    uint4 *line = reinterpret_cast<uint4 *>(logits);
    if (!r.counted) { /* of the whole cluster */
        for (int k = 0; a.gradients && k < Vectors; k++)
            if (first + k * threads < vectors)
                line[first + k * threads] = make_uint4(0, 0, 0, 0);
        return;
    }
    Pack<T> v[Vectors];
#pragma unroll
    for (int k = 0; k < Vectors; k++)
        v[k] = load<T>(line, first + k * threads, a.labels.vocab);
    /* before anyone writes: the barrier is between */
    const float target = logit<T, General>(a, to_float(logits[r.label]), r.label);
    Part part = {-CUDART_INF_F, 0, 0};
    if constexpr (General) {
#pragma unroll
        for (int k = 0; k < Vectors; k++)
            part = combine(part, part_of<T>(a, v[k], (first + k * threads) * Pack<T>::count));
    } else {
        part = plain_part(v);
    }
    part = cluster_combine(block_combine(part, &shared), &shared);
    cluster.barrier_arrive(); /* others may still read our part: no CTA ends before all have read */
    finish_row(a, r, part, target, cluster.block_rank() == 0 && threadIdx.x == 0);
    if (a.gradients) {
#pragma unroll
        for (int k = 0; k < Vectors; k++) {
            const int32_t vector = first + k * threads, base = vector * Pack<T>::count;
            if (vector >= vectors)
                continue;
            if constexpr (General)
                line[vector] = gradient_of<T>(a, r, v[k], base);
            else
                line[vector] = plain_gradient(r, v[k], base);
        }
    }
    cluster.barrier_wait();
}

template <typename T> __device__ inline void softmax_loop(const lce_softmax_args &a)
{
    __shared__ Shared shared;
    const int32_t vectors = static_cast<int32_t>(a.stride / Pack<T>::count);
    Row r = row_of(a, blockIdx.x);
    T *logits = static_cast<T *>(a.logits) + blockIdx.x * a.stride;
    uint4 *line = reinterpret_cast<uint4 *>(logits);
    Part part = {-CUDART_INF_F, 0, 0};
    const float target = r.counted ? logit<T, true>(a, to_float(logits[r.label]), r.label) : 0;
    for (int32_t i = static_cast<int32_t>(threadIdx.x); r.counted && i < vectors; i += threads)
        part = combine(part, part_of<T>(a, load<T>(line, i, a.labels.vocab), i * Pack<T>::count));
    part = block_combine(part, &shared); /* a barrier too: the target was read by all */
    if (r.counted)
        finish_row(a, r, part, target, threadIdx.x == 0);
    for (int32_t i = static_cast<int32_t>(threadIdx.x); a.gradients && i < vectors; i += threads)
        line[i] = r.counted ? gradient_of<T>(a, r, load<T>(line, i, a.labels.vocab), i * Pack<T>::count)
                            : make_uint4(0, 0, 0, 0);
}

} // namespace lce

#define PLAIN(type, T, vectors)                                                                              \
    extern "C" __global__ void __launch_bounds__(512, 2)                                                     \
        lce_softmax_##type##_plain_##vectors(const lce_softmax_args a)                                       \
    {                                                                                                        \
        lce::softmax_rows<T, vectors, false>(a);                                                             \
    }
#define GENERAL(type, T, vectors)                                                                            \
    extern "C" __global__ void __launch_bounds__(512, 1)                                                     \
        lce_softmax_##type##_general_##vectors(const lce_softmax_args a)                                     \
    {                                                                                                        \
        lce::softmax_rows<T, vectors, true>(a);                                                              \
    }
#define KERNELS(type, T)                                                                                     \
    PLAIN(type, T, 1)                                                                                        \
    PLAIN(type, T, 2)                                                                                        \
    PLAIN(type, T, 3)                                                                                        \
    PLAIN(type, T, 4)                                                                                        \
    PLAIN(type, T, 5)                                                                                        \
    PLAIN(type, T, 6)                                                                                        \
    PLAIN(type, T, 7)                                                                                        \
    PLAIN(type, T, 8)                                                                                        \
    GENERAL(type, T, 2)                                                                                      \
    GENERAL(type, T, 8)                                                                                      \
    extern "C" __global__ void __launch_bounds__(512) lce_softmax_##type##_loop(const lce_softmax_args a)    \
    {                                                                                                        \
        lce::softmax_loop<T>(a);                                                                             \
    }

KERNELS(f32, float)
KERNELS(f16, __half)
KERNELS(bf16, __nv_bfloat16)
