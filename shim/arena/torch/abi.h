/*
 * abi.h - the functions that PyTorch is given: what libvramscope.so exports as vramscope_torch_*.
 *
 * The first group has the signatures of torch's CUDAPluggableAllocator and its set_*_fn, the second is what
 * framework/python/vramscope/_arena.py asks beside it.  They allocate only where VRAMSCOPE_ALLOCATOR=arena.
 *
 * Any thread; no lock of the caller's is taken.  vramscope_torch_malloc throws torch.OutOfMemoryError in a
 * process that has torch (another error of its own where that cannot be), and returns NULL in others.
 */
#ifndef VS_ARENA_TORCH_ABI_H
#define VS_ARENA_TORCH_ABI_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define VS_TORCH __attribute__((visibility("default")))

struct CUstream_st;

/* std::pair<unsigned long long, unsigned long long>: two registers, as this is. */
struct vs_mempool {
    unsigned long long first, second;
};

/* std::function<bool(cudaStream_t)> of libstdc++, which is passed by address. */
struct vs_function {
    uint64_t state[2];
    _Bool (*manage)(void *to, const void *from, int operation);
    _Bool (*call)(const void *state, struct CUstream_st **stream);
};

VS_TORCH void *vramscope_torch_malloc(ssize_t size, int device, struct CUstream_st *stream);
VS_TORCH void vramscope_torch_free(void *ptr, ssize_t size, int device, struct CUstream_st *stream);
VS_TORCH void vramscope_torch_record_stream(void *ptr, struct CUstream_st *stream);
VS_TORCH void *vramscope_torch_base_alloc(void *ptr, size_t *size);
/* empty_cache: gives idle memory back to the driver */
VS_TORCH void vramscope_torch_reset(void);
VS_TORCH void vramscope_torch_memory_fraction(double fraction, int device);
VS_TORCH void vramscope_torch_begin_allocate_to_pool(int device, struct vs_mempool id,
                                                     const struct vs_function *accepts);
VS_TORCH void vramscope_torch_end_allocate_to_pool(int device, struct vs_mempool id);
VS_TORCH void vramscope_torch_release_pool(int device, struct vs_mempool id);

/* Before torch is given them: looks whether this torch takes them for what they are and can be told that
 * there is no memory.  NULL: it does and can; otherwise a sentence that says who, what and why. */
VS_TORCH const char *vramscope_torch_refusal(void);
VS_TORCH double vramscope_torch_get_memory_fraction(int device);
/* one more owner of a pool; release_pool is its end */
VS_TORCH void vramscope_torch_retain_pool(int device, struct vs_mempool id);
VS_TORCH int vramscope_torch_pool_uses(int device, struct vs_mempool id);
/* Of the allocator that torch has just been given: answers what there is no function for.  Returns which of
 * these it could: VS_TORCH_ANSWERS cacheInfo and initialized, VS_TORCH_SHARES tensors in other processes. */
enum { VS_TORCH_ANSWERS = 1, VS_TORCH_SHARES = 2 };
VS_TORCH int vramscope_torch_complete(void);
/* Writes at most ROOM of the device's figures and returns how many there are: see counts.c. */
VS_TORCH int vramscope_torch_stats(int device, uint64_t *values, int room);
VS_TORCH void vramscope_torch_reset_peaks(int device);
VS_TORCH void vramscope_torch_reset_accumulated(int device);

#endif
