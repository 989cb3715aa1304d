/*
 * lookup.c - addresses that are asked about: whose they are, and which block has them.
 */
#include "internal.h"

uint32_t vs_live_at(const struct vs_arena *a, uint64_t address)
{
    uint32_t tile = vs_blocks_get(a, address);
    return tile != NIL && !a->tile[tile].doomed ? tile : NIL;
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
    uint32_t tile = vs_live_at(a, address); /* mostly it is asked about its first byte */
    if (tile == NIL && find_place(a, address, &place))
        tile = vs_live_at(a, address_of(a, a->tile[vs_tile_at(a, place)].at));
    bool found = tile != NIL && address - address_of(a, a->tile[tile].at) < a->tile[tile].asked;
    if (found) {
        const struct tile *t = &a->tile[tile];
        *block = (struct vs_arena_block){address_of(a, t->at), t->asked, t->lane, t->pins};
    }
    vs_leave(a);
    return found;
}
