/*
 * sampler.c - samples the memory that the process uses according to the driver.  Beside each figure stands
 * the host's memory, which the drain thread samples.
 *
 * NVML has a thread of its own: the host may use the library too, and so must share the descriptors that the
 * library opens, while the drain thread has a descriptor table of its own.  If NVML never lists us (a
 * container's pids are not the host's) its figure for the whole device is used; if it no longer lists us, we
 * use nothing there.  Without a figure of NVML's one of the host's own threads queries the driver
 * (vs_sample_take_request).
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "core/clock.h"
#include "sampler.h"
#include "core/options.h"
#include "record/recording.h"
#include "core/procstat.h"

#define DEVICES_MAX 64
#define REPEAT_NS   UINT64_C(1000000000)
#define LOOK_NS     UINT64_C(50000000)

/* A figure and its source; source 0: none. */
struct figure {
    enum vs_sample_source source;
    uint64_t used;
};

static struct device {
    uint32_t row; /* journal device id looked at; 0 = unused */
    vs_nvml_device handle;
    bool listed;        /* NVML has given this process's own figure */
    uint64_t around_ns; /* when NVML last listed the other processes */
    uint64_t last_used, last_ns;
    bool repeated; /* last_used was written twice */
} devices[DEVICES_MAX];

static struct vs_sampler_driver driver;

/* The ring's position after the last sample; if it has moved the program did something. */
static uint64_t seen_head;

void vs_sampler_init(struct vs_sampler_driver asked)
{
    driver = asked;
}

static struct vs_used used_of(struct device *d)
{
    return vs_nvml_used(d->handle, &d->listed);
}

/* Notes whether this process alone changes the figure of device ORDINAL.  If NVML never lists this process
 * its bytes cannot be separated from others', and the device's figure is the only one. */
static void look_around(struct device *d, int32_t ordinal, struct vs_used used)
{
    d->around_ns = vs_clock_ns();
    bool hidden = used.answered && used.process == VS_BYTES_UNKNOWN && !d->listed;
    bool alone = hidden || (used.process != VS_BYTES_UNKNOWN && !vs_nvml_others(d->handle));
    if (ordinal >= 0 && ordinal < VS_ALONE_DEVICES)
        atomic_store_explicit(&vs_recording->alone_ns[ordinal], alone ? d->around_ns : 0,
                              memory_order_relaxed); /* complete in itself */
}

/* The figure of a device that is available without the host's threads. */
static struct figure query_nvml(struct device *d, int32_t ordinal)
{
    struct vs_used used = used_of(d);
    look_around(d, ordinal, used);
    if (used.process != VS_BYTES_UNKNOWN)
        return (struct figure){VS_SAMPLE_NVML_PROCESS, used.process};
    if (used.device != VS_BYTES_UNKNOWN)
        return (struct figure){VS_SAMPLE_NVML_DEVICE, used.device};
    return (struct figure){0, 0};
}

/* ---- a tick ---- */

static void write_sample(struct vs_recording *r, struct vs_journal *j, int32_t ordinal, struct figure figure,
                         uint64_t rss)
{
    struct vs_event e = {
        .op = VS_OP_SAMPLE,
        .device = (int8_t)ordinal,
        .size = figure.used,
        .arg0 = figure.source,
        .arg1 = rss,
        .t_ns = vs_clock_ns(),
        .thread = vs_record_thread_id(j, atomic_load_explicit(&r->generation, memory_order_relaxed)),
    };
    vs_journal_try_append(j, &e); /* a sample is not worth a wait */
}

static uint64_t ring_head(const struct vs_journal *j)
{
    struct vs_journal_stats s;
    vs_journal_stats(j, &s);
    return s.head;
}

/* Whether a sample of USED deserves a row.  The first sample of a new figure may come between a driver call
 * and its event, and so be beside our old total; a second one at the next tick is beside the new total. */
static bool says_something(struct device *d, uint64_t used, bool busy)
{
    uint64_t now = vs_clock_ns();
    bool same = used == d->last_used;
    if (same && d->repeated && !busy && now - d->last_ns < REPEAT_NS)
        return false;
    d->repeated = same;
    d->last_used = used;
    d->last_ns = now;
    return true;
}

