/* interning.c - see interning.h. */
#include "interning.h"

uint32_t vs_node_of(struct vs_block *block, struct vs_journal *j, uint32_t parent, uint32_t frame)
{
    uint64_t key = (uint64_t)parent << 32 | frame;
    struct vs_node_slot *slot = &block->nodes[vs_mix(key, 0xe7037ed1a0b428dbu) % VS_NODE_SLOTS];
    if (!slot->used || slot->key != key) {
        slot->stack = vs_journal_stack(j, parent, frame);
        slot->key = key;
        slot->used = 1;
    }
    return slot->stack;
}
