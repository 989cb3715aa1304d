/*
 * product.cuh - dinput on Hopper's matrix units, for a number of tokens that only the device knows; and what
 * the other products share with it.
 *
 *     out[m, n] = alpha a[m, k] b[k, n]          m: counted tokens; k: classes, so sums are long
 *
 * The grid has as many blocks as the GPU runs at once, two to a cluster.  Clusters take tiles of 256 x 256,
 * or 256 x 192, in turn (product_tiles.cuh); each block computes 128 rows of a tile:
 *
 *     producer        one thread: waits until a stage is free in both blocks; fetches its own rows of a, and
 *                     half of b for both blocks
 *     two consumers   a warp group each, 64 rows of the tile in registers: wait for a stage, multiply, free
 *                     it in both blocks; at the end of a tile convert and store it, while the producer
 *                     fetches the next one
 *
 * Parts of split tiles (product_split.h) are stored in fp32, and own_scatter adds them up in a fixed order.
 * Where k is a slab of the classes, tiles and parts are added to sums in fp32.
 */
#ifndef LCE_CUDA_PRODUCT_CUH
#define LCE_CUDA_PRODUCT_CUH

#include <type_traits>

#include "device.cuh"
#include "hopper.cuh"
#include "odds.cuh"
#include "product_tiles.cuh"

