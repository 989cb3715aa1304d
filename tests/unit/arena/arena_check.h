/* arena_check.h - the invariants of the arena's books, each counted from scratch. */
#ifndef TESTS_UNIT_ARENA_ARENA_CHECK_H
#define TESTS_UNIT_ARENA_ARENA_CHECK_H

#include "arena_kit.h"

/* Where a chunk is parked that has its primary mapping there lie only parked blocks. */
static void check_parked(const struct vs_arena *a, const struct extent *t)
{
    KIT_CHECK(!t->is_parked || (t->has_left && t->pins == 1));
    for (uint32_t g = slot_of(a, t->at); g <= slot_of(a, t->at + t->size - 1); g++)
        if (is_parked_at_home(a, g))
            KIT_CHECK(t->state == EXTENT_USED && t->is_parked);
}

/* In chunks that are away lie only blocks that left, if the arena is open. */
static void check_away(const struct vs_arena *a, const struct extent *t)
{
    KIT_CHECK(!t->has_left || t->state != EXTENT_USED || (t->pins == 1 && !a->gate.closed));
    if (!a->stats.away || a->gate.closed || t->state == EXTENT_SHADOW)
        return;
    for (uint32_t g = slot_of(a, t->at); g <= slot_of(a, t->at + t->size - 1); g++)
        KIT_CHECK(!is_away(a, g) || (t->state == EXTENT_USED && t->has_left));
}

/* Every extent of a heap adjoins the next, free extents of a kind do not touch, and chunks in free extents
 * are as the free extent says. */
static void check_heap(struct vs_arena *a, uint32_t heap, uint8_t *by_extent)
{
    const struct heap *h = &a->heap[heap];
    uint64_t end = place_of(a, h->first + h->top);
    enum extent_state above = 0;
    uint32_t queue = 0;
    for (uint32_t i = h->top ? h->last : NIL; i != NIL; i = a->extent[i].prev) {
        const struct extent *t = &a->extent[i];
        KIT_CHECK(t->at + t->size == end && t->size > 0 && t->heap == heap);
        bool apart = t->waits && end % chunk_bytes(a) == 0; /* created where the queue could not wait */
        KIT_CHECK(t->state != above || t->state == EXTENT_USED || t->state == EXTENT_ALIAS ||
                  t->queue != queue || (t->state == EXTENT_FREE && apart));
        KIT_CHECK(t->prev == NIL || a->extent[t->prev].next == i);
        KIT_CHECK(vs_extent_at(a, t->at) == i && vs_extent_at(a, end - 1) == i);
        above = t->state;
        queue = t->queue;
        end = t->at;
        if (heap == ALIASES) {
            KIT_CHECK(t->state == EXTENT_ALIAS || t->state == EXTENT_FREE);
            continue;
        }
        uint32_t whole_first = slot_of(a, t->at + chunk_bytes(a) - 1),
                 whole_end = slot_of(a, t->at + t->size);
        KIT_CHECK(t->state == EXTENT_USED || t->state == EXTENT_FREE ||
                  (t->at | t->size) % chunk_bytes(a) == 0);
        check_away(a, t);
        check_parked(a, t);
        if (t->state == EXTENT_USED)
            for (uint32_t g = slot_of(a, t->at); g <= slot_of(a, t->at + t->size - 1); g++)
                by_extent[g] = !is_parked_at_home(a, g);
        if (t->state == EXTENT_FREE && t->at % chunk_bytes(a)) /* partly in another extent */
            by_extent[whole_first - 1] = 1;
        if (t->state == EXTENT_FREE && (t->at + t->size) % chunk_bytes(a))
            by_extent[whole_end] = 1;
        for (uint32_t g = whole_first; t->state != EXTENT_USED && g < whole_end; g++) {
            KIT_CHECK((t->state == EXTENT_VACANT) == (a->used[g] == ABSENT));
            if (t->state == EXTENT_FREE)
                KIT_CHECK(a->used[g] == 0 && !(a->users[g] & ~(t->waits | bit_of(t->queue))));
            if (t->state == EXTENT_FREE && a->users[g] && a->queues > 1)
                KIT_CHECK(a->seq[g] <= t->seq);
            if (t->state == EXTENT_SHADOW)
                KIT_CHECK(a->parked_by[g] || a->used[g] || is_hidden(a, g));
        }
    }
    KIT_CHECK(h->top == 0 || end == place_of(a, h->first));
}

