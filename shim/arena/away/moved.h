/*
 * moved.h - tells the recording which blocks are on the host.
 *
 * The caller is inside the arenas (vs_served_in).
 */
#ifndef VS_ARENA_AWAY_MOVED_H
#define VS_ARENA_AWAY_MOVED_H

#include "pieces.h"
#include "watched.h"

/* What P has of the device, or all of it, moved. */
void vs_moved_pieces(const struct vs_pieces *p);

/* The rest is called with the lock of back.h. */

/* For how long the program has waited for watched blocks (account.h); VS_BYTES_UNKNOWN from the first time on
 * that could not be measured. */
extern uint64_t vs_moved_waited_ns;
/* W was parked, or came back. */
void vs_moved_watched(const struct vs_watched *w, enum vs_away_why why);

#endif
