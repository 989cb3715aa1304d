/*
 * park_plan.h - which blocks are parked, and how much of them may come back before the optimizer needs it.
 *
 * The caller holds the lock of back.h.
 */
#ifndef VS_ARENA_AWAY_PARK_PLAN_H
#define VS_ARENA_AWAY_PARK_PLAN_H

#include "watched.h"

struct vs_plan {
    bool on;                           /* something is parked */
    bool trims;                        /* vs_plan_trim is to be called, before anything goes */
    uint64_t bytes[VS_SERVED_DEVICES]; /* planned, of each device */
};
extern struct vs_plan vs_plan;

/* Whether blocks of ROLE are to be parked: VRAMSCOPE_PARK. */
bool vs_plan_wants(unsigned role);

/* The optimizer is done with, STREAM is given other work: measures, and plans once enough is known.  UNKNOWN:
 * work so far of which nobody knows what it used, but in the optimizer. */
void vs_plan_gap_begins(CUstream stream, uint32_t unknown);
/* The idle chunks are those that the last peak needed.  From here on it has the parked states' chunks, too,
 * so as many of the idle ones go.  Waits for the device: without the lock. */
void vs_plan_trim(const struct vs_plan *plan);
/* STREAM is given the optimizer's first work. */
void vs_plan_gap_ends(CUstream stream);

/* W came back. */
void vs_plan_came_back(const struct vs_watched *w);
/* W is used in another phase than the optimizer while it is parked: it is not parked again. */
void vs_plan_unforeseen(struct vs_watched *w);
/* The address of W is stored: it is not parked again. */
void vs_plan_stored(struct vs_watched *w);
/* All comes back for work of which nobody knows what it uses. */
void vs_plan_unknown(void);
/* The context of S has ended. */
void vs_plan_device_ends(struct vs_served *s);

/* Whether this request for memory is one at which memory is looked at: every 64th of a gap.  No lock. */
bool vs_plan_looks(void);
/* How many bytes of S may come back now, so that no more lives on the device than in the gap's peak. */
uint64_t vs_plan_room(struct vs_served *s, struct vs_arena *arena);

#endif
