/*
 * foreseen.h - which blocks an earlier recording of the program says can be parked, and for how long they lie
 * idle (VRAMSCOPE_PARK_FROM), so that parking need not wait until it has measured both.
 *
 *      ns=420000000;16777216x48,8388608x2      idle for 420 ms of a step; 48 states of 16 MiB, 2 of 8
 *
 * Addresses are other ones in each process, so blocks are known by their sizes: of each that is listed there
 * must be as many.  The caller holds the lock of back.h.
 */
#ifndef VS_ARENA_AWAY_FORESEEN_H
#define VS_ARENA_AWAY_FORESEEN_H

#include "watched.h"

/* Milliseconds, from the first call on at which some blocks are told, if these are as the recording says;
 * below 0: nothing is foreseen. */
float vs_foreseen_ms(void);
/* Whether W is one of them. */
bool vs_foreseen(const struct vs_watched *w);

#endif
