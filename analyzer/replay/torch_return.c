/*
 * torch_return.c - what the simulated allocator gives back to the driver: to make room for a request, in
 * garbage collection, and by empty_cache().
 */
#include "torch_internal.h"

#include <stdlib.h>

#include "base/base.h"

/* Whether the block is its whole segment. */
static bool whole(const struct torch_block *b)
{
    return !b->prev && !b->next;
}

static void give_segment(struct torch *t, uint32_t block)
{
    struct torch_block *b = at(t, block);
    ordered_remove(&pool_of(t, b)->free, free_key(t, b), block);
    t->reserved -= b->size;
    t->driver.give(t->driver.context, TORCH_FREE_SEGMENT, b->address, b->size);
    torch_drop_block(t, block);
}

/* ---- what the split limit keeps aside ---- */

/* One block that would do, or oversize ones of the stream, the largest first, until they add up. */
bool torch_return_oversize(struct torch *t, uint64_t size, uint16_t stream, bool small)
{
    uint64_t limit = t->settings.max_split, wanted = size < limit ? limit : size, returned = 0;
    struct ordered *o = &t->pools[small].free;
    if (limit == TORCH_NO_SPLIT_LIMIT)
        return false;
    struct ordered_place p = ordered_from(o, (struct ordered_key){(uint64_t)stream << 48 | wanted, 0});
    if (!ordered_ends(o, p) && ordered_key(o, p).first >> 48 == stream &&
        !at(t, ordered_value(o, p))->expandable) {
        give_segment(t, ordered_value(o, p));
        return true;
    }
    while (returned < wanted && ordered_back(o, &p)) {
        uint32_t block = ordered_value(o, p);
        struct torch_block *b = at(t, block);
        if (b->stream != stream || b->size < limit)
            break;
        if (b->expandable)
            continue;
        returned += b->size;
        struct ordered_key key = free_key(t, b);
        give_segment(t, block);
        p = ordered_from(o, key);
    }
    return returned >= wanted;
}

/* ---- all that is cached ---- */

static void finish_pending(struct torch *t)
{
    size_t n = t->pending_count; /* the last one empties the list */
    for (size_t i = 0; i < n; i++)
        torch_reusable(t, t->pending[i]);
}

#define ALL_STREAMS (-1)

static bool is_kept(const struct torch *t, const struct torch_block *b)
{
    return t->kept && t->kept[b->stream];
}

/* Of STREAM, or of all whose memory goes back by itself. */
static void return_pool(struct torch *t, bool small, int stream)
{
    const struct ordered *o = &t->pools[small].free;
    uint32_t *blocks = NULL;
    size_t n = 0;
    for (struct ordered_place p = {0, 0}; !ordered_ends(o, p); p = ordered_next(o, p)) {
        const struct torch_block *b = at(t, ordered_value(o, p));
        bool goes = stream == ALL_STREAMS ? !is_kept(t, b) : b->stream == stream;
        if (goes && (b->expandable || whole(b)))
            *PUSH(blocks, n) = ordered_value(o, p);
    }
    for (size_t i = 0; i < n; i++) {
        if (!at(t, blocks[i])->expandable) {
            give_segment(t, blocks[i]);
            continue;
        }
        torch_unmap(t, blocks[i]);
        struct torch_block *b = at(t, blocks[i]);
        if (!b->mapped && whole(b)) { /* nothing is left of its reservation */
            ordered_remove(&pool_of(t, b)->unmapped, unmapped_key(b), blocks[i]);
            torch_drop_block(t, blocks[i]);
        }
    }
    free(blocks);
}

void torch_return_all(struct torch *t)
{
    finish_pending(t);
    return_pool(t, false, ALL_STREAMS);
    return_pool(t, true, ALL_STREAMS);
}

void torch_return_stream(struct torch *t, uint16_t stream)
{
    return_pool(t, false, stream);
    return_pool(t, true, stream);
}

void torch_empty_cache(struct torch *t)
{
    torch_return_all(t);
}

/* ---- garbage collection ---- */

static uint64_t age_of(const struct torch *t, const struct torch_block *b)
{
    return t->pools[0].calls - b->gc_base;
}

static bool collectable(const struct torch *t, const struct torch_block *b)
{
    return whole(b) && !b->expandable && !is_kept(t, b);
}

/* Returns the blocks of at least the mean age, of COUNT ones whose ages add up to AGES; how many bytes. */
static uint64_t return_aged(struct torch *t, uint64_t *ages, uint64_t *count)
{
    double mean = (double)*ages / (double)*count;
    const struct ordered *o = &t->pools[0].free;
    uint32_t *blocks = NULL;
    size_t n = 0;
    uint64_t bytes = 0;
    for (struct ordered_place p = {0, 0}; !ordered_ends(o, p); p = ordered_next(o, p)) {
        const struct torch_block *b = at(t, ordered_value(o, p));
        if (collectable(t, b) && (double)age_of(t, b) >= mean)
            *PUSH(blocks, n) = ordered_value(o, p);
    }
    for (size_t i = 0; i < n; i++) {
        bytes += at(t, blocks[i])->size;
        *ages -= age_of(t, at(t, blocks[i]));
        --*count;
        give_segment(t, blocks[i]);
    }
    free(blocks);
    return bytes;
}

/* Large segments that are free as a whole, the ones at least as old as the mean first. */
void torch_collect(struct torch *t)
{
    const struct ordered *o = &t->pools[0].free;
    uint64_t limit = (uint64_t)(t->settings.gc_threshold * (double)torch_limit(t)), ages = 0, count = 0;
    if (t->reserved <= limit)
        return;
    for (struct ordered_place p = {0, 0}; !ordered_ends(o, p); p = ordered_next(o, p)) {
        const struct torch_block *b = at(t, ordered_value(o, p));
        if (collectable(t, b)) {
            ages += age_of(t, b);
            count++;
        }
    }
    for (uint64_t wanted = t->reserved - limit, got = 0, some = 1; got < wanted && some && count; got += some)
        some = return_aged(t, &ages, &count);
}
