/*
 * deferred.c - blocks whose free was told, and that others than their own lane may still be using.
 *
 * Such a block stays as it is, used, until every lane that touches it (or the device, where it is not known
 * which) has done what it was given before the free, and nobody holds it pinned.  Then it is freed as if that
 * had been told now.
 */
#include "internal.h"

/* Marks of the device come often enough that waiting for the oldest leaves it work to do. */
static void want_device(struct vs_arena *a, uint64_t bytes)
{
    struct lane *any = &a->lane[VS_ARENA_ANY];
    any->wanted = a->seq_now;
    any->unmarked += bytes;
    if (any->unmarked >= a->config.defer_bytes / 4 && vs_order_mark(a, VS_ARENA_ANY) != 0)
        any->unmarked = 0; /* none can be had: not at each free anew */
}

int vs_deferred_add(struct vs_arena *a, uint32_t tile, uint32_t lanes)
{
    struct tile *t = &a->tile[tile];
    if (vs_meta_fit(&a->meta, (void **)&a->deferred, &a->deferred_room, sizeof *a->deferred,
                    a->deferreds + 1) != 0)
        return VS_BACKING_OUT_OF_MEMORY;
    t->doomed = true;
    a->deferred[a->deferreds++] = (struct deferred){++a->seq_now, tile, lanes};
    a->stats.deferred += rounded(t->asked);
    if (lanes == ALL_LANES)
        want_device(a, t->asked);
    for (uint32_t q = 0; q < LANES; q++)
        if (lanes != ALL_LANES && lanes >> q & 1)
            a->lane[q].wanted = a->seq_now;
    return 0;
}

static bool is_due(const struct vs_arena *a, const struct deferred *d)
{
    if (a->tile[d->tile].pins)
        return false;
    if (d->lanes == ALL_LANES)
        return a->lane[VS_ARENA_ANY].done >= d->seq;
    for (uint32_t q = 0; q < LANES; q++)
        if (d->lanes >> q & 1 && a->lane[q].done < d->seq)
            return false;
    return true;
}

void vs_deferred_poll(struct vs_arena *a)
{
    for (uint32_t i = 0; i < a->deferreds;) {
        struct deferred d = a->deferred[i];
        if (!is_due(a, &d)) {
            i++;
            continue;
        }
        a->deferred[i] = a->deferred[--a->deferreds];
        a->stats.deferred -= rounded(a->tile[d.tile].asked);
        vs_policy_free(a, d.tile);
    }
}
