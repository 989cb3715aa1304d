/*
 * trim.c - giving chunks back to the device.
 *
 * Only chunks that are idle, and whose last use is done, can go, from the tops of the heaps down.  Every
 * mapping of them goes first: alias mappings are removed, or shortened where a live block needs only their
 * beginning.
 */
#include "internal.h"

#include <string.h>

static bool can_go(const struct vs_arena *a, uint32_t chunk)
{
    const struct extent *t;
    if (a->used[chunk] || !vs_chunk_complete(a, chunk) || a->queue[primary_queue(a, chunk)].private)
        return false;
    t = &a->extent[vs_extent_at(a, place_of(a, chunk))];
    return t->state == EXTENT_FREE;
}

static bool is_aliased(const struct vs_arena *a, uint32_t chunk)
{
    return a->aliased[chunk >> 6] >> (chunk & 63) & 1;
}

/* The position of the chunk in the alias mapping, which has it. */
static uint32_t position(const struct alias *v, uint32_t chunk)
{
    uint32_t before = 0;
    for (const struct run *r = v->run;; before += r->count, r++)
        if (chunk >= r->first && chunk < r->first + r->count)
            return before + chunk - r->first;
}

/* Removes the chunk from every alias mapping that has it: shortens those that are live, removes the others.
 */
static int unalias(struct vs_arena *a, uint32_t chunk)
{
    while (is_aliased(a, chunk)) {
        const struct atom *atom = &a->atom[a->atom_of[chunk]];
        uint32_t alias = atom->aliases[atom->used - 1];
        struct alias *v = &a->alias[alias];
        if (!vs_alias_complete(a, v))
            return VS_BACKING_NOT_READY;
        int status = vs_alias_shorten(a, alias, v->claimed ? position(v, chunk) : 0);
        if (status != 0)
            return status;
    }
    return 0;
}

int vs_trim_aliases(struct vs_arena *a, uint32_t queue)
{
    for (uint32_t heap = 2 * queue; heap < 2 * queue + 2; heap++) {
        const struct heap *h = &a->heap[heap];
        for (uint32_t g = h->first; (g = vs_atoms_next(a, g, h->first + h->top)) < h->first + h->top;) {
            int status = a->used[g] ? VS_BACKING_NOT_READY : unalias(a, g);
            if (status != 0)
                return status;
        }
    }
    return 0;
}

static int unmap_chunks(struct vs_arena *a, uint32_t first, uint32_t count)
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
    vs_extent_change(a, first, count, EXTENT_VACANT, VS_ARENA_ANY);
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
        if (unmap_chunks(a, slot, end - slot) != 0)
            return;
    }
}

void vs_supply_give_back(struct vs_arena *a, uint64_t keep)
{
    vs_free_extents_share(a, 0); /* neighbours of two queues join, and a chunk that lay in both is in one */
    for (uint32_t small = 0; small < 2; small++) /* a small heap needs its chunks again soonest */
        for (uint32_t queue = QUEUES + 1; queue-- > 0;)
            if (a->heap[2 * queue + small].top)
                trim_heap(a, 2 * queue + small, keep);
}
