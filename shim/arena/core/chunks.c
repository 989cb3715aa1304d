/*
 * chunks.c - which chunks are in use, who used them last, and which alias mappings change with them.
 *
 * A chunk is idle when no block lies in it, through whatever mapping.  Then `users` and `seq` say which
 * queues' frees ended its last uses.  It lies in one free extent, or in a few that end where chunks do.
 *
 * Every alias mapping counts how many of its chunks are busy; it can be used only while there are none.  So a
 * change of a chunk is reported to all aliases of it, atom by atom.
 */
#include "internal.h"

#include <string.h>

/* N chunks of the atom are busy for all its alias mappings but SELF, or no longer. */
static void report(struct vs_arena *a, const struct atom *atom, uint32_t n, bool busy, uint32_t self)
{
    for (uint32_t i = 0; i < atom->used; i++) {
        struct alias *v = &a->alias[atom->aliases[i]];
        if (atom->aliases[i] == self)
            continue;
        v->busy += busy ? n : -n;
        vs_alias_refresh(a, v);
    }
}

static void report_all(struct vs_arena *a, uint32_t first, uint32_t end, bool busy, uint32_t self)
{
    for (uint32_t g = vs_atoms_next(a, first, end); g < end; g = vs_atoms_next(a, g, end)) {
        const struct atom *atom = &a->atom[a->atom_of[g]];
        uint32_t stop = atom->first + atom->count < end ? atom->first + atom->count : end;
        report(a, atom, stop - g, busy, self);
        g = stop;
    }
}

void vs_chunks_claim(struct vs_arena *a, uint32_t first, uint32_t end, uint32_t self)
{
    report_all(a, first, end, true, self);
    memset(a->used + first, 1, end - first);
    a->idle -= end - first;
    if (a->idle < a->surplus.least)
        a->surplus.least = a->idle;
}

void vs_chunks_release(struct vs_arena *a, uint32_t first, uint32_t end, uint32_t users, uint64_t seq,
                       uint32_t self)
{
    memset(a->used + first, 0, end - first);
    for (uint32_t g = first; g < end; g++)
        a->users[g] = users;
    if (a->queues > 1)
        for (uint32_t g = first; g < end; g++)
            a->seq[g] = seq;
    a->idle += end - first;
    report_all(a, first, end, false, self);
}

void vs_chunks_joined(struct vs_arena *a, const struct extent *free_extent, uint64_t bound)
{
    uint32_t g = slot_of(a, bound);
    if (bound == place_of(a, g) || free_extent->at > place_of(a, g) ||
        free_extent->at + free_extent->size < place_of(a, g + 1))
        return;
    vs_chunks_release(a, g, g + 1, free_extent->waits | users_of(free_extent->queue), free_extent->seq, NIL);
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
