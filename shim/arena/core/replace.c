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
 *  - Where nothing else is idle and no more can be made, idle chunks of other parked blocks come: the two
 *    blocks exchange by numbers as well, whose alias mappings, if they lie in one, keep the numbers and get
 *    the other chunk.  The other block will need a chunk then when it comes back.
 *
 * The chunks that come are parked and idle, until the caller takes them back.
 */
#include "internal.h"

#include <string.h>

/* Chunks that get other numbers: COUNT from FROM on those from TO on; BOTH: and the reverse. */
struct change {
    uint32_t from, to, count;
    bool both;
    /* the alias mappings in which the parked blocks lie that have the chunks, or NIL; the first one's place
     */
    uint32_t alias, other;
    uint64_t place;
};

/* ---- which ---- */

static bool is_taken(const struct vs_arena *a, uint32_t chunk)
{
    return is_parked(a, chunk) && a->used[chunk];
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
        while (from < r.count && !is_taken(a, r.first + from))
            from++;
        uint32_t to = from;
        while (to < r.count && is_taken(a, r.first + to))
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

/* Whether the chunk, which is idle, can come into the place of one that the alias mapping (or none) has. */
static bool can_come(const struct vs_arena *a, uint32_t chunk, uint32_t alias)
{
    return is_lent(a, chunk) && !is_parked(a, chunk) && !has_alias(a, chunk, alias);
}

/* The first that can, side by side, MOST at most; none: the count is 0. */
static struct run first_to_come(struct vs_arena *a, uint32_t most, uint32_t alias)
{
    for (struct run r = {0, 0}; (r = vs_chunks_next_idle(a, r.first + r.count, a->primary_slots)).count;)
        for (uint32_t g = r.first, end = r.first + r.count; g < end; g++) {
            uint32_t count = 0;
            while (count < most && g + count < end && can_come(a, g + count, alias))
                count++;
            if (count)
                return (struct run){g, count};
        }
    return (struct run){0};
}

/* The alias mapping in which the block lies that parked the chunk; NIL: it lies in a heap. */
static uint32_t parked_in(const struct vs_arena *a, uint32_t chunk)
{
    return a->extent[vs_extent_at(a, place_of(a, chunk))].state == EXTENT_SHADOW ? vs_parked_alias(a, chunk)
                                                                                 : NIL;
}

/* Whether chunk N of another parked block can come for chunk G of the one with these SLOTS. */
static bool can_exchange(const struct vs_arena *a, uint32_t n, uint32_t g, struct run slots, uint32_t alias)
{
    bool own = n >= slots.first && n < slots.first + slots.count;
    if (own || !is_lent(a, n) || !is_parked(a, n) || has_alias(a, n, alias))
        return false;
    uint32_t other = parked_in(a, n);
    return other == NIL || !has_alias(a, g, other);
}

/* The first that can for those of M, side by side also where their block has them. */
static struct run first_parked(struct vs_arena *a, struct mapping m, struct run slots, uint32_t alias)
{
    for (struct run r = {0, 0}; (r = vs_chunks_next_idle(a, r.first + r.count, a->primary_slots)).count;)
        for (uint32_t n = r.first, end = r.first + r.count; n < end; n++) {
            uint32_t count = 0;
            while (count < m.count && n + count < end &&
                   can_exchange(a, n + count, m.chunk + count, slots, alias) &&
                   (count == 0 || (parked_in(a, n) == NIL && parked_in(a, n + count) == NIL)))
                count++;
            if (count)
                return (struct run){n, count};
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
    const struct vs_backing *b = &a->backing;
    uint64_t address = address_of(a, place), done = 0;
    int status = 0;
    for (uint32_t i = 0; i < count && status == 0; i++) {
        status = b->map(b->context, address + done, a->handle[first + i]);
        done += status == 0 ? chunk_bytes(a) : 0;
    }
    if (status == 0)
        status = b->access(b->context, address, done, a->peers);
    if (status != 0 && done && b->unmap(b->context, address, done) != 0)
        a->stats.lost += count;
    return status;
}

/* What is mapped there is not what should be: the blocks that lie there stay parked for good. */
static void give_up(struct vs_arena *a, uint64_t place, uint32_t count)
{
    uint64_t end = place + place_of(a, count);
    for (uint32_t i = vs_extent_at(a, place); i != NIL && a->extent[i].at < end; i = a->extent[i].next)
        a->extent[i].is_broken = true;
    a->stats.lost += count;
}

/* Other chunks are mapped at PLACE; after an error those that were. */
static int map_others(struct vs_arena *a, uint64_t place, const struct change *c)
{
    int status = unmap(a, place, c->count);
    if (status != 0)
        return status;
    status = map(a, place, c->to, c->count);
    if (status != 0 && map(a, place, c->from, c->count) != 0)
        give_up(a, place, c->count);
    return status;
}

/* Nothing is mapped where the chunks that were to come have their primary mappings. */
static void lose_home(struct vs_arena *a, const struct change *c)
{
    if (is_parked(a, c->to)) {
        give_up(a, place_of(a, c->to), c->count);
        return;
    }
    vs_extent_change(a, c->to, c->count, EXTENT_FREE, VS_ARENA_ANY); /* hidden or not */
    vs_supply_shut_off(a, c->to, c->count);
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
            give_up(a, place, c->count);
    }
    if (status != 0 && map(a, home, c->to, c->count) != 0)
        lose_home(a, c);
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

static void flip_parked(struct vs_arena *a, uint32_t first, uint32_t count)
{
    for (uint32_t g = first; g < first + count; g++)
        a->parked[g >> 6] ^= 1ull << (g & 63);
}

/* Chunks that parked blocks gave up stay hidden: were they free extents when they are idle, the next requests
 * would take those, and what is alive at the next unpark would lie elsewhere again. */
static void hide_all(struct vs_arena *a, uint32_t first, uint32_t count)
{
    for (uint32_t g = first; g < first + count; g++)
        hide(a, g, true);
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
    flip_parked(a, c->from, c->count);
    flip_parked(a, c->to, c->count);
    hide_all(a, c->from, c->count);
    vs_extent_change(a, c->to, c->count, EXTENT_SHADOW, VS_ARENA_ANY);
    a->stats.unmapped += c->count;
    return 0;
}

/* ---- numbers are exchanged ---- */

/* The alias mappings that keep their numbers are not renamed. */
static void keep_numbers(struct vs_arena *a, const struct change *c, bool keep)
{
    if (c->alias != NIL)
        a->alias[c->alias].listed = keep;
    if (c->other != NIL)
        a->alias[c->other].listed = keep;
}

static int list_both(struct vs_arena *a, const struct change *c)
{
    keep_numbers(a, c, true);
    int status = list_all(a, c->from, c->count, c);
    if (status == 0)
        status = list_all(a, c->to, c->count, c);
    keep_numbers(a, c, false);
    return status;
}

static void cancel_exchange(struct vs_arena *a, const struct change *c)
{
    vs_atoms_cancel(a, c->from, c->from + c->count);
    vs_atoms_cancel(a, c->to, c->to + c->count);
    end_list(a, false);
}

static int prepare_exchange(struct vs_arena *a, const struct change *c)
{
    if (vs_extents_reserve(a, a->stats.blocks + 1, a->live_aliases, a->primary_top) != 0 ||
        vs_atoms_split(a, c->from) != 0 || vs_atoms_split(a, c->from + c->count) != 0 ||
        vs_atoms_split(a, c->to) != 0 || vs_atoms_split(a, c->to + c->count) != 0 || list_both(a, c) != 0 ||
        (c->alias != NIL && vs_atoms_prepare(a, c->to, c->to + c->count) != 0) ||
        (c->other != NIL && vs_atoms_prepare(a, c->from, c->from + c->count) != 0)) {
        cancel_exchange(a, c);
        return VS_BACKING_OUT_OF_MEMORY;
    }
    return 0;
}

/* ALIAS, which was to be given up with the numbers from LOST on, keeps those from KEPT on. */
static void keep_alias(struct vs_arena *a, uint32_t alias, uint32_t kept, uint32_t lost, uint32_t count)
{
    if (alias == NIL)
        return;
    vs_atoms_add(a, kept, kept + count, alias);
    vs_atoms_remove(a, lost, lost + count, alias);
}

/* Their last uses, before the one that goes on, are complete, so whose they were need not be exchanged. */
static void exchange_numbers(struct vs_arena *a, const struct change *c)
{
    for (uint32_t g = c->from, n = c->to; g < c->from + c->count; g++, n++) {
        uint64_t handle = a->handle[g];
        a->handle[g] = a->handle[n], a->handle[n] = handle;
        a->used[g] = 0, a->used[n] = 1;
        vs_class_move(a, g, n);
    }
    vs_atoms_exchange(a, c->from, c->to, c->count);
    keep_alias(a, c->alias, c->from, c->to, c->count);
    keep_alias(a, c->other, c->to, c->from, c->count);
    vs_chunks_idle_from(a, c->from);
}

/* What an alias mapping has from PLACE on is another chunk now. */
static int map_anew(struct vs_arena *a, uint64_t place, uint32_t first, uint32_t count)
{
    int status = unmap(a, place, count);
    if (status == 0)
        status = map(a, place, first, count);
    if (status != 0)
        give_up(a, place, count);
    a->stats.unmapped += count;
    return status;
}

static int exchange(struct vs_arena *a, const struct change *c)
{
    int status = prepare_exchange(a, c);
    if (status != 0)
        return status;
    status = map_at_home(a, c);
    if (status != 0) {
        cancel_exchange(a, c);
        return status;
    }
    end_list(a, true);
    exchange_numbers(a, c);
    a->stats.unmapped += 2ull * c->count;
    if (!is_parked(a, c->to)) {
        hide_all(a, c->to, c->count);
        vs_extent_change(a, c->to, c->count, EXTENT_SHADOW, VS_ARENA_ANY);
    }
    if (c->other != NIL) { /* what fails there is that block's */
        const struct alias *v = &a->alias[c->other];
        map_anew(a, a->extent[v->extent].at + place_of(a, vs_alias_position(v, c->to)), c->to, c->count);
    }
    return c->alias != NIL ? map_anew(a, c->place, c->from, c->count) : 0;
}

/* ---- both ---- */

/* What comes for the chunks of M: what is idle, else what is new, else what other parked blocks have. */
static int find(struct vs_arena *a, uint32_t extent, struct mapping m, uint32_t alias, struct run *come)
{
    uint32_t heap = a->extent[extent].queue == VS_ARENA_ANY ? 2 * VS_ARENA_ANY : SHARED;
    *come = first_to_come(a, m.count, alias);
    int status = come->count ? 0 : vs_supply_more(a, heap, m.count);
    if (!come->count && status == 0)
        *come = first_to_come(a, m.count, alias);
    if (!come->count)
        *come = first_parked(a, m, vs_block_slots(a, &a->extent[extent]), alias);
    return come->count ? 0 : status;
}

static int replace(struct vs_arena *a, uint32_t extent, struct mapping m)
{
    bool in_heap = a->extent[extent].state == EXTENT_USED;
    uint32_t alias = in_heap ? NIL : a->extent[extent].alias;
    struct run come;
    int status = find(a, extent, m, alias, &come);
    if (status != 0)
        return status;
    bool parked = is_parked(a, come.first), both = in_heap || parked;
    /* who is alive in a chunk has waited for all that used it before, through whatever mapping */
    if (!are_complete(a, m.chunk, come.count) || (both && !are_complete(a, come.first, come.count)))
        return VS_BACKING_NOT_READY;
    struct change c = {m.chunk, come.first, come.count, both, alias, parked ? parked_in(a, come.first) : NIL,
                       m.place};
    status = both ? exchange(a, &c) : have_others(a, extent, m.place, &c);
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
        status = replace(a, extent, m);
    return status;
}
