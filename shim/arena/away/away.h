/*
 * away.h - moves what lies in the arenas to the host and back, and says what is where.
 *
 * One thread at a time moves; who comes second is told so.  Everything here may be called by any thread of
 * the program that holds no lock of ours and is not inside an arena (vs_served_in), but for what says
 * otherwise.
 */
#ifndef VS_ARENA_AWAY_AWAY_H
#define VS_ARENA_AWAY_AWAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "trace/control.h"

/* Carries out a request.  BLOCKS: those that it is about, where it names roles.  HELD: the program's work
 * waits until a resume is asked for; otherwise work that needs what is away brings all of it back. */
void vs_away_carry_out(const struct vs_control_request *request, const struct vs_control_block *blocks,
                       size_t count, bool held, struct vs_control_answer *answer);

/* ---- for the gate ---- */

/* Whether something of SIZE bytes at ADDRESS (0: of the block there) lies in a block that is not on the
 * device wholly.  No lock but the arena's, and that only where blocks share a chunk. */
bool vs_away_touches(uint64_t address, uint64_t size);
/* The calling thread's work needs what is away: returns when the gate's state has changed, all having come
 * back or not.  The caller has not entered the gate, and looks again. */
void vs_away_needed(void);

/* ---- for what gives out memory (arena/cuda, arena/torch) ---- */

/* To be called before memory of an arena is asked for, outside of vs_served_in: waits, or has all brought
 * back, while the arenas are closed.  A load where they are not. */
void vs_away_before_malloc(void);

/* The arena of S is about to be destroyed: what of it is away is forgotten.  Nobody is inside it. */
struct vs_served;
void vs_away_arena_ends(struct vs_served *s);

#endif