static struct device *look_up(uint32_t id, const struct vs_device_row *row)
{
    struct device *d = &devices[id - 1];
    if (d->row != id) {
        d->row = id;
        d->handle = vs_nvml_find(row->uuid);
    }
    return d;
}

/* The first query of a device, before its first sample, finds out whether NVML lists us there at all. */
static struct vs_used used_and_around(struct device *d, int ordinal)
{
    struct vs_used used = used_of(d);
    if (vs_clock_ns() - d->around_ns >= VS_ALONE_MS * UINT64_C(1000000))
        look_around(d, ordinal, used);
    return used;
}

/* Answers a query of one of the host's threads (query.c). */
static struct vs_used look_at(int ordinal)
{
    struct vs_journal *j = vs_recording->sampler_journal;
    const struct vs_device_row *row;
    for (uint32_t id = 1; id <= DEVICES_MAX && (row = vs_journal_get_device(j, id)); id++)
        if (row->ordinal == ordinal)
            return used_and_around(look_up(id, row), ordinal);
    return (struct vs_used){VS_BYTES_UNKNOWN, VS_BYTES_UNKNOWN, false};
}

/* Samples every known device; if NVML gives no figure, requests one from the host's threads. */
static void tick(struct vs_recording *r, struct vs_journal *j, bool soon)
{
    uint64_t rss = atomic_load_explicit(&r->host_rss, memory_order_relaxed);
    const struct vs_device_row *row;
    bool all = true, busy = soon || ring_head(j) != seen_head;
    if (!rss) /* the drain thread has not sampled it yet: try again at the next tick */
        return;
    for (uint32_t id = 1; id <= DEVICES_MAX && (row = vs_journal_get_device(j, id)); id++) {
        struct device *d = look_up(id, row);
        struct figure figure = query_nvml(d, row->ordinal);
        if (figure.source && says_something(d, figure.used, busy))
            write_sample(r, j, row->ordinal, figure, rss);
        all = all && figure.source;
    }
    seen_head = ring_head(j);
    if (!all)
        atomic_store_explicit(&r->sample_wanted, 1, memory_order_relaxed);
}

/* If NVML has no figure, queries the driver in the context, if any, of the thread that waits for this.  The
 * other devices keep their figures. */
static void last_by_driver(struct vs_recording *r, struct vs_journal *j, uint64_t rss)
{
    uint64_t context = atomic_load_explicit(&r->last_context, memory_order_relaxed);
    struct figure figure = {VS_SAMPLE_MEMINFO, 0};
    int device;
    if (context && driver.used_bytes(context, &device, &figure.used))
        write_sample(r, j, device, figure, rss);
}

/* The last sample. */
static void last_tick(struct vs_recording *r, struct vs_journal *j)
{
    uint64_t rss = vs_procstat_rss();
    const struct vs_device_row *row;
    bool all = atomic_load_explicit(&r->nvml, memory_order_relaxed) == VS_NVML_USED;
    for (uint32_t id = 1; all && id <= DEVICES_MAX && (row = vs_journal_get_device(j, id)); id++) {
        struct figure figure = query_nvml(look_up(id, row), row->ordinal);
        if (figure.source)
            write_sample(r, j, row->ordinal, figure, rss);
        all = figure.source;
    }
    if (!all)
        last_by_driver(r, j, rss);
}

/* Sleeps, unless the bell has changed from BELL: it rings at the end and for queries. */
static void pause_ms(struct vs_recording *r, uint32_t bell, uint64_t ms)
{
    struct timespec t = {(time_t)(ms / 1000), (long)(ms % 1000 * 1000000)};
    syscall(SYS_futex, &r->bell, FUTEX_WAIT_PRIVATE, bell, &t, NULL, 0);
}

static bool looking(struct vs_recording *r)
{
    return atomic_load_explicit(&r->look, memory_order_acquire) == VS_LOOK_ALWAYS;
}

