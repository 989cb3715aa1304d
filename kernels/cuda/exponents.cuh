/*
 * exponents.cuh - exponentials in the place of 16-bit logits: their format, and the pass that turns them into
 * the gradient.
 *
 * A logit of 20 or 100 that is rounded to bf16 makes its probability wrong by percents.  Instead the end of
 * the logits' product, which has them in fp32, stores for each row of a tile
 *
 *     e_c = 2^(z_c bits - k)      bits = log2(e) / temperature
 *
 * where k is the integer above the row's largest logit in the tile, times bits.  The label's logit is kept
 * apart in fp32, and the e_c are summed before they are rounded.  So the loss is that of fp32 logits, and the
 * pass needs of a row only its tiles' sums, for one factor a tile:
 *
 *     g_c = e_c factor            factor = scale 2^k / sum of all
 */
#ifndef LCE_CUDA_EXPONENTS_CUH
#define LCE_CUDA_EXPONENTS_CUH

#include "row.cuh"

namespace lce
{

constexpr int dropped_bits = 14;

/* Packs two numbers from 0 to 1, which need neither the sign of fp32 nor the highest bit of its exponent:
 *
 *     fp32:  | 0 | 0 | 16 bits are stored: 7 of the exponent, 9 of the fraction | 14 are rounded away |
 *
 * Each is off by at most 2^-10 of itself (bf16: 2^-8), and the gradient by 3 % more than if it had been made
 * of fp32; what is below 2^-125 is 0.  A NaN becomes some number: whoever has a NaN has it in the row's sum,
 * too. */
__device__ inline uint32_t pack_exponents(float x, float y)
{
    const uint32_t half = 1u << (dropped_bits - 1), low = (__float_as_uint(x) + half) >> dropped_bits,
                   high = (__float_as_uint(y) + half) << (16 - dropped_bits);
    return (low & 0xffff) | (high & 0xffff0000u);
}

__device__ inline float2 unpack_exponents(uint32_t word)
{
    constexpr uint32_t kept = 0xffffu << dropped_bits;
    return {__uint_as_float(word << dropped_bits & kept),
            __uint_as_float(word >> (16 - dropped_bits) & kept)};
}

/* ---- the pass ---- */

constexpr int exponents_threads = 512, exponents_rounds = 4;
using Factors = float[LCE_MOST_TILES];

/* The sums over all tiles of a row, as those of logits; valid in every one of the block's Threads. */
template <int Threads> __device__ inline Part tiles_part(const lce_tile_sum *tiles, int32_t count)
{
    float most = -CUDART_INF_F, sum = 0;
    for (int32_t i = static_cast<int32_t>(threadIdx.x); i < count; i += Threads)
        most = fmaxf(most, tiles[i].exponent);
    most = block_max(most);
    const float shift = finite_or_zero(most), largest = shift * ln2;
    for (int32_t i = static_cast<int32_t>(threadIdx.x); i < count; i += Threads)
        sum += tiles[i].sum * exp2_fast(tiles[i].exponent - shift);
    sum = block_sum(sum) * exp2_fast(fmaf(-largest, log2e, shift)); /* LARGEST is rounded */
    return {most == shift ? largest : most, sum, 0, 0};
}

__device__ inline void load_exponents(const uint4 *line, int32_t first, int32_t vectors,
                                      uint4 (&v)[exponents_rounds])
{
#pragma unroll
    for (int k = 0; k < exponents_rounds; k++)
        if (first + k * exponents_threads < vectors)
            v[k] = line[first + k * exponents_threads];
}

/* The gradient of eight classes. */
template <typename T> __device__ inline uint4 exponents_gradient(const uint4 &v, float factor)
{
    const uint32_t word[4] = {v.x, v.y, v.z, v.w};
    float g[8];
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const float2 e = unpack_exponents(word[i]);
        g[2 * i] = e.x * factor;
        g[2 * i + 1] = e.y * factor;
    }
    return narrow<T>(g);
}

/* A CTA takes a row.  Its first exponentials are on their way while the sums are made. */
template <typename T> __device__ inline void exponents_rows(const lce_exponents_args &a)
{
    LCE_SHARED(Factors, factors);
    const int64_t row = blockIdx.x;
    const int32_t vectors = static_cast<int32_t>(a.softmax.stride / 8),
                  tid = static_cast<int32_t>(threadIdx.x);
    T *out = static_cast<T *>(a.softmax.logits) + row * a.softmax.stride;
    uint4 *line = reinterpret_cast<uint4 *>(out), v[exponents_rounds];
    Row r = token_of(a.softmax, row);
    if (!r.counted) { /* the whole CTA */
        const bool written =
            a.softmax.gradients && !(a.softmax.skips && skipped(a.softmax.index + a.softmax.first, row));
        for (int32_t i = tid; written && i < vectors; i += exponents_threads)
            line[i] = make_uint4(0, 0, 0, 0);
        return;
    }
    if (a.softmax.gradients)
        load_exponents(line, tid, vectors, v);
    r.label = static_cast<int32_t>(label_of(a.softmax.labels, r.token));
    const lce_tile_sum *tiles = a.tiles + row * a.count;
    const Part part = tiles_part<exponents_threads>(tiles, a.count);
    finish_row<false>(a.softmax, r, part, nats(a.targets[row], a.softmax.to_nats), tid == 0);
    if (!a.softmax.gradients)
        return;
    for (int32_t i = tid; i < a.count; i += exponents_threads)
        factors[i] = r.scale * r.inverse * exp2_fast(fmaf(-r.shift, log2e, tiles[i].exponent));
    __syncthreads();
    for (int32_t begin = tid; begin < vectors; begin += exponents_rounds * exponents_threads) {
        uint4 next[exponents_rounds];
        load_exponents(line, begin + exponents_rounds * exponents_threads, vectors, next);
#pragma unroll
        for (int k = 0; k < exponents_rounds; k++) {
            const int32_t i = begin + k * exponents_threads;
            if (i < vectors)
                line[i] = exponents_gradient<T>(v[k], factors[i / (LCE_TILE_CLASSES / 8)]);
            if (i == r.label / 8)
                out[r.label] = from_float<T>(r.at_label);
            v[k] = next[k];
        }
    }
}

} // namespace lce

#endif
