/*
 * sending.c - sends chunks away and fetches them again, with every mapping of theirs.
 *
 * A chunk that is away keeps its slot, its extents and its place in alias mappings, but it has no handle, and
 * nothing is mapped where it was.  All its mappings are listed before the first of them changes.  Then the
 * list is unmapped, or mapped; where a call fails, what was done up to there is undone.
 *
 * Alias mappings in which nothing lives are a cache.  Those that have a chunk which is sent are removed,
 * where that is possible, so that they are not mapped anew each time it is fetched.
 */
#include "internal.h"

/* ---- slots ---- */

/* Of the slots from SLOT to END the first that have chunks which are AWAY, or not, side by side also where
 * their primary mappings are.  None: the count is 0. */
static struct mapping next_part(const struct vs_arena *a, uint32_t slot, uint32_t end, bool away)
{
    for (struct run r; slot < end; slot += r.count) {
        r = vs_chunks_mapped_at(a, slot, end - slot);
        uint32_t from = 0;
        while (from < r.count && is_away(a, r.first + from) != away)
            from++;
        uint32_t to = from;
        while (to < r.count && is_away(a, r.first + to) == away)
            to++;
        if (from < to)
            return (struct mapping){place_of(a, slot + from), r.first + from, to - from};
    }
    return (struct mapping){0};
}

struct run vs_slots_mapped(const struct vs_arena *a, uint32_t slot, uint32_t end)
{
    if (!a->stats.away)
        return (struct run){slot, end - slot};
    struct mapping m = next_part(a, slot, end, false);
    return (struct run){slot_of(a, m.place), m.count};
}

bool vs_slots_away(const struct vs_arena *a, struct run slots)
{
    return a->stats.away && next_part(a, slots.first, slots.first + slots.count, true).count;
}

/* ---- the list of mappings ---- */

static int list(struct vs_arena *a, uint64_t place, uint32_t chunk, uint32_t count)
{
    if (vs_meta_fit(&a->meta, (void **)&a->mapping, &a->mapping_room, sizeof *a->mapping, a->mappings + 1) !=
        0)
        return VS_BACKING_OUT_OF_MEMORY;
    a->mapping[a->mappings++] = (struct mapping){place, chunk, count};
    return 0;
}

/* The mappings at the slots themselves, of the chunks that are AWAY, or not: each chunk once. */
static int list_slots(struct vs_arena *a, struct run slots, bool away)
{
    int status = 0;
    a->mappings = 0;
    for (uint32_t slot = slots.first, end = slot + slots.count; status == 0;) {
        struct mapping m = next_part(a, slot, end, away);
        if (!m.count)
            break;
        status = list(a, m.place, m.chunk, m.count);
        slot = slot_of(a, m.place) + m.count;
    }
    return status;
}

/* What these chunks are mapped at by alias mappings other than OWN. */
static int list_aliases(struct vs_arena *a, struct run chunks, uint32_t own)
{
    uint32_t end = chunks.first + chunks.count;
    int status = 0;
    for (uint32_t g = vs_atoms_next(a, chunks.first, end), next; g < end; g = vs_atoms_next(a, next, end)) {
        const struct atom *x = &a->atom[a->atom_of[g]];
        next = x->first + x->count < end ? x->first + x->count : end;
        for (uint32_t i = 0; i < x->used && status == 0; i++) {
            const struct alias *v = &a->alias[x->aliases[i]];
            if (x->aliases[i] != own)
                status = list(a, a->extent[v->extent].at + place_of(a, vs_alias_position(v, g)), g, next - g);
        }
    }
    return status;
}

/* Adds what else the chunks of the first COUNT mappings of the list are mapped at.  OWN: the alias mapping in
 * which those are, or NIL. */
static int list_others(struct vs_arena *a, uint32_t count, uint32_t own)
{
    int status = 0;
    for (uint32_t i = 0; i < count && status == 0; i++) {
        struct mapping m = a->mapping[i];
        if (own != NIL)
            status = list(a, place_of(a, m.chunk), m.chunk, m.count);
        if (status == 0)
            status = list_aliases(a, (struct run){m.chunk, m.count}, own);
    }
    return status;
}

