/*
 * away.c - see away.h: carries out requests, one at a time, and says who waits meanwhile.
 */
#define _GNU_SOURCE
#include "away.h"

#include <pthread.h>

#include "core/fork.h"
#include "core/log.h"
#include "core/options.h"
#include "gate.h"
#include "hooks/given.h"
#include "park.h"
#include "spill.h"
#include "suspend.h"

#define PATIENT_NS 5000000000ull /* that a program's thread waits for memory before it is said */

/* Held by who moves, for as long as he does; guards what is suspended. */
static struct vs_lock moving = VS_LOCK(MOVING);

/* In a fork's child CUDA does not work, and nothing is brought back. */
static bool is_ours(void)
{
    return atomic_load_explicit(&vs_suspended.owner, memory_order_relaxed) == vs_fork_number();
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

void vs_away_work(CUstream stream)
{
    vs_away_on(stream);
    if (!vs_suspended_some() && vs_park_is_on())
        vs_park_work(stream);
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

static void bring_back(void)
{
    struct vs_control_answer answer = {.status = VS_CONTROL_DONE};
    vs_lock_take(&moving);
    if (vs_suspended_some() && !atomic_load_explicit(&vs_suspended.held, memory_order_relaxed)) {
        vs_resume(PATIENT_NS, false, &answer);
        if (answer.status != VS_CONTROL_DONE && !vs_suspended.waiting_said)
            vs_log("work needs what is suspended, and waits: %s", answer.text);
        vs_suspended.waiting_said = answer.status != VS_CONTROL_DONE;
    }
    vs_lock_give(&moving);
}

void vs_away_needed(void)
{
    int cancel;
    uint32_t turn =
        vs_gate_turn(); /* before the look: a resume that ends in between has set the gate since */
    if (!is_ours())
        return;
    if (atomic_load_explicit(&vs_suspended.held, memory_order_relaxed)) {
        vs_gate_wait_turn(turn);
        return;
    }
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    bring_back();
    pthread_setcancelstate(cancel, NULL);
}

void vs_away_ask(uint64_t address)
{
    bool entered = vs_gate_enter();
    while (!entered) {
        enum vs_gate_state seen = vs_gate_enter_anyway();
        bool away = seen == VS_GATE_CHECKED && vs_suspended_some() &&
                    vs_pieces_touch(&vs_suspended.pieces, address, 0);
        entered = vs_gate_decide(seen == VS_GATE_OPEN || (seen == VS_GATE_CHECKED && !away));
        if (!entered && seen == VS_GATE_CLOSED)
            vs_gate_wait(VS_GATE_CLOSED);
        else if (!entered)
            vs_away_needed();
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

uint32_t vs_away_before_malloc(void)
{
    if (__builtin_expect(*vs_options.spill != 0, 0) && !vs_park_is_on() && vs_spill_on()) {
        look_from_now(); /* before any block is watched */
        atomic_store_explicit(&vs_park_on, true, memory_order_release);
    }
    while (atomic_load_explicit(&vs_suspended.closed, memory_order_relaxed) && is_ours()) {
        enum vs_gate_state state = atomic_load(&vs_gate);
        if (state == VS_GATE_CLOSED)
            vs_gate_wait(state);
        else
            vs_away_needed();
    }
    return atomic_load_explicit(&vs_suspended.closings, memory_order_relaxed);
}

bool vs_away_since(uint32_t seen)
{
    return atomic_load_explicit(&vs_suspended.closings, memory_order_relaxed) != seen;
}
