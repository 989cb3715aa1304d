/*
 * deferred.c - frees that are carried out, at once or later.
 *
 * A block that other queues than its own may still use stays used until each of them has done what it was
 * given before the free (or the device has, where it is not known which queues), and until nobody pins it.
 * Then it is freed as if its free had been asked for at that moment.
 */
#include "internal.h"

#include <string.h>

#define LEAST  (16ull << 20)
#define PARTS  4 /* events, of the bytes that may be in the backlog, where the device does not keep up */
#define WIDEST 2 /* as `wide`: three parts.  The oldest must be recorded a while before it is needed */

void vs_free_block(struct vs_arena *a, uint32_t extent)
{
    struct extent *t = &a->extent[extent];
    uint32_t queue = t->queue;
    vs_blocks_remove(a, address_of(a, t->at));
    a->stats.blocks--;
    t->doomed = false;
    t->others = 0;
    vs_order_freed(a, queue, t->requested);
    if (t->state == EXTENT_ALIAS)
        vs_alias_release(a, t->alias);
    else
        vs_free_extent_free(a, extent, queue);
    if (a->oldest_free_extent != NIL)
        vs_free_extents_share(a, RULE(KEEP) ? a->config.keep_frees : 0);
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

/* ---- for queues ---- */

static bool is_due(const struct vs_arena *a, const struct deferred *d)
{
    if (a->extent[d->extent].pins)
        return false;
    for (uint32_t q = 0; q < QUEUES; q++)
        if (d->queues >> q & 1 && a->queue[q].done < d->seq)
            return false;
    return true;
}

static void free_now(struct vs_arena *a, uint32_t extent)
{
    a->stats.deferred -= rounded(a->extent[extent].requested);
    vs_free_block(a, extent);
}

/* Carries out the frees that nothing holds up any more, in the order in which they were asked for. */
void vs_deferred_poll(struct vs_arena *a)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < a->deferreds; i++) {
        struct deferred d = a->deferred[i];
        if (is_due(a, &d))
            free_now(a, d.extent);
        else
            a->deferred[kept++] = d;
    }
    a->deferreds = kept;
}

/* ---- for the device ----
 *
 * Frees that wait for queues are looked at whenever something completes.  Those that wait for the device are
 * a backlog; how long it may be, who waits for it, and how far apart its events are is in waiting.c. */

/* Takes the oldest one out of the backlog, which is complete.  A pinned block then waits for its last unpin.
 */
void vs_deferred_take_first(struct vs_arena *a)
{
    struct deferred d = a->late[a->first_late++];
    a->late_bytes -= rounded(a->extent[d.extent].requested);
    if (a->extent[d.extent].pins)
        a->deferred[a->deferreds++] = (struct deferred){d.seq, d.extent, 0};
    else
        free_now(a, d.extent);
}

void vs_deferred_synchronized(struct vs_arena *a, uint64_t seq)
{
    while (a->first_late < a->lates && a->late[a->first_late].seq <= seq)
        vs_deferred_take_first(a);
    vs_deferred_poll(a);
}

/* Makes room for one more, and for moving all of the backlog to those that wait for an unpin. */
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

static void event(struct vs_arena *a)
{
    struct pace *p = &a->pace;
    if (vs_order_record(a, VS_ARENA_ANY) != 0)
        a->queue[VS_ARENA_ANY].unrecorded = 0; /* none can be had: not at each free anew */
    if (!RULE(WIDE) || p->wide == WIDEST || p->left-- > 0)
        return;
    p->wide++;
    p->left = p->again;
}

static void add_late(struct vs_arena *a, uint32_t extent, uint64_t bytes)
{
    struct queue *any = &a->queue[VS_ARENA_ANY];
    a->late[a->lates++] = (struct deferred){a->seq_now, extent, 0};
    a->late_bytes += bytes;
    a->trough.since += bytes;
    any->unrecorded += bytes;
    if (any->unrecorded >= vs_deferred_most(a) / PARTS * (1 + a->pace.wide))
        event(a);
}

/* ---- both ---- */

int vs_deferred_add(struct vs_arena *a, uint32_t extent, uint32_t queues)
{
    struct extent *t = &a->extent[extent];
    if (make_room(a) != 0)
        return VS_BACKING_OUT_OF_MEMORY;
    t->doomed = true;
    a->seq_now++;
    a->stats.deferred += rounded(t->requested);
    if (queues == ALL_QUEUES) {
        add_late(a, extent, rounded(t->requested));
        return 0;
    }
    a->deferred[a->deferreds++] = (struct deferred){a->seq_now, extent, queues};
    for (uint32_t q = 0; q < QUEUES; q++)
        if (queues >> q & 1)
            a->queue[q].wanted = a->seq_now;
    return 0;
}
