/*
 * replace.c - gives a parked block other chunks for those in which another block is alive.
 *
 * What stood in the block's chunks its caller has, so any chunks do.  The first idle ones that are nobody's
 * are taken, and made where there are too few.  The block keeps its addresses, and so does who is alive:
 *
 *  - A block in an alias mapping has the other chunks there.  Those that it had stay where they are.
 *
 *  - A block in a heap lies where its chunks have their primary mappings, and a chunk's number says where
 *    that is.  So the two exchange their numbers: their primary mappings, and their places in what alias
 *    mappings, atoms and watchers know.  What alias mappings have mapped stays.
 *
 *            before   heap |g: H|  ...  |n: I|     an alias mapping has g, where H is mapped
 *            after    heap |g: I|  ...  |n: H|     it has n, where H is mapped
 *
 * Where nothing else is idle and no more can be made, idle chunks of other parked blocks come, which need
 * others then when they come back.  The chunks that come are parked and idle, until the caller takes them
 * back.
 */
#include "internal.h"

#include <string.h>

/* Chunks that get other numbers: COUNT from FROM on those from TO on; BOTH: and the reverse. */
struct change {
    uint32_t from, to, count;
    bool both;
};

/* ---- which ---- */

static bool is_taken(const struct vs_arena *a, uint32_t slot, uint32_t chunk)
{
    return a->used[chunk] && (slot >= a->primary_slots || is_parked_at_home(a, chunk));
}

/* The first of a parked block's chunks that another block is in, and those that follow it side by side, also
 * where their primary mappings are. */
static struct mapping next_taken(const struct vs_arena *a, struct run slots)
{
    uint32_t end = slots.first + slots.count;
    struct run r;
    for (uint32_t slot = slots.first; slot < end; slot += r.count) {
        r = vs_chunks_mapped_at(a, slot, end - slot);
        uint32_t from = 0;
        while (from < r.count && !is_taken(a, slot, r.first + from))
            from++;
        uint32_t to = from;
        while (to < r.count && is_taken(a, slot, r.first + to))
            to++;
        if (from < to)
            return (struct mapping){place_of(a, slot + from), r.first + from, to - from};
    }
    return (struct mapping){0};
}

static bool has_alias(const struct vs_arena *a, uint32_t chunk, uint32_t alias)
{
    bool has = false;
    if (alias != NIL && vs_atoms_next(a, chunk, chunk + 1) == chunk) {
        const struct atom *x = &a->atom[a->atom_of[chunk]];
        for (uint32_t i = 0; i < x->used; i++)
            has = has || x->aliases[i] == alias;
    }
    return has;
}

/* Whether the chunk, which is idle, can come to the block with these SLOTS; PARKED: though others parked it.
 */
static bool can_come(const struct vs_arena *a, uint32_t chunk, struct run slots, uint32_t alias, bool parked)
{
    bool own = chunk >= slots.first && chunk < slots.first + slots.count;
    return !own && is_lent(a, chunk) && (parked || !is_parked(a, chunk)) && !has_alias(a, chunk, alias);
}

/* The first that can, side by side, MOST at most, and of one kind; none: the count is 0. */
static struct run first_to_come(struct vs_arena *a, uint32_t most, struct run slots, uint32_t alias,
                                bool parked)
{
    for (struct run r = {0, 0}; (r = vs_chunks_next_idle(a, r.first + r.count, a->primary_slots)).count;)
        for (uint32_t g = r.first, end = r.first + r.count; g < end; g++) {
            uint32_t count = 0;
            while (count < most && g + count < end && can_come(a, g + count, slots, alias, parked) &&
                   is_parked_at_home(a, g + count) == is_parked_at_home(a, g))
                count++;
            if (count)
                return (struct run){g, count};
        }
    return (struct run){0};
}

static bool are_complete(const struct vs_arena *a, uint32_t first, uint32_t count)
{
    bool all = true;
    for (uint32_t g = first; all && g < first + count; g++)
        all = vs_chunk_complete(a, g);
    return all;
}

/* ---- what alias mappings have then ---- */

static uint32_t number_after(uint32_t chunk, const struct change *c)
{
    if (chunk >= c->from && chunk < c->from + c->count)
        return c->to + (chunk - c->from);
    if (c->both && chunk >= c->to && chunk < c->to + c->count)
        return c->from + (chunk - c->to);
    return chunk;
}

/* Writes the runs of the alias mapping as they are then to RUN (NULL: nowhere); how many they are. */
static uint32_t runs_after(const struct vs_arena *a, const struct alias *v, const struct change *c,
                           struct run *run)
{
    uint32_t runs = 0, last = NIL;
    for (const struct run *r = v->run; r < v->run + v->runs; r++)
        for (uint32_t g = r->first; g < r->first + r->count; g++) {
            uint32_t chunk = number_after(g, c);
            runs = vs_run_add(a, run, runs, chunk, 1, last);
            last = chunk;
        }
    return runs;
}

