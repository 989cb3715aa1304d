/* device.cuh - what the kernels share: the three types, 16 bytes of them at a time, sums in a fixed order. */
#ifndef LCE_DEVICE_CUH
#define LCE_DEVICE_CUH

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "args.h"

namespace lce
{

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

/* 16 bytes as numbers */
template <typename T> struct Pack {
    static constexpr int count = 16 / sizeof(T);
    union {
        uint4 raw;
        T item[count];
    };
    __device__ Pack() {}
};

__device__ inline int64_t label_of(const lce_labels &l, int64_t token)
{
    return l.wide ? static_cast<const int64_t *>(l.labels)[token]
                  : static_cast<const int32_t *>(l.labels)[token];
}

/* Sum over a block of up to 1024 threads, the same bits always; valid in every thread. */
template <typename T> __device__ inline T block_sum(T value)
{
    __shared__ T part[32];
    for (int step = 16; step > 0; step /= 2)
        value += __shfl_down_sync(~0u, value, step);
    __syncthreads(); /* the last call's readers are done */
    if (threadIdx.x % 32 == 0)
        part[threadIdx.x / 32] = value;
    __syncthreads();
    T sum = 0;
    for (unsigned i = 0; i < (blockDim.x + 31) / 32; i++)
        sum += part[i];
    return sum;
}

} // namespace lce

#endif
