/*
 * extents.c - what lies where in a window: extents are cut, joined and found.
 *
 * To find the extent that holds a place, each slot knows the last extent that begins in it, and a 64-ary tree
 * of bits tells which slots have one.  Free extents of a kind that touch each other are one extent.
 */
#include "internal.h"

#include <string.h>

/* ---- which slots have beginnings ---- */

static void note_start(struct vs_arena *a, uint32_t slot)
{
    for (int level = 0; level < LEVELS; level++, slot >>= 6) {
        uint64_t *word = &a->starting[level][slot >> 6], was = *word;
        *word = was | 1ull << (slot & 63);
        if (was)
            return; /* the levels above have their bits already */
    }
}

static void forget_start(struct vs_arena *a, uint32_t slot)
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

static void begins(struct vs_arena *a, uint32_t extent)
{
    const struct extent *t = &a->extent[extent];
    uint32_t slot = slot_of(a, t->at);
    if (t->next == NIL || slot_of(a, a->extent[t->next].at) != slot) {
        a->starts[slot] = extent;
        note_start(a, slot);
    }
}

static void begins_no_more(struct vs_arena *a, uint32_t extent)
{
    const struct extent *t = &a->extent[extent];
    uint32_t slot = slot_of(a, t->at);
    if (a->starts[slot] != extent)
        return;
    if (t->prev != NIL && slot_of(a, a->extent[t->prev].at) == slot)
        a->starts[slot] = t->prev;
    else
        forget_start(a, slot);
}

uint32_t vs_extent_at(const struct vs_arena *a, uint64_t place)
{
    uint32_t extent = a->starts[slot_below(a, slot_of(a, place))];
    while (a->extent[extent].at > place)
        extent = a->extent[extent].prev;
    return extent;
}

/* ---- extents ---- */

int vs_extents_reserve(struct vs_arena *a, uint64_t blocks, uint64_t aliases, uint64_t slots)
{
    /* a bound of an extent is that of a block, of a free extent that is left to its queue (a block, until its
     * free), of an alias mapping's addresses, or of a slot */
    uint64_t most = 2 * (blocks + a->free_extents_listed) + 2 * aliases + slots + HEAPS + 8;
    if (__builtin_expect(most <= a->extent_room, 1))
        return 0;
    if (most >= NIL)
        return -1;
    return vs_meta_fit(&a->meta, (void **)&a->extent, &a->extent_room, sizeof *a->extent, (uint32_t)most);
}

static uint32_t take(struct vs_arena *a)
{
    uint32_t extent = a->spare_extents;
    if (extent != NIL)
        a->spare_extents = a->extent[extent].next;
    else
        extent = a->extents++;
    return extent;
}

static struct free_extents *free_extents_of(struct vs_arena *a, const struct extent *t)
{
    struct heap *h = &a->heap[t->heap];
    return t->state == EXTENT_FREE ? &h->free[t->queue] : t->state == EXTENT_VACANT ? h->vacant : NULL;
}

/* Whether the extent is in the list of free extents that are left to a queue.  While there is only one queue
 * no list is kept. */
static bool is_listed(const struct vs_arena *a, const struct extent *t)
{
    return t->state == EXTENT_FREE && t->queue != VS_ARENA_ANY && a->queues > 1;
}

void vs_extent_list(struct vs_arena *a, uint32_t extent)
{
    struct extent *t = &a->extent[extent];
    t->older = a->newest_free_extent;
    t->newer = NIL;
    *(t->older == NIL ? &a->oldest_free_extent : &a->extent[t->older].newer) = extent;
    a->newest_free_extent = extent;
    a->free_extents_listed++;
}

static void unlist(struct vs_arena *a, uint32_t extent)
{
    const struct extent *t = &a->extent[extent];
    a->free_extents_listed--;
    *(t->older == NIL ? &a->oldest_free_extent : &a->extent[t->older].newer) = t->newer;
    *(t->newer == NIL ? &a->newest_free_extent : &a->extent[t->newer].older) = t->older;
}

void vs_extent_take(struct vs_arena *a, uint32_t extent)
{
    struct free_extents *free_extents = free_extents_of(a, &a->extent[extent]);
    if (free_extents)
        vs_free_extents_remove(a, free_extents, extent);
    if (is_listed(a, &a->extent[extent]))
        unlist(a, extent);
}

static bool is_free_extent(enum extent_state state)
{
    return state == EXTENT_FREE || state == EXTENT_SHADOW || state == EXTENT_VACANT;
}

/* Makes UPPER a part of LOWER, its neighbour. */
static void join(struct vs_arena *a, uint32_t lower, uint32_t upper)
{
    struct extent *l = &a->extent[lower], *u = &a->extent[upper];
    begins_no_more(a, upper);
    l->size += u->size;
    l->next = u->next;
    if (u->next != NIL)
        a->extent[u->next].prev = lower;
    else
        a->heap[l->heap].last = lower;
    u->state = 0;
    u->next = a->spare_extents;
    a->spare_extents = upper;
}

void vs_extent_put(struct vs_arena *a, uint32_t extent)
{
    struct free_extents *free_extents = free_extents_of(a, &a->extent[extent]);
    if (free_extents)
        vs_free_extents_insert(a, free_extents, extent);
    if (is_listed(a, &a->extent[extent]))
        vs_extent_list(a, extent);
}

/* Whether a neighbour becomes part of a new free extent: one of a queue takes in what is all queues', not the
 * reverse.
 */
static bool joins(const struct vs_arena *a, uint32_t neighbour, const struct extent *free_extent)
{
    if (neighbour == NIL || a->extent[neighbour].state != free_extent->state)
        return false;
    uint8_t queue = a->extent[neighbour].queue;
    return free_extent->state != EXTENT_FREE || queue == free_extent->queue || queue == VS_ARENA_ANY;
}

