/*
 * views.c - second mappings of granules, and the blocks in them.
 *
 * A view is a range of addresses where granules of any heaps are mapped side by side, once more.  Its block
 * takes the first granules that it needs; what is left of the view stays with the other mappings.  While a
 * view is live its granules are shadows in their home heaps.
 */
#include "internal.h"

/* ---- idle views, by last use ---- */

void vs_view_idle_add(struct vs_arena *a, uint32_t view)
{
    struct view *v = &a->view[view];
    v->older = a->youngest_idle;
    v->younger = NIL;
    if (v->older != NIL)
        a->view[v->older].younger = view;
    else
        a->oldest_idle = view;
    a->youngest_idle = view;
}

void vs_view_idle_remove(struct vs_arena *a, uint32_t view)
{
    const struct view *v = &a->view[view];
    if (v->older != NIL)
        a->view[v->older].younger = v->younger;
    else
        a->oldest_idle = v->younger;
    if (v->younger != NIL)
        a->view[v->younger].older = v->older;
    else
        a->youngest_idle = v->older;
}

/* ---- the block in a view ---- */

uint32_t vs_view_claim(struct vs_arena *a, uint32_t view, uint32_t lane, uint64_t size)
{
    struct view *v = &a->view[view];
    uint32_t left = granules_for(a, size);
    vs_view_idle_remove(a, view);
    v->claimed = left;
    v->lane = (uint8_t)lane;
    a->tile[v->tile].lane = (uint8_t)lane;
    vs_view_refresh(a, v);
    for (const struct run *r = v->run; left; r++) {
        uint32_t n = r->count < left ? r->count : left;
        vs_tile_change(a, r->first, n, TILE_SHADOW, VS_ARENA_ANY);
        vs_granules_claim(a, r->first, r->first + n, view);
        left -= n;
    }
    return v->tile;
}

void vs_view_release(struct vs_arena *a, uint32_t view)
{
    struct view *v = &a->view[view];
    uint32_t left = v->claimed, lane = v->lane;
    for (const struct run *r = v->run; left; r++) {
        uint32_t n = r->count < left ? r->count : left;
        vs_granules_release(a, r->first, r->first + n, users_of(lane), a->seq_now, view);
        vs_tile_change(a, r->first, n, TILE_FREE, lane);
        left -= n;
    }
    v->claimed = 0;
    v->users |= users_of(lane);
    v->last_free = a->seq_now;
    vs_view_idle_add(a, view);
    vs_view_refresh(a, v);
}

/* ---- removing ---- */

bool vs_view_complete(struct vs_arena *a, struct view *v)
{
    for (uint32_t rest = v->users; rest;)
        if (!is_done(&a->lane[next_bit(&rest)], v->last_free))
            return false;
    v->users = 0;
    return true;
}

/* The runs beyond the first KEEP granules leave the view, and their counts with them. */
static void shorten_runs(struct vs_arena *a, uint32_t view, uint32_t keep)
{
    struct view *v = &a->view[view];
    uint32_t runs = 0, before = 0;
    for (uint32_t i = 0; i < v->runs; i++) {
        struct run *r = &v->run[i];
        uint32_t stays = before >= keep ? 0 : keep - before < r->count ? keep - before : r->count;
        before += r->count;
        for (uint32_t g = r->first + stays; g < r->first + r->count; g++)
            v->busy -= a->used[g] == 1;
        if (stays < r->count)
            vs_atoms_remove(a, r->first + stays, r->first + r->count, view);
        r->count = stays;
        runs += stays > 0;
    }
    v->runs = runs;
}

static void remove_view(struct vs_arena *a, uint32_t view)
{
    struct view *v = &a->view[view];
    vs_view_idle_remove(a, view);
    a->tile[v->tile].view = NIL;
    a->tile[v->tile].lane = VS_ARENA_ANY;
    vs_tile_give(a, v->tile, TILE_FREE);
    vs_meta_give(&a->meta, v->run, v->run_room * sizeof *v->run);
    *v = (struct view){.older = a->spare_views};
    a->spare_views = view;
    a->live_views--;
}

/* Only a boundary of atoms can be one of the view: the atom that it would split is split first. */
static int split_at(struct vs_arena *a, const struct view *v, uint32_t keep)
{
    for (const struct run *r = v->run; keep; keep -= r->count, r++)
        if (keep < r->count)
            return vs_atoms_split(a, r->first + keep);
    return 0;
}

int vs_view_shorten(struct vs_arena *a, uint32_t view, uint32_t keep)
{
    struct view *v = &a->view[view];
    uint32_t gone = v->count - keep, class = 0;
    uint64_t place = a->tile[v->tile].at + place_of(a, keep);
    if (!gone)
        return 0;
    if (keep && (split_at(a, v, keep) != 0 || vs_class_join(a, keep, &class) != 0))
        return VS_BACKING_OUT_OF_MEMORY;
    v = &a->view[view];
    int status = a->backing.unmap(a->backing.context, address_of(a, place), place_of(a, gone));
    if (status != 0)
        return status;
    vs_class_remove(a, view);
    shorten_runs(a, view, keep);
    a->stats.unmapped += gone;
    a->stats.mappings -= gone;
    if (keep) {
        vs_class_add(a, class, view);
        v->count = keep;
        uint32_t rest = vs_tile_cut(a, v->tile, place);
        a->tile[rest].lane = VS_ARENA_ANY;
        vs_tile_give(a, rest, TILE_FREE);
        vs_view_refresh(a, v);
    } else {
        a->stats.evicted++;
        remove_view(a, view);
    }
    return 0;
}
