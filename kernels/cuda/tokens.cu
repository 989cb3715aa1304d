/*
 * tokens.cu - the work around the products: counts and compacts tokens, moves rows, sums columns for the
 * bias, rounds at the end, adds up the losses.  All sums have a fixed order.
 */
#include <math_constants.h>

#include "device.cuh"

namespace lce
{

struct Counts {
    int64_t before;  /* tokens counted in earlier rounds */
    int32_t invalid; /* bits for the error flag */
};

__device__ inline int state_of(const lce_labels &l, int64_t label)
{
    if (label == l.ignore_index)
        return LCE_IGNORED;
    return label >= 0 && label < l.total ? LCE_COUNTED : LCE_INVALID;
}

/* The number of threads with VOTE before this one in the block; *ALL is the number of all. */
__device__ inline int rank_in_block(bool vote, int *all)
{
    LCE_SHARED(PerWarp<int>, counts);
    const unsigned votes = __ballot_sync(~0u, vote), lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    __syncthreads();
    if (lane == 0)
        counts[warp] = __popc(votes);
    __syncthreads();
    int before = 0, sum = 0;
    for (unsigned i = 0; i < blockDim.x / 32; i++) {
        before += i < warp ? counts[i] : 0;
        sum += counts[i];
    }
    *all = sum;
    return before + __popc(votes & ((1u << lane) - 1));
}

/* Finds the state and the place of one token; returns its weight. */
__device__ inline double place(const lce_prepare_args &a, int64_t token, int64_t label, int state,
                               int64_t rank, int32_t *flags)
{
    if (state == LCE_INVALID)
        *flags |= 1; /* LCE_DEVICE_LABEL */
    if (state == LCE_COUNTED && a.max_counted && rank >= a.max_counted) {
        state = LCE_INVALID;
        *flags |= 2; /* LCE_DEVICE_TOO_MANY */
    }
    a.state[token] = static_cast<uint8_t>(state);
    if (state != LCE_COUNTED) {
        const float value = state == LCE_INVALID ? CUDART_NAN_F : 0.0f;
        if (a.loss)
            a.loss[token] = value;
        if (a.entropy)
            a.entropy[token] = value;
        if (a.partial)
            a.partial[token] = {0, 0, 0, 0, 0};
        return 0;
    }
    if (a.index)
        a.index[rank] = static_cast<int32_t>(token);
    return a.class_weights ? a.class_weights[label] : 1;
}

/* MOST: the largest upstream gradient of an entropy, in size. */
__device__ inline lce_stats stats_of(const lce_prepare_args &a, double weights, double all_weights,
                                     int64_t counted, float most)
{
    lce_stats s = {weights, all_weights, counted, 0, 0, 0, 0, 0, 0, 1, a.beta, 0};
    const double upstream = a.grad_output && a.reduction != 2 ? *a.grad_output : 1;
    if (counted == 0) /* g is 0 everywhere, and a factor of 1 / 0 would turn it into NaN */
        return s;
    const double over_weights = a.reduction == 0 ? 1 / weights : 1,
                 over_count = a.reduction == 0 ? 1.0 / counted : 1;
    s.loss_ce = static_cast<float>(over_weights);
    s.loss_zl = static_cast<float>(over_count);
    s.u_entropy = 1;
    if (a.scaled &&
        a.grad_entropy) { /* relative to the larger of the two upstream gradients, so that none overflows */
        const double own = fabs(upstream) * over_weights, common = own > most ? own : most;
        const double scale = common > 0 ? static_cast<double>(LCE_F16_SCALE) / common : 0;
        s.alpha = scale > 0 ? static_cast<float>(1 / scale) : 0;
        s.u_ce = static_cast<float>(scale * upstream * over_weights);
        s.u_zl = static_cast<float>(scale * upstream * over_count);
        s.u_entropy = static_cast<float>(scale);
        return s;
    }
    s.alpha = static_cast<float>(upstream * over_weights / static_cast<double>(LCE_F16_SCALE));
    s.u_ce = a.scaled ? LCE_F16_SCALE : static_cast<float>(upstream * over_weights);
    s.u_zl = a.scaled ? static_cast<float>(static_cast<double>(LCE_F16_SCALE) * over_count / over_weights)
                      : static_cast<float>(upstream * over_count);
    return s;
}

__device__ inline int64_t label_if(const lce_labels &l, int64_t token)
{
    return token < l.tokens ? label_of(l, token) : 0;
}

__device__ inline double sum_of_weights(const lce_prepare_args &a)
{
    if (!a.class_weights)
        return a.labels.total;
    double sum = 0;
    for (int32_t c = static_cast<int32_t>(threadIdx.x); c < a.labels.total;
         c += static_cast<int32_t>(blockDim.x))
        sum += a.class_weights[c];
    return block_sum(sum);
}

} // namespace lce

