/*
 * arena_check.h - the invariants of the arena's books, each counted from scratch.
 */
#ifndef TESTS_UNIT_ARENA_ARENA_CHECK_H
#define TESTS_UNIT_ARENA_ARENA_CHECK_H

#include "arena_kit.h"

/* Every tile of a heap adjoins the next, holes of a kind do not touch, and granules in holes are as the hole
 * says. */
static void check_heap(struct vs_arena *a, uint32_t heap, uint8_t *by_tile)
{
    const struct heap *h = &a->heap[heap];
    uint64_t end = place_of(a, h->first + h->top);
    enum tile_state above = 0;
    uint32_t lane = 0;
    for (uint32_t i = h->top ? h->last : NIL; i != NIL; i = a->tile[i].prev) {
        const struct tile *t = &a->tile[i];
        KIT_CHECK(t->at + t->size == end && t->size > 0 && t->heap == heap);
        bool apart = t->waits && end % granule_bytes(a) == 0; /* created where the lane could not wait */
        KIT_CHECK(t->state != above || t->state == TILE_USED || t->state == TILE_VIEW || t->lane != lane ||
                  (t->state == TILE_FREE && apart));
        KIT_CHECK(t->prev == NIL || a->tile[t->prev].next == i);
        KIT_CHECK(vs_tile_at(a, t->at) == i && vs_tile_at(a, end - 1) == i);
        above = t->state;
        lane = t->lane;
        end = t->at;
        if (heap == ALIASES) {
            KIT_CHECK(t->state == TILE_VIEW || t->state == TILE_FREE);
            continue;
        }
        uint32_t whole_first = slot_of(a, t->at + granule_bytes(a) - 1),
                 whole_end = slot_of(a, t->at + t->size);
        KIT_CHECK(t->state == TILE_USED || t->state == TILE_FREE ||
                  (t->at | t->size) % granule_bytes(a) == 0);
        if (t->state == TILE_USED)
            for (uint32_t g = slot_of(a, t->at); g <= slot_of(a, t->at + t->size - 1); g++)
                by_tile[g] = 1;
        if (t->state == TILE_FREE && t->at % granule_bytes(a)) /* partly in another tile */
            by_tile[whole_first - 1] = 1;
        if (t->state == TILE_FREE && (t->at + t->size) % granule_bytes(a))
            by_tile[whole_end] = 1;
        for (uint32_t g = whole_first; t->state != TILE_USED && g < whole_end; g++) {
            KIT_CHECK((t->state == TILE_VACANT) == (a->used[g] == ABSENT));
            if (t->state == TILE_FREE)
                KIT_CHECK(a->used[g] == 0 && !(a->users[g] & ~(t->waits | bit_of(t->lane))));
            if (t->state == TILE_FREE && a->users[g] && a->lanes > 1)
                KIT_CHECK(a->seq[g] <= t->seq);
            if (t->state == TILE_SHADOW)
                KIT_CHECK(a->used[g] == 1);
        }
    }
    KIT_CHECK(h->top == 0 || end == place_of(a, h->first));
}

static uint32_t count_tree(const struct vs_arena *a, uint32_t root, enum tile_state state, uint32_t lane)
{
    if (root == NIL)
        return 0;
    const struct tile *t = &a->tile[root];
    KIT_CHECK(t->state == state && t->lane == lane);
    return 1 + count_tree(a, t->left, state, lane) + count_tree(a, t->right, state, lane);
}

static uint32_t count_holes(const struct vs_arena *a, const struct holes *holes, enum tile_state state,
                            uint32_t lane)
{
    uint32_t count = 0;
    for (uint64_t bins = holes->filled; bins; bins &= bins - 1) {
        uint32_t found = count_tree(a, holes->root[__builtin_ctzll(bins)], state, lane);
        KIT_CHECK(found);
        count += found;
    }
    return count;
}

static void check_trees(const struct vs_arena *a, uint32_t heap)
{
    const struct heap *h = &a->heap[heap];
    uint32_t holes = 0, vacant = 0;
    if (!h->base) /* it never had any: its pages stay untouched */
        return;
    for (uint32_t i = h->top ? h->last : NIL; i != NIL; i = a->tile[i].prev) {
        holes += a->tile[i].state == TILE_FREE;
        vacant += a->tile[i].state == TILE_VACANT;
    }
    uint32_t found = 0;
    for (uint32_t lane = 0; lane < LANES; lane++)
        found += count_holes(a, &h->free[lane], TILE_FREE, lane);
    KIT_CHECK(found == holes && count_holes(a, h->vacant, TILE_VACANT, VS_ARENA_ANY) == vacant);
}

