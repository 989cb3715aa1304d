/*
 * pages.h - tells words that may be addresses of blocks from those that cannot be.
 *
 * Every page of 2 MiB in which a block lies, or ever lay, has a bit; a word in a page without one is in no
 * block.  So two loads, from tables of 12 KiB that stay in the caches, rule out most words of a launch's
 * parameters.  Pages 128 GiB apart share a bit, and bits are never cleared while a recording lasts: a bit
 * says "maybe" only. Any thread; no lock, no allocation.
 *
 * Relaxed: a thread that uses a block got it from the thread that made it, by the program's own
 * synchronization.
 */
#ifndef VS_CORE_PAGES_H
#define VS_CORE_PAGES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define VS_PAGES_BITS        21u /* 2 MiB */
#define VS_PAGES_REGION_BITS 34u /* 16 GiB */
#define VS_PAGES_END_BITS    49u /* no block has an address from here on */
#define VS_PAGES             (1u << 16)
#define VS_PAGES_REGIONS     (1u << (VS_PAGES_END_BITS - VS_PAGES_REGION_BITS))

extern _Atomic uint64_t vs_pages[VS_PAGES / 64], vs_pages_regions[VS_PAGES_REGIONS / 64];

/* From the begin of the first 16 GiB with a bit to the end of the last: nearly all words that are no address
 * lie outside, which one comparison shows.  No finer than those, because a page may have got its bit from
 * another one that shares it.  Both bounds only move outward while a recording lasts. */
struct vs_pages_bounds {
    _Atomic uint64_t low, high;
};
extern struct vs_pages_bounds vs_pages_bounds;

struct vs_pages_span { /* the same, as it was read */
    uint64_t low, size;
};

/* A block of SIZE bytes lies at ADDRESS. */
void vs_pages_add(uint64_t address, uint64_t size);
/* Forgets all blocks: a recording begins. */
void vs_pages_reset(void);

static inline bool vs_pages_bit(const _Atomic uint64_t *bits, uint64_t n)
{
    return atomic_load_explicit(&bits[n / 64], memory_order_relaxed) >> n % 64 & 1;
}

/* Whether a block may lie within 16 GiB of ADDRESS: as above, and for blocks that are still to come nearby.
 */
static inline bool vs_pages_near(uint64_t address)
{
    return address >> VS_PAGES_END_BITS == 0 &&
           vs_pages_bit(vs_pages_regions, address >> VS_PAGES_REGION_BITS);
}

/* Whether ADDRESS may lie in a block. */
static inline bool vs_pages_may(uint64_t address)
{
    return vs_pages_near(address) && vs_pages_bit(vs_pages, address >> VS_PAGES_BITS & (VS_PAGES - 1));
}

static inline struct vs_pages_span vs_pages_now(void)
{
    uint64_t low = atomic_load_explicit(&vs_pages_bounds.low, memory_order_relaxed),
             high = atomic_load_explicit(&vs_pages_bounds.high, memory_order_relaxed);
    return (struct vs_pages_span){low, high > low ? high - low : 0};
}

/* Whether ADDRESS may be one of which vs_pages_may says more. */
static inline bool vs_pages_within(struct vs_pages_span span, uint64_t address)
{
    return address - span.low < span.size;
}

/* As vs_pages_add, inline for a block of which all pages are known, as nearly all are. */
static inline void vs_pages_block(uint64_t address, uint64_t size)
{
    uint64_t end = address + size - 1;
    if (__builtin_expect(address >> VS_PAGES_BITS != end >> VS_PAGES_BITS || !vs_pages_may(address), 0))
        vs_pages_add(address, size);
}

#endif