static uint32_t count_tree(const struct vs_arena *a, uint32_t root, enum extent_state state, uint32_t queue)
{
    if (root == NIL)
        return 0;
    const struct extent *t = &a->extent[root];
    KIT_CHECK(t->state == state && t->queue == queue);
    return 1 + count_tree(a, t->left, state, queue) + count_tree(a, t->right, state, queue);
}

static uint32_t count_free_extents(const struct vs_arena *a, const struct free_extents *free_extents,
                                   enum extent_state state, uint32_t queue)
{
    uint32_t count = 0;
    for (unsigned word = 0; word < BIN_WORDS; word++) {
        KIT_CHECK((free_extents->words >> word & 1) == (free_extents->filled[word] != 0));
        for (uint64_t bins = free_extents->filled[word]; bins; bins &= bins - 1) {
            uint32_t root = free_extents->root[word * 64 + (unsigned)__builtin_ctzll(bins)];
            uint32_t found = count_tree(a, root, state, queue);
            KIT_CHECK(found);
            count += found;
        }
    }
    return count;
}

static void check_trees(const struct vs_arena *a, uint32_t heap)
{
    const struct heap *h = &a->heap[heap];
    uint32_t free_extents = 0, vacant = 0;
    if (!h->base) /* it never had any: its pages stay untouched */
        return;
    for (uint32_t i = h->top ? h->last : NIL; i != NIL; i = a->extent[i].prev) {
        free_extents += a->extent[i].state == EXTENT_FREE;
        vacant += a->extent[i].state == EXTENT_VACANT;
    }
    uint32_t found = 0;
    for (uint32_t queue = 0; queue < QUEUES; queue++)
        found += count_free_extents(a, &h->free[queue], EXTENT_FREE, queue);
    KIT_CHECK(found == free_extents &&
              count_free_extents(a, h->vacant, EXTENT_VACANT, VS_ARENA_ANY) == vacant);
}

static bool atom_has(const struct vs_arena *a, uint32_t chunk, uint32_t alias)
{
    const struct atom *x = &a->atom[a->atom_of[chunk]];
    int found = 0;
    KIT_CHECK(a->aliased[chunk >> 6] >> (chunk & 63) & 1);
    KIT_CHECK(chunk >= x->first && chunk < x->first + x->count);
    for (uint32_t i = 0; i < x->used; i++)
        found += x->aliases[i] == alias;
    return found == 1;
}

/* The free extents that are left to a queue are in one list, and no others. */
static void check_list(const struct vs_arena *a)
{
    uint32_t listed = 0, found = 0, newer = NIL;
    for (uint32_t i = a->newest_free_extent; i != NIL; newer = i, i = a->extent[i].older, listed++)
        KIT_CHECK(a->extent[i].state == EXTENT_FREE && a->extent[i].queue && a->extent[i].newer == newer);
    KIT_CHECK(a->oldest_free_extent == newer);
    for (uint32_t h = 0; h < HEAPS && a->queues > 1; h++)
        for (uint32_t i = a->heap[h].top ? a->heap[h].last : NIL; i != NIL; i = a->extent[i].prev)
            found += a->extent[i].state == EXTENT_FREE && a->extent[i].queue;
    KIT_CHECK(listed == found && listed == a->free_extents_listed && a->extents <= a->extent_room);
}

