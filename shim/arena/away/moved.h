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
/* W was parked, or came back.  The caller holds the lock of park.c. */
void vs_moved_watched(const struct vs_watched *w, enum vs_away_why why);

#endif
