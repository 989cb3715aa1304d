/*
 * provided.c - records how much memory the provider (provider.h) holds of the driver, and its figures.
 *
 *      thread A: alloc, for which it took memory        reported: 40 MiB   block a
 *      thread B:         alloc in what it had taken                                   block b
 *
 * The holdings are recorded before a block's event, if they have changed since they were recorded last.  They
 * were read after the block was made, and blocks that are recorded as living do live.  So wherever a block is
 * recorded, the holdings recorded before it are at least the sum of it and all others that live.
 */
#include "provided.h"

#include <errno.h>
#include <string.h>

#include "driver.h"
#include "hook.h"
#include "meminfo.h"
#include "place.h"
#include "core/hot.h"
#include "core/lock.h"

#define DEVICES      64
#define SAMPLE_LEAST 4u
#define SAMPLE_MOST  4096u
#define SAMPLE_PART  32u

/* The state of a device's record. */
struct recorded {
    _Alignas(32) struct vs_lock lock; /* held from reading the holdings until they are recorded */
    uint64_t reported;                /* up to which change; atomic */
    uint32_t samples;
    uint64_t sampled; /* requests at the last one */
};

const struct vs_provider *vs_providing;
static const struct vs_provider *installed;
static struct recorded recorded[DEVICES] = {[0 ... DEVICES - 1] = {.lock = VS_LOCK(PROVIDED)}};
static _Atomic int devices; /* one more than the highest device with a record */

__thread bool vs_provided_due;
static __thread bool reporting;            /* a signal handler must not report while its thread does */
static __thread uint64_t calls, next_look; /* of this thread */

void vs_provide(const struct vs_provider *p)
{
    for (const struct vs_stand_in *const *list = p->stand_ins; *list != NULL; list++)
        for (const struct vs_stand_in *row = *list; row->function != NULL; row++)
            vs_override(row->api, row->function);
    installed = p;
    if (p->alloc != NULL)
        vs_providing = p;
}

bool vs_provided_owner(CUdeviceptr address, struct vs_owned *block)
{
    return installed != NULL && installed->owner(address, block);
}

bool vs_provided_shortage(void)
{
    int saved = errno;
    bool more = vs_providing != NULL && vs_providing->shortage();
    vs_provided_due = vs_provided_due || more; /* it holds less than before */
    errno = saved;
    return more;
}

/* ---- what is held ---- */

static void record_holding(struct recorded *r, int device, const struct vs_holding *h)
{
    vs_place_prepare(CUDA_SUCCESS);
    vs_place_announce(device);
    if (vs_event(VS_OP_ARENA_RESERVED, VS_SPACE_ARENA, (struct vs_place){(int8_t)device, 0}, h->away,
                 h->reserved, h->idle, h->deferred, CUDA_SUCCESS) != VS_SEQ_NONE)
        /* release: stored after the event, so a thread that sees it may record a block */
        __atomic_store_n(&r->reported, h->change, __ATOMIC_RELEASE);
}

/* ---- figures ----
 *
 * Sampled by the threads that are served: after the provider's first request, the 2nd, the 4th, then after
 * each 32nd part more (4 requests at least, 4096 at most), so that a few samples distinguish any part of a
 * run from another, and a kill takes little away. */

static uint64_t until_next(uint64_t done)
{
    uint64_t more = done / SAMPLE_PART;
    if (done < SAMPLE_LEAST)
        return done ? done : 1;
    return more < SAMPLE_LEAST ? SAMPLE_LEAST : more > SAMPLE_MOST ? SAMPLE_MOST : more;
}

/* With the lock held: the parts of two samples of one device never mix. */
static void record_figures(struct recorded *r, int device, const uint64_t f[VS_FIGURE_END], bool last)
{
    uint64_t requests = f[VS_FIGURE_MALLOCS] + f[VS_FIGURE_FREES];
    if (requests < r->sampled + (last ? 1 : until_next(r->sampled)))
        return;
    r->sampled = requests;
    r->samples++;
    for (uint32_t part = 0; part < VS_FIGURE_PARTS; part++) {
        struct vs_event event = {.op = VS_OP_ARENA_FIGURES,
                                 .space = VS_SPACE_ARENA,
                                 .device = (int8_t)device,
                                 .range = r->samples,
                                 .stack = part,
                                 .address = f[4 * part],
                                 .size = f[4 * part + 1],
                                 .arg0 = f[4 * part + 2],
                                 .arg1 = f[4 * part + 3]};
        vs_record(&event);
    }
}

/* ---- when ---- */

/* Whether the change is not in the record yet.  While nothing is recorded it need not be, and stays
 * unreported. */
static bool is_unreported(const struct recorded *r, uint64_t change)
{
    /* acquire: pairs with the release in record_holding */
    return __atomic_load_n(&r->reported, __ATOMIC_ACQUIRE) != change && vs_record_takes();
}

