/*
 * spill.h - what goes to the host so that a request is served which the device has no memory for, and what
 * comes back before it is needed (VRAMSCOPE_SPILL).
 *
 *      a request, or a block that comes back, finds the device full
 *          └─▶ blocks go that are needed last (forecast.h), and are none of what is being given to the device
 *      memory lay idle for a while
 *          └─▶ blocks come back that are needed first, one that went again unused not before its next use
 *
 * Every block of 2 MiB or more is watched.  The caller holds the lock of back.h and is inside the arenas.
 */
#ifndef VS_ARENA_AWAY_SPILL_H
#define VS_ARENA_AWAY_SPILL_H

#include "watched.h"

/* Whether it is asked for; the first call reads the option. */
bool vs_spill_on(void);
/* What of a device of TOTAL bytes the arena leaves to small blocks and the driver. */
uint64_t vs_spill_headroom(uint64_t total);
/* How large a chunk of a device of TOTAL bytes may be; 0: the driver's granularity.  Large ones are mapped as
 * quickly as small ones, but a block lends only the chunks that are all its own. */
uint64_t vs_spill_chunk(uint64_t total);

/* Others go so that W, which is parked, can come back: as many as lie idle too few; or as it could not, as
 * many as it needs.  False: none went. */
bool vs_spill_before(const struct vs_watched *w, uint64_t now);
bool vs_spill_for(const struct vs_watched *w, uint64_t now);
/* A request for SIZE bytes was refused.  *TRIES is 0 at first. */
enum vs_spill_answer {
    VS_SPILL_NO,
    VS_SPILL_AGAIN, /* it is made again */
    VS_SPILL_LATER, /* other threads are giving the device work on all that could go */
};
enum vs_spill_answer vs_spill_refused(struct vs_served *s, struct vs_arena *arena, uint64_t size,
                                      uint64_t now, unsigned *tries);
/* No more is waited for those. */
#define VS_SPILL_HURRY 1000000u /* of TRIES */
/* W is back. */
void vs_spill_came_back(struct vs_watched *w);
/* A block was given or is freed: looks how much lay idle lately, and takes blocks back. */
void vs_spill_look(struct vs_served *s, struct vs_arena *arena, uint64_t now);

#endif
