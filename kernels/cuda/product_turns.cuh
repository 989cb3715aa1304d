/*
 * product_turns.cuh - the logits and dweight on Hopper's matrix units: short sums, and much to write.
 *
 *     out[m, n] = alpha a[m, k] b[n, k]^T                     the logits: m is tokens
 *     out[m, n] = beta out + alpha a[k, m]^T b[k, n]          dweight: k is tokens
 *
 * In product.cuh both consumers work on one tile, so the matrix units stand still while it is converted and
 * stored: here that would be up to a fifth of the time.  So consumers take tiles in turn, and one's end of a
 * tile runs beside the other's arithmetic:
 *
 *     consumer 0   | multiplies tile 0 | its end .. |  multiplies tile 2 | its end .. |
 *     consumer 1                       | multiplies tile 1  | its end .. | multiplies tile 3 ...
 *
 * A block's tile has 64 Down x 64 Right sums, all in the registers of one warp group.  The two blocks of a
 * cluster share the operand of the longer side: each fetches half of it for both.
 */
#ifndef LCE_CUDA_PRODUCT_TURNS_CUH
#define LCE_CUDA_PRODUCT_TURNS_CUH

#include "product.cuh"

namespace lce
{

/* The sizes of a kernel; whether its operands are stored as [k, m] and [k, n], so that tokens are k, or as
 * [m, k] and [n, k]. */
template <int Down_, int Right_, int Stages_, bool Across_> struct Turns {
    static constexpr int Down = Down_, Right = Right_, Stages = Stages_;
    static constexpr bool Across = Across_;
    static constexpr bool share_a = Down > Right;
    static constexpr int boxes = Down * Right; /* of 64 x 64 */
    static constexpr int height = 64 * Down * (share_a ? 1 : 2), width = 64 * Right * (share_a ? 2 : 1);
    static constexpr int stage = (Down + Right) * box, staging = boxes * box;
    static constexpr int shared = 1024 + Stages * stage + staging + 256;
};

template <typename S> __device__ inline OwnTile turn_tile(const OwnShape &s, int32_t turn, uint32_t rank)
{
    OwnTile t = tile_of<S::height, S::width>(s, turn);
    if (S::share_a)
        t.n += static_cast<int32_t>(rank) * 64 * S::Right;
    else
        t.m += static_cast<int32_t>(rank) * 64 * S::Down;
    return t;
}

struct TurnShared {
    uint32_t stages, staging; /* addresses */
    uint32_t full, empty;     /* as in OwnShared */
    uint32_t ready, staged;   /* barriers of each consumer, which take the one staging in turn */
};

/* ---- the producer ---- */

/* Fetches COUNT boxes of an operand from FIRST on: whole, or this block's half of them for both blocks (of
 * k, where boxes lie along it). */
template <int Count, bool Shared, bool Across>
__device__ inline void fetch_boxes(const CUtensorMap *map, uint32_t to, int32_t first, int32_t k,
                                   uint32_t rank, uint32_t full)
{
    const int32_t half = static_cast<int32_t>(rank);
    if constexpr (Across) {
#pragma unroll
        for (int i = 0; i < Count; i++)
            if (Shared)
                tile_load_both(to + i * box + rank * (box / 2), map, first + 64 * i,
                               k + half * (LCE_TILE_K / 2), full);
            else
                tile_load(to + i * box, map, first + 64 * i, k, full);
    } else if (Shared) {
        tile_load_both(to + rank * (Count * box / 2), map, k, first + half * (Count * 32), full);
    } else {
        tile_load(to, map, k, first, full);
    }
}

template <typename S>
__device__ inline void produce_turns(const lce_own_args &a, const OwnShape &s, const TurnShared &shared,
                                     int32_t cluster, uint32_t rank)
{
    Turn<S::Stages> at;
    for (int32_t turn = cluster; turn < s.turns; turn += s.clusters) {
        const OwnTile t = turn_tile<S>(s, turn, rank);
        for (int32_t step = 0; step < s.k_steps; step++) {
            const int32_t k = (s.k_first + step) * LCE_TILE_K;
            const uint32_t to = shared.stages + at.stage * S::stage, full = shared.full + 8 * at.stage;
            barrier_wait(shared.empty + 8 * at.stage, at.parity ^ 1);
            barrier_expect(full, S::stage);
            fetch_boxes<S::Down, S::share_a, S::Across>(&a.a, to, t.m, k, rank, full);
            fetch_boxes<S::Right, !S::share_a, S::Across>(&a.b, to + S::Down * box, t.n, k, rank, full);
            at.next();
        }
    }
}

/* ---- a consumer ---- */

template <bool F16, typename S>
__device__ inline void multiply_turn_stage(float (&d)[S::Down][32 * S::Right], uint32_t stage, bool fresh)
{
    const uint64_t a = wgmma_descriptor(stage), b = wgmma_descriptor(stage + S::Down * box);
    wgmma_fence();
#pragma unroll
    for (int i = 0; i < LCE_TILE_K / 16; i++) {
        const int add = i > 0 || !fresh;
#pragma unroll
        for (int down = 0; down < S::Down; down++) {
            const uint64_t of_a = a + down * (box >> 4) + i * wgmma_step<S::Across>;
            if constexpr (F16)
                wgmma_f16<S::Across, S::Across>(d[down], of_a, b + i * wgmma_step<S::Across>, add);
            else
                wgmma_bf16<S::Across, S::Across>(d[down], of_a, b + i * wgmma_step<S::Across>, add);
        }
    }
    wgmma_commit();
}

/* Multiplies over all of a tile's k; then it is the other consumer's turn.  That must not wait for a stage
 * before this one has: it could take the barrier's round before the last for its own. */
template <bool F16, typename S>
__device__ inline void multiply_turn(float (&d)[S::Down][32 * S::Right], const OwnShape &s,
                                     const TurnShared &shared, Turn<S::Stages> &at, int give)
{
    int last = at.stage;
    barrier_wait(shared.full + 8 * at.stage, at.parity);
    multiply_turn_stage<F16, S>(d, shared.stages + at.stage * S::stage, true);
    at.next();
    for (int32_t step = 1; step < s.k_steps; step++) {
        barrier_wait(shared.full + 8 * at.stage, at.parity);
        multiply_turn_stage<F16, S>(d, shared.stages + at.stage * S::stage, false);
        wgmma_wait<1>();
        release(shared.empty + 8 * last);
        last = at.stage;
        at.next();
    }
    if (give > 0)
        turn_give(give);
    wgmma_wait<0>();
    release(shared.empty + 8 * last);
#pragma unroll
    for (int down = 0; down < S::Down; down++)
        wgmma_sums(d[down]);
}

/* Moves the sums of a tile to the staging, in 16 bits, with the old values that are there. */
template <bool F16, typename S, Ending ending>
__device__ inline void stage_turn(const lce_own_args &a, const float (&d)[S::Down][32 * S::Right],
                                  uint32_t staging, float alpha)
{
#pragma unroll
    for (int down = 0; down < S::Down; down++)
#pragma unroll
        for (int right = 0; right < S::Right; right++)
            stage_sums<F16, 64, ending>(a, d[down], staging + (down * S::Right + right) * box, 64 * right,
                                        alpha);
}

/* Likewise in 32 bits: boxes of 64 x 32, the COUNT from FIRST on. */
template <typename S, int First, int Count>
__device__ inline void stage_wide(const float (&d)[S::Down][32 * S::Right], uint32_t staging, float alpha)
{
    const uint32_t thread = threadIdx.x % 128, lane = thread % 32, row = thread / 32 * 16 + lane / 4;
#pragma unroll
    for (int i = 0; i < Count; i++) {
        const int down = (First + i) / (2 * S::Right), right = (First + i) % (2 * S::Right);
        const uint32_t line = staging + i * box + row * 128 + lane % 2 * 8;
#pragma unroll
        for (int j = 0; j < 8; j++) { /* 8 columns, of this row and of that 8 below */
            const int from = right * 16 + j / 2 * 4 + j % 2 * 2;
            const uint32_t part = static_cast<uint32_t>(j / 2 * 2) + lane % 4 / 2;
            pair_store(line + j % 2 * 1024 + (part ^ row % 8) * 16, alpha * d[down][from],
                       alpha * d[down][from + 1]);
        }
    }
}

/* The end of a tile: hands its sums to the storer.  Those of 32 bits take the staging twice. */
template <bool F16, bool Wide, typename S>
__device__ inline void end_turn(const lce_own_args &a, const float (&d)[S::Down][32 * S::Right],
                                uint32_t staging, uint32_t ready, uint32_t staged, uint32_t &parity,
                                float alpha)
{
    const Ending ending = ending_of(a);
    barrier_wait(ready, parity);
    if constexpr (Wide) {
        stage_wide<S, 0, S::boxes>(d, staging, alpha);
        shared_fence();
        barrier_arrive_here(staged);
        barrier_wait(ready, parity ^ 1);
        stage_wide<S, S::boxes, S::boxes>(d, staging, alpha);
        parity ^= 1;
    } else if (ending == AS_IS) {
        stage_turn<F16, S, AS_IS>(a, d, staging, alpha);
    } else if (ending == ADDED) {
        stage_turn<F16, S, ADDED>(a, d, staging, alpha);
    } else {
        stage_turn<F16, S, FACTORS>(a, d, staging, alpha);
    }
    shared_fence();
    barrier_arrive_here(staged);
    parity ^= 1;
}

/* Whether 32-bit sums are stored one by one: with any other factor of the old values than 0 and 1. */
__device__ inline bool stores_singly(const lce_own_args &a)
{
    return a.beta != 0 && a.beta != 1;
}

/* The barriers and the staging of a consumer at the end of a tile. */
struct TurnEnd {
    uint32_t staging, ready, staged, parity;
};

/* What a consumer does with the sums of its tile: here, stores them. */
template <bool F16, bool Wide, typename S> struct StoreSums {
    const lce_own_args &a;
    const float alpha;

    __device__ explicit StoreSums(const lce_own_args &arguments) : a(arguments), alpha(a.alpha ? *a.alpha : 1)
    {
    }
    __device__ void operator()(float (&d)[S::Down][32 * S::Right], const OwnShape &s, int32_t turn,
                               uint32_t rank, TurnEnd &at) const
    {
        if (Wide && stores_singly(a)) {
            const OwnTile t = turn_tile<S>(s, turn, rank);
#pragma unroll
            for (int down = 0; down < S::Down; down++)
                store_sums<S::Right>(static_cast<float *>(a.sums) + (t.m + 64 * down) * a.sums_stride + t.n,
                                     a.sums_stride, s.m - t.m - 64 * down, a.columns - t.n, a.beta, d[down],
                                     alpha);
        } else {
            end_turn<F16, Wide, S>(a, d, at.staging, at.ready, at.staged, at.parity, alpha);
        }
    }
};

template <bool F16, typename S, typename End>
__device__ inline void consume_turns(const End &end, const OwnShape &s, const TurnShared &shared,
                                     int32_t cluster, uint32_t rank, int consumer)
{
    Turn<S::Stages> at;
    float d[S::Down][32 * S::Right];
    TurnEnd place = {shared.staging, shared.ready + 8 * consumer, shared.staged + 8 * consumer, 0};
    int whose = 0;
    for (int32_t turn = cluster; turn < s.turns; turn += s.clusters, whose ^= 1) {
        if (whose != consumer) {
            at.skip(s.k_steps);
            continue;
        }
        const bool more = turn + s.clusters < s.turns;
        if (turn > cluster)
            turn_wait(1 + consumer);
        multiply_turn<F16, S>(d, s, shared, at, more ? 2 - consumer : 0);
        end(d, s, turn, rank, place);
    }
}

/* ---- the storer: one thread ---- */

/* All blocks end a tile at about the same time.  Their stores, and the loads of old values, would come in
 * bursts that saturate memory and delay the operands of the next tile.  So boxes are moved one at a time,
 * with pauses that spread them over the next tile. */
__device__ inline void pause(uint32_t nanoseconds)
{
    if (nanoseconds > 0)
        __nanosleep(nanoseconds);
}

/* Stores what is staged.  Sums of 32 bits are added in memory by the bulk copy, which rounds once, as 16-bit
 * ones are rounded in the staging, but may flush numbers below 1.2e-38 to 0.  Each element gets one addition
 * a launch, so their order is that of the launches. */
template <bool Wide, typename S>
__device__ inline void store_staged(const lce_own_args &a, const OwnTile &t, uint32_t staging, int first,
                                    uint32_t spread)
{
    constexpr int across = Wide ? 2 * S::Right : S::Right, columns = Wide ? 32 : 64;
    for (int i = 0; i < S::boxes; i++) {
        const int32_t n = t.n + (first + i) % across * columns, m = t.m + (first + i) / across * 64;
        if (Wide && a.beta != 0)
            tile_add(&a.out, staging + i * box, n, m);
        else
            tile_store(&a.out, staging + i * box, n, m);
        stores_commit();
        pause(spread);
    }
}

template <typename S>
__device__ inline void fetch_old(const lce_own_args &a, const OwnTile &t, uint32_t staging, uint32_t ready,
                                 uint32_t spread)
{
    barrier_expect(ready, S::staging);
    for (int i = 0; i < S::boxes; i++) {
        tile_load(staging + i * box, &a.out, t.n + i % S::Right * 64, t.m + i / S::Right * 64, ready);
        pause(spread);
    }
}

template <bool Wide, typename S>
__device__ inline void store_turns(const lce_own_args &a, const OwnShape &s, const TurnShared &shared,
                                   int32_t cluster, uint32_t rank)
{
    uint32_t parities = 0; /* a bit for each consumer */
    int whose = 0;
    for (int32_t turn = cluster; turn < s.turns; turn += s.clusters, whose ^= 1) {
        const OwnTile t = turn_tile<S>(s, turn, rank);
        const uint32_t ready = shared.ready + 8 * whose, staged = shared.staged + 8 * whose;
        const uint32_t spread = turn + s.clusters >= s.turns ? 0 : static_cast<uint32_t>(s.k_steps * a.pause);
        for (int part = 0; part < (Wide ? 2 : 1); part++) {
            stores_read();
            if (!Wide && a.beta != 0)
                fetch_old<S>(a, t, shared.staging, ready, turn == cluster ? 0 : spread);
            else
                barrier_arrive_here(ready);
            barrier_wait(staged, parities >> whose & 1);
            parities ^= 1u << whose;
            store_staged<Wide, S>(a, t, shared.staging, part * S::boxes, spread);
        }
    }
    stores_done();
}

/* ---- all of it ---- */

template <typename S> __device__ inline TurnShared lay_out_turns(uint32_t memory)
{
    TurnShared shared;
    shared.stages = (memory + 1023) / 1024 * 1024;
    shared.staging = shared.stages + S::Stages * S::stage;
    shared.full = shared.staging + S::staging;
    shared.empty = shared.full + 8 * S::Stages;
    shared.ready = shared.empty + 8 * S::Stages;
    shared.staged = shared.ready + 16;
    if (threadIdx.x == 0) {
        for (int i = 0; i < S::Stages; i++) {
            barrier_init(shared.full + 8 * i, 1);
            barrier_init(shared.empty + 8 * i, 2); /* a consumer of each block */
        }
        for (int i = 0; i < 2; i++) {
            barrier_init(shared.ready + 8 * i, 1);
            barrier_init(shared.staged + 8 * i, 128);
        }
        barrier_fence_init();
    }
    return shared;
}

/* End is made of its ARGUMENTS, of which A is the product's part. */
template <bool F16, bool Wide, typename S, typename End, typename Arguments>
__device__ inline void own_turns(const lce_own_args &a, const Arguments &arguments)
{
    extern __shared__ char memory[];
    const TurnShared shared = lay_out_turns<S>(shared_address(memory));
    const int32_t cluster = static_cast<int32_t>(blockIdx.x) / 2;
    const uint32_t rank = cluster_rank();
    const OwnShape s = shape_of<S::Across>(a, S::height, S::width);
    const int group = static_cast<int>(threadIdx.x / 128);
    if (S::Across && s.k_first > 0 && a.beta == 1) /* an empty sum adds nothing */
        return;
    __syncthreads();
    cluster_barrier();
    if (group == 0) {
        registers_give<40>();
        if (threadIdx.x == 0)
            produce_turns<S>(a, s, shared, cluster, rank);
        else if (threadIdx.x == 32 && !(Wide && stores_singly(a)))
            store_turns<Wide, S>(a, s, shared, cluster, rank);
        __syncwarp();
    } else {
        registers_take<232>();
        consume_turns<F16, S>(End(arguments), s, shared, cluster, rank, group - 1);
    }
    __syncthreads();
    cluster_barrier(); /* the other block may still write to this block's memory and barriers */
}

template <bool F16, bool Wide, typename S> __device__ inline void own_turns(const lce_own_args &a)
{
    own_turns<F16, Wide, S, StoreSums<F16, Wide, S>>(a, a);
}

} // namespace lce

#endif