static __attribute__((noinline, cold)) void have_due(int device)
{
    int known = atomic_load_explicit(&devices, memory_order_relaxed);
    while (known <= device && !atomic_compare_exchange_weak_explicit(
                                  &devices, &known, device + 1, memory_order_relaxed, memory_order_relaxed))
        ;
    vs_provided_due = true;
}

/* The first look at a device counts as a change. */
VS_HOT_CODE void vs_provided_look(const struct vs_given *g)
{
    if (g->device < 0)
        return;
    if (__builtin_expect(++calls >= next_look || is_unreported(&recorded[g->device], g->change), 0))
        have_due(g->device);
}

/* False: the provider could not answer now. */
static bool report(int device, bool figures)
{
    struct recorded *r = &recorded[device];
    struct vs_holding h;
    uint64_t f[VS_FIGURE_END];
    vs_lock_take(&r->lock);
    if (vs_providing->ended(device, f)) {
        record_figures(r, device, f, true);
        r->sampled = 0;
    }
    bool asked = vs_providing->holds(device, &h);
    if (asked && is_unreported(r, h.change))
        record_holding(r, device, &h);
    if (figures && vs_providing->figures(device, false, f))
        record_figures(r, device, f, false);
    vs_lock_give(&r->lock);
    return asked;
}

void vs_provided_report_now(void)
{
    bool figures = calls >= next_look, asked = true;
    if (reporting)
        return;
    reporting = true;
    vs_provided_due = false;
    if (figures)
        next_look = calls + until_next(calls);
    for (int i = 0; i < atomic_load_explicit(&devices, memory_order_relaxed); i++)
        asked = report(i, figures) && asked;
    vs_provided_due = vs_provided_due || !asked;
    reporting = false;
}

void vs_provided_report_all(void)
{
    if (vs_providing != NULL)
        vs_provided_report_now();
}

void vs_provided_changed(int device)
{
    int kept = errno;
    if (vs_providing == NULL || device < 0 || device >= DEVICES || !vs_record_enabled())
        return;
    bool entered = vs_provided_enter(__builtin_frame_address(0));
    have_due(device);
    vs_provided_report_now();
    if (entered)
        vs_hook_leave();
    errno = kept;
}

void vs_provided_moved(int device, CUdeviceptr address, uint64_t bytes, enum vs_away_why why,
                       uint64_t waited_ns)
{
    struct vs_event event = {.op = VS_OP_BLOCK_AWAY,
                             .space = VS_SPACE_ARENA,
                             .device = (int8_t)device,
                             .address = address,
                             .size = bytes,
                             .arg0 = why,
                             .arg1 = waited_ns};
    int kept = errno;
    if (vs_record_enabled())
        vs_record(&event);
    errno = kept;
}

void vs_provided_fact(const char *key, const char *value)
{
    struct vs_event event = {.op = VS_OP_FRAMEWORK_FACT, .device = VS_DEVICE_UNKNOWN};
    struct vs_journal *j = vs_record_enabled() ? vs_record_journal() : NULL;
    int kept = errno;
    if (j != NULL) {
        event.address = vs_journal_string(j, key, strlen(key));
        event.size = vs_journal_string(j, value, strlen(value));
        vs_record(&event);
    }
    errno = kept;
}

/* May be called by a signal handler that interrupted this very thread within a lock: not where one
 * is held. */
void vs_provided_last(void)
{
    uint64_t f[VS_FIGURE_END];
    for (int i = 0; i < atomic_load_explicit(&devices, memory_order_relaxed); i++) {
        if (!vs_lock_try(&recorded[i].lock))
            continue;
        if (vs_providing->figures(i, true, f))
            record_figures(&recorded[i], i, f, true);
        vs_lock_give(&recorded[i].lock);
    }
}

/* ---- calls that reach the provider without a driver function ---- */

bool vs_provided_enter(const void *frame)
{
    bool nested = vs_hook_outermost != 0 && (uintptr_t)frame < vs_hook_outermost;
    if (nested || !vs_record_enabled())
        return false;
    vs_hook_begin((uintptr_t)frame, true);
    return true;
}

void vs_provided_leave(bool entered, const struct vs_given *g)
{
    vs_provided_look(g);
    vs_provided_report();
    if (entered)
        vs_hook_leave();
}

/* The event lets readers distinguish a refusal by the driver from a limit that the caller set itself. */
void vs_provided_refused(const struct vs_given *g, uint64_t size, CUresult status)
{
    if (!vs_record_enabled())
        return;
    vs_provided_look(g);
    vs_provided_report();
    vs_event(VS_OP_ALLOC, VS_SPACE_ARENA, (struct vs_place){(int8_t)g->device, 0}, 0, size, 0,
             VS_API_cuMemCreate, status);
    vs_sample_after(status);
}
