/*
 * pending.h - pushes and pops that could not be written yet.
 *
 * A range may open before the recording has started, while the record window is closed, or while the ring is
 * full.  Its push waits here and is written, in the order of the pushes, by the first thread that can write
 * to the ring.  A pop that finds its push still waiting takes it out again: neither is ever written.
 *
 * Thread-safety: any thread, any signal handler; no lock, no malloc.
 */
#ifndef VS_FRAMEWORK_PENDING_H
#define VS_FRAMEWORK_PENDING_H

#include <stdbool.h>
#include <stdint.h>

#include "ranges.h"
#include "core/hot.h"

struct vs_range_event {
    uint8_t op;          /* VS_OP_RANGE_PUSH or _POP */
    uint32_t id, parent; /* parent of a push */
    uint32_t flags;      /* arg1 of a push */
    struct vs_range_names names;
    const void *owner; /* the thread that it happened on, as vs_range_self gives it */
};

/* A value that differs between all threads that live at the same time. */
const void *vs_range_self(void);

/* Takes a waiting event back; true: it will never be written. */
bool vs_pending_cancel(uint64_t ticket);
/* Likewise by range id, for ranges that are on no thread's stack. */
bool vs_pending_cancel_id(uint32_t id);

/* How many events wait. */
static inline uint32_t vs_pending_count(void)
{
    return (uint32_t)(atomic_load_explicit(&vs_hot.careful, memory_order_relaxed) >> VS_CAREFUL_PENDING);
}

/* Writes the waiting events, as far as that is possible now. */
void vs_pending_flush_slow(void);
static inline void vs_pending_flush(void)
{
    /* Relaxed: after a stale 0 the next event flushes; a thread always sees its own changes. */
    if (__builtin_expect(vs_pending_count() != 0, 0))
        vs_pending_flush_slow();
}

/* Writes EVENT into the ring; true: it succeeded.  FOREIGN: the calling thread writes it for another. */
static inline bool vs_range_event_write(const struct vs_range_event *e, bool foreign)
{
    struct vs_journal *j = vs_record_journal();
    struct vs_event event = {.op = e->op, .range = e->id, .device = VS_DEVICE_UNKNOWN};

    if (!j)
        return false;
    if (foreign)
        event.thread = VS_THREAD_UNKNOWN;
    if (e->op == VS_OP_RANGE_PUSH) {
        const struct vs_range_names *n = &e->names;
        struct vs_name *phase = NULL;

        if (n->name && (e->flags & VS_RANGE_NAMES_PHASE) &&
            (e->flags & VS_RANGE_SOURCE_MASK) == VS_SOURCE_NVTX)
            phase = vs_name_phase(n->name);
        if (n->name)
            event.address = vs_name_id(n->name);
        else
            event.address = n->text ? vs_journal_string(j, n->text, n->length) : 0;
        event.size = n->domain ? vs_name_id(n->domain) : 0;
        event.stack = phase && phase != n->name ? vs_name_id(phase) : 0;
        event.arg0 = e->parent;
        event.arg1 = e->flags;
    }
    return vs_record(&event) != VS_SEQ_NONE;
}

uint64_t vs_pending_keep(const struct vs_range_event *event);

/* Writes EVENT of the calling thread now, or keeps it.  Returns a ticket with which to take it back; 0: it
 * is written (or can't be kept).  Inline, so that the usual case fills the event from registers. */
static inline uint64_t vs_pending_write(const struct vs_range_event *event)
{
    vs_pending_flush();
    /* Waiting events are older and are recorded first, unless another thread is doing that. */
    if (__builtin_expect(vs_pending_count() == 0, 1) && vs_range_event_write(event, false))
        return 0;
    return vs_pending_keep(event);
}

/* In a fork child: drops the waiting events, all of which are the parent's. */
void vs_pending_forget(void);

#endif
