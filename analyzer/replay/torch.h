/*
 * torch.h - PyTorch's caching allocator (2.3 to 2.15), simulated: native and with expandable segments.
 *
 * Given the same requests in the same order from the same state it takes the same blocks and asks for the
 * same segments.  What a driver decides (where a segment lies, whether there is room) it asks of its caller.
 *
 * Sizes and addresses are bytes.  Blocks are numbers; 0 is none.  Not thread-safe.
 */
#ifndef VS_REPLAY_TORCH_H
#define VS_REPLAY_TORCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ordered.h"

#define TORCH_NO_SPLIT_LIMIT UINT64_MAX

/* Which of the free blocks of one size is taken first. */
enum torch_ties {
    TORCH_BY_ADDRESS, /* the one with the lowest address */
    TORCH_BY_BLOCK,   /* the one that was made first: a split makes the part that is taken */
    TORCH_BY_SEGMENT  /* of the oldest segment the one with the lowest address */
};

struct torch_settings {
    enum torch_ties ties;
    bool expandable;
    uint64_t max_split;     /* TORCH_NO_SPLIT_LIMIT: none */
    uint64_t large_segment; /* 20 MiB, or large_segment_size_mb */
    uint32_t roundup;       /* roundup_power2_divisions; 0 and 1: none */
    double gc_threshold;    /* of the limit, or else of the capacity; 0: none */
    uint64_t limit;         /* set_per_process_memory_fraction's; UINT64_MAX: none */
    bool follow_limits;     /* the tape's are set as they come */
    uint64_t capacity;      /* what the driver has for it; UINT64_MAX: no end */
    uint64_t memory;        /* of the device, for reservations of addresses; 0: as much as the capacity */
    uint64_t reserve;       /* expandable_segments_reserve, in bytes; 0: not set */
};

struct torch_settings torch_defaults(void);
/* Of PyTorch "2.11.0+cu130"; false: its allocator is not simulated, and *TIES is a guess.  NULL: unknown. */
bool torch_simulates(const char *version, enum torch_ties *ties);

struct torch_block {
    uint64_t address, size;
    uint64_t gc_base;    /* calls for a free block when it became free */
    uint64_t base;       /* its segment's start, or its reservation's, from which granules count */
    uint32_t prev, next; /* in its segment */
    uint32_t tag;        /* the caller's, of a pending one */
    uint32_t made;       /* when: how many blocks were before it, or segments before its own */
    uint16_t stream;
    bool allocated, mapped, small;
    bool pending; /* freed, in use by other streams */
    bool expandable;
};

struct torch_pool {
    struct ordered free;     /* by stream and size, address */
    struct ordered unmapped; /* by stream, address */
    uint64_t calls;
};

/* The driver, as the caller plays it.  KIND: a new segment, more of an expandable one, or a new reservation
 * of addresses.  A new segment and a reservation get their address in *ADDRESS. */
enum torch_ask { TORCH_SEGMENT, TORCH_MAP, TORCH_RESERVE };
enum torch_give { TORCH_FREE_SEGMENT, TORCH_UNMAP };

struct torch_driver {
    void *context;
    bool (*ask)(void *context, enum torch_ask kind, uint64_t *address, uint64_t size); /* false: refused */
    void (*give)(void *context, enum torch_give kind, uint64_t address, uint64_t size);
};

struct torch {
    struct torch_settings settings;
    struct torch_driver driver;
    struct torch_block *blocks; /* from 1 */
    size_t block_count, block_room;
    uint32_t spare;             /* of blocks that are gone, linked by `next` */
    uint32_t made;              /* blocks, or segments and reservations: what `ties` goes by */
    struct torch_pool pools[2]; /* large, small */
    uint32_t *pending; /* blocks that were, in the order of their frees; pending_now of them still are */
    size_t pending_count, pending_now;
    const bool *kept; /* by stream, the caller's: its cached memory goes back by torch_return_stream alone, as
                         that of a private pool; NULL: none */
    uint64_t reserved, retries;
};

void torch_init(struct torch *t, const struct torch_settings *settings, const struct torch_driver *driver);
void torch_free(struct torch *t);

/* A block for SIZE requested bytes; 0: out of memory, after all that PyTorch does before it says so. */
uint32_t torch_malloc(struct torch *t, uint64_t size, uint16_t stream);
/* DEFERRED: other streams still use it; torch_reusable follows. */
void torch_release(struct torch *t, uint32_t block, bool deferred);
void torch_reusable(struct torch *t, uint32_t block);
/* Whether a cached block serves the request. */
bool torch_hits(struct torch *t, uint64_t size, uint16_t stream);
/* empty_cache(): what is cached and whole goes back. */
void torch_empty_cache(struct torch *t);
/* What is cached of STREAM, a private pool's, goes back. */
void torch_return_stream(struct torch *t, uint16_t stream);

/* What a request is rounded to; whether it is for the small pool. */
uint64_t torch_round(const struct torch_settings *s, uint64_t size);
bool torch_is_small(uint64_t rounded);
uint64_t torch_segment_size(const struct torch_settings *s, uint64_t rounded);

/* Builds a state: a block of a segment or of an expandable range, after AFTER (0: the first of its segment),
 * free unless ALLOCATED.  Nothing is asked of the driver; what is mapped counts as reserved. */
uint32_t torch_place(struct torch *t, uint32_t after, uint64_t address, uint64_t size, uint16_t stream,
                     bool small, bool allocated, bool mapped);

#endif
