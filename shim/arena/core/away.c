/*
 * away.c - which chunks can be away: all of a closed arena, and of an open one those in which nothing lies
 * but blocks that left.
 *
 *      |  left   | left |   lives    |        the blocks
 *      |----|----|----|----|----|----|        the chunks; the first three can be away
 *
 * In those no free extent lies, no other block, and no part of an alias mapping that can be claimed.  So
 * while they are away nothing is placed there, and they are idle for nobody.  In a closed arena nothing is
 * placed at all.
 */
#include "internal.h"

/* ---- which can be away ---- */

/* Whether the block that is alive in the chunk through an alias mapping left. */
static bool has_left_alias(const struct vs_arena *a, uint32_t chunk)
{
    const struct atom *x = &a->atom[a->atom_of[chunk]];
    for (uint32_t i = 0; i < x->used; i++) {
        const struct alias *v = &a->alias[x->aliases[i]];
        if (v->claimed && vs_alias_position(v, chunk) < v->claimed && !a->extent[v->extent].is_parked)
            return a->extent[v->extent].has_left;
    }
    return false;
}

bool vs_have_left(const struct vs_arena *a, uint32_t chunk, bool parked)
{
    for (uint32_t i = vs_extent_at(a, place_of(a, chunk + 1) - 1);; i = a->extent[i].prev) {
        const struct extent *t = &a->extent[i];
        if (t->state == EXTENT_SHADOW)
            return !parked && has_left_alias(a, chunk);
        if (t->state != EXTENT_USED || !(parked ? t->is_parked : t->has_left))
            return false;
        if (t->at <= place_of(a, chunk))
            return true;
    }
}

static bool can_come(const struct vs_arena *a, uint32_t chunk)
{
    return a->used[chunk] != ABSENT && (a->gate.closed || vs_have_left(a, chunk, false));
}

static bool can_go(const struct vs_arena *a, uint32_t chunk)
{
    return can_come(a, chunk) && !is_parked(a, chunk);
}

static bool can_all(const struct vs_arena *a, struct run slots,
                    bool (*can)(const struct vs_arena *, uint32_t))
{
    for (uint32_t slot = slots.first, end = slot + slots.count; slot < end;) {
        struct run r = vs_chunks_mapped_at(a, slot, end - slot);
        for (uint32_t g = r.first; g < r.first + r.count; g++)
            if (!can(a, g))
                return false;
        slot += r.count;
    }
    return true;
}

uint64_t vs_away_idle(const struct vs_arena *a)
{
    uint64_t count = 0;
    for (uint32_t h = 0; h < HEAPS && a->gate.closed && a->stats.away; h++)
        for (uint32_t g = a->heap[h].first; g < a->heap[h].first + a->heap[h].top; g++)
            count += !a->used[g] && is_away(a, g);
    return count;
}

/* ---- runs ---- */

static struct vs_arena_run run_of(const struct vs_arena *a, struct run slots)
{
    return (struct vs_arena_run){address_of(a, place_of(a, slots.first)), place_of(a, slots.count)};
}

/* The slots of the run; false where it is not one of whole chunks that are mapped, or were, side by side. */
static bool find_slots(const struct vs_arena *a, struct vs_arena_run run, struct run *slots)
{
    uint64_t place, mask = chunk_bytes(a) - 1;
    if (!run.size || (run.address | run.size) & mask || !vs_place_at(a, run.address, &place))
        return false;
    uint32_t slot = slot_of(a, place);
    const struct heap *h = &a->heap[window_of(a, slot)];
    uint64_t end = place_of(a, h->first + h->top);
    if (h == &a->heap[ALIASES]) {
        const struct extent *t = &a->extent[vs_extent_at(a, place)];
        end = t->state == EXTENT_ALIAS && t->alias != NIL ? t->at + t->size : 0;
    }
    *slots = (struct run){slot, slot_of(a, run.size)};
    return end > place && run.size <= end - place;
}

/* Whether no chunk at the slots shares a handle with one at others. */
static bool are_groups(const struct vs_arena *a, struct run slots)
{
    return !shares_handle(a, slots.first) && !shares_handle(a, slots.first + slots.count);
}