/* Returns how many of its chunks are away. */
static uint32_t check_alias(const struct vs_arena *a, uint32_t alias, uint8_t *by_extent, uint32_t *shown,
                            uint16_t *parked_by)
{
    const struct alias *v = &a->alias[alias];
    const struct alias_class *c = &a->class[v->class];
    uint32_t at = 0, watched = 0, away = 0;
    KIT_CHECK(c->count == v->count && c->aliases[v->index] == alias && a->extent[v->extent].alias == alias);
    KIT_CHECK(a->extent[v->extent].size == place_of(a, v->count) && v->claimed <= v->count);
    for (uint32_t r = 0; r < v->runs; r++)
        for (uint32_t g = v->run[r].first; g < v->run[r].first + v->run[r].count; g++, at++) {
            KIT_CHECK(a->used[g] != ABSENT && atom_has(a, g, alias));
            shown[g]++;
            away += is_away(a, g);
            if (at < v->claimed && a->extent[v->extent].is_parked) {
                parked_by[g]++;
                continue;
            }
            if (at < v->claimed) {
                KIT_CHECK(!by_extent[g] && a->used[g] == 1);
                KIT_CHECK(!is_away(a, g) || a->gate.closed || a->extent[v->extent].has_left);
                by_extent[g] = 2;
                continue;
            }
            watched += a->used[g] == 1 && g == v->watched;
        }
    KIT_CHECK(at == v->count);
    KIT_CHECK(v->open + (v->claimed != 0) + (v->watched != NIL) == 1); /* one of the three */
    KIT_CHECK(watched == (v->watched != NIL)); /* a chunk of it, and one that is in use */
    KIT_CHECK((c->bits[v->index >> 6] >> (v->index & 63) & 1) == v->open);
    return away;
}

static void check_watchers(const struct vs_arena *a)
{
    uint32_t watching = 0, listed = 0;
    for (uint32_t v = 0; v < a->aliases; v++)
        watching += a->alias[v].count && a->alias[v].watched != NIL;
    for (uint32_t h = 0; h < HEAPS; h++)
        for (uint32_t g = a->heap[h].first; g < a->heap[h].first + a->heap[h].top; g++)
            for (uint32_t v = a->watch[g] - 1, before = NIL; v != NIL; before = v, v = a->alias[v].behind) {
                KIT_CHECK(a->alias[v].count && a->alias[v].watched == g && a->alias[v].before == before);
                listed++;
            }
    KIT_CHECK(listed == watching);
}

static bool is_idle_alias(const struct vs_arena *a, const struct alias *v)
{
    bool idle = v->count && !v->claimed;
    for (uint32_t r = 0; idle && r < v->runs; r++)
        for (uint32_t g = v->run[r].first; g < v->run[r].first + v->run[r].count; g++)
            idle = idle && a->used[g] == 0;
    return idle;
}

/* By number of chunks, equal ones by age. */
static bool is_before(const struct vs_arena *a, uint32_t v, uint32_t w)
{
    const struct alias *x = &a->alias[v], *y = &a->alias[w];
    return x->count != y->count ? x->count < y->count : x->index < y->index;
}

/* The first of at least COUNT chunks behind AFTER none of whose chunks is in use, by looking at all of them.
 */
static uint32_t find_by_looking_at_all(const struct vs_arena *a, uint32_t count, uint32_t after)
{
    uint32_t best = NIL;
    for (uint32_t v = 0; v < a->aliases; v++)
        if (a->alias[v].count >= count && (after == NIL || is_before(a, after, v)) &&
            (best == NIL || is_before(a, v, best)) && is_idle_alias(a, &a->alias[v]))
            best = v;
    return best;
}

/* Of a few lengths, others each time: what a search finds out is kept, so that all of them at each check
 * would leave little to be found out by the requests. */
static void check_searches(struct vs_arena *a)
{
    for (uint32_t i = 0; i < 2; i++) {
        uint32_t count = 1 + (uint32_t)(a->seq_now * 7 + i * 13) % 40, after = NIL, found;
        for (uint32_t k = 0; k < 3 && (k == 0 || after != NIL); k++, after = found) {
            uint32_t expected = find_by_looking_at_all(a, count, after);
            found = vs_alias_find(a, count, after);
            KIT_CHECK(found == expected);
        }
    }
}

