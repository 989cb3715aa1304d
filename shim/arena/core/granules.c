/*
 * granules.c - which granules are in use, who used them last, and which views must be told when that changes.
 *
 * A granule is idle when no block lies in it, through whatever mapping.  Then `users` and `seq` say which
 * lanes' frees ended its last uses.  It lies in one hole, or in a few that end where granules do.
 *
 * Every view counts how many of its granules are busy: none, and it can be used as it is.  So a change of a
 * granule is told to all views that alias it, atom by atom.
 */
#include "internal.h"

#include <string.h>

/* N granules of the atom are busy for all its views but SELF, or no longer. */
static void tell(struct vs_arena *a, const struct atom *atom, uint32_t n, bool busy, uint32_t self)
{
    for (uint32_t i = 0; i < atom->used; i++) {
        struct view *v = &a->view[atom->views[i]];
        if (atom->views[i] == self)
            continue;
        v->busy += busy ? n : -n;
        vs_view_refresh(a, v);
    }
}

static void tell_all(struct vs_arena *a, uint32_t first, uint32_t end, bool busy, uint32_t self)
{
    for (uint32_t g = vs_atoms_next(a, first, end); g < end; g = vs_atoms_next(a, g, end)) {
        const struct atom *atom = &a->atom[a->atom_of[g]];
        uint32_t stop = atom->first + atom->count < end ? atom->first + atom->count : end;
        tell(a, atom, stop - g, busy, self);
        g = stop;
    }
}

void vs_granules_claim(struct vs_arena *a, uint32_t first, uint32_t end, uint32_t self)
{
    tell_all(a, first, end, true, self);
    memset(a->used + first, 1, end - first);
    a->idle -= end - first;
    if (a->idle < a->surplus.least)
        a->surplus.least = a->idle;
}

void vs_granules_release(struct vs_arena *a, uint32_t first, uint32_t end, uint32_t users, uint64_t seq,
                         uint32_t self)
{
    memset(a->used + first, 0, end - first);
    for (uint32_t g = first; g < end; g++)
        a->users[g] = users;
    if (a->lanes > 1)
        for (uint32_t g = first; g < end; g++)
            a->seq[g] = seq;
    a->idle += end - first;
    tell_all(a, first, end, false, self);
}

void vs_granules_joined(struct vs_arena *a, const struct tile *hole, uint64_t bound)
{
    uint32_t g = slot_of(a, bound);
    if (bound == place_of(a, g) || hole->at > place_of(a, g) || hole->at + hole->size < place_of(a, g + 1))
        return;
    vs_granules_release(a, g, g + 1, hole->waits | users_of(hole->lane), hole->seq, NIL);
}

bool vs_granule_complete(const struct vs_arena *a, uint32_t granule)
{
    for (uint32_t rest = a->users[granule]; rest;) {
        const struct lane *q = &a->lane[next_bit(&rest)];
        /* while there is one lane its frees are not stamped: any may be the granule's */
        if (!is_done(q, a->lanes > 1 ? a->seq[granule] : q->freed))
            return false;
    }
    return true;
}

uint32_t vs_granules_next_idle(const struct vs_arena *a, uint32_t granule)
{
    for (uint32_t heap = heap_of(a, granule); heap < HEAPS; heap++) {
        const struct heap *h = &a->heap[heap];
        uint32_t first = granule < h->first ? h->first : granule, end = h->first + h->top;
        const uint8_t *found = first < end ? memchr(a->used + first, 0, end - first) : NULL;
        if (found)
            return (uint32_t)(found - a->used);
    }
    return NIL;
}

struct idle_count vs_granules_count(const struct vs_arena *a, uint32_t lane)
{
    struct idle_count n = {0, 0};
    uint64_t need[LANES] = {0};
    for (uint32_t g = 0; (g = vs_granules_next_idle(a, g)) != NIL; g++) {
        if (!is_lent(a, g))
            continue;
        if (vs_order_need(a, lane, a->users[g], a->seq[g], need))
            n.others++;
        else
            n.ready++;
    }
    return n;
}
