/*
 * softmax.cu - the pass over a chunk of logits: each row's loss and, in place, its gradient.
 *
 * A cluster of CTAs takes one row and reads and writes it once: a thread loads VECTORS times 16 bytes into
 * registers, sums are combined through distributed shared memory in a fixed order, and the gradient comes
 * from the same registers.  In local memory that would take twice the time: the build fails if a kernel uses
 * any (cuda.cmake).
 *
 *     row:  | CTA 0: vectors 0 .. 512 K | CTA 1 | CTA 2 | CTA 3 |     thread t has (cta K + k) 512 + t, k < K
 *
 * `plain` has no bias, softcap, smoothing or entropy; `entropic` adds the entropy and its gradient; `general`
 * has all.  `loop` needs no cluster: GPUs of compute capability 8.x have it alone.
 */
#include <cooperative_groups.h>
#include <type_traits>

#include "options.cuh"
#include "row.cuh"

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
#define LCE_CLUSTERS
#endif

namespace lce
{

constexpr int threads = 512;

#ifdef LCE_CLUSTERS

constexpr unsigned most_cluster = 8; /* CTAs */

/* The largest logit and the sum of exp(z - largest), of a warp's share of a row; with them the moment. */
struct Sum {
    float largest, sum;
};
struct Sums {
    Sum warp[threads / 32];
    float moment[threads / 32], weighed[threads / 32];
    float target; /* the label's logit, in the CTA that has it */
};

/* Every warp of the cluster stores its part; then each warp adds all parts up, several per lane, in the same
 * order. */
template <bool Moments, bool Weighed> __device__ inline Part cluster_sums(const Part &own, Sums *sums)
{
    constexpr unsigned warps = threads / 32;
    auto cluster = cooperative_groups::this_cluster();
    const unsigned lane = threadIdx.x % 32, all = warps * cluster.num_blocks();
    if (lane == 0)
        sums->warp[threadIdx.x / 32] = {own.largest, own.sum};
    if (Moments && lane == 0)
        sums->moment[threadIdx.x / 32] = own.moment;
    if (Weighed && lane == 0)
        sums->weighed[threadIdx.x / 32] = own.weighed;
    cluster.sync();
    Sum part[most_cluster * warps / 32];
    float largest = -CUDART_INF_F, sum = 0, moment = 0, weighed = 0;
#pragma unroll
    for (unsigned i = 0; i < most_cluster * warps / 32; i++) {
        const unsigned warp = lane + 32 * i;
        part[i] = {-CUDART_INF_F, 0};
        if (warp < all)
            part[i] = *cluster.map_shared_rank(&sums->warp[warp % warps], warp / warps);
        largest = fmaxf(largest, part[i].largest);
    }
    largest = warp_most(largest);
#pragma unroll
    for (unsigned i = 0; i < most_cluster * warps / 32; i++) {
        const unsigned warp = lane + 32 * i;
        const float shift = finite_or_zero(largest), factor = exp2_fast((part[i].largest - shift) * log2e);
        sum += part[i].sum * factor;
        if (Moments && warp < all)
            moment += moved({part[i].largest, part[i].sum, 0,
                             *cluster.map_shared_rank(&sums->moment[warp % warps], warp / warps)},
                            shift, factor);
        if (Weighed && warp < all)
            weighed += *cluster.map_shared_rank(&sums->weighed[warp % warps], warp / warps);
    }
    return {largest, warp_sum(sum), Weighed ? warp_sum(weighed) : 0, Moments ? warp_sum(moment) : 0};
}

enum Kind { PLAIN, KEPT, ENTROPIC };

template <typename L, int Vectors, Kind kind>
using Pass = typename std::conditional<
    kind == KEPT, Kept<L, Vectors>,
    typename std::conditional<kind == ENTROPIC, Entropic<L, Vectors>, Plain<L, Vectors>>::type>::type;

template <typename L, int Vectors>
__device__ inline void load_vectors(const lce_softmax_args &a, const L *logits, int32_t first,
                                    Pack<L> (&v)[Vectors])
{
#pragma unroll
    for (int k = 0; k < Vectors; k++)
        v[k] = load<L>(reinterpret_cast<const uint4 *>(logits), first + k * threads, a.labels.vocab);
}

/* Takes the label's logit out, if it is in one of the vectors from FIRST on; whether it is. */
template <typename L, int Vectors>
__device__ inline bool take_label(Pack<L> (&v)[Vectors], int32_t label, int32_t first, Sums *sums)
{
    const uint32_t to_label = static_cast<uint32_t>(label / Pack<L>::count - first); /* in vectors */
    const bool mine = to_label < Vectors * threads && to_label % threads == 0;
    float target = 0;
    if (mine) {
#pragma unroll
        for (int k = 0; k < Vectors; k++)
            take_out(v[k], label - (first + k * threads) * Pack<L>::count, &target);
        sums->target = target;
    }
    return mine;
}

/* Logits have type L, gradients type T.  Where L is fp32 and T has 16 bits (`wide`), the gradient goes into
 * the front half of its own row, whose rows then lie 2 stride elements of T apart:
 *
 *     | z_0 z_1 z_2 ...       fp32 ... |   becomes   | g_0 g_1 ... 16 bit | what was there |
 *
 * So it may overwrite a logit that another CTA reads.  But every thread loads all that it will ever read
 * before it arrives at the cluster's barrier (release), and writes only after it has waited there (acquire).
 */
template <typename L, typename T, int Vectors, Kind kind>
__device__ inline void softmax_rows(const lce_softmax_args &a)
{
    LCE_SHARED(Sums, sums);
    auto cluster = cooperative_groups::this_cluster();
    const int64_t row = blockIdx.x / cluster.num_blocks();
    const int32_t vectors = static_cast<int32_t>(a.stride / Pack<L>::count);
    const int32_t first = static_cast<int32_t>(cluster.block_rank() * Vectors * threads + threadIdx.x);
    Row r = token_of(a, row);
    const L *logits = static_cast<const L *>(a.logits) + row * a.stride;
    T *out = reinterpret_cast<T *>(static_cast<L *>(a.logits) + row * a.stride);
    float g[Pack<L>::count] = {};
    if (!r.counted && a.skips && skipped(a.index + a.first, row))
        return;
    if (!r.counted) { /* the whole cluster returns */
        for (int k = 0; a.gradients && k < Vectors; k++)
            if (first + k * threads < vectors)
                store(out, first + k * threads, g);
        return;
    }
    Pack<L> v[Vectors];
    load_vectors(a, logits, first, v);
    r.label = static_cast<int32_t>(label_of(a.labels, r.token));
    Pass<L, Vectors, kind> pass(a);
    const bool mine = take_label(v, r.label, first, &sums);
    const float largest = warp_most(largest_of_all(v));
    Part part = pass.sums(v, largest);
    part.sum = warp_sum(part.sum);
    if (kind == ENTROPIC)
        part.moment = warp_sum(part.moment);
    part = cluster_sums<kind == ENTROPIC, false>(part, &sums);
    const float raw = *cluster.map_shared_rank(&sums.target, r.label / (Pack<L>::count * Vectors * threads));
    const float target = logit<T, false>(a, raw, r.label);
    cluster.barrier_arrive(); /* others may still read our part, so no CTA ends before all have read */
    const bool writer = cluster.block_rank() == 0 && threadIdx.x == 0;
    finish_row<kind == ENTROPIC>(a, r, part, target, writer);
    if (writer && a.known)
        a.known[row] = {part.largest, part.sum, part.weighed, target, part.moment};
    if (a.gradients) {
        pass.begin(r, largest);
#pragma unroll
        for (int k = 0; k < Vectors; k++) {
            const int32_t vector = first + k * threads;
            if (vector >= vectors)
                continue;
            pass.gradient(v[k], k, g);
            store(out, vector, g);
        }
        if (mine) /* overwrites a value that this thread has just stored */
            out[r.label] = from_float<T>(r.at_label);
    }
    cluster.barrier_wait();
}

/* The row of a token that does not count: zeros, unless nothing reads it.  The whole cluster returns. */
template <typename T, int Count>
__device__ inline void no_row(const lce_softmax_args &a, int64_t row, T *out, int32_t vectors)
{
    auto cluster = cooperative_groups::this_cluster();
    const float g[Count] = {};
    const int32_t step = static_cast<int32_t>(cluster.num_blocks() * threads);
    if (!a.gradients || (a.skips && skipped(a.index + a.first, row)))
        return;
    for (int32_t i = static_cast<int32_t>(cluster.block_rank() * threads + threadIdx.x); i < vectors;
         i += step)
        store(out, i, g);
}

/* With all options.  A thread takes its vectors in groups of VECTORS.  For the gradient it reads all groups
 * but the last again, from the L2 cache.  Where gradients are narrower than logits there is one group, as a
 * thread would overwrite what others still have to read. */
template <typename L, typename T, int Vectors> __device__ inline void general_rows(const lce_softmax_args &a)
{
    LCE_SHARED(Sums, sums);
    auto cluster = cooperative_groups::this_cluster();
    constexpr int32_t group = Vectors * threads;
    const int64_t row = blockIdx.x / cluster.num_blocks();
    const int32_t vectors = static_cast<int32_t>(a.stride / Pack<L>::count),
                  step = static_cast<int32_t>(cluster.num_blocks()) * group,
                  last = sizeof(T) < sizeof(L) ? 0 : (vectors - 1) / step * step;
    const int32_t first =
        static_cast<int32_t>(cluster.block_rank()) * group + static_cast<int32_t>(threadIdx.x);
    Row r = token_of(a, row);
    const L *logits = static_cast<const L *>(a.logits) + row * a.stride;
    T *out = reinterpret_cast<T *>(static_cast<L *>(a.logits) + row * a.stride);
    if (!r.counted)
        return no_row<T, Pack<L>::count>(a, row, out, vectors);
    r.label = static_cast<int32_t>(label_of(a.labels, r.token));
    General<L, T, Vectors> pass(a, r.label);
    Pack<L> v[Vectors];
    Part part = {-CUDART_INF_F, 0, 0, 0};
    bool mine = false;
    for (int32_t begin = 0; begin <= last; begin += step) {
        load_vectors(a, logits, begin + first, v);
        mine = take_label(v, r.label, begin + first, &sums) || mine;
        const float largest = warp_most(pass.most(v, begin + first, threads));
        const Part more = pass.sums(v, largest, begin + first, threads);
        part = begin == 0 ? more : combine(part, more);
    }
    part.sum = warp_sum(part.sum);
    part.weighed = warp_sum(part.weighed);
    part.moment = warp_sum(part.moment);
    part = cluster_sums<true, true>(part, &sums);
    const int32_t holder = r.label / Pack<L>::count % step / group;
    const float target = pass.of_label(*cluster.map_shared_rank(&sums.target, holder));
    if (a.smoothing > 0)
        part.weighed += class_weight(a, r.label) * target;
    cluster.barrier_arrive(); /* as above */
    const bool writer = cluster.block_rank() == 0 && threadIdx.x == 0;
    finish_row(a, r, part, target, writer);
    if (writer && a.known)
        a.known[row] = {part.largest, part.sum, part.weighed, target, part.moment};
    if (a.gradients) {
        float g[Pack<L>::count];
        pass.begin(r);
        for (int32_t begin = last; begin >= 0; begin -= step) {
            if (begin != last)
                load_vectors(a, logits, begin + first, v);
#pragma unroll
            for (int k = 0; k < Vectors; k++) {
                const int32_t vector = begin + first + k * threads;
                if (vector >= vectors)
                    continue;
                pass.gradient(v[k], vector * Pack<L>::count, g);
                store(out, vector, g);
            }
        }
        if (mine) /* as above */
            out[r.label] = from_float<T>(pass.at_label(r, target));
    }
    cluster.barrier_wait();
}

#endif

/* One CTA reads the row twice, 512 vectors per round.  If gradients are narrower than logits, round i
 * overwrites logits of rounds up to i / 2 only, and its own only in round 0, so one barrier per round,
 * between loads and stores, suffices.  If they are as wide, each thread overwrites what it read. */
template <typename L, typename T> __device__ inline void softmax_loop(const lce_softmax_args &a)
{
    LCE_SHARED(Shared<threads>, shared);
    const int32_t vectors = static_cast<int32_t>(a.stride / Pack<L>::count);
    Row r = row_of(a, blockIdx.x);
    if (!r.counted && a.skips && skipped(a.index + a.first, blockIdx.x)) /* the whole CTA returns */
        return;
    L *logits = static_cast<L *>(a.logits) + blockIdx.x * a.stride;
    const uint4 *line = reinterpret_cast<const uint4 *>(logits);
    Part part = {-CUDART_INF_F, 0, 0, 0};
    const float target = r.counted ? logit<T, true>(a, to_float(logits[r.label]), r.label) : 0;
    for (int32_t i = static_cast<int32_t>(threadIdx.x); r.counted && i < vectors; i += threads)
        part = combine(part, part_of<L, T>(a, r, load<L>(line, i, a.labels.vocab), i * Pack<L>::count));
    part = block_combine(part, &shared); /* also a barrier: all threads have read the target */
    if (r.counted)
        finish_row(a, r, part, target, threadIdx.x == 0);
    if (r.counted && threadIdx.x == 0 && a.known)
        a.known[blockIdx.x] = {part.largest, part.sum, part.weighed, target, part.moment};
    for (int32_t begin = 0; a.gradients && begin < vectors; begin += threads) {
        const int32_t i = begin + static_cast<int32_t>(threadIdx.x);
        float g[Pack<L>::count] = {};
        if (r.counted && i < vectors)
            gradient_of<L, T>(a, r, load<L>(line, i, a.labels.vocab), i * Pack<L>::count, g);
        if (sizeof(T) < sizeof(L))
            __syncthreads();
        if (i < vectors)
            store(reinterpret_cast<T *>(logits), i, g);
    }
}

} // namespace lce

