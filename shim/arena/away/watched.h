/*
 * watched.h - the blocks whose uses are followed so that they can be parked or spilled, by address.
 *
 * The caller holds the lock of back.h, but for vs_watched_near.
 */
#ifndef VS_ARENA_AWAY_WATCHED_H
#define VS_ARENA_AWAY_WATCHED_H

#include "arena/device/served.h"
#include "forecast.h"
#include "ranking.h"

#define VS_WATCHED_LEAST (2ull << 20) /* bytes of a block: a smaller one has no chunk of its own */

struct vs_watched {
    uint64_t address, size; /* as it was asked for; address 0: this is no block's */
    struct vs_served *s;
    struct vs_arena *arena;
    struct vs_forecast forecast;
    uint64_t work; /* the last that was given it, by the number of park.c */
    CUevent back;
    CUstream own;         /* in whose order it is freed; one that is none: nobody knows */
    uint32_t order;       /* of its first use in the last optimizer */
    uint8_t seen, before; /* phases in which the device was given it: in this round, in the last one (bits of
                             trace/access.h) */
    uint8_t rounds;       /* whole ones since it is known, 3 at most */
    bool told;            /* it has a role that is to be parked */
    bool stored;          /* an address in it was copied to the device, where kernels may find it: it stays */
    bool planned;         /* is parked outside of the optimizer */
    bool parked;
    bool freed;    /* and its free was asked for: nobody needs what it had */
    bool coming;   /* it is back, and the copy may not be done: `back` says when */
    bool awaited;  /* `own` waits for that */
    bool early;    /* it came back before it was used */
    bool undone;   /* and was spilled again before that */
    bool went;     /* it was spilled since its last use (habit.h) */
    bool chosen;   /* when some were to go last (forecast.c) */
    uint8_t ahead; /* before there was need: 1 or 2 (spill.c), or not, 0 */
    uint8_t habit; /* long gaps between uses in which it was, one after another */
};

/* Those that are watched, among others that have no address. */
extern struct vs_watched *vs_watched, *vs_watched_end;
#define VS_WATCHED_EACH(w)                                                                                   \
    for (struct vs_watched *w = vs_watched; w < vs_watched_end; w++)                                         \
        if (w->address != 0)

/* Whether some block that is watched may lie in the chunk of ADDRESS: a few loads, any thread. */
bool vs_watched_near(uint64_t address);
/* The block in which one of SIZE bytes from ADDRESS on lies, the last such; NULL: none is. */
struct vs_watched *vs_watched_at(uint64_t address, uint64_t size);
/* Watches the block, unless it is already; NULL: there is no room. */
struct vs_watched *vs_watched_add(const struct vs_watched *block);
void vs_watched_remove(struct vs_watched *w);
/* What is parked and not freed, of ROOM bytes at most, as the optimizer needs it. */
struct vs_ranking *vs_watched_wanted(uint64_t room);

/* The block at ADDRESS is given to a work. */
void vs_watched_given(uint64_t work, uint64_t address);
/* Whether all that it was given so far is known: not where it was given more than 32 blocks.  Then it can be
 * given them anew, by the number NOW. */
bool vs_watched_knows(uint64_t work);
void vs_watched_renew(uint64_t work, uint64_t now);

/* What the store keeps of the 2 MiB at ADDRESS (store.c); NULL: no block was ever there. */
uint32_t *vs_watched_kept(uint64_t address);

#endif
