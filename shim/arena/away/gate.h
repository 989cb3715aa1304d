/*
 * gate.h - the gate that every call passes which gives the device work: closed while memory moves, and while
 * memory is away it lets through only what does not touch that.
 *
 *      program's call ─▶ vs_gate_enter ──open──▶ driver ─▶ vs_gate_leave
 *                            │ not open: what does the call give to the device?
 *                            ├─ nothing that is away (away.h: vs_away_touches) ─▶ driver
 *                            └─ else vs_away_needed: it waits, or all comes back
 *
 * Open costs a thread two stores and a load.  Any thread, also in a signal handler; no lock, no allocation.
 */
#ifndef VS_ARENA_AWAY_GATE_H
#define VS_ARENA_AWAY_GATE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum vs_gate_state {
    VS_GATE_OPEN = 0,
    VS_GATE_CHECKED, /* memory is away: operands are looked at */
    VS_GATE_CLOSED   /* memory moves: nothing passes but what a capture takes down */
};
/* Written by who moves memory, one thread at a time. */
extern _Atomic uint32_t vs_gate;

/* True: the gate is open, and until vs_gate_leave nobody begins to move memory.  False: it is not, and
 * nothing was entered. */
bool vs_gate_enter(void);
/* Enters whatever the gate's state is: for who has seen that his call touches nothing that is away, and looks
 * at vs_gate again behind it. */
void vs_gate_enter_anyway(void);
void vs_gate_leave(void);

/* Closes the gate and waits until every thread that entered has left; false: after TIMEOUT_NS some have not,
 * and the gate has the state that it had. */
bool vs_gate_close(uint64_t timeout_ns);
/* Sets another state, and wakes who waits. */
void vs_gate_set(enum vs_gate_state state);
/* Waits until the gate's state is not STATE any more. */
void vs_gate_wait(enum vs_gate_state state);

/* Functions in the place of the driver's that give the device work (gate_calls.c). */
struct vs_stand_in;
extern const struct vs_stand_in vs_stand_ins_gate[];

#endif
