/*
 * lanes.c - lanes are opened for streams, and go to other streams when theirs are gone.
 */
#include "internal.h"

#include <string.h>

/* While there was one lane, frees were not stamped: all that is idle counts as freed just now; or at the end
 * of its stream, which its last mark covers. */
static uint64_t stamp_idle(struct vs_arena *a)
{
    uint64_t seq = ++a->seq_now;
    for (uint32_t i = 0; i < LANES; i++)
        if (a->lane[i].retired)
            seq = a->lane[i].freed;
        else if (a->lane[i].open)
            a->lane[i].freed = seq;
    for (uint32_t h = 0; h < HEAPS; h++)
        for (uint32_t g = a->heap[h].first; g < a->heap[h].first + a->heap[h].top; g++)
            a->seq[g] = seq;
    return seq;
}

static void stamp_holes(struct vs_arena *a, uint64_t seq)
{
    for (uint32_t h = 0; h < HEAPS; h++)
        for (uint32_t i = a->heap[h].top ? a->heap[h].last : NIL; i != NIL; i = a->tile[i].prev)
            if (a->tile[i].state == TILE_FREE && a->tile[i].lane != VS_ARENA_ANY) {
                a->tile[i].seq = seq;
                vs_tile_list(a, i);
            }
}

static void begin(struct vs_arena *a, uint32_t lane)
{
    struct lane *l = &a->lane[lane];
    l->open = true;
    l->patience = 1;
    a->open |= bit_of(lane);
    a->lanes++;
    a->stats.lanes++;
    for (uint32_t q = 0; q < LANES; q++)
        a->seen[q][lane] = q == VS_ARENA_ANY ? UINT64_MAX : a->lane[q].done;
}

int vs_lane_begin(struct vs_arena *a, uint32_t lane)
{
    if (a->lane[lane].open)
        return 0;
    if (a->lanes == 1)
        stamp_holes(a, stamp_idle(a));
    begin(a, lane);
    return 0;
}

/* Its stream is gone, and its frees are all complete, for everyone. */
static bool is_over(const struct vs_arena *a, uint32_t lane)
{
    const struct lane *l = &a->lane[lane];
    bool over = l->retired && l->done >= l->freed;
    for (uint32_t q = 1; over && q < LANES; q++)
        over =
            q == lane || a->seen[q][lane] <= a->lane[q].done; /* what it waited for, the next one has not */
    return over;
}

/* ALONE: no view may have granules of it. */
static uint32_t find_over(struct vs_arena *a, bool alone)
{
    for (uint32_t i = 1; i < LANES; i++)
        if (is_over(a, i) && (!alone || vs_trim_views(a, i) == 0))
            return i;
    return NIL;
}

static bool any_retired(const struct vs_arena *a)
{
    bool any = false;
    for (uint32_t i = 1; i < LANES; i++)
        any = any || a->lane[i].retired;
    return any;
}

static uint32_t find_lane(struct vs_arena *a, bool alone)
{
    uint32_t lane = alone ? NIL : find_over(a, false);
    for (uint32_t i = 1; lane == NIL && i < LANES; i++)
        if (!a->lane[i].open)
            lane = i;
    if (lane == NIL && alone)
        lane = find_over(a, true);
    if (lane == NIL && any_retired(a) && vs_settle(a) == 0) /* else a wait would give none back */
        lane = find_over(a, alone);
    return lane;
}

int vs_arena_open_lane(struct vs_arena *a, uint64_t stream, unsigned flags, uint32_t *lane)
{
    if (!vs_enter(a))
        return VS_BACKING_NOT_INITIALIZED;
    bool plain = flags & VS_LANE_PLAIN || a->config.plain, private = flags & VS_LANE_PRIVATE;
    uint32_t found = find_lane(a, plain || private);
    if (found != NIL) {
        struct lane *l = &a->lane[found];
        l->stream = stream;
        l->retired = false;
        l->private = private;
        l->plain = plain;
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
        a->lane[lane].freed = ++a->seq_now; /* its work up to now may use blocks of others */
        vs_order_mark(a, lane);             /* the last that can be made */
        a->lane[lane].retired = true;
        a->lane[lane].private = a->lane[lane].plain = false;
    }
    vs_leave(a);
}
