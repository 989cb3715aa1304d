/*
 * placement_digest.h - a number for all that the arena decides about a list of requests and frees: each
 * address, each call of the backing with its arguments, in their order, and each figure.  Code that decides
 * as before has the same digest.
 */
#ifndef TESTS_UNIT_REPLAY_PLACEMENT_DIGEST_H
#define TESTS_UNIT_REPLAY_PLACEMENT_DIGEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "arena/core/arena.h"
#include "arena/core/backing.h"

#define PLACEMENT_STREAMS 64
#define PLACEMENT_ANY     PLACEMENT_STREAMS /* memory that no stream was asked for for */

struct placement_event {
    uint64_t size;
    uint32_t id;
    int stream;    /* -1: a free */
    int freed_on;  /* of a free: 1 + its stream, 0: the block's */
    bool deferred; /* a free whose block other streams still use */
};

struct placement_list {
    struct placement_event *at;
    uint32_t n, ids;
};

/* How the arena is asked, and what its device has and does. */
struct placement_setting {
    uint64_t lag;      /* calls until an event is reached, or half as many more or fewer; 0: at once */
    uint64_t device;   /* chunks; 0: enough */
    uint64_t mappings; /* the most; 0: the arena's own limit */
    bool defer;        /* no stream is known, and no free waits */
    bool no_waits;     /* no stream is made to wait for another */
    bool lent_to_none; /* odd streams' memory is lent to nobody */
};

struct placement_witness {
    struct vs_backing_count count;
    struct vs_backing counting; /* what the calls are passed on to */
    uint64_t digest;
};

static inline uint64_t placement_mix(uint64_t digest, uint64_t value)
{
    digest = (digest ^ value) * UINT64_C(0xff51afd7ed558ccd);
    return digest ^ digest >> 29;
}

static inline void placement_note(struct placement_witness *w, uint64_t kind, uint64_t x, uint64_t y)
{
    w->digest = placement_mix(placement_mix(placement_mix(w->digest, kind), x), y);
}

/* ---- a backing that notes each call ---- */

static int placement_reserve(void *context, uint64_t size, uint64_t *address)
{
    struct placement_witness *w = context;
    int status = w->counting.reserve(&w->count, size, address);
    placement_note(w, 1, size, *address);
    return status;
}

/* By its number: one of a single chunk is noted as that alone. */
static inline uint64_t placement_handle(uint64_t handle)
{
    return (handle & 0xff) == 1 ? handle >> 8 : handle;
}

static int placement_create(void *context, uint64_t size, uint64_t *handle)
{
    struct placement_witness *w = context;
    int status = w->counting.create(&w->count, size, handle);
    placement_note(w, 2, (uint64_t)status, status == 0 ? placement_handle(*handle) : 0);
    return status;
}

static int placement_release(void *context, uint64_t handle)
{
    struct placement_witness *w = context;
    placement_note(w, 3, placement_handle(handle), 0);
    return w->counting.release(&w->count, handle);
}

static int placement_map(void *context, uint64_t address, uint64_t size, uint64_t handle)
{
    struct placement_witness *w = context;
    placement_note(w, 4, address, placement_handle(handle));
    return w->counting.map(&w->count, address, size, handle);
}

static int placement_access(void *context, uint64_t address, uint64_t size, uint64_t peers)
{
    struct placement_witness *w = context;
    placement_note(w, 5, address, size);
    return w->counting.access(&w->count, address, size, peers);
}

static int placement_unmap(void *context, uint64_t address, uint64_t size)
{
    struct placement_witness *w = context;
    placement_note(w, 6, address, size);
    return w->counting.unmap(&w->count, address, size);
}

static int placement_event_of(void *context, uint64_t stream, uint64_t *event)
{
    struct placement_witness *w = context;
    int status = w->counting.event(&w->count, stream, event);
    placement_note(w, 7, stream, *event);
    return status;
}

static int placement_reached(void *context, uint64_t event)
{
    struct placement_witness *w = context;
    placement_note(w, 8, event, 0);
    return w->counting.reached(&w->count, event);
}

static int placement_stream_wait(void *context, uint64_t stream, uint64_t event)
{
    struct placement_witness *w = context;
    placement_note(w, 9, stream, event);
    return w->counting.stream_wait(&w->count, stream, event);
}

static void placement_forget(void *context, uint64_t event)
{
    placement_note(context, 10, event, 0);
}

static void placement_unreserve(void *context, uint64_t address, uint64_t size)
{
    placement_note(context, 11, address, size);
}

static int placement_synchronize(void *context)
{
    struct placement_witness *w = context;
    placement_note(w, 12, 0, 0);
    return w->counting.synchronize(&w->count);
}

static int placement_await(void *context, uint64_t event)
{
    struct placement_witness *w = context;
    placement_note(w, 13, event, 0);
    return w->counting.await(&w->count, event);
}

