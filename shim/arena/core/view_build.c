/*
 * view_build.c - making a view: which idle granules, and mapping them.
 *
 * The granules are the first idle ones in order of their places: those of the heap for large blocks come
 * before those of the heap for small ones, which need theirs again soonest.
 */
#include "internal.h"

#include <string.h>

static bool is_ready(const struct vs_arena *a, uint32_t g, uint32_t lane)
{
    uint64_t need[LANES] = {0};
    return !vs_order_need(a, lane, a->users[g], a->seq[g], need);
}

/* The first idle granules that the view can have, as many as it needs, are written to RUN (NULL: nowhere) as
 * runs in order of their places.  Returns how many runs they are, or 0 where there are too few granules. */
static uint32_t choose(const struct vs_arena *a, const struct view *v, bool ready, struct run *run)
{
    uint32_t runs = 0, left = v->count, last = NIL;
    for (uint32_t g = 0; left && (g = vs_granules_next_idle(a, g)) != NIL; g++) {
        if (!is_lent(a, g) || (ready && !is_ready(a, g, v->lane)))
            continue;
        if (last == NIL || g != last + 1 || heap_of(a, g) != heap_of(a, last))
            runs++;
        if (run)
            run[runs - 1] = (struct run){g - run[runs - 1].count, run[runs - 1].count + 1};
        last = g;
        left--;
    }
    return left ? 0 : runs;
}

static int collect(struct vs_arena *a, struct view *v, bool ready)
{
    uint32_t runs = choose(a, v, ready, NULL);
    v->run = runs ? vs_meta_resize(&a->meta, NULL, 0, runs * sizeof *v->run) : NULL;
    if (!v->run)
        return VS_BACKING_OUT_OF_MEMORY;
    memset(v->run, 0, runs * sizeof *v->run);
    v->runs = v->run_room = choose(a, v, ready, v->run);
    return 0;
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

static int prepare(struct vs_arena *a, struct view *v, bool ready, uint32_t *view, uint32_t *class)
{
    *view = take_number(a);
    if (*view == NIL || vs_class_join(a, v->count, class) != 0 ||
        vs_tiles_reserve(a, a->stats.blocks + 1, a->live_views + 1, a->home_tiles_top) != 0 ||
        vs_supply_window(a, ALIASES) != 0)
        return VS_BACKING_OUT_OF_MEMORY;
    return collect(a, v, ready);
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
    for (uint32_t view = a->oldest_idle;
         view != NIL && (a->stats.mappings + count > a->config.max_mappings || !has_addresses(a, count));) {
        uint32_t younger = a->view[view].younger;
        if (!vs_view_complete(a, &a->view[view]) && vs_settle(a) != 0)
            return;
        if (vs_view_shorten(a, view, 0) != 0)
            return;
        view = younger;
    }
}

/* ---- all of it ---- */

int vs_view_build(struct vs_arena *a, uint32_t lane, uint32_t count, bool ready, uint32_t *view)
{
    struct view v = {.count = count, .lane = (uint8_t)lane};
    uint32_t class;
    int status = prepare(a, &v, ready, view, &class);
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
