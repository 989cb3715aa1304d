/*
 * away_kit.h - sends and fetches over the kit, as their caller does: what stands in chunks that go is kept,
 * and put back when they come.
 *
 * After each it is looked at what is mapped: of what is away nothing, of all else each chunk wherever it
 * belongs, with access.
 */
#ifndef TESTS_UNIT_ARENA_AWAY_KIT_H
#define TESTS_UNIT_ARENA_AWAY_KIT_H

#include "arena_check.h"

static inline void kit_check_slot(const struct kit *k, uint32_t slot, uint32_t chunk)
{
    uint64_t p = kit_place(address_of(k->arena, place_of(k->arena, slot)));
    if (is_away(k->arena, chunk)) {
        KIT_CHECK(!k->place[p].handle);
        return;
    }
    KIT_CHECK(k->place[p].handle == k->arena->handle[chunk] && k->place[p].access);
    KIT_CHECK(k->place[p].peers == k->arena->peers || k->faults_seen);
}

/* Each chunk is mapped where the books say, and nowhere else. */
static inline void kit_check_mapped(const struct kit *k)
{
    const struct vs_arena *a = k->arena;
    uint64_t mapped = 0;
    if (k->unmap_failed ||
        a->stats.lost) /* then something may stay where nothing should be, or the reverse */
        return;
    for (uint32_t h = 0; h < HEAPS; h++)
        for (uint32_t g = a->heap[h].first; g < a->heap[h].first + a->heap[h].top; g++)
            if (a->used[g] != ABSENT)
                kit_check_slot(k, g, g);
    for (uint32_t v = 0; v < a->aliases; v++)
        for (uint32_t i = 0; i < a->alias[v].count; i++) {
            uint32_t slot = slot_of(a, a->extent[a->alias[v].extent].at) + i;
            kit_check_slot(k, slot, vs_chunks_mapped_at(a, slot, 1).first);
        }
    for (uint32_t h = 0; h < KIT_HANDLES; h++)
        mapped += (uint64_t)k->handle[h].maps * k->handle[h].chunks;
    KIT_CHECK(mapped == a->stats.mappings);
}

/* Of the chunk at an address, where it is mapped there. */
static inline struct kit_unit *kit_units(struct kit *k, uint64_t address)
{
    uint64_t p = kit_place(address);
    return k->place[p].handle ? k->handle[k->place[p].handle - 1].unit[k->place[p].chunk] : NULL;
}

static inline void kit_put_back(struct kit *k, uint64_t address)
{
    struct kit_unit *units = kit_units(k, address);
    if (units)
        memcpy(units, k->kept[kit_chunk(k, address)], sizeof *k->kept);
}

static inline int kit_send(struct kit *k, struct vs_arena_run run)
{
    struct vs_arena *a = k->arena;
    uint64_t away = a->stats.away, changes = vs_arena_changes(a), end = run.address + run.size;
    if (k->kept_room < a->primary_slots)
        k->kept = realloc(k->kept, (k->kept_room = a->primary_slots) * sizeof *k->kept);
    for (uint64_t at = run.address; at < end; at += KIT_CHUNK)
        if (!is_away(a, kit_chunk(k, at)) && kit_units(k, at)) {
            memcpy(k->kept[kit_chunk(k, at)], kit_units(k, at), sizeof *k->kept);
            memset(kit_units(k, at), 0, sizeof *k->kept);
        }
    k->moving = true;
    int status = vs_arena_send(a, run);
    k->moving = false;
    for (uint64_t at = run.address; at < end; at += KIT_CHUNK)
        if (status == 0)
            KIT_CHECK(is_away(a, kit_chunk(k, at)));
        else if (!is_away(a, kit_chunk(k, at)))
            kit_put_back(k, at);
    KIT_CHECK(a->stats.away == away || (status == 0 && vs_arena_changes(a) != changes));
    kit_check_mapped(k);
    return status;
}

static inline int kit_fetch(struct kit *k, struct vs_arena_run run)
{
    struct vs_arena *a = k->arena;
    uint64_t away = a->stats.away, changes = vs_arena_changes(a), end = run.address + run.size;
    uint32_t count = 0, *chunk = malloc(run.size / KIT_CHUNK * sizeof *chunk);
    for (uint64_t at = run.address; at < end; at += KIT_CHUNK)
        if (is_away(a, kit_chunk(k, at)))
            chunk[count++] = kit_chunk(k, at);
    k->moving = true;
    int status = vs_arena_fetch(a, run);
    k->moving = false;
    for (uint64_t at = run.address, i = 0; at < end; at += KIT_CHUNK) {
        bool was_away = i < count && chunk[i] == kit_chunk(k, at);
        KIT_CHECK(is_away(a, kit_chunk(k, at)) == (was_away && status != 0));
        if (was_away && status == 0)
            kit_put_back(k, at);
        i += was_away;
    }
    KIT_CHECK(a->stats.away == away - (status == 0 ? count * KIT_CHUNK : 0));
    KIT_CHECK(a->stats.away == away || vs_arena_changes(a) != changes);
    kit_check_mapped(k);
    free(chunk);
    return status;
}

/* Says that the device is done, as who sends has waited for it. */
static inline void kit_wait(struct kit *k)
{
    uint64_t ticket = vs_arena_ticket(k->arena);
    kit_learn_all(k, k->freed);
    vs_arena_synchronized(k->arena, ticket);
}

/* All chunks of a closed arena, in runs of LONGEST bytes; the first error. */
static inline int kit_change_all(struct kit *k, uint64_t longest,
                                 int (*how)(struct kit *, struct vs_arena_run))
{
    struct vs_arena_run runs[3];
    uint64_t at = 0;
    int status = 0;
    for (uint32_t count; status == 0 && (count = vs_arena_all_runs(k->arena, &at, longest, runs, 3));)
        for (uint32_t i = 0; i < count && status == 0; i++) {
            KIT_CHECK(runs[i].size <= longest || runs[i].size <= KIT_GROUP * KIT_CHUNK);
            status = how(k, runs[i]);
        }
    return status;
}

/* Those of a block that left; 0 where it has none. */
static inline int kit_change_block(struct kit *k, uint64_t address,
                                   int (*how)(struct kit *, struct vs_arena_run))
{
    struct vs_arena_run run = {0}, piece;
    bool can = vs_arena_block_runs(k->arena, address, &run, 1) == 1;
    for (uint64_t at = run.address; can && how == kit_send && at < run.address + run.size; at += KIT_CHUNK)
        can = !is_parked(k->arena, kit_chunk(k, at)); /* by others */
    int status = 0;
    while (can && status == 0 &&
           (piece = vs_arena_piece(k->arena, &run, k->longest ? k->longest : run.size)).size)
        status = how(k, piece);
    return status;
}

#endif
