/*
 * supply.c - creating granules: at the top of a heap, or where some were given back.
 */
#include "internal.h"

#include <string.h>

int vs_supply_window(struct vs_arena *a, uint32_t heap)
{
    struct heap *h = &a->heap[heap];
    int status = h->base ? 0 : a->backing.reserve(a->backing.context, place_of(a, h->limit), &h->base);
    /* views do with less: where addresses are scarce, each try is for half as many */
    while (status != 0 && heap == ALIASES && h->limit > a->heap[0].limit) {
        h->limit /= 2;
        status = a->backing.reserve(a->backing.context, place_of(a, h->limit), &h->base);
    }
    return status;
}

struct spot {
    uint32_t slot, count; /* what to create, and where */
    bool vacant, tail;    /* with the hole below it */
};

/* Behind the hole at the top, or in the smallest vacant place: what needs fewer granules. */
static struct spot find_spot(const struct vs_arena *a, uint32_t heap, uint32_t lane, uint64_t size, bool tail)
{
    const struct heap *h = &a->heap[heap];
    const struct tile *last = h->top ? &a->tile[h->last] : NULL;
    bool usable = last && last->state == TILE_FREE && (last->lane == lane || last->lane == VS_ARENA_ANY);
    uint64_t hole = RULE(TAIL) && tail && usable && last->size < size ? last->size : 0;
    struct spot top = {h->first + h->top, granules_for(a, size - hole), false, tail};
    uint32_t count = granules_for(a, size), vacant = vs_holes_fit(a, h->vacant, place_of(a, count));
    bool full = h->top + (uint64_t)top.count > h->limit;
    if (vacant != NIL && ((tail && (count <= top.count || !RULE(VACANT))) || full))
        return (struct spot){slot_of(a, a->tile[vacant].at), count, true, tail};
    if (full)
        top.count = 0;
    return top;
}

uint32_t vs_supply_need(const struct vs_arena *a, uint32_t heap, uint32_t lane, uint64_t size)
{
    struct spot spot = find_spot(a, heap, lane, size, true);
    return spot.count ? spot.count : granules_for(a, size);
}

/* Making many in vain takes 30 us each, and a request that does not fit is tried several times.  A cache
 * of the driver's does not count as free: it goes to the driver's own allocation, which the program gets in
 * our stead. */
#define WORTH_ASKING 8

static bool has_room(const struct vs_arena *a, uint32_t count)
{
    const struct vs_backing *b = &a->backing;
    uint64_t bytes;
    return !RULE(ASK_ROOM) || count < WORTH_ASKING || !b->room || b->room(b->context, &bytes) != 0 ||
           place_of(a, count) <= bytes;
}

/* Undoes what was done.  How many granules are still mapped: all that were, where unmapping fails. */
static uint32_t uncreate(struct vs_arena *a, uint32_t slot, uint32_t mapped, uint32_t created)
{
    const struct vs_backing *b = &a->backing;
    uint32_t stay = 0;
    if (mapped && b->unmap(b->context, address_of(a, place_of(a, slot)), place_of(a, mapped)) != 0)
        stay = mapped;
    for (uint32_t i = stay; i < created; i++)
        if (b->release(b->context, a->handle[slot + i]) != 0)
            a->stats.lost++;
    return stay;
}

/* *STUCK: how many were made and can neither be used nor undone. */
static int create(struct vs_arena *a, uint32_t slot, uint32_t count, uint32_t *stuck)
{
    const struct vs_backing *b = &a->backing;
    uint64_t address = address_of(a, place_of(a, slot));
    for (uint32_t i = 0; i < count; i++) {
        int status = b->create(b->context, &a->handle[slot + i]);
        bool created = status == 0;
        if (created)
            status = b->map(b->context, address + place_of(a, i), a->handle[slot + i]);
        if (status != 0) {
            *stuck = uncreate(a, slot, i, i + created);
            return status;
        }
    }
    int status = b->access(b->context, address, place_of(a, count), a->peers);
    if (status != 0)
        *stuck = uncreate(a, slot, count, count);
    return status;
}

