/*
 * device.h - what the kernels of kernels/cuda see of a GPU when they are compiled as C++ for this processor.
 *
 * Every CUDA thread is a coroutine (threads.h) that runs until it waits at a barrier or a warp's exchange, so
 * a barrier that is missing shows: a thread is then ahead of all the others.
 */
#ifndef TESTS_EMULATED_DEVICE_H
#define TESTS_EMULATED_DEVICE_H

#include <math.h>
#include <stdint.h>
#include <string.h>
#include <type_traits>

#include "threads.h"

#define lce lce_of_the_host /* the kernels have a namespace of this name */
#include "half.h"
#undef lce

#define __device__
#define __global__
#define __launch_bounds__(...)
#define LCE_SHARED(type, name)                                                                               \
    static char name##_variable;                                                                             \
    auto &name =                                                                                             \
        *static_cast<std::remove_reference_t<type> *>(emulated::shared(&name##_variable, sizeof(type)))
#define CUDART_INF_F INFINITY
#define CUDART_NAN_F NAN
#define threadIdx    emulated::thread_index()
#define blockIdx     emulated::block_index()
#define blockDim     emulated::block_size()

struct uint4 {
    uint32_t x, y, z, w;
};
struct uint2 {
    uint32_t x, y;
};
struct float2 {
    float x, y;
};
struct float4 {
    float x, y, z, w;
};
struct __half {
    uint16_t bits;
};
struct __nv_bfloat16 {
    uint16_t bits;
};
struct __half2 {
    __half x, y;
};
struct __nv_bfloat162 {
    __nv_bfloat16 x, y;
};

static inline uint4 make_uint4(uint32_t x, uint32_t y, uint32_t z, uint32_t w)
{
    return {x, y, z, w};
}
static inline uint2 make_uint2(uint32_t x, uint32_t y)
{
    return {x, y};
}
static inline float __uint_as_float(uint32_t bits)
{
    return lce_from_bits(bits);
}
static inline uint32_t __float_as_uint(float value)
{
    return lce_bits(value);
}
static inline float __half2float(__half value)
{
    return lce_from_f16(value.bits);
}
static inline float __bfloat162float(__nv_bfloat16 value)
{
    return lce_from_bf16(value.bits);
}
static inline __half __float2half_rn(float value)
{
    return {lce_to_f16(value)};
}
static inline __nv_bfloat16 __float2bfloat16_rn(float value)
{
    return {lce_to_bf16(value)};
}
static inline float2 __half22float2(__half2 pair)
{
    return {__half2float(pair.x), __half2float(pair.y)};
}
static inline __half2 __floats2half2_rn(float x, float y)
{
    return {__float2half_rn(x), __float2half_rn(y)};
}
static inline __nv_bfloat162 __floats2bfloat162_rn(float x, float y)
{
    return {__float2bfloat16_rn(x), __float2bfloat16_rn(y)};
}
static inline __half __hmax(__half a, __half b)
{
    return __float2half_rn(fmaxf(__half2float(a), __half2float(b)));
}
static inline __nv_bfloat16 __hmax(__nv_bfloat16 a, __nv_bfloat16 b)
{
    return __float2bfloat16_rn(fmaxf(__bfloat162float(a), __bfloat162float(b)));
}
template <typename Pair> Pair __hmax2(Pair a, Pair b)
{
    return {__hmax(a.x, b.x), __hmax(a.y, b.y)};
}

static inline void __syncthreads()
{
    emulated::wait_for_block();
}
static inline int __popc(unsigned value)
{
    return __builtin_popcount(value);
}
static inline void atomicOr(int32_t *word, int32_t bits)
{
    *word |= bits;
}
static inline int32_t atomicAdd(int32_t *word, int32_t value)
{
    const int32_t before = *word;
    *word += value;
    return before;
}

/* VALUE of the lane FROM of this warp */
template <typename T> T exchange(T value, unsigned from)
{
    uint64_t word = 0;
    memcpy(&word, &value, sizeof value);
    word = emulated::exchange(word, from);
    memcpy(&value, &word, sizeof value);
    return value;
}
template <typename T> T __shfl_down_sync(unsigned, T value, unsigned step)
{
    const unsigned lane = threadIdx.x % 32;
    return exchange(value, lane + step < 32 ? lane + step : lane);
}
template <typename T> T __shfl_up_sync(unsigned, T value, unsigned step)
{
    const unsigned lane = threadIdx.x % 32;
    return exchange(value, lane >= step ? lane - step : lane);
}
template <typename T> T __shfl_sync(unsigned, T value, unsigned from)
{
    return exchange(value, from);
}
template <typename T> T __shfl_xor_sync(unsigned, T value, unsigned step)
{
    return exchange(value, threadIdx.x % 32 ^ step);
}
static inline unsigned __ballot_sync(unsigned, bool vote)
{
    return emulated::ballot(vote);
}

namespace cooperative_groups
{
struct Cluster {
    unsigned num_blocks() const { return emulated::cluster_size(); }
    unsigned block_rank() const { return emulated::rank_in_cluster(); }
    void barrier_arrive() const { emulated::arrive_at_cluster(); }
    void barrier_wait() const { emulated::wait_for_cluster(); }
    void sync() const
    {
        barrier_arrive();
        barrier_wait();
    }
    template <typename T> T *map_shared_rank(T *address, unsigned rank) const
    {
        return static_cast<T *>(emulated::shared_of(address, rank));
    }
};
static inline Cluster this_cluster()
{
    return {};
}
} // namespace cooperative_groups

#endif