/* Bytes of living blocks in parked chunks. */
static uint64_t parked_live(const struct vs_arena *a)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; a->cell && i <= a->cell_mask; i++) {
        const struct extent *t = a->cell[i].extent == NIL ? NULL : &a->extent[a->cell[i].extent];
        if (!t || !t->is_parked || t->doomed)
            continue;
        for (uint64_t at = t->at; at < t->at + rounded(t->requested); at += VS_ARENA_UNIT)
            bytes += t->state == EXTENT_ALIAS || is_parked_at_home(a, slot_of(a, at)) ? VS_ARENA_UNIT : 0;
    }
    return bytes;
}

/* A chunk has a handle where it is, and its own unless it is one of a group, which alias mappings leave
 * alone. */
static void check_handles(const struct vs_arena *a, const uint32_t *shown)
{
    uint32_t grouped = 0;
    for (uint32_t h = 0; h < HEAPS; h++)
        for (uint32_t g = a->heap[h].first, n; g < a->heap[h].first + a->heap[h].top; g += n) {
            n = vs_group(a, g).count;
            KIT_CHECK((a->handle[g] != 0) == (a->used[g] != ABSENT && !is_away(a, g)));
            KIT_CHECK(n <= GROUP && g + n <= a->heap[h].first + a->heap[h].top);
            for (uint32_t i = 0; i < n && n > 1; i++)
                KIT_CHECK(!shown[g + i] && a->used[g + i] != ABSENT && !is_away(a, g + i));
            grouped += n > 1 ? n : 0;
        }
    KIT_CHECK(a->grouped == grouped);
}

static inline void arena_check(struct vs_arena *a)
{
    uint8_t *by_extent = calloc(a->primary_slots, 1);
    uint16_t *parked_by = calloc(a->primary_slots, sizeof *parked_by);
    uint32_t *shown = calloc(a->primary_slots, sizeof *shown), aliases = 0;
    uint64_t chunks = 0, idle = 0, mapped = 0, away = 0, away_mapped = 0, parked = 0, hidden = 0;
    for (uint32_t h = 0; h <= HEAPS; h++) {
        check_heap(a, h, by_extent);
        check_trees(a, h);
    }
    for (uint32_t v = 0; v < a->aliases; v++)
        if (a->alias[v].count) {
            away_mapped += check_alias(a, v, by_extent, shown, parked_by);
            mapped += a->alias[v].count;
            aliases++;
        }
    for (uint32_t h = 0; h < HEAPS; h++)
        for (uint32_t g = a->heap[h].first; g < a->heap[h].first + a->heap[h].top; g++) {
            KIT_CHECK((a->used[g] == 1) == (by_extent[g] != 0));
            KIT_CHECK(a->used[g] || g >= a->first_idle);
            KIT_CHECK((a->aliased[g >> 6] >> (g & 63) & 1) == (shown[g] > 0));
            KIT_CHECK(!shown[g] || a->atom[a->atom_of[g]].used == shown[g]);
            chunks += a->used[g] != ABSENT;
            idle += a->used[g] == 0;
            KIT_CHECK(!is_away(a, g) || a->used[g] == 1 || (a->used[g] == 0 && a->gate.closed));
            away += is_away(a, g);
            KIT_CHECK(!is_parked(a, g) || (a->used[g] != ABSENT && !is_away(a, g)));
            KIT_CHECK(a->parked_by[g] == parked_by[g]);
            parked += (uint64_t)is_parked_at_home(a, g) + parked_by[g];
            hidden += is_hidden(a, g);
            KIT_CHECK(!is_hidden(a, g) || a->used[g] != ABSENT);
        }
    KIT_CHECK(a->hiddens == hidden);
    KIT_CHECK(a->stats.parked == parked * chunk_bytes(a) && a->parked_live == parked_live(a));
    KIT_CHECK(a->stats.away == away * chunk_bytes(a) && a->away_mappings == away + away_mapped);
    KIT_CHECK(held(a) == chunks * chunk_bytes(a) && vs_arena_idle(a) == idle * chunk_bytes(a) &&
              a->live_aliases == aliases);
    KIT_CHECK(a->stats.mappings + a->away_mappings == chunks + mapped);
    check_handles(a, shown);
    check_list(a);
    check_watchers(a);
    check_searches(a);
    free(by_extent);
    free(parked_by);
    free(shown);
}

#endif
