/*
 * park.c - gives others the chunks of blocks that left, while their caller has what stood in them.
 *
 *      |  parked   | parked | lives |       the blocks
 *      |----|----|----|----|----|----|      the chunks; the first four are parked
 *      |    |-X--|----|                     a block in an alias mapping of two of them
 *
 * A chunk in which nothing lies but parked blocks is idle for everyone, as if it had just been freed on the
 * queue that copied it.  Nothing is unmapped, and the heaps and alias mappings go on showing whose it is.  So
 * it can be had through alias mappings alone: no free extent lies there, and none appears when such a block
 * is freed.  Who has it then can be parked as well: a chunk may be parked by blocks where it has its primary
 * mapping, and by one in each of several alias mappings.
 *
 * Taken back it is a used chunk again, and the copying stream waits for those who had it.  Where one of them
 * is still alive another chunk comes in its place first (replace.c).
 */
#include "internal.h"

/* ---- what lives in parked chunks ---- */

/* Bytes of the block at a slot of its window. */
static uint64_t bytes_at(const struct vs_arena *a, const struct extent *t, uint32_t slot)
{
    uint64_t from = place_of(a, slot), to = place_of(a, slot + 1), end = t->at + rounded(t->requested);
    from = from < t->at ? t->at : from;
    to = to > end ? end : to;
    return t->doomed || from >= to ? 0 : to - from;
}

/* Bytes of blocks where the chunk has its primary mapping. */
static uint64_t bytes_at_home(const struct vs_arena *a, uint32_t chunk)
{
    uint64_t bytes = 0;
    for (uint32_t i = vs_extent_at(a, place_of(a, chunk + 1) - 1);; i = a->extent[i].prev) {
        bytes += bytes_at(a, &a->extent[i], chunk);
        if (a->extent[i].at <= place_of(a, chunk))
            return bytes;
    }
}

/* The chunk at the slot, of an alias mapping or of its own, is PARKED from now on, or not any more. */
static void set_parked(struct vs_arena *a, const struct extent *t, uint32_t slot, uint32_t chunk, bool parked)
{
    bool aliased = slot >= a->primary_slots;
    uint64_t bytes = aliased ? bytes_at(a, t, slot) : bytes_at_home(a, chunk);
    if (aliased)
        a->parked_by[chunk] = (uint16_t)(a->parked_by[chunk] + (parked ? 1 : -1));
    else
        a->parked[chunk >> 6] ^= 1ull << (chunk & 63);
    a->stats.parked += parked ? chunk_bytes(a) : -chunk_bytes(a);
    a->parked_live += parked ? bytes : -bytes;
    vs_reserved_changed(a);
}

static uint32_t chunk_at(const struct vs_arena *a, uint32_t slot)
{
    return vs_chunks_mapped_at(a, slot, 1).first;
}

/* Of the slots of a parked block those whose chunks it parked: but for its first and its last, in which
 * others may lie, all are. */
static struct run parked_part(const struct vs_arena *a, struct run slots)
{
    if (slots.first >= a->primary_slots)
        return slots;
    if (slots.count && !is_parked_at_home(a, slots.first))
        slots = (struct run){slots.first + 1, slots.count - 1};
    if (slots.count && !is_parked_at_home(a, slots.first + slots.count - 1))
        slots.count--;
    return slots;
}

void vs_parked_free(struct vs_arena *a, const struct extent *t)
{
    struct run parked = t->is_parked ? parked_part(a, vs_block_slots(a, t)) : (struct run){0};
    for (uint32_t slot = parked.first; slot < parked.first + parked.count; slot++)
        a->parked_live -= bytes_at(a, t, slot);
}

uint64_t vs_arena_block_away(struct vs_arena *a, uint64_t address)
{
    uint64_t bytes = 0;
    if (!vs_enter(a))
        return 0;
    uint32_t extent = vs_blocks_get(a, address);
    const struct extent *t = extent != NIL ? &a->extent[extent] : NULL;
    struct run slots = t ? vs_block_slots(a, t) : (struct run){0};
    for (uint32_t slot = slots.first; slot < slots.first + slots.count; slot++)
        if ((t->is_parked && is_parked(a, chunk_at(a, slot))) || is_away(a, chunk_at(a, slot)))
            bytes += bytes_at(a, t, slot);
    bytes = t && bytes > t->requested ? t->requested : bytes;
    vs_leave(a);
    return bytes;
}

/* ---- parking ---- */

static bool is_queue(const struct vs_arena *a, uint32_t queue)
{
    return queue == VS_ARENA_ANY || (queue < QUEUES && a->queue[queue].open);
}

