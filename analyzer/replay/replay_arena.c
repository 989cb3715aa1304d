/*
 * replay_arena.c - a tape through the arena's own code, over a backing of counters.  Events of the device are
 * reached at once, as if it were never behind the program.
 */
#include <stdlib.h>
#include <string.h>

#include "arena/core/arena.h"
#include "arena/core/backing.h"
#include "read/tape.h"
#include "replay.h"

#define CHUNK         (UINT64_C(2) << 20)
#define ADDRESS_MOST  (UINT64_C(192) << 30) /* of a device whose memory is not told */
#define CAPACITY_MOST (UINT64_C(320) << 30) /* more is no end, and too many addresses */
#define QUEUES        (VS_ARENA_QUEUES - 1)

struct replay {
    struct vs_arena *arena;
    struct vs_backing_count count;
    uint32_t queue[QUEUES]; /* of a stream; 0: none yet */
    uint64_t *address;      /* by id; 0 not alive */
    uint16_t *stream;       /* by id */
    uint64_t live;
    uint32_t alive; /* blocks */
    const struct trace_tape *tape;
    struct replay_result *r;
};

/* A stream beyond those that the arena tells apart has no queue, as in a program. */
static uint32_t queue_of(struct replay *p, uint16_t stream)
{
    if (stream >= QUEUES)
        return VS_ARENA_ANY;
    if (!p->queue[stream] && vs_arena_open_queue(p->arena, stream, 0, &p->queue[stream]) != 0)
        return VS_ARENA_ANY;
    return p->queue[stream];
}

static void ran_out(struct replay *p, const struct tape_event *e)
{
    p->r->ran_out = true;
    p->r->out_at_start = e < p->tape->at + p->tape->start;
    p->r->out_t = e->t;
    p->r->out_size = e->size;
    p->r->out_live = p->live;
    p->r->out_reserved = p->count.chunks * CHUNK;
}

static void play(struct replay *p, const struct tape_event *e)
{
    p->count.now++;
    if (e->what == TAPE_ALLOC) {
        p->r->events++;
        if (vs_arena_malloc(p->arena, queue_of(p, e->stream), e->size, &p->address[e->id]) != 0) {
            p->address[e->id] = 0;
            ran_out(p, e);
            return;
        }
        p->stream[e->id] = e->stream;
        p->live += e->size;
        p->alive++;
    } else if (e->what == TAPE_FREE && p->address[e->id]) {
        uint32_t queue = queue_of(p, p->stream[e->id]);
        p->r->events++;
        vs_arena_free(p->arena, p->address[e->id], queue,
                      e->deferred || queue == VS_ARENA_ANY ? VS_FREE_DEFER : 0);
        p->address[e->id] = 0;
        p->live -= e->size;
        p->alive--;
    }
}

#define MANY  4096 /* alive: they do not fit into near caches, so what a free reads is fetched before */
#define AHEAD 4    /* events from one fetch to the next, which is found by way of it */

static void expect(const struct replay *p, size_t i)
{
    const struct tape_event *e = &p->tape->at[i];
    if (i + 3 * AHEAD >= p->tape->n)
        return;
    if (e[3 * AHEAD].what == TAPE_FREE)
        __builtin_prefetch(&p->address[e[3 * AHEAD].id]);
    if (e[2 * AHEAD].what == TAPE_FREE)
        vs_arena_expect_free(p->arena, p->address[e[2 * AHEAD].id], false);
    if (e[AHEAD].what == TAPE_FREE)
        vs_arena_expect_free(p->arena, p->address[e[AHEAD].id], true);
}

void replay_arena(const struct trace_tape *tape, uint64_t capacity, struct replay_result *r)
{
    struct replay p = {.count = {.capacity = capacity / CHUNK}, .tape = tape, .r = r};
    struct vs_backing backing = vs_backing_of_counters(&p.count, CHUNK);
    struct vs_arena_config config = {.capacity =
                                         capacity && capacity < CAPACITY_MOST ? capacity : ADDRESS_MOST};
    *r = (struct replay_result){0};
    if (capacity && capacity < CHUNK) /* none at all, which 0 does not mean */
        p.count.chunks = p.count.capacity = 1;
    if (vs_arena_create(&p.arena, &backing, &config) != 0)
        exit(complain("out of memory"));
    p.address = xrealloc(NULL, (tape->ids + 1) * sizeof *p.address);
    memset(p.address, 0, (tape->ids + 1) * sizeof *p.address);
    p.stream = xrealloc(NULL, (tape->ids + 1) * sizeof *p.stream);
    int64_t begin = replay_now();
    for (size_t i = 0; i < tape->n && !r->ran_out; i++) {
        if (p.alive > MANY)
            expect(&p, i);
        play(&p, &tape->at[i]);
    }
    r->ns = replay_now() - begin;
    struct vs_arena_stats stats;
    vs_arena_stats(p.arena, &stats);
    r->reserved = stats.peak_reserved;
    vs_arena_destroy(p.arena);
    free(p.address);
    free(p.stream);
}
