/*
 * sampler.c - what the driver itself says that the process uses, beside what we counted; and the host's
 * memory.
 *
 * NVML knows it per process and device and needs no CUDA context.  It has a thread of its own: the library
 * may be shared with the host, and so must the descriptors be that it opens, while the drain thread has a
 * table of its own (drain.c).  Where NVML never lists us (a container's pids are not the host's) its figure
 * for the whole device is taken; where it does no longer, we use nothing there.  Where there is no NVML, or
 * it can't say, one of the host's own threads is asked to ask the driver (vs_sample_take_request).
 *
 * As long as the program allocates there is a sample every VRAMSCOPE_SAMPLE_MS; where nothing happens, one a
 * second, and one at the end whatever happened.  For the end the first of our two exit handlers wakes the
 * thread and waits for it, 50 ms at most: libraries' destructors, NVML's among them, run after that.
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
#include "nvml.h"
#include "work.h"
#include "core/options.h"
#include "record/recording.h"
#include "core/procstat.h"

#define DEVICES_MAX 64
#define REPEAT_NS   UINT64_C(1000000000)
#define LOOK_NS     UINT64_C(50000000)

/* A figure, and where it is from; source 0: none. */
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
    bool settled; /* last_used was written twice */
} devices[DEVICES_MAX];

static struct vs_sampler_driver driver;

/* Where the ring stood after the last look: further on now means that the program did something. */
static uint64_t seen_head;

void vs_sampler_init(struct vs_sampler_driver asked)
{
    driver = asked;
}

static struct vs_used used_of(struct device *d)
{
    return vs_nvml_used(d->handle, &d->listed);
}

/* Notes whether device ORDINAL's own figure moves for this process alone.  Where NVML never lists this
 * process, its bytes cannot be separated from others', and that figure is all that there is. */
static void look_around(struct device *d, int32_t ordinal, struct vs_used used)
{
    d->around_ns = vs_clock_ns();
    bool hidden = used.answered && used.process == VS_BYTES_UNKNOWN && !d->listed;
    bool alone = hidden || (used.process != VS_BYTES_UNKNOWN && !vs_nvml_others(d->handle));
    if (ordinal >= 0 && ordinal < VS_ALONE_DEVICES)
        atomic_store_explicit(&vs_recording->alone_ns[ordinal], alone ? d->around_ns : 0,
                              memory_order_relaxed); /* complete in itself */
}

/* What is known of a device without the host's help. */
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

/* Whether a sample of USED is worth its row.  The first one of a new figure may have come between a driver
 * call and its event, with our own figure still the old one beside it: the same again at the next tick has
 * both. */
