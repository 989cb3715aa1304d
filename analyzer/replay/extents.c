/* extents.c - see extents.h. */
#include "extents.h"

#include <stdlib.h>

#include "base/base.h"

#define LOOK_MOST 8 /* entries of a list that are compared at first */

/* ---- lists ---- */

static unsigned list_of(uint64_t size)
{
    if (size < 2u << EXTENTS_FINE)
        return (unsigned)size;
    unsigned shift = 63 - EXTENTS_FINE - (unsigned)__builtin_clzll(size);
    return (shift << EXTENTS_FINE) + (unsigned)(size >> shift);
}

static void add_free(struct extents *h, uint32_t number)
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

static void take_free(struct extents *h, uint32_t number)
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

/* The smallest that holds SIZE among the list's first LOOKS; of equal ones the lowest; 0: none. */
static uint32_t best_of(const struct extents *h, unsigned list, uint64_t size, uint32_t looks)
{
    uint32_t best = 0;
    for (uint32_t i = h->lists[list]; i && looks; i = h->extents[i].next, looks--) {
        const struct extent *e = &h->extents[i], *b = &h->extents[best];
        if (e->size >= size && (!best || e->size < b->size || (e->size == b->size && e->at < b->at)))
            best = i;
    }
    return best;
}

static uint32_t find_free(const struct extents *h, uint64_t size)
{
    unsigned list = list_of(size);
    uint32_t found = best_of(h, list, size, LOOK_MOST);
    unsigned word = ++list / 64;
    uint64_t bits = h->used[word] & ~UINT64_C(0) << list % 64;
    while (!found && !bits && ++word < EXTENTS_LISTS / 64)
        bits = h->used[word];
    return found || !bits ? found : best_of(h, word * 64 + (unsigned)__builtin_ctzll(bits), size, LOOK_MOST);
}

/* ---- extents ---- */

static uint32_t new_extent(struct extents *h, struct extent e)
{
    uint32_t number = h->spare;
    if (number)
        h->spare = h->extents[number].next;
    else
        number = (uint32_t)(PUSH(h->extents, h->n) - h->extents);
    h->extents[number] = e;
    return number;
}

static void make_spare(struct extents *h, uint32_t number)
{
    h->extents[number] = (struct extent){.next = h->spare, .taken = true};
    h->spare = number;
}

static void set_before(struct extents *h, uint32_t number, uint32_t before)
{
    if (number)
        h->extents[number].before = before;
    else
        h->last = before;
}

/* The extent behind NUMBER becomes a part of it. */
static void join(struct extents *h, uint32_t number)
{
    uint32_t gone = h->extents[number].behind;
    h->extents[number].size += h->extents[gone].size;
    h->extents[number].behind = h->extents[gone].behind;
    set_before(h, h->extents[gone].behind, number);
    make_spare(h, gone);
}

/* Above everything, from the free room at the top on. */
uint32_t extents_extend(struct extents *h, uint64_t size)
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

uint32_t extents_take(struct extents *h, uint64_t size)
{
    uint32_t number = find_free(h, size);
    if (!number)
        return 0;
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

void extents_give(struct extents *h, uint32_t number)
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

void extents_begin(struct extents *h)
{
    *PUSH(h->extents, h->n) = (struct extent){0}; /* number 0 is none */
}

void extents_end(struct extents *h)
{
    free(h->extents);
    h->extents = NULL;
}
