/*
 * meminfo.c - see meminfo.h.
 *
 * The drain requests a sample from time to time, and the next hooked call of any thread takes it; after a
 * refusal for lack of memory one is taken at once.
 */
#define _GNU_SOURCE
#include "meminfo.h"

#include <errno.h>
#include <pthread.h>
#include <time.h>

#include "core/clock.h"
#include "core/contracts.h"
#include "hook.h"
#include "place.h"
#include "record/record.h"
#include "sample/sampler.h"
#include "trace/journal/journal.h"

struct meminfo {
    size_t free, total;
};

static bool is_plausible(const struct meminfo *m)
{
    if (m->total == 0 || m->free > m->total)
        return vs_contract_broken(VS_CONTRACT_DRIVER_FIGURES,
                                  "cuMemGetInfo says that %zu of %zu bytes are free", m->free, m->total);
    vs_contract_proven(VS_CONTRACT_DRIVER_FIGURES, "cuMemGetInfo's free bytes are a part of all");
    return true;
}

/* In a thread whose capture mode is global or thread-local, a query that the driver considers unsafe would
 * break a stream capture, so the mode is relaxed during ours. */
static bool query_meminfo(struct meminfo *m)
{
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    bool exchanged = vs_drv_cuThreadExchangeStreamCaptureMode(&mode) == CUDA_SUCCESS;
    CUresult status = vs_drv_cuMemGetInfo_v2(&m->free, &m->total);
    if (exchanged)
        vs_drv_cuThreadExchangeStreamCaptureMode(&mode);
    return status == CUDA_SUCCESS && is_plausible(m);
}

bool vs_query_memory(uint64_t *free_bytes, uint64_t *total)
{
    struct meminfo m = {0, 0};
    bool known = query_meminfo(&m);
    *free_bytes = m.free;
    *total = m.total;
    return known;
}

/* What of FREE bytes this process may have: vs_real_under has what a limit leaves of them (limit/). */
static uint64_t within_limit(uint64_t free)
{
    CUresult (*info)(size_t *, size_t *) = vs_real_under(VS_API_cuMemGetInfo_v2);
    struct meminfo m = {free, 0};
    if (info == vs_real_beneath(VS_API_cuMemGetInfo_v2) || info(&m.free, &m.total) != CUDA_SUCCESS)
        return free;
    return m.free < free ? m.free : free;
}

/* Samples the driver's free bytes on the host's own thread; returns the device, VS_DEVICE_UNKNOWN if there
 * is
 * no answer. */
static int sample_here(enum vs_sample_source source)
{
    struct meminfo m = {0, 0};
    struct vs_place place = vs_place_current();
    if (place.device == VS_DEVICE_UNKNOWN || !query_meminfo(&m))
        return VS_DEVICE_UNKNOWN;
    vs_event(VS_OP_SAMPLE, VS_SPACE_NONE, place, source == VS_SAMPLE_OOM ? within_limit(m.free) : 0,
             m.total - m.free, source, 0, CUDA_SUCCESS);
    return place.device;
}

/* Samples the device's figure and this process's at one moment, because only then their difference is the
 * memory of other processes. */
static void sample_refused(void)
{
    struct vs_used used;
    int device = sample_here(VS_SAMPLE_OOM);
    if (device == VS_DEVICE_UNKNOWN || !vs_used_now(device, &used) || used.process == VS_BYTES_UNKNOWN)
        return;
    vs_event(VS_OP_SAMPLE, VS_SPACE_NONE, (struct vs_place){(int8_t)device, 0}, 0, used.process,
             VS_SAMPLE_OOM_PROCESS, 0, CUDA_SUCCESS);
}

void vs_sample_if_requested(void)
{
    if (vs_sample_take_request())
        sample_here(VS_SAMPLE_MEMINFO);
}

void vs_sample_after(CUresult status)
{
    if (status == CUDA_ERROR_OUT_OF_MEMORY)
        sample_refused();
    else
        vs_sample_if_requested();
}

uint64_t vs_cuda_current(void)
{
    CUcontext context = NULL;
    if (!vs_cuda_seen() || vs_drv_cuCtxGetCurrent(&context) != CUDA_SUCCESS)
        return 0;
    return (uint64_t)(uintptr_t)context;
}

bool vs_cuda_used_bytes(uint64_t context, int *device, uint64_t *bytes)
{
    if (vs_drv_cuCtxSetCurrent((CUcontext)(uintptr_t)context) != CUDA_SUCCESS)
        return false;
    struct meminfo m = {0, 0};
    bool known = vs_drv_cuCtxGetDevice(device) == CUDA_SUCCESS && query_meminfo(&m);
    vs_drv_cuCtxSetCurrent(NULL);
    *bytes = m.total - m.free;
    return known;
}

/* ---- what a call takes ---- */

static uint64_t ring_head(void)
{
    struct vs_journal *j = vs_record_journal();
    struct vs_journal_stats stats = {0};
    if (j != NULL)
        vs_journal_stats(j, &stats);
    return stats.head;
}

/* The device's free bytes; the query's time counts like that of any other. */
static bool query_free(uint64_t *bytes)
{
    uint64_t begin = vs_clock_ns(), total;
    bool known = vs_query_memory(bytes, &total);
    vs_query_took(begin, vs_clock_ns() - begin);
    return known;
}

