/*
 * pack_heap.c - see pack.h.
 *
 * A heap that is served in the order of events, as an allocator would be, with what an allocator lacks: the
 * run can be gone through backwards too, where ends are requests and requests are ends, and often that needs
 * less (what lives to the end then lies at the bottom, side by side).
 *
 * Room lies in one line of extents, free or taken, linked in order of addresses; free ones are also in lists
 * by size: 128 to each power of two, with a bit for each list that is not empty.
 */
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "pack.h"

#define FINE      7 /* bits of a size below its highest that choose the list */
#define LISTS     (64u << FINE)
#define LOOK_MOST 8 /* entries of a list that are compared */

struct extent {
    uint64_t at, size;
    uint32_t before, behind; /* neighbours; 0: none */
    uint32_t previous, next; /* in the list; of a spare one `next` */
    bool taken;
};

struct heap {
    struct extent *extents; /* from 1 */
    size_t n;
    uint32_t spare, last; /* last: the highest */
    uint32_t lists[LISTS];
    uint64_t used[LISTS / 64]; /* bits */
    uint64_t top, height;
};

/* ---- lists ---- */

static unsigned list_of(uint64_t size)
{
    if (size < 2u << FINE)
        return (unsigned)size;
    unsigned shift = 63 - FINE - (unsigned)__builtin_clzll(size);
    return (shift << FINE) + (unsigned)(size >> shift);
}

static void add_free(struct heap *h, uint32_t number)
{
    struct extent *e = &h->extents[number];
    unsigned list = list_of(e->size);
    e->taken = false;
    e->previous = 0;
    e->next = h->lists[list];
    if (e->next)
        h->extents[e->next].previous = number;
    h->lists[list] = number;
    h->used[list / 64] |= UINT64_C(1) << list % 64;
}

static void take_free(struct heap *h, uint32_t number)
{
    struct extent *e = &h->extents[number];
    unsigned list = list_of(e->size);
    e->taken = true;
    if (e->next)
        h->extents[e->next].previous = e->previous;
    if (e->previous)
        h->extents[e->previous].next = e->next;
    else
        h->lists[list] = e->next;
    if (!h->lists[list])
        h->used[list / 64] &= ~(UINT64_C(1) << list % 64);
}

/* The smallest that holds SIZE among the list's first; of equal ones the lowest; 0: none. */
static uint32_t best_of(const struct heap *h, unsigned list, uint64_t size)
{
    uint32_t best = 0, looks = 0;
    for (uint32_t i = h->lists[list]; i && looks < LOOK_MOST; i = h->extents[i].next, looks++) {
        const struct extent *e = &h->extents[i], *b = &h->extents[best];
        if (e->size >= size && (!best || e->size < b->size || (e->size == b->size && e->at < b->at)))
            best = i;
    }
    return best;
}

static uint32_t find_free(const struct heap *h, uint64_t size)
{
    unsigned list = list_of(size);
    uint32_t found = best_of(h, list, size);
    unsigned word = ++list / 64;
    uint64_t bits = h->used[word] & ~UINT64_C(0) << list % 64;
    while (!found && !bits && ++word < LISTS / 64)
        bits = h->used[word];
    return found || !bits ? found : best_of(h, word * 64 + (unsigned)__builtin_ctzll(bits), size);
}

/* ---- extents ---- */

static uint32_t new_extent(struct heap *h, struct extent e)
{
    uint32_t number = h->spare;
    if (number)
        h->spare = h->extents[number].next;
    else
        number = (uint32_t)(PUSH(h->extents, h->n) - h->extents);
    h->extents[number] = e;
    return number;
}

static void set_before(struct heap *h, uint32_t number, uint32_t before)
{
    if (number)
        h->extents[number].before = before;
    else
        h->last = before;
}

/* The extent behind NUMBER becomes a part of it. */
static void join(struct heap *h, uint32_t number)
{
    uint32_t gone = h->extents[number].behind;
    h->extents[number].size += h->extents[gone].size;
    h->extents[number].behind = h->extents[gone].behind;
    set_before(h, h->extents[gone].behind, number);
    h->extents[gone].next = h->spare;
    h->spare = gone;
}

