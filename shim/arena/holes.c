/*
 * holes.c - trees of holes: best fit in O(log n).
 *
 * A treap ordered by (size, place), kept shallow by a random priority per tile; the links are in the tiles.
 * Best fit is the leftmost hole that is large enough: among equals the lowest, which keeps the top of the
 * heap free.
 */
#include "internal.h"

static inline bool before(const struct tile *x, const struct tile *y)
{
    return x->size != y->size ? x->size < y->size : x->at < y->at;
}

static uint32_t next_random(struct vs_arena *a)
{
    uint32_t x = a->random; /* xorshift32 */
    x ^= x << 13;
    x ^= x >> 17;
    x ^= x << 5;
    return a->random = x;
}

void vs_holes_insert(struct vs_arena *a, uint32_t *root, uint32_t tile)
{
    struct tile *all = a->tile, *x = &all[tile];
    uint32_t *link = root;
    x->priority = next_random(a);
    while (*link != NIL && all[*link].priority >= x->priority)
        link = before(x, &all[*link]) ? &all[*link].left : &all[*link].right;
    /* what hangs here is split into what is before the new one and what is after it */
    uint32_t rest = *link, *left = &x->left, *right = &x->right;
    *link = tile;
    while (rest != NIL) {
        if (before(&all[rest], x)) {
            *left = rest;
            left = &all[rest].right;
            rest = *left;
        } else {
            *right = rest;
            right = &all[rest].left;
            rest = *right;
        }
    }
    *left = *right = NIL;
}

void vs_holes_remove(struct vs_arena *a, uint32_t *root, uint32_t tile)
{
    struct tile *all = a->tile, *x = &all[tile];
    uint32_t *link = root;
    while (*link != tile)
        link = before(x, &all[*link]) ? &all[*link].left : &all[*link].right;
    uint32_t left = x->left, right = x->right;
    while (left != NIL && right != NIL) {
        if (all[left].priority > all[right].priority) {
            *link = left;
            link = &all[left].right;
            left = *link;
        } else {
            *link = right;
            link = &all[right].left;
            right = *link;
        }
    }
    *link = left != NIL ? left : right;
}

uint32_t vs_holes_fit(const struct vs_arena *a, uint32_t root, uint64_t size)
{
    const struct tile *all = a->tile;
    uint32_t best = NIL;
    while (root != NIL) {
        bool fits = all[root].size >= size;
        best = fits ? root : best;
        root = fits ? all[root].left : all[root].right;
    }
    return best;
}