namespace lce
{

constexpr int tile_a = LCE_TILE_M * LCE_TILE_K * 2, box = 64 * 64 * 2;

/* What depends on the width of dinput's tile: how many boxes of b are in a stage, its bytes, how many stages
 * there are, and how many columns of the staging. */
template <int Width_> struct Tile {
    static constexpr int Width = Width_, boxes = Width / 64, stage = tile_a + boxes * box,
                         Stages = Width == LCE_WIDE ? 4 : 5, Columns = Width == LCE_WIDE ? 128 : 64;
    static constexpr int shared = 1024 + Stages * stage + 2 * Columns * 64 * 2 + 256;
};

/* A stage and the parity of its barriers, in turn. */
template <int Stages> struct Turn {
    int stage = 0;
    uint32_t parity = 0;
    __device__ void next()
    {
        if (++stage == Stages) {
            stage = 0;
            parity ^= 1;
        }
    }
    __device__ void skip(int32_t steps)
    {
        const int32_t rounds = (stage + steps) / Stages;
        stage += steps - rounds * Stages;
        parity ^= rounds & 1;
    }
};

/* A block's part of a cluster's tile: 128 rows of it. */
constexpr int tile_height = LCE_PRODUCT_CLUSTER * LCE_TILE_M;
template <int Width> __device__ inline OwnTile own_tile(const OwnShape &s, int32_t turn, uint32_t rank)
{
    OwnTile t = tile_of<tile_height, Width>(s, turn);
    t.m += static_cast<int32_t>(rank) * LCE_TILE_M;
    return t;
}

struct OwnShared {
    uint32_t stages, staging; /* addresses */
    uint32_t full, empty;     /* addresses of barriers, 8 bytes for each stage */
    uint32_t ready, staged;   /* barriers of each consumer: its staging may be filled, is filled */
};

/* ---- the producer ---- */

/* This block's half of b, for both: two of four boxes, or of each of three the half of k.  b's k is not
 * contiguous: its boxes are of 64 x 64, which the matrix units transpose. */
template <typename T>
__device__ inline void fetch_half(const lce_own_args &a, int32_t n, int32_t k, uint32_t rank, uint32_t to,
                                  uint32_t full)
{
    const int32_t half = static_cast<int32_t>(rank);
    if constexpr (T::boxes % 2 == 0) {
#pragma unroll
        for (int i = 0; i < T::boxes / 2; i++)
            tile_load_both(to + (rank * (T::boxes / 2) + i) * box, &a.b, n + half * (T::Width / 2) + 64 * i,
                           k, full);
    } else {
#pragma unroll
        for (int i = 0; i < T::boxes; i++)
            tile_load_both(to + i * box + rank * (box / 2), &a.b, n + 64 * i, k + half * (LCE_TILE_K / 2),
                           full);
    }
}

template <typename T>
__device__ inline void fetch(const lce_own_args &a, const OwnShape &s, const OwnTile &t, int32_t step,
                             uint32_t rank, uint32_t to, uint32_t full)
{
    static_assert(LCE_PRODUCT_CLUSTER == 2, "each block fetches half of b");
    const int32_t k = (s.k_first + step) * LCE_TILE_K;
    barrier_expect(full, T::stage);
    tile_load(to, &a.a, k, t.m, full);
    fetch_half<T>(a, t.n, k, rank, to + tile_a, full);
}

template <typename T>
__device__ inline void produce(const lce_own_args &a, const OwnShape &s, const OwnShared &shared,
                               int32_t cluster, uint32_t rank)
{
    Turn<T::Stages> at;
    for (int32_t turn = cluster; turn < s.turns; turn += s.clusters) {
        const OwnTile t = own_tile<T::Width>(s, turn, rank);
        for (int32_t step = t.k_begin; step < t.k_end; step++) {
            barrier_wait(shared.empty + 8 * at.stage, at.parity ^ 1);
            fetch<T>(a, s, t, step, rank, shared.stages + at.stage * T::stage, shared.full + 8 * at.stage);
            at.next();
        }
    }
}

/* ---- a consumer ---- */

/* Threads 0 and 1 of the warp group signal one block of the cluster each. */
__device__ inline void release(uint32_t empty)
{
    if (threadIdx.x % 128 < LCE_PRODUCT_CLUSTER)
        barrier_arrive(empty, threadIdx.x % 128);
}

template <bool F16, int Count>
__device__ inline void multiply_stage(float (&d)[Count], uint32_t stage, int consumer, bool fresh)
{
    const uint64_t a = wgmma_descriptor(stage + consumer * (tile_a / 2)),
                   b = wgmma_descriptor(stage + tile_a);
    wgmma_fence();
#pragma unroll
    for (int i = 0; i < LCE_TILE_K / 16; i++) {
        const int add = i > 0 || !fresh;
        if constexpr (F16)
            wgmma_f16<0, 1>(d, a + i * wgmma_step<0>, b + i * wgmma_step<1>, add);
        else
            wgmma_bf16<0, 1>(d, a + i * wgmma_step<0>, b + i * wgmma_step<1>, add);
    }
    wgmma_commit();
}

/* Frees the stages of a tile in which this consumer has no rows. */
template <int Stages>
__device__ inline void skip_tile(const OwnTile &t, const OwnShared &shared, Turn<Stages> &at, int consumer)
{
    Turn<Stages> here = at;
    for (int32_t step = t.k_begin; threadIdx.x % 128 < 32 && step < t.k_end; step++) {
        barrier_wait(shared.full + 8 * here.stage, here.parity);
        release(shared.empty + 8 * here.stage);
        here.next();
    }
    group_barrier(1 + consumer); /* otherwise a warp could get a whole round ahead */
    at.skip(t.k_end - t.k_begin);
}

/* Multiplies over all of a tile's k.  Waits for the products of a step only when those of the next are
 * running. */
template <bool F16, typename T>
__device__ inline void multiply_tile(float (&d)[T::Width / 2], const OwnTile &t, const OwnShared &shared,
                                     Turn<T::Stages> &at, int consumer)
{
    int last = at.stage;
    barrier_wait(shared.full + 8 * at.stage, at.parity);
    multiply_stage<F16>(d, shared.stages + at.stage * T::stage, consumer, true);
    at.next();
    for (int32_t step = t.k_begin + 1; step < t.k_end; step++) {
        barrier_wait(shared.full + 8 * at.stage, at.parity);
        multiply_stage<F16>(d, shared.stages + at.stage * T::stage, consumer, false);
        wgmma_wait<1>();
        release(shared.empty + 8 * last);
        last = at.stage;
        at.next();
    }
    wgmma_wait<0>();
    release(shared.empty + 8 * last);
    wgmma_sums(d);
}

/* Stores 32-bit sums straight to memory; four threads fill 32 bytes.  OUT points to this consumer's first
 * row and column; ROWS and COLUMNS of them are inside the matrix.  Of the old values many are on their way at
 * a time. */
template <int Boxes> /* of 64 columns */
__device__ inline void store_sums(float *out, int64_t stride, int32_t rows, int32_t columns, float beta,
                                  const float (&d)[32 * Boxes], float alpha)
{
    constexpr int batch = 16;
    const int32_t thread = static_cast<int32_t>(threadIdx.x % 128), lane = thread % 32;
    const int32_t row = thread / 32 * 16 + lane / 4, column = lane % 4 * 2;
    out += row * stride + column;
#pragma unroll
    for (int begin = 0; begin < 16 * Boxes; begin += batch) {
        float2 value[batch];
#pragma unroll
        for (int j = 0; j < batch; j++) {
            const int32_t i = begin + j, down = i % 2 * 8, right = i / 2 * 8;
            value[j] = {0, 0};
            if (beta != 0 && row + down < rows && column + right < columns)
                value[j] = *reinterpret_cast<const float2 *>(out + down * stride + right);
        }
#pragma unroll
        for (int j = 0; j < batch; j++) {
            const int32_t i = begin + j, down = i % 2 * 8, right = i / 2 * 8;
            const float2 sum = {alpha * d[2 * i] + beta * value[j].x,
                                alpha * d[2 * i + 1] + beta * value[j].y};
            if (row + down < rows && column + right < columns)
                *reinterpret_cast<float2 *>(out + down * stride + right) = sum;
        }
    }
}

template <bool F16> __device__ inline uint32_t pack(float x, float y)
{
    if constexpr (F16)
        return narrow_word({x, y}, __half());
    else
        return narrow_word({x, y}, __nv_bfloat16());
}
template <bool F16> __device__ inline float2 unpack(uint32_t word)
{
    if constexpr (F16)
        return widen_word(word, __half());
    else
        return widen_word(word, __nv_bfloat16());
}

/* How sums are stored: unchanged, added to the old values, or with both factors. */
enum Ending { AS_IS, ADDED, FACTORS };

__device__ inline Ending ending_of(const lce_own_args &a)
{
    if (a.alpha || (a.beta != 0 && a.beta != 1))
        return FACTORS;
    return a.beta == 1 ? ADDED : AS_IS;
}

/* Stores 16-bit sums through shared memory, Columns at a time.  If beta is not 0 the old values were fetched
 * to the same place before.  This does not overlap with arithmetic of the matrix units, so it is kept short:
 * factors of 1 are left out, and the loads of four matrices run together. */
template <bool F16, int Columns, Ending ending, int Count>
__device__ inline void stage_sums(const lce_own_args &a, const float (&d)[Count], uint32_t staging, int first,
                                  float alpha)
{
    constexpr int batch = 4;
    const int32_t thread = static_cast<int32_t>(threadIdx.x % 128), lane = thread % 32;
    const uint32_t row = thread / 32 * 16 + lane % 16, line = staging + row * 128;
    const bool adds = ending == ADDED || (ending == FACTORS && a.beta != 0);
#pragma unroll
    for (int begin = 0; begin < Columns / 16; begin += batch) {
        uint32_t word[batch][4], place[batch];
#pragma unroll
        for (int i = 0; i < batch; i++) {
            const uint32_t part = 2 * (begin + i) + lane / 16;
            place[i] = line + part / 8 * box + ((part ^ row) % 8) * 16;
            if (adds)
                matrices_load(place[i], word[i]);
        }
#pragma unroll
        for (int i = 0; i < batch; i++) {
            const int at = first / 8 + 2 * (begin + i); /* which matrix of 8 columns of the sums */
#pragma unroll
            for (int j = 0; j < 4; j++) {
                const int from = (at + j / 2) * 4 + j % 2 * 2;
                float2 pair = {d[from], d[from + 1]};
                if (ending == FACTORS)
                    pair = {alpha * pair.x, alpha * pair.y};
                if (adds) {
                    const float2 before = unpack<F16>(word[i][j]);
                    const float beta = ending == ADDED ? 1 : a.beta;
                    pair = {pair.x + beta * before.x, pair.y + beta * before.y};
                }
                word[i][j] = pack<F16>(pair.x, pair.y);
            }
        }
        if (adds)
            __syncwarp(); /* all lanes have read the values that are overwritten now */
#pragma unroll
        for (int i = 0; i < batch; i++)
            matrices_store(place[i], word[i]);
    }
}

/* Moves the sums through staging, Columns at a time; the storer does the rest. */
template <bool F16, int Columns, int Count>
__device__ inline void stage_tile(const lce_own_args &a, const float (&d)[Count], uint32_t staging,
                                  uint32_t ready, uint32_t staged, uint32_t &parity, float alpha)
{
#pragma unroll
    for (int first = 0; first < 2 * Count; first += Columns) {
        barrier_wait(ready, parity);
        if (a.alpha)
            stage_sums<F16, Columns, FACTORS>(a, d, staging, first, alpha);
        else
            stage_sums<F16, Columns, AS_IS>(a, d, staging, first, alpha);
        shared_fence();
        barrier_arrive_here(staged);
        parity ^= 1;
    }
}

/* Waits until as many parts of the tile are in the sums as belong before this one.  ORDER is this consumer's
 * own; what others wrote before they counted can be read afterwards. */
__device__ inline void wait_for_parts(int32_t *order, int32_t parts, int consumer)
{
    if (threadIdx.x % 128 == 0) {
        while (atomicAdd(order, 0) != parts)
            __nanosleep(100);
        __threadfence();
    }
    group_barrier(1 + consumer);
}
__device__ inline void count_part(int32_t *order, int32_t parts, int consumer)
{
    group_barrier(1 + consumer);
    if (threadIdx.x % 128 == 0) {
        __threadfence(); /* after the barrier, it is one for what all threads wrote */
        atomicExch(order, parts);
    }
}

/* Adds a tile, or a part of one, to the sums; the first part of a tile may overwrite them. */
template <int Count>
__device__ inline void add_sums(const lce_own_args &a, const OwnShape &s, const OwnTile &t, uint32_t rank,
                                int consumer, const float (&d)[Count], float alpha)
{
    const int32_t m = t.m + consumer * 64;
    int32_t *order = a.order + (t.place * LCE_PRODUCT_CLUSTER + static_cast<int32_t>(rank)) * 2 + consumer;
    if (t.waits > 0)
        wait_for_parts(order, t.waits, consumer);
    store_sums<Count / 32>(static_cast<float *>(a.sums) + m * a.sums_stride + t.n, a.sums_stride, s.m - m,
                           s.n - t.n, t.waits > 0 ? 1 : a.beta, d, alpha);
    if (t.part >= 0)
        count_part(order, t.waits + 1 < parts_of(s) ? t.waits + 1 : 0, consumer);
}

template <bool F16, bool Sums, typename T>
__device__ inline void consume(const lce_own_args &a, const OwnShape &s, const OwnShared &shared,
                               int32_t cluster, uint32_t rank, int consumer)
{
    constexpr int Columns = T::Columns;
    Turn<T::Stages> at;
    float d[T::Width / 2];
    uint32_t parity = 0;
    const float alpha = a.alpha ? *a.alpha : 1;
    float *sums = static_cast<float *>(a.sums);
    for (int32_t turn = cluster; turn < s.turns; turn += s.clusters) {
        const OwnTile t = own_tile<T::Width>(s, turn, rank);
        const int32_t m = t.m + consumer * 64;
        if (t.none)
            continue;
        if (m >= s.m) {
            skip_tile<T::Stages>(t, shared, at, consumer);
            continue;
        }
        multiply_tile<F16, T>(d, t, shared, at, consumer);
        if constexpr (Sums) {
            add_sums(a, s, t, rank, consumer, d, alpha);
        } else if (t.part >= 0) {
            const int64_t row =
                static_cast<int64_t>(t.part) * tile_height + rank * LCE_TILE_M + consumer * 64;
            store_sums<T::boxes>(sums + row * LCE_TILE_N, LCE_TILE_N, s.m - m, s.n - t.n, 0, d, alpha);
        } else {
            stage_tile<F16, Columns>(a, d, shared.staging + consumer * (Columns * 64 * 2),
                                     shared.ready + 8 * consumer, shared.staged + 8 * consumer, parity,
                                     alpha);
        }
    }
}

/* ---- the storer: one thread for each consumer ---- */

template <typename T>
__device__ inline void store_tiles(const lce_own_args &a, const OwnShape &s, const OwnShared &shared,
                                   int32_t cluster, uint32_t rank, int consumer)
{
    constexpr int Columns = T::Columns;
    const uint32_t staging = shared.staging + consumer * (Columns * 64 * 2),
                   ready = shared.ready + 8 * consumer, staged = shared.staged + 8 * consumer;
    uint32_t parity = 0;
    for (int32_t turn = cluster; turn < s.whole; turn += s.clusters) {
        const OwnTile t = own_tile<T::Width>(s, turn, rank);
        const int32_t m = t.m + consumer * 64;
        for (int32_t n = t.n; m < s.m && n < t.n + T::Width; n += Columns) {
            stores_read();
            barrier_arrive_here(ready);
            barrier_wait(staged, parity);
            parity ^= 1;
            for (int i = 0; i < Columns / 64; i++) {
                tile_store(&a.out, staging + i * box, n + 64 * i, m);
                stores_commit();
            }
        }
    }
    stores_done();
}

/* SUMS: over slabs, which are added to the old ones in fp32. */
template <bool F16, bool Sums, int Width> __device__ inline void own_product(const lce_own_args &a)
{
    using T = Tile<Width>;
    constexpr int Stages = T::Stages, Columns = T::Columns;
    static_assert(T::shared <= LCE_PRODUCT_SHARED, "too much shared memory");
    extern __shared__ char memory[];
    const uint32_t base = (shared_address(memory) + 1023) / 1024 * 1024;
    OwnShared shared;
    shared.stages = base;
    shared.staging = base + Stages * T::stage;
    shared.full = shared.staging + 2 * Columns * 64 * 2;
    shared.empty = shared.full + 8 * Stages;
    shared.ready = shared.empty + 8 * Stages;
    shared.staged = shared.ready + 16;
    const int32_t place = static_cast<int32_t>(blockIdx.x) / LCE_PRODUCT_CLUSTER,
                  cluster = Sums ? a.clusters - 1 - place : place; /* see part_of_turn */
    const uint32_t rank = cluster_rank();
    const OwnShape s = shape_of<false>(a, tile_height, Width);
    if (threadIdx.x == 0) {
        for (int i = 0; i < Stages; i++) {
            barrier_init(shared.full + 8 * i, 1);
            barrier_init(shared.empty + 8 * i, 2 * LCE_PRODUCT_CLUSTER);
        }
        for (int i = 0; i < 2; i++) {
            barrier_init(shared.ready + 8 * i, 1);
            barrier_init(shared.staged + 8 * i, 128);
        }
        barrier_fence_init();
    }
    __syncthreads();
    cluster_barrier();
    const int group = static_cast<int>(threadIdx.x / 128);
    if (group == 0) {
        registers_give<40>();
        if (threadIdx.x == 0)
            produce<T>(a, s, shared, cluster, rank);
        else if (!Sums && (threadIdx.x == 32 || threadIdx.x == 64))
            store_tiles<T>(a, s, shared, cluster, rank, threadIdx.x / 32 - 1);
        __syncwarp();
    } else {
        registers_take<232>();
        consume<F16, Sums, T>(a, s, shared, cluster, rank, group - 1);
    }
    __syncthreads();
    cluster_barrier(); /* the other block may still write to this block's memory and barriers */
}

/* Eight numbers of the row of the weight that a token's label has; 0 where the product is not of odds. */
template <typename T>
__device__ inline uint4 label_vector(const lce_own_rows_args &a, int64_t token, int32_t column)
{
    if (!a.factors)
        return make_uint4(0, 0, 0, 0);
    const T *row = static_cast<const T *>(a.weight) + label_of(a.labels, token) * a.weight_stride;
    return *reinterpret_cast<const uint4 *>(row + column);
}

/* Eight numbers of a product's row become those of dinput. */
template <typename T>
__device__ inline uint4 dinput_of(const lce_own_rows_args &a, int32_t row, const uint4 &of_label,
                                  float (&v)[8])
{
    if constexpr (std::is_same_v<T, Bf16>)
        if (a.factors)
            odds_dinput_of(v, a.factors[row], of_label);
    return narrow<T>(v);
}

/* One block per token: copies its row of a product to the caller's row that the index names.  Adds the parts
 * of split tiles, in order. */
template <typename T> __device__ inline void own_scatter(const lce_own_rows_args &a)
{
    const lce_own_args &p = a.product;
    const int32_t row = static_cast<int32_t>(blockIdx.x);
    if (row >= tokens_of(p))
        return;
    const int64_t to = a.index ? a.index[row] : row;
    const uint4 *here = reinterpret_cast<const uint4 *>(static_cast<const T *>(a.from) + row * a.from_stride);
    uint4 *there = reinterpret_cast<uint4 *>(static_cast<T *>(a.to) + to * a.to_stride);
    constexpr int64_t height = tile_height;
    for (int32_t column = 8 * static_cast<int32_t>(threadIdx.x); column < p.n;
         column += 8 * static_cast<int32_t>(blockDim.x)) {
        const uint4 raw = here[column / 8], of_label = label_vector<T>(a, to, column); /* before all else */
        const OwnShape s = shape_of<false>(p, tile_height, a.width);
        const int32_t place = place_of(s, row, column, tile_height, a.width);
        const bool whole = place < s.whole;
        if (whole && !a.factors) {
            there[column / 8] = raw;
            continue;
        }
        float sum[8] = {};
        if (whole)
            widen(Pack<T>{{raw.x, raw.y, raw.z, raw.w}}, sum);
        for (int32_t i = 0; !whole && i < parts_of(s); i++) {
            const int64_t line = part_of_place(s, place, i) * height + row % height;
            const float4 *from = reinterpret_cast<const float4 *>(static_cast<const float *>(p.sums) +
                                                                  line * LCE_TILE_N + column % a.width);
            const float4 x = from[0], y = from[1];
            sum[0] += x.x, sum[1] += x.y, sum[2] += x.z, sum[3] += x.w;
            sum[4] += y.x, sum[5] += y.y, sum[6] += y.z, sum[7] += y.w;
        }
        there[column / 8] = dinput_of<T>(a, row, of_label, sum);
    }
}

} // namespace lce

#endif
