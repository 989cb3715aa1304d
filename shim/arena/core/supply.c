/* supply.c - creates chunks: at the top of a heap, or where some were given back. */
#include "internal.h"

#include <string.h>

int vs_supply_window(struct vs_arena *a, uint32_t heap)
{
    struct heap *h = &a->heap[heap];
    int status = h->base ? 0 : a->backing.reserve(a->backing.context, place_of(a, h->limit), &h->base);
    /* alias mappings can do with fewer addresses: where these are scarce, each try asks for half as many */
    while (status != 0 && heap == ALIASES && h->limit > a->heap[0].limit) {
        h->limit /= 2;
        status = a->backing.reserve(a->backing.context, place_of(a, h->limit), &h->base);
    }
    return status;
}

struct spot {
    uint32_t slot, count; /* what to create, and where */
    bool vacant, tail;    /* with the free extent below it */
};

/* Chooses between the top of the heap, together with the free extent there, and the smallest vacant place
 * that is large enough: whichever needs fewer new chunks. */
static struct spot find_spot(const struct vs_arena *a, uint32_t heap, uint32_t queue, uint64_t size,
                             bool tail)
{
    const struct heap *h = &a->heap[heap];
    const struct extent *last = h->top ? &a->extent[h->last] : NULL;
    bool usable = last && last->state == EXTENT_FREE && (last->queue == queue || last->queue == VS_ARENA_ANY);
    uint64_t free_extent = RULE(TAIL) && tail && usable && last->size < size ? last->size : 0;
    struct spot top = {h->first + h->top, chunks_for(a, size - free_extent), false, tail};
    uint32_t count = chunks_for(a, size), vacant = vs_free_extents_fit(a, h->vacant, place_of(a, count));
    bool full = h->top + (uint64_t)top.count > h->limit;
    if (vacant != NIL && ((tail && (count <= top.count || !RULE(VACANT))) || full))
        return (struct spot){slot_of(a, a->extent[vacant].at), count, true, tail};
    if (full)
        top.count = 0;
    return top;
}

uint32_t vs_supply_need(const struct vs_arena *a, uint32_t heap, uint32_t queue, uint64_t size)
{
    struct spot spot = find_spot(a, heap, queue, size, true);
    return spot.count ? spot.count : chunks_for(a, size);
}

/* A chunk that is created in vain costs 30 us, and a request that does not fit is tried several times, so the
 * driver is asked how much is free before many are created.  What its own pools cache does not count as free:
 * the driver serves the request from that when the arena cannot. */
#define WORTH_ASKING 8
#define ANSWERS      16 /* that one figure gives, where it is too little for a headroom: blocks go instead */

bool vs_supply_has_room(struct vs_arena *a, uint32_t count, uint64_t headroom)
{
    const struct vs_backing *b = &a->backing;
    struct full *f = &a->full;
    uint64_t left = UINT64_MAX, need = place_of(a, count) + headroom;
    if (!RULE(ASK_ROOM) || (count < WORTH_ASKING && !headroom) || !b->room)
        return true;
    if (headroom && f->answers && f->released == a->stats.released && need > f->left) {
        f->answers--;
        return false;
    }
    bool room = b->room(b->context, &left) != 0 || need <= left;
    *f = (struct full){left, a->stats.released, room ? 0 : ANSWERS};
    return room;
}

void vs_arena_headroom(struct vs_arena *a, uint64_t bytes)
{
    if (!vs_enter(a))
        return;
    a->config.headroom = bytes;
    vs_leave(a);
}

/* Undoes a creation that failed, but for the MAPPED bytes.  Returns how many chunks they are. */
static uint32_t uncreate(struct vs_arena *a, uint32_t slot, uint64_t mapped, uint32_t created)
{
    uint32_t stay = slot_of(a, mapped);
    vs_handles_release(a, (struct run){slot + stay, created - stay});
    return stay;
}

/* After an error *STUCK says how many chunks were created and can neither be used nor given back. */
static int create(struct vs_arena *a, uint32_t slot, uint32_t count, uint32_t *stuck)
{
    uint64_t done = 0;
    uint32_t created = 0;
    int status = 0;
    for (struct run one = {slot, 1}; created < count && status == 0; one.first++) {
        status = vs_handle_create(a, one);
        created += status == 0;
        if (status == 0)
            status = vs_handles_map(a, place_of(a, slot), one, &done);
    }
    status = vs_handles_mapped(a, place_of(a, slot), status, &done);
    if (status != 0)
        *stuck = uncreate(a, slot, done, created);
    return status;
}

/* Notes that chunks are created which had been given back unasked (trim.c). */
static void regret(struct vs_arena *a, uint32_t count)
{
    struct surplus *s = &a->surplus;
    s->regretted = RULE(REGRET);
    s->spare = 0;
    s->given -= count < s->given ? count : s->given;
}

void vs_supply_count(struct vs_arena *a, uint64_t count, uint64_t mappings)
{
    struct vs_arena_stats *s = &a->stats;
    s->created += count;
    s->reserved += count << a->shift;
    vs_reserved_changed(a);
    s->mappings += mappings;
    if (s->reserved > s->peak_reserved)
        s->peak_reserved = s->reserved;
    if (s->reserved > s->high_reserved)
        s->high_reserved = s->reserved;
    if (s->mappings > s->peak_mappings)
        s->peak_mappings = s->mappings;
}

