/*
 * deferred.c - frees that are carried out, at once or later.
 *
 * A block that others than its own lane may still be using stays as it is, used, until every lane that
 * touches it (or the device, where it is not known which) has done what it was given before the free, and
 * nobody holds it pinned.  Then it is freed as if that had been asked for now.
 *
 * Those that wait for lanes are looked at whenever something completes (settle.c).  Those that wait for the
 * device (no stream is known) are a queue; how long it may be, and who waits for it, is in pace.c.
 *
 * The queue is marked as it grows, at a distance that pace.c makes wider while the device keeps up.
 */
#include "internal.h"

#include <string.h>

#define LEAST  (16ull << 20)
#define PARTS  4 /* marks, of the bytes that may be in the queue, where the device does not keep up */
#define WIDEST 2 /* as `wide`: three parts.  The oldest must be marked a while before it is needed */

void vs_free_block(struct vs_arena *a, uint32_t tile)
{
    struct tile *t = &a->tile[tile];
    uint32_t lane = t->lane;
    vs_blocks_remove(a, address_of(a, t->at));
    a->stats.blocks--;
    t->doomed = false;
    t->others = 0;
    vs_order_freed(a, lane, t->asked);
    if (t->state == TILE_VIEW)
        vs_view_release(a, t->view);
    else
        vs_hole_free(a, tile, lane);
    if (a->oldest_hole != NIL)
        vs_holes_share(a, RULE(KEEP) ? a->config.keep_frees : 0);
}

uint64_t vs_deferred_most(const struct vs_arena *a)
{
    uint64_t part = a->wanted / 32;
    return a->config.defer_bytes ? a->config.defer_bytes : part > LEAST ? part : LEAST;
}

uint64_t vs_deferred_allowed(const struct vs_arena *a)
{
    uint64_t most = a->config.defer_bytes ? a->config.defer_bytes : LEAST;
    if (!RULE(DEFER_SLACK))
        return 0;
    return a->stats.deferred < most ? a->stats.deferred : most;
}

/* ---- for lanes ---- */

static bool is_due(const struct vs_arena *a, const struct deferred *d)
{
    if (a->tile[d->tile].pins)
        return false;
    for (uint32_t q = 0; q < LANES; q++)
        if (d->lanes >> q & 1 && a->lane[q].done < d->seq)
            return false;
    return true;
}

static void free_now(struct vs_arena *a, uint32_t tile)
{
    a->stats.deferred -= rounded(a->tile[tile].asked);
    vs_free_block(a, tile);
}

/* In the order in which they were told. */
void vs_deferred_poll(struct vs_arena *a)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < a->deferreds; i++) {
        struct deferred d = a->deferred[i];
        if (is_due(a, &d))
            free_now(a, d.tile);
        else
            a->deferred[kept++] = d;
    }
    a->deferreds = kept;
}

/* ---- for the device ---- */

/* Out of the queue, complete.  A pinned one waits for its last unpin, and for no lane. */
void vs_deferred_take_first(struct vs_arena *a)
{
    struct deferred d = a->late[a->first_late++];
    a->late_bytes -= rounded(a->tile[d.tile].asked);
    if (a->tile[d.tile].pins)
        a->deferred[a->deferreds++] = (struct deferred){d.seq, d.tile, 0};
    else
        free_now(a, d.tile);
}

void vs_deferred_settled(struct vs_arena *a, uint64_t seq)
{
    while (a->first_late < a->lates && a->late[a->first_late].seq <= seq)
        vs_deferred_take_first(a);
    vs_deferred_poll(a);
}

/* Room for one more, and for all of them among those that are pinned. */
static int make_room(struct vs_arena *a)
{
    uint32_t used = a->lates - a->first_late;
    if (a->first_late > used) {
        memmove(a->late, a->late + a->first_late, used * sizeof *a->late);
        a->lates = used;
        a->first_late = 0;
    }
    if (vs_meta_fit(&a->meta, (void **)&a->late, &a->late_room, sizeof *a->late, a->lates + 1) != 0)
        return VS_BACKING_OUT_OF_MEMORY;
    return vs_meta_fit(&a->meta, (void **)&a->deferred, &a->deferred_room, sizeof *a->deferred,
                       a->deferreds + used + 1);
}

static void mark(struct vs_arena *a)
{
    struct pace *p = &a->pace;
    if (vs_order_mark(a, VS_ARENA_ANY) != 0)
        a->lane[VS_ARENA_ANY].unmarked = 0; /* none can be had: not at each free anew */
    if (!RULE(WIDE) || p->wide == WIDEST || p->left-- > 0)
        return;
    p->wide++;
    p->left = p->again;
}

static void add_late(struct vs_arena *a, uint32_t tile, uint64_t bytes)
{
    struct lane *any = &a->lane[VS_ARENA_ANY];
    a->late[a->lates++] = (struct deferred){a->seq_now, tile, 0};
    a->late_bytes += bytes;
    a->ebb.since += bytes;
    any->unmarked += bytes;
    if (any->unmarked >= vs_deferred_most(a) / PARTS * (1 + a->pace.wide))
        mark(a);
}

/* ---- both ---- */

int vs_deferred_add(struct vs_arena *a, uint32_t tile, uint32_t lanes)
{
    struct tile *t = &a->tile[tile];
    if (make_room(a) != 0)
        return VS_BACKING_OUT_OF_MEMORY;
    t->doomed = true;
    a->seq_now++;
    a->stats.deferred += rounded(t->asked);
    if (lanes == ALL_LANES) {
        add_late(a, tile, rounded(t->asked));
        return 0;
    }
    a->deferred[a->deferreds++] = (struct deferred){a->seq_now, tile, lanes};
    for (uint32_t q = 0; q < LANES; q++)
        if (lanes >> q & 1)
            a->lane[q].wanted = a->seq_now;
    return 0;
}