/* Above everything, from the free room at the top on. */
static uint32_t extend(struct heap *h, uint64_t size)
{
    uint32_t number = h->last;
    if (number && !h->extents[number].taken) {
        take_free(h, number);
        h->extents[number].size = size;
    } else {
        number = new_extent(h, (struct extent){.at = h->top, .size = size, .before = h->last, .taken = true});
        if (h->last)
            h->extents[h->last].behind = number;
        h->last = number;
    }
    h->top = h->extents[number].at + size;
    h->height = h->top > h->height ? h->top : h->height;
    return number;
}

static uint32_t take(struct heap *h, uint64_t size)
{
    uint32_t number = find_free(h, size);
    if (!number)
        return extend(h, size);
    take_free(h, number);
    struct extent *e = &h->extents[number];
    if (e->size > size) {
        struct extent rest = {e->at + size, e->size - size, number, e->behind, 0, 0, false};
        uint32_t behind = new_extent(h, rest);
        e = &h->extents[number];
        set_before(h, e->behind, behind);
        e->behind = behind;
        e->size = size;
        add_free(h, behind);
    }
    return number;
}

static void give(struct heap *h, uint32_t number)
{
    uint32_t behind = h->extents[number].behind, before = h->extents[number].before;
    if (behind && !h->extents[behind].taken) {
        take_free(h, behind);
        join(h, number);
    }
    if (before && !h->extents[before].taken) {
        take_free(h, before);
        join(h, before);
        number = before;
    }
    add_free(h, number);
}

/* ---- the whole ---- */

struct packing {
    const struct pack *p;
    struct heap heaps[2]; /* of all, or of the smaller blocks; of the larger */
    uint32_t *extents;    /* by block */
    uint64_t split, limit;
};

static bool too_high(const struct packing *k)
{
    return k->heaps[0].height + k->heaps[1].height >= k->limit;
}

static void begins(struct packing *k, uint32_t block)
{
    uint64_t size = k->p->blocks[block].size;
    struct heap *h = &k->heaps[size > k->split];
    k->extents[block] = take(h, size);
    if (k->p->offsets)
        k->p->offsets[block] = h->extents[k->extents[block]].at;
}

static void ends(struct packing *k, uint32_t block)
{
    give(&k->heaps[k->p->blocks[block].size > k->split], k->extents[block]);
}

static void forwards(struct packing *k)
{
    const struct pack *p = k->p;
    for (uint32_t i = 0; i < p->events && !too_high(k); i++) {
        uint32_t block = p->at[i];
        if (p->blocks[block].from == i)
            begins(k, block);
        else
            ends(k, block);
    }
}

static void backwards_through(struct packing *k)
{
    const struct pack *p = k->p;
    for (uint32_t block = 0; block < p->count; block++)
        if (p->blocks[block].to == p->events)
            begins(k, block);
    for (uint32_t i = p->events; i-- && !too_high(k);) {
        uint32_t block = p->at[i];
        if (p->blocks[block].from == i)
            ends(k, block);
        else
            begins(k, block);
    }
}

/* The heap of the larger blocks begins where the other one ends. */
static void stack_heaps(const struct packing *k)
{
    for (uint32_t i = 0; i < k->p->count && k->p->offsets; i++)
        if (k->p->blocks[i].size > k->split)
            k->p->offsets[i] += k->heaps[0].height;
}

uint64_t pack_heap(const struct pack *p, uint64_t split, bool backwards, uint64_t limit)
{
    struct packing *k = xrealloc(NULL, sizeof *k);
    memset(k, 0, sizeof *k);
    k->p = p;
    k->split = split;
    k->limit = limit;
    k->extents = xrealloc(NULL, (p->count + (size_t)1) * sizeof *k->extents);
    for (int i = 0; i < 2; i++)
        *PUSH(k->heaps[i].extents, k->heaps[i].n) = (struct extent){0}; /* number 0 is none */
    if (backwards)
        backwards_through(k);
    else
        forwards(k);
    stack_heaps(k);
    uint64_t height = too_high(k) ? UINT64_MAX : k->heaps[0].height + k->heaps[1].height;
    for (int i = 0; i < 2; i++)
        free(k->heaps[i].extents);
    free(k->extents);
    free(k);
    return height;
}
