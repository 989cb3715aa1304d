/* device.cuh - shared by the kernels: the three types, vectors of 16 bytes of them, sums in a fixed order. */
#ifndef LCE_CUDA_DEVICE_CUH
#define LCE_CUDA_DEVICE_CUH

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "args.h"

/* A variable in the block's shared memory; tests/emulated has its own definition. */
#ifdef __CUDACC__
#define LCE_SHARED(type, name) __shared__ type name
#endif

namespace lce
{

template <typename T> using PerWarp = T[32];

template <typename T> __device__ inline float to_float(T value)
{
    return static_cast<float>(value);
}
template <> __device__ inline float to_float(__half value)
{
    return __half2float(value);
}
template <> __device__ inline float to_float(__nv_bfloat16 value)
{
    return __bfloat162float(value);
}

template <typename T> __device__ inline T from_float(float value)
{
    return value;
}
template <> __device__ inline __half from_float(float value)
{
    return __float2half_rn(value);
}
template <> __device__ inline __nv_bfloat16 from_float(float value)
{
    return __float2bfloat16_rn(value);
}

/* 16 bytes of a row, kept as words, so that the compiler does not extract and insert single 16-bit numbers */
template <typename T> struct Pack {
    static constexpr int count = 16 / sizeof(T), per_word = 4 / sizeof(T);
    uint32_t word[4];
};

__device__ inline float2 widen_word(uint32_t word, __nv_bfloat16)
{
    return {__uint_as_float(word << 16), __uint_as_float(word & 0xffff0000u)};
}
__device__ inline float2 widen_word(uint32_t word, __half)
{
    const __half2 pair = *reinterpret_cast<__half2 *>(&word);
    return __half22float2(pair);
}
__device__ inline uint32_t narrow_word(float2 pair, __nv_bfloat16)
{
    const __nv_bfloat162 narrow = __floats2bfloat162_rn(pair.x, pair.y);
    return *reinterpret_cast<const uint32_t *>(&narrow);
}
__device__ inline uint32_t narrow_word(float2 pair, __half)
{
    const __half2 narrow = __floats2half2_rn(pair.x, pair.y);
    return *reinterpret_cast<const uint32_t *>(&narrow);
}

template <typename T> __device__ inline void widen(const Pack<T> &pack, float (&out)[Pack<T>::count])
{
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const float2 pair = widen_word(pack.word[i], T());
        out[2 * i] = pair.x;
        out[2 * i + 1] = pair.y;
    }
}
template <> __device__ inline void widen(const Pack<float> &pack, float (&out)[4])
{
#pragma unroll
    for (int i = 0; i < 4; i++)
        out[i] = __uint_as_float(pack.word[i]);
}

template <typename T> __device__ inline uint4 narrow(const float (&in)[Pack<T>::count])
{
    uint32_t word[4];
#pragma unroll
    for (int i = 0; i < 4; i++)
        if constexpr (sizeof(T) == 2)
            word[i] = narrow_word({in[2 * i], in[2 * i + 1]}, T());
        else
            word[i] = __float_as_uint(in[i]);
    return make_uint4(word[0], word[1], word[2], word[3]);
}

/* Whether no product reads ROW of a chunk: it has no token, and lies beyond the last 64 rows that a product
 * multiplies. */
__device__ inline bool skipped(const int32_t *index, int64_t row)
{
    return index[row / 64 * 64] < 0;
}

__device__ inline int64_t label_of(const lce_labels &l, int64_t token)
{
    return l.wide ? static_cast<const int64_t *>(l.labels)[token]
                  : static_cast<const int32_t *>(l.labels)[token];
}

/* The sum over a block of up to 1024 threads, always with the same bits; valid in every thread. */
template <typename T> __device__ inline T block_sum(T value)
{
    LCE_SHARED(PerWarp<T>, part);
    for (int step = 16; step > 0; step /= 2)
        value += __shfl_down_sync(~0u, value, step);
    __syncthreads(); /* the readers of the previous call are done */
    if (threadIdx.x % 32 == 0)
        part[threadIdx.x / 32] = value;
    __syncthreads();
    T sum = 0;
    for (unsigned i = 0; i < (blockDim.x + 31) / 32; i++)
        sum += part[i];
    return sum;
}

/* Likewise the largest; valid in every thread. */
__device__ inline float block_max(float value)
{
    LCE_SHARED(PerWarp<float>, part);
    for (int step = 16; step > 0; step /= 2)
        value = fmaxf(value, __shfl_down_sync(~0u, value, step));
    __syncthreads();
    if (threadIdx.x % 32 == 0)
        part[threadIdx.x / 32] = value;
    __syncthreads();
    for (unsigned i = 0; i < blockDim.x / 32; i++)
        value = fmaxf(value, part[i]);
    return value;
}

} // namespace lce

#endif
