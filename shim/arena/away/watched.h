/*
 * watched.h - the blocks whose uses are followed so that they can be parked, by address.
 *
 * The caller holds the lock of park.c, but for vs_watched_near.
 */
#ifndef VS_ARENA_AWAY_WATCHED_H
#define VS_ARENA_AWAY_WATCHED_H

#include "arena/device/served.h"

#define VS_WATCHED_MOST 16384u

struct vs_watched {
    uint64_t address, size; /* as it was asked for */
    struct vs_served *s;
    struct vs_arena *arena;
    uint8_t seen, before; /* phases in which the device was given it: in this round, in the last one (bits of
                             trace/access.h) */
    uint8_t rounds;       /* whole ones since it is known, 3 at most */
    bool planned;         /* is parked outside of the optimizer */
    bool parked;
    bool coming; /* it is back, and the copy may not be done: `back` says when */
    CUevent back;
    uint32_t order;  /* of its first use in the last optimizer */
    uint64_t offset; /* of its first chunk in the host's store */
};

extern struct vs_watched *vs_watched;
extern uint32_t vs_watched_count;
#define VS_WATCHED_EACH(w) for (struct vs_watched *w = vs_watched; w < vs_watched + vs_watched_count; w++)

/* Whether some block that is watched may lie in the chunk of ADDRESS: two loads, any thread. */
bool vs_watched_near(uint64_t address);
/* The block in which one of SIZE bytes from ADDRESS on lies, the last such; NULL: none is. */
struct vs_watched *vs_watched_at(uint64_t address, uint64_t size);
/* Watches the block, unless it is already; NULL: there is no room. */
struct vs_watched *vs_watched_add(const struct vs_watched *block);
void vs_watched_remove(struct vs_watched *w);

#endif
