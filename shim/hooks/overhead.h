/*
 * overhead.h - device memory that calls take although they allocate nothing.
 *
 * A stream takes a queue, a kernel's first launch its code, its module's static data and its local memory: on
 * a real device hundreds of megabytes that no size argument names.  What such a call took is the difference
 * of the driver's own figure before and after it, and it is known only where no other hooked call was under
 * way at its begin or its end and nothing was recorded meanwhile.
 *
 *      struct vs_cost cost = vs_cost_begin();   real call;   ... = vs_cost_end(&cost);
 *
 * Where the process is alone on the device, cuMemGetInfo is asked, on the host's own thread: some
 * microseconds. Where others use the device too, and around the making of contexts, NVML is (sampler.h): a
 * millisecond. All asking together is bounded (vs_query_time_spent); which calls are worth it, once.h says.
 */
#ifndef VS_HOOKS_OVERHEAD_H
#define VS_HOOKS_OVERHEAD_H

#include "driver.h"
#include "once.h"
#include "sample/sampler.h"

struct vs_cost {
    struct vs_used before;
    uint64_t free; /* by cuMemGetInfo; VS_BYTES_UNKNOWN: NVML was asked */
    uint64_t head; /* of the ring */
    int device;    /* VS_DEVICE_UNKNOWN: not measured */
    bool spent;    /* not measured, because asking has taken its share of the time */
};

/* On the current context's device; both inside vs_hook_enter() and vs_hook_leave(). */
struct vs_cost vs_cost_begin(void);
/* The same for a call that is the FIRST of its kind; where FIRST is NULL nothing is measured. */
struct vs_cost vs_cost_begin_once(vs_first first);
/* On DEVICE, where the call makes the context. */
struct vs_cost vs_cost_begin_on(int device);
/* Bytes that the driver's figure moved by (two's complement), VS_BYTES_UNKNOWN where nobody can say. */
uint64_t vs_cost_end(const struct vs_cost *cost);
/* What the process's first context on DEVICE took, asked after it was made and the recording was begun:
 * before it NVML did not list the process at all.  Waits for the sampler's thread to have NVML ready,
 * VS_FIRST_CONTEXT_MS at most in the whole process, beside the hundreds of milliseconds that a context takes
 * (a thread that makes it in a library's constructor has the loader's lock, which that thread may wait for).
 * VS_BYTES_UNKNOWN where NVML does not distinguish processes. */
uint64_t vs_cost_first_context(int device);
#define VS_FIRST_CONTEXT_MS 250
/* The same as an event, where the figure moved or was not asked for any more. */
void vs_after_overhead(const struct vs_cost *cost, enum vs_api api, enum vs_overhead kind, uint64_t object);
/* The same where BYTES are known already. */
void vs_overhead(const struct vs_cost *cost, enum vs_api api, enum vs_overhead kind, uint64_t object,
                 uint64_t bytes);
#define vs_cost_none ((struct vs_cost){.device = VS_DEVICE_UNKNOWN})

void vs_after_stream_create(const struct vs_cost *cost, enum vs_api api, uint64_t stream);
void vs_after_stream_destroy(void);
void vs_after_instantiate(const struct vs_cost *cost, enum vs_api api, CUgraph graph, uint64_t exec,
                          uint64_t bytes);

#endif
