/*
 * sharing.c - whose a hole is, and what must be waited for before it is used.
 *
 * All lanes share the holes of a heap.  What a lane frees is left to it at first: it goes on in the order of
 * its stream and need not wait.  After some more frees, or as soon as a request misses, the hole is all
 * lanes', and joins its neighbours.  Both happen at points that the program's own calls determine, however
 * far the device is: so a loop that repeats itself finds the same holes again.
 *
 * A hole knows whose frees ended the last uses of its bytes, and the number of the latest: that is what
 * another lane must know to be complete, or wait for.  Holes that are joined need what each of them needs.
 */
#include "internal.h"

#define TRIES      16   /* holes that are looked at where the best one can not be waited for */
#define EVEN_SHARE 1024 /* of the live peak, for beginning where granules do */

/* ---- taking and freeing ---- */

/* The granules of a hole that a part of it touches and that lie wholly in the hole. */
static struct run granules_of(const struct vs_arena *a, const struct tile *hole, uint64_t from, uint64_t to)
{
    uint32_t whole_first = slot_of(a, hole->at + granule_bytes(a) - 1),
             whole_end = slot_of(a, hole->at + hole->size);
    uint32_t first = slot_of(a, from), end = slot_of(a, to - 1) + 1;
    first = first < whole_first ? whole_first : first;
    end = end > whole_end ? whole_end : end;
    return (struct run){first, first < end ? end - first : 0};
}

/* Bytes of granules in which something lives that are no block's, while SIZE bytes count as live already. */
static uint64_t partly_used(const struct vs_arena *a, uint64_t size)
{
    uint64_t used = a->stats.reserved - (a->idle << a->shift), live = a->stats.allocated - size;
    return used > live ? used - live : 0;
}

/* Where in the hole the block begins.  One of whole granules that began within one would, once it is freed
 * between two others, leave one granule less idle than it took: behind one odd block all that follow would.
 * So it begins where a granule does, if nothing of the hole is then left above it, and as long as what lies
 * below such blocks is next to nothing. */
static uint64_t begin_in(const struct vs_arena *a, const struct tile *hole, uint64_t size)
{
    uint64_t mask = granule_bytes(a) - 1, even = (hole->at + mask) & ~mask;
    if (!RULE(EVEN) || size & mask || even == hole->at || even + size != hole->at + hole->size)
        return hole->at;
    return partly_used(a, size) <= a->wanted / EVEN_SHARE ? even : hole->at;
}

uint32_t vs_hole_take(struct vs_arena *a, uint32_t hole, uint64_t size)
{
    struct tile *t = &a->tile[hole];
    uint64_t from = begin_in(a, t, size), to = t->at + t->size;
    struct run used = granules_of(a, t, from, from + size);
    uint32_t block = hole;
    vs_tile_take(a, hole);
    if (from > t->at) {
        block = vs_tile_cut(a, hole, from);
        vs_tile_put(a, hole);
    }
    uint32_t rest = from + size < to ? vs_tile_cut(a, block, from + size) : NIL;
    a->tile[block].state = TILE_USED;
    a->tile[block].others = 0;
    if (rest != NIL)
        vs_tile_put(a, rest);
    if (used.count)
        vs_granules_claim(a, used.first, used.first + used.count, NIL);
    return block;
}

void vs_hole_free(struct vs_arena *a, uint32_t tile, uint32_t lane)
{
    struct tile *t = &a->tile[tile];
    uint64_t from = t->at, to = from + t->size;
    t->lane = (uint8_t)lane;
    t->seq = a->seq_now;
    t->waits = 0;
    struct run idle = granules_of(a, t, from, to);
    if (idle.count)
        vs_granules_release(a, idle.first, idle.first + idle.count, users_of(lane), a->seq_now, NIL);
    vs_tile_give(a, tile, TILE_FREE);
}

/* ---- sharing ---- */

static void share(struct vs_arena *a, uint32_t tile)
{
    struct tile *t = &a->tile[tile];
    vs_tile_take(a, tile);
    t->waits |= bit_of(t->lane);
    t->lane = VS_ARENA_ANY;
    vs_tile_give(a, tile, TILE_FREE);
}

void vs_holes_share(struct vs_arena *a, uint64_t keep)
{
    while (a->oldest_hole != NIL && a->tile[a->oldest_hole].seq + keep <= a->seq_now)
        share(a, a->oldest_hole);
}

/* ---- finding ---- */

/* The smaller one of what is left to the lane and what is all lanes'. */
static uint32_t best(const struct vs_arena *a, uint32_t heap, uint32_t lane, uint64_t size)
{
    const struct heap *h = &a->heap[heap];
    uint32_t any = vs_holes_fit(a, &h->free[VS_ARENA_ANY], size);
    uint32_t own = lane == VS_ARENA_ANY ? NIL : vs_holes_fit(a, &h->free[lane], size);
    if (own == NIL || any == NIL || !RULE(SMALLER_OF_TWO))
        return own == NIL ? any : own;
    return a->tile[any].size < a->tile[own].size ? any : own;
}

/* Where the lane can not wait: the next larger ones. */
static uint32_t find_ready(const struct vs_arena *a, uint32_t heap, uint32_t lane, uint64_t size)
{
    for (int i = 0; i < (RULE(FIND_READY) ? TRIES : 0); i++) {
        uint64_t need[LANES] = {0};
        uint32_t hole = best(a, heap, lane, size);
        if (hole == NIL || !vs_order_need(a, lane, a->tile[hole].waits, a->tile[hole].seq, need))
            return hole;
        size = a->tile[hole].size + VS_ARENA_UNIT;
    }
    return NIL;
}

/* Whether the lane knows, or is made to wait, that all in the hole is done. */
static bool make_ready(struct vs_arena *a, uint32_t hole, uint32_t lane)
{
    const struct tile *t = &a->tile[hole];
    uint64_t need[LANES] = {0};
    return !vs_order_need(a, lane, t->waits, t->seq, need) || vs_order_wait(a, lane, need) == 0;
}

bool vs_hole_at_top(struct vs_arena *a, uint32_t heap, uint32_t lane)
{
    const struct heap *h = &a->heap[heap];
    return !h->top || a->tile[h->last].state != TILE_FREE || make_ready(a, h->last, lane);
}

uint32_t vs_hole_find(struct vs_arena *a, uint32_t heap, uint32_t lane, uint64_t size)
{
    uint32_t hole = best(a, heap, lane, size);
    if (__builtin_expect(hole == NIL || !(a->tile[hole].waits & ~bit_of(lane)), 1))
        return hole;
    return make_ready(a, hole, lane) ? hole : find_ready(a, heap, lane, size);
}
