/*
 * record.c - the hot path: writes a hook's event into a slot of the journal.
 *
 * Thread-local state is one line of initial-exec TLS (core/hot.h): no call, no allocation, good in signal
 * handlers.  An event of a signal handler that interrupts vs_record on the same thread is safe: each append
 * claims, fills and publishes a slot of its own, and the unwinder guards itself against recursion.
 */
#define _GNU_SOURCE
#include "record.h"

#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "block.h"
#include "core/clock.h"
#include "core/hot.h"
#include "core/options.h"
#include "core/fork.h"
#include "recording.h"
#include "core/own_work.h"
#include "trace/journal/claim.h"

#define START_WAIT_S 2

extern int __cxa_atexit(void (*function)(void *), void *argument, void *dso);

/* ---- what is special about an event, by its op ---- */

enum {
    STARTS = 1,       /* begins a recording when it succeeded */
    DRIVER_STACK = 2, /* call stack with VRAMSCOPE_STACKS=driver, python and all */
    BLOCK_STACK = 4,  /* ... =python and all */
    OWN_RANGE = 8,    /* the caller sets its range */
    ENDS = 16,        /* ends something: recorded also while the window is closed */
    RSS = 32,         /* gets the host's memory in arg1 */
    TRACKED = 64,     /* makes a block, ends one of the driver's, opens a range: with VRAMSCOPE_ACCESS */
};

static const uint8_t traits[256] = {
    [VS_OP_ALLOC] = STARTS | DRIVER_STACK | TRACKED,
    [VS_OP_PHYS_CREATE] = STARTS | DRIVER_STACK,
    [VS_OP_VA_RESERVE] = STARTS | DRIVER_STACK,
    [VS_OP_GRAPH_NODE] = DRIVER_STACK,
    [VS_OP_CONTEXT_CREATE] = STARTS | DRIVER_STACK,
    [VS_OP_MODULE_LOAD] = DRIVER_STACK,
    [VS_OP_LIMIT] = DRIVER_STACK,
    [VS_OP_BLOCK_ALLOC] = STARTS | BLOCK_STACK | TRACKED,
    [VS_OP_ARENA_RESERVED] = STARTS,
    [VS_OP_ARENA_FIGURES] = OWN_RANGE,
    [VS_OP_BLOCK_OOM] = DRIVER_STACK,
    [VS_OP_BLOCK_SHARED] = BLOCK_STACK,
    [VS_OP_FREE] = ENDS | TRACKED,
    [VS_OP_FREE_FAILED] = ENDS,
    [VS_OP_PHYS_RELEASE] = ENDS,
    [VS_OP_UNMAP] = ENDS,
    [VS_OP_VA_FREE] = ENDS,
    [VS_OP_UNBIND] = ENDS,
    [VS_OP_CONTEXT_DESTROY] = ENDS,
    [VS_OP_MODULE_UNLOAD] = ENDS,
    [VS_OP_BLOCK_FREE] = ENDS,
    [VS_OP_BLOCK_AWAY] = ENDS, /* it may be back */
    [VS_OP_RANGE_PUSH] = OWN_RANGE | TRACKED,
    [VS_OP_RANGE_POP] = OWN_RANGE | ENDS,
    [VS_OP_RECORD_START] = ENDS,
    [VS_OP_RECORD_STOP] = ENDS,
    [VS_OP_SAMPLE] = RSS,
};

/* ---- state ---- */

static struct vs_recording not_prepared;
VS_HOT struct vs_recording *_Atomic vs_recording = &not_prepared;

/* Addresses of the last started recording's lines, which are prefetched while the first pointer is still
 * being loaded (hot.h).  They are never dereferenced, because a fork child has its parent's.  While nothing
 * is recorded they point to valid memory, because prefetching an unmapped address costs a walk through the
 * page tables each time.  (Reports of blocks have all this in vs_hot: block.h.) */
static VS_HOT const void *_Atomic ahead_journal = &not_prepared, *_Atomic ahead_head = &not_prepared;

/* Not on the wiped mapping: a fork child keeps its parent's window, and continues its count of
 * generations. */
static _Atomic bool window_opened;
static VS_HOT _Atomic bool window_closed;
static _Atomic uint32_t generations;

static void wipe_in_child(void)
{
    struct vs_recording *r = vs_recording;
    memset((void *)r, 0, sizeof *r);
}

bool vs_recording_prepare(void)
{
    if (vs_recording != &not_prepared)
        return true;
    int kept = errno;
    vs_hot_prepare();
    size_t bytes = (sizeof(struct vs_recording) + 4095) & ~(size_t)4095;
    void *m = vs_fork_wiped_memory(bytes, wipe_in_child);
    if (m == NULL)
        return false;
    struct vs_recording *expected = &not_prepared;
    /* Two threads came at once; the later one's mapping is removed. */
    if (!atomic_compare_exchange_strong(&vs_recording, &expected, m))
        munmap(m, bytes);
    errno = kept;
    return true;
}

