/*
 * aliases.c - second mappings of chunks, and the blocks in them.
 *
 * An alias mapping is a range of addresses where chunks of any heaps are mapped side by side, once more.  Its
 * block takes the first chunks that it needs, which are shadows in the heaps of their primary mappings while
 * it is live.
 */
#include "internal.h"

/* ---- idle alias mappings, by last use ---- */

void vs_alias_idle_add(struct vs_arena *a, uint32_t alias)
{
    struct alias *v = &a->alias[alias];
    v->older = a->youngest_idle;
    v->younger = NIL;
    if (v->older != NIL)
        a->alias[v->older].younger = alias;
    else
        a->oldest_idle = alias;
    a->youngest_idle = alias;
}

void vs_alias_idle_remove(struct vs_arena *a, uint32_t alias)
{
    const struct alias *v = &a->alias[alias];
    if (v->older != NIL)
        a->alias[v->older].younger = v->younger;
    else
        a->oldest_idle = v->younger;
    if (v->younger != NIL)
        a->alias[v->younger].older = v->older;
    else
        a->youngest_idle = v->older;
}

/* ---- its chunks ---- */

uint32_t vs_alias_position(const struct alias *v, uint32_t chunk)
{
    uint32_t before = 0;
    for (const struct run *r = v->run;; before += r->count, r++)
        if (chunk >= r->first && chunk < r->first + r->count)
            return before + chunk - r->first;
}

struct run vs_chunks_mapped_at(const struct vs_arena *a, uint32_t slot, uint32_t most)
{
    if (slot < a->primary_slots)
        return (struct run){slot, most};
    const struct extent *t = &a->extent[vs_extent_at(a, place_of(a, slot))];
    const struct run *r = a->alias[t->alias].run;
    uint32_t before = slot - slot_of(a, t->at);
    for (; before >= r->count; r++)
        before -= r->count;
    uint32_t count = r->count - before;
    return (struct run){r->first + before, count < most ? count : most};
}

/* ---- the block in an alias mapping ---- */

/* Whether the heap of the chunk shows its use.  What a block parked at home or is hidden it shows as in use
 * all the time; and what other parked blocks have, too, once an alias mapping has had it. */
static bool is_shown(const struct vs_arena *a, uint32_t chunk, enum extent_state state)
{
    if (is_parked_at_home(a, chunk) || is_hidden(a, chunk))
        return false;
    return !a->parked_by[chunk] ||
           (state == EXTENT_SHADOW && a->extent[vs_extent_at(a, place_of(a, chunk))].state == EXTENT_FREE);
}

static void show(struct vs_arena *a, struct run r, enum extent_state state, uint32_t queue)
{
    bool all = !a->stats.parked && !a->hiddens;
    for (uint32_t n = r.count; r.count; r.first += n, r.count -= n, n = r.count) {
        bool shown = all || is_shown(a, r.first, state);
        for (uint32_t i = 1; !all && i < n; i++)
            if (is_shown(a, r.first + i, state) != shown)
                n = i;
        if (shown)
            vs_extent_change(a, r.first, n, state, queue);
    }
}

void vs_alias_show(struct vs_arena *a, uint32_t chunk)
{
    if (a->extent[vs_extent_at(a, place_of(a, chunk))].state == EXTENT_FREE)
        vs_extent_change(a, chunk, 1, EXTENT_SHADOW, VS_ARENA_ANY);
}

void vs_show_hidden(struct vs_arena *a, uint32_t heap, uint32_t count)
{
    for (uint32_t h = heap; h < heap + count && a->hiddens; h++)
        for (uint32_t g = a->heap[h].first; g < a->heap[h].first + a->heap[h].top; g++) {
            if (!is_hidden(a, g))
                continue;
            hide(a, g, false);
            /* the last use was that of one queue, in an alias mapping */
            if (!a->used[g] && !is_parked(a, g))
                vs_extent_change(a, g, 1, EXTENT_FREE,
                                 a->users[g] ? (uint32_t)__builtin_ctz(a->users[g]) : VS_ARENA_ANY);
        }
}

uint32_t vs_alias_claim(struct vs_arena *a, uint32_t alias, uint32_t queue, uint64_t size)
{
    struct alias *v = &a->alias[alias];
    uint32_t left = chunks_for(a, size);
    vs_alias_idle_remove(a, alias);
    v->claimed = left;
    v->queue = (uint8_t)queue;
    a->extent[v->extent].queue = (uint8_t)queue;
    vs_class_flip(a, &a->alias[alias]);
    for (const struct run *r = v->run; left; r++) {
        uint32_t n = r->count < left ? r->count : left;
        show(a, (struct run){r->first, n}, EXTENT_SHADOW, VS_ARENA_ANY);
        vs_chunks_claim(a, r->first, r->first + n);
        left -= n;
    }
    return v->extent;
}

