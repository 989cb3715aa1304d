/*
 * pieces.c - the granules that a block lies on, for who shares them with others.
 */
#include "internal.h"

/* The granules of a block in a view, from its FIRST on. */
static void copy_view(const struct vs_arena *a, const struct view *v, uint32_t first, uint32_t count,
                      uint64_t *handles)
{
    for (const struct run *r = v->run; count; first -= first < r->count ? first : r->count, r++)
        for (uint32_t i = first; i < r->count && count; i++, count--)
            *handles++ = a->handle[r->first + i];
}

static uint32_t copy(const struct vs_arena *a, const struct tile *t, uint32_t first, uint64_t *handles,
                     uint32_t most)
{
    uint32_t slot = slot_of(a, t->at), count = slot_of(a, t->at + t->asked - 1) - slot + 1;
    uint32_t wanted = first >= count ? 0 : count - first < most ? count - first : most;
    if (t->state == TILE_VIEW)
        copy_view(a, &a->view[t->view], first, wanted, handles);
    else
        for (uint32_t i = 0; i < wanted; i++)
            handles[i] = a->handle[slot + first + i];
    return count;
}

uint32_t vs_arena_granules(struct vs_arena *a, uint64_t address, uint32_t first, uint64_t *handles,
                           uint32_t most, uint64_t *offset)
{
    uint32_t count = 0;
    if (!vs_enter(a))
        return 0;
    uint32_t tile = vs_blocks_get(a, address);
    if (tile != NIL && !a->tile[tile].doomed && a->tile[tile].asked) {
        const struct tile *t = &a->tile[tile];
        count = copy(a, t, first, handles, most);
        *offset = t->at & (granule_bytes(a) - 1);
    }
    vs_leave(a);
    return count;
}
