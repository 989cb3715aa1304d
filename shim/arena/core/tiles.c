/*
 * tiles.c - what lies where in a window: tiles are cut, joined and found.
 *
 * Neighbours are linked.  To find the tile that holds a place, each slot knows the last tile that begins in
 * it, and a 64-ary tree of bits tells which slots have one: the nearest such slot at or below the place leads
 * to the tile in a step or two.  Holes of a kind that touch each other are one tile.
 */
#include "internal.h"

#include <string.h>

/* ---- which slots have beginnings ---- */

static void mark_slot(struct vs_arena *a, uint32_t slot)
{
    for (int level = 0; level < LEVELS; level++, slot >>= 6) {
        uint64_t *word = &a->starting[level][slot >> 6], was = *word;
        *word = was | 1ull << (slot & 63);
        if (was)
            return; /* those above know */
    }
}

static void unmark_slot(struct vs_arena *a, uint32_t slot)
{
    for (int level = 0; level < LEVELS; level++, slot >>= 6) {
        uint64_t *word = &a->starting[level][slot >> 6];
        *word &= ~(1ull << (slot & 63));
        if (*word)
            return;
    }
}

static uint32_t highest(uint64_t word)
{
    return 63 - (uint32_t)__builtin_clzll(word);
}

/* The nearest slot with a beginning, at or below; one there is, since the first slot of a tiled window has.
 */
static uint32_t slot_below(const struct vs_arena *a, uint32_t slot)
{
    for (int level = 0; level < LEVELS; level++) {
        uint64_t word = a->starting[level][slot >> 6] & (~0ull >> (63 - (slot & 63)));
        if (word) {
            slot = (slot & ~63u) | highest(word);
            while (level--)
                slot = slot << 6 | highest(a->starting[level][slot]);
            return slot;
        }
        if (slot >> 6 == 0)
            return NIL;
        slot = (slot >> 6) - 1;
    }
    return NIL;
}

static void begins(struct vs_arena *a, uint32_t tile)
{
    const struct tile *t = &a->tile[tile];
    uint32_t slot = slot_of(a, t->at);
    if (t->next == NIL || slot_of(a, a->tile[t->next].at) != slot) {
        a->starts[slot] = tile;
        mark_slot(a, slot);
    }
}

static void begins_no_more(struct vs_arena *a, uint32_t tile)
{
    const struct tile *t = &a->tile[tile];
    uint32_t slot = slot_of(a, t->at);
    if (a->starts[slot] != tile)
        return;
    if (t->prev != NIL && slot_of(a, a->tile[t->prev].at) == slot)
        a->starts[slot] = t->prev;
    else
        unmark_slot(a, slot);
}

uint32_t vs_tile_at(const struct vs_arena *a, uint64_t place)
{
    uint32_t tile = a->starts[slot_below(a, slot_of(a, place))];
    while (a->tile[tile].at > place)
        tile = a->tile[tile].prev;
    return tile;
}

/* ---- tiles ---- */

int vs_tiles_reserve(struct vs_arena *a, uint64_t blocks, uint64_t views, uint64_t slots)
{
    /* a bound of a tile is that of a block, of a hole that is left to its lane (a block, until its free), of
     * a view's addresses, or of a slot */
    uint64_t most = 2 * (blocks + a->holes_listed) + 2 * views + slots + HEAPS + 8;
    if (__builtin_expect(most <= a->tile_room, 1))
        return 0;
    if (most >= NIL)
        return -1;
    return vs_meta_fit(&a->meta, (void **)&a->tile, &a->tile_room, sizeof *a->tile, (uint32_t)most);
}

static uint32_t take(struct vs_arena *a)
{
    uint32_t tile = a->spare_tiles;
    if (tile != NIL)
        a->spare_tiles = a->tile[tile].next;
    else
        tile = a->tiles++;
    return tile;
}

static struct holes *holes_of(struct vs_arena *a, const struct tile *t)
{
    struct heap *h = &a->heap[t->heap];
    return t->state == TILE_FREE ? &h->free[t->lane] : t->state == TILE_VACANT ? h->vacant : NULL;
}

