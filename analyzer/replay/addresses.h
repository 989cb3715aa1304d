/*
 * addresses.h - where the driver puts what PyTorch's allocator asks of it, which decides what is reserved: of
 * two free blocks of a size the allocator takes the one that lies lower.
 *
 *      cuMemAlloc           a gap of a region that it has, else a new region below all others; regions are
 *                           multiples of 32 MiB
 *      reserved addresses   likewise below all others
 *
 * Which gap a driver takes, and what else lies in its regions, no document says: `addresses_driver` is one
 * way that it may be.
 */
#ifndef VS_REPLAY_ADDRESSES_H
#define VS_REPLAY_ADDRESSES_H

#include <stddef.h>
#include <stdint.h>

struct addresses_gap {
    uint64_t address, size;
};

/* Of the gaps that are large enough the one that is taken; SCATTERED: none, each request has a region of its
 * own anywhere. */
enum addresses_rule {
    ADDRESSES_TIGHTEST,
    ADDRESSES_LOWEST,
    ADDRESSES_HIGHEST,
    ADDRESSES_LOOSEST,
    ADDRESSES_SCATTERED
};

struct addresses_driver { /* all zero: as replays take it to be */
    enum addresses_rule rule;
    uint32_t holes[3]; /* MiB, in regions that are there at the beginning */
    uint32_t taken;    /* in one of so many new regions 2 MiB are somebody else's; 0: in none */
    uint32_t seed;     /* of SCATTERED */
};

struct addresses {
    struct addresses_driver driver;
    struct addresses_gap *gaps; /* of the driver's regions that nothing has, in no order */
    size_t gap_count;
    uint64_t lowest;
    uint32_t regions; /* that were made, or requests that were scattered */
};

/* Everything lies below TOP, a power of 2.  DRIVER NULL: all zero. */
void addresses_init(struct addresses *a, uint64_t top, const struct addresses_driver *driver);
void addresses_free(struct addresses *a);
uint64_t addresses_take(struct addresses *a, uint64_t size);
void addresses_give(struct addresses *a, uint64_t address, uint64_t size);
uint64_t addresses_reserve(struct addresses *a, uint64_t size);

#endif