static bool window_is_closed(void)
{
    if (unlikely_(!vs_options.enabled) && !atomic_load_explicit(&window_opened, memory_order_relaxed))
        return true;
    return unlikely_(atomic_load_explicit(&window_closed, memory_order_relaxed));
}

/* ---- threads ---- */

/* Runs twice if a signal handler records in between, which makes two rows of one thread and is harmless. */
static __attribute__((noinline)) uint16_t new_thread(struct vs_journal *j, uint32_t generation)
{
    char name[17] = "";
    int kept = errno;
    /* Writes a fork child's open ranges (through vs_record) before vs_self.generation marks the thread as
     * known.
     */
    vs_suppliers.range();
    if (vs_self.generation == generation)
        return vs_self.id;
    prctl(PR_GET_NAME, name);
    uint32_t flags = strncmp(name, "pt_autograd_", 12) == 0 ? VS_THREAD_AUTOGRAD : 0;
    uint16_t id = vs_journal_thread(j, (uint32_t)syscall(SYS_gettid), flags, name);
    vs_self.id = id;
    atomic_signal_fence(memory_order_release); /* id before generation, for our own signal handlers */
    vs_self.generation = generation;
    errno = kept;
    return id;
}

uint16_t vs_record_thread_id(struct vs_journal *j, uint32_t generation)
{
    return likely_(vs_self.generation == generation) ? vs_self.id : new_thread(j, generation);
}

void vs_record_enter_internal(void)
{
    vs_self.internal++;
}

void vs_record_leave_internal(void)
{
    vs_self.internal--;
}

bool vs_record_enabled(void)
{
    return vs_self.internal == 0 &&
           atomic_load_explicit(&vs_recording->state, memory_order_relaxed) != VS_RECORDING_OFF;
}

bool vs_record_takes(void)
{
    return vs_record_enabled() && !window_is_closed();
}

/* ---- starting ---- */

void vs_record_await_start(struct vs_recording *r)
{
    uint64_t until = vs_clock_ns() + START_WAIT_S * UINT64_C(1000000000);
    struct timespec step = {0, 50000000};
    while (atomic_load_explicit(&r->state, memory_order_acquire) == VS_RECORDING_STARTING &&
           vs_clock_ns() < until)
        syscall(SYS_futex, &r->state, FUTEX_WAIT_PRIVATE, VS_RECORDING_STARTING, &step, NULL, 0);
}

void (*vs_record_at_exit)(void);

static void before_the_end(void *unused)
{
    vs_control_end(vs_recording);
    if (vs_record_at_exit)
        vs_record_at_exit();
    vs_suppliers.last_look(vs_recording);
}

void vs_record_complete(void)
{
    before_the_end(NULL);
    vs_drain_finish();
}

/* Registered now, it runs before the handlers of libraries that were there earlier, among them the driver. */
static void arrange_last_look(void)
{
    static _Atomic bool arranged; /* fork children inherit the handler */
    if (!atomic_exchange_explicit(&arranged, true, memory_order_relaxed))
        __cxa_atexit(before_the_end, NULL, NULL);
}

struct beginning {
    struct vs_recording *r;
    struct vs_journal *j; /* out */
    const sigset_t *host_signals;
};

static void begin(void *argument)
{
    struct beginning *b = argument;
    b->j = vs_start(b->r);
    if (!b->j)
        return;
    vs_drain_start(b->r, b->j, b->host_signals);
    arrange_last_look();
}

void vs_record_into(const struct vs_journal *j)
{
    const void *nothing = &not_prepared;
    /* Relaxed: these are hints. */
    atomic_store_explicit(&ahead_journal, j ? j : nothing, memory_order_relaxed);
    atomic_store_explicit(&ahead_head, j ? vs_journal_head_line(j) : nothing, memory_order_relaxed);
    if (!j) {
        atomic_store_explicit(&vs_hot.ring_header, NULL, memory_order_relaxed);
        atomic_store_explicit(&vs_hot.access, 0, memory_order_relaxed);
        return;
    }
    struct vs_ring ring = vs_journal_ring(j);
    vs_hot.ring_slot = ring.slot;
    vs_hot.ring_mask = (uint32_t)ring.mask;
    vs_hot.journal = (struct vs_journal *)(uintptr_t)j;
    atomic_store_explicit(&vs_hot.access,
                          atomic_load_explicit(&vs_hot.careful, memory_order_relaxed) & VS_CAREFUL_ACCESS,
                          memory_order_relaxed);
    /* Release: a thread that sees the header sees the rest of the line. */
    atomic_store_explicit(&vs_hot.ring_header, ring.header, memory_order_release);
}

