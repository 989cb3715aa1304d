/* meminfo.h - the driver's figures of used and free memory of a device: samples of them, and what a call
 * takes beyond its arguments. */
#ifndef VS_HOOKS_MEMINFO_H
#define VS_HOOKS_MEMINFO_H

#include <stdbool.h>
#include <stdint.h>

#include "driver.h"
#include "once.h"
#include "sample/sampler.h"

/* The free and all bytes of the current context's device, by the driver; also where a graph is captured. */
bool vs_query_memory(uint64_t *free_bytes, uint64_t *total);
/* The drain's request for the device's used bytes, served on a thread that has a context. */
void vs_sample_if_requested(void);
/* likewise after an allocation; if it was refused for lack of memory the driver is queried in any case,
 * because its free bytes belong to the out-of-memory */
void vs_sample_after(CUresult status);

/* The context that is current on the calling thread; 0: none.  Takes no lock. */
uint64_t vs_cuda_current(void);

/* The used bytes of CONTEXT's device, including other processes, queried on a thread of ours.  CONTEXT is
 * current on a thread of the host that waits meanwhile, so it stays alive without a reference of ours. */
bool vs_cuda_used_bytes(uint64_t context, int *device, uint64_t *bytes);

/* ---- what a call takes ----
 *
 * A stream takes a queue, a kernel's first launch its code, its module's static data and its local memory: on
 * a real device hundreds of megabytes that no size argument names.  The cost of such a call is the difference
 * of the driver's own figure before and after it.  It is known only if no other hooked call was in flight at
 * its begin or end, and nothing that moves device memory was recorded meanwhile.
 *
 *      struct vs_cost cost = vs_cost_begin();   real call;   ... = vs_cost_end(&cost);
 *
 * If the process is alone on the device, cuMemGetInfo is called on the host's own thread, which takes some
 * microseconds.  Else, and around the creation of contexts, NVML is queried (sample/sampler.h), which takes a
 * millisecond.  vs_query_time_spent bounds the time of all queries, and once.h decides which calls are
 * measured. */

struct vs_cost {
    struct vs_used before;
    uint64_t free; /* by cuMemGetInfo; VS_BYTES_UNKNOWN: NVML was queried instead */
    uint64_t head; /* of the ring */
    int device;    /* VS_DEVICE_UNKNOWN: not measured */
    bool spent;    /* not measured, because queries have used up their time */
};

/* On the current context's device; both inside vs_hook_enter() and vs_hook_leave(). */
struct vs_cost vs_cost_begin(void);
/* Likewise for a call that is the FIRST of its kind; if FIRST is NULL nothing is measured. */
struct vs_cost vs_cost_begin_once(vs_first first);
/* On DEVICE, where the call makes the context. */
struct vs_cost vs_cost_begin_on(int device);
/* How many calls ended that may have taken memory of which they do not say how much (contexts, code, streams,
 * pools that grow). */
extern _Atomic uint64_t vs_cost_calls;
/* One more.  Release: who sees the count asks the driver for a figure that has the call's memory. */
static inline void vs_cost_unknown(void)
{
    atomic_fetch_add_explicit(&vs_cost_calls, 1, memory_order_release);
}
/* The change of the driver's figure in bytes (two's complement); VS_BYTES_UNKNOWN: not known. */
uint64_t vs_cost_end(const struct vs_cost *cost);
/* The cost of the process's first context on DEVICE, queried after it was made and the recording has begun:
 * before it NVML did not list the process at all.  Waits for the sampler's thread to have NVML ready,
 * VS_FIRST_CONTEXT_MS at most in the whole process, beside the hundreds of milliseconds that a context takes
 * (a thread that makes it in a library's constructor has the loader's lock, which that thread may wait for).
 * VS_BYTES_UNKNOWN: NVML does not distinguish processes. */
uint64_t vs_cost_first_context(int device);
#define VS_FIRST_CONTEXT_MS 250
/* Records it as an event, if the figure changed or was not queried any more. */
void vs_after_overhead(const struct vs_cost *cost, enum vs_api api, enum vs_overhead kind, uint64_t object);
/* Likewise if BYTES are known already. */
void vs_overhead(const struct vs_cost *cost, enum vs_api api, enum vs_overhead kind, uint64_t object,
                 uint64_t bytes);
#define vs_cost_none ((struct vs_cost){.device = VS_DEVICE_UNKNOWN})

void vs_after_stream_create(const struct vs_cost *cost, enum vs_api api, uint64_t stream);
void vs_after_stream_destroy(void);
void vs_after_instantiate(const struct vs_cost *cost, enum vs_api api, CUgraph graph, uint64_t exec,
                          uint64_t bytes);

#endif
