/*
 * policy.c - from what a request is served.
 *
 *  1. The best fitting hole of the heap.
 *  2. For large ones, the shortest view that is open and long enough.
 *  3. New granules, as long as there are not more than the live peak and a little slack.  For small ones
 * always: there are few of them, and no view would be filled by one.
 *  4. Granules that lie idle, as a new view; where too few are idle, what is missing is created.
 *
 * The stream is made to wait for what it is given, where that is not known to be complete.  A request without
 * a stream, or while no wait can be made, is served from what is complete; far beyond the peak the host
 * waits.
 *
 * The choice depends on what is live and on which views there are, and of two views of one length the older
 * goes first.  So a program that repeats itself gets the same answers again, and no new view is needed any
 * more.
 *
 * When the device has no more memory: use what is idle; wait for all pending frees and try again; give back
 * all that is idle and try again; then its error stands.
 */
#include "internal.h"

#define TRIES 16 /* views that are looked at where the first ones can not be waited for */

enum effort { NORMAL, WAITING, SETTLED, GIVEN_BACK, EFFORTS };

/* The heap that a lane's blocks are in.  Memory without a stream has its own: it cannot wait for others. */
static uint32_t heap_for(const struct vs_arena *a, uint32_t lane, bool small)
{
    bool own = lane == VS_ARENA_ANY || a->lane[lane].private || a->lane[lane].plain;
    return (own ? 2 * lane : SHARED) + small;
}

static uint32_t fit(struct vs_arena *a, uint32_t heap, uint32_t lane, uint64_t size)
{
    uint32_t hole = vs_hole_find(a, heap, lane, size);
    return hole == NIL ? NIL : vs_hole_take(a, hole, size);
}

/* ---- large requests ---- */

/* Some deferred frees count as live, and with them the slack is a granule at least: else each request of a
 * small program would wait for its last free. */
static bool within(const struct vs_arena *a, uint64_t granules, uint32_t slack)
{
    uint64_t reserved = a->stats.reserved + place_of(a, (uint32_t)granules);
    uint64_t more = RULE(SLACK) ? a->wanted * slack / 1000 : 0;
    if (RULE(DEFER_GRANULE) && a->stats.deferred && more < granule_bytes(a))
        more = granule_bytes(a);
    return reserved <= a->wanted + more + vs_deferred_allowed(a);
}

/* Whether the first COUNT granules of the view can be used by the lane, which is made to wait for them. */
static bool wait_for_view(struct vs_arena *a, const struct view *v, uint32_t lane, uint32_t count)
{
    uint64_t need[LANES] = {0};
    bool any = false;
    for (const struct run *r = v->run; count && a->lanes > 1; r++) {
        uint32_t n = r->count < count ? r->count : count;
        for (uint32_t g = r->first; g < r->first + n; g++)
            any |= vs_order_need(a, lane, a->users[g], a->seq[g], need);
        count -= n;
    }
    return !any || vs_order_wait(a, lane, need) == 0;
}

static uint32_t use_view(struct vs_arena *a, uint32_t lane, uint64_t size)
{
    uint32_t count = granules_for(a, size);
    uint32_t view = NIL;
    for (int tries = 0; tries < (RULE(VIEW_TRIES) ? TRIES : 1); tries++) {
        view = vs_view_find(a, count, view);
        if (view == NIL)
            return NIL;
        if (wait_for_view(a, &a->view[view], lane, count)) {
            a->stats.view_hits++;
            return vs_view_claim(a, view, lane, size);
        }
    }
    return NIL;
}

/* Of idle granules, CREATE of them new; READY: of such as need no wait. */
static int new_view(struct vs_arena *a, uint32_t lane, uint32_t create, bool ready, uint64_t size,
                    uint32_t *tile)
{
    uint32_t view, count = granules_for(a, size);
    if (create) {
        int status = vs_supply_more(a, heap_for(a, lane, false), create);
        if (status != 0)
            return status;
    }
    vs_views_make_room(a, count);
    int status = vs_view_build(a, lane, count, ready, &view);
    if (status != 0)
        return status;
    if (!wait_for_view(a, &a->view[view], lane, count))
        return VS_BACKING_NOT_READY;
    *tile = vs_view_claim(a, view, lane, size);
    return 0;
}

/* Grows the heap, and takes the hole that comes of it. */
static int grow(struct vs_arena *a, uint32_t heap, uint32_t lane, uint64_t size, uint32_t *tile)
{
    int status = vs_supply_grow(a, heap, lane, size, vs_hole_at_top(a, heap, lane));
    if (status == 0 && (*tile = fit(a, heap, lane, size)) == NIL)
        return VS_BACKING_OUT_OF_MEMORY;
    return status;
}

