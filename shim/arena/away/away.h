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

#ifndef __CUDA_API_VERSION_INTERNAL
#define __CUDA_API_VERSION_INTERNAL
#endif
#include <cuda.h>

#include "trace/control.h"

/* Carries out a request.  BLOCKS: those that it is about, where it names roles.  HELD: the program's work
 * waits until a resume is asked for; otherwise work that needs what is away brings all of it back. */
void vs_away_carry_out(const struct vs_control_request *request, const struct vs_control_block *blocks,
                       size_t count, bool held, struct vs_control_answer *answer);

/* ---- for the gate: of calls that have entered it while it is not open ---- */

/* The calling thread looks at what a call gives STREAM. */
void vs_away_on(CUstream stream);
/* The same for a kernel or a graph, with which a phase may begin.  False: nothing can be away. */
bool vs_away_work(CUstream stream);
/* Whether something of SIZE bytes at ADDRESS (0: of the block there) lies in a block that is not on the
 * device wholly, so that the call may not be made.  What is parked (park.h) comes back. */
bool vs_away_touches(uint64_t address, uint64_t size);
/* Likewise of an address that the call stores in device memory: kernels may find its block there from then
 * on. */
bool vs_away_stores(uint64_t address);
/* Likewise where nobody knows what a call touches. */
bool vs_away_unknown(void);
/* Whether what the call needs could not come back, as the device has no memory: it is not made. */
bool vs_away_lacks(void);
/* The calling thread's work needs what is away: returns when the gate's state has changed, all having come
 * back or not, or after a second.  The caller has not entered the gate, and looks again.  False: it need not,
 * as the process ends and nothing comes back for it. */
bool vs_away_needed(void);

/* Blocks of ROLE begin at ADDRESSES (park.h). */
void vs_away_told(const uint64_t *addresses, size_t count, unsigned role);

/* ---- for what asks the driver about an address, or gives a handle of its memory away ---- */

/* Until vs_away_asked nothing that lies at ADDRESS goes away; what is away comes back before, or is waited
 * for. */
void vs_away_ask(uint64_t address);
/* The same where others may reach it from then on: what is parked of it comes back, too. */
void vs_away_give(uint64_t address);
void vs_away_asked(void);

/* ---- for what gives out memory (arena/cuda, arena/torch) ---- */

/* To be called before memory of an arena is asked for, outside of vs_served_in: waits, or has all brought
 * back, while the arenas are closed.  A load where they are not.  How often they have been closed so far. */
uint32_t vs_away_before_malloc(void);
/* Whether they were closed since it answered SEEN: then a request that failed with NOT_READY is made again.
 */
bool vs_away_since(uint32_t seen);

#endif
