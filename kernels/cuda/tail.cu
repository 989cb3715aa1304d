/*
 * tail.cu - the share of the vocabulary's last classes, at most 7, in the three products.
 *
 *     |  0 .. V0 - 1: cuBLASLt, V0 = V - V mod 8  | V0 .. V - 1: here |
 *
 * Where rows are no multiple of 16 bytes (V = 50257) matrix libraries take a kernel that is several times
 * slower for the whole product.  T is the type of hidden states, weight and g, Out that of the result;
 * dinput's is fp32, as the product adds to it.  All sums have a fixed order.
 */
#include "device.cuh"

namespace lce
{

constexpr int most_tail = 7, dweight_warps = 16;

template <typename T> struct Vector {
    float value[Pack<T>::count];
};

/* Whether every row of the matrix begins at a multiple of 16 bytes. */
template <typename T> __device__ inline bool rows_aligned(const void *matrix, int64_t stride)
{
    return reinterpret_cast<uintptr_t>(matrix) % 16 == 0 && stride * sizeof(T) % 16 == 0;
}

/* Elements from H on of a row of HIDDEN; 0 beyond. */
template <typename T>
__device__ inline Vector<T> load_vector(const T *row, int64_t h, int64_t hidden, bool aligned)
{
    Vector<T> v = {};
    if (aligned && h + Pack<T>::count <= hidden) {
        const uint4 raw = *reinterpret_cast<const uint4 *>(row + h);
        const Pack<T> pack = {{raw.x, raw.y, raw.z, raw.w}};
        widen(pack, v.value);
        return v;
    }
    for (int i = 0; i < Pack<T>::count; i++)
        if (h + i < hidden)
            v.value[i] = to_float(row[h + i]);
    return v;
}

template <typename T> __device__ inline const T *row_at(const void *matrix, int64_t row, int64_t stride)
{
    return static_cast<const T *>(matrix) + row * stride;
}

/* The logits of the tail, one warp per row. */
template <typename T, typename Out> __device__ inline void tail_logits(const lce_tail_args &a)
{
    const int64_t row = static_cast<int64_t>(blockIdx.x) * (blockDim.x / 32) + threadIdx.x / 32;
    const int lane = static_cast<int>(threadIdx.x % 32);
    const bool x_aligned = rows_aligned<T>(a.x, a.x_stride),
               w_aligned = rows_aligned<T>(a.weight, a.weight_stride);
    if (row >= a.rows) /* the whole warp returns */
        return;
    float sum[most_tail] = {};
    for (int64_t h = lane * Pack<T>::count; h < a.hidden; h += 32 * Pack<T>::count) {
        const Vector<T> x = load_vector(row_at<T>(a.x, row, a.x_stride), h, a.hidden, x_aligned);
#pragma unroll
        for (int c = 0; c < most_tail; c++) {
            if (c >= a.classes)
                break;
            const Vector<T> w = load_vector(row_at<T>(a.weight, c, a.weight_stride), h, a.hidden, w_aligned);
#pragma unroll
            for (int i = 0; i < Pack<T>::count; i++)
                sum[c] += x.value[i] * w.value[i];
        }
    }
#pragma unroll
    for (int c = 0; c < most_tail; c++) {
        for (int step = 16; step > 0; step /= 2)
            sum[c] += __shfl_xor_sync(~0u, sum[c], step);
        if (lane == 0 && c < a.classes)
            static_cast<Out *>(a.out)[row * a.out_stride + c] = from_float<Out>(sum[c]);
    }
}

/* Blocks of 256, a.blocks of them to a row: out = beta out + alpha g W, over the tail. */
template <typename T> __device__ inline void tail_dinput(const lce_tail_args &a)
{
    const int64_t row = blockIdx.x / a.blocks;
    const int64_t h = (static_cast<int64_t>(blockIdx.x % a.blocks) * 256 + threadIdx.x) * Pack<T>::count;
    const bool aligned = rows_aligned<T>(a.weight, a.weight_stride);
    const float alpha = a.scaled ? a.stats->alpha : 1;
    if (h >= a.hidden)
        return;
    float sum[Pack<T>::count] = {};
    for (int c = 0; c < a.classes; c++) {
        const float g = to_float(row_at<T>(a.g, row, a.g_stride)[c]);
        const Vector<T> w = load_vector(row_at<T>(a.weight, c, a.weight_stride), h, a.hidden, aligned);
#pragma unroll
        for (int i = 0; i < Pack<T>::count; i++)
            sum[i] += g * w.value[i];
    }
    float *out = static_cast<float *>(a.out) + row * a.out_stride + h;
#pragma unroll
    for (int i = 0; i < Pack<T>::count; i++)
        if (h + i < a.hidden)
            out[i] = alpha * sum[i] + (a.beta != 0 ? a.beta * out[i] : 0);
}

template <typename T> using DweightParts = float[dweight_warps][32 * Pack<T>::count];

/* Blocks of 16 warps, each for some columns; each warp takes a run of rows: out = beta out + alpha g^T x. */
template <typename T, typename Out> __device__ inline void tail_dweight(const lce_tail_args &a)
{
    LCE_SHARED(DweightParts<T>, part);
    constexpr int count = Pack<T>::count, columns = 32 * count;
    const int lane = static_cast<int>(threadIdx.x % 32), warp = static_cast<int>(threadIdx.x / 32);
    const int64_t first = static_cast<int64_t>(blockIdx.x) * columns, h = first + lane * count;
    const int64_t each = (a.rows + dweight_warps - 1) / dweight_warps, begin = warp * each;
    const int64_t end = begin + each < a.rows ? begin + each : a.rows;
    const bool aligned = rows_aligned<T>(a.x, a.x_stride);
    float sum[most_tail][count] = {};
#pragma unroll 4
    for (int64_t row = begin; row < end; row++) {
        const Vector<T> x = load_vector(row_at<T>(a.x, row, a.x_stride), h, a.hidden, aligned);
        const T *g = row_at<T>(a.g, row, a.g_stride);
#pragma unroll
        for (int c = 0; c < most_tail; c++) {
            const float factor = c < a.classes ? to_float(g[c]) : 0;
#pragma unroll
            for (int i = 0; i < count; i++)
                sum[c][i] += factor * x.value[i];
        }
    }
    const float alpha = a.scaled ? a.stats->alpha : 1;
#pragma unroll
    for (int c = 0; c < most_tail; c++) {
        __syncthreads(); /* all sums of the last class were read */
#pragma unroll
        for (int i = 0; i < count; i++)
            part[warp][lane * count + i] = sum[c][i];
        __syncthreads();
        const int64_t column = first + threadIdx.x;
        if (c >= a.classes || static_cast<int>(threadIdx.x) >= columns || column >= a.hidden)
            continue;
        float all = 0;
        for (int i = 0; i < dweight_warps; i++)
            all += part[i][threadIdx.x];
        Out *out = static_cast<Out *>(a.out) + c * a.out_stride + column;
        *out = from_float<Out>(alpha * all + (a.beta != 0 ? a.beta * to_float(*out) : 0));
    }
}

} // namespace lce

#define KERNELS(name, T, Out)                                                                                \
    extern "C" __global__ void __launch_bounds__(256) lce_tail_logits_##name(const lce_tail_args a)          \
    {                                                                                                        \
        lce::tail_logits<T, Out>(a);                                                                         \
    }                                                                                                        \
    extern "C" __global__ void __launch_bounds__(512) lce_tail_dweight_##name(const lce_tail_args a)         \
    {                                                                                                        \
        lce::tail_dweight<T, Out>(a);                                                                        \
    }

#define DINPUT(name, T)                                                                                      \
    extern "C" __global__ void __launch_bounds__(256) lce_tail_dinput_##name(const lce_tail_args a)          \
    {                                                                                                        \
        lce::tail_dinput<T>(a);                                                                              \
    }

DINPUT(f32, float)
DINPUT(f16, __half)
DINPUT(bf16, __nv_bfloat16)
KERNELS(f32, float, float)
KERNELS(f16, __half, __half)
KERNELS(bf16, __nv_bfloat16, __nv_bfloat16)
KERNELS(wide_f16, __half, float)
KERNELS(wide_bf16, __nv_bfloat16, float)
