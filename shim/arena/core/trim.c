/*
 * trim.c - gives chunks back to the device.
 *
 * Only chunks that are idle, and whose last use is done, can go, from the tops of the heaps down.  Every
 * mapping of them goes first: alias mappings are removed, or shortened where a live block needs only their
 * beginning.
 */
#include "internal.h"

#include <string.h>

static bool can_go(const struct vs_arena *a, uint32_t chunk)
{
    if (a->used[chunk] || is_parked(a, chunk) || !vs_chunk_complete(a, chunk) ||
        a->queue[primary_queue(a, chunk)].private)
        return false;
    return a->extent[vs_extent_at(a, place_of(a, chunk))].state == EXTENT_FREE;
}

static bool can_all_go(const struct vs_arena *a, struct run group)
{
    bool can = true;
    for (uint32_t g = group.first; can && g < group.first + group.count; g++)
        can = can_go(a, g);
    return can;
}

static bool is_aliased(const struct vs_arena *a, uint32_t chunk)
{
    return a->aliased[chunk >> 6] >> (chunk & 63) & 1;
}

/* Removes the chunk from every alias mapping that has it: shortens those that are live, removes the others.
 */
static int unalias(struct vs_arena *a, uint32_t chunk)
{
    while (is_aliased(a, chunk)) {
        const struct atom *atom = &a->atom[a->atom_of[chunk]];
        uint32_t alias = atom->aliases[atom->used - 1];
        struct alias *v = &a->alias[alias];
        if (!vs_alias_complete(a, v))
            return VS_BACKING_NOT_READY;
        int status = vs_alias_shorten(a, alias, v->claimed ? vs_alias_position(v, chunk) : 0);
        if (status != 0)
            return status;
    }
    return 0;
}

int vs_trim_aliases(struct vs_arena *a, uint32_t queue)
{
    vs_show_hidden(a, 2 * queue, 2);
    for (uint32_t heap = 2 * queue; heap < 2 * queue + 2; heap++) {
        const struct heap *h = &a->heap[heap];
        for (uint32_t g = h->first; (g = vs_atoms_next(a, g, h->first + h->top)) < h->first + h->top;) {
            int status = a->used[g] || is_parked(a, g) ? VS_BACKING_NOT_READY : unalias(a, g);
            if (status != 0)
                return status;
        }
    }
    return 0;
}

static int unmap_chunks(struct vs_arena *a, uint32_t first, uint32_t count)
{
    const struct vs_backing *b = &a->backing;
    struct vs_arena_stats *s = &a->stats;
    int status = b->unmap(b->context, address_of(a, place_of(a, first)), place_of(a, count));
    if (status != 0)
        return status;
    s->released += vs_handles_release(a, (struct run){first, count});
    memset(a->used + first, ABSENT, count);
    vs_idle_changed(a, -(uint64_t)count);
    s->unmapped += count;
    s->mappings -= count;
    s->reserved -= place_of(a, count);
    vs_reserved_changed(a);
    vs_extent_change(a, first, count, EXTENT_VACANT, VS_ARENA_ANY);
    return 0;
}

/* Whether it can go, and is in no alias mapping; UNALIASED: any more. */
static bool goes(struct vs_arena *a, struct run group, bool unaliased)
{
    return can_all_go(a, group) &&
           (!is_aliased(a, group.first) || (unaliased && unalias(a, group.first) == 0));
}

bool vs_trim_group(struct vs_arena *a, struct run group)
{
    return can_all_go(a, group) && unmap_chunks(a, group.first, group.count) == 0;
}

/* One heap, from its top down.  A group goes whole, or not. */
static void trim_heap(struct vs_arena *a, uint32_t heap, uint64_t keep)
{
    const struct heap *h = &a->heap[heap];
    uint32_t slot = h->first + h->top;
    while (slot > h->first && a->idle > keep) {
        uint32_t end = slot;
        struct run group = vs_group(a, slot - 1);
        slot = group.first;
        if (!goes(a, group, true))
            continue;
        while (slot > h->first && a->idle - (end - slot) > keep && goes(a, vs_group(a, slot - 1), false))
            slot = vs_group(a, slot - 1).first;
        if (unmap_chunks(a, slot, end - slot) != 0)
            return;
    }
}

void vs_supply_give_back(struct vs_arena *a, uint64_t keep)
{
    if (a->gate.closed)
        return;
    vs_show_hidden(a, 0, HEAPS);
    vs_free_extents_share(a, 0); /* neighbours of two queues join, and a chunk that lay in both is in one */
    for (uint32_t small = 0; small < 2; small++) /* a small heap needs its chunks again soonest */
        for (uint32_t queue = QUEUES + 1; queue-- > 0;)
            if (a->heap[2 * queue + small].top)
                trim_heap(a, 2 * queue + small, keep);
}

/* ---- what is given back unasked, so that others can have it ----
 *
 * A training loop's idle memory swings with every step, and giving back what the next step needs again would
 * cost it far more than it helps anyone.  So what counts is the least that was idle in a window of many
 * frees.  What of it is above the threshold goes, a part at each look, so that no free takes long.  A program
 * may repeat itself more slowly than the window is long.  Then what was given back is created anew; each
 * window in which that happens doubles its length, and so a loop of any length comes to need no call. */

#define WINDOW  65536u /* frees */
#define LONGEST (1u << 30)
#define LOOKS   16  /* in a window */
#define AT_ONCE 256 /* chunks at a look */

void vs_surplus_begin(struct vs_arena *a)
{
    struct surplus *s = &a->surplus;
    s->window = a->config.trim_window ? a->config.trim_window : WINDOW;
    s->left = s->window / LOOKS + 1;
}

static uint64_t beyond(const struct vs_arena *a, uint64_t chunks)
{
    uint64_t keep = a->config.trim_above >> a->shift;
    return chunks > keep ? chunks - keep : 0;
}

static void end_window(struct vs_arena *a)
{
    struct surplus *s = &a->surplus;
    if (s->regretted && s->window < LONGEST)
        s->window *= 2;
    s->regretted = false;
    if (!s->parked) /* chunks are hidden for what is parked again and again */
        vs_show_hidden(a, 0, HEAPS);
    s->parked = a->stats.parked > 0;
    s->spare = beyond(a, s->least);
    s->least = a->idle;
    s->looks = 0;
}

static void give_some(struct vs_arena *a)
{
    struct surplus *s = &a->surplus;
    uint64_t some = s->spare < AT_ONCE || !RULE(AT_ONCE) ? s->spare : AT_ONCE, idle = a->idle;
    for (uint32_t i = 1; i < QUEUES; i++)
        if (a->queue[i].freed > a->queue[i].recorded)
            vs_order_record(a, i); /* so that at the next look what is free now is known to be complete */
    vs_synchronize_poll(a, NIL);
    vs_supply_give_back(a, a->idle > some ? a->idle - some : 0);
    uint64_t given = idle > a->idle ? idle - a->idle : 0;
    s->spare = given ? s->spare - some : 0; /* nothing more can be given back now */
    s->least -= given < s->least ? given : s->least;
    s->given += given;
}

void vs_surplus_look(struct vs_arena *a)
{
    struct surplus *s = &a->surplus;
    uint64_t now = beyond(a, s->least);
    s->left = s->window / LOOKS + 1;
    if (a->gate.closed)
        return;
    if (++s->looks >= LOOKS)
        end_window(a);
    else if (s->spare > now)
        s->spare = now; /* some of it is needed by now */
    if (s->spare && a->config.trim_above != UINT64_MAX)
        give_some(a);
}
