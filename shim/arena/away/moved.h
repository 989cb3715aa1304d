/*
 * moved.h - what the recording has of memory that goes to the host: which blocks, how long the program waited
 * for them, and what parking decided.
 *
 * The caller holds the lock of park.c, but for vs_moved_pieces; it is inside the arenas (vs_served_in).
 */
#ifndef VS_ARENA_AWAY_MOVED_H
#define VS_ARENA_AWAY_MOVED_H

#include "pieces.h"
#include "watched.h"

/* What P has of the device, or all of it, moved. */
void vs_moved_pieces(const struct vs_pieces *p);
/* W was parked, or came back. */
void vs_moved_watched(const struct vs_watched *w, enum vs_away_why why);

/* Between the two all comes back, and STREAM is told to wait for it. */
void vs_moved_wait_begins(CUstream stream);
void vs_moved_wait_ends(CUstream stream);
/* The context of S has ended. */
void vs_moved_device_ends(const struct vs_served *s);

/* Of IDLE bytes, which lie so for MS of a step, PARKED go, where the link takes RATE bytes in a second. */
void vs_moved_plan(uint64_t idle, uint64_t parked, double ms, double rate);
/* Nothing is parked: says so, and records it. */
void vs_moved_none(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* So many uses were not foreseen. */
void vs_moved_unforeseen(uint32_t uses);
/* Parking has ended. */
void vs_moved_ended(const char *why);

#endif