/* What had been given back unasked is missed (surplus.c). */
static void regret(struct vs_arena *a, uint32_t count)
{
    struct surplus *s = &a->surplus;
    s->regretted = RULE(REGRET);
    s->spare = 0;
    s->given -= count < s->given ? count : s->given;
}

static void account(struct vs_arena *a, uint32_t slot, uint32_t count)
{
    struct vs_arena_stats *s = &a->stats;
    for (uint32_t g = slot; g < slot + count; g++) {
        a->users[g] = 0;
        a->seq[g] = 0;
        a->atom_of[g] = 0;
    }
    memset(a->used + slot, 0, count);
    if (a->surplus.given)
        regret(a, count);
    a->idle += count;
    s->created += count;
    s->reserved += place_of(a, count);
    vs_reserved_changed(a);
    s->mappings += count;
    if (s->reserved > s->peak_reserved)
        s->peak_reserved = s->reserved;
    if (s->reserved > s->high_reserved)
        s->high_reserved = s->reserved;
    if (s->mappings > s->peak_mappings)
        s->peak_mappings = s->mappings;
}

/* Created granules become a hole. */
static void open_up(struct vs_arena *a, uint32_t heap, uint32_t lane, struct spot spot)
{
    account(a, spot.slot, spot.count);
    if (spot.vacant)
        vs_tile_change(a, spot.slot, spot.count, TILE_FREE, VS_ARENA_ANY);
    else if (spot.tail)
        vs_tile_append(a, heap, spot.count, TILE_FREE, lane);
    else
        vs_tile_append_apart(a, heap, spot.count, lane);
}

/* What is stuck stays out of use, like a block that nobody frees: its addresses cannot be mapped again. */
static void shut_off(struct vs_arena *a, uint32_t heap, uint32_t lane, struct spot spot)
{
    open_up(a, heap, lane, spot);
    uint64_t from = place_of(a, spot.slot), to = from + place_of(a, spot.count);
    uint32_t tile = vs_tile_at(a, from);
    vs_tile_take(a, tile);
    if (a->tile[tile].at < from) {
        uint32_t stuck = vs_tile_cut(a, tile, from);
        a->tile[stuck].state = TILE_USED;
        vs_tile_give(a, tile, TILE_FREE);
        tile = stuck;
    }
    a->tile[tile].state = TILE_USED;
    if (a->tile[tile].at + a->tile[tile].size > to)
        vs_tile_give(a, vs_tile_cut(a, tile, to), TILE_FREE);
    vs_granules_claim(a, spot.slot, spot.slot + spot.count, NIL);
    a->stats.lost += spot.count;
}

static int supply(struct vs_arena *a, uint32_t heap, uint32_t lane, struct spot spot)
{
    uint32_t stuck = 0;
    if (!spot.count || !has_room(a, spot.count) || vs_supply_window(a, heap) != 0 ||
        vs_tiles_reserve(a, a->stats.blocks + 1, a->live_views, a->home_tiles_top + (uint64_t)spot.count) !=
            0)
        return VS_BACKING_OUT_OF_MEMORY;
    if (!spot.vacant)
        memset(a->used + spot.slot, ABSENT, spot.count);
    int status = create(a, spot.slot, spot.count, &stuck);
    if (status == 0)
        open_up(a, heap, lane, spot);
    else if (stuck)
        shut_off(a, heap, lane, (struct spot){spot.slot, stuck, spot.vacant, spot.tail});
    return status;
}

int vs_supply_grow(struct vs_arena *a, uint32_t heap, uint32_t lane, uint64_t size, bool tail)
{
    return supply(a, heap, lane, find_spot(a, heap, lane, size, tail));
}

int vs_supply_more(struct vs_arena *a, uint32_t heap, uint32_t count)
{
    const struct heap *h = &a->heap[heap];
    struct spot top = {h->first + h->top, count, false, true};
    uint32_t vacant = vs_holes_fit(a, h->vacant, place_of(a, count));
    if (vacant != NIL)
        top = (struct spot){slot_of(a, a->tile[vacant].at), count, true, true};
    else if (h->top + (uint64_t)count > h->limit)
        top.count = 0;
    return supply(a, heap, VS_ARENA_ANY, top);
}
