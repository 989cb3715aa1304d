/*
 * alias_build.c - makes an alias mapping: chooses idle chunks, and maps them.
 *
 * The chunks are the first idle ones in order of their places: those of the heap for large blocks come before
 * those of the heap for small ones, which need theirs again soonest.
 */
#include "internal.h"

#include <string.h>

static bool is_ready(const struct vs_arena *a, uint32_t g, uint32_t queue)
{
    uint64_t need[QUEUES] = {0};
    return !vs_order_need(a, queue, a->users[g], a->seq[g], need);
}

uint32_t vs_run_add(const struct vs_arena *a, struct run *run, uint32_t runs, uint32_t first, uint32_t n,
                    uint32_t last)
{
    bool joins = last != NIL && first == last + 1 && heap_of(a, first) == heap_of(a, last);
    if (run && joins)
        run[runs - 1].count += n;
    else if (run)
        run[runs] = (struct run){first, n};
    return runs + !joins;
}

/* The first idle chunks that the alias mapping can have, as many as it needs, are written to RUN (NULL:
 * nowhere) as runs in order of their places.  Returns how many runs they are, or 0 where there are too few
 * chunks. */
static uint32_t choose(struct vs_arena *a, const struct alias *v, bool ready, struct run *run)
{
    uint32_t runs = 0, left = v->count, last = NIL;
    for (struct run r = {0, 0}; left && (r = vs_chunks_next_idle(a, r.first + r.count, left)).count;) {
        struct run rest = r;
        for (uint32_t n; rest.count && is_lent(a, r.first); rest.first += n, rest.count -= n) {
            n = ready ? vs_chunks_alike(a, rest) : rest.count;
            if (ready && !is_ready(a, rest.first, v->queue))
                continue;
            runs = vs_run_add(a, run, runs, rest.first, n, last);
            last = rest.first + n - 1;
            left -= n;
        }
    }
    return left ? 0 : runs;
}

static int collect(struct vs_arena *a, struct alias *v, bool ready)
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
    uint32_t alias = a->spare_aliases;
    if (alias != NIL)
        return alias;
    if (vs_meta_fit(&a->meta, (void **)&a->alias, &a->alias_room, sizeof *a->alias, a->aliases + 1) != 0)
        return NIL;
    return a->aliases;
}

/* Addresses for so many chunks: a free extent in the window of alias mappings; NIL where it is full. */
static uint32_t take_addresses(struct vs_arena *a, uint32_t count)
{
    struct heap *h = &a->heap[ALIASES];
    uint32_t extent = vs_free_extents_fit(a, &h->free[VS_ARENA_ANY], place_of(a, count));
    if (extent == NIL) {
        const struct extent *last = h->top ? &a->extent[h->last] : NULL;
        uint32_t need = count - (last && last->state == EXTENT_FREE ? slot_of(a, last->size) : 0);
        if (h->top + (uint64_t)need > h->limit)
            return NIL;
        extent = vs_extent_append(a, ALIASES, need, EXTENT_FREE, VS_ARENA_ANY);
    }
    vs_extent_take(a, extent);
    a->extent[extent].state = EXTENT_ALIAS;
    if (a->extent[extent].size > place_of(a, count))
        vs_extent_give(a, vs_extent_cut(a, extent, a->extent[extent].at + place_of(a, count)), EXTENT_FREE);
    return extent;
}

/* If the mappings can neither be used nor undone, their addresses stay out of use and *EXTENT becomes NIL. */
static int map_runs(struct vs_arena *a, const struct alias *v, uint32_t *extent)
{
    uint64_t place = a->extent[*extent].at, done = 0;
    int status = 0;
    for (uint32_t i = 0; i < v->runs && status == 0; i++)
        status = vs_handles_map(a, place, v->run[i], &done);
    status = vs_handles_mapped(a, place, status, &done);
    if (status != 0 && done)
        *extent = NIL;
    return status;
}

static int prepare_atoms(struct vs_arena *a, const struct alias *v)
{
    for (uint32_t i = 0; i < v->runs; i++)
        if (vs_atoms_prepare(a, v->run[i].first, v->run[i].first + v->run[i].count) != 0) {
            while (i-- > 0)
                vs_atoms_cancel(a, v->run[i].first, v->run[i].first + v->run[i].count);
            return VS_BACKING_OUT_OF_MEMORY;
        }
    return 0;
}

static int prepare(struct vs_arena *a, struct alias *v, bool ready, uint32_t *alias, uint32_t *class)
{
    *alias = take_number(a);
    if (*alias == NIL || vs_class_join(a, v->count, class) != 0 ||
        vs_extents_reserve(a, a->stats.blocks + 1, a->live_aliases + 1, a->primary_top) != 0 ||
        vs_supply_window(a, ALIASES) != 0)
        return VS_BACKING_OUT_OF_MEMORY;
    int status = collect(a, v, ready);
    for (uint32_t i = 0; i < v->runs && status == 0; i++)
        status = vs_split(a, v->run[i]);
    return status;
}

static void enter(struct vs_arena *a, const struct alias *v, uint32_t alias, uint32_t class)
{
    if (a->spare_aliases == alias)
        a->spare_aliases = a->alias[alias].older;
    else
        a->aliases++;
    a->live_aliases++;
    a->alias[alias] = *v;
    a->extent[v->extent].alias = alias;
    for (uint32_t i = 0; i < v->runs; i++)
        vs_atoms_add(a, v->run[i].first, v->run[i].first + v->run[i].count, alias);
    vs_class_add(a, class, alias);
    vs_alias_idle_add(a, alias);
    vs_class_flip(a, &a->alias[alias]);
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
           vs_free_extents_fit(a, &h->free[VS_ARENA_ANY], place_of(a, count)) != NIL;
}

void vs_aliases_make_room(struct vs_arena *a, uint32_t count)
{
    for (uint32_t alias = a->oldest_idle;
         alias != NIL && (a->stats.mappings + a->away_mappings + count > a->config.max_mappings ||
                          !has_addresses(a, count));) {
        uint32_t younger = a->alias[alias].younger;
        if (!vs_alias_complete(a, &a->alias[alias]) && vs_synchronize(a) != 0)
            return;
        if (vs_alias_shorten(a, alias, 0) != 0)
            return;
        alias = younger;
    }
}

/* ---- all of it ---- */

int vs_alias_build(struct vs_arena *a, uint32_t queue, uint32_t count, bool ready, uint32_t *alias)
{
    struct alias v = {.count = count, .queue = (uint8_t)queue};
    uint32_t class;
    int status = prepare(a, &v, ready, alias, &class);
    if (status == 0 && (status = prepare_atoms(a, &v)) == 0) {
        v.extent = take_addresses(a, count);
        status = v.extent == NIL ? VS_BACKING_OUT_OF_MEMORY : map_runs(a, &v, &v.extent);
        if (status == 0) {
            enter(a, &v, *alias, class);
            return 0;
        }
        for (uint32_t i = 0; i < v.runs; i++)
            vs_atoms_cancel(a, v.run[i].first, v.run[i].first + v.run[i].count);
        if (v.extent != NIL)
            vs_extent_give(a, v.extent, EXTENT_FREE);
    }
    vs_meta_give(&a->meta, v.run, v.run_room * sizeof *v.run);
    return status;
}