/* Among those that are left to a lane; while there is only one, nobody asks. */
static bool is_listed(const struct vs_arena *a, const struct tile *t)
{
    return t->state == TILE_FREE && t->lane != VS_ARENA_ANY && a->lanes > 1;
}

void vs_tile_list(struct vs_arena *a, uint32_t tile)
{
    struct tile *t = &a->tile[tile];
    t->older = a->newest_hole;
    t->newer = NIL;
    *(t->older == NIL ? &a->oldest_hole : &a->tile[t->older].newer) = tile;
    a->newest_hole = tile;
    a->holes_listed++;
}

static void unlist(struct vs_arena *a, uint32_t tile)
{
    const struct tile *t = &a->tile[tile];
    a->holes_listed--;
    *(t->older == NIL ? &a->oldest_hole : &a->tile[t->older].newer) = t->newer;
    *(t->newer == NIL ? &a->newest_hole : &a->tile[t->newer].older) = t->older;
}

void vs_tile_take(struct vs_arena *a, uint32_t tile)
{
    struct holes *holes = holes_of(a, &a->tile[tile]);
    if (holes)
        vs_holes_remove(a, holes, tile);
    if (is_listed(a, &a->tile[tile]))
        unlist(a, tile);
}

static bool is_hole(enum tile_state state)
{
    return state == TILE_FREE || state == TILE_SHADOW || state == TILE_VACANT;
}

/* The upper one of two neighbours becomes part of the lower. */
static void join(struct vs_arena *a, uint32_t lower, uint32_t upper)
{
    struct tile *l = &a->tile[lower], *u = &a->tile[upper];
    begins_no_more(a, upper);
    l->size += u->size;
    l->next = u->next;
    if (u->next != NIL)
        a->tile[u->next].prev = lower;
    else
        a->heap[l->heap].last = lower;
    u->state = 0;
    u->next = a->spare_tiles;
    a->spare_tiles = upper;
}

void vs_tile_put(struct vs_arena *a, uint32_t tile)
{
    struct holes *holes = holes_of(a, &a->tile[tile]);
    if (holes)
        vs_holes_insert(a, holes, tile);
    if (is_listed(a, &a->tile[tile]))
        vs_tile_list(a, tile);
}

/* Whether a neighbour becomes part of a new hole: one of a lane takes in what is all lanes', not the reverse.
 */
static bool joins(const struct vs_arena *a, uint32_t neighbour, const struct tile *hole)
{
    if (neighbour == NIL || a->tile[neighbour].state != hole->state)
        return false;
    uint8_t lane = a->tile[neighbour].lane;
    return hole->state != TILE_FREE || lane == hole->lane || lane == VS_ARENA_ANY;
}

/* Two neighbours, of which NEW is in no tree, become one that is in none.  What must be waited for in one of
 * them must be in both. */
static void unite(struct vs_arena *a, uint32_t lower, uint32_t upper, uint32_t new)
{
    struct tile *l = &a->tile[lower], *u = &a->tile[upper];
    uint64_t bound = u->at;
    vs_tile_take(a, new == lower ? upper : lower);
    l->lane = a->tile[new].lane;
    l->seq = l->seq < u->seq ? u->seq : l->seq;
    l->waits |= u->waits;
    join(a, lower, upper);
    if (l->state == TILE_FREE && l->heap != ALIASES)
        vs_granules_joined(a, l, bound);
}

uint32_t vs_tile_give(struct vs_arena *a, uint32_t tile, enum tile_state state)
{
    a->tile[tile].state = (uint8_t)state;
    if (!is_hole(state))
        return tile;
    for (uint32_t next; joins(a, next = a->tile[tile].next, &a->tile[tile]);)
        unite(a, tile, next, tile);
    for (uint32_t prev; joins(a, prev = a->tile[tile].prev, &a->tile[tile]); tile = prev)
        unite(a, prev, tile, tile);
    vs_tile_put(a, tile);
    return tile;
}

