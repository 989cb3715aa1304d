/*
 * pieces.c - lists the chunks that a block lies on, for its export to other processes.
 */
#include "internal.h"

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
    uint32_t extent = vs_blocks_get(a, address);
    if (extent != NIL && !a->extent[extent].doomed && a->extent[extent].requested) {
        const struct extent *t = &a->extent[extent];
        count = copy(a, t, first, handles, most);
        *offset = t->at & (chunk_bytes(a) - 1);
    }
    vs_leave(a);
    return count;
}
