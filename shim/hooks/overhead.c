/*
 * overhead.c - measures what calls take that allocate nothing, and remembers which kernels were launched.
 *
 * The first launch of a kernel is where lazily loaded code takes its memory, so it is measured, and only it:
 * handles of kernels that were launched are in a table, and a launch of one that is found there in its first
 * place passes with one load.  The table takes no lock; a handle is claimed by compare-and-swap, and the
 * thread that claimed it measures.
 */
#define _GNU_SOURCE
#include "overhead.h"

#include <pthread.h>
#include <time.h>

#include "trace/journal.h"

#define PROBES 16u

_Atomic uintptr_t vs_kernels[VS_KERNELS];
_Atomic bool vs_kernels_many_devices;

static uint64_t ring_head(void)
{
    struct vs_journal *j = vs_record_journal();
    struct vs_journal_stats stats = {0};
    if (j != NULL)
        vs_journal_stats(j, &stats);
    return stats.head;
}

/* While the answers have cost too much, nothing is asked, and the report says so. */
static bool ask(int device, struct vs_used *used)
{
    static atomic_flag told = ATOMIC_FLAG_INIT;
    if (vs_used_now(device, used))
        return true;
    if (vs_used_too_slow() && !atomic_flag_test_and_set_explicit(&told, memory_order_relaxed))
        vs_uncovered("what some calls take that allocate nothing; it stays unexplained, because NVML answers "
                     "too slowly to be asked each time");
    return false;
}

/* In this order: a call is in the ring when it is no more in flight.  Who took memory before the figure and
 * has not recorded it, or will give some back that is recorded as free, is in flight now. */
struct vs_cost vs_cost_begin_on(int device)
{
    struct vs_cost cost = {.device = device, .head = ring_head()};
    int saved = errno;
    if (device == VS_DEVICE_UNKNOWN || !vs_flight_alone() || !ask(device, &cost.before))
        cost.device = VS_DEVICE_UNKNOWN;
    errno = saved;
    return cost;
}

struct vs_cost vs_cost_begin(void)
{
    if (vs_record_journal() == NULL) /* nothing is recorded yet: no device has a row, and nobody would know */
        return (struct vs_cost){.device = VS_DEVICE_UNKNOWN};
    return vs_cost_begin_on(vs_place_current().device);
}

/* Whether an event says that the driver's figure may have moved for another reason. */
static bool moves_device_memory(uint8_t op, uint8_t space)
{
    switch (op) {
    case VS_OP_ALLOC:
    case VS_OP_FREE:
    case VS_OP_FREE_FAILED:
        return vs_space_moves(space);
    case VS_OP_PHYS_CREATE ... VS_OP_PHYS_RELEASE:
    case VS_OP_UNMAP:
    case VS_OP_POOL_RESERVED:
    case VS_OP_ARENA_RESERVED:
    case VS_OP_BIND ... VS_OP_MODULE_UNLOAD:
    case VS_OP_LIMIT ... VS_OP_OVERHEAD:
        return true;
    default: /* address space, blocks, ranges, samples */
        return false;
    }
}

uint64_t vs_cost_end(const struct vs_cost *cost)
{
    struct vs_used after;
    if (cost->device == VS_DEVICE_UNKNOWN || !ask(cost->device, &after) || !vs_flight_alone() ||
        vs_journal_any(vs_record_journal(), cost->head, ring_head(), moves_device_memory))
        return VS_BYTES_UNKNOWN;
    return vs_used_cost(&cost->before, &after);
}

uint64_t vs_cost_first_context(int device)
{
    static _Atomic int waited; /* relaxed: a count */
    const struct timespec pause = {0, 1000000};
    struct vs_used used;
    uint64_t bytes = VS_BYTES_UNKNOWN;
    int saved = errno, cancel;
    vs_sample_soon();
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel); /* the driver's call was no place to end at */
    while (vs_used_undecided() &&
           atomic_fetch_add_explicit(&waited, 1, memory_order_relaxed) < VS_FIRST_CONTEXT_MS)
        nanosleep(&pause, NULL);
    pthread_setcancelstate(cancel, NULL);
    if (ask(device, &used))
        bytes = used.process;
    errno = saved;
    return bytes;
}

void vs_after_overhead(const struct vs_cost *cost, enum vs_api api, enum vs_overhead kind, uint64_t object)
{
    vs_overhead(cost, api, kind, object, vs_cost_end(cost));
}

void vs_overhead(const struct vs_cost *cost, enum vs_api api, enum vs_overhead kind, uint64_t object,
                 uint64_t bytes)
{
    if (bytes == 0 || bytes == VS_BYTES_UNKNOWN)
        return;
    struct vs_event event = {.op = VS_OP_OVERHEAD,
                             .device = (int8_t)cost->device,
                             .context = vs_place_current().context,
                             .address = object,
                             .size = bytes,
                             .arg0 = kind,
                             .arg1 = api};
    vs_record(&event);
}

/* ---- kernels ---- */

/* A handle that is the same on every device is loaded on each of them. */
static uintptr_t key_of(const void *kernel)
{
    CUcontext context = NULL;
    if (!atomic_load_explicit(&vs_kernels_many_devices, memory_order_relaxed) ||
        vs_drv_cuCtxGetCurrent(&context) != CUDA_SUCCESS)
        return (uintptr_t)kernel;
    return (uintptr_t)kernel ^ (uintptr_t)context << 1 ^ 1;
}

bool vs_kernel_first_slow(const void *kernel)
{
    if (kernel == NULL || vs_record_journal() == NULL || vs_hook_nested())
        return false;
    uintptr_t key = key_of(kernel);
    for (uint32_t i = 0, at = vs_kernel_hash(key); i < PROBES; i++, at++) {
        _Atomic uintptr_t *place = &vs_kernels[at % VS_KERNELS];
        uintptr_t seen = atomic_load_explicit(place, memory_order_relaxed);
        if (seen == 0 && atomic_compare_exchange_strong_explicit(place, &seen, key, memory_order_relaxed,
                                                                 memory_order_relaxed))
            return true;
        if (seen == key)
            return false;
    }
    return false; /* the neighbourhood is full */
}

void vs_kernels_forget(void)
{
    for (uint32_t i = 0; i < VS_KERNELS; i++)
        if (atomic_load_explicit(&vs_kernels[i], memory_order_relaxed) != 0)
            atomic_store_explicit(&vs_kernels[i], 0, memory_order_relaxed);
}
