/*
 * slab.cu - the two passes over a slab of logits (some tokens by some classes), which never sees a whole row.
 *
 * `scan` adds a slab to the sums of each row; with the last slab the loss is known.  `gradient` replaces a
 * slab's logits, computed again, by their gradient.  For a vocabulary in parts a scan's sums are one rank's
 * partial result, and `parts` combines all ranks'.
 *
 * A CTA takes one row of the slab, 256 threads with a vector of 16 bytes each a round.  Gradients that are
 * narrower than logits go into the front half of their row: round i overwrites logits of rounds up to i / 2
 * only, so one barrier between loads and stores suffices.  If they are as wide, each thread overwrites what
 * it read.
 */
#include <type_traits>

#include "fast.cuh"
#include "row.cuh"

namespace lce
{

constexpr int threads = 256;

enum Kind { PLAIN, ENTROPIC, GENERAL }; /* as in softmax.cu */

template <typename L, int Rounds, Kind kind>
using Pass = typename std::conditional<kind == ENTROPIC, Entropic<L, Rounds>, Plain<L, Rounds>>::type;

/* Rounds that are done at once. */
template <Kind kind> constexpr int at_once = kind == GENERAL ? 1 : 4;

/* Loads the thread's vectors of the rounds from the one on in which its vector is FIRST. */
template <typename L, int Rounds>
__device__ inline void load_rounds(const uint4 *line, int32_t first, int32_t columns, Pack<L> (&v)[Rounds])
{
#pragma unroll
    for (int k = 0; k < Rounds; k++)
        v[k] = load<L>(line, first + k * threads, columns);
}

/* FIRST as above; BEGIN is the slab's first class. */
template <typename L, typename T, Kind kind, int Rounds>
__device__ inline Part slab_part(const lce_softmax_args &a, const Row &r, Pack<L> (&v)[Rounds], int32_t first,
                                 int32_t begin)
{
    if constexpr (kind == GENERAL)
        return part_of<L, T>(a, r, v[0], begin + first * Pack<L>::count);
    float target = 0;
#pragma unroll
    for (int k = 0; k < Rounds; k++)
        take_out(v[k], r.label - (begin + (first + k * threads) * Pack<L>::count), &target);
    return Pass<L, Rounds, kind>(a).sums(v, largest_of_all(v));
}

/* In one thread: adds this slab's PART to the row's sums, and writes the loss if this is the last slab. */
template <typename L, typename T, Kind kind>
__device__ inline void add_part(const lce_slab_args &a, Row r, const L *logits, Part part)
{
    lce_slab_row *row = a.rows + (a.by_token ? r.token : blockIdx.x);
    const int32_t at = r.label - a.begin;
    if (at >= 0 && at < a.columns)
        row->target = logit<T, kind == GENERAL>(a.softmax, to_float(logits[at]), r.label);
    else if (a.begin == 0)
        row->target = 0;
    if (a.begin > 0)
        part = combine({row->largest, row->sum, row->weighed, row->moment}, part);
    row->largest = part.largest;
    row->sum = part.sum;
    row->weighed = part.weighed;
    row->moment = part.moment;
    if (a.begin + a.columns == a.softmax.labels.vocab && !a.partial)
        finish_row(a.softmax, r, part, row->target, true);
}

template <typename L, typename T, Kind kind> __device__ inline void scan(const lce_slab_args &a)
{
    LCE_SHARED(Shared<threads>, shared);
    const int32_t vectors = (a.columns + Pack<L>::count - 1) / Pack<L>::count;
    const L *logits = static_cast<const L *>(a.softmax.logits) + blockIdx.x * a.softmax.stride;
    const uint4 *line = reinterpret_cast<const uint4 *>(logits);
    const Row r = row_of(a.softmax, blockIdx.x);
    if (!r.counted) { /* the whole CTA returns */
        if (a.partial && !a.by_token && threadIdx.x == 0)
            a.rows[blockIdx.x] = {}; /* it is sent, too */
        return;
    }
    Part part = {-CUDART_INF_F, 0, 0, 0};
    constexpr int rounds = at_once<kind>;
#pragma unroll 2
    for (int32_t i = static_cast<int32_t>(threadIdx.x); i < vectors; i += threads * rounds) {
        Pack<L> v[rounds];
        load_rounds(line, i, a.columns, v);
        part = combine(part, slab_part<L, T, kind>(a.softmax, r, v, i, a.begin));
    }
    part = block_combine(part, &shared);
    if (threadIdx.x == 0)
        add_part<L, T, kind>(a, r, logits, part);
}

template <typename L, typename T, Kind kind>
__device__ inline void slab_gradient(const lce_softmax_args &a, const Row &r, Pass<L, 1, kind> &pass,
                                     const Pack<L> &v, int32_t base, float (&g)[Pack<L>::count])
{
    if constexpr (kind == GENERAL) {
        gradient_of<L, T>(a, r, v, base, g);
    } else {
        pass.gradient(v, 0, g);
        put_label(r, base, g);
    }
}

template <typename L, typename T, Kind kind> __device__ inline void gradient_rows(const lce_slab_args &a)
{
    const int32_t vectors = (a.columns + Pack<L>::count - 1) / Pack<L>::count;
    L *logits = static_cast<L *>(a.softmax.logits) + blockIdx.x * a.softmax.stride;
    const uint4 *line = reinterpret_cast<const uint4 *>(logits);
    Row r = row_of(a.softmax, blockIdx.x);
    if (!r.counted && a.softmax.skips && skipped(a.softmax.index + a.softmax.first, blockIdx.x))
        return;
    if (r.counted) {
        const lce_slab_row row = a.rows[blockIdx.x];
        finish_row(a.softmax, r, {row.largest, row.sum, row.weighed, row.moment}, row.target, false);
    }
    Pass<L, 1, kind> pass(a.softmax);
    pass.begin(r, 0);
    constexpr int rounds = at_once<kind>;
    for (int32_t begin = 0; begin < vectors; begin += threads * rounds) {
        const int32_t first = begin + static_cast<int32_t>(threadIdx.x);
        Pack<L> v[rounds];
        if (r.counted)
            load_rounds(line, first, a.columns, v);
        if (sizeof(T) < sizeof(L))
            __syncthreads();
#pragma unroll
        for (int k = 0; k < rounds; k++) {
            const int32_t i = first + k * threads;
            float g[Pack<L>::count] = {};
            if (r.counted)
                slab_gradient<L, T, kind>(a.softmax, r, pass, v[k], a.begin + i * Pack<L>::count, g);
            if (i < vectors)
                store(reinterpret_cast<T *>(logits), i, g);
        }
    }
}

/* The loss, and the sums over all ranks' classes, of each row; a thread takes a row. */
__device__ inline void parts_of_rows(const lce_parts_args &a)
{
    const int64_t row = static_cast<int64_t>(blockIdx.x) * threads + threadIdx.x;
    if (row >= a.count)
        return;
    Row r = row_of(a.softmax, row);
    if (!r.counted)
        return;
    Part all = {-CUDART_INF_F, 0, 0, 0};
    float target = 0;
    for (int32_t i = 0; i < a.parts; i++) {
        const lce_slab_row part = a.partials[i * a.stride + (a.by_token ? r.token : row)];
        all = combine(all, {part.largest, part.sum, part.weighed, part.moment});
        target += part.target;
    }
    a.rows[row] = {all.largest, all.sum, all.weighed, target, all.moment};
    finish_row(a.softmax, r, all, target, true);
}

} // namespace lce

extern "C" __global__ void __launch_bounds__(256) lce_parts(const lce_parts_args a)
{
    lce::parts_of_rows(a);
}

#define PASSES(name, L, T, kind, Kind)                                                                       \
    extern "C" __global__ void __launch_bounds__(256) lce_slab_scan_##name##_##kind(const lce_slab_args a)   \
    {                                                                                                        \
        lce::scan<L, T, lce::Kind>(a);                                                                       \
    }                                                                                                        \
    extern "C" __global__ void __launch_bounds__(256)                                                        \
        lce_slab_gradient_##name##_##kind(const lce_slab_args a)                                             \
    {                                                                                                        \
        lce::gradient_rows<L, T, lce::Kind>(a);                                                              \
    }
#define ALL(name, L, T)                                                                                      \
    PASSES(name, L, T, plain, PLAIN)                                                                         \
    PASSES(name, L, T, entropic, ENTROPIC)                                                                   \
    PASSES(name, L, T, general, GENERAL)

ALL(f32, float, float)
ALL(wide_f16, float, __half)
ALL(wide_bf16, float, __nv_bfloat16)
ALL(f16, __half, __half)
ALL(bf16, __nv_bfloat16, __nv_bfloat16)
