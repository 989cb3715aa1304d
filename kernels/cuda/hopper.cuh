/*
 * hopper.cuh - wraps instructions of compute capability 9.0 that CUDA C++ does not offer: barriers in shared
 * memory that count bytes, bulk copies of tiles (TMA), products of a warp group (wgmma).
 *
 * Shared addresses are 32-bit.  A tile in shared memory is made of boxes of 64 x 64 16-bit numbers with the
 * 128-byte swizzle of TMA and wgmma: of 8 rows of 128 bytes, row r has its 16-byte parts permuted by xor r.
 */
#ifndef LCE_CUDA_HOPPER_CUH
#define LCE_CUDA_HOPPER_CUH

#include <cuda.h>
#include <stdint.h>

namespace lce
{

__device__ inline uint32_t shared_address(const void *p)
{
    return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}

/* ---- barriers ---- */

__device__ inline void barrier_init(uint32_t barrier, uint32_t count)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(count) : "memory");
}
__device__ inline void barrier_fence_init()
{
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
__device__ inline void barrier_expect(uint32_t barrier, uint32_t bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
                 : "memory");
}
/* Arrives at the barrier at this place in block RANK of the cluster. */
__device__ inline void barrier_arrive(uint32_t barrier, uint32_t rank)
{
    asm volatile("{\n.reg .b32 remote;\nmapa.shared::cluster.u32 remote, %0, %1;\n"
                 "mbarrier.arrive.shared::cluster.b64 _, [remote];\n}\n" ::"r"(barrier),
                 "r"(rank)
                 : "memory");
}
__device__ inline void barrier_arrive_here(uint32_t barrier)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
__device__ inline void barrier_wait(uint32_t barrier, uint32_t parity)
{
    asm volatile("{\n.reg .pred done;\nwait_again_%=:\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
                 "@done bra wait_done_%=;\nbra wait_again_%=;\nwait_done_%=:\n}\n" ::"r"(barrier),
                 "r"(parity)
                 : "memory");
}

__device__ inline uint32_t cluster_rank()
{
    uint32_t rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}
__device__ inline void cluster_barrier()
{
    asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::
                     : "memory");
}
/* Barrier INDEX > 0 of the block, for 128 threads. */
__device__ inline void group_barrier(int index)
{
    asm volatile("bar.sync %0, 128;" ::"r"(index) : "memory");
}

/* Barrier INDEX > 0 of the block, which 128 threads wait at, and 128 others only signal. */
__device__ inline void turn_wait(int index)
{
    asm volatile("bar.sync %0, 256;" ::"r"(index) : "memory");
}
__device__ inline void turn_give(int index)
{
    asm volatile("bar.arrive %0, 256;" ::"r"(index) : "memory");
}

template <int Count> __device__ inline void registers_give()
{
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(Count));
}
template <int Count> __device__ inline void registers_take()
{
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(Count));
}

/* ---- bulk copies ---- */

__device__ inline void tile_load(uint32_t to, const CUtensorMap *map, int32_t x, int32_t y, uint32_t barrier)
{
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%2, %3}], [%4];" ::"r"(to),
                 "l"(map), "r"(x), "r"(y), "r"(barrier)
                 : "memory");
}
/* Likewise into both blocks of the cluster, at the same address and with the barrier of each. */
__device__ inline void tile_load_both(uint32_t to, const CUtensorMap *map, int32_t x, int32_t y,
                                      uint32_t barrier)
{
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
        "[%0], [%1, {%2, %3}], [%4], %5;" ::"r"(to),
        "l"(map), "r"(x), "r"(y), "r"(barrier), "h"(static_cast<uint16_t>(3))
        : "memory");
}
__device__ inline void tile_store(const CUtensorMap *map, uint32_t from, int32_t x, int32_t y)
{
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];" ::"l"(map),
                 "r"(x), "r"(y), "r"(from)
                 : "memory");
}
/* Adds to what is there, in the type of the map. */
__device__ inline void tile_add(const CUtensorMap *map, uint32_t from, int32_t x, int32_t y)
{
    asm volatile(
        "cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.bulk_group [%0, {%1, %2}], [%3];" ::"l"(map),
        "r"(x), "r"(y), "r"(from)
        : "memory");
}
__device__ inline void stores_commit()
{
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}
/* Waits until the shared memory that was stored from may be written again. */
__device__ inline void stores_read()
{
    asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
}
__device__ inline void stores_done()
{
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}
/* Makes what this thread wrote to shared memory visible to bulk copies and wgmma. */
__device__ inline void shared_fence()
{
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

/* ---- 8 x 8 matrices of 16-bit numbers between registers and shared memory, four at a time ---- */

__device__ inline void matrices_store(uint32_t to, const uint32_t (&word)[4])
{
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(word[0]),
                 "r"(word[1]), "r"(word[2]), "r"(word[3])
                 : "memory");
}
__device__ inline void pair_store(uint32_t to, float x, float y)
{
    asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(to), "f"(x), "f"(y) : "memory");
}
__device__ inline void matrices_load(uint32_t from, uint32_t (&word)[4])
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(word[0]), "=r"(word[1]), "=r"(word[2]), "=r"(word[3])
                 : "r"(from)
                 : "memory");
}

