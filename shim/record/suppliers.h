/*
 * suppliers.h - what a recording is given by others: record asks for it and does not know whom.
 *
 * An event has a range and a call stack, a recording has a second thread; other folders know how these are
 * made.  preload/init.c, which puts the library together, writes their functions here.  What nobody has
 * written is a function that does nothing, so record works, and is tested, without any of them.
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
    /* The range that an event on the calling thread belongs to; 0: none.  Asked where the lines of hot.h do
     * not say it, after the journal is there and before the event's own slot is claimed: the function may
     * vs_record() ranges that waited.  Any thread, also in a signal handler. */
    uint32_t (*range)(void);
    /* The interned call stack of the caller, SKIP innermost frames left out; 0: none.  As above. */
    uint32_t (*stack)(struct vs_journal *j, int skip);
    /* The same of Python frames alone. */
    uint32_t (*python_stack)(struct vs_journal *j);
    /* What follows the device's accesses (VRAMSCOPE_ACCESS): a recording into J begins; EVENT, which makes or
     * ends a block, opens a range or ends a step, is about to be recorded, and was recorded as SEQ.  As
     * above. */
    void (*follow)(struct vs_journal *j);
    void (*before)(struct vs_event *event);
    void (*after)(const struct vs_event *event, uint64_t seq);
    /* Loads what taking stacks needs.  Where loading a library is safe, before the first event; again and
     * again. */
    void (*prepare)(void);
    /* By the drain's thread, every round. */
    void (*round)(struct vs_journal *j);
    /* The second thread, with its signals blocked: ends after r->look has become VS_LOOK_END. */
    void (*second_thread)(struct vs_recording *r);
    /* Has the second thread look once more, and waits for that a moment.  On a thread of the host, at the
     * begin of the end of the process, while the driver still works. */
    void (*last_look)(struct vs_recording *r);
};
extern struct vs_suppliers vs_suppliers;

#endif