/* One block of 1024. */
extern "C" __global__ void __launch_bounds__(1024) lce_prepare(const lce_prepare_args a)
{
    int64_t counted = 0;
    double weights = 0;
    float most = 0;
    int32_t flags = 0;
    for (int32_t c = static_cast<int32_t>(threadIdx.x); a.counts && c < a.labels.vocab; c += 1024)
        a.counts[c] = 0;
    if (a.counts && threadIdx.x < 2)
        a.used[threadIdx.x] = 0;
    for (int32_t i = static_cast<int32_t>(threadIdx.x); i < a.orders; i += 1024)
        a.order[i] = 0;
    int64_t next = lce::label_if(a.labels, threadIdx.x);
    for (int64_t base = 0; base < a.labels.tokens; base += 1024) {
        const int64_t token = base + threadIdx.x, label = next;
        const bool inside = token < a.labels.tokens;
        next = lce::label_if(a.labels, token + 1024); /* on its way while the block counts */
        const int state = inside ? lce::state_of(a.labels, label) : LCE_IGNORED;
        int all;
        const int rank = lce::rank_in_block(state == LCE_COUNTED, &all);
        if (inside)
            weights += lce::place(a, token, label, state, counted + rank, &flags);
        if (inside && a.grad_entropy && state == LCE_COUNTED)
            most = fmaxf(most, fabsf(a.grad_entropy[token]));
        counted += all;
    }
    if (flags && a.error_flag)
        atomicOr(a.error_flag, flags);
    if (a.max_counted && counted > a.max_counted)
        counted = a.max_counted;
    for (int64_t i = counted + threadIdx.x; a.index && i < a.max_counted; i += 1024)
        a.index[i] = -1;
    weights = lce::block_sum(weights);
    most = lce::block_max(most);
    const double all_weights = lce::sum_of_weights(a);
    if (threadIdx.x == 0)
        *a.stats = lce::stats_of(a, weights, all_weights, counted, most);
}

/* Copies row index[r] of `from` to row r of `to`; zeros if the index is -1. */
extern "C" __global__ void lce_gather(const lce_rows_args a)
{
    const int32_t row = a.index[blockIdx.x];
    if (a.skips && lce::skipped(a.index, blockIdx.x))
        return;
    uint16_t *to = reinterpret_cast<uint16_t *>(static_cast<char *>(a.to) + blockIdx.x * a.to_stride);
    const uint16_t *from =
        reinterpret_cast<const uint16_t *>(static_cast<const char *>(a.from) + row * a.from_stride);
    int64_t done = 0;
    if (a.to_stride % 16 == 0 && a.from_stride % 16 == 0) { /* all rows are aligned to 16 bytes */
        done = a.width / 8;
        for (int64_t i = threadIdx.x; i < done; i += blockDim.x)
            reinterpret_cast<uint4 *>(to)[i] =
                row < 0 ? make_uint4(0, 0, 0, 0) : reinterpret_cast<const uint4 *>(from)[i];
        done *= 8;
    }
    for (int64_t i = done + threadIdx.x; i < a.width; i += blockDim.x)
        to[i] = row < 0 ? 0 : from[i];
}

/* Copies row r of `from` to row index[r] of `to`. */
extern "C" __global__ void lce_scatter(const lce_rows_args a)
{
    const int32_t row = a.index[blockIdx.x];
    uint16_t *to = reinterpret_cast<uint16_t *>(static_cast<char *>(a.to) + row * a.to_stride);
    const uint16_t *from =
        reinterpret_cast<const uint16_t *>(static_cast<const char *>(a.from) + blockIdx.x * a.from_stride);
    for (int64_t i = threadIdx.x; row >= 0 && i < a.width; i += blockDim.x)
        to[i] = from[i];
}

/* Each block moves its columns of all rows, in place, a batch of rows at a time, the last rows first.  A row
 * moves down or stays.  So a batch overwrites only rows that were moved before, and its own, all of which
 * have been read.  Where a batch's last row stays, all rows before it do. */
extern "C" __global__ void __launch_bounds__(LCE_EXPAND_THREADS) lce_expand(const lce_expand_args a)
{
    constexpr int64_t batch = LCE_EXPAND_THREADS / LCE_EXPAND_VECTORS;
    const int64_t column = static_cast<int64_t>(blockIdx.x) * LCE_EXPAND_VECTORS +
                           threadIdx.x % LCE_EXPAND_VECTORS,
                  counted = a.stats->counted; /* at most as many as the index has */
    uint4 *matrix = static_cast<uint4 *>(a.matrix) + column;
    for (int64_t end = counted; end > 0 && a.index[end - 1] != end - 1; end -= batch) {
        const int64_t row = end - batch + threadIdx.x / LCE_EXPAND_VECTORS;
        const bool moves = row >= 0 && column < a.vectors;
        const uint4 held = moves ? matrix[row * a.stride] : make_uint4(0, 0, 0, 0);
        __syncthreads();
        if (moves)
            matrix[a.index[row] * a.stride] = held;
        __syncthreads();
    }
}

