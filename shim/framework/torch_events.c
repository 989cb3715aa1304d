/*
 * torch_events.c - which freed blocks PyTorch's allocator keeps until other streams are done with them, and
 * when they are.
 *
 * A block that other streams use (record_stream) does not become free when it is freed.  The allocator
 * records a CUDA event on each of these streams, and reports the free; at later requests it queries the
 * events, and the block is free when all of them are over.  The runtime's functions for that, as
 * libc10_cuda.so finds them, are ours:
 *
 *      free:    cudaEventRecord(a), cudaEventRecord(b), report(-size)      BLOCK_FREE, DEFERRED a, DEFERRED b
 *      malloc:  cudaEventQuery(a) = success, ..., report(size)             EVENT_DONE a, ..., BLOCK_ALLOC
 */
#include "torch.h"

#include <stdatomic.h>
#include <string.h>

#include "core/contracts.h"
#include "core/hot.h"
#include "record/record.h"

#define EVENTS_MOST 16 /* streams that use one block */
#define WAITED_MOST 8192
#define WINDOW      16 /* words that an event can be in */

typedef int record_fn(void *event, void *stream);
typedef int event_fn(void *event);
typedef int wait_fn(void *stream, void *event, unsigned flags);

size_t (*vs_torch_rebind)(const void *inside, const char *const *names, void *const *ours, void **const *real,
                          size_t n);

static struct {
    record_fn *record;
    event_fn *query, *synchronize, *destroy;
    wait_fn *wait;
} real;
static _Atomic bool
    complete; /* all of these are called by way of us; relaxed: of one thread before any report */

static __thread uint64_t recorded[EVENTS_MOST]; /* vs_self.events of them */

/* ---- what is recorded ---- */

/* If there are too many the first goes: the allocator's are the last before its report. */
static int event_record(void *event, void *stream)
{
    int status = real.record(event, stream);
    if (status != 0)
        return status;
    if (vs_self.events == EVENTS_MOST)
        memmove(recorded, recorded + 1, --vs_self.events * sizeof *recorded);
    recorded[vs_self.events++] = (uintptr_t)event;
    return status;
}

/* EVENT is not the allocator's, as libc10_cuda.so makes a stream wait for it, or destroys it.  What remains
 * is decided by the reader, who knows what came after (read/tape.c): no block waits for an event when its
 * memory is handed out again. */
static void forget(const void *event)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < vs_self.events; i++)
        if (recorded[i] != (uintptr_t)event)
            recorded[kept++] = recorded[i];
    vs_self.events = kept;
}

static int event_wait(void *stream, void *event, unsigned flags)
{
    forget(event);
    return real.wait(stream, event, flags);
}

static int event_destroy(void *event)
{
    forget(event);
    return real.destroy(event);
}

/* ---- what is waited for ---- */

/* Events that freed blocks wait for, each somewhere in the window that begins at its hash.  Relaxed: an event
 * is put in and taken out under the allocator's mutex of its device. */
static _Atomic uint64_t waited[WAITED_MOST];
static _Atomic bool too_many; /* not all found room: every one that is over may be one of them */

static _Atomic uint64_t *place_of(uint64_t event, size_t i)
{
    return &waited[((event * UINT64_C(0x9E3779B97F4A7C15) >> 48) + i) % WAITED_MOST];
}

/* Puts INSTEAD in the place of WHAT in EVENT's window; false: WHAT is not there. */
static bool replace(uint64_t event, uint64_t what, uint64_t instead)
{
    for (size_t i = 0; i < WINDOW; i++) {
        uint64_t there = what;
        if (atomic_load_explicit(place_of(event, i), memory_order_relaxed) == what &&
            atomic_compare_exchange_strong_explicit(place_of(event, i), &there, instead, memory_order_relaxed,
                                                    memory_order_relaxed))
            return true;
    }
    return false;
}

static void wait_for(uint64_t event)
{
    if (!replace(event, event, event) && !replace(event, 0, event))
        atomic_store_explicit(&too_many, true, memory_order_relaxed);
}

/* ---- what is over ---- */

/* Of events that no freed block waits for (torch.Event) none is recorded: a program may query its own a
 * million times. */
static int done(void *event, int status)
{
    struct vs_event over = {.op = VS_OP_EVENT_DONE, .device = VS_DEVICE_UNKNOWN, .address = (uintptr_t)event};
    if (status != 0)
        return status;
    bool is_waited = replace(over.address, over.address, 0);
    if ((is_waited || atomic_load_explicit(&too_many, memory_order_relaxed)) && vs_record_enabled())
        vs_record(&over);
    return status;
}

static int event_query(void *event)
{
    return done(event, real.query(event));
}

static int event_synchronize(void *event)
{
    return done(event, real.synchronize(event));
}

/* ---- reports ---- */

void vs_torch_events_report(bool is_free, uint64_t block, int8_t device)
{
    uint32_t n = vs_self.events;
    vs_self.events = 0;
    if (n != 0 && !atomic_load_explicit(&complete, memory_order_relaxed))
        return;
    for (uint32_t i = 0; is_free && i < n; i++) {
        struct vs_event event = {.op = VS_OP_BLOCK_DEFERRED,
                                 .space = VS_SPACE_DEVICE,
                                 .device = device,
                                 .address = block,
                                 .arg0 = recorded[i]};
        wait_for(recorded[i]);
        if (vs_record_enabled())
            vs_record(&event);
    }
}

/* Where not all five functions are called through slots of libc10_cuda's (a runtime that is linked into it,
 * other functions) nothing is recorded: a wait whose end is not seen would be one for ever. */
void vs_torch_events_watch(const void *caller)
{
    enum { FUNCTIONS = 5 };
    static const char *const names[FUNCTIONS] = {"cudaEventRecord", "cudaEventQuery", "cudaEventSynchronize",
                                                 "cudaEventDestroy", "cudaStreamWaitEvent"};
    static void *const ours[FUNCTIONS] = {(void *)event_record, (void *)event_query,
                                          (void *)event_synchronize, (void *)event_destroy,
                                          (void *)event_wait};
    static void **const functions[FUNCTIONS] = {(void **)&real.record, (void **)&real.query,
                                                (void **)&real.synchronize, (void **)&real.destroy,
                                                (void **)&real.wait};
    size_t slots = vs_torch_rebind ? vs_torch_rebind(caller, names, ours, functions, FUNCTIONS) : 0,
           found = 0;
    for (size_t i = 0; i < FUNCTIONS; i++)
        found += *functions[i] != NULL;
    atomic_store_explicit(&complete, found == FUNCTIONS && slots >= FUNCTIONS, memory_order_relaxed);
    if (found == FUNCTIONS && slots >= FUNCTIONS)
        vs_contract_proven(VS_CONTRACT_GOT_REBIND, "its calls to %d functions of CUDA events are seen",
                           FUNCTIONS);
    else if (vs_torch_rebind)
        vs_contract_broken(VS_CONTRACT_GOT_REBIND, "its calls to %zu of %d functions of CUDA events are seen",
                           found < slots ? found : slots, FUNCTIONS);
}
