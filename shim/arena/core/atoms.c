/*
 * atoms.c - which views alias a granule.
 *
 * Views are made of long runs, so neighbours mostly have the same ones: a run of granules with the same views
 * is one atom, and has one list.  Granules that no view aliases have none; bits tell them apart at 64 a step.
 */
#include "internal.h"

#include <string.h>

uint32_t vs_atoms_next(const struct vs_arena *a, uint32_t granule, uint32_t end)
{
    while (granule < end) {
        uint64_t word = a->aliased[granule >> 6] >> (granule & 63);
        if (word) {
            granule += (uint32_t)__builtin_ctzll(word);
            return granule < end ? granule : end;
        }
        granule = (granule | 63) + 1;
    }
    return end;
}

static bool is_aliased(const struct vs_arena *a, uint32_t granule)
{
    return a->aliased[granule >> 6] >> (granule & 63) & 1;
}

static void cover(struct vs_arena *a, uint32_t atom)
{
    const struct atom *x = &a->atom[atom];
    for (uint32_t g = x->first; g < x->first + x->count; g++) {
        a->atom_of[g] = atom;
        a->aliased[g >> 6] |= 1ull << (g & 63);
    }
}

/* A new atom over these granules with a copy of the list of FROM (NIL: none); NIL where the host has no
 * memory. */
static uint32_t create(struct vs_arena *a, uint32_t first, uint32_t count, uint32_t from)
{
    uint32_t atom = a->spare_atoms;
    if (atom == NIL) {
        if (vs_meta_fit(&a->meta, (void **)&a->atom, &a->atom_room, sizeof *a->atom, a->atoms + 1) != 0)
            return NIL;
        atom = a->atoms;
    }
    uint32_t room = from == NIL ? 4 : a->atom[from].capacity;
    uint32_t *views = vs_meta_resize(&a->meta, NULL, 0, room * sizeof *views);
    if (!views)
        return NIL;
    if (a->spare_atoms != NIL)
        a->spare_atoms = a->atom[atom].first;
    else
        a->atoms++;
    uint32_t used = from == NIL ? 0 : a->atom[from].used;
    if (used)
        memcpy(views, a->atom[from].views, used * sizeof *views);
    a->atom[atom] = (struct atom){first, count, used, room, views};
    cover(a, atom);
    return atom;
}

static void drop(struct vs_arena *a, uint32_t atom)
{
    struct atom *x = &a->atom[atom];
    for (uint32_t g = x->first; g < x->first + x->count; g++)
        a->aliased[g >> 6] &= ~(1ull << (g & 63));
    vs_meta_give(&a->meta, x->views, x->capacity * sizeof *x->views);
    *x = (struct atom){.first = a->spare_atoms};
    a->spare_atoms = atom;
}

int vs_atoms_split(struct vs_arena *a, uint32_t granule)
{
    if (granule >= a->home_slots || !is_aliased(a, granule))
        return 0;
    uint32_t atom = a->atom_of[granule], first = a->atom[atom].first;
    if (first == granule)
        return 0;
    uint32_t rest = first + a->atom[atom].count - granule;
    if (create(a, granule, rest, atom) == NIL)
        return -1;
    a->atom[atom].count -= rest;
    return 0;
}

/* Until it is added to, an atom with an empty list stands for granules without views. */
static int fill(struct vs_arena *a, uint32_t first, uint32_t end)
{
    while (first < end) {
        uint32_t stop = vs_atoms_next(a, first, end);
        if (stop > first && create(a, first, stop - first, NIL) == NIL)
            return -1;
        while (stop < end && is_aliased(a, stop)) {
            struct atom *x = &a->atom[a->atom_of[stop]];
            if (vs_meta_fit(&a->meta, (void **)&x->views, &x->capacity, sizeof *x->views, x->used + 1) != 0)
                return -1;
            stop = x->first + x->count;
        }
        first = stop;
    }
    return 0;
}

void vs_atoms_cancel(struct vs_arena *a, uint32_t first, uint32_t end)
{
    for (uint32_t g = vs_atoms_next(a, first, end); g < end; g = vs_atoms_next(a, g, end)) {
        uint32_t atom = a->atom_of[g];
        g = a->atom[atom].first + a->atom[atom].count;
        if (a->atom[atom].used == 0)
            drop(a, atom);
    }
}

int vs_atoms_prepare(struct vs_arena *a, uint32_t first, uint32_t end)
{
    if (vs_atoms_split(a, first) == 0 && vs_atoms_split(a, end) == 0 && fill(a, first, end) == 0)
        return 0;
    vs_atoms_cancel(a, first, end);
    return -1;
}

void vs_atoms_add(struct vs_arena *a, uint32_t first, uint32_t end, uint32_t view)
{
    while (first < end) {
        struct atom *x = &a->atom[a->atom_of[first]];
        x->views[x->used++] = view;
        first = x->first + x->count;
    }
}

static void forget(struct atom *x, uint32_t view)
{
    for (uint32_t i = 0; i < x->used; i++)
        if (x->views[i] == view) {
            memmove(x->views + i, x->views + i + 1, (x->used - i - 1) * sizeof *x->views);
            x->used--;
            return;
        }
}

void vs_atoms_remove(struct vs_arena *a, uint32_t first, uint32_t end, uint32_t view)
{
    while (first < end) {
        if (!is_aliased(a, first)) {
            first++;
            continue;
        }
        uint32_t atom = a->atom_of[first];
        first = a->atom[atom].first + a->atom[atom].count;
        forget(&a->atom[atom], view);
        if (a->atom[atom].used == 0)
            drop(a, atom);
    }
}