#ifdef LCE_CLUSTERS
#define CLUSTER_ONLY(call) call
#else
#define CLUSTER_ONLY(call) /* no plan takes the kernel */
#endif

#define ROWS(name, L, T, kind, Kind, vectors, ctas)                                                          \
    extern "C" __global__ void __launch_bounds__(512, ctas)                                                  \
        lce_softmax_##name##_##kind##_##vectors(const lce_softmax_args a)                                    \
    {                                                                                                        \
        CLUSTER_ONLY((lce::softmax_rows<L, T, vectors, lce::Kind>(a)));                                      \
    }
#define OPTIONS(name, L, T, vectors, ctas)                                                                   \
    extern "C" __global__ void __launch_bounds__(512, ctas)                                                  \
        lce_softmax_##name##_general_##vectors(const lce_softmax_args a)                                     \
    {                                                                                                        \
        CLUSTER_ONLY((lce::general_rows<L, T, vectors>(a)));                                                 \
    }
#define LONG(name, L, T, kind, Kind)                                                                         \
    ROWS(name, L, T, kind, Kind, 1, 2)                                                                       \
    ROWS(name, L, T, kind, Kind, 2, 2)                                                                       \
    ROWS(name, L, T, kind, Kind, 3, 2)                                                                       \
    ROWS(name, L, T, kind, Kind, 4, 2)                                                                       \
    ROWS(name, L, T, kind, Kind, 5, 2)                                                                       \
    ROWS(name, L, T, kind, Kind, 6, 2)                                                                       \
    ROWS(name, L, T, kind, Kind, 7, 2)                                                                       \
    ROWS(name, L, T, kind, Kind, 8, 2)
