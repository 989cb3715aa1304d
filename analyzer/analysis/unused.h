/*
 * unused.h - what a device's reserved memory held beside what was allocated and not away, at a moment: rows
 * that add up to the difference to the byte.  What the others don't explain, and all of a thinned recording,
 * is the row UNUSED_UNKNOWN. Where the file lacks the moment's event there are no rows.
 */
#ifndef VS_ANALYSIS_UNUSED_H
#define VS_ANALYSIS_UNUSED_H

#include "read/trace.h"

enum unused_kind {
    UNUSED_CACHED,   /* the common pool's: any request of its stream may have it */
    UNUSED_WAITING,  /* freed blocks that another stream still uses; one row a stream and line */
    UNUSED_PRIVATE,  /* a private pool of PyTorch's allocator; one row a pool */
    UNUSED_GRAPHS,   /* what the driver holds for memory nodes of CUDA graphs */
    UNUSED_POOL,     /* stream-ordered pools of the driver's */
    UNUSED_ROUNDING, /* between a block's request and its end: of an import, whose sizes are requests */
    UNUSED_ARENA,    /* the arena's own */
    UNUSED_LIBRARY,  /* held by libraries' pools that do not say what they use */
    UNUSED_UNKNOWN,
    UNUSED_KINDS
};
extern const char *const unused_names[]; /* for programs, by kind */

enum { UNUSED_SIZES = 5 }; /* pieces of up to 1 MiB, 10 MiB, 100 MiB, 1 GiB, and more */
extern const int64_t unused_sizes[UNUSED_SIZES - 1];

struct unused_row {
    enum unused_kind kind;
    int64_t bytes, pieces, largest; /* pieces, largest: 0 where there are none that are known */
    int64_t whole;                  /* CACHED, PRIVATE: in segments where nothing lives */
    int64_t usable, usable_largest; /* CACHED, PRIVATE: what the refused request could have had of it */
    int64_t stream;                 /* WAITING: the number of the stream that is waited for; 0 unknown */
    uint64_t handle;                /* a PRIVATE pool's number */
    bool captured;                  /* PRIVATE: CUDA graphs were captured into it */
    int64_t count;                  /* captures; waiting blocks; memory nodes; pools */
    int64_t stack;                  /* of record_stream; of what made a PRIVATE pool; of most nodes; of the
                                       allocation that made a POOL grow last; 0: not known */
    int64_t of_size[UNUSED_SIZES];  /* CACHED: bytes in pieces of these sizes */
};

struct unused_pool {     /* a stream-ordered pool: what it held, allocated or not */
    int64_t held, stack; /* of the allocation that made it grow last; 0: not known */
};

struct unused_capture { /* a CUDA graph's capture into a private pool */
    uint64_t pool;
    int64_t seq, stack;
    int64_t reserved, allocated; /* what it asked of the driver and is still held; blocks that live there */
};

struct unused {
    int64_t device, seq;
    int64_t reserved, allocated, bytes; /* bytes: the difference, but for what of allocated was away */
    int64_t away;                       /* on the host */
    int64_t requested;                  /* of the request that was refused there; 0: none */
    int64_t usable, usable_largest;     /* what that could have had of it; UNKNOWN */
    bool expandable;                    /* there are expandable segments */
    int64_t limit;                      /* of PyTorch's allocator, that the program set; 0: none */
    bool limit_by_conf;                 /* in its configuration */
    int64_t beyond_limit;               /* by how much the request passed it; 0: not known to */
    struct unused_row *rows;            /* greatest first */
    size_t count;
    struct unused_pool *pools; /* greatest first; whose of several the unused bytes are is not known */
    size_t pool_count;
    struct unused_capture *captures;
    size_t capture_count;
};

/* Of DEVICE at the events SEQS, which may come in any order, are equal or UNKNOWN (then there are no rows).
 * 0, or -1 with t->why.  The caller frees each. */
int unused_load(struct trace *t, int64_t device, const int64_t *seqs, size_t n, struct unused *out);
void unused_free(struct unused *u);
/* Bytes of all rows of a kind. */
int64_t unused_sum(const struct unused *u, enum unused_kind kind);
/* The pieces of all rows, and the largest of them; UNKNOWN where they are not known. */
int64_t unused_pieces(const struct unused *u, int64_t *largest);
/* "a CUDA graph's private pool"'s number as PyTorch writes it, (1, 0), or nothing for one that has none. */
bool unused_pool_id(uint64_t number, uint32_t *first, uint32_t *second);

#endif
