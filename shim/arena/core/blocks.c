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

/* ---- what a block lies on, for its export to other processes ---- */

struct listing {
    uint64_t *handles;
    uint32_t first, most;
    bool ended;
    struct vs_arena_ground ground;
};

static void list(const struct vs_arena *a, struct run chunks, struct listing *l)
{
    struct vs_arena_ground *on = &l->ground;
    for (uint32_t g = chunks.first, n; g < chunks.first + chunks.count; g += n) {
        n = vs_group(a, g).count;
        on->bytes += place_of(a, n);
        if (on->handles++ < l->first)
            continue;
        on->each = on->given ? on->each : place_of(a, n);
        l->ended = l->ended || on->given == l->most || on->each != place_of(a, n);
        if (!l->ended)
            l->handles[on->given++] = a->handle[g];
    }
}

/* Chunks in alias mappings share no handle. */
static void list_alias(const struct vs_arena *a, const struct alias *v, uint32_t count, struct listing *l)
{
    for (const struct run *r = v->run; count; r++) {
        uint32_t n = r->count < count ? r->count : count;
        list(a, (struct run){r->first, n}, l);
        count -= n;
    }
}

static void list_block(const struct vs_arena *a, const struct extent *t, struct listing *l)
{
    uint32_t slot = slot_of(a, t->at), last = slot_of(a, t->at + t->requested - 1);
    if (t->state == EXTENT_ALIAS) {
        list_alias(a, &a->alias[t->alias], last - slot + 1, l);
        return;
    }
    struct run bottom = vs_group(a, slot), top = vs_group(a, last);
    list(a, (struct run){bottom.first, top.first + top.count - bottom.first}, l);
    l->ground.offset = t->at - place_of(a, bottom.first);
}

struct vs_arena_ground vs_arena_handles(struct vs_arena *a, uint64_t address, uint32_t first,
                                        uint64_t *handles, uint32_t most)
{
    struct listing l = {.handles = handles, .first = first, .most = most};
    if (!vs_enter(a))
        return l.ground;
    uint32_t extent = a->gate.closed ? NIL : vs_live_at(a, address);
    if (extent != NIL && !a->extent[extent].has_left && a->extent[extent].requested)
        list_block(a, &a->extent[extent], &l);
    vs_leave(a);
    return l.ground;
}