static bool says_something(struct device *d, uint64_t used, bool busy)
{
    uint64_t now = vs_clock_ns();
    bool same = used == d->last_used;
    if (same && d->settled && !busy && now - d->last_ns < REPEAT_NS)
        return false;
    d->settled = same;
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

/* The first question of a device, before its first sample, finds out whether NVML need be asked at all. */
static struct vs_used used_and_around(struct device *d, int ordinal)
{
    struct vs_used used = used_of(d);
    if (vs_clock_ns() - d->around_ns >= VS_ALONE_MS * UINT64_C(1000000))
        look_around(d, ordinal, used);
    return used;
}

/* The answer to a question of one of the host's threads (query.c). */
static struct vs_used look_at(int ordinal)
{
    struct vs_journal *j = vs_recording->sampler_journal;
    const struct vs_device_row *row;
    for (uint32_t id = 1; id <= DEVICES_MAX && (row = vs_journal_get_device(j, id)); id++)
        if (row->ordinal == ordinal)
            return used_and_around(look_up(id, row), ordinal);
    return (struct vs_used){VS_BYTES_UNKNOWN, VS_BYTES_UNKNOWN, false};
}

/* One look at every known device; where NVML gives no figure, the host's threads are asked for one. */
static void tick(struct vs_recording *r, struct vs_journal *j, bool soon)
{
    uint64_t rss = atomic_load_explicit(&r->host_rss, memory_order_relaxed);
    const struct vs_device_row *row;
    bool all = true, busy = soon || ring_head(j) != seen_head;
    if (!rss) /* the drain thread has not looked yet: the next tick then */
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

/* Where NVML does not say, the driver is asked: in the context of the thread that waits for this, which may
 * be none.  The other devices keep the figures that they have. */
static void last_by_driver(struct vs_recording *r, struct vs_journal *j, uint64_t rss)
{
    uint64_t context = atomic_load_explicit(&r->last_context, memory_order_relaxed);
    struct figure figure = {VS_SAMPLE_MEMINFO, 0};
    int device;
    if (context && driver.used_bytes(context, &device, &figure.used))
        write_sample(r, j, device, figure, rss);
}

/* The last look: nothing that the host does will be seen any more. */
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

/* Sleeps, but not when the bell was rung since it stood at BELL: at the end, and when somebody asks. */
static void pause_ms(struct vs_recording *r, uint32_t bell, uint64_t ms)
{
    struct timespec t = {(time_t)(ms / 1000), (long)(ms % 1000 * 1000000)};
    syscall(SYS_futex, &r->bell, FUTEX_WAIT_PRIVATE, bell, &t, NULL, 0);
}

static uint32_t bell(struct vs_recording *r)
{
    return atomic_load_explicit(&r->bell, memory_order_acquire);
}

static bool looking(struct vs_recording *r)
{
    return atomic_load_explicit(&r->look, memory_order_acquire) == VS_LOOK_ALWAYS;
}

static void wake(_Atomic uint32_t *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

/* False where NVML can be of no use. */
static bool nvml_usable(struct vs_recording *r, struct vs_journal *j)
{
    for (uint32_t rung = bell(r); !vs_journal_get_device(j, 1) && looking(r); rung = bell(r))
        pause_ms(r, rung, vs_options.sample_ms);
    return looking(r) &&
           vs_nvml_load(); /* a real NVML knows no device of the simulated driver, which brings its own */
}

/* Questions are answered at once; samples have their times. */
static void sample_with_nvml(struct vs_recording *r, struct vs_journal *j)
{
    uint64_t next = 0, period = vs_options.sample_ms * UINT64_C(1000000), now;
    while (looking(r)) {
        uint32_t rung = bell(r); /* before anything is looked at: what comes later ends the pause */
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

/* Before the drain thread's first look nothing is known of the host; that look asks for a sample anyway. */
static bool host_is_known(struct vs_recording *r)
{
    return atomic_load_explicit(&r->host_rss, memory_order_relaxed) != 0;
}

static void sample_until_the_end(struct vs_recording *r, struct vs_journal *j)
{
    memset(devices, 0, sizeof devices); /* a fork child finds its parent's handles in them */
    seen_head = 0;
    if (nvml_usable(r, j)) {
        atomic_store_explicit(&r->nvml, VS_NVML_USED, memory_order_relaxed);
        sample_with_nvml(r, j);
    } else {
        atomic_store_explicit(&r->nvml, VS_NVML_USELESS, memory_order_relaxed);
    }
    for (uint32_t rung = bell(r); looking(r); rung = bell(r)) {
        bool soon = atomic_exchange_explicit(&r->sample_soon, 0, memory_order_relaxed);
        if (soon && host_is_known(r))
            atomic_store_explicit(&r->sample_wanted, 1, memory_order_relaxed);
        pause_ms(r, rung, 3600000);
    }
    if (atomic_load_explicit(&r->look, memory_order_acquire) == VS_LOOK_LAST)
        last_tick(r, j);
    uint32_t last = VS_LOOK_LAST; /* or the end, by now */
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
    /* relaxed: published by the exchange; of two callers the one that loses leaves what is as good */
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
