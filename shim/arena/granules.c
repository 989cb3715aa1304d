/*
 * granules.c - which granules are in use, who used them last, and who must be told when that changes.
 *
 * A granule is idle when no block lies in it, through whatever mapping.  Then `user` and `seq` say which
 * lane's free ended its last use.  A lane may use it if it was that lane itself, or if it knows that free to
 * be complete.
 *
 * Every view counts how many of its granules are busy, and how many are idle but hidden from its lane: both
 * zero, and it can be used as it is.  So a change of a granule is told to all views that alias it, atom by
 * atom, in runs that were last used alike.
 */
#include "internal.h"

#include <string.h>

/* The end of the run from GRANULE on whose last use is the same. */
static uint32_t same_use(const struct vs_arena *a, uint32_t granule, uint32_t end)
{
    if (a->lanes < 2)
        return end; /* nothing is ever hidden */
    uint8_t user = a->user[granule];
    uint64_t seq = a->seq[granule];
    while (++granule < end && a->user[granule] == user && a->seq[granule] == seq)
        ;
    return granule;
}

/* The lanes that may not use it yet. */
static uint32_t hidden_from(const struct vs_arena *a, uint32_t granule)
{
    uint32_t q = a->user[granule], lanes = 0;
    uint64_t seq = a->seq[granule];
    if (a->lanes < 2 || q == VS_ARENA_ANY || seq <= a->lane[q].done)
        return 0;
    for (uint32_t rest = a->open & ~bit_of(q); rest;) {
        uint32_t s = next_bit(&rest);
        lanes |= seq > a->seen[q][s] ? bit_of(s) : 0;
    }
    return lanes;
}

static void tell_taken(struct vs_arena *a, const struct atom *atom, uint32_t granule, uint32_t n,
                       uint32_t self)
{
    uint32_t hidden = hidden_from(a, granule);
    for (uint32_t i = 0; i < atom->used; i++) {
        struct view *v = &a->view[atom->views[i]];
        if (atom->views[i] == self)
            continue;
        v->busy += n;
        v->hidden -= hidden & bit_of(v->lane) ? n : 0;
        if (v->status != VIEW_CLOSED)
            vs_view_refresh(a, v);
    }
}

/* After a free that was told just now: only its lane may use them, or, if it has no stream, all. */
static void tell_idle(struct vs_arena *a, const struct atom *atom, uint32_t lane, uint32_t n, uint32_t self)
{
    uint32_t hidden = a->lanes < 2 || lane == VS_ARENA_ANY ? 0 : ~bit_of(lane);
    for (uint32_t i = 0; i < atom->used; i++) {
        struct view *v = &a->view[atom->views[i]];
        if (atom->views[i] == self)
            continue;
        v->busy -= n;
        v->hidden += hidden & bit_of(v->lane) ? n : 0;
        if (v->busy == 0)
            vs_view_refresh(a, v);
    }
}

void vs_granules_claim(struct vs_arena *a, uint32_t first, uint32_t end, uint32_t self)
{
    for (uint32_t g = vs_atoms_next(a, first, end); g < end; g = vs_atoms_next(a, g, end)) {
        const struct atom *atom = &a->atom[a->atom_of[g]];
        uint32_t stop = atom->first + atom->count < end ? atom->first + atom->count : end;
        while (g < stop) {
            uint32_t same = same_use(a, g, stop);
            tell_taken(a, atom, g, same - g, self);
            g = same;
        }
    }
    memset(a->used + first, 1, end - first);
    a->idle -= end - first;
    if (a->idle < a->surplus.least)
        a->surplus.least = a->idle;
}

bool vs_granules_release(struct vs_arena *a, uint32_t first, uint32_t end, uint32_t lane, uint32_t self)
{
    bool aliased = false;
    memset(a->used + first, 0, end - first);
    memset(a->user + first, (int)lane, end - first);
    if (a->lanes > 1)
        for (uint32_t g = first; g < end; g++)
            a->seq[g] = a->seq_now;
    a->idle += end - first;
    for (uint32_t g = vs_atoms_next(a, first, end); g < end; g = vs_atoms_next(a, g, end)) {
        const struct atom *atom = &a->atom[a->atom_of[g]];
        uint32_t stop = atom->first + atom->count < end ? atom->first + atom->count : end;
        tell_idle(a, atom, lane, stop - g, self);
        aliased = true;
        g = stop;
    }
    return aliased;
}

