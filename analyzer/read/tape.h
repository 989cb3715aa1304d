/*
 * tape.h - what a framework's caching allocator of a device was asked for, and what it asked of the driver
 * (tape.c): for replays under other rules or settings.
 *
 * It has addresses and sizes, but no phases, call stacks or roles: see blocks.h for these.
 */
#ifndef VS_READ_TAPE_H
#define VS_READ_TAPE_H

#include "trace.h"

enum tape_what {
    TAPE_ALLOC,
    TAPE_FREE,
    TAPE_REUSABLE, /* a block whose free was deferred */
    TAPE_OOM,
    TAPE_SEGMENT_ALLOC,
    TAPE_SEGMENT_FREE,
    TAPE_MAP, /* of an expandable segment; in pieces as they were recorded */
    TAPE_UNMAP,
    TAPE_REFUSED,     /* the driver had no memory, at first, for the request that comes next */
    TAPE_EMPTY_CACHE, /* the program called empty_cache() */
    TAPE_LIMIT        /* the framework may hold SIZE bytes from here on */
};

struct tape_event {
    uint64_t address, size; /* of a block what was requested, where that is known (unasked); else its own */
    int64_t t;
    uint32_t id;     /* of the block, from 0 */
    uint16_t stream; /* a number of the tape's own; memory of a private pool has numbers of its own */
    uint8_t what;    /* enum tape_what */
    bool deferred;   /* a free whose block other streams still used */
    bool library;    /* memory of a pool whose use is unknown: nothing of it is PyTorch's */
    bool rounded;    /* SIZE is a block's, not a request */
};

struct tape_stream { /* as recorded; POOL 0: PyTorch's common one */
    uint64_t number, pool;
};

struct tape_birth { /* of driver memory: the event that made it, and where on the tape it came */
    int64_t seq;
    size_t at;
};

struct tape_wait { /* a deferred free, and the event at which the block was reusable; INT64_MAX: none */
    int64_t free_seq, done_seq;
};

struct tape_extent { /* of a block: what it takes, and what was requested, its size where that is not known */
    uint64_t size, request;
};

struct tape_scope { /* requests went to a private pool, from event FROM of the tape up to TO */
    uint64_t pool;
    int64_t stack, seq; /* what opened it */
    size_t from, to;    /* SIZE_MAX: it is open */
    bool captured;      /* a CUDA graph was captured */
};

struct tape_share { /* record_stream: another stream uses a block */
    uint32_t id;
    uint64_t stream;
    int64_t stack;
};

struct tape_node { /* a memory node of a CUDA graph */
    int64_t stack, size;
    uint64_t graph;
};

struct tape_holder { /* a stream-ordered pool, as the driver last said of it */
    uint64_t handle;
    int64_t bytes, stack; /* of the allocation that made it grow */
    bool graphs;          /* the memory of the device's CUDA graphs */
};

/* What the device had at event SEQ: the first N events of the tape, and beside them what is no caching
 * allocator's. */
struct tape_moment {
    int64_t seq;
    size_t n, scopes, nodes;
    int64_t pool_live, graph_live, arena_live; /* allocations out of pools, of graphs' nodes, of the arena */
    int64_t arena_held, library;               /* held by the arena; by pools whose use is unknown */
    struct tape_holder *holders;
    size_t holder_count;
};

struct trace_tape {
    struct tape_event *at;
    size_t n, start; /* events before START set up what there was when recording began */
    uint32_t ids, streams;
    bool *private_pool;         /* by stream: its memory is a private pool's */
    struct tape_stream *stream; /* by stream */
    struct tape_birth *births;  /* segments and mapped pieces */
    size_t birth_count;
    struct tape_wait *waits;
    size_t wait_count;
    struct tape_extent *extents; /* by block */
    size_t extent_count;
    struct tape_scope *scopes;
    size_t scope_count;
    struct tape_share *shares;
    size_t share_count;
    struct tape_node *nodes;
    size_t node_count;
    bool requests;                    /* imported: each size that no request stands beside is one */
    bool imported, expandable, arena; /* arena: blocks were the arena's own */
    bool streams_known, settings_known;
    bool calls_known; /* the driver's refusals and the program's calls of the allocator are events of it */
    bool changed;     /* settings were changed while the framework held memory */
    uint32_t asked, unasked, unasked_large; /* blocks whose requests are known; are not; of more than 1 MiB */
    bool driver_blocks;    /* of an import: some are memory that PyTorch's allocator did not ask for */
    int64_t pools_unknown; /* requests of an import that are taken as the common pool's, and may not be */
    uint32_t guessed;      /* streams of requests that were not recorded, and follow from their segments */
    uint32_t unwatched;    /* frees that were not deferred after all, or whose end was not seen */
    const char *version;   /* PyTorch's; NULL: unknown */
    const char *conf;      /* the settings as PyTorch was given them; NULL: unknown */
    const char
        *environment; /* the settings are those of this text, in the environment; NULL: said otherwise */
    const char *not_imitated; /* settings that a replay does not know, "name:value, name:value"; NULL: none */
    double fraction;          /* of the device's memory that it may hold from the start on; 0: all */
    /* PyTorch's settings where they are known: bytes, -1 none; 0 none, -1 not the same for all sizes; bytes,
     * 0 the default; a share */
    int64_t max_split, roundup, large_segment;
    double gc_threshold;
    double reserve_share;  /* of the device's memory, that an expandable segment reserves addresses for; 0 */
    int64_t reserve_bytes; /* or bytes of them; 0: neither is set */
};

int trace_tape(struct trace *t, int64_t device, struct trace_tape *tape);
/* Likewise up to the last of N moments, whose SEQ ascends; the rest of each is filled in. */
int trace_tape_at(struct trace *t, int64_t device, struct tape_moment *moments, size_t n,
                  struct trace_tape *tape);
void trace_free_moments(struct tape_moment *moments, size_t n);
/* Entries of the imported snapshot that do not fit to its end state, so that others are missing. */
int64_t trace_imported_misfits(struct trace *t);
/* Whether its phases are those of a recording, of which it is an export that was imported. */
bool trace_imported_told(struct trace *t);
/* Whether T was made of a snapshot of PyTorch's own, in which a mapping is one entry. */
bool trace_imported_plain(struct trace *t);
/* Bytes that were reserved when an import's trace began, so that its peaks may not be those of the run; 0
 * where it has one entry at most.  UNKNOWN: no import, or one that began with nothing. */
int64_t trace_imported_before(struct trace *t);
void trace_free_tape(struct trace_tape *tape);

#endif
