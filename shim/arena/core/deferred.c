/*
 * deferred.c - blocks whose free was told, and that others than their own lane may still be using.
 *
 * Such a block stays as it is, used, until every lane that touches it (or the device, where it is not known
 * which) has done what it was given before the free, and nobody holds it pinned.  Then it is freed as if that
 * had been told now.
 *
 * Those that wait for lanes are looked at whenever something completes.  Those that wait for the device (no
 * stream is known) are a queue: were they freed whenever the device happens to be done, a program that
 * repeats itself would find other holes each time, and need other views.  Each free takes so many out of the
 * queue that no more than some bytes are left in it, and waits where the device is not that far; so does a
 * request that found no hole and would make the arena hold too much.  So the order of requests alone says
 * what is free at each of them; and the device has work left while we wait, because it is marked more often.
 *
 * Marks cost calls of the driver.  While the device keeps up so well that nobody waits for it they are made
 * at a greater distance.
 */
#include "internal.h"

#include <string.h>

#define LEAST  (16ull << 20)
#define WINDOW 16384
#define ROUND  4 /* times the bytes that may be in the queue: so many are freed from one ebb to the next */
#define PARTS  4 /* marks, of the bytes that may be in the queue, where the device does not keep up */
#define WIDEST 2 /* as `wide`: three parts.  The oldest must be marked a while before it is needed */
#define TRIAL  8 /* marks without a wait, until they are made wider again: twice as many after each wait */
#define TRIALS 1024

uint64_t vs_deferred_most(const struct vs_arena *a)
{
    uint64_t part = a->wanted / 32;
    return a->config.defer_bytes ? a->config.defer_bytes : part > LEAST ? part : LEAST;
}

uint64_t vs_deferred_allowed(const struct vs_arena *a)
{
    uint64_t most = a->config.defer_bytes ? a->config.defer_bytes : LEAST;
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
    vs_policy_free(a, tile);
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
static void take_first(struct vs_arena *a)
{
    struct deferred d = a->late[a->first_late++];
    a->late_bytes -= rounded(a->tile[d.tile].asked);
    if (a->tile[d.tile].pins)
        a->deferred[a->deferreds++] = (struct deferred){d.seq, d.tile, 0};
    else
        free_now(a, d.tile);
}

/* The device did not keep up with marks so far apart. */
static void waited(struct pace *p)
{
    if (p->wide) {
        uint32_t again = 2 * p->again + TRIAL;
        p->again = again < TRIALS ? again : TRIALS;
        p->wide--;
    }
    p->left = p->again;
}

/* One mark stands for all before it, too: there is none only where none could be had. */
static void wait_for(struct vs_arena *a, uint64_t seq)
{
    const struct lane *any = &a->lane[VS_ARENA_ANY];
    uint64_t waits = a->stats.settles;
    if (any->marked < seq)
        vs_order_mark(a, VS_ARENA_ANY);
    while (any->done < seq && vs_order_await(a))
        ;
    if (any->done < seq)
        vs_order_settle(a);
    if (a->stats.settles != waits && !a->ebb.now) /* there all have to be waited for */
        waited(&a->pace);
}

bool vs_deferred_next(struct vs_arena *a, bool wait)
{
    if (a->first_late == a->lates)
        return false;
    uint64_t seq = a->late[a->first_late].seq;
    if (wait && a->lane[VS_ARENA_ANY].done < seq)
        wait_for(a, seq);
    if (a->first_late == a->lates || a->late[a->first_late].seq != seq)
        return true; /* all were waited for */
    if (a->lane[VS_ARENA_ANY].done < seq)
        return false;
    take_first(a);
    return true;
}

void vs_deferred_shorten(struct vs_arena *a, bool wait)
{
    uint64_t most = vs_deferred_most(a);
    while (a->late_bytes > most && vs_deferred_next(a, wait))
        ;
}

void vs_deferred_settled(struct vs_arena *a, uint64_t seq)
{
    while (a->first_late < a->lates && a->late[a->first_late].seq <= seq)
        take_first(a);
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
    if (p->wide == WIDEST || p->left-- > 0)
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

/* ---- the ebb ---- */

/* A program that repeats itself has the least alive at the same place of each round.  There the queue is
 * emptied: what is in it lies elsewhere in each round, and so would all that is placed around it.  Where
 * rounds are short, some at once are one. */
static void look_for_ebb(struct vs_arena *a)
{
    struct ebb *e = &a->ebb;
    uint64_t live = a->stats.allocated;
    if (e->left-- == 0) {
        e->before = e->least;
        e->least = live;
        e->left = WINDOW;
    }
    e->least = live < e->least ? live : e->least;
    uint64_t least = e->before < e->least ? e->before : e->least;
    uint64_t range = a->wanted > least ? a->wanted - least : 0; /* after a trim less is wanted than was */
    e->armed = e->armed || live > least + range / 2;
    if (!e->armed || live > least + range / 64 || e->since < ROUND * vs_deferred_most(a))
        return;
    e->armed = false;
    e->since = 0;
    e->now = true;
}

void vs_deferred_waiting_free(struct vs_arena *a)
{
    vs_deferred_shorten(a, true);
    look_for_ebb(a);
}

void vs_deferred_ebb(struct vs_arena *a)
{
    while (vs_deferred_next(a, true))
        ;
    a->ebb.now = false;
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

void vs_deferred_miss(struct vs_arena *a)
{
    vs_deferred_shorten(a, true);
    if (a->stats.deferred - a->late_bytes <= a->defer_rest + vs_deferred_most(a))
        return;
    vs_order_settle(a); /* one wait for many that wait for single lanes, before they add up to much */
    a->defer_rest = a->stats.deferred - a->late_bytes;
}
