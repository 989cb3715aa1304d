/*
 * addresses.h - where the driver puts what PyTorch's allocator asks of it: of two free blocks of a size the
 * allocator takes the one that lies lower, so that these places decide what is reserved.
 *
 *      cuMemAlloc           a gap of a region that it has, else a new region below all others; regions are
 *                           multiples of 32 MiB
 *      reserved addresses   likewise below all others
 */
#ifndef VS_REPLAY_ADDRESSES_H
#define VS_REPLAY_ADDRESSES_H

#include <stddef.h>
#include <stdint.h>

struct addresses_gap {
    uint64_t address, size;
};

struct addresses {
    struct addresses_gap *gaps; /* of the driver's regions that nothing has, in no order */
    size_t gap_count;
    uint64_t lowest;
};

/* Everything lies below TOP. */
void addresses_init(struct addresses *a, uint64_t top);
void addresses_free(struct addresses *a);
uint64_t addresses_take(struct addresses *a, uint64_t size);
void addresses_give(struct addresses *a, uint64_t address, uint64_t size);
uint64_t addresses_reserve(struct addresses *a, uint64_t size);

#endif