static void wake(_Atomic uint32_t *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

/* False: NVML is not usable. */
static bool nvml_usable(struct vs_recording *r, struct vs_journal *j)
{
    for (uint32_t rung = vs_keeper_bell(r); !vs_journal_get_device(j, 1) && looking(r);
         rung = vs_keeper_bell(r))
        pause_ms(r, rung, vs_options.sample_ms);
    return looking(r) && vs_nvml_load(); /* the simulated driver has an NVML of its own for its devices */
}

/* Answers queries at once, and takes samples at their times.
 *
 * While the program allocates there is a sample every VRAMSCOPE_SAMPLE_MS, otherwise one a second.  For the
 * last one the first of our two exit handlers wakes the thread and waits for it, 50 ms at most: libraries'
 * destructors, NVML's among them, run after that. */
static void sample_with_nvml(struct vs_recording *r, struct vs_journal *j)
{
    uint64_t next = 0, period = vs_options.sample_ms * UINT64_C(1000000), now;
    while (looking(r)) {
        uint32_t rung = vs_keeper_bell(r); /* read first, so that any later request ends the pause */
        vs_sampler_answer(r, look_at);
        bool soon = atomic_exchange_explicit(&r->sample_soon, 0, memory_order_relaxed);
        if ((now = vs_clock_ns()) >= next || soon) {
            if (!atomic_load_explicit(&r->paused, memory_order_relaxed))
                tick(r, j, soon);
            next = now + period;
        }
        pause_ms(r, rung, (next - now) / 1000000 + 1);
    }
}

/* Before the drain thread's first round the host's memory is not known; that round requests a sample
 * anyway. */
static bool host_is_known(struct vs_recording *r)
{
    return atomic_load_explicit(&r->host_rss, memory_order_relaxed) != 0;
}

static void sample_until_the_end(struct vs_recording *r, struct vs_journal *j)
{
    memset(devices, 0, sizeof devices); /* in a fork child they have the parent's handles */
    seen_head = 0;
    if (nvml_usable(r, j)) {
        atomic_store_explicit(&r->nvml, VS_NVML_USED, memory_order_relaxed);
        sample_with_nvml(r, j);
    } else {
        atomic_store_explicit(&r->nvml, VS_NVML_USELESS, memory_order_relaxed);
    }
    for (uint32_t rung = vs_keeper_bell(r); looking(r); rung = vs_keeper_bell(r)) {
        bool soon = atomic_exchange_explicit(&r->sample_soon, 0, memory_order_relaxed);
        if (soon && host_is_known(r))
            atomic_store_explicit(&r->sample_wanted, 1, memory_order_relaxed);
        pause_ms(r, rung, 3600000);
    }
    if (atomic_load_explicit(&r->look, memory_order_acquire) == VS_LOOK_LAST)
        last_tick(r, j);
    uint32_t last = VS_LOOK_LAST; /* it may be VS_LOOK_END by now */
    atomic_compare_exchange_strong(&r->look, &last, VS_LOOK_NEVER);
    wake(&r->look);
}

void vs_sampler_last_look(struct vs_recording *r)
{
    uint32_t always = VS_LOOK_ALWAYS;
    uint64_t until = vs_clock_ns() + LOOK_NS;
    struct timespec step = {0, 10000000};
    int kept = errno;
    if (!atomic_load(&r->keeper) || r->pid != getpid())
        return;
    /* relaxed: published by the exchange; if two threads call at once either context will do */
    atomic_store_explicit(&r->last_context, driver.current(), memory_order_relaxed);
    if (!atomic_compare_exchange_strong(&r->look, &always,
                                        vs_options.sample_ms ? VS_LOOK_LAST : VS_LOOK_NEVER))
        return;
    vs_keeper_ring(r);
    while (atomic_load_explicit(&r->look, memory_order_acquire) == VS_LOOK_LAST && vs_clock_ns() < until)
        syscall(SYS_futex, &r->look, FUTEX_WAIT_PRIVATE, VS_LOOK_LAST, &step, NULL, 0);
    errno = kept;
}

void vs_sampler_run(struct vs_recording *r)
{
    if (vs_options.sample_ms)
        sample_until_the_end(r, r->sampler_journal);
}
