/*
 * overhead.h - device memory that calls take although they allocate nothing.
 *
 * A stream takes a queue, a kernel's first launch its code, its module's static data and its local memory: on
 * a real device hundreds of megabytes that no size argument names.  What such a call took is the difference
 * of the driver's own figure (sampler.h) before and after it, and it is known only where no other hooked call
 * was under way at its begin or its end and nothing was recorded meanwhile.
 *
 *      struct vs_cost cost = vs_cost_begin();   real call;   ... = vs_cost_end(&cost);
 */
#ifndef VS_HOOKS_OVERHEAD_H
#define VS_HOOKS_OVERHEAD_H

#include "hook.h"
#include "sampler.h"

struct vs_cost {
    struct vs_used before;
    uint64_t head; /* of the ring */
    int device;    /* VS_DEVICE_UNKNOWN: not measured */
};

/* On the current context's device; both inside vs_hook_enter() and vs_hook_leave(). */
struct vs_cost vs_cost_begin(void);
/* On DEVICE, where the call makes the context. */
struct vs_cost vs_cost_begin_on(int device);
/* Bytes that the driver's figure moved by (two's complement), VS_BYTES_UNKNOWN where nobody can say. */
uint64_t vs_cost_end(const struct vs_cost *cost);
/* What the process's first context on DEVICE took, asked after it was made and the recording was begun:
 * before it NVML did not list the process at all.  Waits for the sampler's thread to have NVML ready,
 * VS_FIRST_CONTEXT_MS at most in the whole process, beside the hundreds of milliseconds that a context takes
 * (a thread that makes it in a library's constructor has the loader's lock, which that thread may wait for).
 * VS_BYTES_UNKNOWN where NVML does not tell processes apart. */
uint64_t vs_cost_first_context(int device);
#define VS_FIRST_CONTEXT_MS 250
/* The same as an event, where the figure moved. */
void vs_after_overhead(const struct vs_cost *cost, enum vs_api api, enum vs_overhead kind, uint64_t object);
/* The same where BYTES are known already. */
void vs_overhead(const struct vs_cost *cost, enum vs_api api, enum vs_overhead kind, uint64_t object,
                 uint64_t bytes);
#define vs_cost_none ((struct vs_cost){.device = VS_DEVICE_UNKNOWN})

/* ---- kernels that were launched before ---- */

#define VS_KERNELS 16384u /* a power of two; launches of further kernels are not measured */
extern _Atomic uintptr_t vs_kernels[VS_KERNELS];
/* More than one device is in use, so a kernel's handle alone says not yet where it is loaded. */
extern _Atomic bool vs_kernels_many_devices;

static inline uint32_t vs_kernel_hash(uintptr_t key)
{
    return (uint32_t)((uint64_t)key * UINT64_C(0x9e3779b97f4a7c15) >> 50) & (VS_KERNELS - 1);
}

bool vs_kernel_first_slow(const void *kernel);

/* Whether this is the first launch of KERNEL here, to be measured; says so once.  One load for the usual
 * launch.  Relaxed: a key is complete in itself, and nothing is published by it. */
static inline bool vs_kernel_first(const void *kernel)
{
    uintptr_t key = (uintptr_t)kernel;
    if (__builtin_expect(atomic_load_explicit(&vs_kernels[vs_kernel_hash(key)], memory_order_relaxed) ==
                                 key &&
                             !atomic_load_explicit(&vs_kernels_many_devices, memory_order_relaxed),
                         1))
        return false;
    return vs_kernel_first_slow(kernel);
}

/* A context has ended, and its code with it: handles may come back as other kernels'. */
void vs_kernels_forget(void);

#endif