void vs_granules_shadow(struct vs_arena *a, uint32_t first, uint32_t end, enum tile_state state)
{
    uint32_t lane = home_lane(a, first);
    while (first < end) {
        uint32_t stop = same_use(a, first, end);
        if (!visible(a, first, lane)) { /* a shadow as it was */
            first = stop;
            continue;
        }
        while (stop < end && visible(a, stop, lane))
            stop = same_use(a, stop, end);
        vs_tile_change(a, first, stop - first, state);
        first = stop;
    }
}

static bool idle_since(const struct vs_arena *a, uint32_t granule, uint32_t q, uint64_t seq)
{
    return a->used[granule] == 0 && a->user[granule] == q && a->seq[granule] == seq;
}

static void reveal_to_views(struct vs_arena *a, uint32_t first, uint32_t end, uint32_t lanes)
{
    for (uint32_t g = vs_atoms_next(a, first, end); g < end; g = vs_atoms_next(a, g, end)) {
        const struct atom *atom = &a->atom[a->atom_of[g]];
        uint32_t stop = atom->first + atom->count < end ? atom->first + atom->count : end;
        for (uint32_t i = 0; i < atom->used; i++) {
            struct view *v = &a->view[atom->views[i]];
            if (!(lanes & bit_of(v->lane)))
                continue;
            v->hidden -= stop - g;
            if (v->hidden == 0)
                vs_view_refresh(a, v);
        }
        g = stop;
    }
}

void vs_granules_reveal(struct vs_arena *a, uint32_t first, uint32_t end, uint32_t q, uint64_t seq,
                        uint32_t lanes)
{
    while (first < end) {
        if (!idle_since(a, first, q, seq)) {
            first++;
            continue;
        }
        uint32_t stop = first + 1;
        while (stop < end && idle_since(a, stop, q, seq))
            stop++;
        reveal_to_views(a, first, stop, lanes);
        if (lanes & bit_of(home_lane(a, first)))
            vs_tile_change(a, first, stop - first, TILE_FREE);
        first = stop;
    }
}

bool vs_granule_complete(const struct vs_arena *a, uint32_t granule)
{
    uint32_t q = a->user[granule];
    /* while there is one lane its frees are not stamped: any may be the granule's */
    uint64_t seq = a->lanes > 1 ? a->seq[granule] : a->lane[q].freed;
    return q == VS_ARENA_ANY || seq <= a->lane[q].done;
}

struct idle_count vs_granules_count(const struct vs_arena *a, uint32_t lane)
{
    struct idle_count n = {0, 0};
    for (uint32_t i = 0; i < a->borns; i++) {
        uint32_t g = a->born[i];
        if (a->used[g] || !is_lent(a, g))
            continue;
        if (visible(a, g, lane))
            n.visible++;
        else
            n.hidden++;
    }
    return n;
}

/* ---- all of it anew, where what changed was not recorded ---- */

static void recount_view(struct vs_arena *a, struct view *v)
{
    v->busy = v->hidden = 0;
    uint32_t skip = v->claimed;
    for (uint32_t r = 0; r < v->runs; r++)
        for (uint32_t g = v->run[r].first; g < v->run[r].first + v->run[r].count; g++) {
            if (skip) {
                skip--;
                continue;
            }
            v->busy += a->used[g] == 1;
            v->hidden += a->used[g] == 0 && !visible(a, g, v->lane);
        }
    vs_view_refresh(a, v);
}

static void reshade(struct vs_arena *a, uint32_t heap)
{
    const struct heap *h = &a->heap[heap];
    for (uint32_t slot = h->first; slot < h->first + h->top;) {
        const struct tile *t = &a->tile[vs_tile_at(a, place_of(a, slot))];
        uint32_t end = slot + 1;
        if (t->state == TILE_SHADOW && a->used[slot] == 0 && visible(a, slot, heap >> 1))
            vs_tile_change(a, slot, 1, TILE_FREE);
        slot = end;
    }
}

void vs_granules_recount(struct vs_arena *a)
{
    for (uint32_t v = 0; v < a->views; v++)
        if (a->view[v].count)
            recount_view(a, &a->view[v]);
    for (uint32_t h = 0; h < HEAPS; h++)
        if (a->heap[h].top)
            reshade(a, h);
}
