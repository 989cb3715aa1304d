/*
 * chunks.c - which chunks are in use, who used them last, and which alias mappings change with them.
 *
 * A chunk is idle when no block lies in it, through whatever mapping.  Then `users` and `seq` say which
 * queues' frees ended its last uses.  It lies in one free extent, or in a few that end where chunks do.
 *
 * An alias mapping can be used only while no chunk of it is in use.  One that was found to have such a chunk
 * watches that one, and is looked at again when the chunk is idle (alias_classes.c).  So a chunk that comes
 * into use is reported to nobody.
 */
#include "internal.h"

#include <string.h>

void vs_chunks_claim(struct vs_arena *a, uint32_t first, uint32_t end)
{
    memset(a->used + first, 1, end - first);
    a->idle -= end - first;
    if (a->idle < a->surplus.least)
        a->surplus.least = a->idle;
}

void vs_chunks_release(struct vs_arena *a, uint32_t first, uint32_t end, uint32_t users, uint64_t seq)
{
    memset(a->used + first, 0, end - first);
    for (uint32_t g = first; g < end; g++)
        a->users[g] = users;
    if (a->queues > 1)
        for (uint32_t g = first; g < end; g++)
            a->seq[g] = seq;
    a->idle += end - first;
    for (uint32_t g = first; g < end; g++)
        if (a->watch[g])
            vs_class_idle(a, g);
}

void vs_chunks_joined(struct vs_arena *a, const struct extent *free_extent, uint64_t bound)
{
    uint32_t g = slot_of(a, bound);
    if (bound == place_of(a, g) || free_extent->at > place_of(a, g) ||
        free_extent->at + free_extent->size < place_of(a, g + 1))
        return;
    vs_chunks_release(a, g, g + 1, free_extent->waits | users_of(free_extent->queue), free_extent->seq);
}

bool vs_chunk_complete(const struct vs_arena *a, uint32_t chunk)
{
    for (uint32_t rest = a->users[chunk]; rest;) {
        const struct queue *q = &a->queue[next_bit(&rest)];
        /* while there is one queue its frees are not stamped: any may be the chunk's */
        if (!is_done(q, a->queues > 1 ? a->seq[chunk] : q->freed))
            return false;
    }
    return true;
}

uint32_t vs_chunks_next_idle(const struct vs_arena *a, uint32_t chunk)
{
    for (uint32_t heap = heap_of(a, chunk); heap < HEAPS; heap++) {
        const struct heap *h = &a->heap[heap];
        uint32_t first = chunk < h->first ? h->first : chunk, end = h->first + h->top;
        const uint8_t *found = first < end ? memchr(a->used + first, 0, end - first) : NULL;
        if (found)
            return (uint32_t)(found - a->used);
    }
    return NIL;
}

struct idle_count vs_chunks_count(const struct vs_arena *a, uint32_t queue, uint32_t enough, bool ready)
{
    struct idle_count n = {0, 0};
    uint64_t need[QUEUES] = {0};
    for (uint32_t g = 0; n.ready + (ready ? 0 : n.others) < enough && (g = vs_chunks_next_idle(a, g)) != NIL;
         g++) {
        if (!is_lent(a, g))
            continue;
        if (vs_order_need(a, queue, a->users[g], a->seq[g], need))
            n.others++;
        else
            n.ready++;
    }
    return n;
}