static int placement_room(void *context, uint64_t *bytes)
{
    struct placement_witness *w = context;
    placement_note(w, 14, 0, 0);
    return w->counting.room(&w->count, bytes);
}

static inline struct vs_backing placement_backing(struct placement_witness *w, uint64_t chunk)
{
    w->counting = vs_backing_of_counters(&w->count, chunk);
    return (struct vs_backing){.context = w,
                               .chunk = chunk,
                               .reserve = placement_reserve,
                               .unreserve = placement_unreserve,
                               .create = placement_create,
                               .release = placement_release,
                               .map = placement_map,
                               .access = placement_access,
                               .unmap = placement_unmap,
                               .event = placement_event_of,
                               .reached = placement_reached,
                               .stream_wait = placement_stream_wait,
                               .forget = placement_forget,
                               .synchronize = placement_synchronize,
                               .await = placement_await,
                               .room = placement_room};
}

/* ---- the arena ---- */

struct placement_run {
    struct vs_arena *arena;
    struct placement_witness w;
    uint32_t queue[PLACEMENT_STREAMS + 1]; /* of a stream; 0: none yet, or none is left */
    uint64_t *address;                     /* by id; 0: not alive */
    uint8_t *stream;
    uint64_t random;
};

static inline uint32_t placement_queue(struct placement_run *r, int stream, const struct placement_setting *s)
{
    unsigned flags = s->lent_to_none && stream % 2 ? VS_QUEUE_PRIVATE : 0;
    if (stream != PLACEMENT_ANY && !s->defer && !r->queue[stream] &&
        vs_arena_open_queue(r->arena, (uint64_t)stream, flags, &r->queue[stream]) != 0)
        r->queue[stream] = 0;
    return r->queue[stream];
}

static inline void placement_play(struct placement_run *r, const struct placement_event *e,
                                  const struct placement_setting *s)
{
    r->random = r->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    r->w.count.now++;
    r->w.count.lag = s->lag / 2 + (r->random >> 33) % (s->lag + 1);
    int status = 0;
    if (e->stream >= 0) {
        status = vs_arena_malloc(r->arena, placement_queue(r, e->stream, s), e->size, &r->address[e->id]);
        r->address[e->id] = status == 0 ? r->address[e->id] : 0;
        r->stream[e->id] = (uint8_t)e->stream;
    } else if (r->address[e->id]) {
        int on = e->freed_on > 0 ? e->freed_on - 1 : r->stream[e->id];
        uint32_t queue = placement_queue(r, on, s);
        bool defer = s->defer || e->deferred || queue == VS_ARENA_ANY;
        status = vs_arena_free(r->arena, r->address[e->id], queue, defer ? VS_FREE_DEFER : 0);
        placement_note(&r->w, 20, (uint64_t)status, 0);
        r->address[e->id] = 0;
        return;
    }
    placement_note(&r->w, 21, (uint64_t)status, r->address[e->id]);
}

/* Figures of memory that is away or parked, where nothing ever is. */
static inline bool is_of_what_leaves(size_t word)
{
    return word == offsetof(struct vs_arena_stats, away) / 8 ||
           word == offsetof(struct vs_arena_stats, parked) / 8 ||
           word == offsetof(struct vs_arena_stats, replaced) / 8;
}

/* 0: no arena could be made. */
static inline uint64_t placement_of_arena(const struct placement_list *list,
                                          const struct placement_setting *s)
{
    struct placement_run *r = calloc(1, sizeof *r);
    struct vs_backing backing = placement_backing(&r->w, 2u << 20);
    struct vs_arena_config config = {
        .capacity = UINT64_C(192) << 30, .max_mappings = s->mappings, .no_stream_waits = s->no_waits};
    struct vs_arena_stats stats;
    const size_t high = offsetof(struct vs_arena_stats, high_allocated) / 8; /* as `peak_allocated` */
    r->w.count.capacity = s->device;
    r->w.digest = 1;
    r->address = calloc(list->ids + (size_t)1, sizeof *r->address);
    r->stream = calloc(list->ids + (size_t)1, sizeof *r->stream);
    if (vs_arena_create(&r->arena, &backing, &config) == 0) {
        for (uint32_t i = 0; i < list->n; i++)
            placement_play(r, &list->at[i], s);
        memset(&stats, 0, sizeof stats);
        vs_arena_stats(r->arena, &stats);
        uint64_t words[sizeof stats / 8];
        memcpy(words, &stats, sizeof words);
        for (size_t i = 0; i < sizeof stats / 8; i++)
            if (i != high && (words[i] || !is_of_what_leaves(i)))
                r->w.digest = placement_mix(r->w.digest, words[i]);
        vs_arena_destroy(r->arena);
    }
    uint64_t digest = r->w.digest;
    free(r->address);
    free(r->stream);
    free(r);
    return digest;
}

#endif
