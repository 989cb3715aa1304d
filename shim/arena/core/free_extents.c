/*
 * free_extents.c - free extents by size: best fit, mostly in a few steps.
 *
 * Sizes are sorted into bins, 32 to a power of two, and each bin is a treap ordered by (size, place), kept
 * shallow by a priority that each extent's number gives.  Words of bits tell which bins have any.  Each step
 * down a tree is a branch that a processor guesses wrong and a line that is in no near cache, so more bins
 * are faster than deeper trees.  Among equals the lowest is taken, which keeps the top of the heap free.
 */
#include "internal.h"

#define FINE 5 /* 1 << FINE bins to a power of two */

/* A step wider at each power of two; what is beyond the last begins in the last one. */
static inline unsigned bin_of(uint64_t size)
{
    uint64_t units = size / VS_ARENA_UNIT;
    unsigned power = 63 - (unsigned)__builtin_clzll(units | 1 << FINE);
    unsigned bin = ((power - FINE) << FINE) + (unsigned)(units >> (power - FINE));
    return bin < BINS ? bin : BINS - 1;
}

static inline void note_filled(struct free_extents *f, unsigned bin)
{
    f->filled[bin / 64] |= UINT64_C(1) << bin % 64;
    f->words |= UINT64_C(1) << bin / 64;
}

static inline void note_empty(struct free_extents *f, unsigned bin)
{
    f->filled[bin / 64] &= ~(UINT64_C(1) << bin % 64);
    if (!f->filled[bin / 64])
        f->words &= ~(UINT64_C(1) << bin / 64);
}

/* Whether X goes to the right of Y, without a branch that the processor would have to guess. */
static inline bool after(const struct extent *x, const struct extent *y)
{
    return ((unsigned __int128)x->size << 64 | x->at) > ((unsigned __int128)y->size << 64 | y->at);
}

static inline uint32_t *side(struct extent *t, bool right)
{
    return right ? &t->right : &t->left;
}

/* Of each extent another one, as if by chance.  One multiplication alone is not enough: free extents in a
 * rhythm, say each 233rd extent, would have priorities in a row. */
static inline uint32_t priority_of(uint32_t extent)
{
    uint32_t x = extent * 2654435769u;
    return (x ^ x >> 15) * 2221713035u;
}

/* What hangs at LINK is split into what is before the new extent and what is after it. */
static void put_at(struct extent *all, uint32_t *link, uint32_t extent)
{
    struct extent *x = &all[extent];
    uint32_t rest = *link, *left = &x->left, *right = &x->right;
    *link = extent;
    while (rest != NIL) {
        if (after(x, &all[rest])) {
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

void vs_free_extents_insert(struct vs_arena *a, struct free_extents *free_extents, uint32_t extent)
{
    struct extent *all = a->extent, *x = &all[extent];
    unsigned bin = bin_of(x->size);
    uint32_t *link = &free_extents->root[bin];
    if (!(free_extents->filled[bin / 64] >> bin % 64 & 1))
        *link = NIL;
    note_filled(free_extents, bin);
    while (*link != NIL && priority_of(*link) >= priority_of(extent))
        link = side(&all[*link], after(x, &all[*link]));
    put_at(all, link, extent);
}

void vs_free_extents_remove(struct vs_arena *a, struct free_extents *free_extents, uint32_t extent)
{
    struct extent *all = a->extent, *x = &all[extent];
    unsigned bin = bin_of(x->size);
    uint32_t *link = &free_extents->root[bin];
    while (*link != extent)
        link = side(&all[*link], after(x, &all[*link]));
    uint32_t left = x->left, right = x->right;
    while (left != NIL && right != NIL) {
        if (priority_of(left) > priority_of(right)) {
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
    if (free_extents->root[bin] == NIL)
        note_empty(free_extents, bin);
}

static uint32_t fit_in(const struct extent *all, uint32_t root, uint64_t size)
{
    uint32_t best = NIL;
    while (root != NIL) {
        bool fits = all[root].size >= size;
        best = fits ? root : best;
        root = fits ? all[root].left : all[root].right;
    }
    return best;
}

/* In the first bin that has any, or, where these are all too small, in the next. */
uint32_t vs_free_extents_fit(const struct vs_arena *a, const struct free_extents *free_extents, uint64_t size)
{
    unsigned bin = bin_of(size), word = bin / 64;
    uint64_t bits = free_extents->filled[word] & ~UINT64_C(0) << bin % 64;
    uint64_t words = free_extents->words & ~UINT64_C(1) << word; /* behind this one */
    for (;; words &= words - 1) {
        for (; bits; bits &= bits - 1) {
            uint32_t root = free_extents->root[word * 64 + (unsigned)__builtin_ctzll(bits)];
            uint32_t best = fit_in(a->extent, root, size);
            if (best != NIL)
                return best;
        }
        if (!words)
            return NIL;
        word = (unsigned)__builtin_ctzll(words);
        bits = free_extents->filled[word];
    }
}
