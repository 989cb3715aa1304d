/*
 * policy.c - from what a request is served.
 *
 *  1. The best fitting hole of the heap.
 *  2. For large ones, the oldest view that is open and not more than twice as long.
 *  3. New granules, as long as there are not more than the live peak and a little slack.  For small ones
 * always: there are few of them, and no view would be filled by one.
 *  4. Granules that lie idle, as a new view.  First, though, a view that only waits for other lanes' frees,
 * the stream being made to wait for these too.
 *  5. Where too few are idle: pending frees are waited for if more granules would be far beyond the peak;
 * then what is missing is created.
 *
 * The choice depends on what is live and on which views there are, and a new view never goes before an old
 * one.  So a program that repeats itself gets the same answers again, and no new view is needed any more.
 *
 * When the device has no more memory: use what is idle, and let the stream wait for what is pending; wait for
 * all pending frees and try again; give back all that is idle and try again; then its error stands.
 */
#include "internal.h"

enum effort { NORMAL, WAITING, SETTLED, GIVEN_BACK, EFFORTS };

/* ---- holes ---- */

/* Those granules of the hole that a block at its beginning makes used: they lie in it wholly. */
static struct run newly_used(const struct vs_arena *a, uint64_t from, uint64_t to, uint64_t block_from,
                             uint64_t block_to)
{
    uint32_t whole_first = slot_of(a, from + granule_bytes(a) - 1), whole_end = slot_of(a, to);
    uint32_t first = slot_of(a, block_from), end = slot_of(a, block_to - 1) + 1;
    first = first < whole_first ? whole_first : first;
    end = end > whole_end ? whole_end : end;
    return (struct run){first, first < end ? end - first : 0};
}

void vs_policy_take_hole(struct vs_arena *a, uint32_t hole, uint64_t size)
{
    uint64_t from = a->tile[hole].at, to = from + a->tile[hole].size;
    struct run used = newly_used(a, from, to, from, from + size);
    vs_tile_take(a, hole);
    a->tile[hole].state = TILE_USED;
    if (from + size < to)
        vs_tile_give(a, vs_tile_cut(a, hole, from + size), TILE_FREE);
    if (used.count)
        vs_granules_claim(a, used.first, used.first + used.count, NIL);
}

static void free_home(struct vs_arena *a, uint32_t tile, uint32_t lane)
{
    uint64_t from = a->tile[tile].at, to = from + a->tile[tile].size;
    uint32_t hole = vs_tile_give(a, tile, TILE_FREE);
    const struct tile *h = &a->tile[hole];
    struct run idle = newly_used(a, h->at, h->at + h->size, from, to);
    if (idle.count && vs_granules_release(a, idle.first, idle.first + idle.count, lane, NIL))
        vs_order_record(a, lane, idle.first, idle.count, NIL);
}

void vs_policy_free(struct vs_arena *a, uint32_t tile)
{
    struct tile *t = &a->tile[tile];
    uint32_t lane = t->lane;
    vs_blocks_remove(a, address_of(a, t->at));
    a->stats.blocks--;
    t->doomed = false;
    t->others = 0;
    vs_order_freed(a, lane, t->asked);
    if (t->state == TILE_VIEW)
        vs_view_release(a, t->view);
    else
        free_home(a, tile, lane);
}

/* ---- large requests ---- */

/* Some deferred frees count as live: else each request of a small program would wait for its last free. */
static bool within(const struct vs_arena *a, uint64_t granules, uint32_t slack)
{
    uint64_t reserved = a->stats.reserved + place_of(a, (uint32_t)granules);
    return reserved <= a->wanted + a->wanted * slack / 1000 + vs_deferred_allowed(a);
}

static uint32_t use_view(struct vs_arena *a, uint32_t view, uint64_t size)
{
    a->stats.view_hits++;
    return vs_view_claim(a, view, size);
}

/* Lets LANE wait for all that its granules are hidden by. */
static void need_granules(const struct vs_arena *a, uint32_t lane, uint32_t first, uint32_t count,
                          uint64_t *need)
{
    for (uint32_t g = first; g < first + count; g++) {
        uint32_t q = a->user[g];
        if (!visible(a, g, lane) && a->seq[g] > need[q])
            need[q] = a->seq[g];
    }
}

static uint32_t wait_for_view(struct vs_arena *a, uint32_t lane, uint32_t count)
{
    uint32_t view = vs_view_find(a, lane, count, VIEW_WAITING);
    uint64_t need[LANES] = {0};
    if (view == NIL)
        return NIL;
    for (uint32_t i = 0; i < a->view[view].runs; i++)
        need_granules(a, lane, a->view[view].run[i].first, a->view[view].run[i].count, need);
    return vs_order_wait(a, lane, need) == 0 && a->view[view].status == VIEW_OPEN ? view : NIL;
}

