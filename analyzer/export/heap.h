/*
 * heap.h - a device's memory as PyTorch's snapshots describe it, followed through the events: segments, which
 * come from the driver, and blocks, which lie in them.
 *
 *      what was recorded                          what is told
 *
 *      driver memory that a caching allocator     a segment, in which its blocks will lie
 *      carves
 *      a piece of an expandable segment that      a segment that becomes one with its neighbours
 *      is mapped
 *      driver memory of anybody else, and a       a segment of its own and one block, which fills it
 *      block that lies in no known segment
 *      bytes that no allocation explains (held    likewise: the rest
 *      before the recording, or lost)
 *
 * So after every event the living blocks add up to what the recording had as allocated.  Handles (of arrays,
 * of physical memory) are no addresses: what they stand for gets an address in a region that no device has.
 */
#ifndef VS_EXPORT_HEAP_H
#define VS_EXPORT_HEAP_H

#include "map.h"
#include "read/stream.h"

enum heap_action {
    HEAP_ALLOC,
    HEAP_FREE,
    HEAP_SEGMENT_ALLOC,
    HEAP_SEGMENT_FREE,
    HEAP_SEGMENT_MAP,  /* into a neighbour of its stream */
    HEAP_SEGMENT_UNMAP /* out of one */
};

/* A piece that is mapped is told as three events: a segment of stream HEAP_MAPPING is allocated, unmapped
 * from there, and mapped to its own stream.  A reader that knows allocations and frees alone sees a segment.
 * A reader that knows mappings, too, sees it grow into its neighbour.  Neither counts it twice.  A trace that
 * was imported is told as it was. */
#define HEAP_MAPPING INT32_MAX /* no stream is that */

enum holding_kind {
    HOLDING_BLOCK,   /* in a segment */
    HOLDING_OWN,     /* a segment of its own */
    HOLDING_REST,    /* likewise, of nobody that is known */
    HOLDING_SEGMENT, /* that blocks are carved from */
    HOLDING_PHYSICAL /* memory for pieces of expandable segments, wherever it is mapped */
};

struct holding { /* an allocation that lives */
    int64_t seq, address, size, stack, stream;
    int64_t tensor; /* of a framework's block: as trace_row has it */
    int64_t pool;   /* of a segment that blocks are carved from, and of them; 0: the common one */
    int64_t mapped, mapped_size; /* of physical memory: where; 0: nowhere */
    enum holding_kind kind;
    int op, space;
};

struct heap_change {
    enum heap_action action;
    int64_t address, size;
    int64_t stream;
    const struct holding *about;
};
typedef void heap_tell(void *context, const struct heap_change *change);

struct piece { /* of addresses, in which blocks lie */
    int64_t address, size, seq, stack, stream, pool;
    int64_t blocks; /* that lie in it, at least in part */
    bool expandable;
};

/* Whether A, which ends where B begins, is one segment with it. */
static inline bool heap_adjoin(const struct piece *a, const struct piece *b)
{
    return a->expandable && b->expandable && a->address + a->size == b->address && a->stream == b->stream &&
           a->pool == b->pool;
}

/* Of driver memory that blocks are carved from, by the event that made it: the stream and the pool. */
struct heap_homes {
    struct map by_birth; /* to places in AT */
    struct heap_home {
        int64_t stream, pool;
    } * at;
    size_t n;
};

static inline bool heap_is_block(const struct holding *x)
{
    return x->kind == HOLDING_BLOCK || x->kind == HOLDING_OWN;
}

struct heap {
    heap_tell *tell; /* NULL: nobody listens yet */
    bool late;       /* blocks lived before what is told, as an imported trace's do */
    bool plain;      /* a piece that is mapped is told as that alone: the trace of a PyTorch is given back */
    void *context;
    const struct heap_homes *homes; /* the caller's; NULL: a segment's stream is the one of its event */
    struct piece *pieces;           /* by address; they do not overlap */
    size_t piece_count;
    struct holding *holdings; /* kind HOLDING_BLOCK and seq 0: a hole */
    size_t holding_count;
    size_t *holes;
    size_t hole_count;
    struct map by_seq;     /* to holdings */
    struct map own_places; /* addresses of segments of their own */
    struct undone {        /* frees that failed, until that is told */
        int64_t by;
        struct holding holding;
    } * undone;
    size_t undone_count;
    struct holding rest;
    int64_t known;   /* bytes of the blocks that live, the rest apart */
    int64_t most;    /* the greatest sum that was told of */
    int64_t nowhere; /* the next address for what has none */
    int64_t nowhere_base;
};

/* DEVICE: 0 to 127. */
void heap_init(struct heap *h, int64_t device);
void heap_free(struct heap *h);

/* Applies the event, of the device that is followed, or an unmap of whatever device.  Where somebody listens,
 * the rest is made to fit the totals after it. */
void heap_apply(struct heap *h, const struct trace_row *e);
/* From here on changes are told: first what is there, as if it were allocated now; TOTAL: allocated, of which
 * what nobody holds becomes the rest. */
void heap_listen(struct heap *h, heap_tell *tell, void *context, int64_t total);
/* Likewise, without what is there: it was before whatever is told. */
void heap_follow(struct heap *h, heap_tell *tell, void *context);

/* What event SEQ made, where it lives; NULL. */
const struct holding *heap_find(const struct heap *h, int64_t seq);

/* The segments as they are, by address, each with its blocks by address; they tile it, with what is free
 * between them. */
struct heap_segment {
    int64_t address, size, stack, stream, pool;
    bool expandable;
    const struct holding *own; /* whose own segment it is */
    size_t first, count;       /* blocks */
};
void heap_state(const struct heap *h, struct heap_segment **segments, size_t *n,
                const struct holding ***blocks);

enum heap_order { HEAP_BY_SEQ, HEAP_BY_ADDRESS };
/* The blocks that live: those of KIND, or with HOLDING_REST both kinds that an event made; the caller frees
 * the array. */
const struct holding **heap_blocks(const struct heap *h, enum holding_kind kind, enum heap_order order,
                                   size_t *n);

#endif
