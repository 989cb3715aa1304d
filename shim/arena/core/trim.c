/*
 * trim.c - giving granules back to the device.
 *
 * Only granules that are idle, and whose last use is done, can go, from the tops of the heaps down.  Every
 * mapping of them goes first: views are removed, or shortened where a live block needs only their beginning.
 */
#include "internal.h"

#include <string.h>

static bool can_go(const struct vs_arena *a, uint32_t granule)
{
    const struct tile *t;
    if (a->used[granule] || !vs_granule_complete(a, granule) || a->lane[home_lane(a, granule)].private)
        return false;
    t = &a->tile[vs_tile_at(a, place_of(a, granule))];
    return t->state == TILE_FREE;
}

static bool is_aliased(const struct vs_arena *a, uint32_t granule)
{
    return a->aliased[granule >> 6] >> (granule & 63) & 1;
}

/* How many granules of the view come before this one. */
static uint32_t position(const struct view *v, uint32_t granule)
{
    uint32_t before = 0;
    for (const struct run *r = v->run;; before += r->count, r++)
        if (granule >= r->first && granule < r->first + r->count)
            return before + granule - r->first;
}

/* Removes the granule from every view that has it: shortens those that are live, removes the others. */
static int unalias(struct vs_arena *a, uint32_t granule)
{
    while (is_aliased(a, granule)) {
        const struct atom *atom = &a->atom[a->atom_of[granule]];
        uint32_t view = atom->views[atom->used - 1];
        struct view *v = &a->view[view];
        if (!vs_view_complete(a, v))
            return VS_BACKING_NOT_READY;
        int status = vs_view_shorten(a, view, v->claimed ? position(v, granule) : 0);
        if (status != 0)
            return status;
    }
    return 0;
}

int vs_trim_views(struct vs_arena *a, uint32_t lane)
{
    for (uint32_t heap = 2 * lane; heap < 2 * lane + 2; heap++) {
        const struct heap *h = &a->heap[heap];
        for (uint32_t g = h->first; (g = vs_atoms_next(a, g, h->first + h->top)) < h->first + h->top;) {
            int status = a->used[g] ? VS_BACKING_NOT_READY : unalias(a, g);
            if (status != 0)
                return status;
        }
    }
    return 0;
}

static int let_go(struct vs_arena *a, uint32_t first, uint32_t count)
{
    const struct vs_backing *b = &a->backing;
    struct vs_arena_stats *s = &a->stats;
    int status = b->unmap(b->context, address_of(a, place_of(a, first)), place_of(a, count));
    if (status != 0)
        return status;
    for (uint32_t g = first; g < first + count; g++)
        if (b->release(b->context, a->handle[g]) == 0)
            s->released++;
        else
            s->lost++;
    memset(a->used + first, ABSENT, count);
    a->idle -= count;
    s->unmapped += count;
    s->mappings -= count;
    s->reserved -= place_of(a, count);
    vs_reserved_changed(a);
    vs_tile_change(a, first, count, TILE_VACANT, VS_ARENA_ANY);
    return 0;
}

/* One heap, from its top down. */
static void trim_heap(struct vs_arena *a, uint32_t heap, uint64_t keep)
{
    const struct heap *h = &a->heap[heap];
    uint32_t slot = h->first + h->top;
    while (slot > h->first && a->idle > keep) {
        uint32_t end = slot--;
        if (!can_go(a, slot) || (is_aliased(a, slot) && unalias(a, slot) != 0))
            continue;
        while (slot > h->first && a->idle - (end - slot) > keep && can_go(a, slot - 1) &&
               !is_aliased(a, slot - 1))
            slot--;
        if (let_go(a, slot, end - slot) != 0)
            return;
    }
}

void vs_supply_give_back(struct vs_arena *a, uint64_t keep)
{
    vs_holes_share(a, 0);                        /* what lies in two of them is in one then */
    for (uint32_t small = 0; small < 2; small++) /* a small heap needs its granules again soonest */
        for (uint32_t lane = LANES + 1; lane-- > 0;)
            if (a->heap[2 * lane + small].top)
                trim_heap(a, 2 * lane + small, keep);
}
