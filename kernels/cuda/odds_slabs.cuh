/*
 * odds_slabs.cuh - odds of some tokens, by slabs of classes (segments.c).  What odds are relative to does not
 * depend on the row's sum, so dinput is summed slab by slab while that is unknown:
 *
 *     for each slab:  odds   `odds_fold`: the row's sum += the slab's   sums of dinput += odds weight
 *     `odds_store`    dinput = factor (sums of dinput) + g_y (the label's row of the weight)
 *     later, for each slab: the gradient, by a product of the logits that knows the factor   dweight += g^T x
 */
#ifndef LCE_CUDA_ODDS_SLABS_CUH
#define LCE_CUDA_ODDS_SLABS_CUH

#include "odds.cuh"

namespace lce
{

__device__ inline void scale_odds(uint4 *line, int32_t vectors, float factor)
{
    for (int32_t i = static_cast<int32_t>(threadIdx.x); i < vectors; i += odds_threads)
        line[i] = scaled_vector(line[i], factor);
}

/* Makes a row's sums of the slabs before, BEFORE, and this slab's odds, which are relative to HERE, relative
 * to the same power of two; returns it. */
__device__ inline float same_power(const lce_odds_fold_args &f, int64_t row, float before, float here)
{
    const float most = fmaxf(before, here), shift = finite_or_zero(most);
    if (here < most)
        scale_odds(odds_line(f.slab, row), odds_vectors(f.slab), exp2_fast(here - shift));
    if (before < most) {
        float *sums = f.dinput + row * f.slab.hidden;
        const float factor = exp2_fast(before - shift);
        for (int64_t i = threadIdx.x; i < f.slab.hidden; i += odds_threads)
            sums[i] *= factor;
    }
    return most;
}

/* In one thread: the loss and the factors of a row whose sums are complete. */
__device__ inline void finish_odds(const lce_odds_rows_args &a, Row r, int64_t row, lce_odds_row &all)
{
    r.label = static_cast<int32_t>(label_of(a.softmax.labels, r.token));
    finish_row<false>(a.softmax, r, {all.largest, all.sum, 0, 0}, nats(a.targets[row], a.softmax.to_nats),
                      true);
    all.factor = r.scale * r.inverse * exp2_fast(fmaf(-r.shift, log2e, finite_or_zero(all.power)));
    a.factors[row] = {all.factor, r.at_label};
    if (a.label_factors)
        a.label_factors[r.token] = r.at_label;
}

/* A block takes a row. */
__device__ inline void odds_fold(const lce_odds_fold_args &f)
{
    const lce_odds_rows_args &a = f.slab;
    const int64_t row = blockIdx.x;
    const Row r = token_of(a.softmax, row);
    if (!r.counted) { /* the whole block */
        odds_nowhere(a, row, odds_line(a, row), odds_vectors(a));
        return;
    }
    const lce_odds_row before = f.first ? lce_odds_row{-CUDART_INF_F, 0, 0, 0} : f.rows[row];
    float power;
    const Part here = odds_part(a, row, odds_line(a, row), odds_vectors(a), &power); /* has a barrier */
    lce_odds_row all = {here.largest, here.sum, power, 0};
    if (!f.first) {
        const Part both = combine({before.largest, before.sum, 0, 0}, here);
        all = {both.largest, both.sum, same_power(f, row, before.power, power), 0};
    }
    if (threadIdx.x > 0)
        return;
    if (f.last)
        finish_odds(a, r, row, all);
    f.rows[row] = all;
}

/* A block takes a row. */
__device__ inline void odds_store(const lce_odds_store_args &a)
{
    const int64_t row = blockIdx.x, token = a.index[row];
    if (token < 0)
        return;
    const float4 *from = reinterpret_cast<const float4 *>(a.from + row * a.hidden);
    const uint4 *w = reinterpret_cast<const uint4 *>(static_cast<const Bf16 *>(a.weight) +
                                                     label_of(a.labels, token) * a.weight_stride);
    uint4 *to = reinterpret_cast<uint4 *>(static_cast<Bf16 *>(a.to) + row * a.to_stride);
    for (int64_t i = threadIdx.x; i < a.hidden / 8; i += odds_threads) {
        const float4 x = from[2 * i], y = from[2 * i + 1];
        float v[8] = {x.x, x.y, x.z, x.w, y.x, y.y, y.z, y.w};
        odds_dinput_of(v, a.factors[row], w[i]);
        to[i] = narrow<Bf16>(v);
    }
}

} // namespace lce

#endif
