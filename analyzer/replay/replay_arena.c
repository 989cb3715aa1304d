/*
 * replay_arena.c - a tape through the arena's own code, and one that holds only what is alive (FEED_LIVE).
 * Events of the device are reached at once, as if it were never behind the program.
 */
#include <stdlib.h>

#include "replay.h"

static void ran_out(struct replay_result *r, const struct trace_tape *tape, size_t i, uint64_t live,
                    uint64_t reserved)
{
    const struct tape_event *e = &tape->at[i];
    r->ran_out = true;
    r->out_at_start = i < tape->start;
    r->out_t = e->t;
    r->out_size = e->size;
    r->out_live = live;
    r->out_reserved = reserved;
}

void replay_arena(const struct trace_tape *tape, uint64_t capacity, struct replay_result *r)
{
    struct torch_settings settings = {.capacity = capacity ? capacity : UINT64_MAX};
    struct feed *f = feed_begin(FEED_ARENA, &settings, tape->ids);
    uint16_t *stream = xrealloc(NULL, (tape->ids + 1) * sizeof *stream); /* by id */
    uint64_t live = 0;
    *r = (struct replay_result){0};
    int64_t begin = replay_now();
    for (size_t i = 0; i < tape->n && !r->ran_out; i++) {
        const struct tape_event *e = &tape->at[i];
        if (e->what == TAPE_ALLOC) {
            stream[e->id] = e->stream;
            if (!feed_born(f, e->id, e->size, e->stream))
                ran_out(r, tape, i, live, feed_now(f).reserved);
            else
                live += e->size;
        } else if (e->what == TAPE_FREE) {
            feed_died(f, e->id, e->size, stream[e->id], e->deferred);
            live -= e->size;
        }
        r->events += e->what == TAPE_ALLOC || e->what == TAPE_FREE;
        uint64_t reserved = feed_now(f).reserved;
        r->reserved = reserved > r->reserved ? reserved : r->reserved;
    }
    r->ns = replay_now() - begin;
    feed_end(f);
    free(stream);
}

void replay_live(const struct trace_tape *tape, uint64_t capacity, struct replay_result *r)
{
    uint64_t live = 0;
    *r = (struct replay_result){0};
    int64_t begin = replay_now();
    for (size_t i = 0; i < tape->n && !r->ran_out; i++) {
        const struct tape_event *e = &tape->at[i];
        if (e->what == TAPE_ALLOC && capacity && e->size > capacity - live) {
            ran_out(r, tape, i, live, live);
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
