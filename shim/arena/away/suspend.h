/*
 * suspend.h - what is away because it was suspended: the whole of the arenas, or blocks.
 *
 *      suspend   gate closed, devices idle (quiet.h) ─▶ host memory had ─▶ pieces out ─▶ gate checks
 *      resume    room on the devices ─▶ gate closed ─▶ pieces in ─▶ gate open, host memory given back
 *
 * What fails before the first piece has gone changes nothing.  What is away stays whole on the host until all
 * of it is on the device again.
 */
#ifndef VS_ARENA_AWAY_SUSPEND_H
#define VS_ARENA_AWAY_SUSPEND_H

#include <stdatomic.h>

#include "host.h"
#include "pieces.h"
#include "quiet.h"

/* Written by who holds the lock of away.c, but for what is atomic read by nobody else. */
struct vs_suspended {
    struct vs_pieces pieces; /* written with the gate closed: who is inside it may read */
    struct vs_host_store store;
    _Atomic uint32_t owner;    /* vs_fork_number() of the process that has something away; 0: none has */
    _Atomic bool closed;       /* the arenas are */
    _Atomic bool held;         /* until a request to resume */
    _Atomic uint32_t closings; /* of arenas, so far */
    bool waiting_said;         /* that work waits for memory */
};
extern struct vs_suspended vs_suspended;

/* Acquire: pairs with the beginning of a suspension; who is inside the gate has the lists as they are. */
static inline bool vs_suspended_some(void)
{
    return atomic_load_explicit(&vs_suspended.owner, memory_order_acquire) != 0;
}

/* Both outside of the arenas, with the lock held.  Of REQUEST: roles, `to`, the timeout.  HELD: as in away.h.
 */
void vs_suspend(const struct vs_control_request *request, const struct vs_control_block *blocks, size_t count,
                bool held, struct vs_control_answer *answer);
/* ASKED: by a request from outside, which alone ends a suspension that is held. */
void vs_resume(uint64_t timeout_ns, bool asked, struct vs_control_answer *answer);

#endif