static bool can_park(const struct vs_arena *a, const struct extent *t)
{
    struct run slots = vs_block_slots(a, t);
    bool can = !t->is_parked && !vs_slots_away(a, slots);
    for (uint32_t i = 0; can && i < slots.count; i++)
        can = is_lent(a, chunk_at(a, slots.first + i)) &&
              a->parked_by[chunk_at(a, slots.first + i)] < UINT16_MAX;
    return can;
}

static void park(struct vs_arena *a, struct extent *t, uint32_t queue)
{
    struct run slots = vs_block_slots(a, t);
    t->is_parked = true;
    a->surplus.parked = true;
    if (!a->queue[queue].open)
        vs_queue_begin(a, queue);
    vs_order_freed(a, queue, t->requested);
    for (uint32_t i = 0; i < slots.count; i++) {
        uint32_t slot = slots.first + i, chunk = chunk_at(a, slot);
        if (slot < a->primary_slots && !vs_have_left(a, chunk, true))
            continue;
        set_parked(a, t, slot, chunk, true);
        vs_chunks_release(a, chunk, chunk + 1, users_of(queue), a->seq_now);
    }
}

int vs_arena_park(struct vs_arena *a, uint64_t address, uint32_t queue)
{
    if (!vs_enter(a))
        return VS_BACKING_NOT_INITIALIZED;
    uint32_t extent = is_queue(a, queue) ? vs_left_at(a, address) : NIL;
    bool valid = extent != NIL && can_park(a, &a->extent[extent]);
    if (valid)
        park(a, &a->extent[extent], queue);
    vs_leave(a);
    return valid ? 0 : VS_BACKING_INVALID;
}

/* ---- taking back ---- */

/* The queue's stream waits for those who had the chunks. */
static int wait_for_chunks(struct vs_arena *a, struct run slots, uint32_t queue)
{
    uint64_t need[QUEUES] = {0};
    bool any = false;
    for (uint32_t i = 0; i < slots.count; i++) {
        uint32_t chunk = chunk_at(a, slots.first + i);
        any |= vs_order_need(a, queue, a->users[chunk], a->seq[chunk], need);
    }
    return any ? vs_order_wait(a, queue, need) : 0;
}

static void take_back(struct vs_arena *a, const struct extent *t, struct run slots)
{
    for (uint32_t i = 0; i < slots.count; i++) {
        uint32_t slot = slots.first + i, chunk = chunk_at(a, slot);
        set_parked(a, t, slot, chunk, false);
        if (slot >= a->primary_slots)
            vs_alias_show(a, chunk);
        vs_chunks_claim(a, chunk, chunk + 1);
    }
    if (live_here(a) > a->wanted)
        a->wanted = live_here(a);
}

static int unpark(struct vs_arena *a, uint64_t address, uint32_t queue, struct vs_arena_run *back)
{
    uint32_t extent = is_queue(a, queue) ? vs_left_at(a, address) : NIL;
    if (extent == NIL || !a->extent[extent].is_parked || a->extent[extent].is_broken)
        return VS_BACKING_INVALID;
    if (!a->queue[queue].open)
        vs_queue_begin(a, queue);
    int status = vs_replace_taken(a, extent);
    if (status != 0)
        return status;
    struct run slots = parked_part(a, vs_block_slots(a, &a->extent[extent]));
    status = wait_for_chunks(a, slots, queue);
    if (status != 0)
        return status;
    take_back(a, &a->extent[extent], slots);
    a->extent[extent].is_parked = false;
    *back = (struct vs_arena_run){0};
    if (slots.count)
        *back = (struct vs_arena_run){address_of(a, place_of(a, slots.first)), place_of(a, slots.count)};
    return 0;
}

int vs_arena_unpark(struct vs_arena *a, uint64_t address, uint32_t queue, struct vs_arena_run *back)
{
    if (!vs_enter(a))
        return VS_BACKING_NOT_INITIALIZED;
    int status = unpark(a, address, queue, back);
    vs_leave(a);
    return status;
}

uint64_t vs_arena_taken(struct vs_arena *a, uint64_t address)
{
    uint64_t taken = UINT64_MAX;
    if (!vs_enter(a))
        return taken;
    uint32_t extent = vs_left_at(a, address);
    if (extent != NIL && a->extent[extent].is_parked) {
        struct run slots = parked_part(a, vs_block_slots(a, &a->extent[extent]));
        taken = 0;
        for (uint32_t i = 0; i < slots.count; i++)
            taken += a->used[chunk_at(a, slots.first + i)] ? chunk_bytes(a) : 0;
    }
    vs_leave(a);
    return taken;
}
