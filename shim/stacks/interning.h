/*
 * interning.h - shared by native and Python stacks: hashes, and the tree of callers, by which a stack gets
 * its id.
 *
 * A stack is known by 128 bits of hash, which stand for the stack itself.  A thread looks whole stacks up in
 * its own table first; for a new one it goes from the outermost frame inwards, (caller's stack, frame) ->
 * stack, in another table of its own, and calls the journal only for entries that this one lacks.
 */
#ifndef VS_STACKS_INTERNING_H
#define VS_STACKS_INTERNING_H

#include "block.h"

static inline uint64_t vs_mix(uint64_t a, uint64_t b)
{
    unsigned __int128 product = (unsigned __int128)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/* The stack that FRAME makes under PARENT (0: outermost); 0 where the journal's table is full. */
uint32_t vs_node_of(struct vs_block *block, struct vs_journal *j, uint32_t parent, uint32_t frame);
/* The same of the frame of one of autograd's nodes. */
uint32_t vs_node_of_node(struct vs_block *block, struct vs_journal *j, uint32_t parent, uint32_t frame);

/* Set I of a table is looked into.  A training step looks up the same things in the same order as the step
 * before, each once or a few times, and by then their lines are out of the processor's caches.  So the first
 * slot of each set has the set that came next (its place: next_of(I)), and ORDER the last one's; which set's
 * line to ask for now, one look ahead, is the result. */
#define vs_expected(order, i, next_of)                                                                       \
    ({                                                                                                       \
        struct vs_order *order_ = (order);                                                                   \
        uint16_t i_ = (i);                                                                                   \
        if (order_->last != i_) {                                                                            \
            if (__builtin_expect(order_->next != i_, 0))                                                     \
                next_of(order_->last) = i_;                                                                  \
            *order_ = (struct vs_order){i_, next_of(i_)};                                                    \
        }                                                                                                    \
        order_->next;                                                                                        \
    })

#endif
