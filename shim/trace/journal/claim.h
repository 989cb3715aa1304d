/*
 * claim.h - claims a slot of the ring inline, where there is room, no other producer interferes and no event
 * was ever lost.
 *
 *      uint64_t seq;
 *      if (vs_ring_claim(ring, &seq)) { fill the slot; vs_ring_publish(ring, seq); }
 *      else vs_journal_append();
 *
 * The caller fills the slot word by word from registers.  Beside the slot that touches one cache line of the
 * header. ring.c has all other cases.
 */
#ifndef VS_TRACE_JOURNAL_CLAIM_H
#define VS_TRACE_JOURNAL_CLAIM_H

#include "core/hot.h"
#include "format.h"

#define VS_FETCH_FAR  12u /* slots ahead */
#define VS_FETCH_NEAR 2u

static inline struct vs_slot *vs_ring_slot(const struct vs_ring *r, uint64_t seq)
{
    return &r->slot[seq & r->mask];
}

/* The state word of a free slot in the lap of SEQ; published is this + 1. */
static inline uint64_t vs_ring_lap(const struct vs_ring *r, uint64_t seq)
{
    return seq & ~r->mask;
}

/* True: the caller owns *SEQ.  False: nothing was changed; the ring may be full, may have lost events, or
 * another producer won the race.  Orders: the acquire load of `limit` pairs with the consumer's release
 * store in vs_journal_release: before our stores the consumer has copied the old events, and the slots'
 * state words are of our lap.  Slots that it killed before that show in `doubt`, which is therefore read
 * after `limit`.  The swap of `head` may be relaxed: it only hands out a number, and the slot's own state
 * word publishes the data. */
static inline bool vs_ring_claim(const struct vs_ring *r, uint64_t *seq)
{
    struct vs_journal_header *h = r->header;
    uint64_t at = atomic_load_explicit(&h->head, memory_order_relaxed);
    if (unlikely(at >= atomic_load_explicit(&h->limit, memory_order_acquire)) ||
        unlikely(atomic_load_explicit(&h->doubt, memory_order_relaxed)))
        return false;
    *seq = at;
    return likely(atomic_compare_exchange_strong_explicit(&h->head, &at, at + 1, memory_order_relaxed,
                                                          memory_order_relaxed));
}

/* Whether the slot of the claimed SEQ is alive.  While no slot is dead the slot itself is not read; the
 * acquire load of `limit` has made visible all kills from before SEQ could be claimed. */
static inline bool vs_ring_usable(const struct vs_ring *r, uint64_t seq)
{
    return likely(!(atomic_load_explicit(&r->header->doubt, memory_order_relaxed) & VS_DOUBT_DEAD)) ||
           atomic_load_explicit(&vs_ring_slot(r, seq)->state, memory_order_relaxed) == vs_ring_lap(r, seq);
}

/* Prefetches slots ahead of their use: another core touched their lines a lap ago.  The near slot is
 * prefetched a second time, for programs that do so much between two events that the first prefetch has been
 * evicted by then.  (At the ring's end these are lines of the next section; prefetching them is harmless.) */
static inline void vs_ring_fetch(const struct vs_slot *slot)
{
    vs_fetch_to_write(slot + VS_FETCH_FAR);
    vs_fetch_to_write(slot + VS_FETCH_NEAR);
}

/* Publishes the filled slot of a claimed SEQ.  False where slots were killed meanwhile: then the caller
 * calls vs_ring_publish_doubtful().  The release store pairs with the consumer's acquire load: a consumer
 * that sees "published" sees the whole event. */
static inline bool vs_ring_publish(const struct vs_ring *r, uint64_t seq)
{
    if (unlikely(atomic_load_explicit(&r->header->doubt, memory_order_relaxed)))
        return false;
    atomic_store_explicit(&vs_ring_slot(r, seq)->state, vs_ring_lap(r, seq) + 1, memory_order_release);
    return true;
}

/* The careful way of vs_ring_publish: publishes the claimed and filled SEQ or, where its slot was killed,
 * counts the event as late and returns false. */
bool vs_ring_publish_doubtful(const struct vs_ring *r, uint64_t seq);

/* The ring of J. */
struct vs_ring vs_journal_ring(const struct vs_journal *j);

#endif
