/*
 * lanes.c - lanes are opened for streams, and go to other streams when theirs are gone.
 */
#include "internal.h"

#include <string.h>

/* While there was one lane, frees were not stamped: all that is idle counts as freed just now. */
static void stamp_idle(struct vs_arena *a)
{
    a->seq_now++;
    for (uint32_t i = 0; i < LANES; i++)
        if (a->lane[i].open)
            a->lane[i].freed = a->seq_now;
    for (uint32_t i = 0; i < a->borns; i++)
        a->seq[a->born[i]] = a->seq_now;
}

static int make_rings(struct vs_arena *a)
{
    for (uint32_t i = 0; i < LANES; i++) {
        struct lane *l = &a->lane[i];
        if (!l->open || l->record || i == VS_ARENA_ANY)
            continue;
        l->record = vs_meta_resize(&a->meta, NULL, 0, RECORDS * sizeof *l->record);
        if (!l->record)
            return VS_BACKING_OUT_OF_MEMORY;
    }
    return 0;
}

/* A new lane has no granules and no views: nothing is hidden from it that it would have to be told of. */
static void begin(struct vs_arena *a, uint32_t lane)
{
    struct lane *l = &a->lane[lane];
    l->open = true;
    a->open |= bit_of(lane);
    a->lanes++;
    a->stats.lanes++;
    for (uint32_t q = 0; q < LANES; q++) {
        a->seen[q][lane] = q == VS_ARENA_ANY ? UINT64_MAX : a->lane[q].done;
        a->lane[q].read[lane] = a->lane[q].recorded;
    }
}

int vs_lane_begin(struct vs_arena *a, uint32_t lane)
{
    if (a->lane[lane].open)
        return 0;
    if (a->lanes == 1)
        stamp_idle(a);
    begin(a, lane);
    make_rings(a); /* without one, all is counted anew each time: slow, and right */
    return 0;
}

/* A lane whose stream is gone and whose frees are all complete, for everyone. */
static uint32_t find_retired(struct vs_arena *a)
{
    for (uint32_t i = 1; i < LANES; i++) {
        const struct lane *l = &a->lane[i];
        bool complete = l->retired && l->done >= l->freed;
        for (uint32_t q = 1; complete && q < LANES; q++)
            complete =
                q == i || a->seen[q][i] <= a->lane[q].done; /* what it waited for, the next one has not */
        if (complete)
            return i;
    }
    return NIL;
}

static uint32_t find_lane(struct vs_arena *a)
{
    uint32_t lane = find_retired(a);
    for (uint32_t i = 1; lane == NIL && i < LANES; i++)
        if (!a->lane[i].open)
            lane = i;
    if (lane == NIL && vs_order_settle(a) == 0)
        lane = find_retired(a);
    return lane;
}

int vs_arena_open_lane(struct vs_arena *a, uint64_t stream, unsigned flags, uint32_t *lane)
{
    if (!vs_enter(a))
        return VS_BACKING_NOT_INITIALIZED;
    uint32_t found = find_lane(a);
    if (found != NIL) {
        struct lane *l = &a->lane[found];
        l->stream = stream;
        l->retired = false;
        l->private = flags & VS_LANE_PRIVATE;
        vs_lane_begin(a, found);
        *lane = found;
    }
    vs_leave(a);
    return found == NIL ? VS_BACKING_OUT_OF_MEMORY : 0;
}

void vs_arena_retire_lane(struct vs_arena *a, uint32_t lane)
{
    if (!vs_enter(a))
        return;
    if (lane && lane < LANES && a->lane[lane].open) {
        if (a->lanes > 1 && a->lane[lane].freed > a->lane[lane].marked)
            vs_order_mark(a, lane); /* the last that can be made */
        a->lane[lane].retired = true;
        a->lane[lane].private = false;
    }
    vs_leave(a);
}
