/*
 * label_rows.cuh - the labels' share of dweight (odds.cuh): after all else the row of each class gets the sum
 * over its tokens of g_y x, in fp32 and in the order of the tokens, so that every run gives the same bits.
 *
 *     count     odds_start counts the tokens of each class, from the 0 that lce_prepare leaves
 *     reserve   each class reserves slots, and items of work: in any order of the classes
 *     place     each token takes one of its class's slots: in any order, too
 *     add       a block that has an item sorts the class's tokens, and adds them up
 *
 * A class with few tokens is one item.  One with many has an item for each slice of its row, in which groups
 * of threads take tokens in turn: so the most frequent token is not the work of one block.
 */
#ifndef LCE_CUDA_LABEL_ROWS_CUH
#define LCE_CUDA_LABEL_ROWS_CUH

#include "device.cuh"

namespace lce
{

constexpr int label_threads = 256, slice_threads = LCE_LABEL_SLICE / 8,
              slice_lanes = label_threads / slice_threads;
constexpr int32_t window_words = 128, window = 32 * window_words, rank_most = label_threads;

/* The sum of VALUE over the lanes before this one; *ALL is that over the warp. */
__device__ inline int32_t before_in_warp(int32_t value, int32_t *all)
{
    const int lane = static_cast<int>(threadIdx.x % 32);
    int32_t sum = value;
    for (int step = 1; step < 32; step *= 2) {
        const int32_t other = __shfl_up_sync(~0u, sum, step);
        sum += lane >= step ? other : 0;
    }
    *all = __shfl_sync(~0u, sum, 31);
    return sum - value;
}

/* Reserves COUNT of what the counter *USED counts, for each lane of a warp, with one addition; returns the
 * lane's first. */
__device__ inline int32_t take(int32_t *used, int32_t count)
{
    int32_t all, first = 0;
    const int32_t before = before_in_warp(count, &all);
    if (threadIdx.x % 32 == 0 && all > 0)
        first = atomicAdd(used, all);
    return __shfl_sync(~0u, first, 0) + before;
}

__device__ inline void reserve_slots(const lce_label_rows_args &a)
{
    const int32_t c = static_cast<int32_t>(blockIdx.x * label_threads + threadIdx.x),
                  count = c < a.labels.vocab ? a.counts[c] : 0;
    const bool sliced = count > LCE_LABEL_FEW;
    const int32_t pieces = sliced ? a.slices : count > 0, begin = take(a.used, count),
                  item = take(a.used + 1, pieces);
    if (count > 0)
        a.ends[c] = begin;
    for (int32_t i = 0; i < pieces; i++)
        a.items[item + i] = {c, begin, count, sliced ? i : -1};
}

__device__ inline void place_token(const lce_label_rows_args &a)
{
    const int64_t token = static_cast<int64_t>(blockIdx.x) * label_threads + threadIdx.x;
    if (token < a.labels.tokens && a.state[token] == LCE_COUNTED)
        a.slots[atomicAdd(a.ends + label_of(a.labels, token), 1)] = static_cast<int32_t>(token);
}

using WindowBits = int32_t[window_words];
using WindowTokens = int32_t[window];
using RankedTokens = int32_t[rank_most];
using Lanes = float[label_threads][8];

/* Sorts COUNT tokens, at most `rank_most`, by counting for each how many are below it. */
__device__ inline void sort_by_rank(const int32_t *slots, int32_t count, WindowTokens &tokens)
{
    LCE_SHARED(RankedTokens, unordered);
    const int32_t i = static_cast<int32_t>(threadIdx.x), token = i < count ? slots[i] : 0;
    if (i < count)
        unordered[i] = token;
    __syncthreads();
    int32_t below = 0;
    for (int32_t j = 0; j < count; j++)
        below += unordered[j] < token;
    if (i < count)
        tokens[below] = token;
    __syncthreads();
}

/* Sorts those of the tokens that lie in the window from FIRST on, by a bit for each token of the window;
 * returns how many they are. */
__device__ inline int32_t sort_window(const int32_t *slots, int32_t count, int32_t first,
                                      WindowTokens &tokens)
{
    LCE_SHARED(WindowBits, bits);
    LCE_SHARED(WindowBits, before);
    const int32_t thread = static_cast<int32_t>(threadIdx.x);
    __syncthreads(); /* the last window's tokens were read */
    if (thread < window_words)
        bits[thread] = 0;
    __syncthreads();
    for (int32_t i = thread; i < count; i += label_threads) {
        const int32_t at = slots[i] - first;
        if (at >= 0 && at < window)
            atomicOr(&bits[at / 32], static_cast<int32_t>(1u << at % 32));
    }
    __syncthreads();
    int32_t sum = 0, all = 0;
    for (int32_t i = 0; i < window_words; i++) {
        const int32_t here = __popc(static_cast<unsigned>(bits[i]));
        sum += i < thread ? here : 0;
        all += here;
    }
    if (thread < window_words)
        before[thread] = sum;
    __syncthreads();
    for (int32_t i = thread; i < window; i += label_threads) {
        const unsigned word = static_cast<unsigned>(bits[i / 32]);
        if (word >> i % 32 & 1)
            tokens[before[i / 32] + __popc(word & ((1u << i % 32) - 1))] = first + i;
    }
    __syncthreads();
    return all;
}

/* Adds to SUM eight columns of every STEP-th of the sorted tokens, from BEGIN on. */
__device__ inline void add_tokens(const lce_label_rows_args &a, const int32_t *tokens, int32_t count,
                                  int32_t begin, int32_t step, int64_t column, float (&sum)[8])
{
    const __nv_bfloat16 *x = static_cast<const __nv_bfloat16 *>(a.x) + column;
#pragma unroll 4
    for (int32_t i = begin; i < count; i += step) {
        const uint4 raw = *reinterpret_cast<const uint4 *>(x + tokens[i] * a.x_stride);
        const float factor = a.label_factors[tokens[i]];
        float v[8];
        widen(Pack<__nv_bfloat16>{{raw.x, raw.y, raw.z, raw.w}}, v);
#pragma unroll
        for (int k = 0; k < 8; k++)
            sum[k] = fmaf(factor, v[k], sum[k]);
    }
}

/* Eight numbers of dweight. */
template <typename T> struct Eight {
    static constexpr int vectors = 8 / Pack<T>::count;
    uint4 raw[vectors];

    __device__ explicit Eight(const T *place)
    {
#pragma unroll
        for (int i = 0; i < vectors; i++)
            raw[i] = reinterpret_cast<const uint4 *>(place)[i];
    }
    __device__ void store_sum(T *place, const float (&sum)[8]) const
    {
#pragma unroll
        for (int i = 0; i < vectors; i++) {
            float v[Pack<T>::count];
            widen(Pack<T>{{raw[i].x, raw[i].y, raw[i].z, raw[i].w}}, v);
#pragma unroll
            for (int k = 0; k < Pack<T>::count; k++)
                v[k] += sum[i * Pack<T>::count + k];
            reinterpret_cast<uint4 *>(place)[i] = narrow<T>(v);
        }
    }
};

/* Adds the few tokens of a class to its whole row. */
template <typename T>
__device__ inline void add_whole(const lce_label_rows_args &a, const lce_label_item &item,
                                 WindowTokens &tokens)
{
    T *row = static_cast<T *>(a.out) + item.label * a.out_stride;
    const int32_t *ordered = a.slots + item.begin;
    if (item.count > 1) {
        sort_by_rank(ordered, item.count, tokens);
        ordered = tokens;
    }
    for (int64_t column = threadIdx.x * 8; column < a.hidden; column += 8 * label_threads) {
        const Eight<T> before(row + column);
        float sum[8] = {};
        add_tokens(a, ordered, item.count, 0, 1, column, sum);
        before.store_sum(row + column, sum);
    }
}

/* Adds the many tokens of a class to a slice of its row; each lane takes every slice_lanes-th token. */
template <typename T>
__device__ inline void add_slice(const lce_label_rows_args &a, const lce_label_item &item,
                                 WindowTokens &tokens)
{
    LCE_SHARED(Lanes, lanes);
    const int32_t thread = static_cast<int32_t>(threadIdx.x), lane = thread / slice_threads;
    const int64_t column = static_cast<int64_t>(item.slice) * LCE_LABEL_SLICE + thread % slice_threads * 8;
    const bool inside = column < a.hidden;
    const bool windows = item.count > rank_most;
    float sum[8] = {};
    for (int64_t first = 0; first < (windows ? a.labels.tokens : 1); first += window) {
        int32_t here = item.count;
        if (windows)
            here = sort_window(a.slots + item.begin, item.count, static_cast<int32_t>(first), tokens);
        else
            sort_by_rank(a.slots + item.begin, item.count, tokens);
        if (inside)
            add_tokens(a, tokens, here, lane, slice_lanes, column, sum);
    }
#pragma unroll
    for (int k = 0; k < 8; k++)
        lanes[thread][k] = sum[k];
    __syncthreads();
    if (lane > 0 || !inside)
        return;
    for (int other = 1; other < slice_lanes; other++)
#pragma unroll
        for (int k = 0; k < 8; k++)
            sum[k] += lanes[thread + other * slice_threads][k];
    T *place = static_cast<T *>(a.out) + item.label * a.out_stride + column;
    Eight<T>(place).store_sum(place, sum);
}

/* A block takes an item. */
template <typename T> __device__ inline void label_rows(const lce_label_rows_args &a)
{
    LCE_SHARED(WindowTokens, tokens);
    if (static_cast<int32_t>(blockIdx.x) >= a.used[1])
        return;
    const lce_label_item item = a.items[blockIdx.x];
    if (item.slice < 0)
        add_whole<T>(a, item, tokens);
    else
        add_slice<T>(a, item, tokens);
}

} // namespace lce

#endif