static int move(struct vs_arena *a, struct vs_arena_run run, bool (*can)(const struct vs_arena *, uint32_t),
                int (*how)(struct vs_arena *, struct run))
{
    struct run slots;
    if (!vs_enter(a))
        return VS_BACKING_NOT_INITIALIZED;
    bool valid = find_slots(a, run, &slots) && can_all(a, slots, can) && are_groups(a, slots);
    int status = valid ? how(a, slots) : VS_BACKING_INVALID;
    vs_leave(a);
    return status;
}

int vs_arena_send(struct vs_arena *a, struct vs_arena_run run)
{
    return move(a, run, can_go, vs_send_slots);
}

int vs_arena_fetch(struct vs_arena *a, struct vs_arena_run run)
{
    return move(a, run, can_come, vs_fetch_slots);
}

/* ---- all ---- */

static bool any_pinned(const struct vs_arena *a)
{
    bool any = false;
    for (uint32_t i = 0; a->cell && i <= a->cell_mask && !any; i++)
        any = a->cell[i].extent != NIL && a->extent[a->cell[i].extent].pins;
    return any;
}

static bool all_complete(const struct vs_arena *a)
{
    bool all = !a->deferreds && a->first_late == a->lates;
    for (uint32_t q = 1; q < QUEUES; q++) /* without a stream frees are complete when they are asked for */
        all = all && a->queue[q].freed <= a->queue[q].done;
    return all;
}

/* Atomic: vs_arena_closed reads it without the lock, and it is a number by itself. */
static void set_closed(struct vs_arena *a, uint32_t closed)
{
    __atomic_store_n(&a->gate.closed, closed, __ATOMIC_RELAXED);
}

int vs_arena_close(struct vs_arena *a)
{
    if (!vs_enter(a))
        return VS_BACKING_NOT_INITIALIZED;
    int status = vs_synchronize_outside(a);
    if (status == 0 && (a->gate.closed || any_pinned(a)))
        status = VS_BACKING_INVALID;
    else if (status == 0 && !all_complete(a))
        status = VS_BACKING_NOT_READY;
    if (status == 0) { /* `wanted` stays, other than after a trim: the program goes on where it was */
        vs_supply_give_back(a, 0);
        set_closed(a, 1);
    }
    vs_leave(a);
    return status;
}

int vs_arena_open(struct vs_arena *a)
{
    if (!vs_enter(a))
        return VS_BACKING_NOT_INITIALIZED;
    bool valid = a->gate.closed && !a->stats.away;
    if (valid)
        set_closed(a, 0);
    vs_leave(a);
    return valid ? 0 : VS_BACKING_INVALID;
}

bool vs_arena_closed(struct vs_arena *a)
{
    return __atomic_load_n(&a->gate.closed, __ATOMIC_RELAXED);
}

/* Of the slots from FIRST to END, which are groups, the first MOST; none is taken apart. */
static struct run first_groups(const struct vs_arena *a, uint32_t first, uint32_t end, uint32_t most)
{
    uint32_t stop = end - first < most ? end : first + most;
    while (stop > first && shares_handle(a, stop))
        stop--;
    while (stop == first || shares_handle(a, stop))
        stop++;
    return (struct run){first, stop - first};
}

/* The first chunks at or after CHUNK, side by side, MOST at most, unless it is a group; none: the count is 0.
 */
static struct run next_chunks(const struct vs_arena *a, uint32_t chunk, uint32_t most)
{
    for (uint32_t heap = heap_of(a, chunk); heap < HEAPS; heap++) {
        const struct heap *h = &a->heap[heap];
        uint32_t first = chunk < h->first ? h->first : chunk, end = h->first + h->top, count = 0;
        while (first < end && (a->used[first] == ABSENT || shares_handle(a, first)))
            first++;
        while (first + count < end && a->used[first + count] != ABSENT && count < most + GROUP)
            count++;
        if (count)
            return first_groups(a, first, first + count, most);
    }
    return (struct run){a->primary_slots, 0};
}

