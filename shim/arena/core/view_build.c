/*
 * view_build.c - making a view: which idle granules, and mapping them.
 *
 * Order of choice: what the lane itself freed lately, then the newest, granules of small heaps last.  So the
 * views of a loop's second pass are made of what its first pass left over, and old granules at the bottom
 * stay whole for their heaps.
 */
#include "internal.h"

#include <string.h>

enum wish { OWN_RECENT, ANY_LARGE, ANY_SMALL, WISHES };

static bool is_ready(const struct vs_arena *a, uint32_t g, uint32_t lane)
{
    uint64_t need[LANES] = {0};
    return !vs_order_need(a, lane, a->users[g], a->seq[g], need);
}

static bool wished(const struct vs_arena *a, uint32_t g, uint32_t lane, enum wish wish)
{
    if (a->used[g] || a->picked[g] || !is_lent(a, g))
        return false;
    if (is_small_heap(heap_of(a, g)))
        return wish == ANY_SMALL;
    return wish == ANY_LARGE || (wish == OWN_RECENT && a->users[g] == bit_of(lane) &&
                                 a->seq[g] + a->config.keep_frees > a->seq_now);
}

static uint32_t pick(struct vs_arena *a, uint32_t lane, uint32_t count, bool ready)
{
    uint32_t picked = 0;
    for (int wish = a->lanes > 1 ? OWN_RECENT : ANY_LARGE; wish < WISHES; wish++)
        for (uint32_t i = a->borns; i-- > 0 && picked < count;) {
            uint32_t g = a->born[i];
            if (wished(a, g, lane, (enum wish)wish) && (!ready || is_ready(a, g, lane))) {
                a->picked[g] = 1;
                picked++;
            }
        }
    return picked;
}

/* The next run of picked granules from *AT on, which goes to its end; false where there is none.  The marks
 * go. */
static bool next_run(struct vs_arena *a, uint32_t *heap, uint32_t *at, struct run *run)
{
    for (; *heap < HEAPS; ++*heap, *at = 0) {
        const struct heap *h = &a->heap[*heap];
        const uint8_t *marks = a->picked + h->first;
        const uint8_t *found = *at < h->top ? memchr(marks + *at, 1, h->top - *at) : NULL;
        if (!found)
            continue;
        uint32_t first = (uint32_t)(found - marks), end = first;
        while (end < h->top && marks[end])
            end++;
        *run = (struct run){h->first + first, end - first};
        *at = end;
        return true;
    }
    return false;
}

static uint32_t count_runs(struct vs_arena *a)
{
    struct run run;
    uint32_t heap = 0, at = 0, n = 0;
    while (next_run(a, &heap, &at, &run))
        n++;
    return n;
}

static void clear_picked(struct vs_arena *a)
{
    struct run run;
    uint32_t heap = 0, at = 0;
    while (next_run(a, &heap, &at, &run))
        memset(a->picked + run.first, 0, run.count);
}

/* The picked granules as runs, in order of their places. */
static int collect(struct vs_arena *a, struct view *v)
{
    uint32_t heap = 0, at = 0, n = count_runs(a);
    v->run = vs_meta_resize(&a->meta, NULL, 0, n * sizeof *v->run);
    if (v->run) {
        v->run_room = n;
        while (v->runs < n && next_run(a, &heap, &at, &v->run[v->runs]))
            v->runs++;
    }
    clear_picked(a);
    return v->run ? 0 : VS_BACKING_OUT_OF_MEMORY;
}

static uint32_t take_number(struct vs_arena *a)
{
    uint32_t view = a->spare_views;
    if (view != NIL)
        return view;
    if (vs_meta_fit(&a->meta, (void **)&a->view, &a->view_room, sizeof *a->view, a->views + 1) != 0)
        return NIL;
    return a->views;
}

/* Addresses for so many granules: a hole in the window of views; NIL where it is full. */
static uint32_t take_addresses(struct vs_arena *a, uint32_t count)
{
    struct heap *h = &a->heap[ALIASES];
    uint32_t tile = vs_holes_fit(a, &h->free[VS_ARENA_ANY], place_of(a, count));
    if (tile == NIL) {
        const struct tile *last = h->top ? &a->tile[h->last] : NULL;
        uint32_t need = count - (last && last->state == TILE_FREE ? slot_of(a, last->size) : 0);
        if (h->top + (uint64_t)need > h->limit)
            return NIL;
        tile = vs_tile_append(a, ALIASES, need, TILE_FREE, VS_ARENA_ANY);
    }
    vs_tile_take(a, tile);
    a->tile[tile].state = TILE_VIEW;
    if (a->tile[tile].size > place_of(a, count))
        vs_tile_give(a, vs_tile_cut(a, tile, a->tile[tile].at + place_of(a, count)), TILE_FREE);
    return tile;
}

