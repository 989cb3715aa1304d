/*
 * backing.h - what the arena stands on: addresses, physical chunks, mappings, and the order of streams.
 *
 * Whoever creates an arena gives it these functions: live they are the driver's, in replay counters, in tests
 * a model that checks every call.  The arena calls them with its lock held and never from two threads at
 * once; `synchronize` alone may come from any thread at any time.
 */
#ifndef VS_ARENA_CORE_BACKING_H
#define VS_ARENA_CORE_BACKING_H

#include <stdint.h>

/* 0 or the driver's own number (CUresult), so that a program gets the error that the real call would have
 * given it. */
enum vs_backing_status {
    VS_BACKING_OK = 0,
    VS_BACKING_INVALID = 1,
    VS_BACKING_OUT_OF_MEMORY = 2,
    VS_BACKING_NOT_INITIALIZED = 3, /* a child of fork has no driver */
    VS_BACKING_NOT_READY = 600, /* cannot be had now: an event not reached, a stream that is being captured */
};

#define VS_BACKING_DEVICE UINT64_MAX

struct vs_backing {
    void *context;
    uint64_t chunk; /* bytes, a power of two */

    /* addresses */
    int (*reserve)(void *context, uint64_t size, uint64_t *address); /* aligned to a chunk */
    void (*unreserve)(void *context, uint64_t address, uint64_t size);

    /* physical memory */
    int (*create)(void *context, uint64_t size, uint64_t *handle); /* of one chunk, or of a few */
    int (*release)(void *context, uint64_t handle);                /* after its last mapping */

    /* mappings: all that a handle has at an address; then access for a range of them, at once.  No call is
     * about a part of what one handle has.  `peers`: the bits of the devices beside the own one that shall
     * reach it; every mapping of a chunk is given all of them.  A write through one is seen through the
     * others once the work that wrote has ended */
    int (*map)(void *context, uint64_t address, uint64_t size, uint64_t handle);
    int (*access)(void *context, uint64_t address, uint64_t size, uint64_t peers);
    int (*unmap)(void *context, uint64_t address, uint64_t size);

    /* order.  An event stands for all that STREAM (VS_BACKING_DEVICE: all streams) was given before it;
     * NOT_READY where none can be made (now) */
    int (*event)(void *context, uint64_t stream, uint64_t *event);
    int (*reached)(void *context, uint64_t event); /* 0: it is done; NOT_READY: not yet */
    int (*stream_wait)(void *context, uint64_t stream,
                       uint64_t event); /* what STREAM is given next waits for it */
    void (*forget)(void *context, uint64_t event);
    /* waits for all that the device was given by anyone; NOT_READY where that must not be done now */
    int (*synchronize)(void *context);
    /* waits until the event is reached; NOT_READY as above; may be NULL */
    int (*await)(void *context, uint64_t event);

    /* bytes of physical memory that are free: more cannot be had; NULL: unknown */
    int (*room)(void *context, uint64_t *bytes);
};

/* ---- a backing of counters (backing_count.c), for replay, where only the arena's decisions matter ----
 *
 * Addresses and handles are numbers, nothing is mapped.  An event is reached when the clock, which the replay
 * moves, is `lag` beyond the time at which it was made: the device runs so much behind the program. */

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
