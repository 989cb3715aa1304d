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

/* The work before which vs_habit_going need not be called: what goes ahead of need can wait that long. */
uint64_t vs_habit_due(const struct vs_served *s);
/* The blocks that go ahead of need, the one that is used last first.  They were given to no work from OLDEST
 * on. */
struct vs_ranking *vs_habit_going(const struct vs_served *s, uint64_t now, uint64_t oldest);
/* Those of ROOM bytes at most that may come back early, the one that is needed first ahead. */
struct vs_ranking *vs_habit_coming(const struct vs_served *s, uint64_t now, uint64_t room);

#endif
