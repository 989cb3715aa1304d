/*
 * policy.c - chooses what serves a request.
 *
 *  1. The best fitting free extent of the heap.
 *  2. For large ones, the shortest alias mapping that is open and long enough.
 *  3. New chunks, as long as the arena then holds no more than the live peak and a little slack.  A small one
 *     always gets them: it needs few, and would not fill an alias mapping.
 *  4. A new alias mapping of idle chunks; where too few are idle, the missing ones are created.
 *
 * The stream is made to wait for the last use of what it gets, where that is not known to be complete.  A
 * request without a stream is served from what is complete, and the host waits instead where that would make
 * the arena hold far more than the peak.
 *
 * The choice depends on what is live and on which alias mappings there are.  So a program that repeats itself
 * gets the same answers again, and no new alias mapping is needed any more.
 */
#include "internal.h"

#define TRIES 16 /* alias mappings that are tried where the first ones cannot be waited for */

enum effort { NORMAL, WAITING, SYNCHRONIZED, GIVEN_BACK, EFFORTS };

/* The heap that a queue's blocks are in.  Memory without a stream has its own: it cannot wait for others. */
static uint32_t heap_for(const struct vs_arena *a, uint32_t queue, bool small)
{
    bool own = queue == VS_ARENA_ANY || a->queue[queue].private || a->config.plain;
    return (own ? 2 * queue : SHARED) + small;
}

static uint32_t fit(struct vs_arena *a, uint32_t heap, uint32_t queue, uint64_t size)
{
    uint32_t free_extent = vs_free_extent_find(a, heap, queue, size);
    return free_extent == NIL ? NIL : vs_free_extent_take(a, free_extent, size);
}

/* ---- large requests ---- */

/* Some deferred frees count as live, and with them the slack is a chunk at least: else each request of a
 * small program would wait for its last free. */
static bool within(const struct vs_arena *a, uint64_t chunks, uint32_t slack)
{
    uint64_t reserved = held(a) + place_of(a, (uint32_t)chunks);
    /* beside parked blocks, which are to make the peak lower, there is none */
    uint64_t more = RULE(SLACK) && !a->stats.parked ? a->wanted * slack / 1000 : 0;
    if (RULE(DEFER_CHUNK) && a->stats.deferred && more < chunk_bytes(a))
        more = chunk_bytes(a);
    return reserved <= a->wanted + more + vs_deferred_allowed(a);
}

/* Whether the first COUNT chunks of the alias mapping can be used by the queue, which is made to wait for
 * them. */
static bool wait_for_alias(struct vs_arena *a, const struct alias *v, uint32_t queue, uint32_t count)
{
    uint64_t need[QUEUES] = {0};
    bool any = false;
    for (const struct run *r = v->run; count && a->queues > 1; r++) {
        struct run rest = {r->first, r->count < count ? r->count : count};
        count -= rest.count;
        for (uint32_t n; rest.count; rest.first += n, rest.count -= n) {
            any |= vs_order_need(a, queue, a->users[rest.first], a->seq[rest.first], need);
            n = vs_chunks_alike(a, rest);
        }
    }
    return !any || vs_order_wait(a, queue, need) == 0;
}

static uint32_t use_alias(struct vs_arena *a, uint32_t queue, uint64_t size)
{
    uint32_t count = chunks_for(a, size);
    uint32_t alias = NIL;
    for (int tries = 0; tries < (RULE(ALIAS_TRIES) ? TRIES : 1); tries++) {
        alias = vs_alias_find(a, count, alias);
        if (alias == NIL)
            return NIL;
        if (wait_for_alias(a, &a->alias[alias], queue, count)) {
            a->stats.alias_hits++;
            return vs_alias_claim(a, alias, queue, size);
        }
    }
    return NIL;
}

/* Of idle chunks, CREATE of them new; READY: of such as need no wait. */
static int new_alias(struct vs_arena *a, uint32_t queue, uint32_t create, bool ready, uint64_t size,
                     uint32_t *extent)
{
    uint32_t alias, count = chunks_for(a, size);
    if (create) {
        int status = vs_supply_more(a, heap_for(a, queue, false), create);
        if (status != 0)
            return status;
    }
    vs_aliases_make_room(a, count);
    int status = vs_alias_build(a, queue, count, ready, &alias);
    if (status != 0)
        return status;
    if (!wait_for_alias(a, &a->alias[alias], queue, count))
        return VS_BACKING_NOT_READY;
    *extent = vs_alias_claim(a, alias, queue, size);
    return 0;
}

/* Grows the heap, and takes the free extent that comes of it. */
static int grow(struct vs_arena *a, uint32_t heap, uint32_t queue, uint64_t size, uint32_t *extent)
{
    int status = vs_supply_grow(a, heap, queue, size, vs_free_extent_at_top(a, heap, queue));
    if (status == 0 && (*extent = fit(a, heap, queue, size)) == NIL)
        return VS_BACKING_OUT_OF_MEMORY;
    return status;
}

/* READY: of chunks that need no wait. */
static int from_idle(struct vs_arena *a, uint32_t queue, uint64_t size, bool ready, uint32_t *extent)
{
    uint32_t heap = heap_for(a, queue, false);
    uint32_t count = chunks_for(a, size), need = vs_supply_need(a, heap, queue, size);
    struct idle_count idle = vs_chunks_count(a, queue, count, ready);
    uint32_t usable = idle.ready + (ready ? 0 : idle.others);
    uint32_t missing = count > usable ? count - usable : 0;
    if (RULE(GROW_INSTEAD) ? missing >= need : !idle.ready && !idle.others)
        return grow(a, heap, queue, size, extent);
    return new_alias(a, queue, missing, ready, size, extent);
}

