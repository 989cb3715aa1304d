/*
 * deferred.c - blocks whose free was told, and that others than their own lane may still be using.
 *
 * Such a block stays as it is, used, until every lane that touches it (or the device, where it is not known
 * which) has done what it was given before the free, and nobody holds it pinned.  Then it is freed as if that
 * had been told now.
 *
 * Where the device has to be done (no stream is known), when it is does not decide what is free: a program
 * that repeats itself would find other holes each time, and need other views.  Whenever a free makes them too
 * many bytes all but the last few are carried out, which the free waits for where the device is not that far.
 * So the order of requests alone says what is free at each of them; and the device has work left while we
 * wait, because it is marked more often.
 */
#include "internal.h"

#define LEAST (16ull << 20)
#define PARTS 4 /* marks, of the bytes that may be deferred */

uint64_t vs_deferred_most(const struct vs_arena *a)
{
    uint64_t part = a->wanted / 128;
    return a->config.defer_bytes ? a->config.defer_bytes : part > LEAST ? part : LEAST;
}

/* By a part: so that few of them are carried out at once, and not each by itself. */
bool vs_deferred_too_many(const struct vs_arena *a)
{
    uint64_t most = vs_deferred_most(a);
    return a->defer_device > most + most / PARTS;
}

/* All up to SEQ; where it cannot be waited for now, later. */
static void carry_out(struct vs_arena *a, uint64_t seq)
{
    const struct lane *any = &a->lane[VS_ARENA_ANY];
    a->due = seq > a->due ? seq : a->due;
    if (any->marked < seq)
        vs_order_mark(a, VS_ARENA_ANY); /* one could not be had before */
    while (any->done < seq && vs_order_await(a))
        ;
    if (any->done < seq)
        vs_order_settle(a);
    else
        vs_deferred_poll(a);
}

/* The last one that has to go so that no more than MOST bytes are left; 0: none. */
static uint64_t last_to_go(const struct vs_arena *a, uint64_t most)
{
    uint64_t bytes = a->defer_device, last = 0;
    for (uint32_t i = 0; i < a->deferreds && bytes > most; i++) {
        const struct deferred *d = &a->deferred[i];
        if (d->lanes != ALL_LANES)
            continue;
        bytes -= rounded(a->tile[d->tile].asked);
        last = d->seq;
    }
    return last;
}

static void want_device(struct vs_arena *a, uint64_t bytes)
{
    struct lane *any = &a->lane[VS_ARENA_ANY];
    a->defer_device += bytes;
    any->unmarked += bytes;
    if (any->unmarked >= vs_deferred_most(a) / PARTS && vs_order_mark(a, VS_ARENA_ANY) != 0)
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
        want_device(a, rounded(t->asked));
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
        return d->seq <= a->due && d->seq <= a->lane[VS_ARENA_ANY].done;
    for (uint32_t q = 0; q < LANES; q++)
        if (d->lanes >> q & 1 && a->lane[q].done < d->seq)
            return false;
    return true;
}

/* In the order in which they were told. */
void vs_deferred_poll(struct vs_arena *a)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < a->deferreds; i++) {
        struct deferred d = a->deferred[i];
        if (is_due(a, &d)) {
            uint64_t bytes = rounded(a->tile[d.tile].asked);
            a->stats.deferred -= bytes;
            a->defer_device -= d.lanes == ALL_LANES ? bytes : 0;
            vs_policy_free(a, d.tile);
        } else
            a->deferred[kept++] = d;
    }
    a->deferreds = kept;
}

void vs_deferred_settle(struct vs_arena *a)
{
    uint64_t most = vs_deferred_most(a), last = last_to_go(a, most);
    if (last)
        carry_out(a, last);
    if (a->stats.deferred - a->defer_device <= a->defer_rest + most)
        return;
    vs_order_settle(a);
    a->defer_rest = a->stats.deferred - a->defer_device;
}
