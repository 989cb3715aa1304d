/*
 * sharing.c - whose a free extent is, and what must be waited for before it is used.
 *
 * What a queue frees is left to it at first: it goes on in the order of its stream and need not wait.  After
 * some more frees, or as soon as a request misses, the free extent is all queues', and joins its neighbours.
 * Both happen at points that the program's own calls determine: so a loop that repeats itself finds the same
 * free extents again.
 */
#include "internal.h"

#define TRIES      16   /* free extents that are tried where the best one cannot be waited for */
#define EVEN_SHARE 1024 /* of the live peak, for beginning where chunks do */

/* ---- taking and freeing ---- */

/* The chunks that the bytes FROM to TO touch and that lie wholly in the free extent. */
static struct run chunks_of(const struct vs_arena *a, const struct extent *free_extent, uint64_t from,
                            uint64_t to)
{
    uint32_t whole_first = slot_of(a, free_extent->at + chunk_bytes(a) - 1),
             whole_end = slot_of(a, free_extent->at + free_extent->size);
    uint32_t first = slot_of(a, from), end = slot_of(a, to - 1) + 1;
    first = first < whole_first ? whole_first : first;
    end = end > whole_end ? whole_end : end;
    return (struct run){first, first < end ? end - first : 0};
}

/* Bytes that no block has in chunks that are in use.  SIZE bytes count as live already and have no place yet.
 */
static uint64_t partly_used(const struct vs_arena *a, uint64_t size)
{
    uint64_t used = held(a) - (a->idle << a->shift), live = live_here(a) - size;
    return used > live ? used - live : 0;
}

/* Where in the free extent the block begins.  A block of n whole chunks that began inside a chunk would, once
 * it is freed between two live neighbours, leave only n - 1 chunks idle; and behind one block of an odd size
 * all later ones would begin so.  It therefore begins where a chunk does, if it then fills the extent to its
 * end and as long as the bytes lost below such blocks are next to nothing. */
static uint64_t begin_in(const struct vs_arena *a, const struct extent *free_extent, uint64_t size)
{
    uint64_t mask = chunk_bytes(a) - 1, even = (free_extent->at + mask) & ~mask;
    if (!RULE(EVEN) || size & mask || even == free_extent->at ||
        even + size != free_extent->at + free_extent->size)
        return free_extent->at;
    return partly_used(a, size) <= a->wanted / EVEN_SHARE ? even : free_extent->at;
}

uint32_t vs_free_extent_take(struct vs_arena *a, uint32_t free_extent, uint64_t size)
{
    struct extent *t = &a->extent[free_extent];
    uint64_t from = begin_in(a, t, size), to = t->at + t->size;
    struct run used = chunks_of(a, t, from, from + size);
    uint32_t block = free_extent;
    vs_extent_take(a, free_extent);
    if (from > t->at) {
        block = vs_extent_cut(a, free_extent, from);
        vs_extent_put(a, free_extent);
    }
    uint32_t rest = from + size < to ? vs_extent_cut(a, block, from + size) : NIL;
    a->extent[block].state = EXTENT_USED;
    a->extent[block].others = 0;
    if (rest != NIL)
        vs_extent_put(a, rest);
    if (used.count)
        vs_chunks_claim(a, used.first, used.first + used.count);
    return block;
}

void vs_free_extent_free(struct vs_arena *a, uint32_t extent, uint32_t queue)
{
    struct extent *t = &a->extent[extent];
    uint64_t from = t->at, to = from + t->size;
    t->queue = (uint8_t)queue;
    t->seq = a->seq_now;
    t->waits = 0;
    struct run idle = chunks_of(a, t, from, to);
    if (idle.count)
        vs_chunks_release(a, idle.first, idle.first + idle.count, users_of(queue), a->seq_now);
    vs_extent_give(a, extent, EXTENT_FREE);
}

/* ---- sharing ---- */

static void share(struct vs_arena *a, uint32_t extent)
{
    struct extent *t = &a->extent[extent];
    vs_extent_take(a, extent);
    t->waits |= bit_of(t->queue);
    t->queue = VS_ARENA_ANY;
    vs_extent_give(a, extent, EXTENT_FREE);
}

void vs_free_extents_share(struct vs_arena *a, uint64_t keep)
{
    while (a->oldest_free_extent != NIL && a->extent[a->oldest_free_extent].seq + keep <= a->seq_now)
        share(a, a->oldest_free_extent);
}

/* ---- finding ----
 *
 * A free extent knows whose frees ended the last uses of its bytes, and the number of the latest: that is
 * what another queue must know to be complete, or wait for. */

/* The best fit among the queue's own free extents and those of all queues: the smaller of the two. */
static uint32_t best(const struct vs_arena *a, uint32_t heap, uint32_t queue, uint64_t size)
{
    const struct heap *h = &a->heap[heap];
    uint32_t any = vs_free_extents_fit(a, &h->free[VS_ARENA_ANY], size);
    uint32_t own = queue == VS_ARENA_ANY ? NIL : vs_free_extents_fit(a, &h->free[queue], size);
    if (own == NIL || any == NIL || !RULE(SMALLER_OF_TWO))
        return own == NIL ? any : own;
    return a->extent[any].size < a->extent[own].size ? any : own;
}

/* The queue cannot wait for the best fit: takes the first of the next larger ones that needs no wait. */
static uint32_t find_ready(const struct vs_arena *a, uint32_t heap, uint32_t queue, uint64_t size)
{
    for (int i = 0; i < (RULE(FIND_READY) ? TRIES : 0); i++) {
        uint64_t need[QUEUES] = {0};
        uint32_t free_extent = best(a, heap, queue, size);
        if (free_extent == NIL ||
            !vs_order_need(a, queue, a->extent[free_extent].waits, a->extent[free_extent].seq, need))
            return free_extent;
        size = a->extent[free_extent].size + VS_ARENA_UNIT;
    }
    return NIL;
}

/* Whether the queue may use the free extent now: its last uses are complete, or the stream was made to wait.
 */
static bool make_ready(struct vs_arena *a, uint32_t free_extent, uint32_t queue)
{
    const struct extent *t = &a->extent[free_extent];
    uint64_t need[QUEUES] = {0};
    return !vs_order_need(a, queue, t->waits, t->seq, need) || vs_order_wait(a, queue, need) == 0;
}

bool vs_free_extent_at_top(struct vs_arena *a, uint32_t heap, uint32_t queue)
{
    const struct heap *h = &a->heap[heap];
    return !h->top || a->extent[h->last].state != EXTENT_FREE || make_ready(a, h->last, queue);
}

uint32_t vs_free_extent_find(struct vs_arena *a, uint32_t heap, uint32_t queue, uint64_t size)
{
    uint32_t free_extent = best(a, heap, queue, size);
    if (__builtin_expect(free_extent == NIL || !(a->extent[free_extent].waits & ~bit_of(queue)), 1))
        return free_extent;
    return make_ready(a, free_extent, queue) ? free_extent : find_ready(a, heap, queue, size);
}