/* Where the mappings can neither be used nor undone, their addresses go out of use: *TILE is NIL then. */
static int map_runs(struct vs_arena *a, const struct view *v, uint32_t *tile)
{
    const struct vs_backing *b = &a->backing;
    uint64_t address = address_of(a, a->tile[*tile].at);
    uint64_t done = 0;
    int status = 0;
    for (uint32_t i = 0; i < v->runs && status == 0; i++)
        for (uint32_t g = v->run[i].first; g < v->run[i].first + v->run[i].count && status == 0; g++) {
            status = b->map(b->context, address + done, a->handle[g]);
            done += status == 0 ? granule_bytes(a) : 0;
        }
    if (status == 0)
        status = b->access(b->context, address, done, a->peers);
    if (status != 0 && done && b->unmap(b->context, address, done) != 0)
        *tile = NIL;
    return status;
}

static int prepare_atoms(struct vs_arena *a, const struct view *v)
{
    for (uint32_t i = 0; i < v->runs; i++)
        if (vs_atoms_prepare(a, v->run[i].first, v->run[i].first + v->run[i].count) != 0) {
            while (i-- > 0)
                vs_atoms_cancel(a, v->run[i].first, v->run[i].first + v->run[i].count);
            return VS_BACKING_OUT_OF_MEMORY;
        }
    return 0;
}

static int prepare(struct vs_arena *a, struct view *v, uint32_t *view, uint32_t *class)
{
    *view = take_number(a);
    if (*view == NIL || vs_class_join(a, v->lane, v->count, class) != 0 ||
        vs_tiles_reserve(a, a->stats.blocks + 1, a->live_views + 1, a->home_tiles_top) != 0 ||
        vs_supply_window(a, ALIASES) != 0)
        return VS_BACKING_OUT_OF_MEMORY;
    return collect(a, v);
}

static void enter(struct vs_arena *a, const struct view *v, uint32_t view, uint32_t class)
{
    if (a->spare_views == view)
        a->spare_views = a->view[view].older;
    else
        a->views++;
    a->live_views++;
    a->view[view] = *v;
    a->tile[v->tile].view = view;
    a->tile[v->tile].lane = v->lane;
    for (uint32_t i = 0; i < v->runs; i++)
        vs_atoms_add(a, v->run[i].first, v->run[i].first + v->run[i].count, view);
    vs_class_add(a, class, view);
    vs_view_idle_add(a, view);
    vs_view_refresh(a, &a->view[view]);
    a->stats.aliased += v->count;
    a->stats.mappings += v->count;
    if (a->stats.mappings > a->stats.peak_mappings)
        a->stats.peak_mappings = a->stats.mappings;
}

/* ---- room for it ---- */

static bool has_addresses(const struct vs_arena *a, uint32_t count)
{
    const struct heap *h = &a->heap[ALIASES];
    return h->top + (uint64_t)count <= h->limit ||
           vs_holes_fit(a, &h->free[VS_ARENA_ANY], place_of(a, count)) != NIL;
}

void vs_views_make_room(struct vs_arena *a, uint32_t count)
{
    uint64_t most = a->config.max_mappings, target = most - most / 16;
    if (a->stats.mappings + count <= most)
        target = most;
    for (uint32_t view = a->oldest_idle;
         view != NIL && (a->stats.mappings + count > target || !has_addresses(a, count));) {
        uint32_t younger = a->view[view].younger, lane = a->view[view].lane;
        if (!is_done(&a->lane[lane], a->view[view].last_free) && lane != VS_ARENA_ANY && vs_settle(a) != 0)
            return;
        if (vs_view_shorten(a, view, 0) != 0)
            return;
        view = younger;
    }
}

/* ---- all of it ---- */

int vs_view_build(struct vs_arena *a, uint32_t lane, uint32_t count, bool ready, uint32_t *view)
{
    struct view v = {.age = ++a->ages, .count = count, .lane = (uint8_t)lane};
    uint32_t class;
    if (pick(a, lane, count, ready) < count) {
        clear_picked(a);
        return VS_BACKING_OUT_OF_MEMORY;
    }
    int status = prepare(a, &v, view, &class);
    clear_picked(a);
    if (status == 0 && (status = prepare_atoms(a, &v)) == 0) {
        v.tile = take_addresses(a, count);
        status = v.tile == NIL ? VS_BACKING_OUT_OF_MEMORY : map_runs(a, &v, &v.tile);
        if (status == 0) {
            enter(a, &v, *view, class);
            return 0;
        }
        for (uint32_t i = 0; i < v.runs; i++)
            vs_atoms_cancel(a, v.run[i].first, v.run[i].first + v.run[i].count);
        if (v.tile != NIL)
            vs_tile_give(a, v.tile, TILE_FREE);
    }
    vs_meta_give(&a->meta, v.run, v.run_room * sizeof *v.run);
    return status;
}
