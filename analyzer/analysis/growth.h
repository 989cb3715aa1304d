/*
 * growth.h - whether memory grows from step to step, and what grows: from what lives at the end of the last
 * step alone, and from when that was made.
 *
 *      alive at the end, by the step      leak        states      cleared     stopped     in turn
 *      that made it                       ########    #                ##     ###         ########
 *                                         first..last
 *      allocated at the ends of steps     rises       flat        saw         flat        flat
 *
 * The same position of each step is looked at, its end, so what a step makes and frees is not seen, however
 * long its sequences are.  The first steps are warm-up and left out: max(3, an eighth of all).  What lives at
 * the end of the last step is sorted by phase, call stack, kind and size, and where sizes change by the other
 * three.  A group grows where
 *   - it was made in 8 of the remaining steps or more,
 *   - in each quarter of them at least at half the rate of the whole: what fills up and stops does not, nor
 * what was cleared on the way,
 *   - by more than 512 bytes a step, the grain of allocators,
 *   - and allocated itself, at the ends of steps, rose by at least half of it in three of the four quarters:
 * memory that is replaced in turn is as young, and does not grow.
 *
 * It grows since the earliest step from which on it came to its rate in the mean, within a tenth, without a
 * longer pause than there is in the window: what a first step made once is no part of it.
 *
 * Where old steps are folded the steps are those after them.  Nothing is said of fewer than 11 steps.  What
 * cannot be told from a leak: a cache that is not yet full, a list that is cleared less often than the
 * recording is long, experts or states that are touched for the first time.
 */
#ifndef VS_ANALYSIS_GROWTH_H
#define VS_ANALYSIS_GROWTH_H

#include "read/trace.h"

enum { GROWTH_QUARTERS = 4 };

struct growth_window { /* indexes of steps, from 0: the quarter I is after step end[I] up to step end[I + 1]
                        */
    size_t end[GROWTH_QUARTERS + 1];
};

struct growth_group {
    int64_t phase, stack, op, space;   /* as in struct trace_birth */
    int64_t bytes, count;              /* made in the window, alive at its end */
    int64_t least_size, greatest_size; /* of one allocation */
    int64_t before; /* bytes of it that were made before PEAK_STEP, and not in the first step */
    int64_t since;  /* the step from which on it grows; of growth_of an index, in a report its number */
};

struct growth {
    bool known;                    /* there are enough steps, and their events are in the file */
    int64_t first_step, last_step; /* of the window */
    int64_t steps;                 /* in it */
    struct growth_group *groups;   /* the fastest first; none: nothing grows */
    size_t count;
    int64_t bytes;  /* of all groups */
    int64_t before; /* likewise */
};

/* The window of N steps; false where these are too few. */
bool growth_window(size_t n, struct growth_window *w);
/* BIRTHS: alive at the end of the window (sorted anew).  BASE: allocated at each of its ENDs.  PEAK_STEP: the
 * index of the step of the peak; SIZE_MAX none. */
struct growth growth_of(const struct growth_window *w, struct trace_birth *births, size_t n,
                        const int64_t *base, size_t peak_step);
void growth_free(struct growth *g);

#endif
