/*
 * ordered.h - an ordered set of free blocks: by stream and size, then by address, as PyTorch's std::set has
 * them.
 *
 * The order lies in one array of leaves, so a look-up is two binary searches in memory that is side by side,
 * and an insertion moves at most a leaf.
 */
#ifndef VS_REPLAY_ORDERED_H
#define VS_REPLAY_ORDERED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ORDERED_LEAF 64

struct ordered_key {
    uint64_t first, second; /* compared in this order */
};

struct ordered_leaf {
    struct ordered_key key[ORDERED_LEAF];
    uint32_t value[ORDERED_LEAF];
    uint32_t n;
};

struct ordered {
    struct ordered_leaf **leaves; /* none is empty */
    struct ordered_key *least;    /* of each leaf, and its value */
    uint32_t *least_value;
    size_t n, room;
    uint32_t *hints; /* by stream and about what size: the leaf of the last key */
};

struct ordered_place {
    size_t leaf;
    uint32_t at;
};

/* Values tell equal keys apart, which a damaged recording may have. */
void ordered_insert(struct ordered *o, struct ordered_key key, uint32_t value);
/* Nothing where KEY with VALUE is not there. */
void ordered_remove(struct ordered *o, struct ordered_key key, uint32_t value);
void ordered_free(struct ordered *o);

/* The first entry not before KEY; at the end: leaf == o->n. */
struct ordered_place ordered_from(const struct ordered *o, struct ordered_key key);

static inline bool ordered_ends(const struct ordered *o, struct ordered_place p)
{
    return p.leaf == o->n;
}
static inline struct ordered_key ordered_key(const struct ordered *o, struct ordered_place p)
{
    return o->leaves[p.leaf]->key[p.at];
}
static inline uint32_t ordered_value(const struct ordered *o, struct ordered_place p)
{
    return o->leaves[p.leaf]->value[p.at];
}
static inline struct ordered_place ordered_next(const struct ordered *o, struct ordered_place p)
{
    if (++p.at == o->leaves[p.leaf]->n)
        p = (struct ordered_place){p.leaf + 1, 0};
    return p;
}
/* False: P is the first, or there is none. */
static inline bool ordered_back(const struct ordered *o, struct ordered_place *p)
{
    if (p->leaf == 0 && p->at == 0)
        return false;
    if (p->at == 0)
        p->at = o->leaves[--p->leaf]->n;
    p->at--;
    return true;
}

#endif
