/*
 * block.h - records a caching allocator's report straight into a slot of the ring.
 *
 * Nearly all events of a training step are of this kind, so they have a fast path, which does the same as
 * vs_record in the usual case.  Two cache lines (core/hot.h) and the ring's own tell whether that is so.
 * Otherwise nothing is changed, and the report goes through vs_record.
 */
#ifndef VS_RECORD_BLOCK_H
#define VS_RECORD_BLOCK_H

#include <stdbool.h>
#include <stdint.h>

#include "core/hot.h"
#include "core/pages.h"
#include "trace/event.h"
#include "record.h"
#include "trace/journal/claim.h"

/* The rare work after the claimed and filled SEQ of RING: publishes it if PUBLISHED is false
 * (vs_ring_publish_doubtful), and wakes the drain if it is time. */
void vs_record_block_rest(struct vs_journal_header *ring, uint64_t seq, bool published);

/* Wakes the drain: uses (trace/access.h) were appended, and it is time. */
void vs_record_uses_nudge(void);

/* The innermost phase of the calling thread S, or VS_RANGE_UNKNOWN. */
static inline uint32_t vs_record_block_range(const struct vs_self *s)
{
    uint32_t range = s->range;
    if (range == 0) {
        /* Relaxed: the id is complete by itself. */
        const uint32_t *lead = atomic_load_explicit(&vs_hot.lead, memory_order_relaxed);
        range = unlikely(lead != NULL) ? __atomic_load_n(lead, __ATOMIC_RELAXED) : 0;
    }
    return range;
}

/* Whether a report of OP must take the general way for REASONS.  If stacks are the only one, frees need not,
 * because they have none; and the access ledger only wants to know where blocks lie. */
static inline bool vs_record_block_careful(uint64_t reasons, uint8_t op)
{
    uint64_t of_stacks = op == VS_OP_BLOCK_ALLOC ? VS_CAREFUL_PYTHON : VS_CAREFUL_PYTHON | VS_CAREFUL_STACKS;
    return (reasons & ~(of_stacks | VS_CAREFUL_BIRTHS | VS_CAREFUL_ACCESS)) != 0;
}

/* The journal for the stack of an autograd node that is born now on the calling thread; NULL: none is taken,
 * as vs_record_takes() says it for events. */
static inline struct vs_journal *vs_record_of_births(void)
{
    uint64_t reasons = atomic_load_explicit(&vs_hot.careful, memory_order_relaxed);
    /* Acquire: pairs with vs_record_into(). */
    if ((reasons & (VS_CAREFUL_BIRTHS | VS_CAREFUL_WINDOW)) != VS_CAREFUL_BIRTHS || vs_self.internal ||
        !atomic_load_explicit(&vs_hot.ring_header, memory_order_acquire))
        return NULL;
    return vs_hot.journal;
}

/* The event's fields behind `arg1`, as the words of a slot (event.h has the layout; context has the stream,
 * status a part of the tensor's id). */
static inline uint64_t vs_record_block_last_word(const struct vs_self *s, uint8_t op, uint8_t space,
                                                 int8_t device, uint8_t stream, uint16_t tensor)
{
    return (uint64_t)s->id | (uint64_t)op << 16 | (uint64_t)space << 24 | (uint64_t)(uint8_t)device << 32 |
           (uint64_t)stream << 40 | (uint64_t)tensor << 48;
}

static inline void vs_record_block_put(struct vs_slot *slot, unsigned word, uint64_t value)
{
    /* Relaxed: publishing orders them. */
    atomic_store_explicit(&slot->word[word], value, memory_order_relaxed);
}

/* Records a BLOCK_ALLOC or BLOCK_FREE of these fields, errno kept; false: nothing was done.  STREAM: its
 * number, 0 unknown; TENSOR: the lower bits of its id, of which ARG1 has the upper ones (vs_with_tensor).
 *  Any thread, any signal handler. */
static inline __attribute__((always_inline)) bool vs_record_block(uint8_t op, uint8_t space, int8_t device,
                                                                  uint8_t stream, uint64_t address,
                                                                  uint64_t size, uint64_t arg0, uint64_t arg1,
                                                                  uint16_t tensor)
{
    struct vs_self *self = &vs_self;
    struct vs_ring ring;
    uint64_t seq;
    /* Acquire: pairs with vs_record_into(); a ring that is seen is complete. */
    ring.header = atomic_load_explicit(&vs_hot.ring_header, memory_order_acquire);
    if (unlikely(ring.header == NULL))
        return false;
    vs_fetch_to_write(&ring.header->head);
    /* Relaxed: as in vs_record, a change that another thread makes at the same moment may take effect one
     * event later. */
    uint64_t reasons = atomic_load_explicit(&vs_hot.careful, memory_order_relaxed);
    if (unlikely(self->internal) || unlikely(self->events) ||
        unlikely(self->generation != atomic_load_explicit(&vs_hot.generation, memory_order_relaxed)) ||
        unlikely(vs_record_block_careful(reasons, op)))
        return false;
    uint32_t range = vs_record_block_range(self), stack = 0;
    if (unlikely(range == VS_RANGE_UNKNOWN))
        return false;
    if (op == VS_OP_BLOCK_ALLOC && reasons & VS_CAREFUL_ACCESS)
        vs_pages_block(address, size);
    if (op == VS_OP_BLOCK_ALLOC && reasons & VS_CAREFUL_PYTHON)
        stack = vs_suppliers.python_stack(vs_hot.journal);
    uint64_t now = vs_event_clock_of(&self->clock);
    ring.slot = vs_hot.ring_slot;
    ring.mask = vs_hot.ring_mask;
    if (unlikely(!vs_ring_claim(&ring, &seq)))
        return false;
    struct vs_slot *slot = vs_ring_slot(&ring, seq);
    vs_record_block_put(slot, 0, now);
    vs_record_block_put(slot, 1, address);
    vs_record_block_put(slot, 2, size);
    vs_record_block_put(slot, 3, arg0);
    vs_record_block_put(slot, 4, arg1);
    vs_record_block_put(slot, 5, (uint64_t)range << 32 | stack);
    vs_record_block_put(slot, 6, vs_record_block_last_word(self, op, space, device, stream, tensor));
    vs_ring_fetch(slot);
    bool published = vs_ring_publish(&ring, seq);
    if (unlikely(!published) ||
        unlikely((seq & atomic_load_explicit(&vs_hot.nudge_mask, memory_order_relaxed)) == 0))
        vs_record_block_rest(ring.header, seq, published);
    return true;
}

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "a journal is little endian");

#endif
