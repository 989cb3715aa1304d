/*
 * park_gap.h - how long the gap between two optimizers is, and how long the second one then waits for what
 * was parked, by the device's clock.
 *
 * The caller holds the lock of back.h.
 */
#ifndef VS_ARENA_AWAY_PARK_GAP_H
#define VS_ARENA_AWAY_PARK_GAP_H

#include "watched.h"

struct vs_gap {
    float ms, wait_ms;
    bool parking;   /* as it was said when it began */
    uint64_t away;  /* bytes that had not come back when it ended */
    uint64_t calls; /* of the driver by the arenas, until the wait was given */
};

/* A gap begins on STREAM.  One at a time is timed, until its times are read. */
void vs_gap_begins(struct vs_served *s, CUstream stream, bool parking);
void vs_gap_ends(CUstream stream);
/* STREAM was told to wait for all that was parked. */
void vs_gap_waited(CUstream stream);
/* The times of the last one that was timed, once; false: it is not over, or the device is not there.  Does
 * not wait. */
bool vs_gap_read(struct vs_gap *out);
/* The context of S has ended. */
void vs_gap_device_ends(const struct vs_served *s);

#endif
