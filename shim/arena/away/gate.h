/*
 * gate.h - the gate that every call passes which gives the device work: closed while memory moves, and while
 * memory is away it lets through only what does not touch that.
 *
 *      program's call ─▶ vs_gate_enter ──open──▶ driver ─▶ vs_gate_leave
 *                            │ not open: what does the call give to the device?
 *                            ├─ nothing that is away (away.h: vs_away_touches) ─▶ driver
 *                            └─ else vs_away_needed: it waits, or all comes back
 *
 * Open costs a call 4 to 6 ns, and writes no line that another thread writes.  Any thread, also in a signal
 * handler; no lock, no allocation, and errno is kept.
 */
#ifndef VS_ARENA_AWAY_GATE_H
#define VS_ARENA_AWAY_GATE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "provider/provider.h"

enum vs_gate_state {
    VS_GATE_OPEN = 0,
    VS_GATE_CHECKED, /* memory is away: operands are looked at */
    VS_GATE_CLOSED /* memory moves: nothing passes but launches that a capture takes down, and none begins */
};
/* Written by who moves memory, one thread at a time. */
extern _Atomic uint32_t vs_gate;

/* True: the gate is open, or this thread is inside already, and until vs_gate_leave nobody begins to move
 * memory.  False: it is not, and nothing was entered. */
bool vs_gate_enter(void);
void vs_gate_leave(void);
/* Enters whatever the state is, which it returns, for a look at what the call touches: if that is CHECKED
 * nobody begins to move memory until the call was decided upon. */
enum vs_gate_state vs_gate_enter_anyway(void);
/* PASS: the call is made, and vs_gate_leave follows; otherwise it has left.  Returns PASS. */
bool vs_gate_decide(bool pass);

/* Closes the gate and waits until every thread that entered has left; false: after TIMEOUT_NS some have not,
 * and the gate has the state that it had.  At once where the calling thread is inside itself. */
bool vs_gate_close(uint64_t timeout_ns);
/* Sets another state, and wakes who waits. */
void vs_gate_set(enum vs_gate_state state);
/* Waits until the gate's state is not STATE any more; in a fork's child not at all. */
void vs_gate_wait(enum vs_gate_state state);
/* Enters as soon as no memory moves, whatever is away. */
static inline void vs_gate_enter_at_rest(void)
{
    while (!vs_gate_enter() && !vs_gate_decide(vs_gate_enter_anyway() != VS_GATE_CLOSED))
        vs_gate_wait(VS_GATE_CLOSED);
}
/* How often a state was set so far; waits until that has changed from TURN, as above, but a second at most.
 */
uint32_t vs_gate_turn(void);
void vs_gate_wait_turn(uint32_t turn);
/* The calling thread, which is inside, looks at the operands of WORK.  The oldest that any thread looked at
 * and has not given yet; 0: nobody knows, UINT64_MAX: there is none.  Under one lock of the callers'. */
void vs_gate_look(uint64_t work);
/* It looks at those of WORK, and at no older ones: as if at those of LATER.  False: older ones are. */
bool vs_gate_look_again(uint64_t work, uint64_t later);
uint64_t vs_gate_looking(void);

/* Functions in the place of the driver's that give the device work (gate_calls.c). */
extern const struct vs_stand_in vs_stand_ins_gate[];

#endif
