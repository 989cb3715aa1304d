/*
 * pack.h - one place for the life of each block, where all lives are known beforehand.
 *
 *      offset          |  D   |
 *        ^      |  B  ||  C  ||      a block is a rectangle: its size by the events that it lives through;
 *        |      |         A       |  the height of all is what a device must have
 *        +----------------------------> events
 *
 * Sizes, offsets and heights are units of 512 B.
 */
#ifndef VS_REPLAY_PACK_H
#define VS_REPLAY_PACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PACK_UNIT 512u

struct pack_block {
    uint64_t size;
    uint32_t from, to; /* events: alive from one to before the other */
};

struct pack {
    struct pack_block *blocks;
    uint32_t count;
    uint32_t *at; /* by event: the block that begins or ends there */
    uint32_t events;
    uint64_t *offsets; /* by block, what is found; NULL: the height alone is wanted */
};

/* Both give the height; UINT64_MAX: given up, as it would have reached LIMIT. */

/* The largest first, each at the lowest offset where nothing that is placed already lives at the same time.
 * Given up too where that would take long: where many different sizes live at once. */
uint64_t pack_greedy(const struct pack *p, uint64_t limit);

/* In the order of events, or in its reverse, each in the free room that fits best.  SPLIT: larger blocks have
 * room of their own above that of the others; UINT64_MAX: all share theirs. */
uint64_t pack_heap(const struct pack *p, uint64_t split, bool backwards, uint64_t limit);

#endif
