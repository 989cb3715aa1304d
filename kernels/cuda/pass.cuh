/*
 * pass.cuh - shared by all passes over rows of logits: loads that stop at the end of the vocabulary, the sums
 * of a CTA, the end of a row, stores in the gradient's type.
 */
#ifndef LCE_CUDA_PASS_CUH
#define LCE_CUDA_PASS_CUH

#include "row.cuh"

namespace lce
{

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