/* Sets or clears a reason to take the general way. */
static void careful(uint64_t reason, bool is)
{
    if (is)
        atomic_fetch_or_explicit(&vs_hot.careful, reason, memory_order_relaxed);
    else
        atomic_fetch_and_explicit(&vs_hot.careful, ~reason, memory_order_relaxed);
}

/* Prepares the values that the hot path reads. */
static void get_ready(struct vs_recording *r, struct vs_journal *j)
{
    static const uint32_t by_option[] = {0, DRIVER_STACK, DRIVER_STACK | BLOCK_STACK,
                                         DRIVER_STACK | BLOCK_STACK};
    r->stack_traits = by_option[vs_options.stacks];
    r->python_traits = vs_options.stacks == VS_STACKS_PYTHON ? BLOCK_STACK : 0;
    atomic_store_explicit(&vs_hot.generation, atomic_load_explicit(&r->generation, memory_order_relaxed),
                          memory_order_relaxed);
    if (vs_options.access) {
        vs_suppliers.track(j);
        r->tracked_traits = TRACKED;
    }
    careful(VS_CAREFUL_ACCESS, vs_options.access);
    careful(VS_CAREFUL_STACKS, r->stack_traits & ~r->python_traits & BLOCK_STACK);
    careful(VS_CAREFUL_PYTHON, r->python_traits);
    careful(VS_CAREFUL_BIRTHS, r->stack_traits & BLOCK_STACK);
    if (atomic_load_explicit(&window_closed, memory_order_relaxed))
        careful(VS_CAREFUL_WINDOW,
                true); /* a fork child's line was wiped; at worst it stays on the general way */
    vs_record_into(j);
}