uint32_t vs_arena_all_runs(struct vs_arena *a, uint64_t *at, uint64_t longest, struct vs_arena_run *runs,
                           uint32_t most)
{
    uint32_t count = 0;
    if (!vs_enter(a))
        return 0;
    uint64_t chunks = longest >> a->shift ? longest >> a->shift : 1;
    for (struct run r; a->gate.closed && count < most && *at < a->primary_slots; *at = r.first + r.count) {
        r = next_chunks(a, (uint32_t)*at, chunks < a->primary_slots ? (uint32_t)chunks : a->primary_slots);
        if (r.count)
            runs[count++] = run_of(a, r);
    }
    vs_leave(a);
    return count;
}

/* ---- some ---- */

struct run vs_block_slots(const struct vs_arena *a, const struct extent *t)
{
    uint32_t slot = slot_of(a, t->at), end = slot_of(a, t->at + t->size - 1) + 1;
    return (struct run){slot, t->state == EXTENT_ALIAS ? a->alias[t->alias].claimed : end - slot};
}

uint32_t vs_left_at(const struct vs_arena *a, uint64_t address)
{
    uint32_t extent = vs_blocks_get(a, address);
    return extent != NIL && a->extent[extent].has_left ? extent : NIL;
}

int vs_arena_leave(struct vs_arena *a, uint64_t address, uint64_t size)
{
    if (!vs_enter(a))
        return VS_BACKING_NOT_INITIALIZED;
    uint32_t extent = a->gate.closed ? NIL : vs_live_at(a, address);
    bool valid = extent != NIL && a->extent[extent].requested == size && !a->extent[extent].pins;
    if (valid) {
        a->extent[extent].has_left = true;
        a->extent[extent].pins = 1;
    }
    vs_leave(a);
    return valid ? 0 : VS_BACKING_INVALID;
}

uint32_t vs_arena_block_runs(struct vs_arena *a, uint64_t address, struct vs_arena_run *runs, uint32_t most)
{
    if (!vs_enter(a))
        return 0;
    uint32_t extent = vs_left_at(a, address);
    struct run slots = extent == NIL ? (struct run){0} : vs_block_slots(a, &a->extent[extent]);
    if (slots.count && a->extent[extent].is_parked)
        slots.count = 0;
    /* others lie only in a heap's first and in its last chunk, so what is left is one run */
    bool in_heap = slots.first < a->primary_slots;
    if (in_heap && slots.count && !vs_have_left(a, slots.first, false))
        slots = (struct run){slots.first + 1, slots.count - 1};
    if (in_heap && slots.count && !vs_have_left(a, slots.first + slots.count - 1, false))
        slots.count--;
    if (slots.count && most)
        runs[0] = run_of(a, slots);
    vs_leave(a);
    return slots.count > 0;
}

struct vs_arena_run vs_arena_piece(struct vs_arena *a, struct vs_arena_run *rest, uint64_t longest)
{
    struct run slots, piece = {0};
    struct vs_arena_run taken = {0};
    if (!vs_enter(a))
        return taken;
    if (find_slots(a, *rest, &slots)) {
        uint32_t first = slots.first, end = first + slots.count, most = slot_of(a, longest);
        while (first < end && shares_handle(a, first))
            first++;
        while (first < end && shares_handle(a, end))
            end--;
        if (first < end)
            piece = first_groups(a, first, end, most ? most : 1);
        *rest = run_of(a, (struct run){piece.first + piece.count, end - piece.first - piece.count});
    }
    if (piece.count)
        taken = run_of(a, piece);
    else
        rest->size = 0;
    vs_leave(a);
    return taken;
}

int vs_arena_return(struct vs_arena *a, uint64_t address)
{
    if (!vs_enter(a))
        return VS_BACKING_NOT_INITIALIZED;
    uint32_t extent = vs_left_at(a, address);
    bool valid = extent != NIL && !a->extent[extent].is_parked &&
                 !vs_slots_away(a, vs_block_slots(a, &a->extent[extent]));
    if (valid) {
        a->extent[extent].has_left = false;
        a->extent[extent].pins = 0;
        if (a->extent[extent].doomed)
            vs_deferred_poll(a);
    }
    vs_leave(a);
    return valid ? 0 : VS_BACKING_INVALID;
}
