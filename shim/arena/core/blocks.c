/*
 * blocks.c - the live blocks by their addresses.
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

void vs_arena_expect_free(const struct vs_arena *a, uint64_t address, bool again)
{
    if (!a->cell)
        return;
    const struct cell *cell = &a->cell[cell_of(a, address)];
    if (!again)
        __builtin_prefetch(cell);
    else if (cell->address == address && cell->extent != NIL) /* else it is in one of the next cells */
        __builtin_prefetch(&a->extent[cell->extent]);
}
