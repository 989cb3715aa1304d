/*
 * record.h - the recording API, which hooks, frameworks and phases call.
 *
 * vs_record() is the hot path: it allocates nothing, takes no lock, calls no CUDA and no Python, and may run
 * inside a framework's allocator mutex or a signal handler.  Before the first event that starts a recording
 * there is no file and no thread.
 */
#ifndef VS_RECORD_RECORD_H
#define VS_RECORD_RECORD_H

#include <stdbool.h>
#include <stdint.h>

#include "trace/event.h"
#include "trace/journal/journal.h"

/* Appends EVENT.  The caller fills op, space, device, context, status, address, size, arg0, arg1 (and `range`
 * for RANGE_PUSH / RANGE_POP); vs_record fills t_ns, range, for allocations stack, and thread unless it is
 * VS_THREAD_UNKNOWN (a range of another thread, written late).  Returns the ring sequence or VS_SEQ_NONE
 * (not recording, dropped).  A successful ALLOC, PHYS_CREATE, VA_RESERVE, CONTEXT_CREATE or BLOCK_ALLOC
 * starts the recording; markers before that only keep their place on the thread's stack of ranges and are
 * written once it starts: vs_record asks for the range (below) after the journal is there and before it
 * claims its own slot, and that call writes them (it calls vs_record for RANGE_PUSH and RANGE_POP, so these
 * two must nest in vs_record).  errno is kept. */
uint64_t vs_record(struct vs_event *event);

/* Whether an event would be recorded now: false while this thread runs vramscope's own code (drain thread,
 * unwinder), after an internal error has stopped the recording, and in a fork child that records nothing.
 * True before the recording has started.  Cheap: hooks check this first and jump straight to the real
 * function if it is false. */
bool vs_record_enabled(void);

/* Likewise for an event that ends nothing: false also while the window is closed. */
bool vs_record_takes(void);

/* The range that an event of the calling thread would belong to now; 0: none.  May write
 * waiting ranges. */
uint32_t vs_record_range(void);

/* Whether the calling thread is one of PyTorch's autograd threads, whose events without a range are
 * `backward`.  Not in a hot path. */
bool vs_record_thread_is_autograd(void);

/* Marks this thread as inside vramscope: hooks pass through.  Nests. */
void vs_record_enter_internal(void);
void vs_record_leave_internal(void);

/* Opens the journal and starts the drain now (idempotent).  The first event calls it by itself. */
bool vs_record_start(void);

/* NULL before the recording started or when it is off. */
struct vs_journal *vs_record_journal(void);

/* Opens or closes the record window (vramscope_record_start / _stop) and writes RECORD_START / RECORD_STOP
 * where a journal exists.  While it is closed vs_record takes only what ends something: frees, unmaps,
 * releases, failed frees and range pops, whether or not their beginning was recorded (the ledger knows).  For
 * other events it returns VS_SEQ_NONE, as before the recording has started; while the window is closed no
 * recording starts. */
void vs_record_window(bool open);

/* Sets which driver it is (the simulated one has functions of that name beside CUDA's): an enum vs_driver. */
void vs_record_simulated(int driver);

/* Called at the exit before the last drain, by the thread that exits; it must not wait. */
extern void (*vs_record_at_exit)(void);

/* The last look and the last drain, in a process that ends without its exit handlers. */
void vs_record_complete(void);

/* ---- what other folders supply (suppliers.c) ----
 *
 * An event has a range and a call stack, and a recording has a second thread, by functions of folders that
 * this one does not depend on.  preload/init.c stores them here; before, each does nothing, so record works,
 * and is tested, without any of them.  Plain variables: written while the library is loaded, before there is
 * a second thread, and never again. */

struct vs_recording;
struct vs_control_request;
struct vs_control_block;
struct vs_control_answer;

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
    /* Carries out a request of another process (trace/control.h) about these COUNT blocks, where it names
     * roles.  Called on a thread for this one request, which may wait. */
    void (*control)(const struct vs_control_request *request, const struct vs_control_block *blocks,
                    size_t count, struct vs_control_answer *answer);
};
extern struct vs_suppliers vs_suppliers;

/* Loads libraries that recording will need, such as the unwinder.  To be called where loading a library is
 * safe, before the first event; repeated calls cost next to nothing. */
void vs_record_get_ready(void);

#endif