/* Two neighbours, of which NEW is in no tree, become one that is in none.  What must be waited for in one of
 * them must be in both. */
static void unite(struct vs_arena *a, uint32_t lower, uint32_t upper, uint32_t new)
{
    struct extent *l = &a->extent[lower], *u = &a->extent[upper];
    uint64_t bound = u->at;
    vs_extent_take(a, new == lower ? upper : lower);
    l->queue = a->extent[new].queue;
    l->seq = l->seq < u->seq ? u->seq : l->seq;
    l->waits |= u->waits;
    join(a, lower, upper);
    if (l->state == EXTENT_FREE && l->heap != ALIASES)
        vs_chunks_joined(a, l, bound);
}

uint32_t vs_extent_give(struct vs_arena *a, uint32_t extent, enum extent_state state)
{
    a->extent[extent].state = (uint8_t)state;
    if (!is_free_extent(state))
        return extent;
    for (uint32_t next; joins(a, next = a->extent[extent].next, &a->extent[extent]);)
        unite(a, extent, next, extent);
    for (uint32_t prev; joins(a, prev = a->extent[extent].prev, &a->extent[extent]); extent = prev)
        unite(a, prev, extent, extent);
    vs_extent_put(a, extent);
    return extent;
}

uint32_t vs_extent_cut(struct vs_arena *a, uint32_t extent, uint64_t place)
{
    uint32_t upper = take(a);
    struct extent *l = &a->extent[extent], *u = &a->extent[upper];
    *u = (struct extent){.at = place,
                         .size = l->at + l->size - place,
                         .prev = extent,
                         .next = l->next,
                         .seq = l->seq,
                         .alias = NIL,
                         .waits = l->waits,
                         .state = l->state,
                         .heap = l->heap,
                         .queue = l->queue};
    l->size = place - l->at;
    l->next = upper;
    if (u->next != NIL)
        a->extent[u->next].prev = upper;
    else
        a->heap[u->heap].last = upper;
    begins(a, upper);
    return upper;
}

static uint32_t append(struct vs_arena *a, uint32_t heap, uint32_t slots)
{
    struct heap *h = &a->heap[heap];
    uint32_t extent = take(a), below = h->top ? h->last : NIL;
    a->extent[extent] = (struct extent){.at = place_of(a, h->first + h->top),
                                        .size = place_of(a, slots),
                                        .prev = below,
                                        .next = NIL,
                                        .alias = NIL,
                                        .heap = (uint8_t)heap};
    if (below != NIL)
        a->extent[below].next = extent;
    h->last = extent;
    h->top += slots;
    if (heap != ALIASES)
        a->primary_top += slots;
    begins(a, extent);
    return extent;
}

uint32_t vs_extent_append(struct vs_arena *a, uint32_t heap, uint32_t slots, enum extent_state state,
                          uint32_t queue)
{
    uint32_t extent = append(a, heap, slots), below = a->extent[extent].prev;
    if (below != NIL && a->extent[below].state == EXTENT_FREE && a->extent[below].queue == queue)
        a->extent[extent].queue = (uint8_t)queue;
    return vs_extent_give(a, extent, state);
}

void vs_extent_append_apart(struct vs_arena *a, uint32_t heap, uint32_t slots, uint32_t queue)
{
    uint32_t extent = append(a, heap, slots);
    a->extent[extent].state = EXTENT_FREE;
    a->extent[extent].queue = (uint8_t)queue;
    vs_extent_put(a, extent);
}

/* Takes a vacant extent at the top out of the heap. */
static void lower_top(struct vs_arena *a, uint32_t heap)
{
    struct heap *h = &a->heap[heap];
    struct extent *t = h->top ? &a->extent[h->last] : NULL;
    if (!t || t->state != EXTENT_VACANT)
        return;
    uint32_t extent = h->last, slots = slot_of(a, t->size);
    vs_extent_take(a, extent);
    begins_no_more(a, extent);
    h->top -= slots;
    a->primary_top -= slots;
    h->last = t->prev;
    if (t->prev != NIL)
        a->extent[t->prev].next = NIL;
    t->state = 0;
    t->next = a->spare_extents;
    a->spare_extents = extent;
}

/* Changes the part of one extent that lies between FROM and TO, which are bounds of slots. */
static void change_part(struct vs_arena *a, uint32_t extent, uint64_t from, uint64_t to,
                        enum extent_state state, uint32_t queue)
{
    uint32_t whole = extent;
    vs_extent_take(a, extent);
    if (a->extent[extent].at < from)
        whole = vs_extent_cut(a, extent, from);
    uint32_t above = a->extent[whole].at + a->extent[whole].size > to ? vs_extent_cut(a, whole, to) : NIL;
    if (above != NIL)
        vs_extent_put(a, above);
    if (whole != extent)
        vs_extent_put(a, extent);
    a->extent[whole].queue = (uint8_t)queue;
    a->extent[whole].seq = a->seq_now;
    a->extent[whole].waits = 0;
    vs_extent_give(a, whole, state);
}

void vs_extent_change(struct vs_arena *a, uint32_t slot, uint32_t count, enum extent_state state,
                      uint32_t queue)
{
    uint64_t from = place_of(a, slot), to = place_of(a, slot + count);
    while (from < to) {
        uint32_t extent = vs_extent_at(a, from);
        uint64_t end = a->extent[extent].at + a->extent[extent].size;
        end = end < to ? end : to;
        change_part(a, extent, from, end, state, queue);
        from = end;
    }
    if (state == EXTENT_VACANT)
        lower_top(a, heap_of(a, slot));
}
