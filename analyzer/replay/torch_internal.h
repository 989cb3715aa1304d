/* torch_internal.h - what the files of the simulated allocator share. */
#ifndef VS_REPLAY_TORCH_INTERNAL_H
#define VS_REPLAY_TORCH_INTERNAL_H

#include "torch.h"

#define MIB(n)        ((uint64_t)(n) << 20)
#define UNIT          512u   /* blocks are multiples of it */
#define SMALL_MOST    MIB(1) /* of a block of the small pool */
#define SMALL_SEGMENT MIB(2)

static inline struct torch_block *at(struct torch *t, uint32_t block)
{
    return &t->blocks[block];
}
static inline struct torch_pool *pool_of(struct torch *t, const struct torch_block *b)
{
    return &t->pools[b->small];
}
#define OFFSET_BITS 35 /* of a place in a segment, in units */

static inline struct ordered_key free_key(const struct torch *t, const struct torch_block *b)
{
    uint64_t tie = b->address;
    if (t->settings.ties == TORCH_BY_BLOCK)
        tie = b->made;
    if (t->settings.ties == TORCH_BY_SEGMENT)
        tie = (uint64_t)b->made << OFFSET_BITS | (b->address - b->base) / UNIT;
    return (struct ordered_key){(uint64_t)b->stream << 48 | b->size, tie};
}
static inline struct ordered_key unmapped_key(const struct torch_block *b)
{
    return (struct ordered_key){b->stream, b->address};
}
/* What may be held.  Of an expandable segment PyTorch holds the whole request against its limit, and the
 * driver has an end for what is mapped. */
static inline uint64_t torch_limit(const struct torch *t)
{
    return t->settings.limit < t->settings.capacity ? t->settings.limit : t->settings.capacity;
}
/* Whether a neighbour may be merged with, or grown into. */
static inline bool allocatable(const struct torch_block *b)
{
    return !b->allocated && !b->pending;
}

/* A block LIKE another, of its segment. */
uint32_t torch_new_block(struct torch *t, const struct torch_block *like);
/* The first of a segment, or of a reservation. */
uint32_t torch_first_block(struct torch *t, const struct torch_block *like);
/* B in the list of its segment, between PREV and NEXT. */
void torch_splice(struct torch *t, uint32_t b, uint32_t prev, uint32_t next);
void torch_insert_free(struct torch *t, uint32_t block);
void torch_drop_block(struct torch *t, uint32_t block);
/* OTHER, a neighbour of BLOCK, into it, where both are free and mapped alike. */
void torch_merge(struct torch *t, uint32_t block, uint32_t other);

uint32_t torch_grow(struct torch *t, uint64_t size, uint16_t stream, bool small); /* expandable; 0: no room */
void torch_unmap(struct torch *t, uint32_t block);

/* Whether something was given back that may make room for SIZE. */
bool torch_return_oversize(struct torch *t, uint64_t size, uint16_t stream, bool small);
void torch_return_all(struct torch *t);
void torch_collect(struct torch *t);

#endif