/* Without a stream that could wait the host does, rather than that much more were held: once, and then what
 * is complete has to do. */
static bool is_for_host(struct vs_arena *a, uint32_t queue, uint64_t size, enum effort effort)
{
    uint32_t need = vs_supply_need(a, heap_for(a, queue, false), queue, size);
    if (!RULE(WAIT_SLACK))
        return false;
    if (effort >= SYNCHRONIZED || (effort == NORMAL && within(a, need, a->config.wait_slack)))
        return false;
    struct idle_count idle = vs_chunks_count(a, queue, chunks_for(a, size), true);
    return idle.ready < chunks_for(a, size) && idle.others;
}

/* A free extent or an alias mapping, once so many deferred frees are carried out as it takes: the oldest
 * first. */
static bool from_deferred(struct vs_arena *a, uint32_t queue, uint64_t size, uint32_t *extent)
{
    while (vs_deferred_next(a, true)) {
        vs_free_extents_share(a, 0);
        if ((*extent = fit(a, heap_for(a, queue, false), queue, size)) != NIL ||
            (*extent = use_alias(a, queue, size)) != NIL)
            return true;
    }
    return false;
}

/* Whether the slack allows the chunks that the heap needs for the request. */
static bool may_grow(const struct vs_arena *a, uint32_t queue, uint64_t size)
{
    return within(a, vs_supply_need(a, heap_for(a, queue, false), queue, size), a->config.slack);
}

/* ALONE: there is no stream that could be made to wait. */
static int serve_large(struct vs_arena *a, uint32_t queue, uint64_t size, enum effort effort,
                       uint32_t *extent)
{
    bool alone = queue == VS_ARENA_ANY || a->queue[queue].retired;
    bool only_ready = alone || a->config.no_stream_waits;
    if ((*extent = use_alias(a, queue, size)) != NIL)
        return 0;
    if (RULE(FROM_DEFERRED) && !may_grow(a, queue, size) && from_deferred(a, queue, size, extent))
        return 0;
    if (effort == NORMAL && may_grow(a, queue, size)) {
        int status = grow(a, heap_for(a, queue, false), queue, size, extent);
        if (status != VS_BACKING_OUT_OF_MEMORY)
            return status;
    }
    if (alone && is_for_host(a, queue, size, effort))
        return NOT_SYNCHRONIZED;
    int status = from_idle(a, queue, size, only_ready, extent);
    if (status == VS_BACKING_NOT_READY && !only_ready) /* no wait can be made just now */
        status = from_idle(a, queue, size, true, extent);
    if (status != NOT_COMPLETE)
        return status;
    return effort < SYNCHRONIZED ? NOT_SYNCHRONIZED : grow(a, heap_for(a, queue, false), queue, size, extent);
}

/* ---- all requests ---- */

static int serve(struct vs_arena *a, uint32_t queue, uint64_t size, bool small, enum effort effort,
                 uint32_t *extent)
{
    uint32_t heap = heap_for(a, queue, small);
    if (RULE(SHARE_MISS))
        vs_free_extents_share(a, 0);
    if ((*extent = fit(a, heap, queue, size)) != NIL)
        return 0;
    if (!small && !a->queue[queue].private && !a->config.plain && effort != GIVEN_BACK)
        return serve_large(a, queue, size, effort, extent);
    if (RULE(SMALL_LAST) && small && effort != NORMAL && (*extent = fit(a, heap - 1, queue, size)) != NIL)
        return 0; /* better than none */
    int status = grow(a, heap, queue, size, extent);
    if (status == VS_BACKING_OUT_OF_MEMORY && small && effort == GIVEN_BACK && a->stats.parked)
        status =
            serve_large(a, queue, size, effort, extent); /* what is parked only alias mappings can have */
    return status;
}

/* When the device has no more memory, the arena uses what is idle, then waits for all pending frees and tries
 * again, then gives back all that is idle and tries once more.  After that the device's error is the answer.
 */
static int try_hard(struct vs_arena *a, uint32_t queue, uint64_t size, bool small, bool synchronized,
                    uint32_t *extent)
{
    vs_synchronize_poll(a, queue);
    if (a->stats.deferred)
        vs_deferred_miss(a);
    int status = VS_BACKING_OUT_OF_MEMORY;
    for (enum effort effort = synchronized ? SYNCHRONIZED : NORMAL;
         effort < EFFORTS && status == VS_BACKING_OUT_OF_MEMORY; effort++) {
        if (effort == SYNCHRONIZED && !synchronized)
            return NOT_SYNCHRONIZED;
        if (effort == GIVEN_BACK)
            vs_supply_give_back(a, 0);
        status = serve(a, queue, size, small, effort, extent);
    }
    return status;
}

int vs_policy_place(struct vs_arena *a, uint32_t queue, uint64_t size, bool synchronized, uint32_t *extent)
{
    bool small = size <= a->config.small;
    if (__builtin_expect(a->trough.now, 0))
        vs_deferred_trough(a);
    if (synchronized)
        return try_hard(a, queue, size, small, true, extent);
    *extent = fit(a, heap_for(a, queue, small), queue, size);
    if (__builtin_expect(*extent != NIL, 1)) {
        a->stats.hits++;
        return 0;
    }
    return try_hard(a, queue, size, small, false, extent);
}
