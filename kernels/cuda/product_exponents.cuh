/*
 * product_exponents.cuh - the end of a tile of the logits' product that stores exponentials (exponents.cuh),
 * odds or, where the rows' sums are known, the gradient itself (both odds.cuh).
 *
 * It runs in the registers that hold the sums, beside the other consumer's arithmetic (product_turns.cuh). Of
 * each 64 rows of the tile a thread has 48 logits of a row and 48 of the row 8 below; its three neighbours
 * have the others of these rows.
 */
#ifndef LCE_CUDA_PRODUCT_EXPONENTS_CUH
#define LCE_CUDA_PRODUCT_EXPONENTS_CUH

#include "exponents.cuh"
#include "product_turns.cuh"

namespace lce
{

/* The largest value, and the sum, over the four threads that share a row. */
__device__ inline float row_most(float value)
{
    value = fmaxf(value, __shfl_xor_sync(~0u, value, 1));
    return fmaxf(value, __shfl_xor_sync(~0u, value, 2));
}
__device__ inline float row_sum(float value)
{
    value += __shfl_xor_sync(~0u, value, 1);
    return value + __shfl_xor_sync(~0u, value, 2);
}

/* Takes the label's logit out of a row: moves it to *TARGET, if this thread has it, and leaves -inf.  Of a
 * row a thread has the classes 8 i and 8 i + 1, counted from its first class, in d[4 i + 2 Half] and the next
 * number. LABEL is counted likewise, and negative if there is none. */
template <int Half, int Count>
__device__ inline void take_label(float (&d)[Count], int32_t label, float *target)
{
    const bool mine = label >= 0 && label < 2 * Count && label % 8 <= 1;
    if (!__any_sync(~0u, mine))
        return;
    float taken = 0;
#pragma unroll
    for (int i = 0; i < Count / 4; i++)
#pragma unroll
        for (int j = 0; j < 2; j++)
            if (label == 8 * i + j) {
                taken = d[4 * i + 2 * Half + j];
                d[4 * i + 2 * Half + j] = -CUDART_INF_F;
            }
    if (mine)
        *target = taken;
}

/* Takes out what is beyond the last class; INSIDE are left from the thread's first one on. */
template <int Half, int Count> __device__ inline void cut_classes(float (&d)[Count], int32_t inside)
{
#pragma unroll
    for (int i = 0; i < Count / 4; i++)
#pragma unroll
        for (int j = 0; j < 2; j++)
            if (8 * i + j >= inside)
                d[4 * i + 2 * Half + j] = -CUDART_INF_F;
}

/* Odds are relative to the label up to 2^headroom (odds.cuh). */
constexpr float headroom = 64;

/* Turns a row's logits into exponentials, and packs each two of them into the first one's place.  The power
 * of two is that above the largest of them; the product is rounded up, so that none exceeds 1.  Odds are
 * relative to REFERENCE instead, unless that is more than the headroom below. */
template <bool Odds, int Half, int Count>
__device__ inline lce_tile_sum to_exponents(float (&d)[Count], float bits, float reference)
{
    float most = -CUDART_INF_F, sums[2] = {0, 0};
#pragma unroll
    for (int i = 0; i < Count / 4; i++)
        most = fmaxf(most, fmaxf(d[4 * i + 2 * Half], d[4 * i + 2 * Half + 1]));
    most = row_most(most);
    float exponent = most == -CUDART_INF_F ? most : ceilf(__fmul_ru(most, bits));
    if (Odds && exponent <= reference + headroom)
        exponent = reference;
    const float shift = finite_or_zero(exponent);
#pragma unroll
    for (int i = 0; i < Count / 4; i++) {
        float *const pair = d + 4 * i + 2 * Half;
        const float x = exp2_fast(fmaf(pair[0], bits, -shift)), y = exp2_fast(fmaf(pair[1], bits, -shift));
        sums[0] += x;
        sums[1] += y;
        pair[0] = __uint_as_float(Odds ? narrow_word({x, y}, __nv_bfloat16()) : pack_exponents(x, y));
    }
    return {exponent, row_sum(sums[0] + sums[1])};
}

/* Turns a row's logits into the gradient, of a row that does not count into 0, and packs them likewise. */
template <int Half, int Count>
__device__ inline void to_gradient(float (&d)[Count], float bits, const lce_odds_row &row, bool counts)
{
    const float shift = finite_or_zero(row.power);
#pragma unroll
    for (int i = 0; i < Count / 4; i++) {
        float *const pair = d + 4 * i + 2 * Half;
        const float x = exp2_fast(fmaf(pair[0], bits, -shift)), y = exp2_fast(fmaf(pair[1], bits, -shift));
        const float2 g = {counts ? row.factor * x : 0, counts ? row.factor * y : 0};
        pair[0] = __uint_as_float(narrow_word(g, __nv_bfloat16()));
    }
}

/* Moves packed exponentials of 64 rows to the staging, as stage_sums does sums. */
template <int Count> __device__ inline void stage_exponents(const float (&d)[Count], uint32_t staging)
{
    const uint32_t thread = threadIdx.x % 128, lane = thread % 32, row = thread / 32 * 16 + lane % 16;
#pragma unroll
    for (int i = 0; i < Count / 8; i++) { /* 16 columns */
        const uint32_t part = static_cast<uint32_t>(i % 4 * 2) + lane / 16;
        const uint32_t word[4] = {__float_as_uint(d[8 * i]), __float_as_uint(d[8 * i + 2]),
                                  __float_as_uint(d[8 * i + 4]), __float_as_uint(d[8 * i + 6])};
        matrices_store(staging + i / 4 * box + row * 128 + ((part ^ row) % 8) * 16, word);
    }
}

enum Stored { EXPONENTIALS, ODDS, GRADIENT };

template <Stored what, typename S> struct StoreExponents {
    static constexpr bool Odds = what == ODDS;
    const lce_own_exponents_args &a;

    __device__ explicit StoreExponents(const lce_own_exponents_args &arguments) : a(arguments) {}

    template <int Half>
    __device__ void of_row(float (&d)[32 * S::Right], int32_t row, int32_t rows, int32_t n,
                           int32_t label) const
    {
        const int32_t first = n + static_cast<int32_t>(threadIdx.x % 4) * 2;
        const bool counts = row < rows;
        float unused;
        take_label<Half>(d, counts ? label - first : -1, what == GRADIENT ? &unused : a.targets + row);
        if (n + 64 * S::Right > a.product.n)
            cut_classes<Half>(d, a.product.n - first);
        if constexpr (what == GRADIENT) {
            const lce_odds_row known = a.known[counts ? row : 0];
            wgmma_sums(d);
            to_gradient<Half>(d, a.to_bits, known, counts);
        } else {
            const float reference = Odds && counts ? a.references[row] : 0;
            wgmma_sums(d); /* keeps the compiler from taking rows together, for which it has no registers */
            const lce_tile_sum sum = to_exponents<Odds, Half>(d, a.to_bits, reference);
            if (counts && threadIdx.x % 4 == 0)
                a.tiles[static_cast<int64_t>(row) * a.count + n / (64 * S::Right)] = sum;
        }
    }
    __device__ void operator()(float (&d)[S::Down][32 * S::Right], const OwnShape &s, int32_t turn,
                               uint32_t rank, TurnEnd &at) const
    {
        static_assert(64 * S::Right == LCE_TILE_CLASSES && !S::Across, "not the logits' tile");
        const OwnTile t = turn_tile<S>(s, turn, rank);
        const int32_t first = t.m + static_cast<int32_t>(threadIdx.x % 128 / 32 * 16 + threadIdx.x % 32 / 4);
        int32_t label[S::Down][2];
#pragma unroll
        for (int i = 0; i < 2 * S::Down; i++) { /* all loads together */
            const int32_t row = first + i / 2 * 64 + i % 2 * 8;
            const int64_t place = a.product.first + row, token = row >= s.m ? 0
                                                                 : a.index  ? a.index[place]
                                                                            : place;
            label[i / 2][i % 2] = static_cast<int32_t>(label_of(a.labels, token)) - a.begin;
        }
#pragma unroll
        for (int down = 0; down < S::Down; down++) {
            of_row<0>(d[down], first + 64 * down, s.m, t.n, label[down][0]);
            of_row<1>(d[down], first + 64 * down + 8, s.m, t.n, label[down][1]);
        }
        barrier_wait(at.ready, at.parity);
#pragma unroll
        for (int down = 0; down < S::Down; down++)
            stage_exponents(d[down], at.staging + down * S::Right * box);
        shared_fence();
        barrier_arrive_here(at.staged);
        at.parity ^= 1;
    }
};

template <bool F16, Stored what, typename S>
__device__ inline void own_exponents(const lce_own_exponents_args &a)
{
    own_turns<F16, false, S, StoreExponents<what, S>>(a.product, a);
}

} // namespace lce

#endif
