/*
 * suppliers.h - function pointers by which a recording calls other folders without depending on them.
 *
 * An event has a range and a call stack, and a recording has a second thread, which other folders provide.
 * preload/init.c, which puts the library together, stores their functions here.  Initially each is a
 * function that does nothing, so record works, and is tested, without any of them.
 *
 * Plain variables: they are written while the library is loaded, before there is a second thread, and never
 * again.
 */
#ifndef VS_RECORD_SUPPLIERS_H
#define VS_RECORD_SUPPLIERS_H

#include <stdint.h>

#include "trace/journal/journal.h"

struct vs_recording;

struct vs_suppliers {
    /* The range that an event on the calling thread belongs to; 0: none.  Called if the lines of hot.h do
     * not have it, after the journal exists and before the event's own slot is claimed, because the function
     * may vs_record() waiting ranges.  Any thread, also in a signal handler. */
    uint32_t (*range)(void);
    /* The interned call stack of the caller, SKIP innermost frames left out; 0: none.  As above. */
    uint32_t (*stack)(struct vs_journal *j, int skip);
    /* Likewise with Python frames only. */
    uint32_t (*python_stack)(struct vs_journal *j);
    /* The access ledger (VRAMSCOPE_ACCESS): a recording into J begins; EVENT, which makes or ends a block,
     * opens a range or ends a step, is about to be recorded; it was recorded as SEQ.  Callable as above. */
    void (*track)(struct vs_journal *j);
    void (*before)(struct vs_event *event);
    void (*after)(const struct vs_event *event, uint64_t seq);
    /* Loads libraries that taking stacks needs.  Called where loading a library is safe, before the first
     * event, and repeatedly. */
    void (*prepare)(void);
    /* Called by the drain's thread in every round. */
    void (*round)(struct vs_journal *j);
    /* The body of the second thread, with signals blocked; returns after r->look has become VS_LOOK_END. */
    void (*second_thread)(struct vs_recording *r);
    /* Makes the second thread take a last sample, and waits for it a moment.  Called on a thread of the host
     * when the process begins to end, while the driver still works. */
    void (*last_look)(struct vs_recording *r);
};
extern struct vs_suppliers vs_suppliers;

/* Loads libraries that recording will need, such as the unwinder.  To be called where loading a library is
 * safe, before the first event; repeated calls cost next to nothing. */
void vs_record_get_ready(void);

#endif
