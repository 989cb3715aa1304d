/*
 * meta.c - memory for the arena's own books.
 *
 * The arena runs inside the host's allocations, perhaps below its malloc, so it must not call malloc.  Small
 * pieces are powers of two carved from slabs, with a free list per size; pieces from VS_META_LARGE bytes on
 * are mappings of their own, which grow with mremap and cost nothing where they are not touched.
 */
#define _GNU_SOURCE
#include "state.h"

#include <string.h>

#include "core/fork.h"

#define SLAB  (256u << 10)
#define LEAST 4 /* class of the smallest piece, 16 bytes */

static void *map_large(struct vs_meta *m, size_t bytes)
{
    void *p = vs_map(bytes);
    m->held += p ? bytes : 0;
    return p;
}

static unsigned class_of(size_t bytes)
{
    unsigned c = LEAST;
    while (((size_t)1 << c) < bytes)
        c++;
    return c;
}

/* What is left of a slab that is too small for the next piece is cut into pieces, so that nothing is wasted.
 */
static void spend_rest(struct vs_meta *m)
{
    for (unsigned c = VS_META_CLASSES; c-- > LEAST;)
        while (m->left >= (size_t)1 << c) {
            *(void **)m->at = m->vacant[c];
            m->vacant[c] = m->at;
            m->at += (size_t)1 << c;
            m->left -= (size_t)1 << c;
        }
}

static int refill(struct vs_meta *m)
{
    char *slab = vs_map(SLAB);
    if (!slab)
        return -1;
    spend_rest(m);
    m->held += SLAB;
    *(void **)slab = m->slabs;
    m->slabs = slab;
    m->at = slab + 64;
    m->left = SLAB - 64;
    return 0;
}

static void *take_small(struct vs_meta *m, unsigned c)
{
    void *p = m->vacant[c];
    size_t bytes = (size_t)1 << c;
    if (p) {
        m->vacant[c] = *(void **)p;
        memset(p, 0, bytes);
        return p;
    }
    if (m->left < bytes && refill(m) != 0)
        return NULL;
    p = m->at;
    m->at += bytes;
    m->left -= bytes;
    memset(p, 0, bytes); /* spent pieces carry links */
    return p;
}

void vs_meta_give(struct vs_meta *m, void *piece, size_t bytes)
{
    if (!piece)
        return;
    if (bytes >= VS_META_LARGE) {
        munmap(piece, bytes);
        m->held -= bytes;
        return;
    }
    unsigned c = class_of(bytes);
    *(void **)piece = m->vacant[c];
    m->vacant[c] = piece;
}

void *vs_meta_resize(struct vs_meta *m, void *old, size_t old_bytes, size_t new_bytes)
{
    if (m->fail_after && --m->fail_after == 0)
        return NULL;
    if (old && old_bytes >= VS_META_LARGE && new_bytes >= VS_META_LARGE) {
        void *moved = mremap(old, old_bytes, new_bytes, MREMAP_MAYMOVE);
        m->held += moved == MAP_FAILED ? 0 : new_bytes - old_bytes;
        return moved == MAP_FAILED ? NULL : moved;
    }
    void *piece = new_bytes >= VS_META_LARGE ? map_large(m, new_bytes) : take_small(m, class_of(new_bytes));
    if (piece && old) {
        memcpy(piece, old, old_bytes < new_bytes ? old_bytes : new_bytes);
        vs_meta_give(m, old, old_bytes);
    }
    return piece;
}

int vs_meta_fit(struct vs_meta *m, void **array, uint32_t *capacity, size_t element, uint32_t count)
{
    if (count <= *capacity)
        return 0;
    if (count > 1u << 31) /* doubling would not come to it */
        return -1;
    uint32_t more = *capacity ? *capacity : 4;
    while (more < count)
        more *= 2;
    void *grown = vs_meta_resize(m, *array, *capacity * element, more * element);
    if (!grown)
        return -1;
    *array = grown;
    *capacity = more;
    return 0;
}

void vs_meta_destroy(struct vs_meta *m)
{
    for (void *slab = m->slabs, *next; slab; slab = next) {
        next = *(void **)slab;
        munmap(slab, SLAB);
    }
    *m = (struct vs_meta){0};
}