static int wait_for_granules(struct vs_arena *a, uint32_t lane, uint32_t count)
{
    uint64_t need[LANES] = {0};
    for (uint32_t i = a->borns; i-- > 0 && count;) {
        uint32_t g = a->born[i];
        if (a->used[g] || !is_lent(a, g) || visible(a, g, lane))
            continue;
        need_granules(a, lane, g, 1, need);
        count--;
    }
    return vs_order_wait(a, lane, need);
}

static uint32_t fit(struct vs_arena *a, uint32_t heap, uint64_t size)
{
    uint32_t hole = vs_holes_fit(a, a->heap[heap].free, size);
    if (hole != NIL)
        vs_policy_take_hole(a, hole, size);
    return hole;
}

/* COUNT granules for a view, CREATE of them new. */
static int new_view(struct vs_arena *a, uint32_t lane, uint32_t count, uint32_t create, uint64_t size,
                    uint32_t *tile)
{
    uint32_t view;
    if (create) {
        int status = vs_supply_more(a, lane * 2, create);
        if (status != 0)
            return status;
    }
    vs_views_make_room(a, count);
    int status = vs_view_build(a, lane, count, &view);
    if (status == 0)
        *tile = vs_view_claim(a, view, size);
    return status;
}

/* Grows the heap, and takes the hole that comes of it. */
static int grow(struct vs_arena *a, uint32_t heap, uint64_t size, uint32_t *tile)
{
    int status = vs_supply_grow(a, heap, size);
    if (status == 0)
        *tile = fit(a, heap, size);
    return status;
}

static int from_idle(struct vs_arena *a, uint32_t lane, uint64_t size, enum effort effort, uint32_t *tile)
{
    uint32_t count = granules_for(a, size), need = vs_supply_need(a, lane * 2, size);
    struct idle_count idle = vs_granules_count(a, lane);
    bool wait = effort != NORMAL || !within(a, need, a->config.wait_slack);
    if (idle.hidden && (wait || lane != VS_ARENA_ANY)) { /* without a stream the host would wait */
        uint32_t view = wait_for_view(a, lane, count);
        if (view != NIL) {
            *tile = use_view(a, view, size);
            return 0;
        }
    }
    if (idle.visible < count && idle.hidden && wait) {
        wait_for_granules(a, lane, count - idle.visible);
        if ((*tile = fit(a, lane * 2, size)) != NIL)
            return 0;
        idle = vs_granules_count(a, lane);
    }
    uint32_t missing = count > idle.visible ? count - idle.visible : 0;
    if (missing >= need)
        return grow(a, lane * 2, size, tile);
    return new_view(a, lane, count, missing, size, tile);
}

/* A hole or a view, once so many deferred frees are carried out as it takes: the oldest first. */
static bool from_deferred(struct vs_arena *a, uint32_t lane, uint64_t size, uint32_t *tile)
{
    while (vs_deferred_next(a, true)) {
        if ((*tile = fit(a, lane * 2, size)) != NIL)
            return true;
        uint32_t view = vs_view_find(a, lane, granules_for(a, size), VIEW_OPEN);
        if (view != NIL) {
            *tile = use_view(a, view, size);
            return true;
        }
    }
    return false;
}

static int serve_large(struct vs_arena *a, uint32_t lane, uint64_t size, enum effort effort, uint32_t *tile)
{
    uint32_t heap = lane * 2, view = vs_view_find(a, lane, granules_for(a, size), VIEW_OPEN);
    if (view != NIL) {
        *tile = use_view(a, view, size);
        return 0;
    }
    if (!within(a, vs_supply_need(a, heap, size), a->config.slack) && from_deferred(a, lane, size, tile))
        return 0;
    if (effort == NORMAL && within(a, vs_supply_need(a, heap, size), a->config.slack)) {
        int status = grow(a, heap, size, tile);
        if (status != VS_BACKING_OUT_OF_MEMORY)
            return status;
    }
    return from_idle(a, lane, size, effort, tile);
}

/* ---- all requests ---- */

static int serve(struct vs_arena *a, uint32_t lane, uint64_t size, bool small, enum effort effort,
                 uint32_t *tile)
{
    if ((*tile = fit(a, lane * 2 + small, size)) != NIL)
        return 0;
    if (!small && !a->lane[lane].private && !a->lane[lane].plain && effort != GIVEN_BACK)
        return serve_large(a, lane, size, effort, tile);
    if (small && effort != NORMAL && (*tile = fit(a, lane * 2, size)) != NIL)
        return 0; /* better than none */
    return grow(a, lane * 2 + small, size, tile);
}

/* More is tried only where the device had no memory for us, and after a wait. */
static int try_hard(struct vs_arena *a, uint32_t lane, uint64_t size, bool small, bool settled,
                    uint32_t *tile)
{
    vs_order_poll(a, lane);
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
    *tile = fit(a, lane * 2 + small, size);
    if (__builtin_expect(*tile != NIL, 1)) {
        a->stats.hits++;
        return 0;
    }
    return try_hard(a, lane, size, small, false, tile);
}
