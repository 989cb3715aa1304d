/* interning.c - see interning.h. */
#include "interning.h"

#include "core/hot.h"

#include <string.h>

enum { WAYS = 4, SETS = VS_NODE_SLOTS / WAYS };

static inline uint32_t set_of(uint64_t key)
{
    return (uint32_t)(vs_mix(key, 0xe7037ed1a0b428dbu) % SETS);
}

/* A set is one line: keys that share it do not put each other out at once. */
static inline uint32_t find(struct vs_block *block, struct vs_journal *j, uint32_t at, uint64_t key)
{
    struct vs_node_slot *set = &block->nodes[at * WAYS];
    for (int i = 0; i < WAYS; i++)
        if (set[i].key == key && set[i].used)
            return set[i].stack;
    uint32_t stack = vs_journal_stack(j, (uint32_t)(key >> 32), (uint32_t)key);
    uint16_t next = set[0].next;
    memmove(set + 1, set, (WAYS - 1) * sizeof *set);
    *set = (struct vs_node_slot){.key = key, .stack = stack, .used = 1, .next = next};
    return stack;
}

VS_HOT_CODE uint32_t vs_node_of(struct vs_block *block, struct vs_journal *j, uint32_t parent, uint32_t frame)
{
    uint64_t key = (uint64_t)parent << 32 | frame;
    return find(block, j, set_of(key), key);
}

VS_HOT_CODE uint32_t vs_node_of_node(struct vs_block *block, struct vs_journal *j, uint32_t parent,
                                     uint32_t frame)
{
    uint64_t key = (uint64_t)parent << 32 | frame;
    uint32_t at = set_of(key);
#define NEXT_OF(i) block->nodes[(i)*WAYS].next
    vs_fetch(&block->nodes[vs_expected(&block->node_order, (uint16_t)at, NEXT_OF) * WAYS]);
    return find(block, j, at, key);
}
