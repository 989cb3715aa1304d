/*
 * park.h - blocks that lie on the host while the program runs, and come back before they are used.  They are
 * parked from one phase to the next (VRAMSCOPE_PARK), or spilled where the device is full (VRAMSCOPE_SPILL,
 * spill.h).  Other blocks have their chunks meanwhile.
 *
 * Parked are optimizer states, while forward and backward run:
 *
 *      optimizer │ forward .......... backward ............... │ optimizer
 *        used    │ out, then parked ───────────  in, by and by │ used
 *
 * Two rounds are watched: which blocks of the wanted roles the device is given in the optimizer alone, and
 * how long it is done with them.  What can be copied there and back in that time is parked from then on.  The
 * copies are ordered by events and the arena's queues, so no thread waits for them.
 *
 * A block never goes, as long as it lives, once one of its addresses was seen to be copied to the device:
 * kernels may find it there.  So copies are looked at from the first block on.
 *
 * All functions but the first are called by the program's threads inside the gate, or where memory is
 * asked for or freed; without the two options they are a load.
 */
#ifndef VS_ARENA_AWAY_PARK_H
#define VS_ARENA_AWAY_PARK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "calls.h"
#include "core/options.h"

struct vs_arena;
struct vs_served;

extern _Atomic bool vs_park_on; /* some blocks are watched, or all will be */

static inline bool vs_park_is_on(void)
{
    /* relaxed: who gives the device a block learnt of it after it was told */
    return __builtin_expect(atomic_load_explicit(&vs_park_on, memory_order_relaxed), 0);
}

/* Whether operands are looked at though nothing is away: blocks are watched, or may be any time. */
static inline bool vs_park_looks(void)
{
    return vs_park_is_on() || *vs_options.park != 0;
}

/* Blocks begin at ADDRESSES that are of ROLE (trace/roles.h), as the framework says it.  Outside of every
 * hooked call. */
void vs_park_told(const uint64_t *addresses, size_t count, unsigned role);

/* The calling thread looks at the operands of the next call. */
void vs_park_next(void);
/* It gives STREAM a kernel or a graph, before any operand is looked at. */
void vs_park_work(CUstream stream);
/* That work is given SIZE bytes at ADDRESS (0: what lies there): what is parked of it comes back, and STREAM
 * waits. */
void vs_park_given(CUstream stream, uint64_t address, uint64_t size);
/* That work stores ADDRESS in device memory, so the block that it lies in stays on the device from now on, or
 * from when it is back. */
void vs_park_stored(uint64_t address);
/* Nobody knows what that work is given: all comes back, and STREAM waits. */
void vs_park_unknown(CUstream stream);
/* Whether the device had no memory for what the call needs, so that it cannot be made.  Once. */
bool vs_park_lacks(void);

/* A request for SIZE bytes came to STATUS.  True: other blocks have gone, and it is to be made again.  *TRIES
 * is 0 at first. */
bool vs_park_retry(struct vs_served *s, struct vs_arena *arena, uint64_t size, unsigned *tries);
static inline bool vs_park_retries(struct vs_served *s, struct vs_arena *arena, int status, uint64_t size,
                                   unsigned *tries)
{
    return __builtin_expect(status == CUDA_ERROR_OUT_OF_MEMORY, 0) && vs_park_is_on() &&
           vs_park_retry(s, arena, size, tries);
}
/* The arena of S gave a block of SIZE bytes at ADDRESS (0: none that could be parked), in the order of the
 * stream OWN. */
void vs_park_malloc(struct vs_served *s, struct vs_arena *arena, uint64_t address, uint64_t size,
                    CUstream own);
/* The block at ADDRESS is about to be freed. */
void vs_park_free(struct vs_served *s, struct vs_arena *arena, uint64_t address);
/* The arena of S is about to end; nobody is inside it. */
void vs_park_arena_ends(struct vs_served *s);

/* All comes back, with the gate closed: before memory is suspended, and nothing goes until vs_park_go_on. The
 * device has to be waited for then.  False: it has no memory for some. */
bool vs_park_all_back(void);
void vs_park_go_on(void);

#endif
