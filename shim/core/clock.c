/*
 * clock.c - the clock of events: see clock.h.
 *
 * The counter is used if the processor declares it invariant (a constant rate, also in sleep states), the
 * kernel itself keeps time with it (clock source tsc, or kvm-clock, which is the same counter with the host's
 * scale), and the process may read it.
 */
#define _GNU_SOURCE
#include "clock.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "core/arch/counter.h"
#include "hot.h"

/* Returns NS, but never less than the thread got before.  (If a signal handler runs between load and store,
 * the next reading is compared with one from before the handler's; it is later than both anyway.) */
static uint64_t monotonic(uint64_t ns)
{
    volatile struct vs_event_clock *c = &vs_self.clock;
    if (ns < c->last)
        return c->last;
    c->last = ns;
    return ns;
}

#define NEAR_TICKS    1000u
#define LIFE_NS       UINT64_C(1000000)
#define CHECKED_LIVES 8u
#define FIRST_BASE_NS UINT64_C(20000000)
#define BASE_NS       UINT64_C(1000000000)
#define SYSFS_SOURCE  "/sys/devices/system/clocksource/clocksource0/current_clocksource"

struct reading {
    uint64_t counter, ns;
};

static _Atomic uint64_t rate; /* of new anchors, 0: the counter is not used */
static _Atomic bool given_up = true;
static struct reading base; /* used by the drain thread, and by prepare before that starts */

/* Reads both clocks at one moment; false: the thread was interrupted between the two. */
static bool read_both(struct reading *r)
{
    vs_arch_counter_fence(); /* keeps the readings of the counter on their sides of the other clock's */
    uint64_t before = vs_arch_counter();
    r->ns = vs_clock_ns();
    vs_arch_counter_fence();
    uint64_t ticks = vs_arch_counter() - before;
    r->counter = before + ticks / 2;
    return ticks < NEAR_TICKS;
}

/* Tries several times: code that has not run for a while is slow the first time. */
static bool read_both_warm(struct reading *r)
{
    for (int i = 0; i < 5; i++)
        if (read_both(r))
            return true;
    return false;
}

static void give_up(void)
{
    /* Relaxed: each word is complete by itself; existing anchors expire within their millisecond. */
    atomic_store_explicit(&given_up, true, memory_order_relaxed);
    atomic_store_explicit(&rate, 0, memory_order_relaxed);
}

static uint64_t distance(uint64_t a, uint64_t b)
{
    return a > b ? a - b : b - a;
}

/* ---- anchors ----
 *
 * The bound of 1 us: an anchor's two readings are taken within 1000 ticks, so they differ by 250 ns at most
 * at 2 GHz and usually by 20; it lives for 1 ms, in which the kernel's own limit for slewing (500 ppm) makes
 * 500 ns.  Each new anchor checks the previous one, if that is at most 8 ms old: if it is wrong by more than
 * the bound plus a thousandth of its age beyond 1 ms, the counter does not run evenly (processors out of
 * step, a virtual machine that was migrated), and the process uses clock_gettime from then on. */

/* Whether the old anchor gives the same time as NOW; true if it is too old to compare. */
static bool agrees(const volatile struct vs_event_clock *c, const struct reading *now)
{
    uint64_t ticks = now->counter - c->counter;
    if (ticks >= (c->anchor & UINT32_MAX) * CHECKED_LIVES)
        return true;
    uint64_t passed = ticks * c->rate >> 32;
    return distance(c->ns + passed, now->ns) <= VS_EVENT_CLOCK_ERROR_NS + passed / 1000;
}

/* The anchor is invalid while the other words change: a signal handler that runs now reads the real clock
 * and does not renew the anchor. */
static void make_anchor(volatile struct vs_event_clock *c, const struct reading *now, uint64_t new_rate)
{
    uint64_t number = (c->anchor >> 32) + 1;
    c->anchor = number << 32;
    c->counter = now->counter;
    c->ns = now->ns;
    c->rate = new_rate;
    c->anchor = number << 32 | (LIFE_NS << 32) / new_rate; /* at most 16 million ticks */
}

uint64_t vs_event_clock_slow(void)
{
    static __thread volatile bool busy __attribute__((tls_model("initial-exec")));
    volatile struct vs_event_clock *c = &vs_self.clock;
    uint64_t now_rate = atomic_load_explicit(&rate, memory_order_relaxed);
    struct reading now;
    /* Busy: this is a signal handler, and the interrupted code is making an anchor.  (If the handler leaves
     * by longjmp, the thread uses clock_gettime from then on.) */
    if (!now_rate || busy)
        return monotonic(vs_clock_ns());
    busy = true;
    if (!read_both(&now))
        now_rate = 0;
    else if (!agrees(c, &now))
        give_up();
    else
        make_anchor(c, &now, now_rate);
    busy = false;
    return monotonic(now.ns);
}

/* ---- the rate ----
 *
 * Measured against CLOCK_MONOTONIC, over 20 ms at first and then over a second each time, and so follows NTP.
 */

bool vs_event_clock_publish(uint64_t new_rate)
{
    uint64_t old = atomic_load_explicit(&rate, memory_order_relaxed);
    /* 2^32 / 16 to 2^32 * 16: counters of 62.5 MHz to 16 GHz, and no overflow within an anchor's life */
    if (new_rate >> 28 == 0 || new_rate >> 36 != 0 || (old && distance(new_rate, old) > old / 1000)) {
        give_up();
        return false;
    }
    atomic_store_explicit(&rate, new_rate, memory_order_relaxed);
    return true;
}

void vs_event_clock_tune(void)
{
    struct reading now;
    if (atomic_load_explicit(&given_up, memory_order_relaxed) || !read_both_warm(&now))
        return;
    if (base.counter == 0) {
        base = now;
        return;
    }
    uint64_t ns = now.ns - base.ns, ticks = now.counter - base.counter;
    if (ns < (atomic_load_explicit(&rate, memory_order_relaxed) ? BASE_NS : FIRST_BASE_NS))
        return;
    if (ticks == 0)
        give_up();
    else
        vs_event_clock_publish((uint64_t)(((unsigned __int128)ns << 32) / ticks));
    base = now;
}

/* ---- may it be used? ---- */

static bool kernel_uses_it(const char *source)
{
    static const char *const sources[] = {VS_ARCH_COUNTER_SOURCES};
    char name[32] = "";
    int fd = open(source, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? 0 : read(fd, name, sizeof name - 1);
    if (fd >= 0)
        close(fd);
    name[n > 0 ? n : 0] = 0;
    for (size_t i = 0; i < sizeof sources / sizeof *sources; i++)
        if (strcmp(name, sources[i]) == 0)
            return true;
    return false;
}

void vs_event_clock_prepare(const char *source)
{
    give_up();
    base = (struct reading){0, 0};
    if (!vs_arch_counter_is_clock() || !kernel_uses_it(source ? source : SYSFS_SOURCE))
        return;
    atomic_store_explicit(&given_up, false, memory_order_relaxed);
    vs_event_clock_tune();
}

bool vs_event_clock_fast(void)
{
    return atomic_load_explicit(&rate, memory_order_relaxed) != 0;
}

uint64_t vs_event_clock_ns(void)
{
    return vs_event_clock_of(&vs_self.clock);
}
