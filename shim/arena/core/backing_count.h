/*
 * backing_count.h - a backing of counters: for replay, where only the arena's decisions matter.
 *
 * Addresses and handles are numbers, nothing is mapped.  An event is reached when the clock, which the replay
 * moves, is `lag` beyond the time at which it was made: the device runs so much behind the program.
 */
#ifndef VS_ARENA_CORE_BACKING_COUNT_H
#define VS_ARENA_CORE_BACKING_COUNT_H

#include "backing.h"

struct vs_backing_count {
    uint64_t chunks, capacity; /* held; how many there are, 0 = no end */
    uint64_t chunk;            /* bytes */
    uint64_t next_address, next_handle;
    uint64_t now, lag;
    uint64_t calls; /* of the driver: create, release, map, access, unmap */
    uint64_t maps, accesses;
    uint64_t events, looks, stream_waits; /* made, looked at, followed by a stream: calls of another kind */
};

/* C must live as long as the backing is used. */
struct vs_backing vs_backing_of_counters(struct vs_backing_count *c, uint64_t chunk);

#endif