/* Makes ready what the alias mapping has then. */
static int list(struct vs_arena *a, uint32_t alias, const struct change *c)
{
    struct alias *v = &a->alias[alias];
    if (v->listed)
        return 0;
    if (vs_meta_fit(&a->meta, (void **)&a->renamed, &a->renamed_room, sizeof *a->renamed, a->renameds + 1) !=
        0)
        return VS_BACKING_OUT_OF_MEMORY;
    struct renamed *x = &a->renamed[a->renameds];
    *x = (struct renamed){.alias = alias, .runs = runs_after(a, v, c, NULL)};
    x->run = vs_meta_resize(&a->meta, NULL, 0, x->runs * sizeof *x->run);
    if (!x->run)
        return VS_BACKING_OUT_OF_MEMORY;
    memset(x->run, 0, x->runs * sizeof *x->run);
    runs_after(a, v, c, x->run);
    v->listed = true;
    a->renameds++;
    return 0;
}

/* Those that have any of the chunks. */
static int list_all(struct vs_arena *a, uint32_t first, uint32_t count, const struct change *c)
{
    uint32_t end = first + count;
    int status = 0;
    for (uint32_t g = first; status == 0 && (g = vs_atoms_next(a, g, end)) < end;) {
        const struct atom *x = &a->atom[a->atom_of[g]];
        for (uint32_t i = 0; i < x->used && status == 0; i++)
            status = list(a, x->aliases[i], c);
        g = x->first + x->count;
    }
    return status;
}

/* The alias mappings of the list have what was made ready; or, if not DONE, what they had. */
static void end_list(struct vs_arena *a, bool done)
{
    for (uint32_t i = 0; i < a->renameds; i++) {
        struct renamed x = a->renamed[i];
        struct alias *v = &a->alias[x.alias];
        v->listed = false;
        if (!done) {
            vs_meta_give(&a->meta, x.run, x.runs * sizeof *x.run);
            continue;
        }
        vs_meta_give(&a->meta, v->run, v->run_room * sizeof *v->run);
        v->run = x.run;
        v->runs = v->run_room = x.runs;
    }
    a->renameds = 0;
}

/* ---- mappings ---- */

static int unmap(struct vs_arena *a, uint64_t place, uint32_t count)
{
    return a->backing.unmap(a->backing.context, address_of(a, place), place_of(a, count));
}

/* COUNT chunks from FIRST on, side by side from PLACE on. */
static int map(struct vs_arena *a, uint64_t place, uint32_t first, uint32_t count)
{
    uint64_t done = 0;
    int status = vs_handles_map(a, place, (struct run){first, count}, &done);
    status = vs_handles_mapped(a, place, status, &done);
    if (status != 0 && done)
        a->stats.lost += count;
    return status;
}

/* Other chunks are mapped at PLACE; after an error those that were. */
static int map_others(struct vs_arena *a, uint64_t place, const struct change *c)
{
    int status = unmap(a, place, c->count);
    if (status != 0)
        return status;
    status = map(a, place, c->to, c->count);
    if (status != 0 && map(a, place, c->from, c->count) != 0)
        vs_supply_give_up(a, place, c->count);
    return status;
}

/* The chunks that come are mapped at their own place no more, and those that go are. */
static int map_at_home(struct vs_arena *a, const struct change *c)
{
    uint64_t home = place_of(a, c->to), place = place_of(a, c->from);
    int status = unmap(a, home, c->count);
    if (status != 0)
        return status;
    status = map_others(a, place, c);
    if (status == 0) {
        status = map(a, home, c->from, c->count);
        if (status != 0 && (unmap(a, place, c->count) != 0 || map(a, place, c->from, c->count) != 0))
            vs_supply_give_up(a, place, c->count);
    }
    if (status != 0 && map(a, home, c->to, c->count) != 0)
        for (uint32_t i = 0; i < c->count; i++)
            vs_supply_lose_home(a, c->to + i);
    return status;
}

/* ---- the block lies in an alias mapping ---- */

static int prepare_others(struct vs_arena *a, uint32_t alias, const struct change *c)
{
    if (vs_extents_reserve(a, a->stats.blocks + 1, a->live_aliases, a->primary_top) != 0 ||
        vs_atoms_split(a, c->from) != 0 || vs_atoms_split(a, c->from + c->count) != 0 ||
        vs_atoms_prepare(a, c->to, c->to + c->count) != 0)
        return VS_BACKING_OUT_OF_MEMORY;
    int status = list(a, alias, c);
    if (status != 0)
        vs_atoms_cancel(a, c->to, c->to + c->count);
    return status;
}

/* Chunks that parked blocks gave up stay hidden: were they free extents when they are idle, the next requests
 * would take those, and what is alive at the next unpark would lie elsewhere again. */
static void hide_all(struct vs_arena *a, uint32_t first, uint32_t count)
{
    for (uint32_t g = first; g < first + count; g++)
        if (a->extent[vs_extent_at(a, place_of(a, g))].state == EXTENT_SHADOW)
            hide(a, g, true);
}

