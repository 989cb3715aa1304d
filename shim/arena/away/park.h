/*
 * park.h - parks what is idle from one phase to the next: optimizer states lie on the host while forward and
 * backward run, and their chunks serve activations meanwhile (VRAMSCOPE_PARK).
 *
 *      optimizer │ forward .......... backward ............... │ optimizer
 *        used    │ out, then parked ───────────  in, by and by │ used
 *
 * Two rounds are watched: which blocks of the wanted roles the device is given in the optimizer alone, and
 * how long it is done with them.  What can be copied there and back in that time is parked from then on.  The
 * copies are ordered by events and the arena's queues, so no thread waits for them.
 *
 * All functions but the first are called by the program's threads inside the gate, or where memory is asked
 * for or freed; without VRAMSCOPE_PARK they are a load.
 */
#ifndef VS_ARENA_AWAY_PARK_H
#define VS_ARENA_AWAY_PARK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "calls.h"

struct vs_arena;
struct vs_served;

extern _Atomic bool vs_park_on; /* a block of a wanted role is known */

static inline bool vs_park_is_on(void)
{
    /* relaxed: who gives the device a block learnt of it after it was told */
    return __builtin_expect(atomic_load_explicit(&vs_park_on, memory_order_relaxed), 0);
}

/* Blocks begin at ADDRESSES that are of ROLE (trace/roles.h), as the framework says it.  Outside of every
 * hooked call. */
void vs_park_told(const uint64_t *addresses, size_t count, unsigned role);

/* The calling thread gives STREAM work, before any of its operands is looked at. */
void vs_park_work(CUstream stream);
/* That work is given SIZE bytes at ADDRESS (0: what lies there): what is parked of it comes back, and STREAM
 * waits. */
void vs_park_given(CUstream stream, uint64_t address, uint64_t size);
/* Nobody knows what that work is given: all comes back, and STREAM waits. */
void vs_park_unknown(CUstream stream);

/* The arena of S gave a block. */
void vs_park_malloc(struct vs_served *s, struct vs_arena *arena);
/* The block at ADDRESS is about to be freed. */
void vs_park_free(struct vs_served *s, struct vs_arena *arena, uint64_t address);
/* The arena of S is about to end; nobody is inside it. */
void vs_park_arena_ends(struct vs_served *s);

/* All comes back, with the gate closed: before memory is suspended.  The device has to be waited for then.
 * False: it has no memory for some. */
bool vs_park_all_back(void);

#endif
