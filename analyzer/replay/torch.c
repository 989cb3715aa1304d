/*
 * torch.c - the simulated allocator's requests, splitting and merging (torch.h).
 *
 * A segment is a list of blocks by address; free ones stand in their pool's set as well.  A request takes the
 * first free block of its stream that is large enough.  If the rest is worth keeping the block is split, and
 * the request gets the front.
 */
#include "torch_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"

#define NOT_SPLIT_ROUNDING MIB(20) /* how much larger a block may be for a request that is not split */
#define MEDIUM_MOST        MIB(10) /* below it a large request gets a segment of large_segment */

struct torch_settings torch_defaults(void)
{
    return (struct torch_settings){.max_split = TORCH_NO_SPLIT_LIMIT,
                                   .large_segment = MIB(20),
                                   .limit = UINT64_MAX,
                                   .capacity = UINT64_MAX};
}

bool torch_simulates(const char *version, enum torch_ties *ties)
{
    unsigned major = 0, minor = 0;
    bool known = version && sscanf(version, "%u.%u", &major, &minor) == 2;
    *ties = !known || major < 2 || (major == 2 && minor < 12) ? TORCH_BY_ADDRESS
            : major == 2 && minor == 12                       ? TORCH_BY_BLOCK
                                                              : TORCH_BY_SEGMENT;
    return known && major == 2 && minor >= 3 && minor <= 15;
}

void torch_init(struct torch *t, const struct torch_settings *settings, const struct torch_driver *driver)
{
    *t = (struct torch){.settings = *settings, .driver = *driver};
    struct torch_block none = {0};
    *PUSH(t->blocks, t->block_count) = none;
    t->block_room = 1;
}

void torch_free(struct torch *t)
{
    for (int i = 0; i < 2; i++) {
        ordered_free(&t->pools[i].free);
        ordered_free(&t->pools[i].unmapped);
    }
    free(t->blocks);
    free(t->pending);
    *t = (struct torch){0};
}

/* ---- sizes ---- */

/* Up to the next 1/divisions step of the power of two below. */
static uint64_t round_power(uint64_t size, uint32_t divisions)
{
    if ((size & (size - 1)) == 0)
        return size;
    uint64_t floor = UINT64_C(1) << (63 - __builtin_clzll(size)), step = floor / divisions;
    if (step <= 1)
        return floor * 2;
    return (size + step - 1) / step * step;
}

uint64_t torch_round(const struct torch_settings *s, uint64_t size)
{
    if (size < UNIT)
        return UNIT;
    if (s->roundup > 1 && size > (uint64_t)UNIT * s->roundup)
        return round_power(size, s->roundup);
    return (size + UNIT - 1) / UNIT * UNIT;
}

bool torch_is_small(uint64_t rounded)
{
    return rounded <= SMALL_MOST;
}

uint64_t torch_segment_size(const struct torch_settings *s, uint64_t rounded)
{
    if (rounded <= SMALL_MOST)
        return SMALL_SEGMENT;
    if (rounded < MEDIUM_MOST && rounded <= s->large_segment)
        return s->large_segment;
    return (rounded + MIB(2) - 1) / MIB(2) * MIB(2);
}

/* ---- blocks ---- */

uint32_t torch_new_block(struct torch *t, const struct torch_block *like)
{
    uint32_t b = t->spare;
    if (b) {
        t->spare = at(t, b)->next;
    } else {
        if (t->block_count == t->block_room) {
            t->block_room *= 2;
            t->blocks = xrealloc(t->blocks, t->block_room * sizeof *t->blocks);
        }
        b = (uint32_t)t->block_count++;
    }
    *at(t, b) = *like;
    if (t->settings.ties == TORCH_BY_BLOCK)
        at(t, b)->made = t->made++;
    return b;
}

uint32_t torch_first_block(struct torch *t, const struct torch_block *like)
{
    uint32_t b = torch_new_block(t, like);
    at(t, b)->base = like->address;
    if (t->settings.ties == TORCH_BY_SEGMENT)
        at(t, b)->made = t->made++;
    return b;
}

