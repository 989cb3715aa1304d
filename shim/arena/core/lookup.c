/*
 * lookup.c - which block an address belongs to, if any.
 */
#include "internal.h"

uint32_t vs_live_at(const struct vs_arena *a, uint64_t address)
{
    uint32_t extent = vs_blocks_get(a, address);
    return extent != NIL && !a->extent[extent].doomed ? extent : NIL;
}

/* The place of an address; false where it is in no window. */
static bool find_place(const struct vs_arena *a, uint64_t address, uint64_t *place)
{
    for (uint32_t h = 0; h <= HEAPS; h++) {
        const struct heap *x = &a->heap[h];
        if (x->base && address >= x->base && address - x->base < place_of(a, x->top)) {
            *place = place_of(a, x->first) + (address - x->base);
            return true;
        }
    }
    return false;
}

bool vs_arena_covers(struct vs_arena *a, uint64_t address)
{
    bool covered = false;
    if (!vs_enter(a))
        return false;
    for (uint32_t h = 0; h <= HEAPS; h++)
        covered = covered || (a->heap[h].base && address - a->heap[h].base < place_of(a, a->heap[h].limit));
    vs_leave(a);
    return covered;
}

bool vs_arena_find(struct vs_arena *a, uint64_t address, struct vs_arena_block *block)
{
    uint64_t place;
    if (!vs_enter(a))
        return false;
    uint32_t extent = vs_live_at(a, address); /* most queries are about a block's first byte */
    if (extent == NIL && find_place(a, address, &place))
        extent = vs_live_at(a, address_of(a, a->extent[vs_extent_at(a, place)].at));
    bool found = extent != NIL && address - address_of(a, a->extent[extent].at) < a->extent[extent].requested;
    if (found) {
        const struct extent *t = &a->extent[extent];
        *block = (struct vs_arena_block){address_of(a, t->at), t->requested, t->queue, t->pins};
    }
    vs_leave(a);
    return found;
}