void vs_alias_release(struct vs_arena *a, uint32_t alias)
{
    struct alias *v = &a->alias[alias];
    uint32_t left = v->claimed, queue = v->queue;
    for (const struct run *r = v->run; left; r++) {
        uint32_t n = r->count < left ? r->count : left;
        vs_chunks_release(a, r->first, r->first + n, users_of(queue), a->seq_now);
        show(a, (struct run){r->first, n}, EXTENT_FREE, queue);
        left -= n;
    }
    v->claimed = 0;
    v->users |= users_of(queue);
    v->last_free = a->seq_now;
    vs_alias_idle_add(a, alias);
    vs_class_flip(a, &a->alias[alias]);
}

/* ---- removing ---- */

bool vs_alias_complete(struct vs_arena *a, struct alias *v)
{
    for (uint32_t rest = v->users; rest;)
        if (!is_done(&a->queue[next_bit(&rest)], v->last_free))
            return false;
    v->users = 0;
    return true;
}

/* The runs beyond the first KEEP chunks leave the alias mapping. */
static void shorten_runs(struct vs_arena *a, uint32_t alias, uint32_t keep)
{
    struct alias *v = &a->alias[alias];
    uint32_t runs = 0, before = 0;
    for (uint32_t i = 0; i < v->runs; i++) {
        struct run *r = &v->run[i];
        uint32_t stays = before >= keep ? 0 : keep - before < r->count ? keep - before : r->count;
        before += r->count;
        if (stays < r->count)
            vs_atoms_remove(a, r->first + stays, r->first + r->count, alias);
        r->count = stays;
        runs += stays > 0;
    }
    v->runs = runs;
}

static void remove_alias(struct vs_arena *a, uint32_t alias)
{
    struct alias *v = &a->alias[alias];
    vs_alias_idle_remove(a, alias);
    a->extent[v->extent].alias = NIL;
    a->extent[v->extent].queue = VS_ARENA_ANY;
    vs_extent_give(a, v->extent, EXTENT_FREE);
    vs_meta_give(&a->meta, v->run, v->run_room * sizeof *v->run);
    *v = (struct alias){.older = a->spare_aliases};
    a->spare_aliases = alias;
    a->live_aliases--;
}

/* An alias mapping ends where atoms end: the atom in which it is to end is split first. */
static int split_at(struct vs_arena *a, const struct alias *v, uint32_t keep)
{
    for (const struct run *r = v->run; keep; keep -= r->count, r++)
        if (keep < r->count)
            return vs_atoms_split(a, r->first + keep);
    return 0;
}

/* AWAY: what goes is not mapped. */
static int shorten(struct vs_arena *a, uint32_t alias, uint32_t keep, bool away)
{
    struct alias *v = &a->alias[alias];
    uint32_t gone = v->count - keep, class = 0;
    uint64_t place = a->extent[v->extent].at + place_of(a, keep);
    if (keep && (split_at(a, v, keep) != 0 || vs_class_join(a, keep, &class) != 0))
        return VS_BACKING_OUT_OF_MEMORY;
    v = &a->alias[alias];
    int status = away ? 0 : a->backing.unmap(a->backing.context, address_of(a, place), place_of(a, gone));
    if (status != 0)
        return status;
    vs_class_remove(a, alias);
    shorten_runs(a, alias, keep);
    a->stats.unmapped += away ? 0 : gone;
    *(away ? &a->away_mappings : &a->stats.mappings) -= gone;
    if (keep) {
        vs_class_add(a, class, alias);
        v->count = keep;
        uint32_t rest = vs_extent_cut(a, v->extent, place);
        a->extent[rest].queue = VS_ARENA_ANY;
        vs_extent_give(a, rest, EXTENT_FREE);
        if (!v->claimed)
            vs_class_flip(a, &a->alias[alias]);
    } else {
        a->stats.evicted++;
        remove_alias(a, alias);
    }
    return 0;
}

/* The first position from KEEP on behind which, up to the end, all chunks are away, as *AWAY says, or none.
 */
static uint32_t end_alike(const struct vs_arena *a, const struct alias *v, uint32_t keep, bool *away)
{
    uint32_t at = v->count;
    *away = false;
    for (const struct run *r = v->run + v->runs; a->stats.away && r-- > v->run;)
        for (uint32_t g = r->first + r->count; g-- > r->first && at > keep; at--) {
            if (at == v->count)
                *away = is_away(a, g);
            else if (is_away(a, g) != *away)
                return at;
        }
    return keep;
}

int vs_alias_shorten(struct vs_arena *a, uint32_t alias, uint32_t keep)
{
    int status = 0;
    while (a->alias[alias].count > keep && status == 0) { /* once, where nothing is away */
        bool away;
        uint32_t from = end_alike(a, &a->alias[alias], keep, &away);
        status = shorten(a, alias, from, away);
    }
    return status;
}