/* READY: of granules that need no wait. */
static int from_idle(struct vs_arena *a, uint32_t lane, uint64_t size, bool ready, uint32_t *tile)
{
    uint32_t heap = heap_for(a, lane, false);
    uint32_t count = granules_for(a, size), need = vs_supply_need(a, heap, lane, size);
    struct idle_count idle = vs_granules_count(a, lane);
    uint32_t usable = idle.ready + (ready ? 0 : idle.others);
    uint32_t missing = count > usable ? count - usable : 0;
    if (RULE(GROW_INSTEAD) ? missing >= need : !idle.ready && !idle.others)
        return grow(a, heap, lane, size, tile);
    return new_view(a, lane, missing, ready, size, tile);
}

/* Without a stream that could wait the host does, rather than that much more were held: once, and then what
 * is complete has to do. */
static bool is_for_host(const struct vs_arena *a, uint32_t lane, uint64_t size, enum effort effort)
{
    uint32_t need = vs_supply_need(a, heap_for(a, lane, false), lane, size);
    if (!RULE(WAIT_SLACK))
        return false;
    if (effort >= SETTLED || (effort == NORMAL && within(a, need, a->config.wait_slack)))
        return false;
    struct idle_count idle = vs_granules_count(a, lane);
    return idle.ready < granules_for(a, size) && idle.others;
}

/* A hole or a view, once so many deferred frees are carried out as it takes: the oldest first. */
static bool from_deferred(struct vs_arena *a, uint32_t lane, uint64_t size, uint32_t *tile)
{
    while (vs_deferred_next(a, true)) {
        vs_holes_share(a, 0);
        if ((*tile = fit(a, heap_for(a, lane, false), lane, size)) != NIL ||
            (*tile = use_view(a, lane, size)) != NIL)
            return true;
    }
    return false;
}

static int serve_large(struct vs_arena *a, uint32_t lane, uint64_t size, enum effort effort, uint32_t *tile)
{
    uint32_t heap = heap_for(a, lane, false);
    bool alone = lane == VS_ARENA_ANY || a->lane[lane].retired, ready = alone || a->config.no_follows;
    if ((*tile = use_view(a, lane, size)) != NIL)
        return 0;
    if (RULE(FROM_DEFERRED) && !within(a, vs_supply_need(a, heap, lane, size), a->config.slack) &&
        from_deferred(a, lane, size, tile))
        return 0;
    if (effort == NORMAL && within(a, vs_supply_need(a, heap, lane, size), a->config.slack)) {
        int status = grow(a, heap, lane, size, tile);
        if (status != VS_BACKING_OUT_OF_MEMORY)
            return status;
    }
    if (alone && is_for_host(a, lane, size, effort))
        return NOT_SETTLED;
    int status = from_idle(a, lane, size, ready, tile);
    return status == VS_BACKING_NOT_READY && !ready ? from_idle(a, lane, size, true, tile) : status;
}

/* ---- all requests ---- */

static int serve(struct vs_arena *a, uint32_t lane, uint64_t size, bool small, enum effort effort,
                 uint32_t *tile)
{
    uint32_t heap = heap_for(a, lane, small);
    if (RULE(SHARE_MISS))
        vs_holes_share(a, 0);
    if ((*tile = fit(a, heap, lane, size)) != NIL)
        return 0;
    if (!small && !a->lane[lane].private && !a->lane[lane].plain && effort != GIVEN_BACK)
        return serve_large(a, lane, size, effort, tile);
    if (RULE(SMALL_LAST) && small && effort != NORMAL && (*tile = fit(a, heap - 1, lane, size)) != NIL)
        return 0; /* better than none */
    return grow(a, heap, lane, size, tile);
}

/* More is tried only where the device had no memory for us, and after a wait. */
static int try_hard(struct vs_arena *a, uint32_t lane, uint64_t size, bool small, bool settled,
                    uint32_t *tile)
{
    vs_settle_poll(a, lane);
    if (a->stats.deferred)
        vs_deferred_miss(a);
    int status = VS_BACKING_OUT_OF_MEMORY;
    for (enum effort effort = settled ? SETTLED : NORMAL;
         effort < EFFORTS && status == VS_BACKING_OUT_OF_MEMORY; effort++) {
        if (effort == SETTLED && !settled)
            return NOT_SETTLED;
        if (effort == GIVEN_BACK)
            vs_supply_give_back(a, 0);
        status = serve(a, lane, size, small, effort, tile);
    }
    return status;
}

int vs_policy_place(struct vs_arena *a, uint32_t lane, uint64_t size, bool settled, uint32_t *tile)
{
    bool small = size <= a->config.small;
    if (__builtin_expect(a->ebb.now, 0))
        vs_deferred_ebb(a);
    if (settled)
        return try_hard(a, lane, size, small, true, tile);
    *tile = fit(a, heap_for(a, lane, small), lane, size);
    if (__builtin_expect(*tile != NIL, 1)) {
        a->stats.hits++;
        return 0;
    }
    return try_hard(a, lane, size, small, false, tile);
}