static bool atom_has(const struct vs_arena *a, uint32_t granule, uint32_t view)
{
    const struct atom *x = &a->atom[a->atom_of[granule]];
    int found = 0;
    KIT_CHECK(a->aliased[granule >> 6] >> (granule & 63) & 1);
    KIT_CHECK(granule >= x->first && granule < x->first + x->count);
    for (uint32_t i = 0; i < x->used; i++)
        found += x->views[i] == view;
    return found == 1;
}

/* The holes that are left to a lane are in one list, and no others. */
static void check_list(const struct vs_arena *a)
{
    uint32_t listed = 0, found = 0, newer = NIL;
    for (uint32_t i = a->newest_hole; i != NIL; newer = i, i = a->tile[i].older, listed++)
        KIT_CHECK(a->tile[i].state == TILE_FREE && a->tile[i].lane && a->tile[i].newer == newer);
    KIT_CHECK(a->oldest_hole == newer);
    for (uint32_t h = 0; h < HEAPS && a->lanes > 1; h++)
        for (uint32_t i = a->heap[h].top ? a->heap[h].last : NIL; i != NIL; i = a->tile[i].prev)
            found += a->tile[i].state == TILE_FREE && a->tile[i].lane;
    KIT_CHECK(listed == found && listed == a->holes_listed && a->tiles <= a->tile_room);
}

static void check_view(const struct vs_arena *a, uint32_t view, uint8_t *by_tile, uint32_t *aliases)
{
    const struct view *v = &a->view[view];
    const struct view_class *c = &a->class[v->class];
    uint32_t busy = 0, at = 0;
    KIT_CHECK(c->count == v->count && c->views[v->index] == view && a->tile[v->tile].view == view);
    KIT_CHECK(a->tile[v->tile].size == place_of(a, v->count) && v->claimed <= v->count);
    for (uint32_t r = 0; r < v->runs; r++)
        for (uint32_t g = v->run[r].first; g < v->run[r].first + v->run[r].count; g++, at++) {
            KIT_CHECK(a->used[g] != ABSENT && atom_has(a, g, view));
            aliases[g]++;
            if (at < v->claimed) {
                KIT_CHECK(!by_tile[g] && a->used[g] == 1);
                by_tile[g] = 2;
                continue;
            }
            busy += a->used[g] == 1;
        }
    KIT_CHECK(at == v->count && busy == v->busy);
    KIT_CHECK(v->open == (!v->claimed && !v->busy));
    KIT_CHECK((c->bits[v->index >> 6] >> (v->index & 63) & 1) == v->open);
}

static void arena_check(struct vs_arena *a)
{
    uint8_t *by_tile = calloc(a->home_slots, 1);
    uint32_t *aliases = calloc(a->home_slots, sizeof *aliases), views = 0;
    uint64_t held = 0, idle = 0, mapped = 0;
    for (uint32_t h = 0; h <= HEAPS; h++) {
        check_heap(a, h, by_tile);
        check_trees(a, h);
    }
    for (uint32_t v = 0; v < a->views; v++)
        if (a->view[v].count) {
            check_view(a, v, by_tile, aliases);
            mapped += a->view[v].count;
            views++;
        }
    for (uint32_t h = 0; h < HEAPS; h++)
        for (uint32_t g = a->heap[h].first; g < a->heap[h].first + a->heap[h].top; g++) {
            KIT_CHECK((a->used[g] == 1) == (by_tile[g] != 0));
            KIT_CHECK((a->aliased[g >> 6] >> (g & 63) & 1) == (aliases[g] > 0));
            KIT_CHECK(!aliases[g] || a->atom[a->atom_of[g]].used == aliases[g]);
            held += a->used[g] != ABSENT;
            idle += a->used[g] == 0;
        }
    KIT_CHECK(a->stats.reserved == held * granule_bytes(a) && a->idle == idle && a->live_views == views);
    KIT_CHECK(a->stats.mappings == held + mapped);
    check_list(a);
    free(by_tile);
    free(aliases);
}

#endif
