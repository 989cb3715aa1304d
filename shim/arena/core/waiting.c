/*
 * waiting.c - queries or waits for what the device has done, and carries out the frees that waited for it.
 *
 * A free that is carried out gets a number of its own, behind all that were asked for before.  After a wait
 * for the device it is as complete as those, so the new numbers are declared complete, too.
 */
#include "internal.h"

#define ROUNDS 4

void vs_synchronize_poll(struct vs_arena *a, uint32_t queue)
{
    vs_order_look(a, queue);
    if (a->deferreds)
        vs_deferred_poll(a);
}

void vs_synchronized(struct vs_arena *a, uint64_t seq)
{
    vs_order_all_done(a, seq);
    vs_deferred_synchronized(a, seq);
}

int vs_synchronize(struct vs_arena *a)
{
    int status = a->backing.synchronize(a->backing.context);
    if (status != 0)
        return status;
    a->stats.host_waits++;
    vs_synchronized(a, a->seq_now);
    vs_synchronized(a, a->seq_now); /* once more, for the deferred frees that were carried out just now */
    return 0;
}

int vs_synchronize_outside(struct vs_arena *a)
{
    bool alone = false;
    int status = 0;
    for (int round = 0; round < ROUNDS && !alone && status == 0; round++) {
        uint64_t ticket = a->seq_now;
        vs_leave(a);
        status = a->backing.synchronize(a->backing.context);
        if (!vs_enter(a))
            return VS_BACKING_NOT_INITIALIZED;
        if (status != 0)
            break;
        a->stats.host_waits++;
        alone = a->seq_now ==
                ticket; /* otherwise another thread freed something meanwhile, which may not be complete */
        vs_synchronized(a, ticket);
        if (alone)
            vs_synchronized(a, a->seq_now);
    }
    return status;
}

void vs_arena_await(struct vs_arena *a)
{
    if (!vs_enter(a))
        return;
    vs_synchronize_outside(a); /* where the device cannot be waited for, nothing is known to be complete */
    vs_leave(a);
}

uint64_t vs_arena_ticket(struct vs_arena *a)
{
    if (!vs_enter(a))
        return 0;
    uint64_t ticket = a->seq_now;
    vs_leave(a);
    return ticket;
}

void vs_arena_synchronized(struct vs_arena *a, uint64_t ticket)
{
    if (!vs_enter(a))
        return;
    if (ticket <= a->seq_now)
        vs_synchronized(a, ticket);
    vs_leave(a);
}

bool vs_synchronize_event(struct vs_arena *a)
{
    if (!vs_order_await_event(a))
        return false;
    vs_deferred_poll(a);
    return true;
}

/* ---- how long the backlog of frees for the device may be, and who waits for it ----
 *
 * If frees were carried out whenever the device happens to be done, a program that repeats itself would find
 * other free extents each time and need other alias mappings.  So each free takes as many out of the backlog
 * as leave no more than some bytes in it, and waits where the device is not that far; so does a request that
 * would make the arena hold too much.  What is free then depends on the order of the program's calls alone.
 * Several events lie in the backlog, so the device still has work while the host waits for the first.  While
 * nobody waits, events, which cost calls of the driver, are made at a greater distance. */

#define WINDOW 16384
#define ROUND                                                                                                \
    4 /* times the bytes that may be in the backlog: so many are freed from one trough to the next */
#define TRIAL  8 /* events without a wait, until they are made wider again: twice as many after each wait */
#define TRIALS 1024

/* Somebody had to wait for the device: its events lie closer together from now on. */
static void waited(struct pace *p)
{
    if (p->wide) {
        uint32_t again = 2 * p->again + TRIAL;
        p->again = again < TRIALS ? again : TRIALS;
        p->wide--;
    }
    p->left = p->again;
}

/* Waits until the device has done what it was given before free SEQ.  Where no event could be recorded the
 * whole device is waited for. */
static void wait_for(struct vs_arena *a, uint64_t seq)
{
    const struct queue *any = &a->queue[VS_ARENA_ANY];
    uint64_t waits = a->stats.host_waits;
    if (any->recorded < seq)
        vs_order_record(a, VS_ARENA_ANY);
    while (any->done < seq && vs_synchronize_event(a))
        ;
    if (any->done < seq)
        vs_synchronize(a);
    if (a->stats.host_waits != waits && !a->trough.now) /* at the trough all are waited for anyway */
        waited(&a->pace);
}

bool vs_deferred_next(struct vs_arena *a, bool wait)
{
    if (a->first_late == a->lates)
        return false;
    uint64_t seq = a->late[a->first_late].seq;
    if (wait && a->queue[VS_ARENA_ANY].done < seq)
        wait_for(a, seq);
    if (a->first_late == a->lates || a->late[a->first_late].seq != seq)
        return true; /* all were waited for */
    if (a->queue[VS_ARENA_ANY].done < seq)
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

/* ---- the trough ---- */

/* The least that was alive in this window of frees and in the last one. */
static uint64_t note_least(struct trough *t, uint64_t live)
{
    if (t->left-- == 0) {
        t->before = t->least;
        t->least = live;
        t->left = WINDOW;
    }
    t->least = live < t->least ? live : t->least;
    return t->before < t->least ? t->before : t->least;
}

/* A program that repeats itself has the least alive at the same place of each round: the trough.  There the
 * backlog is emptied, since its blocks lie elsewhere in each round, and so would all that is placed around
 * them.  The trough is where less than a 64th of the range between the least and the most is alive above the
 * least, for the first time after more than half of the range was.  Where rounds are short, several of them
 * count as one. */
static void look_for_trough(struct vs_arena *a)
{
    struct trough *t = &a->trough;
    uint64_t live = live_here(a), least = note_least(t, live);
    uint64_t range = a->wanted > least ? a->wanted - least : 0; /* a trim lowers what is wanted */
    if (live > least + range / 2)
        t->armed = true;
    bool low = live <= least + range / 64, round_is_long = t->since >= ROUND * vs_deferred_most(a);
    if (t->armed && low && round_is_long) {
        t->armed = false;
        t->since = 0;
        t->now = RULE(TROUGH);
    }
}

void vs_deferred_waiting_free(struct vs_arena *a)
{
    vs_deferred_shorten(a, true);
    look_for_trough(a);
}

void vs_deferred_trough(struct vs_arena *a)
{
    while (vs_deferred_next(a, true))
        ;
    a->trough.now = false;
}

void vs_deferred_miss(struct vs_arena *a)
{
    if (!RULE(ONE_WAIT) || a->stats.deferred - a->late_bytes <= a->defer_rest + vs_deferred_most(a))
        return;
    vs_synchronize(a); /* one wait for many frees that wait for single queues, before they add up */
    a->defer_rest = a->stats.deferred - a->late_bytes;
}
