/*
 * back.h - the lock of all that is parked or spilled, what comes back, and who waits for it.
 *
 * Functions are called with the lock.  Those that wait give it meanwhile, so blocks may come, go and end.
 */
#ifndef VS_ARENA_AWAY_BACK_H
#define VS_ARENA_AWAY_BACK_H

#include "watched.h"

/* Takes the lock, with which no thread ends; what to give it back with. */
int vs_parking_enter(void);
void vs_parking_leave(int before);

/* As vs_park_in, and noted. */
int vs_back_one(struct vs_watched *w);
/* All that is parked and not freed comes back, without a wait, up to a block that cannot, which is returned,
 * and *STATUS says why; or NULL. */
struct vs_watched *vs_back_wanted(int *status);
/* Likewise all, once the device is done if need be: 0, or what kept one from coming back.  Waits. */
int vs_back_all(void);

/* After STATUS: waits until the device has done what it was given; or for others to free, and ARENA (NULL:
 * none) gives back what it can.  Not at once where it is not the FIRST time. */
void vs_back_pause(struct vs_arena *arena, int status, bool first);
/* STREAM waits for the block at ADDRESS; where no stream can, the thread does.  The block, or NULL: it has
 * ended. */
struct vs_watched *vs_back_wait(uint64_t address, CUstream stream);
/* Likewise for all that is coming. */
void vs_back_all_wait(CUstream stream);

#endif
