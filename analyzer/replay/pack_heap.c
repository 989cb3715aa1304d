/*
 * pack_heap.c - see pack.h.
 *
 * A heap that is served in the order of events, as an allocator is.  Unlike an allocator it can also go
 * through the run backwards, where ends are requests and requests are ends.  Often that needs less: what
 * lives to the end then lies at the bottom, side by side.
 */
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "extents.h"
#include "pack.h"

struct packing {
    const struct pack *p;
    struct extents heaps[2]; /* of all, or of the smaller blocks; of the larger */
    uint32_t *extents;       /* by block */
    uint64_t split, limit;
};

static bool too_high(const struct packing *k)
{
    return k->heaps[0].height + k->heaps[1].height >= k->limit;
}

static void begins(struct packing *k, uint32_t block)
{
    uint64_t size = k->p->blocks[block].size;
    struct extents *h = &k->heaps[size > k->split];
    k->extents[block] = extents_take(h, size);
    if (!k->extents[block])
        k->extents[block] = extents_extend(h, size);
    if (k->p->offsets)
        k->p->offsets[block] = h->extents[k->extents[block]].at;
}

static void ends(struct packing *k, uint32_t block)
{
    extents_give(&k->heaps[k->p->blocks[block].size > k->split], k->extents[block]);
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
        extents_begin(&k->heaps[i]);
    if (backwards)
        backwards_through(k);
    else
        forwards(k);
    stack_heaps(k);
    uint64_t height = too_high(k) ? UINT64_MAX : k->heaps[0].height + k->heaps[1].height;
    for (int i = 0; i < 2; i++)
        extents_end(&k->heaps[i]);
    free(k->extents);
    free(k);
    return height;
}
