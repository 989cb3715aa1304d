/*
 * pace.c - how long the queue of frees for the device may be, and who waits for it.
 *
 * Were they freed whenever the device happens to be done, a program that repeats itself would find other
 * holes each time, and need other views.  So each free takes so many out of the queue that no more than some
 * bytes are left in it, and waits where the device is not that far; so does a request that found no hole and
 * would make the arena hold too much.  The order of requests alone says what is free at each of them; and the
 * device has work left while we wait, because it is marked more often.
 *
 * Marks cost calls of the driver.  While the device keeps up so well that nobody waits for it they are made
 * at a greater distance.
 */
#include "internal.h"

#define WINDOW 16384
#define ROUND  4 /* times the bytes that may be in the queue: so many are freed from one ebb to the next */
#define TRIAL  8 /* marks without a wait, until they are made wider again: twice as many after each wait */
#define TRIALS 1024

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
    while (any->done < seq && vs_settle_await(a))
        ;
    if (any->done < seq)
        vs_settle(a);
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
    vs_deferred_take_first(a);
    return true;
}

void vs_deferred_shorten(struct vs_arena *a, bool wait)
{
    uint64_t most = vs_deferred_most(a);
    while (a->late_bytes > most && vs_deferred_next(a, wait))
        ;
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
    e->now = RULE(EBB);
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

void vs_deferred_miss(struct vs_arena *a)
{
    if (!RULE(ONE_WAIT) || a->stats.deferred - a->late_bytes <= a->defer_rest + vs_deferred_most(a))
        return;
    vs_settle(a); /* one wait for many that wait for single lanes, before they add up to much */
    a->defer_rest = a->stats.deferred - a->late_bytes;
}
