/*
 * habit.h - blocks that were spilled in one long gap between two uses after another: they go as soon as the
 * next such gap begins, so that their copies run beside the work that will need the memory.
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

/* W goes, ahead of need or not (0), or work NOW is given it. */
void vs_habit_went(struct vs_watched *w, uint8_t ahead);
void vs_habit_used(struct vs_watched *w, uint64_t now);
/* It comes back, and SPARE bytes lay idle all the while.  Whether it need not have gone. */
bool vs_habit_back(struct vs_watched *w, uint64_t spare);

/* Of what goes ahead now the block that is needed last; none that was given to work from OLDEST on, or whose
 * `tries` has this value; NULL: nothing goes. */
struct vs_watched *vs_habit_next(const struct vs_served *s, uint64_t now, uint64_t oldest, uint32_t tries);
/* Whether one that is used in NEXT works may come back early. */
bool vs_habit_lets(const struct vs_watched *w, uint64_t next);

#endif