/* ---- products of a warp group: d[64, 256] += a[64, 16] b[16, 256] ---- */

__device__ inline void wgmma_fence()
{
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
__device__ inline void wgmma_commit()
{
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
template <int Left> __device__ inline void wgmma_wait()
{
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(Left) : "memory");
}

/* Keeps the compiler from reading the sums before the wait. */
template <int Count> __device__ inline void wgmma_sums(float (&d)[Count])
{
#pragma unroll
    for (int i = 0; i < Count; i++)
        asm volatile("" : "+f"(d[i])::"memory");
}

/* Describes where an operand lies.  If its rows lie along k an atom has 8 rows; if they lie across k, boxes
 * of 64 numbers are 8192 bytes apart. */
__device__ inline uint64_t wgmma_descriptor(uint32_t address)
{
    constexpr uint64_t swizzle = 1ull << 62, atoms = 1024 >> 4, boxes = 8192 >> 4;
    return (address & 0x3ffff) >> 4 | boxes << 16 | atoms << 32 | swizzle;
}
/* The distance from k to k + 16 in the descriptor. */
template <int Transposed> constexpr uint64_t wgmma_step = (Transposed ? 2048 : 32) >> 4;

/* The operands of one instruction: the names of the sums, and the sums. */
#define NAMES_64                                                                                             \
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "                                 \
    "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "                       \
    "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "                       \
    "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define NAMES_96                                                                                             \
    NAMES_64                                                                                                 \
    ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "                     \
    "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"
#define NAMES_128                                                                                            \
    NAMES_96                                                                                                 \
    ", %96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, "         \
    "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"
#define SUMS_4(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define SUMS_32(i)                                                                                           \
    SUMS_4(i), SUMS_4(i + 4), SUMS_4(i + 8), SUMS_4(i + 12), SUMS_4(i + 16), SUMS_4(i + 20), SUMS_4(i + 24), \
        SUMS_4(i + 28)
#define SUMS_64  SUMS_32(0), SUMS_32(32)
#define SUMS_96  SUMS_64, SUMS_32(64)
#define SUMS_128 SUMS_96, SUMS_32(96)

/* A product of SHAPE, of which a thread has COUNT sums; A, B, ADD, TA, TB: the operands behind these. */
#define WGMMA(type, shape, count, A, B, ADD, TA, TB)                                                         \
    template <int TransposeA, int TransposeB>                                                                \
    __device__ inline void wgmma_##type(float(&d)[count], uint64_t a, uint64_t b, int add)                   \
    {                                                                                                        \
        asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, " ADD ", 0;\n"                                        \
                     "wgmma.mma_async.sync.aligned." shape "k16.f32." #type "." #type " {" NAMES_##count     \
                     "}, " A ", " B ", p, 1, 1, " TA ", " TB ";\n}\n"                                        \
                     : SUMS_##count                                                                          \
                     : "l"(a), "l"(b), "r"(add), "n"(TransposeA), "n"(TransposeB));                          \
    }
WGMMA(bf16, "m64n128", 64, "%64", "%65", "%66", "%67", "%68")
WGMMA(bf16, "m64n192", 96, "%96", "%97", "%98", "%99", "%100")
WGMMA(bf16, "m64n256", 128, "%128", "%129", "%130", "%131", "%132")
WGMMA(f16, "m64n128", 64, "%64", "%65", "%66", "%67", "%68")
WGMMA(f16, "m64n192", 96, "%96", "%97", "%98", "%99", "%100")
WGMMA(f16, "m64n256", 128, "%128", "%129", "%130", "%131", "%132")
#undef WGMMA

} // namespace lce

#endif
