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

#endif