static void start(struct vs_recording *r)
{
    struct vs_signal_mask mask; /* if this thread were cancelled here the others would wait for ever */
    vs_guard_install();         /* first, because our threads inherit this thread's signal mask */
    vs_signal_mask_block(&mask);
    vs_record_enter_internal();
    struct beginning b = {.r = r, .host_signals = &mask.signals};
    vs_on_own_stack(begin, &b);
    struct vs_journal *j = b.j;
    if (j)
        get_ready(r, j);
    /* Release: a thread that sees the journal sees everything written to it and to *r. */
    atomic_store_explicit(&r->journal, j, memory_order_release);
    atomic_store_explicit(&r->state, j ? VS_RECORDING_ON : VS_RECORDING_OFF, memory_order_release);
    syscall(SYS_futex, &r->state, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
    vs_record_leave_internal();
    vs_signal_mask_restore(&mask);
}

bool vs_record_start(void)
{
    uint32_t none = VS_RECORDING_NONE;
    if (vs_self.internal || window_is_closed())
        return false;
    int kept = errno;
    if (!vs_recording_prepare())
        return false;
    struct vs_recording *r = vs_recording;
    if (atomic_compare_exchange_strong_explicit(&r->state, &none, VS_RECORDING_STARTING, memory_order_acq_rel,
                                                memory_order_acquire)) {
        uint32_t g = atomic_fetch_add_explicit(&generations, 1, memory_order_relaxed) + 1;
        atomic_store_explicit(&r->generation, g, memory_order_relaxed);
        start(r);
    } else {
        vs_record_await_start(r);
    }
    errno = kept;
    return atomic_load_explicit(&r->state, memory_order_acquire) == VS_RECORDING_ON;
}

void vs_record_get_ready(void)
{
    vs_suppliers.prepare();
}

struct vs_journal *vs_record_journal(void)
{
    return atomic_load_explicit(&vs_recording->journal, memory_order_acquire);
}

/* No journal: either EVENT starts the recording, or it is not recorded. */
static __attribute__((noinline)) struct vs_journal *journal_for(const struct vs_event *event)
{
    uint32_t state = atomic_load_explicit(&vs_recording->state, memory_order_acquire);
    bool starts = (traits[event->op] & STARTS) && !vs_event_failed(event);
    if (state == VS_RECORDING_OFF || (state == VS_RECORDING_NONE && !starts))
        return NULL;
    return vs_record_start() ? vs_record_journal() : NULL;
}

/* ---- the hot path ---- */

static inline void fetch_ahead(void)
{
    const char *head = atomic_load_explicit(&ahead_head, memory_order_relaxed);
    vs_fetch(atomic_load_explicit(&ahead_journal, memory_order_relaxed));
    vs_fetch_to_write(head);
}

/* For nearly all events the range is in the thread's or the process's line; otherwise it is looked up. */
static inline uint32_t range_now(void)
{
    uint32_t range = vs_record_block_range(&vs_self);
    uint64_t waiting = atomic_load_explicit(&vs_hot.careful, memory_order_relaxed) >> VS_CAREFUL_PENDING;
    return unlikely_(range == VS_RANGE_UNKNOWN || waiting != 0) ? vs_suppliers.range() : range;
}

uint32_t vs_record_range(void)
{
    return range_now();
}

bool vs_record_thread_is_autograd(void)
{
    struct vs_journal *j = vs_record_journal();
    if (j == NULL)
        return false;
    const struct vs_thread_row *row = vs_journal_get_thread(
        j, vs_record_thread_id(j, atomic_load_explicit(&vs_recording->generation, memory_order_relaxed)));
    return row != NULL && (row->flags & VS_THREAD_AUTOGRAD);
}

static uint32_t stack_of(const struct vs_recording *r, struct vs_journal *j, unsigned t)
{
    return t & r->python_traits ? vs_suppliers.python_stack(j) : vs_suppliers.stack(j, 0);
}

VS_HOT_CODE uint64_t vs_record(struct vs_event *event)
{
    fetch_ahead();
    if (unlikely_(vs_self.internal))
        return VS_SEQ_NONE;
    /* Acquire, pairs with start(): a journal that is seen is complete. */
    struct vs_journal *j = atomic_load_explicit(&vs_recording->journal, memory_order_acquire);
    if (unlikely_(!j) && !(j = journal_for(event)))
        return VS_SEQ_NONE;
    unsigned t = traits[event->op];
    /* There is a journal, so the window was open once; only check whether it is closed now. */
    if (unlikely_(atomic_load_explicit(&window_closed, memory_order_relaxed)) && !(t & ENDS))
        return VS_SEQ_NONE;
    struct vs_recording *r = vs_recording;
    if (event->thread != VS_THREAD_UNKNOWN)
        event->thread = vs_record_thread_id(j, atomic_load_explicit(&r->generation, memory_order_relaxed));
    if (!(t & OWN_RANGE)) {
        event->range = range_now(); /* before our slot is claimed: it may record waiting ranges */
        if (unlikely_(t & r->stack_traits))
            event->stack = stack_of(r, j, t);
    }
    if (unlikely_(t & RSS) && event->arg1 == 0)
        event->arg1 = atomic_load_explicit(&r->host_rss, memory_order_relaxed);
    unsigned tracked = t & r->tracked_traits;
    if (unlikely_(tracked))
        vs_suppliers.before(event);
    event->t_ns = vs_event_clock_of(&vs_self.clock);
    uint64_t seq = vs_journal_append(j, event);
    if (unlikely_(tracked))
        vs_suppliers.after(event, seq);
    if (unlikely_((seq & atomic_load_explicit(&vs_hot.nudge_mask, memory_order_relaxed)) == 0))
        vs_drain_nudge(r);
    return seq;
}

__attribute__((noinline, cold)) void vs_record_block_rest(struct vs_journal_header *header, uint64_t seq,
                                                          bool published)
{
    /* A pause clears the header; the other two are never cleared. */
    struct vs_ring ring = {header, vs_hot.ring_slot, vs_hot.ring_mask};
    if (!published)
        vs_ring_publish_doubtful(&ring, seq);
    if ((seq & atomic_load_explicit(&vs_hot.nudge_mask, memory_order_relaxed)) == 0)
        vs_drain_nudge(vs_recording);
}

__attribute__((noinline, cold)) void vs_record_uses_nudge(void)
{
    vs_drain_nudge(vs_recording);
}

/* ---- window, simulated ---- */

void vs_record_window(bool open)
{
    struct vs_event event = {.op = open ? VS_OP_RECORD_START : VS_OP_RECORD_STOP,
                             .device = VS_DEVICE_UNKNOWN};
    bool was_closed = window_is_closed();
    atomic_store_explicit(&window_closed, !open, memory_order_relaxed);
    careful(VS_CAREFUL_WINDOW, !open);
    if (open)
        atomic_store_explicit(&window_opened, true, memory_order_relaxed);
    if (was_closed == open && vs_record_journal())
        vs_record(&event);
}

void vs_record_simulated(int driver)
{
    struct vs_recording *r = vs_recording;
    struct vs_journal *j = vs_record_journal();
    uint32_t word = (uint32_t)driver + 1;
    char text[] = {(char)('0' + driver), 0};
    if (j && atomic_exchange_explicit(&r->simulated, word, memory_order_relaxed) != word)
        vs_journal_set_fact(j, "simulated", text);
}
