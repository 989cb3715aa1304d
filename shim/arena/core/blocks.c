/*
 * blocks.c - the live blocks by their addresses, and what they lie on.
 *
 * Open addressing with linear probing; removal shifts the cells behind it back, so there are no tombstones.
 * Between a half and a quarter full after it has grown.
 */
#include "internal.h"

#include <string.h>

static uint32_t cell_of(const struct vs_arena *a, uint64_t address)
{
    return (uint32_t)((address >> 9) * 0x9e3779b97f4a7c15ull >> 32) & a->cell_mask;
}

static void insert(struct vs_arena *a, uint64_t address, uint32_t extent)
{
    uint32_t i = cell_of(a, address);
    while (a->cell[i].extent != NIL)
        i = (i + 1) & a->cell_mask;
    a->cell[i] = (struct cell){address, extent};
}

static int grow(struct vs_arena *a)
{
    uint32_t old = a->cell ? a->cell_mask + 1 : 0, size = old ? 2 * old : 1024;
    struct cell *was = a->cell, *now = vs_meta_resize(&a->meta, NULL, 0, size * sizeof *now);
    if (!now)
        return VS_BACKING_OUT_OF_MEMORY;
    memset(now, 0xff, size * sizeof *now);
    a->cell = now;
    a->cell_mask = size - 1;
    for (uint32_t i = 0; i < old; i++)
        if (was[i].extent != NIL)
            insert(a, was[i].address, was[i].extent);
    vs_meta_give(&a->meta, was, old * sizeof *was);
    return 0;
}

int vs_blocks_reserve(struct vs_arena *a)
{
    if (__builtin_expect(a->cell && 2 * (a->cells + 1) <= a->cell_mask, 1))
        return 0;
    return grow(a);
}

void vs_blocks_put(struct vs_arena *a, uint64_t address, uint32_t extent)
{
    insert(a, address, extent);
    a->cells++;
}

static uint32_t find(const struct vs_arena *a, uint64_t address)
{
    if (!a->cell)
        return NIL;
    uint32_t i = cell_of(a, address);
    while (a->cell[i].extent != NIL && a->cell[i].address != address)
        i = (i + 1) & a->cell_mask;
    return a->cell[i].extent == NIL ? NIL : i;
}

uint32_t vs_blocks_get(const struct vs_arena *a, uint64_t address)
{
    uint32_t i = find(a, address);
    return i == NIL ? NIL : a->cell[i].extent;
}

void vs_blocks_remove(struct vs_arena *a, uint64_t address)
{
    uint32_t gap = find(a, address);
    for (uint32_t i = (gap + 1) & a->cell_mask; a->cell[i].extent != NIL; i = (i + 1) & a->cell_mask) {
        uint32_t cell = cell_of(a, a->cell[i].address);
        if (((i - cell) & a->cell_mask) >= ((i - gap) & a->cell_mask)) { /* its cell is not behind the gap */
            a->cell[gap] = a->cell[i];
            gap = i;
        }
    }
    a->cell[gap].extent = NIL;
    a->cells--;
}

/* ---- which block an address belongs to ---- */

uint32_t vs_live_at(const struct vs_arena *a, uint64_t address)
{
    uint32_t extent = vs_blocks_get(a, address);
    return extent != NIL && !a->extent[extent].doomed ? extent : NIL;
}

bool vs_place_at(const struct vs_arena *a, uint64_t address, uint64_t *place)
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
    if (extent == NIL && vs_place_at(a, address, &place))
        extent = vs_live_at(a, address_of(a, a->extent[vs_extent_at(a, place)].at));
    bool found = extent != NIL && address - address_of(a, a->extent[extent].at) < a->extent[extent].requested;
    if (found) {
        const struct extent *t = &a->extent[extent];
        *block = (struct vs_arena_block){address_of(a, t->at), t->requested, t->queue, t->pins};
    }
    vs_leave(a);
    return found;
}

/* ---- the chunks that a block lies on, for its export to other processes ---- */

/* The chunks of a block in an alias mapping, from its FIRST on. */
static void copy_alias(const struct vs_arena *a, const struct alias *v, uint32_t first, uint32_t count,
                       uint64_t *handles)
{
    for (const struct run *r = v->run; count; first -= first < r->count ? first : r->count, r++)
        for (uint32_t i = first; i < r->count && count; i++, count--)
            *handles++ = a->handle[r->first + i];
}

static uint32_t copy(const struct vs_arena *a, const struct extent *t, uint32_t first, uint64_t *handles,
                     uint32_t most)
{
    uint32_t slot = slot_of(a, t->at), count = slot_of(a, t->at + t->requested - 1) - slot + 1;
    uint32_t wanted = first >= count ? 0 : count - first < most ? count - first : most;
    if (t->state == EXTENT_ALIAS)
        copy_alias(a, &a->alias[t->alias], first, wanted, handles);
    else
        for (uint32_t i = 0; i < wanted; i++)
            handles[i] = a->handle[slot + first + i];
    return count;
}

uint32_t vs_arena_chunks(struct vs_arena *a, uint64_t address, uint32_t first, uint64_t *handles,
                         uint32_t most, uint64_t *offset)
{
    uint32_t count = 0;
    if (!vs_enter(a))
        return 0;
    uint32_t extent = a->gate.closed ? NIL : vs_live_at(a, address);
    if (extent != NIL && !a->extent[extent].has_left && a->extent[extent].requested) {
        const struct extent *t = &a->extent[extent];
        count = copy(a, t, first, handles, most);
        *offset = t->at & (chunk_bytes(a) - 1);
    }
    vs_leave(a);
    return count;
}
