/*
 * away.c - see away.h: carries out requests, one at a time, and says who waits meanwhile.
 */
#define _GNU_SOURCE
#include "away.h"

#include <pthread.h>

#include "core/clock.h"
#include "core/fork.h"
#include "core/log.h"
#include "core/options.h"
#include "gate.h"
#include "hooks/driver.h"
#include "hooks/given.h"
#include "park.h"
#include "spill.h"
#include "suspend.h"

#define PATIENT_NS 5000000000ull /* that a program's thread waits for memory before it is said */
#define LEAVING_NS 1000000000ull /* that one waits which ends the process */

/* Held by who moves, for as long as he does; guards what is suspended. */
static struct vs_lock moving = VS_LOCK(MOVING);

/* In a fork's child CUDA does not work, and nothing is brought back. */
static bool is_ours(void)
{
    return atomic_load_explicit(&vs_suspended.owner, memory_order_relaxed) == vs_fork_number();
}

/* ---- the end of the process ----
 *
 * Exit handlers may need what is suspended: it comes back for them if it can, and otherwise their calls fail
 * as they do once the driver has ended.  Other threads wait on, and are soon gone; where they are not, a
 * handler may be waiting for them, and they get the same.  A handler of ours is registered with a suspension,
 * so that it runs before those of the program that were there. */

extern int __cxa_atexit(void (*function)(void *), void *argument, void *dso);
extern void __cxa_finalize(void *dso);

static _Atomic bool registered;     /* its address names our handler, too */
static _Atomic uint64_t leaving_ns; /* since when the process ends; 0: it does not */
static _Atomic bool lost;           /* what is suspended did not come back then */
static __thread bool leaves __attribute__((tls_model("initial-exec"))); /* this thread ends the process */

static bool is_held(void)
{
    return vs_suspended_some() && atomic_load_explicit(&vs_suspended.held, memory_order_relaxed);
}

/* Taking the handler off calls it as well. */
static void note_exit(void *unused)
{
    if (!atomic_load(&registered))
        return;
    leaves = true;
    atomic_store(&leaving_ns, vs_clock_ns());
}

static void watch_exit(void)
{
    bool some = vs_suspended_some();
    if (some == atomic_load(&registered))
        return;
    atomic_store(&registered, some);
    if (!some)
        __cxa_finalize(&registered);
    else if (__cxa_atexit(note_exit, NULL, &registered) != 0)
        atomic_store(&registered, false);
}

/* Whether what the calling thread needs comes back now or never. */
static bool is_last_chance(void)
{
    uint64_t since = atomic_load(&leaving_ns);
    return leaves || (since != 0 && vs_clock_ns() - since > LEAVING_NS);
}

/* ---- requests ---- */

static void carry_out(const struct vs_control_request *request, const struct vs_control_block *blocks,
                      size_t count, bool until_resume, struct vs_control_answer *answer)
{
    if (request->kind == VS_CONTROL_SUSPEND)
        vs_suspend(request, blocks, count, until_resume, answer);
    else if (request->kind == VS_CONTROL_RESUME)
        vs_resume(request->timeout_ns, until_resume, answer);
    else
        vs_refuse(answer, VS_CONTROL_REFUSED, "this vramscope knows no request %u", request->kind);
}

void vs_away_carry_out(const struct vs_control_request *request, const struct vs_control_block *blocks,
                       size_t count, bool until_resume, struct vs_control_answer *answer)
{
    int cancel;
    *answer = (struct vs_control_answer){.status = VS_CONTROL_DONE};
    if (!vs_served_in()) {
        vs_refuse(answer, VS_CONTROL_REFUSED,
                  "this is a child of fork, or a call inside the driver: nothing can move");
        return;
    }
    vs_served_out();
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    vs_lock_take(&moving);
    carry_out(request, blocks, count, until_resume, answer);
    watch_exit();
    vs_lock_give(&moving);
    pthread_setcancelstate(cancel, NULL);
}
/* ---- who needs what is away ---- */

static __thread CUstream stream_now __attribute__((tls_model("initial-exec")));

void vs_away_on(CUstream stream)
{
    stream_now = stream;
    if (vs_park_is_on())
        vs_park_next();
}

bool vs_away_lacks(void)
{
    return vs_park_lacks();
}

bool vs_away_work(CUstream stream)
{
    bool suspended = vs_suspended_some(), watched = vs_park_is_on();
    vs_away_on(stream);
    if (!suspended && watched)
        vs_park_work(stream);
    return suspended || watched;
}

/* A graph's work, captured or made by nodes, is looked at when it is launched; what is parked is mapped
 * meanwhile. */
static bool is_for_later(CUstream stream)
{
    return stream == VS_PARK_NO_WORK || (stream != VS_PARK_NO_STREAM && vs_given_captured(stream));
}

bool vs_away_touches(uint64_t address, uint64_t size)
{
    if (vs_suspended_some())
        return vs_pieces_touch(&vs_suspended.pieces, address, size);
    if (vs_park_is_on() && !is_for_later(stream_now))
        vs_park_given(stream_now, address, size);
    return false;
}

static _Atomic bool unrecorded; /* some block may have been born while nothing was recorded */

