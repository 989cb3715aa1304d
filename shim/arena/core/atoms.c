/*
 * atoms.c - which alias mappings a chunk is in.
 *
 * Neighbours mostly have the same ones: a run of chunks with the same alias mappings is one atom, and has one
 * list.  Chunks that no alias mapping aliases have none; bits say which they are, 64 at a step.
 */
#include "internal.h"

#include <string.h>

uint32_t vs_atoms_next(const struct vs_arena *a, uint32_t chunk, uint32_t end)
{
    while (chunk < end) {
        uint64_t word = a->aliased[chunk >> 6] >> (chunk & 63);
        if (word) {
            chunk += (uint32_t)__builtin_ctzll(word);
            return chunk < end ? chunk : end;
        }
        chunk = (chunk | 63) + 1;
    }
    return end;
}

static bool is_aliased(const struct vs_arena *a, uint32_t chunk)
{
    return a->aliased[chunk >> 6] >> (chunk & 63) & 1;
}

static void cover(struct vs_arena *a, uint32_t atom)
{
    const struct atom *x = &a->atom[atom];
    for (uint32_t g = x->first; g < x->first + x->count; g++) {
        a->atom_of[g] = atom;
        a->aliased[g >> 6] |= 1ull << (g & 63);
    }
}

/* A new atom over these chunks with a copy of the list of FROM (NIL: none); NIL where the host has no
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
    uint32_t *aliases = vs_meta_resize(&a->meta, NULL, 0, room * sizeof *aliases);
    if (!aliases)
        return NIL;
    if (a->spare_atoms != NIL)
        a->spare_atoms = a->atom[atom].first;
    else
        a->atoms++;
    uint32_t used = from == NIL ? 0 : a->atom[from].used;
    if (used)
        memcpy(aliases, a->atom[from].aliases, used * sizeof *aliases);
    a->atom[atom] = (struct atom){first, count, used, room, aliases};
    cover(a, atom);
    return atom;
}

static void drop(struct vs_arena *a, uint32_t atom)
{
    struct atom *x = &a->atom[atom];
    for (uint32_t g = x->first; g < x->first + x->count; g++)
        a->aliased[g >> 6] &= ~(1ull << (g & 63));
    vs_meta_give(&a->meta, x->aliases, x->capacity * sizeof *x->aliases);
    *x = (struct atom){.first = a->spare_atoms};
    a->spare_atoms = atom;
}

int vs_atoms_split(struct vs_arena *a, uint32_t chunk)
{
    if (chunk >= a->primary_slots || !is_aliased(a, chunk))
        return 0;
    uint32_t atom = a->atom_of[chunk], first = a->atom[atom].first;
    if (first == chunk)
        return 0;
    uint32_t rest = first + a->atom[atom].count - chunk;
    if (create(a, chunk, rest, atom) == NIL)
        return -1;
    a->atom[atom].count -= rest;
    return 0;
}

/* Until it is added to, an atom with an empty list stands for chunks without alias mappings. */
static int fill(struct vs_arena *a, uint32_t first, uint32_t end)
{
    while (first < end) {
        uint32_t stop = vs_atoms_next(a, first, end);
        if (stop > first && create(a, first, stop - first, NIL) == NIL)
            return -1;
        while (stop < end && is_aliased(a, stop)) {
            struct atom *x = &a->atom[a->atom_of[stop]];
            if (vs_meta_fit(&a->meta, (void **)&x->aliases, &x->capacity, sizeof *x->aliases, x->used + 1) !=
                0)
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

void vs_atoms_add(struct vs_arena *a, uint32_t first, uint32_t end, uint32_t alias)
{
    while (first < end) {
        struct atom *x = &a->atom[a->atom_of[first]];
        x->aliases[x->used++] = alias;
        first = x->first + x->count;
    }
}

/* The atoms that lie wholly from FIRST to END begin where their chunks do. */
static void begin_anew(struct vs_arena *a, uint32_t first, uint32_t end)
{
    for (uint32_t g = first; (g = vs_atoms_next(a, g, end)) < end;) {
        struct atom *x = &a->atom[a->atom_of[g]];
        x->first = g;
        g += x->count;
    }
}

void vs_atoms_exchange(struct vs_arena *a, uint32_t first, uint32_t second, uint32_t count)
{
    for (uint32_t g = first, n = second; g < first + count; g++, n++) {
        uint32_t atom = a->atom_of[g];
        a->atom_of[g] = a->atom_of[n];
        a->atom_of[n] = atom;
        if (is_aliased(a, g) != is_aliased(a, n)) {
            a->aliased[g >> 6] ^= 1ull << (g & 63);
            a->aliased[n >> 6] ^= 1ull << (n & 63);
        }
    }
    begin_anew(a, first, first + count);
    begin_anew(a, second, second + count);
}

static void forget(struct atom *x, uint32_t alias)
{
    for (uint32_t i = 0; i < x->used; i++)
        if (x->aliases[i] == alias) {
            memmove(x->aliases + i, x->aliases + i + 1, (x->used - i - 1) * sizeof *x->aliases);
            x->used--;
            return;
        }
}

void vs_atoms_remove(struct vs_arena *a, uint32_t first, uint32_t end, uint32_t alias)
{
    while (first < end) {
        if (!is_aliased(a, first)) {
            first++;
            continue;
        }
        uint32_t atom = a->atom_of[first];
        first = a->atom[atom].first + a->atom[atom].count;
        forget(&a->atom[atom], alias);
        if (a->atom[atom].used == 0)
            drop(a, atom);
    }
}