void torch_drop_block(struct torch *t, uint32_t block)
{
    at(t, block)->next = t->spare;
    t->spare = block;
}

void torch_splice(struct torch *t, uint32_t b, uint32_t prev, uint32_t next)
{
    at(t, b)->prev = prev;
    at(t, b)->next = next;
    if (prev)
        at(t, prev)->next = b;
    if (next)
        at(t, next)->prev = b;
}

void torch_insert_free(struct torch *t, uint32_t block)
{
    struct torch_block *b = at(t, block);
    struct torch_pool *pool = pool_of(t, b);
    if (!b->mapped) {
        ordered_insert(&pool->unmapped, unmapped_key(b), block);
        return;
    }
    b->gc_base = pool->calls;
    ordered_insert(&pool->free, free_key(t, b), block);
}

void torch_merge(struct torch *t, uint32_t block, uint32_t other)
{
    struct torch_block *b = at(t, block), *o = at(t, other);
    if (!other || !allocatable(o) || o->mapped != b->mapped)
        return;
    ordered_remove(o->mapped ? &pool_of(t, o)->free : &pool_of(t, o)->unmapped,
                   o->mapped ? free_key(t, o) : unmapped_key(o), other);
    if (b->prev == other) {
        b->address = o->address;
        b->prev = o->prev;
        if (b->prev)
            at(t, b->prev)->next = block;
    } else {
        b->next = o->next;
        if (b->next)
            at(t, b->next)->prev = block;
    }
    b->size += o->size;
    torch_drop_block(t, other);
}

static void put_back(struct torch *t, uint32_t block)
{
    torch_merge(t, block, at(t, block)->prev);
    torch_merge(t, block, at(t, block)->next);
    torch_insert_free(t, block);
}

/* ---- requests ---- */

/* What an expandable block could have without another reservation. */
static uint64_t growable(const struct torch *t, uint32_t block)
{
    const struct torch_block *b = &t->blocks[block], *next = &t->blocks[b->next];
    return b->size + (b->next && !next->mapped ? next->size : 0);
}

static struct ordered_place smallest_growth(const struct torch *t, const struct ordered *o,
                                            struct ordered_place p, uint16_t stream)
{
    for (;;) {
        struct ordered_place next = ordered_next(o, p);
        if (!t->blocks[ordered_value(o, p)].expandable || ordered_ends(o, next) ||
            ordered_key(o, next).first >> 48 != stream ||
            growable(t, ordered_value(o, next)) >= growable(t, ordered_value(o, p)))
            return p;
        p = next;
    }
}

/* The best fit is the only candidate: where a limit forbids it nothing else is looked at. */
static uint32_t best_fit(struct torch *t, uint64_t size, uint16_t stream, bool small)
{
    const struct ordered *o = &t->pools[small].free;
    struct ordered_place p = ordered_from(o, (struct ordered_key){(uint64_t)stream << 48 | size, 0});
    if (ordered_ends(o, p) || ordered_key(o, p).first >> 48 != stream)
        return 0;
    if (t->settings.expandable)
        p = smallest_growth(t, o, p, stream);
    uint32_t block = ordered_value(o, p);
    uint64_t limit = t->settings.max_split, has = at(t, block)->size;
    if ((size < limit && has >= limit) || (size >= limit && has >= size + NOT_SPLIT_ROUNDING))
        return 0;
    return block;
}

static uint32_t find_free(struct torch *t, uint64_t size, uint16_t stream, bool small)
{
    struct torch_pool *pool = &t->pools[small];
    pool->calls++;
    uint32_t block = best_fit(t, size, stream, small);
    if (block)
        ordered_remove(&pool->free, free_key(t, at(t, block)), block);
    return block;
}

bool torch_hits(struct torch *t, uint64_t requested, uint16_t stream)
{
    uint64_t size = torch_round(&t->settings, requested);
    return best_fit(t, size, stream, torch_is_small(size)) != 0;
}