/* Behind mapping I of the list: the first that does not lie at the addresses behind the one before it.  What
 * lies side by side takes one call. */
static uint32_t end_of_side_by_side(const struct vs_arena *a, uint32_t i)
{
    for (const struct mapping *m = &a->mapping[i++]; i < a->mappings; i++, m++)
        if (m[1].place != m->place + place_of(a, m->count) ||
            window_of(a, slot_of(a, m[1].place)) != window_of(a, slot_of(a, m->place)))
            break;
    return i;
}

static uint64_t count_mapped(const struct vs_arena *a, uint32_t from, uint32_t to)
{
    uint64_t count = 0;
    for (uint32_t i = from; i < to; i++)
        count += a->mapping[i].count;
    return count;
}

/* ---- mapping and unmapping what the list has ---- */

/* Side by side: mappings FROM to TO of the list. */
static int unmap(struct vs_arena *a, uint32_t from, uint32_t to)
{
    return a->backing.unmap(a->backing.context, address_of(a, a->mapping[from].place),
                            count_mapped(a, from, to) << a->shift);
}

static int map(struct vs_arena *a, uint32_t from, uint32_t to)
{
    uint64_t place = a->mapping[from].place, done = 0;
    int status = 0;
    for (const struct mapping *m = a->mapping + from; m < a->mapping + to && status == 0; m++)
        status = vs_handles_map(a, place, (struct run){m->chunk, m->count}, &done);
    status = vs_handles_mapped(a, place, status, &done);
    a->stats.lost += status != 0 ? done >> a->shift : 0;
    return status;
}

typedef int part(struct vs_arena *a, uint32_t from, uint32_t to);

/* Calls PERFORM for the whole list; where one fails, UNDO for those before it, and what cannot be undone is
 * counted as lost. */
static int all_or_none(struct vs_arena *a, part *perform, part *undo)
{
    int status = 0;
    uint32_t done = 0;
    for (uint32_t to; done < a->mappings; done = to) {
        to = end_of_side_by_side(a, done);
        status = perform(a, done, to);
        if (status != 0)
            break;
    }
    for (uint32_t from = 0, to; status != 0 && from < done; from = to) {
        to = end_of_side_by_side(a, from);
        if (undo(a, from, to) != 0) /* memory without these addresses, or addresses that keep it */
            a->stats.lost += count_mapped(a, from, to);
    }
    return status;
}

/* ---- handles ---- */

/* Of the first MOST chunks that the first COUNT mappings of the list have. */
static void release(struct vs_arena *a, uint32_t count, uint64_t most)
{
    for (const struct mapping *m = a->mapping; m < a->mapping + count && most; m++) {
        uint32_t some = m->count < most ? m->count : (uint32_t)most;
        a->stats.released += vs_handles_release(a, (struct run){m->chunk, some});
        most -= some;
    }
}

/* Those of the chunks from CHUNK to END, all of which are away, that come as a group.  It lies in one block,
 * so that all of it is idle once that is freed. */
static struct run next_group(const struct vs_arena *a, uint32_t chunk, uint32_t end)
{
    const struct extent *t = &a->extent[vs_extent_at(a, place_of(a, chunk))];
    uint32_t whole = slot_of(a, t->at + t->size);
    end = whole < end ? whole : end;
    uint32_t most = a->config.single ? 1 : GROUP;
    end = chunk + most < end ? chunk + most : end;
    end = chunk < end ? vs_atoms_next(a, chunk, end) : end;
    return (struct run){chunk, chunk < end ? end - chunk : 1};
}

static int create(struct vs_arena *a, uint32_t count)
{
    uint64_t made = 0;
    int status = 0;
    for (const struct mapping *m = a->mapping; m < a->mapping + count && status == 0; m++)
        for (uint32_t g = m->chunk, end = g + m->count; g < end && status == 0;) {
            struct run group = next_group(a, g, end);
            status = vs_handle_create(a, group);
            made += status == 0 ? group.count : 0;
            g += group.count;
        }
    a->stats.created += made;
    if (status != 0)
        release(a, count, made);
    return status;
}

