/* interning.c - see interning.h. */
#include "interning.h"

#include "core/hot.h"

#include <string.h>

VS_HOT_CODE uint32_t vs_node_of(struct vs_block *block, struct vs_journal *j, uint32_t parent, uint32_t frame)
{
    uint64_t key = (uint64_t)parent << 32 | frame;
    /* A set is one line: keys that share it do not put each other out at once. */
    struct vs_node_slot *set = &block->nodes[vs_mix(key, 0xe7037ed1a0b428dbu) % (VS_NODE_SLOTS / 4) * 4];
    for (int i = 0; i < 4; i++)
        if (set[i].key == key && set[i].used)
            return set[i].stack;
    uint32_t stack = vs_journal_stack(j, parent, frame);
    memmove(set + 1, set, 3 * sizeof *set);
    *set = (struct vs_node_slot){.key = key, .stack = stack, .used = 1};
    return stack;
}
