/*
 * odds.cuh - stores the odds of each class against the label in the place of bf16 logits, so that no pass has
 * to turn logits into the gradient.
 *
 * Without bias, softcap, smoothing and entropy a row's gradient is scale p_c for every class c but the label,
 * whose own is some g_y; `scale` is the row's (row.cuh).
 * So, whatever k is, one factor of the row turns
 *
 *     e_c = 2^(z_c bits - k)      bits = log2(e) / temperature, and e_y = 0
 *
 * into the gradient, but for g_y.  The factor is known only at the row's end; k must be known before the row
 * is stored, so it is the label's logit (a product of two rows), times bits, rounded up to an integer.  The
 * end of the logits' product stores e_c, and the factor goes where it is cheap:
 *
 *     dinput  = factor (e weight) + g_y (the label's row of the weight)
 *     dweight = e^T (factor x)    + g_y x, added to the label's row
 *
 * The first terms are the products that are needed anyway.  factor x and the second terms are N H numbers; a
 * pass would read and write N V.  The second terms are added last, in fp32: the label's part, which is most
 * of the gradient of a random softmax, is rounded once.
 */
#ifndef LCE_CUDA_ODDS_CUH
#define LCE_CUDA_ODDS_CUH

#include "exponents.cuh"

namespace lce
{

constexpr int odds_threads = 256;
using Bf16 = __nv_bfloat16;

__device__ inline void widen_vector(const uint4 &raw, float (&out)[8])
{
    widen(Pack<Bf16>{{raw.x, raw.y, raw.z, raw.w}}, out);
}

/* ---- before the product ---- */

/* The k of a row whose label has LOGIT.  If it is not finite: -inf, so that every tile takes its own. */
__device__ inline float reference_of(float logit, float bits)
{
    const float k = ceilf(logit * bits);
    return fabsf(k) < CUDART_INF_F ? k : -CUDART_INF_F;
}

/* A block takes a row: it gathers the row, where rows are gathered, and multiplies it by its label's row of
 * the weight. */
__device__ inline void odds_start(const lce_odds_start_args &a)
{
    const int64_t row = blockIdx.x, vectors = a.hidden / 8;
    if (a.index && a.skips && skipped(a.index, row))
        return;
    const int64_t token = a.index ? a.index[row] : a.first + row;
    const bool counted = a.index ? token >= 0 : a.state[token] == LCE_COUNTED;
    const int64_t label = counted ? label_of(a.labels, token) : 0;
    const uint4 *x = reinterpret_cast<const uint4 *>(static_cast<const Bf16 *>(a.x) +
                                                     (counted ? token : 0) * a.x_stride),
                *w = reinterpret_cast<const uint4 *>(static_cast<const Bf16 *>(a.weight) +
                                                     label * a.weight_stride);
    uint4 *to = reinterpret_cast<uint4 *>(static_cast<Bf16 *>(a.rows) + (a.rows ? row * a.hidden : 0));
    float sum = 0;
    for (int64_t i = threadIdx.x; i < vectors; i += odds_threads) {
        const uint4 raw = counted ? x[i] : make_uint4(0, 0, 0, 0),
                    of_label = counted ? w[i] : make_uint4(0, 0, 0, 0);
        float here[8], there[8];
        widen_vector(raw, here);
        widen_vector(of_label, there);
#pragma unroll
        for (int k = 0; k < 8; k++)
            sum += here[k] * there[k];
        if (a.rows)
            to[i] = raw;
    }
    sum = block_sum(sum);
    if (threadIdx.x > 0)
        return;
    a.references[row] = reference_of(sum, a.to_bits);
    if (a.counts && counted)
        atomicAdd(a.counts + label, 1);
}

/* ---- after the product ---- */

/* Makes all odds of a row relative to MOST, the largest of the powers of two that its tiles have.
 *
 * Odds of a class 2^headroom times as probable as the label could overflow.  So a tile with such a class
 * stores its row relative to the row's largest logit in the tile (to_exponents).  Only tokens whose loss is
 * above 44 have one. */
__device__ inline void one_power(uint4 *line, int32_t vectors, const lce_tile_sum *tiles, float most)
{
    for (int32_t i = static_cast<int32_t>(threadIdx.x); i < vectors; i += odds_threads) {
        const float own = tiles[i / (LCE_TILE_CLASSES / 8)].exponent;
        if (own == most)
            continue;
        float e[8];
        widen_vector(line[i], e);
#pragma unroll
        for (int k = 0; k < 8; k++)
            e[k] *= exp2_fast(own - finite_or_zero(most));
        line[i] = narrow<Bf16>(e);
    }
}

/* The first vectors of a row of x, which are on their way while the row's sums are made. */
constexpr int held_vectors = 2;
struct HeldRow {
    uint4 vector[held_vectors];
};
__device__ inline const uint4 *x_row(const lce_odds_rows_args &a, int64_t row)
{
    return reinterpret_cast<const uint4 *>(static_cast<const Bf16 *>(a.x) + row * a.x_stride);
}
__device__ inline HeldRow hold_row(const lce_odds_rows_args &a, int64_t row)
{
    HeldRow held;
#pragma unroll
    for (int k = 0; k < held_vectors; k++) {
        const int64_t i = k * odds_threads + threadIdx.x;
        held.vector[k] = a.scaled && i < a.hidden / 8 ? x_row(a, row)[i] : make_uint4(0, 0, 0, 0);
    }
    return held;
}

__device__ inline uint4 scaled_vector(const uint4 &raw, float factor)
{
    float x[8];
    widen_vector(raw, x);
#pragma unroll
    for (int k = 0; k < 8; k++)
        x[k] *= factor;
    return narrow<Bf16>(x);
}

__device__ inline void scale_row(const lce_odds_rows_args &a, int64_t row, const HeldRow &held, float factor)
{
    uint4 *to = reinterpret_cast<uint4 *>(static_cast<Bf16 *>(a.scaled) + row * a.scaled_stride);
#pragma unroll
    for (int k = 0; k < held_vectors; k++) {
        const int64_t i = k * odds_threads + threadIdx.x;
        if (i < a.hidden / 8)
            to[i] = scaled_vector(held.vector[k], factor);
    }
    for (int64_t i = held_vectors * odds_threads + threadIdx.x; i < a.hidden / 8; i += odds_threads)
        to[i] = scaled_vector(x_row(a, row)[i], factor);
}

/* Zeroes the row of a token that does not count, where a product reads it. */
__device__ inline void odds_nowhere(const lce_odds_rows_args &a, int64_t row, uint4 *line, int32_t vectors)
{
    if (a.softmax.skips && skipped(a.softmax.index + a.softmax.first, row))
        return;
    for (int32_t i = static_cast<int32_t>(threadIdx.x); i < vectors; i += odds_threads)
        line[i] = make_uint4(0, 0, 0, 0);
    uint4 *to = reinterpret_cast<uint4 *>(static_cast<Bf16 *>(a.scaled) + row * a.scaled_stride);
    for (int64_t i = threadIdx.x; a.scaled && i < a.hidden / 8; i += odds_threads)
        to[i] = make_uint4(0, 0, 0, 0);
}

/* The row's sums; *POWER becomes the power of two that its odds are relative to.  In almost every row all
 * tiles are relative to the row's reference, and their sums are added as they are.  Where one is not, or a
 * sum is NaN, or there is no reference, the odds are brought to one power first. */
__device__ inline Part odds_part(const lce_odds_rows_args &a, int64_t row, uint4 *line, int32_t vectors,
                                 float *power)
{
    const lce_tile_sum *tiles = a.tiles + row * a.count;
    const float reference = a.references[row], largest = reference * ln2;
    float sum = 0;
    for (int32_t i = static_cast<int32_t>(threadIdx.x); i < a.count; i += odds_threads)
        sum += tiles[i].exponent == reference ? tiles[i].sum : CUDART_NAN_F;
    sum = block_sum(sum);
    *power = reference;
    if (sum == sum && reference > -CUDART_INF_F)
        return {largest, sum * exp2_fast(fmaf(-largest, log2e, reference)), 0, 0}; /* LARGEST is rounded */
    float most = -CUDART_INF_F;
    for (int32_t i = static_cast<int32_t>(threadIdx.x); i < a.count; i += odds_threads)
        most = fmaxf(most, tiles[i].exponent);
    *power = most = block_max(most);
    one_power(line, vectors, tiles, most);
    return tiles_part<odds_threads>(tiles, a.count);
}

/* The odds of a row, and how many vectors they are: of a slab, perhaps fewer than its rows have room for. */
__device__ inline uint4 *odds_line(const lce_odds_rows_args &a, int64_t row)
{
    return reinterpret_cast<uint4 *>(static_cast<Bf16 *>(a.softmax.logits) + row * a.softmax.stride);
}
__device__ inline int32_t odds_vectors(const lce_odds_rows_args &a)
{
    const int64_t classes = a.count * LCE_TILE_CLASSES;
    return static_cast<int32_t>((classes < a.softmax.stride ? classes : a.softmax.stride) / 8);
}

/* A block takes a row. */
__device__ inline void odds_rows(const lce_odds_rows_args &a)
{
    const int64_t row = blockIdx.x;
    const int32_t vectors = odds_vectors(a);
    uint4 *line = odds_line(a, row);
    Row r = token_of(a.softmax, row);
    if (!r.counted) { /* the whole block */
        odds_nowhere(a, row, line, vectors);
        return;
    }
    const HeldRow held = hold_row(a, row);
    r.label = static_cast<int32_t>(label_of(a.softmax.labels, r.token));
    const bool writer = threadIdx.x == 0;
    float power;
    const Part all = odds_part(a, row, line, vectors, &power);
    finish_row<false>(a.softmax, r, all, nats(a.targets[row], a.softmax.to_nats), writer);
    const float factor = r.scale * r.inverse * exp2_fast(fmaf(-r.shift, log2e, finite_or_zero(power)));
    if (writer) {
        a.factors[row] = {factor, r.at_label};
        if (a.label_factors)
            a.label_factors[r.token] = r.at_label;
        if (a.kept)
            a.kept[row] = {all.largest, all.sum, power, factor};
    }
    if (a.scaled)
        scale_row(a, row, held, factor);
}

/* ---- dinput ---- */

/* Turns eight numbers of the product into those of dinput. */
__device__ inline void odds_dinput_of(float (&v)[8], const lce_odds_factors &f, const uint4 &of_label)
{
    float w[8];
    widen_vector(of_label, w);
#pragma unroll
    for (int k = 0; k < 8; k++)
        v[k] = fmaf(f.label, w[k], f.others * v[k]);
}

/* A block takes a row of dinput, where the product lies, and turns it into dinput. */
__device__ inline void odds_dinput(const lce_odds_dinput_args &a)
{
    const int64_t row = blockIdx.x, token = a.first + row;
    const bool counted = a.state[token] == LCE_COUNTED;
    uint4 *line = reinterpret_cast<uint4 *>(static_cast<Bf16 *>(a.out) + row * a.out_stride);
    const uint4 *w = reinterpret_cast<const uint4 *>(
        static_cast<const Bf16 *>(a.weight) + (counted ? label_of(a.labels, token) : 0) * a.weight_stride);
    for (int64_t i = threadIdx.x; i < a.hidden / 8; i += odds_threads) {
        float v[8];
        if (counted) {
            widen_vector(line[i], v);
            odds_dinput_of(v, a.factors[row], w[i]);
            line[i] = narrow<Bf16>(v);
        } else {
            line[i] = make_uint4(0, 0, 0, 0);
        }
    }
}

/* ---- by slabs ----
 *
 * Odds of some tokens, by slabs of classes (segments.c).  What odds are relative to does not depend on the
 * row's sum, so dinput is summed slab by slab while that is unknown:
 *
 *     for each slab:  odds   `odds_fold`: the row's sum += the slab's   sums of dinput += odds weight
 *     `odds_store`    dinput = factor (sums of dinput) + g_y (the label's row of the weight)
 *     later, for each slab: the gradient, by a product of the logits that knows the factor   dweight += g^T x
 */

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
