/*
 * growth.h - finds memory that grows from step to step, from the allocations that live at the end of the
 * last step and the times when they were made.
 *
 *      alive at the end, by the step      leak        states      cleared     stopped     in turn
 *      that made it                       ########    #                ##     ###         ########
 *      allocated at the ends of steps     rises       flat        saw         flat        flat
 *
 * So these five are told apart.  Three other things look the same as a leak: a cache that is not full when
 * the recording ends, a list that is not cleared in it, and experts or states that are used for the first
 * time.
 */
#ifndef VS_ANALYSIS_GROWTH_H
#define VS_ANALYSIS_GROWTH_H

#include "read/trace.h"
#include "read/steps.h"

enum { GROWTH_QUARTERS = 4, GROWTH_STEPS = 11 /* fewer are not judged */ };

struct growth_window { /* indexes of steps, from 0: the quarter I is after step end[I] up to step end[I + 1]
                        */
    size_t end[GROWTH_QUARTERS + 1];
};

struct growth_group {
    int64_t phase, stack, op, space;   /* as in struct trace_birth */
    int64_t bytes, count;              /* made in the window, alive at its end */
    int64_t least_size, greatest_size; /* of one allocation */
    int64_t before;                    /* bytes that were made before PEAK_STEP, and not in the first step */
    int64_t since; /* the step from which on it grows: an index in growth_of, a number in a report */
};

struct growth {
    bool known;      /* there are enough steps with their events in the file */
    const char *why; /* not known although there are steps: the reason, */
    int64_t seen;    /* or, where it is NULL, how many of them have their events; 0: nobody looked */
    int64_t first_step, last_step; /* of the window */
    bool freed_in_last;            /* judged at the last step's last allocation, and not at its end */
    int64_t steps;                 /* in it */
    struct growth_group *groups;   /* the fastest first; none: nothing grows */
    size_t count;
    int64_t bytes;  /* of all groups */
    int64_t before; /* likewise */
};

/* The window for N steps; false: these are too few. */
bool growth_window(size_t n, struct growth_window *w);
/* The first max(3, an eighth) of the steps are warm-up.  What lives is grouped by phase, call stack, kind and
 * size or, if sizes change, by the other three.  A group grows if it was made in 8 of the remaining steps or
 * more, in each quarter of them at half the average rate or more (memory that fills up, or is cleared, is
 * not), and by more than 512 bytes a step, the granularity of allocators.  And allocated itself, at the ends
 * of steps, must rise by at least half of that in three of the four quarters: what is replaced in turn looks
 * as young, but allocated does not rise.
 *
 * BIRTHS live at the end of the window (they are sorted anew).  BASE is allocated at each of its ENDs.
 * PEAK_STEP: the index of the step of the peak; SIZE_MAX none. */
struct growth growth_of(const struct growth_window *w, struct trace_birth *births, size_t n,
                        const int64_t *base, size_t peak_step);
void growth_free(struct growth *g);

#endif