static void account(struct vs_arena *a, uint32_t slot, uint32_t count)
{
    for (uint32_t g = slot; g < slot + count; g++) {
        a->users[g] = 0;
        a->seq[g] = 0;
        a->atom_of[g] = 0;
    }
    memset(a->used + slot, 0, count);
    vs_chunks_idle_from(a, slot);
    if (a->surplus.given)
        regret(a, count);
    vs_idle_changed(a, count);
    vs_supply_count(a, count, count);
}

/* Created chunks become a free extent. */
static void open_up(struct vs_arena *a, uint32_t heap, uint32_t queue, struct spot spot)
{
    account(a, spot.slot, spot.count);
    if (spot.vacant)
        vs_extent_change(a, spot.slot, spot.count, EXTENT_FREE, VS_ARENA_ANY);
    else if (spot.tail)
        vs_extent_append(a, heap, spot.count, EXTENT_FREE, queue);
    else
        vs_extent_append_apart(a, heap, spot.count, queue);
}

void vs_supply_shut_off(struct vs_arena *a, uint32_t slot, uint32_t count)
{
    uint64_t from = place_of(a, slot), to = from + place_of(a, count);
    uint32_t extent = vs_extent_at(a, from);
    vs_extent_take(a, extent);
    if (a->extent[extent].at < from) {
        uint32_t stuck = vs_extent_cut(a, extent, from);
        a->extent[stuck].state = EXTENT_USED;
        vs_extent_give(a, extent, EXTENT_FREE);
        extent = stuck;
    }
    a->extent[extent].state = EXTENT_USED;
    if (a->extent[extent].at + a->extent[extent].size > to)
        vs_extent_give(a, vs_extent_cut(a, extent, to), EXTENT_FREE);
    vs_chunks_claim(a, slot, slot + count);
    a->stats.lost += count;
}

void vs_supply_give_up(struct vs_arena *a, uint64_t place, uint32_t count)
{
    uint64_t end = place + place_of(a, count);
    for (uint32_t i = vs_extent_at(a, place); i != NIL && a->extent[i].at < end; i = a->extent[i].next)
        a->extent[i].is_broken = true;
    a->stats.lost += count;
}

void vs_supply_lose_home(struct vs_arena *a, uint32_t chunk)
{
    if (is_parked_at_home(a, chunk)) {
        vs_supply_give_up(a, place_of(a, chunk), 1);
        return;
    }
    vs_extent_change(a, chunk, 1, EXTENT_FREE, VS_ARENA_ANY); /* hidden or not */
    vs_supply_shut_off(a, chunk, 1);
}

static int supply(struct vs_arena *a, uint32_t heap, uint32_t queue, struct spot spot)
{
    uint32_t stuck = 0;
    uint64_t headroom = heap == SHARED || heap == VS_ARENA_ANY ? a->config.headroom : 0; /* large blocks */
    if (!spot.count || !vs_supply_has_room(a, spot.count, headroom) || vs_supply_window(a, heap) != 0 ||
        vs_extents_reserve(a, a->stats.blocks + 1, a->live_aliases, a->primary_top + (uint64_t)spot.count) !=
            0)
        return VS_BACKING_OUT_OF_MEMORY;
    if (!spot.vacant)
        memset(a->used + spot.slot, ABSENT, spot.count);
    int status = create(a, spot.slot, spot.count, &stuck);
    if (status == 0)
        open_up(a, heap, queue, spot);
    if (status != 0 && stuck) { /* their addresses cannot be mapped again */
        open_up(a, heap, queue, (struct spot){spot.slot, stuck, spot.vacant, spot.tail});
        vs_supply_shut_off(a, spot.slot, stuck);
    }
    return status;
}

int vs_supply_grow(struct vs_arena *a, uint32_t heap, uint32_t queue, uint64_t size, bool tail)
{
    return supply(a, heap, queue, find_spot(a, heap, queue, size, tail));
}

int vs_supply_again(struct vs_arena *a, struct run chunks)
{
    uint32_t heap = heap_of(a, chunks.first), end = a->heap[heap].first + a->heap[heap].top;
    if (chunks.first > end) /* the heap ends below */
        return VS_BACKING_OUT_OF_MEMORY;
    return supply(a, heap, VS_ARENA_ANY, (struct spot){chunks.first, chunks.count, chunks.first < end, true});
}

int vs_supply_more(struct vs_arena *a, uint32_t heap, uint32_t count)
{
    const struct heap *h = &a->heap[heap];
    struct spot top = {h->first + h->top, count, false, true};
    uint32_t vacant = vs_free_extents_fit(a, h->vacant, place_of(a, count));
    if (vacant != NIL)
        top = (struct spot){slot_of(a, a->extent[vacant].at), count, true, true};
    else if (h->top + (uint64_t)count > h->limit)
        top.count = 0;
    return supply(a, heap, VS_ARENA_ANY, top);
}
