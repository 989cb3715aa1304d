/*
 * tape.h - a device's history as its framework's caching allocator saw it: what it was asked for, and what
 * it asked of the driver.  A command reads it once; replays, edits, roles and what lay unused are made of
 * it.
 */
#ifndef VS_READ_TAPE_H
#define VS_READ_TAPE_H

#include "asked.h"
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
    uint32_t id;     /* of the block, from 0; of OOM: index into refusals */
    uint32_t number; /* of its event in the process: event.seq without what numbers the process */
    uint16_t stream; /* a number of the tape's own; memory of a private pool has numbers of its own */
    uint16_t phase;  /* index into phase_names; 0: none */
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

struct tape_block {
    int64_t seq;            /* event.seq of its allocation */
    uint64_t size, request; /* what it takes; what was requested, its size where that is not known */
    uint32_t stack;         /* 0 none */
    uint32_t asked;         /* what for: index into made_for.at */
    uint16_t stream;        /* as the program named it, in the order in which they were seen */
    bool freed;
};

struct tape_refusal { /* the allocator gave up */
    int64_t seq;
    uint64_t size, limit; /* asked for; of the allocator then, 0: none is known */
    uint32_t stack;
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
    int64_t seq, stack, size;
    uint64_t graph;
};

enum tape_beside {
    BESIDE_POOL, /* allocations out of pools, of graphs' nodes, of the arena; by pools whose use is unknown */
    BESIDE_GRAPH,
    BESIDE_ARENA,
    BESIDE_LIBRARY,
    BESIDE_SUMS,
    BESIDE_ARENA_HOLDS = BESIDE_SUMS, /* the figures of the arena, of a pool, of the device's graphs */
    BESIDE_POOL_HOLDS,
    BESIDE_GRAPHS_HOLD
};
struct tape_change {           /* of what is no caching allocator's: by BYTES, of the last ones to BYTES */
    int64_t seq, bytes, stack; /* of the allocation that made a pool grow; UNKNOWN: it did not grow */
    uint64_t handle;
    enum tape_beside what;
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
    int64_t live[BESIDE_SUMS], arena_held; /* bytes; arena_held: with what is away */
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
    struct tape_block *blocks; /* by id, in the order of their allocations */
    struct tape_refusal *refusals;
    size_t refusal_count;
    size_t *steps; /* of each step that ended, the event before which it did */
    size_t step_count;
    struct asked_table made_for;
    struct tape_scope *scopes;
    size_t scope_count;
    struct tape_share *shares;
    size_t share_count;
    struct tape_node *nodes;
    size_t node_count;
    struct tape_change *beside;
    size_t beside_count;
    uint64_t limit;                   /* of the allocator, as it was last set; 0: none is known */
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

/* Of DEVICE, read at the first call and kept until trace_forget_tapes or trace_close; NULL with t->why.
 * trace_tape_to: one that may end behind event SEQ, as of a run of many events. */
const struct trace_tape *trace_tape(struct trace *t, int64_t device);
const struct trace_tape *trace_tape_to(struct trace *t, int64_t device, int64_t seq);
void trace_forget_tapes(struct trace *t);
/* Reads one that is the caller's, up to event SEQ. */
int tape_read(struct trace *t, int64_t device, int64_t seq, struct trace_tape *tape);
void tape_free(struct trace_tape *tape);

/* What DEVICE had at event SEQ; holders are the caller's to free. */
void tape_moment_at(const struct trace_tape *tape, int64_t seq, struct tape_moment *m);
/* By block what PyTorch said it is for: 1 parameter, 2 gradient, 3 state, 4 buffer; 0 nothing.  *TOLD: how
 * many are not 0.  The caller frees it; NULL with t->why. */
uint8_t *tape_roles(struct trace *t, const struct trace_tape *tape, int64_t *told);

/* Entries of the imported snapshot that do not fit to its end state, so that others are missing. */
int64_t trace_imported_misfits(struct trace *t);
/* Whether its phases are those of a recording, of which it is an export that was imported. */
bool trace_imported_told(struct trace *t);
/* Whether T was made of a snapshot of PyTorch's own, in which a mapping is one entry. */
bool trace_imported_plain(struct trace *t);
/* Bytes that were reserved when an import's trace began, so that its peaks may not be those of the run; 0
 * where it has one entry at most.  UNKNOWN: no import, or one that began with nothing. */
int64_t trace_imported_before(struct trace *t);

#endif