/* Only alias mappings have them from now on. */
static void shade(struct vs_arena *a, uint32_t first, uint32_t count)
{
    if (!is_parked_at_home(a, first)) /* as it is with all of them, or none */
        vs_extent_change(a, first, count, EXTENT_SHADOW, VS_ARENA_ANY);
}

static int have_others(struct vs_arena *a, uint32_t extent, uint64_t place, const struct change *c)
{
    uint32_t alias = a->extent[extent].alias;
    int status = prepare_others(a, alias, c);
    if (status != 0)
        return status;
    status = map_others(a, place, c);
    end_list(a, status == 0);
    if (status != 0) {
        vs_atoms_cancel(a, c->to, c->to + c->count);
        return status;
    }
    vs_atoms_remove(a, c->from, c->from + c->count, alias);
    vs_atoms_add(a, c->to, c->to + c->count, alias);
    for (uint32_t g = c->from, n = c->to; g < c->from + c->count; g++, n++)
        a->parked_by[g]--, a->parked_by[n]++;
    hide_all(a, c->from, c->count);
    shade(a, c->to, c->count);
    a->stats.unmapped += c->count;
    return 0;
}

/* ---- the block lies in a heap ---- */

static int prepare_exchange(struct vs_arena *a, const struct change *c)
{
    if (vs_extents_reserve(a, a->stats.blocks + 1, a->live_aliases, a->primary_top) != 0 ||
        vs_atoms_split(a, c->from) != 0 || vs_atoms_split(a, c->from + c->count) != 0 ||
        vs_atoms_split(a, c->to) != 0 || vs_atoms_split(a, c->to + c->count) != 0 ||
        list_all(a, c->from, c->count, c) != 0 || list_all(a, c->to, c->count, c) != 0) {
        end_list(a, false);
        return VS_BACKING_OUT_OF_MEMORY;
    }
    return 0;
}

/* Their last uses, before the one that goes on, are complete, so whose they were need not be exchanged. */
static void exchange_numbers(struct vs_arena *a, const struct change *c)
{
    for (uint32_t g = c->from, n = c->to; g < c->from + c->count; g++, n++) {
        uint64_t handle = a->handle[g];
        uint16_t by = a->parked_by[g];
        a->handle[g] = a->handle[n], a->handle[n] = handle;
        a->parked_by[g] = a->parked_by[n], a->parked_by[n] = by;
        a->used[g] = 0, a->used[n] = 1;
        vs_class_move(a, g, n);
    }
    vs_atoms_exchange(a, c->from, c->to, c->count);
    vs_chunks_idle_from(a, c->from);
}

static int exchange(struct vs_arena *a, const struct change *c)
{
    int status = prepare_exchange(a, c);
    if (status != 0)
        return status;
    status = map_at_home(a, c);
    end_list(a, status == 0);
    if (status != 0)
        return status;
    exchange_numbers(a, c);
    shade(a, c->to, c->count);
    hide_all(a, c->to, c->count);
    a->stats.unmapped += 2ull * c->count;
    return 0;
}

/* ---- both ---- */

/* What comes for the chunks of M: what is idle, else what is new, else what other parked blocks have. */
static int find(struct vs_arena *a, uint32_t extent, struct mapping m, struct run slots, uint32_t alias,
                struct run *come)
{
    uint32_t heap = a->extent[extent].queue == VS_ARENA_ANY ? 2 * VS_ARENA_ANY : SHARED;
    *come = first_to_come(a, m.count, slots, alias, false);
    int status = come->count ? 0 : vs_supply_more(a, heap, m.count);
    if (!come->count)
        *come = first_to_come(a, m.count, slots, alias, status != 0);
    return come->count ? 0 : status;
}

static int replace(struct vs_arena *a, uint32_t extent, struct run slots, struct mapping m)
{
    bool in_heap = a->extent[extent].state == EXTENT_USED;
    struct run come;
    int status = find(a, extent, m, slots, in_heap ? NIL : a->extent[extent].alias, &come);
    if (status != 0)
        return status;
    /* who is alive in a chunk has waited for all that used it before, through whatever mapping */
    if (!are_complete(a, m.chunk, come.count) || (in_heap && !are_complete(a, come.first, come.count)))
        return VS_BACKING_NOT_READY;
    status = vs_split(a, come);
    if (status != 0)
        return status == NOT_COMPLETE ? VS_BACKING_NOT_READY : status;
    struct change c = {m.chunk, come.first, come.count, in_heap};
    status = in_heap ? exchange(a, &c) : have_others(a, extent, m.place, &c);
    a->stats.replaced += status == 0 ? c.count : 0;
    return status;
}

int vs_replace_taken(struct vs_arena *a, uint32_t extent)
{
    struct run slots = vs_block_slots(a, &a->extent[extent]);
    int status = 0;
    if (next_taken(a, slots).count)
        vs_synchronize_poll(a, NIL);
    for (struct mapping m; status == 0 && (m = next_taken(a, slots)).count;)
        status = replace(a, extent, slots, m);
    return status;
}
