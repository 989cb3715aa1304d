/*
 * prog_torch.h - PyTorch's side of the allocator that vramscope gives it: the functions, found by name, and
 * what the record must say at the end: peak, live, blocks, frees.
 */
#ifndef TESTS_E2E_ARENA_PROG_TORCH_H
#define TESTS_E2E_ARENA_PROG_TORCH_H

#include <dlfcn.h>
#include <stdint.h>

#include "arena/torch/abi.h"
#include "prog.h"

#define FUNCTIONS(X)                                                                                         \
    X(malloc)                                                                                                \
    X(free)                                                                                                  \
    X(record_stream)                                                                                         \
    X(base_alloc)                                                                                            \
    X(reset)                                                                                                 \
    X(memory_fraction)                                                                                       \
    X(get_memory_fraction)                                                                                   \
    X(begin_allocate_to_pool)                                                                                \
    X(end_allocate_to_pool)                                                                                  \
    X(release_pool)                                                                                          \
    X(retain_pool)                                                                                           \
    X(pool_uses)                                                                                             \
    X(stats)                                                                                                 \
    X(reset_peaks)                                                                                           \
    X(reset_accumulated)
#define X(name) static __typeof__(&vramscope_torch_##name) torch_##name;
FUNCTIONS(X)
#undef X

static inline void find_functions(void)
{
#define X(name)                                                                                              \
    CHECK((torch_##name = (__typeof__(torch_##name))dlsym(RTLD_DEFAULT, "vramscope_torch_" #name)));
    FUNCTIONS(X)
#undef X
}

/* What torch's own counter would say. */

static uint64_t live, peak, blocks, frees;

static inline uint64_t rounded(uint64_t size)
{
    return (size + 511) / 512 * 512;
}

static inline CUdeviceptr take(size_t size, CUstream stream)
{
    void *p = torch_malloc((ssize_t)size, 0, (struct CUstream_st *)stream);
    CHECK(p && (uintptr_t)p % 512 == 0);
    live += rounded(size);
    peak = live > peak ? live : peak;
    blocks++;
    return (CUdeviceptr)(uintptr_t)p;
}

static inline void give(CUdeviceptr p, size_t size, CUstream stream)
{
    torch_free((void *)(uintptr_t)p, (ssize_t)size, 0, (struct CUstream_st *)stream);
    live -= rounded(size);
    frees++;
}

/* Where torch_stats has what: blocks, bytes, requested x all, small, large x current, peak, allocated, freed
 */
enum {
    BLOCKS = 0,
    BYTES = 12,
    REQUESTED = 24,
    OOMS = 36,
    RETRIES,
    RESERVED,
    PEAK_RESERVED,
    CREATED,
    RELEASED,
    IDLE,
    DEFERRED
};

static inline uint64_t stat(int which)
{
    uint64_t value[64];
    CHECK(torch_stats(0, value, 64) > which);
    return value[which];
}

static inline void check_stats(void)
{
    CHECK(stat(BYTES) == live && stat(BYTES + 1) == peak);
    CHECK(stat(BLOCKS) == blocks - frees && stat(BLOCKS + 2) == blocks && stat(BLOCKS + 3) == frees);
    CHECK(stat(BYTES + 4) + stat(BYTES + 8) == live); /* small and large */
    CHECK(stat(RESERVED) >= live && stat(PEAK_RESERVED) >= peak);
}

static inline void say(void)
{
    printf("%llu %llu %llu %llu\n", (unsigned long long)peak, (unsigned long long)live,
           (unsigned long long)blocks, (unsigned long long)frees);
}

#endif
