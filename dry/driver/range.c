/*
 * range.c - an ordered map of disjoint address ranges, found by any address inside: a treap (O(log n) with a
 * hundred thousand live allocations) with its nodes inside the caller's structs.
 */
#include "sim.h"

static uint32_t random32(void)
{
    static uint32_t state = 2463534242u;
    state ^= state << 13;
    state ^= state >> 17;
    state ^= state << 5;
    return state;
}

/* All of LOW below all of HIGH. */
static struct sim_range *merge(struct sim_range *low, struct sim_range *high)
{
    if (!low || !high)
        return low ? low : high;
    if (low->priority > high->priority) {
        low->right = merge(low->right, high);
        return low;
    }
    high->left = merge(low, high->left);
    return high;
}

static void split(struct sim_range *tree, uint64_t at, struct sim_range **low, struct sim_range **high)
{
    if (!tree) {
        *low = *high = NULL;
    } else if (tree->start < at) {
        *low = tree;
        split(tree->right, at, &tree->right, high);
    } else {
        *high = tree;
        split(tree->left, at, low, &tree->left);
    }
}

void sim_map_insert(struct sim_map *map, struct sim_range *range)
{
    struct sim_range *low, *high;
    range->left = range->right = NULL;
    range->priority = random32();
    split(map->root, range->start, &low, &high);
    map->root = merge(merge(low, range), high);
}

void sim_map_remove(struct sim_map *map, struct sim_range *range)
{
    struct sim_range **link = &map->root;
    while (*link && *link != range)
        link = range->start < (*link)->start ? &(*link)->left : &(*link)->right;
    if (*link)
        *link = merge(range->left, range->right);
}

struct sim_range *sim_map_at(const struct sim_map *map, uint64_t address)
{
    struct sim_range *best = NULL;
    for (struct sim_range *node = map->root; node;) {
        if (node->start <= address) {
            best = node;
            node = node->right;
        } else {
            node = node->left;
        }
    }
    return best && address - best->start < best->size ? best : NULL;
}

struct sim_range *sim_map_from(const struct sim_map *map, uint64_t address)
{
    struct sim_range *best = NULL;
    for (struct sim_range *node = map->root; node;) {
        if (node->start >= address) {
            best = node;
            node = node->left;
        } else {
            node = node->right;
        }
    }
    return best;
}

bool sim_map_overlaps(const struct sim_map *map, uint64_t start, uint64_t size)
{
    if (sim_map_at(map, start))
        return true;
    const struct sim_range *next = sim_map_from(map, start);
    return next && next->start - start < size;
}
