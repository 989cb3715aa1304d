/*
 * chunks.c - which chunks are in use, who used them last, and which alias mappings change with them.
 *
 * A chunk is idle when no block lies in it, through whatever mapping.  Then `users` and `seq` say which
 * queues' frees ended its last uses.  It lies in one free extent, or in a few that end where chunks do.  A
 * chunk that comes into use is reported to nobody (alias_classes.c).
 */
#include "internal.h"

#include <string.h>

void vs_chunks_claim(struct vs_arena *a, uint32_t first, uint32_t end)
{
    memset(a->used + first, 1, end - first);
    vs_idle_changed(a, -(uint64_t)(end - first));
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
    vs_idle_changed(a, end - first);
    for (uint32_t g = first; g < end; g++)
        if (a->watch[g])
            vs_class_idle(a, g);
    vs_chunks_idle_from(a, first);
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

/* ---- which are idle ---- */

void vs_chunks_idle_from(struct vs_arena *a, uint32_t chunk)
{
    a->first_idle = chunk < a->first_idle ? chunk : a->first_idle;
}

static uint32_t next_idle(const struct vs_arena *a, uint32_t chunk)
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

/* Behind CHUNK, which is idle: the end of the idle ones of its heap that it is among, MOST at most. */
static uint32_t idle_end(const struct vs_arena *a, uint32_t chunk, uint32_t most)
{
    const struct heap *h = &a->heap[heap_of(a, chunk)];
    uint32_t end = h->first + h->top;
    end = end - chunk < most ? end : chunk + most;
    for (uint64_t eight; chunk + 8 <= end; chunk += 8) {
        memcpy(&eight, a->used + chunk, 8);
        if (eight)
            break;
    }
    while (chunk < end && !a->used[chunk])
        chunk++;
    return chunk;
}

static struct run next_run(struct vs_arena *a, uint32_t chunk, uint32_t most)
{
    bool all = chunk <= a->first_idle;
    uint32_t first = next_idle(a, all ? a->first_idle : chunk);
    if (all)
        a->first_idle = first;
    return (struct run){first, first == NIL ? 0 : idle_end(a, first, most) - first};
}

/* The first of the idle chunks that are in groups all of which is, or that are not, WHOLE, and those up to
 * END that follow. */
static uint32_t skip(const struct vs_arena *a, uint32_t chunk, uint32_t end, bool whole)
{
    while (chunk < end && vs_group_idle(a, vs_group(a, chunk)) == whole) {
        struct run group = vs_group(a, chunk);
        chunk = group.first + group.count;
    }
    return chunk < end ? chunk : end;
}

struct run vs_chunks_next_idle(struct vs_arena *a, uint32_t chunk, uint32_t most)
{
    struct run r;
    while ((r = next_run(a, chunk, most)).count && a->grouped) {
        uint32_t end = r.first + r.count, first = skip(a, r.first, end, false);
        if (first < end)
            return (struct run){first, skip(a, first, end, true) - first};
        chunk = end;
    }
    return r;
}

uint32_t vs_chunks_alike(const struct vs_arena *a, struct run run)
{
    uint32_t n = 1, users = a->users[run.first];
    uint64_t seq = a->seq[run.first];
    if (a->queues < 2) /* nothing is waited for */
        return run.count;
    while (n < run.count && a->users[run.first + n] == users && a->seq[run.first + n] == seq)
        n++;
    return n;
}

struct idle_count vs_chunks_count(struct vs_arena *a, uint32_t queue, uint32_t enough, bool ready)
{
    struct idle_count n = {0, 0};
    uint64_t need[QUEUES] = {0};
    uint32_t left = enough; /* of those that count */
    for (struct run r = {0, 0}; left && (r = vs_chunks_next_idle(a, r.first + r.count, left)).count;) {
        struct run rest = r;
        for (uint32_t some; rest.count && is_lent(a, r.first); rest.first += some, rest.count -= some) {
            some = vs_chunks_alike(a, rest);
            bool waits = vs_order_need(a, queue, a->users[rest.first], a->seq[rest.first], need);
            *(waits ? &n.others : &n.ready) += some;
            left -= waits && ready ? 0 : some;
        }
    }
    return n;
}
