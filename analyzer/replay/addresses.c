/* addresses.c - see addresses.h. */
#include "addresses.h"

#include <stdlib.h>

#include "base/base.h"

#define REGION (UINT64_C(32) << 20)

void addresses_init(struct addresses *a, uint64_t top)
{
    *a = (struct addresses){.lowest = top};
}

void addresses_free(struct addresses *a)
{
    free(a->gaps);
    *a = (struct addresses){0};
}

static uint64_t new_region(struct addresses *a, uint64_t size)
{
    uint64_t region = (size + REGION - 1) / REGION * REGION;
    a->lowest -= region;
    return region;
}

uint64_t addresses_reserve(struct addresses *a, uint64_t size)
{
    new_region(a, size);
    return a->lowest;
}

uint64_t addresses_take(struct addresses *a, uint64_t size)
{
    size_t best = a->gap_count;
    for (size_t i = 0; i < a->gap_count; i++)
        if (a->gaps[i].size >= size && (best == a->gap_count || a->gaps[i].size < a->gaps[best].size))
            best = i;
    if (best == a->gap_count) {
        uint64_t region = new_region(a, size);
        *PUSH(a->gaps, a->gap_count) = (struct addresses_gap){a->lowest, region};
    }
    struct addresses_gap *g = &a->gaps[best];
    uint64_t address = g->address;
    g->address += size;
    g->size -= size;
    if (!g->size)
        *g = a->gaps[--a->gap_count];
    return address;
}

void addresses_give(struct addresses *a, uint64_t address, uint64_t size)
{
    for (size_t i = 0; i < a->gap_count;) {
        struct addresses_gap *g = &a->gaps[i];
        bool behind = g->address == address + size, before = g->address + g->size == address;
        /* regions are given back whole: gaps are not joined over their bounds */
        if ((behind && (address + size) % REGION) || (before && address % REGION)) {
            address = behind ? address : g->address;
            size += g->size;
            *g = a->gaps[--a->gap_count];
        } else {
            i++;
        }
    }
    *PUSH(a->gaps, a->gap_count) = (struct addresses_gap){address, size};
}