/* In this order, because a call is in the ring before it leaves flight: a call that took memory before the
 * figure and has not recorded it, or will give back memory that is recorded as freed, is in flight now. */
static struct vs_cost begin(int device, bool is_current)
{
    struct vs_cost cost = {.device = device, .free = VS_BYTES_UNKNOWN, .head = ring_head()};
    int saved = errno;
    if (device != VS_DEVICE_UNKNOWN && vs_record_takes() && vs_flight_alone()) {
        cost.spent = vs_query_time_spent();
        if (cost.spent || (is_current && vs_used_alone(device) && query_free(&cost.free)) ||
            vs_used_now(device, &cost.before)) {
            errno = saved;
            return cost;
        }
    }
    cost.device = VS_DEVICE_UNKNOWN;
    errno = saved;
    return cost;
}

struct vs_cost vs_cost_begin_on(int device)
{
    return begin(device, false);
}

struct vs_cost vs_cost_begin(void)
{
    if (vs_record_journal() == NULL) /* nothing is recorded yet, and no device has a row */
        return vs_cost_none;
    return begin(vs_place_current().device, true);
}

struct vs_cost vs_cost_begin_once(vs_first first)
{
    if (first == &vs_once_full)
        return (struct vs_cost){.device = vs_place_current().device, .spent = true};
    return first != NULL ? vs_cost_begin() : vs_cost_none;
}

/* The change of the figure since begin(). */
static uint64_t moved(const struct vs_cost *cost)
{
    struct vs_used after;
    uint64_t left;
    if (cost->free != VS_BYTES_UNKNOWN)
        return query_free(&left) ? cost->free - left : VS_BYTES_UNKNOWN;
    return vs_used_now(cost->device, &after) ? vs_used_cost(&cost->before, &after) : VS_BYTES_UNKNOWN;
}

/* Whether an event shows that the driver's figure may have changed for another reason. */
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

_Atomic uint64_t vs_cost_calls;

uint64_t vs_cost_end(const struct vs_cost *cost)
{
    vs_cost_unknown();
    if (cost->device == VS_DEVICE_UNKNOWN || cost->spent)
        return VS_BYTES_UNKNOWN;
    uint64_t bytes = moved(cost);
    if (!vs_flight_alone() ||
        vs_journal_any(vs_record_journal(), cost->head, ring_head(), moves_device_memory))
        return VS_BYTES_UNKNOWN;
    return bytes;
}

static const struct timespec moment = {0, 1000000};

/* The process's figure once it is the same twice: NVML may have a part of a new context at first. */
static uint64_t steady_figure(int device)
{
    struct vs_used used;
    uint64_t bytes = VS_BYTES_UNKNOWN, before, until = vs_clock_ns() + VS_QUERY_FIRST_MS * UINT64_C(1000000);
    for (int asked = 0; asked < 2 || vs_clock_ns() < until; asked++) {
        before = bytes;
        bytes = vs_used_first(device, &used) ? used.process : VS_BYTES_UNKNOWN;
        if (bytes == VS_BYTES_UNKNOWN || bytes == before)
            return bytes;
        nanosleep(&moment, NULL);
    }
    return VS_BYTES_UNKNOWN;
}

uint64_t vs_cost_first_context(int device)
{
    static _Atomic int waited; /* relaxed: a count */
    int saved = errno, cancel;
    vs_sample_soon();
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel); /* not to be cancelled inside our query */
    while (vs_used_undecided() &&
           atomic_fetch_add_explicit(&waited, 1, memory_order_relaxed) < VS_FIRST_CONTEXT_MS)
        nanosleep(&moment, NULL);
    uint64_t bytes = steady_figure(device);
    pthread_setcancelstate(cancel, NULL);
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
    if (bytes == 0 || (bytes == VS_BYTES_UNKNOWN && !cost->spent))
        return;
    vs_event(VS_OP_OVERHEAD, VS_SPACE_NONE,
             (struct vs_place){(int8_t)cost->device, vs_place_current().context}, object, bytes, kind, api,
             CUDA_SUCCESS);
}

/* ---- streams, graphs ---- */

void vs_after_stream_create(const struct vs_cost *cost, enum vs_api api, uint64_t stream)
{
    atomic_fetch_add_explicit(&vs_once_streams, 1, memory_order_relaxed); /* a count */
    vs_after_overhead(cost, api, VS_OVERHEAD_STREAM, stream);
}

/* Streams that were made before the recording are not counted. */
void vs_after_stream_destroy(void)
{
    uint32_t n = atomic_load_explicit(&vs_once_streams, memory_order_relaxed);
    while (n > 0 && !atomic_compare_exchange_weak_explicit(&vs_once_streams, &n, n - 1, memory_order_relaxed,
                                                           memory_order_relaxed))
        ;
}

/* If no more queries are made, an event says so once for each graph. */
void vs_after_instantiate(const struct vs_cost *cost, enum vs_api api, CUgraph graph, uint64_t exec,
                          uint64_t bytes)
{
    if (!cost->spent || vs_once_number(api, (uintptr_t)graph) != NULL)
        vs_overhead(cost, api, VS_OVERHEAD_GRAPH, exec, bytes);
}
