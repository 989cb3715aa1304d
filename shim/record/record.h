/*
 * record.h - the recording API, which hooks, frameworks and phases call.
 *
 * The hot path.  vs_record() fills in clock, thread, phase and call stack and appends one slot to the
 * journal. It allocates nothing, takes no lock, calls no CUDA and no Python, and may run inside a
 * framework's allocator mutex or a signal handler.  Before the first event that starts a recording (see
 * vs_record) there is no file and no thread.
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
 * written once it starts: vs_record asks for the range (suppliers.h) after the journal is there and before it
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

#endif