/* Adds up the losses of all tokens, which are already divided for the mean; one block of 1024. */
extern "C" __global__ void __launch_bounds__(1024) lce_reduce(const lce_reduce_args a)
{
    double sum = 0;
    for (int64_t i = threadIdx.x; i < a.tokens; i += 1024)
        sum += a.losses[i];
    sum = lce::block_sum(sum);
    if (threadIdx.x == 0)
        *a.loss = a.mean && a.stats->counted == 0 ? CUDART_NAN_F : static_cast<float>(sum);
}

template <typename T> __device__ void blank(const lce_blank_args &a)
{
    const int state = a.state[blockIdx.x];
    if (state == LCE_COUNTED || (state == LCE_IGNORED && !a.zero_ignored))
        return;
    const T value = lce::from_float<T>(state == LCE_INVALID ? CUDART_NAN_F : 0.0f);
    T *row = static_cast<T *>(a.matrix) + blockIdx.x * a.stride;
    for (int64_t h = threadIdx.x; h < a.hidden; h += blockDim.x)
        row[h] = value;
}

/* One thread per column adds up the rows, in order. */
template <typename T> __device__ void column_sum(const lce_sum_args &a)
{
    const int32_t c = static_cast<int32_t>(blockIdx.x * blockDim.x + threadIdx.x);
    if (c >= a.vocab)
        return;
    float sum = a.add ? a.sums[c] : 0;
    int64_t rows = a.rows;
    if (a.stats && a.stats->counted - a.first < rows)
        rows = a.stats->counted - a.first;
    for (int64_t r = 0; r < rows; r++)
        sum += lce::to_float(static_cast<const T *>(a.g)[r * a.stride + c]);
    a.sums[c] = sum;
}

/* Blocks of 256, a.blocks of them to a row. */
template <typename T> __device__ void store(const lce_store_args &a)
{
    const int64_t r = blockIdx.x / a.blocks,
                  c = static_cast<int64_t>(blockIdx.x % a.blocks) * 256 + threadIdx.x;
    const int64_t row = a.index ? a.index[r] : r;
    if (c >= a.columns || row < 0)
        return;
    T *to = static_cast<T *>(a.to) + row * a.to_stride + c;
    float value = a.from ? a.from[r * a.from_stride + c] : 0;
    if (a.scaled)
        value *= a.stats->alpha;
    if (a.beta != 0)
        value += a.beta * lce::to_float(*to);
    *to = lce::from_float<T>(value);
}

/* a.blocks of 256 threads, which go over all: a factor of 1 costs the launch of these few. */
template <typename T> __device__ void scale(const lce_scale_args &a)
{
    constexpr int each = lce::Pack<T>::count;
    const float factor = *a.factor;
    if (factor == 1)
        return;
    const int64_t vectors = a.count / each, threads = static_cast<int64_t>(a.blocks) * 256,
                  thread = static_cast<int64_t>(blockIdx.x) * 256 + threadIdx.x;
    uint4 *line = static_cast<uint4 *>(a.matrix);
    for (int64_t i = thread; i < vectors; i += threads) {
        const uint4 raw = line[i];
        float z[each];
        lce::widen(lce::Pack<T>{{raw.x, raw.y, raw.z, raw.w}}, z);
#pragma unroll
        for (int k = 0; k < each; k++)
            z[k] *= factor;
        line[i] = lce::narrow<T>(z);
    }
    T *rest = static_cast<T *>(a.matrix) + vectors * each;
    if (thread < a.count % each)
        rest[thread] = lce::from_float<T>(lce::to_float(rest[thread]) * factor);
}

#define KERNELS(type, T)                                                                                     \
    extern "C" __global__ void lce_blank_##type(const lce_blank_args a)                                      \
    {                                                                                                        \
        blank<T>(a);                                                                                         \
    }                                                                                                        \
    extern "C" __global__ void lce_column_sum_##type(const lce_sum_args a)                                   \
    {                                                                                                        \
        column_sum<T>(a);                                                                                    \
    }                                                                                                        \
    extern "C" __global__ void lce_store_##type(const lce_store_args a)                                      \
    {                                                                                                        \
        store<T>(a);                                                                                         \
    }                                                                                                        \
    extern "C" __global__ void __launch_bounds__(256) lce_scale_##type(const lce_scale_args a)               \
    {                                                                                                        \
        scale<T>(a);                                                                                         \
    }

KERNELS(f32, float)
KERNELS(f16, __half)
KERNELS(bf16, __nv_bfloat16)