/* The ledger knows no page of a block that was born then. */
static bool may_be_blocks(uint64_t address)
{
    return vs_pages_may(address) || vs_watched_near(address) ||
           (atomic_load_explicit(&unrecorded, memory_order_relaxed) && address >> VS_PAGES_BITS != 0 &&
            address >> VS_PAGES_END_BITS == 0);
}

bool vs_away_stores(uint64_t address)
{
    if (!may_be_blocks(address))
        return false;
    if (!is_for_later(stream_now))
        vs_park_stored(address);
    return vs_away_touches(address, 0);
}

bool vs_away_unknown(void)
{
    if (vs_suspended_some())
        return true;
    if (vs_park_is_on() && !is_for_later(stream_now))
        vs_park_unknown(stream_now);
    return false;
}

/* Operands are looked at from now on. */
static void look_from_now(void)
{
    int cancel;
    if (atomic_load(&vs_gate) != VS_GATE_OPEN)
        return;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    vs_lock_take(&moving);
    if (atomic_load(&vs_gate) == VS_GATE_OPEN)
        vs_gate_set(VS_GATE_CHECKED);
    vs_lock_give(&moving);
    pthread_setcancelstate(cancel, NULL);
}

void vs_away_told(const uint64_t *addresses, size_t count, unsigned role)
{
    vs_park_told(addresses, count, role);
    if (vs_park_is_on())
        look_from_now();
}

static bool has_driver_ended(void)
{
    CUcontext context;
    return vs_drv_cuCtxGetCurrent(&context) == CUDA_ERROR_DEINITIALIZED;
}

/* LAST: now or never. */
static void bring_back(bool last)
{
    struct vs_control_answer answer = {.status = VS_CONTROL_DONE};
    if (last && has_driver_ended()) {
        atomic_store(&lost, true);
        return;
    }
    vs_lock_take(&moving);
    if (vs_suspended_some() && (last ? !atomic_load(&lost) : !is_held())) {
        vs_resume(last ? LEAVING_NS : PATIENT_NS, last, &answer);
        if (answer.status != VS_CONTROL_DONE && !vs_suspended.waiting_said)
            vs_log("work needs what is suspended, and %s: %s", last ? "fails, as the process ends" : "waits",
                   answer.text);
        vs_suspended.waiting_said = answer.status != VS_CONTROL_DONE;
        atomic_store(&lost, last && answer.status != VS_CONTROL_DONE);
    }
    vs_lock_give(&moving);
}

bool vs_away_needed(void)
{
    int cancel;
    uint32_t turn =
        vs_gate_turn(); /* before the look: a resume that ends in between has set the gate since */
    if (!is_ours())
        return true;
    bool last = vs_suspended_some() && is_last_chance();
    if (is_held() && !last) {
        vs_gate_wait_turn(turn);
        return true;
    }
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    bring_back(last);
    pthread_setcancelstate(cancel, NULL);
    return !last || !atomic_load(&lost);
}

void vs_away_ask(uint64_t address)
{
    bool entered = vs_gate_enter(), needed = true;
    while (!entered) {
        enum vs_gate_state seen = vs_gate_enter_anyway();
        bool away = needed && seen == VS_GATE_CHECKED && vs_suspended_some() &&
                    vs_pieces_touch(&vs_suspended.pieces, address, 0);
        entered = vs_gate_decide(seen == VS_GATE_OPEN || (seen == VS_GATE_CHECKED && !away));
        if (!entered && seen == VS_GATE_CLOSED)
            vs_gate_wait(VS_GATE_CLOSED);
        else if (!entered)
            needed = vs_away_needed();
    }
}

void vs_away_give(uint64_t address)
{
    vs_away_ask(address);
    if (vs_suspended_some() || !vs_park_is_on())
        return;
    vs_park_next();
    vs_park_given(VS_PARK_NO_STREAM, address, 1);
    vs_park_lacks(); /* what is still parked cannot be pinned, and the caller finds that */
}

void vs_away_asked(void)
{
    vs_gate_leave();
}

/* Which addresses copies store is seen from before the first block on.  Relaxed: who stores a block's address
 * learnt of it after its birth. */
static void look_before_blocks(void)
{
    bool spills = vs_spill_on();
    if (!vs_access_on() ||
        (atomic_load_explicit(&vs_hot.careful, memory_order_relaxed) & VS_CAREFUL_WINDOW) != 0)
        atomic_store_explicit(&unrecorded, true, memory_order_relaxed);
    if (vs_park_is_on())
        return;
    if (spills || *vs_options.park != 0)
        look_from_now();
    if (spills)
        atomic_store_explicit(&vs_park_on, true, memory_order_release);
}

uint32_t vs_away_before_malloc(void)
{
    if (__builtin_expect((*vs_options.spill | *vs_options.park) != 0, 0))
        look_before_blocks();
    bool waits = true;
    while (waits && atomic_load_explicit(&vs_suspended.closed, memory_order_relaxed) && is_ours()) {
        enum vs_gate_state state = atomic_load(&vs_gate);
        if (state == VS_GATE_CLOSED)
            vs_gate_wait(state);
        else
            waits = vs_away_needed();
    }
    return atomic_load_explicit(&vs_suspended.closings, memory_order_relaxed);
}

bool vs_away_since(uint32_t seen)
{
    return atomic_load_explicit(&vs_suspended.closings, memory_order_relaxed) != seen;
}