#define ALL(name, L, T, kind, Kind)                                                                          \
    LONG(name, L, T, kind, Kind)                                                                             \
    LONG(name, L, T, entropic, ENTROPIC)                                                                     \
    OPTIONS(name, L, T, 4, 2)                                                                                \
    extern "C" __global__ void __launch_bounds__(512, 2) lce_softmax_##name##_loop(const lce_softmax_args a) \
    {                                                                                                        \
        lce::softmax_loop<L, T>(a);                                                                          \
    }
/* rows of four-byte logits: with longer ones a CTA takes all registers of a multiprocessor */
#define WIDE(name, T)                                                                                        \
    ALL(name, float, T, plain, KEPT)                                                                         \
    ROWS(name, float, T, plain, KEPT, 12, 1)                                                                 \
    ROWS(name, float, T, plain, KEPT, 16, 1)                                                                 \
    ROWS(name, float, T, entropic, ENTROPIC, 12, 1)                                                          \
    ROWS(name, float, T, entropic, ENTROPIC, 16, 1)                                                          \
    OPTIONS(name, float, T, 8, 1)                                                                            \
    OPTIONS(name, float, T, 16, 1)

WIDE(f32, float)
WIDE(wide_f16, __half)
WIDE(wide_bf16, __nv_bfloat16)
ALL(f16, __half, __half, plain, PLAIN)
ALL(bf16, __nv_bfloat16, __nv_bfloat16, plain, PLAIN)
