/* addresses.c - where the driver puts segments and reservations (addresses.h). */
#include "addresses.h"

#include <stdlib.h>

#include "base/base.h"

#define MIB    (UINT64_C(1) << 20)
#define REGION (32 * MIB)
#define SLOTS  UINT32_C(65536) /* of scattered requests, a power of 2 */

static uint64_t new_region(struct addresses *a, uint64_t size)
{
    uint64_t region = (size + REGION - 1) / REGION * REGION;
    a->lowest -= region;
    a->regions++;
    return region;
}

void addresses_init(struct addresses *a, uint64_t top, const struct addresses_driver *driver)
{
    *a = (struct addresses){.driver = driver ? *driver : (struct addresses_driver){0}, .lowest = top};
    for (size_t i = 0; i < sizeof a->driver.holes / sizeof *a->driver.holes; i++)
        if (a->driver.holes[i]) {
            uint64_t size = a->driver.holes[i] * MIB, end = a->lowest;
            new_region(a, size);
            *PUSH(a->gaps, a->gap_count) = (struct addresses_gap){end - size, size};
        }
}

void addresses_free(struct addresses *a)
{
    free(a->gaps);
    *a = (struct addresses){0};
}

uint64_t addresses_reserve(struct addresses *a, uint64_t size)
{
    new_region(a, size);
    return a->lowest;
}

/* In an order that the seed says, below all others and each in 2^20 GiB of its own. */
static uint64_t scattered(struct addresses *a)
{
    uint32_t slot = (a->regions++ * UINT32_C(40503) + a->driver.seed * UINT32_C(7919)) ^ a->driver.seed;
    return ((uint64_t)(slot % SLOTS) << 42) + (UINT64_C(1) << 41);
}

/* Whether gap B is to be taken rather than A. */
static bool is_better(const struct addresses *a, const struct addresses_gap *b, const struct addresses_gap *g)
{
    switch (a->driver.rule) {
    case ADDRESSES_LOWEST:
        return b->address < g->address;
    case ADDRESSES_HIGHEST:
        return b->address > g->address;
    case ADDRESSES_LOOSEST:
        return b->size > g->size;
    default:
        return b->size < g->size;
    }
}

static void add_region(struct addresses *a, uint64_t size)
{
    uint64_t region = new_region(a, size);
    if (a->driver.taken && a->regions % a->driver.taken == 0 && region > size)
        region -= 2 * MIB;
    *PUSH(a->gaps, a->gap_count) = (struct addresses_gap){a->lowest, region};
}

uint64_t addresses_take(struct addresses *a, uint64_t size)
{
    if (a->driver.rule == ADDRESSES_SCATTERED)
        return scattered(a);
    size_t best = a->gap_count;
    for (size_t i = 0; i < a->gap_count; i++)
        if (a->gaps[i].size >= size && (best == a->gap_count || is_better(a, &a->gaps[i], &a->gaps[best])))
            best = i;
    if (best == a->gap_count)
        add_region(a, size);
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
    if (a->driver.rule == ADDRESSES_SCATTERED)
        return;
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
