/*
 * replay_async.c - a tape through what is known of the driver's pool behind cudaMallocAsync, as PyTorch's
 * backend:cudaMallocAsync uses it.  An approximation: no document says where the driver puts a block.
 *
 *   - Sizes are multiples of 512 B.  PyTorch rounds none of them.
 *   - The pool grows by multiples of 32 MiB: every figure that was measured of it is one.
 *   - All streams share.  What one stream frees another can have, by dependencies of events or by ones that
 *     the driver makes.  A free that other streams held up waits.
 *   - PyTorch sets no end to what the pool keeps.  Two things are not followed: what empty_cache() gives
 *     back, and whether the driver gives something back where the device has no more.
 *
 * Two rules are guesses: the pool is one line of addresses, and a request takes the free room that fits best.
 * If pieces never joined, a decoder's steps of changing lengths would hold half as much again as they were
 * measured to hold.
 */
#include <stdlib.h>
#include <string.h>

#include "extents.h"
#include "replay.h"
#include "read/tape.h"

#define UNIT  512u
#define PIECE ((UINT64_C(32) << 20) / UNIT)

struct replay {
    struct replay_result *r;
    struct extents *room;
    uint32_t *blocks;                  /* by id; 0: not alive */
    uint64_t capacity, reserved, live; /* capacity, reserved: units */
};

/* No free room holds SIZE: that at the top is smaller. */
static bool grow_pool(struct replay *p, uint64_t size)
{
    uint64_t more = (size - extents_spare(p->room) + PIECE - 1) / PIECE * PIECE;
    if (p->capacity && (more > p->capacity || p->reserved > p->capacity - more))
        return false;
    extents_grow(p->room, more);
    p->reserved += more;
    p->r->reserved = p->reserved * UNIT;
    return true;
}

static bool allocate(struct replay *p, const struct tape_event *e)
{
    uint64_t size = e->size ? (e->size + UNIT - 1) / UNIT : 1;
    uint32_t block = extents_take_any(p->room, size);
    if (!block && grow_pool(p, size))
        block = extents_take(p->room, size);
    p->blocks[e->id] = block;
    p->live += block ? e->size : 0;
    return block != 0;
}

static void make_reusable(struct replay *p, uint32_t id)
{
    if (p->blocks[id])
        extents_give(p->room, p->blocks[id]);
    p->blocks[id] = 0;
}

static void play(struct replay *p, const struct trace_tape *tape, const struct tape_event *e)
{
    if (e->what == TAPE_ALLOC) {
        p->r->events++;
        if (allocate(p, e))
            return;
        p->r->ran_out = true;
        p->r->out_at_start = e < tape->at + tape->start;
        p->r->out_t = e->t;
        p->r->out_size = e->size;
        p->r->out_live = p->live;
        p->r->out_reserved = p->reserved * UNIT;
    } else if (e->what == TAPE_FREE) {
        p->r->events++;
        p->live -= p->blocks[e->id] ? e->size : 0;
        if (!e->deferred)
            make_reusable(p, e->id);
    } else if (e->what == TAPE_REUSABLE) {
        make_reusable(p, e->id);
    }
}

void replay_async(const struct trace_tape *tape, uint64_t capacity, struct replay_result *r)
{
    struct replay p = {.r = r, .capacity = capacity / UNIT};
    *r = (struct replay_result){0};
    if (capacity && !p.capacity)
        p.capacity = 1; /* none at all, which 0 does not mean */
    p.room = memset(xrealloc(NULL, sizeof *p.room), 0, sizeof *p.room);
    extents_begin(p.room);
    p.blocks = xrealloc(NULL, (tape->ids + (size_t)1) * sizeof *p.blocks);
    int64_t begin = replay_now();
    for (size_t i = 0; i < tape->n && !r->ran_out; i++)
        play(&p, tape, &tape->at[i]);
    r->ns = replay_now() - begin;
    extents_end(p.room);
    free(p.room);
    free(p.blocks);
}