static uint32_t new_segment(struct torch *t, uint64_t size, uint16_t stream, bool small)
{
    uint64_t segment = torch_segment_size(&t->settings, size), address = 0;
    uint64_t most = t->settings.expandable ? t->settings.limit : torch_limit(t);
    if (segment > most || t->reserved > most - segment)
        return 0;
    if (t->settings.expandable)
        return torch_grow(t, size, stream, small);
    if (!t->driver.ask(t->driver.context, TORCH_SEGMENT, &address, segment))
        return 0;
    t->reserved += segment;
    return torch_first_block(
        t, &(struct torch_block){
               .address = address, .size = segment, .stream = stream, .small = small, .mapped = true});
}

/* Where the driver has no more: first what the split limit keeps aside, then all that is cached. */
static uint32_t new_segment_or_retry(struct torch *t, uint64_t size, uint16_t stream, bool small)
{
    uint32_t block = new_segment(t, size, stream, small);
    if (!block && torch_return_oversize(t, size, stream, small))
        block = new_segment(t, size, stream, small);
    if (block)
        return block;
    t->retries++;
    torch_return_all(t);
    return new_segment(t, size, stream, small);
}

static bool worth_splitting(const struct torch *t, const struct torch_block *b, uint64_t size)
{
    uint64_t rest = b->size - size;
    if (b->small || t->settings.expandable)
        return rest >= UNIT;
    return size < t->settings.max_split && rest > SMALL_MOST;
}

/* The front of BLOCK is taken; the rest keeps its number and goes back. */
static uint32_t split(struct torch *t, uint32_t block, uint64_t size)
{
    struct torch_block front = *at(t, block);
    front.size = size;
    uint32_t taken = torch_new_block(t, &front);
    torch_splice(t, taken, front.prev, block);
    at(t, block)->address += size;
    at(t, block)->size -= size;
    torch_insert_free(t, block);
    return taken;
}

uint32_t torch_malloc(struct torch *t, uint64_t requested, uint16_t stream)
{
    uint64_t size = torch_round(&t->settings, requested);
    bool small = torch_is_small(size);
    uint32_t block = find_free(t, size, stream, small);
    if (!block) {
        if (t->settings.gc_threshold > 0 && torch_limit(t) != UINT64_MAX)
            torch_collect(t);
        block = new_segment_or_retry(t, size, stream, small);
    }
    if (!block)
        return 0;
    if (worth_splitting(t, at(t, block), size))
        block = split(t, block, size);
    at(t, block)->allocated = true;
    return block;
}

void torch_release(struct torch *t, uint32_t block, bool deferred)
{
    if (!at(t, block)->allocated)
        return; /* a damaged recording frees it twice */
    at(t, block)->allocated = false;
    if (!deferred) {
        put_back(t, block);
        return;
    }
    at(t, block)->pending = true;
    *PUSH(t->pending, t->pending_count) = block;
    t->pending_now++;
}

/* Its entry stays in the list: it says nothing once the block is not pending. */
void torch_reusable(struct torch *t, uint32_t block)
{
    if (!at(t, block)->pending)
        return; /* a retry waited for it */
    at(t, block)->pending = false;
    put_back(t, block);
    if (--t->pending_now == 0)
        t->pending_count = 0;
}

uint32_t torch_place(struct torch *t, uint32_t after, uint64_t address, uint64_t size, uint16_t stream,
                     bool small, bool allocated, bool mapped)
{
    struct torch_block like = {.address = address,
                               .size = size,
                               .stream = stream,
                               .small = small,
                               .mapped = mapped,
                               .allocated = allocated,
                               .expandable = t->settings.expandable};
    if (after) {
        like.base = at(t, after)->base;
        like.made = at(t, after)->made;
    }
    uint32_t b = after ? torch_new_block(t, &like) : torch_first_block(t, &like);
    torch_splice(t, b, after, 0);
    if (!allocated)
        torch_insert_free(t, b);
    if (mapped)
        t->reserved += size;
    return b;
}
