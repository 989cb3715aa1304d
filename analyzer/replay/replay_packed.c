/*
 * replay_packed.c - what is alive, and a packing of it that knows every lifetime beforehand.
 *
 * To place the largest block first needs least where a program asks for few different sizes, as training
 * does.  But each block has to look at what lives at the same time, so this is given up where that is too
 * much, as with a million random sizes.  Then heaps are tried that go through the events in order, or
 * backwards (pack.h), and the lowest is the answer.
 *
 * The bound is what lives at the same time, in units of 512 B: no packing needs less.
 */
#include <stdlib.h>
#include <string.h>

#include "pack.h"
#include "replay.h"
#include "read/tape.h"

#define SMALL       2048 /* units: PyTorch's own limit of small blocks, which split heaps have */
#define NEAR(bound) ((bound) + (bound) / 10000 + 1)

void replay_live(const struct trace_tape *tape, uint64_t capacity, struct replay_result *r)
{
    uint64_t live = 0;
    *r = (struct replay_result){0};
    int64_t begin = replay_now();
    for (size_t i = 0; i < tape->n && !r->ran_out; i++) {
        const struct tape_event *e = &tape->at[i];
        if (e->what == TAPE_ALLOC && capacity && e->size > capacity - live) {
            r->ran_out = true;
            r->out_at_start = i < tape->start;
            r->out_t = e->t;
            r->out_size = e->size;
            r->out_live = r->out_reserved = live;
        } else if (e->what == TAPE_ALLOC) {
            live += e->size;
            r->events++;
        } else if (e->what == TAPE_FREE) {
            live -= e->size;
            r->events++;
        }
        r->reserved = live > r->reserved ? live : r->reserved;
    }
    r->ns = replay_now() - begin;
}

/* ---- lifetimes ---- */

static uint64_t units(uint64_t size)
{
    return size ? (size + PACK_UNIT - 1) / PACK_UNIT : 1;
}

/* The most units that live at once. */
static uint64_t read_lives(struct pack *p, const struct trace_tape *tape)
{
    uint64_t live = 0, bound = 0;
    p->blocks = xrealloc(NULL, (tape->ids + (size_t)1) * sizeof *p->blocks);
    p->at = xrealloc(NULL, (2 * (size_t)tape->ids + 1) * sizeof *p->at);
    p->count = tape->ids;
    for (size_t i = 0; i < tape->n; i++) {
        const struct tape_event *e = &tape->at[i];
        if (e->what == TAPE_ALLOC) {
            p->blocks[e->id] = (struct pack_block){units(e->size), p->events, UINT32_MAX};
            live += p->blocks[e->id].size;
        } else if ((e->what == TAPE_FREE && !e->deferred) || e->what == TAPE_REUSABLE) {
            p->blocks[e->id].to = p->events;
            live -= p->blocks[e->id].size;
        } else {
            continue;
        }
        p->at[p->events++] = e->id;
        bound = live > bound ? live : bound;
    }
    for (uint32_t i = 0; i < p->count; i++)
        if (p->blocks[i].to == UINT32_MAX)
            p->blocks[i].to = p->events;
    return bound;
}

/* ---- the packing ---- */

struct best {
    uint64_t height;
    const char *method;
};

static void offer(struct best *best, uint64_t height, const char *method)
{
    if (height < best->height)
        *best = (struct best){height, method};
}

/* Each gives up where it would be no better than what is there.  Backwards a heap often meets the bound, and
 * whether it does is seen early. */
static struct best pack(const struct pack *p, uint64_t bound)
{
    struct best best = {UINT64_MAX, NULL};
    offer(&best, pack_heap(p, UINT64_MAX, true, NEAR(bound)), "best fit backwards");
    if (!best.method)
        offer(&best, pack_greedy(p, best.height), "greedy by size");
    if (!best.method) {
        offer(&best, pack_heap(p, SMALL, false, best.height), "best fit");
        offer(&best, pack_heap(p, SMALL, true, best.height), "best fit backwards");
    }
    if (best.height >= NEAR(bound))
        offer(&best, pack_heap(p, UINT64_MAX, true, best.height), "best fit backwards");
    return best;
}

void replay_packed(const struct trace_tape *tape, uint64_t capacity, struct replay_result *r)
{
    struct pack p = {0};
    *r = (struct replay_result){0};
    int64_t begin = replay_now();
    uint64_t bound = read_lives(&p, tape);
    struct best best = pack(&p, bound);
    r->bound = bound * PACK_UNIT;
    r->reserved = best.height * PACK_UNIT;
    r->method = best.method;
    r->events = tape->n;
    r->ran_out = capacity && r->reserved > capacity;
    r->out_t = UNKNOWN; /* no request fails: the plan as a whole does not fit */
    free(p.blocks);
    free(p.at);
    r->ns = replay_now() - begin;
}
