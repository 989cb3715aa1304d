/*
 * habit.h - spills a block early that has been spilled between its uses again and again.  It goes as soon as
 * the next long gap begins, and its copy runs beside the work that will need the memory.
 *
 *      used             used              used                     used
 *       │      full:goes │      full:goes  │ goes                   │
 *       │        └──back─┤        └──back──┤  └────────────back─────┤
 *      ...     habit 1          habit 2      ahead, half of the gap at least
 *
 * One whose memory nobody needed in the meantime goes by need alone again.  The caller holds the lock of
 * park.c.
 */
#ifndef VS_ARENA_AWAY_HABIT_H
#define VS_ARENA_AWAY_HABIT_H

#include "watched.h"

/* W goes: ahead of need (1 or 2, as vs_watched has it) or not (0).  Work NOW is given it. */
void vs_habit_went(struct vs_watched *w, uint8_t ahead);
void vs_habit_used(struct vs_watched *w, uint64_t now);
/* It comes back, and SPARE bytes lay idle all the while.  Whether it need not have gone. */
bool vs_habit_back(struct vs_watched *w, uint64_t spare);

/* The block that goes ahead of need next, the one that is used last.  It was given to no work from OLDEST on,
 * and its `tries` is not TRIES.  NULL: none goes. */
struct vs_watched *vs_habit_next(const struct vs_served *s, uint64_t now, uint64_t oldest, uint32_t tries);
/* Whether one that is used in NEXT works may come back early. */
bool vs_habit_lets(const struct vs_watched *w, uint64_t next);

#endif
