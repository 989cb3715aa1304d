/*
 * replay_packed.c - what is alive, and a packing of it that knows every lifetime beforehand.
 *
 * The largest block first, each at the lowest offset where nothing that is placed already lives at the same
 * time ("greedy by size").  Placed blocks lie in an array by offset, which each new one walks:
 *
 *      offset |AAAA|   |BBBB|CC|          walked in this order; those that live at another time are passed
 *                   ^ the first gap that is wide enough
 *
 * That takes the square of their number, so blocks beyond the PLACED_MOST largest go, in the order in which
 * they were asked for, to a heap of their own above: expandable segments of 2 MiB granules on one stream.
 * Where all blocks in such a heap need less, that is the answer.
 * The bound is what lives at the same time, in units of 512 B: no packing needs less.
 */
#include <stdlib.h>
#include <string.h>

#include "replay.h"

#define PLACED_MOST 16384
#define UNIT        512u

struct life {
    uint64_t size, offset;
    uint32_t from, to; /* events: alive from one to before the other */
    uint32_t id;
};

static uint64_t units(uint64_t size)
{
    return size ? (size + UNIT - 1) / UNIT * UNIT : UNIT;
}

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

static struct life *lives(const struct trace_tape *tape, uint64_t *bound)
{
    struct life *life = xrealloc(NULL, (tape->ids + 1) * sizeof *life);
    uint64_t live = 0;
    *bound = 0;
    for (size_t i = 0; i < tape->n; i++) {
        const struct tape_event *e = &tape->at[i];
        if (e->what == TAPE_ALLOC) {
            life[e->id] = (struct life){units(e->size), 0, (uint32_t)i, UINT32_MAX, e->id};
            live += life[e->id].size;
        } else if (e->what == TAPE_FREE && !e->deferred) {
            life[e->id].to = (uint32_t)i;
            live -= life[e->id].size;
        } else if (e->what == TAPE_REUSABLE) {
            life[e->id].to = (uint32_t)i;
            live -= life[e->id].size;
        }
        *bound = live > *bound ? live : *bound;
    }
    return life;
}

static int larger_first(const void *a, const void *b)
{
    const struct life *x = a, *y = b;
    if (x->size != y->size)
        return x->size < y->size ? 1 : -1;
    uint32_t p = x->to - x->from, q = y->to - y->from; /* then those that live longer */
    return p != q ? (p < q ? 1 : -1) : (x->id > y->id) - (x->id < y->id);
}

/* ---- the large ones ---- */

static uint64_t lowest_gap(const struct life *placed, size_t n, const struct life *l)
{
    uint64_t at = 0;
    for (size_t i = 0; i < n; i++) {
        const struct life *p = &placed[i];
        if (p->to <= l->from || l->to <= p->from)
            continue;
        if (p->offset >= at && p->offset - at >= l->size)
            break;
        uint64_t end = p->offset + p->size;
        at = end > at ? end : at;
    }
    return at;
}

static void insert(struct life *placed, size_t n, const struct life *l)
{
    size_t low = 0, high = n;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (placed[middle].offset <= l->offset)
            low = middle + 1;
        else
            high = middle;
    }
    memmove(placed + low + 1, placed + low, (n - low) * sizeof *placed);
    placed[low] = *l;
}

static uint64_t place_largest(struct life *sorted, size_t n)
{
    struct life *placed = xrealloc(NULL, (n + 1) * sizeof *placed);
    uint64_t top = 0;
    for (size_t i = 0; i < n; i++) {
        sorted[i].offset = lowest_gap(placed, i, &sorted[i]);
        insert(placed, i, &sorted[i]);
        uint64_t end = sorted[i].offset + sorted[i].size;
        top = end > top ? end : top;
    }
    free(placed);
    return top;
}

/* ---- the others ---- */

static uint64_t heap_of_rest(const struct trace_tape *tape, const struct life *rest, size_t n)
{
    struct trace_tape other = {.ids = tape->ids, .start = 0};
    bool *wanted = xrealloc(NULL, tape->ids + 1);
    memset(wanted, 0, tape->ids + 1);
    for (size_t i = 0; i < n; i++)
        wanted[rest[i].id] = true;
    for (size_t i = 0; i < tape->n; i++) {
        struct tape_event e = tape->at[i];
        bool block = e.what == TAPE_ALLOC || e.what == TAPE_FREE || e.what == TAPE_REUSABLE;
        e.stream = 0;
        if (block && wanted[e.id])
            *PUSH(other.at, other.n) = e;
    }
    struct torch_settings settings = torch_defaults();
    struct replay_result r;
    settings.expandable = true;
    settings.large_segment = UINT64_C(2) << 20;
    replay_torch(&other, &settings, false, &r);
    free(wanted);
    free(other.at);
    return r.reserved;
}

void replay_packed(const struct trace_tape *tape, uint64_t capacity, struct replay_result *r)
{
    *r = (struct replay_result){.method = "greedy by size"};
    int64_t begin = replay_now();
    struct life *life = lives(tape, &r->bound);
    size_t most = tape->ids < PLACED_MOST ? tape->ids : PLACED_MOST;
    if (tape->ids)
        qsort(life, tape->ids, sizeof *life, larger_first);
    r->reserved = place_largest(life, most);
    if (tape->ids > most) {
        r->reserved += heap_of_rest(tape, life + most, tape->ids - most);
        r->method = "greedy by size, small blocks in a heap";
        uint64_t heap = heap_of_rest(tape, life, tape->ids);
        if (heap < r->reserved) {
            r->reserved = heap;
            r->method = "best fit in one heap";
        }
    }
    r->events = tape->n;
    r->ran_out = capacity && r->reserved > capacity;
    r->out_t = UNKNOWN; /* no request fails: the plan as a whole does not fit */
    free(life);
    r->ns = replay_now() - begin;
}