/* The chunks of the first COUNT mappings of the list go, or come back. */
static void flip(struct vs_arena *a, uint32_t count)
{
    for (const struct mapping *m = a->mapping; m < a->mapping + count; m++)
        for (uint32_t g = m->chunk; g < m->chunk + m->count; g++)
            a->away[g >> 6] ^= 1ull << (g & 63);
}

/* ---- sending ---- */

/* An alias mapping other than OWN of which only a part that nothing lives in has the chunk, and whose work is
 * done. */
static uint32_t unneeded(struct vs_arena *a, uint32_t chunk, uint32_t own)
{
    const struct atom *x = &a->atom[a->atom_of[chunk]];
    for (uint32_t i = 0; i < x->used; i++) {
        struct alias *v = &a->alias[x->aliases[i]];
        if (x->aliases[i] != own && vs_alias_position(v, chunk) >= v->claimed && vs_alias_complete(a, v))
            return x->aliases[i];
    }
    return NIL;
}

static void remove_unneeded(struct vs_arena *a, struct run chunks, uint32_t own)
{
    uint32_t end = chunks.first + chunks.count;
    for (uint32_t g = vs_atoms_next(a, chunks.first, end); g < end; g = vs_atoms_next(a, g, end)) {
        uint32_t alias = unneeded(a, g, own);
        if (alias == NIL || vs_alias_shorten(a, alias, a->alias[alias].claimed) != 0)
            g++; /* what stays is mapped again */
    }
}

static uint32_t alias_at(const struct vs_arena *a, uint32_t slot)
{
    return slot < a->primary_slots ? NIL : a->extent[vs_extent_at(a, place_of(a, slot))].alias;
}

int vs_send_slots(struct vs_arena *a, struct run slots)
{
    struct vs_arena_stats *s = &a->stats;
    uint32_t own = alias_at(a, slots.first);
    int status = list_slots(a, slots, false);
    uint32_t count = a->mappings;
    for (uint32_t i = 0; i < count && status == 0; i++)
        remove_unneeded(a, (struct run){a->mapping[i].chunk, a->mapping[i].count}, own);
    if (status == 0)
        status = list_others(a, count, own);
    if (status == 0)
        status = all_or_none(a, unmap, map);
    if (status != 0 || !count)
        return status;
    uint64_t chunks = count_mapped(a, 0, count), mapped = count_mapped(a, 0, a->mappings);
    release(a, count, chunks);
    flip(a, count);
    s->unmapped += mapped;
    s->mappings -= mapped;
    a->away_mappings += mapped;
    s->away += chunks << a->shift;
    s->reserved -= chunks << a->shift;
    vs_reserved_changed(a);
    return 0;
}

/* ---- fetching ---- */

static int fetch(struct vs_arena *a, struct run slots)
{
    int status = list_slots(a, slots, true);
    uint32_t count = a->mappings;
    if (status == 0)
        status = list_others(a, count, alias_at(a, slots.first));
    if (status != 0 || !count)
        return status;
    uint64_t chunks = count_mapped(a, 0, count), mapped = count_mapped(a, 0, a->mappings);
    if (!vs_supply_has_room(a, (uint32_t)chunks, 0))
        return VS_BACKING_OUT_OF_MEMORY;
    status = create(a, count);
    if (status == 0 && (status = all_or_none(a, map, unmap)) != 0)
        release(a, count, chunks);
    if (status != 0)
        return status;
    flip(a, count);
    a->away_mappings -= mapped;
    a->stats.away -= chunks << a->shift;
    vs_supply_count(a, chunks, mapped);
    return 0;
}

int vs_fetch_slots(struct vs_arena *a, struct run slots)
{
    int status = fetch(a, slots);
    if (status != VS_BACKING_OUT_OF_MEMORY || !a->idle || a->gate.closed)
        return status;
    vs_supply_give_back(a, 0); /* as for a request: what is idle goes first */
    return fetch(a, slots);
}
