/*
 * living.h - a map from addresses to the living block that each may lie in.
 *
 * A look-up is a few loads, takes no lock and allocates nothing.  So are additions and removals, but for a
 * word that is written for each 2 MiB of a large block.  The thread that takes events out of the ring has
 * such maps for itself (uses.c); another one is shared by all threads of the program (access/use.c).  There a
 * thread that uses a block has got it from the thread that made it, by the program's own synchronisation: so
 * its look-up finds the block.  One that runs beside a removal may still find the block.
 */
#ifndef VS_TRACE_USES_LIVING_H
#define VS_TRACE_USES_LIVING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define VS_LIVING_UNIT_BITS   9u                  /* at most one block begins in a unit of 512 bytes */
#define VS_LIVING_PAGE_BITS   21u                 /* 2 MiB: the range of a leaf */
#define VS_LIVING_REGION_BITS 34u                 /* 16 GiB */
#define VS_LIVING_BITS        49u                 /* no block has an address from here on */
#define VS_LIVING_LARGEST     (UINT64_C(1) << 40) /* a larger block is not added: no GPU has it */

#define VS_LIVING_UNITS   (1u << (VS_LIVING_PAGE_BITS - VS_LIVING_UNIT_BITS))
#define VS_LIVING_PAGES   (1u << (VS_LIVING_REGION_BITS - VS_LIVING_PAGE_BITS))
#define VS_LIVING_REGIONS (1u << (VS_LIVING_BITS - VS_LIVING_REGION_BITS))

struct vs_living_leaf {
    _Atomic uint64_t starts[VS_LIVING_UNITS / 64]; /* a bit for each unit in which a block begins */
    _Atomic uint32_t id[VS_LIVING_UNITS];          /* of the block that begins there; 0: none */
};
struct vs_living_page {
    void *_Atomic leaf;     /* struct vs_living_leaf */
    _Atomic uint32_t cover; /* the block that began on an earlier page and reaches into this one */
};
struct vs_living_region {
    struct vs_living_page page[VS_LIVING_PAGES];
};
/* Most addresses are those of a block's begin, and most of those are found here, on one line of a table that
 * the caches and the TLB can hold, instead of on two of tables as wide as the memory: of each hash the unit
 * in which a block begins, and the block's id, in one word.  A block may lack, since another one has its
 * place; none is in it that is not in the map. */
#define VS_LIVING_NEAR_BITS    14u
#define VS_LIVING_NEAR_ID_BITS 24u /* a block with a greater id is not in it */

/* 384 KiB, of which few pages are touched; of zeros at first. */
struct vs_living {
    void *_Atomic region[VS_LIVING_REGIONS]; /* struct vs_living_region */
    _Atomic uint64_t near[1u << VS_LIVING_NEAR_BITS];
};

static inline _Atomic uint64_t *vs_living_near_at(struct vs_living *map, uint64_t address)
{
    /* Neighbours share a line, and the first units of different pages lie apart. */
    uint64_t hash = address >> VS_LIVING_UNIT_BITS ^ address >> VS_LIVING_PAGE_BITS;
    return &map->near[hash % (1u << VS_LIVING_NEAR_BITS)];
}

/* The id of the block that begins in the unit of ADDRESS; 0: it is not known here.  Acquire, as below. */
static inline uint32_t vs_living_find_near(struct vs_living *map, uint64_t address)
{
    uint64_t near = atomic_load_explicit(vs_living_near_at(map, address), memory_order_acquire);
    return near >> VS_LIVING_NEAR_ID_BITS == address >> VS_LIVING_UNIT_BITS
               ? (uint32_t)near & ((1u << VS_LIVING_NEAR_ID_BITS) - 1)
               : 0;
}

/* Adds the block at START of SIZE bytes (not 0) as ID (not 0).  Returns the id of a block that was there
 * before, whose end was not seen, and removes it.  *ADDED is false if there is no memory, or START is out of
 * range. */
uint32_t vs_living_add(struct vs_living *map, uint64_t start, uint64_t size, uint32_t id, bool *added);
/* Removes the block at START of SIZE bytes, if it is ID. */
void vs_living_remove(struct vs_living *map, uint64_t start, uint64_t size, uint32_t id);
/* Forgets all blocks, and gives the memory back.  On one thread. */
void vs_living_reset(struct vs_living *map);

/* The id of the block that begins in the unit of ADDRESS; 0: none does. */
uint32_t vs_living_at(struct vs_living *map, uint64_t address);

uint32_t vs_living_before(const struct vs_living_leaf *leaf, uint32_t unit);

/* The id of the last block that begins at or before ADDRESS and might contain it; 0: there is none.  The
 * caller checks whether the block reaches as far as ADDRESS.  Acquire, pairs with the addition's release:
 * the caller sees everything that was written about the block before. */
static inline uint32_t vs_living_find(struct vs_living *map, uint64_t address)
{
    uint32_t near = vs_living_find_near(map, address);
    if (near != 0)
        return near;
    if (address >> VS_LIVING_BITS)
        return 0;
    struct vs_living_region *region =
        atomic_load_explicit(&map->region[address >> VS_LIVING_REGION_BITS], memory_order_acquire);
    if (region == NULL)
        return 0;
    struct vs_living_page *page = &region->page[address >> VS_LIVING_PAGE_BITS & (VS_LIVING_PAGES - 1)];
    const struct vs_living_leaf *leaf = atomic_load_explicit(&page->leaf, memory_order_acquire);
    if (leaf != NULL) {
        uint32_t unit = address >> VS_LIVING_UNIT_BITS & (VS_LIVING_UNITS - 1);
        uint32_t id = atomic_load_explicit(&leaf->id[unit], memory_order_acquire);
        if (id != 0 || (id = vs_living_before(leaf, unit)) != 0)
            return id;
    }
    return atomic_load_explicit(&page->cover, memory_order_acquire);
}

#endif
