/*
 * claim.h - a place in the ring for one event, as long as nothing is out of the ordinary.
 *
 *      uint64_t seq;
 *      if (vs_ring_claim(ring, &seq)) { fill the slot; vs_ring_publish(ring, seq) }   else
 * vs_journal_append()
 *
 * What vs_journal_append does where there is room, nobody is in the way and no event was ever lost, inline
 * and with the slot to be filled by the caller, word by word and from registers.  All that it reads and
 * writes beside the slot is one line of the header.  ring.c has the picture and the rest.
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

/* True: *SEQ is the caller's, and no other event has it.  False: nothing was changed; the ring may be full,
 * lossy or fought over. Orders: the acquire load of `limit` pairs with the consumer's release store in
 * vs_journal_release: its copies of the old events are done, and the slots' state words are of our lap,
 * before our stores; the slots that it had killed before show in `doubt`, which is therefore read behind it.
 * The swap of `head` hands out numbers only; the slot's own state word carries all data, so it may be
 * relaxed. */
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

/* The slots' lines were last touched a lap ago, by another core: has them here before their turn.  The near
 * one is asked for again, for where so much happens between two events that a line does not stay for the far
 * one's time.  (At the ring's end they are the lines of the section behind it, and nothing is read.) */
static inline void vs_ring_fetch(const struct vs_slot *slot)
{
    vs_fetch_to_write(slot + VS_FETCH_FAR);
    vs_fetch_to_write(slot + VS_FETCH_NEAR);
}

/* Publishes the filled slot of a claimed SEQ, unless slots were killed meanwhile: then false, and the caller
 * asks vs_ring_publish_doubtful().  The release store pairs with the consumer's acquire load: who sees
 * "published" sees the whole event. */
static inline bool vs_ring_publish(const struct vs_ring *r, uint64_t seq)
{
    if (unlikely(atomic_load_explicit(&r->header->doubt, memory_order_relaxed)))
        return false;
    atomic_store_explicit(&vs_ring_slot(r, seq)->state, vs_ring_lap(r, seq) + 1, memory_order_release);
    return true;
}

/* What vs_ring_publish left undone for the claimed and filled SEQ: publishes it, or counts it as late, and
 * answers false, where its slot was killed. */
bool vs_ring_publish_doubtful(const struct vs_ring *r, uint64_t seq);

/* The ring of J. */
struct vs_ring vs_journal_ring(const struct vs_journal *j);

#endif