uint32_t vs_tile_cut(struct vs_arena *a, uint32_t tile, uint64_t place)
{
    uint32_t upper = take(a);
    struct tile *l = &a->tile[tile], *u = &a->tile[upper];
    *u = (struct tile){.at = place,
                       .size = l->at + l->size - place,
                       .prev = tile,
                       .next = l->next,
                       .seq = l->seq,
                       .view = NIL,
                       .waits = l->waits,
                       .state = l->state,
                       .heap = l->heap,
                       .lane = l->lane};
    l->size = place - l->at;
    l->next = upper;
    if (u->next != NIL)
        a->tile[u->next].prev = upper;
    else
        a->heap[u->heap].last = upper;
    begins(a, upper);
    return upper;
}

static uint32_t append(struct vs_arena *a, uint32_t heap, uint32_t slots)
{
    struct heap *h = &a->heap[heap];
    uint32_t tile = take(a), below = h->top ? h->last : NIL;
    a->tile[tile] = (struct tile){.at = place_of(a, h->first + h->top),
                                  .size = place_of(a, slots),
                                  .prev = below,
                                  .next = NIL,
                                  .view = NIL,
                                  .heap = (uint8_t)heap};
    if (below != NIL)
        a->tile[below].next = tile;
    h->last = tile;
    h->top += slots;
    if (heap != ALIASES)
        a->home_tiles_top += slots;
    begins(a, tile);
    return tile;
}

uint32_t vs_tile_append(struct vs_arena *a, uint32_t heap, uint32_t slots, enum tile_state state,
                        uint32_t lane)
{
    uint32_t tile = append(a, heap, slots), below = a->tile[tile].prev;
    if (below != NIL && a->tile[below].state == TILE_FREE && a->tile[below].lane == lane)
        a->tile[tile].lane = (uint8_t)lane;
    return vs_tile_give(a, tile, state);
}

void vs_tile_append_apart(struct vs_arena *a, uint32_t heap, uint32_t slots, uint32_t lane)
{
    uint32_t tile = append(a, heap, slots);
    a->tile[tile].state = TILE_FREE;
    a->tile[tile].lane = (uint8_t)lane;
    vs_tile_put(a, tile);
}

/* A vacant tile at the top is no part of the heap any more. */
static void lower_top(struct vs_arena *a, uint32_t heap)
{
    struct heap *h = &a->heap[heap];
    struct tile *t = h->top ? &a->tile[h->last] : NULL;
    if (!t || t->state != TILE_VACANT)
        return;
    uint32_t tile = h->last, slots = slot_of(a, t->size);
    vs_tile_take(a, tile);
    begins_no_more(a, tile);
    h->top -= slots;
    a->home_tiles_top -= slots;
    h->last = t->prev;
    if (t->prev != NIL)
        a->tile[t->prev].next = NIL;
    t->state = 0;
    t->next = a->spare_tiles;
    a->spare_tiles = tile;
}

/* What of one tile lies between two bounds of slots. */
static void change_part(struct vs_arena *a, uint32_t tile, uint64_t from, uint64_t to, enum tile_state state,
                        uint32_t lane)
{
    uint32_t whole = tile;
    vs_tile_take(a, tile);
    if (a->tile[tile].at < from)
        whole = vs_tile_cut(a, tile, from);
    uint32_t above = a->tile[whole].at + a->tile[whole].size > to ? vs_tile_cut(a, whole, to) : NIL;
    if (above != NIL)
        vs_tile_put(a, above);
    if (whole != tile)
        vs_tile_put(a, tile);
    a->tile[whole].lane = (uint8_t)lane;
    a->tile[whole].seq = a->seq_now;
    a->tile[whole].waits = 0;
    vs_tile_give(a, whole, state);
}

void vs_tile_change(struct vs_arena *a, uint32_t slot, uint32_t count, enum tile_state state, uint32_t lane)
{
    uint64_t from = place_of(a, slot), to = place_of(a, slot + count);
    while (from < to) {
        uint32_t tile = vs_tile_at(a, from);
        uint64_t end = a->tile[tile].at + a->tile[tile].size;
        end = end < to ? end : to;
        change_part(a, tile, from, end, state, lane);
        from = end;
    }
    if (state == TILE_VACANT)
        lower_top(a, heap_of(a, slot));
}
