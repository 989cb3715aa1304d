/*
 * living.c - the tables of the map of living blocks.
 *
 *       region (16 GiB)  -->  page (2 MiB): the block that reaches into it from before (its cover)
 *                                  |
 *                                  +-->  leaf: of each 512 bytes the block that begins there, and a bit
 *                                        for each block that begins, to look backwards with
 *
 * So a pointer to a block's begin is found at once, and one into its middle with one or a few words of bits,
 * or as the page's cover.  Regions and leaves are anonymous memory, mapped when a block first begins or
 * reaches there, and kept.  The bits of one word belong to several blocks, so they are changed by atomic
 * operations; everything else is written by the thread that adds or removes the block.
 */
#define _GNU_SOURCE
#include "living.h"

#include <stddef.h>
#include <sys/mman.h>

#include "core/fork.h"

static struct vs_living_page *page_of(struct vs_living *map, uint64_t address, bool make)
{
    if (address >> VS_LIVING_BITS)
        return NULL;
    void *_Atomic *at = &map->region[address >> VS_LIVING_REGION_BITS];
    struct vs_living_region *region =
        make ? vs_map_once(at, sizeof *region, false) : atomic_load_explicit(at, memory_order_acquire);
    return region ? &region->page[address >> VS_LIVING_PAGE_BITS & (VS_LIVING_PAGES - 1)] : NULL;
}

static uint32_t unit_of(uint64_t address)
{
    return address >> VS_LIVING_UNIT_BITS & (VS_LIVING_UNITS - 1);
}

/* The last block that begins before UNIT. */
uint32_t vs_living_before(const struct vs_living_leaf *leaf, uint32_t unit)
{
    uint32_t word = unit / 64;
    uint64_t bits =
        atomic_load_explicit(&leaf->starts[word], memory_order_acquire) & ((UINT64_C(1) << unit % 64) - 1);
    while (bits == 0) {
        if (word == 0)
            return 0;
        bits = atomic_load_explicit(&leaf->starts[--word], memory_order_acquire);
    }
    uint32_t found = word * 64 + 63 - (uint32_t)__builtin_clzll(bits);
    return atomic_load_explicit(&leaf->id[found], memory_order_acquire);
}

uint32_t vs_living_at(struct vs_living *map, uint64_t address)
{
    struct vs_living_page *page = page_of(map, address, false);
    struct vs_living_leaf *leaf = page ? atomic_load_explicit(&page->leaf, memory_order_acquire) : NULL;
    return leaf ? atomic_load_explicit(&leaf->id[unit_of(address)], memory_order_acquire) : 0;
}

/* Sets ID as the cover of the pages after the first one, or (ID 0) removes WAS from them. */
static bool cover(struct vs_living *map, uint64_t start, uint64_t size, uint32_t id, uint32_t was)
{
    uint64_t end = start + size - 1, step = UINT64_C(1) << VS_LIVING_PAGE_BITS;
    for (uint64_t at = (start | (step - 1)) + 1; at != 0 && at <= end; at += step) {
        struct vs_living_page *page = page_of(map, at, id != 0);
        if (page == NULL && id != 0)
            return false;
        if (page != NULL && (id != 0 || atomic_load_explicit(&page->cover, memory_order_relaxed) == was))
            atomic_store_explicit(&page->cover, id, memory_order_release);
    }
    return true;
}

static uint64_t near_word(uint64_t start, uint32_t id)
{
    return start >> VS_LIVING_UNIT_BITS << VS_LIVING_NEAR_ID_BITS | id;
}

/* Release: who finds the block here sees what was written about it before. */
static void put_near(struct vs_living *map, uint64_t start, uint32_t id)
{
    uint64_t near = id >> VS_LIVING_NEAR_ID_BITS == 0 ? near_word(start, id) : 0;
    atomic_store_explicit(vs_living_near_at(map, start), near, memory_order_release);
}

/* Another block may have the place by now. */
static void take_near(struct vs_living *map, uint64_t start, uint32_t id)
{
    uint64_t there = near_word(start, id);
    atomic_compare_exchange_strong_explicit(vs_living_near_at(map, start), &there, 0, memory_order_release,
                                            memory_order_relaxed);
}

uint32_t vs_living_add(struct vs_living *map, uint64_t start, uint64_t size, uint32_t id, bool *added)
{
    *added = false;
    if (size == 0 || size > VS_LIVING_LARGEST || (start + size - 1) >> VS_LIVING_BITS ||
        start + size - 1 < start)
        return 0;
    struct vs_living_page *page = page_of(map, start, true);
    struct vs_living_leaf *leaf = page ? vs_map_once(&page->leaf, sizeof *leaf, false) : NULL;
    if (leaf == NULL || !cover(map, start, size, id, 0))
        return 0;
    uint32_t unit = unit_of(start);
    uint32_t old = atomic_exchange_explicit(&leaf->id[unit], id, memory_order_acq_rel);
    atomic_fetch_or_explicit(&leaf->starts[unit / 64], UINT64_C(1) << unit % 64, memory_order_release);
    put_near(map, start, id);
    *added = true;
    return old;
}

void vs_living_remove(struct vs_living *map, uint64_t start, uint64_t size, uint32_t id)
{
    struct vs_living_page *page = page_of(map, start, false);
    struct vs_living_leaf *leaf = page ? atomic_load_explicit(&page->leaf, memory_order_acquire) : NULL;
    uint32_t unit = unit_of(start);
    if (leaf == NULL || size == 0 || atomic_load_explicit(&leaf->id[unit], memory_order_relaxed) != id)
        return;
    take_near(map, start, id);
    atomic_fetch_and_explicit(&leaf->starts[unit / 64], ~(UINT64_C(1) << unit % 64), memory_order_release);
    atomic_store_explicit(&leaf->id[unit], 0, memory_order_release);
    cover(map, start, size, 0, id);
}

static void drop_region(struct vs_living_region *region)
{
    for (uint32_t i = 0; i < VS_LIVING_PAGES; i++) {
        struct vs_living_leaf *leaf = atomic_load_explicit(&region->page[i].leaf, memory_order_relaxed);
        if (leaf != NULL)
            munmap(leaf, sizeof *leaf);
    }
    munmap(region, sizeof *region);
}

void vs_living_reset(struct vs_living *map)
{
    for (uint32_t i = 0; i < VS_LIVING_REGIONS; i++) {
        struct vs_living_region *region = atomic_load_explicit(&map->region[i], memory_order_relaxed);
        if (region == NULL)
            continue;
        atomic_store_explicit(&map->region[i], NULL, memory_order_relaxed);
        drop_region(region);
    }
    for (uint32_t i = 0; i < 1u << VS_LIVING_NEAR_BITS; i++)
        if (atomic_load_explicit(&map->near[i], memory_order_relaxed) != 0)
            atomic_store_explicit(&map->near[i], 0, memory_order_relaxed);
}
