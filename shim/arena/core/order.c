/*
 * order.c - which free is complete, and for whom.
 *
 * Frees are numbered.  A mark in a lane's stream covers all frees that were told up to it: once it is reached
 * they are complete for everyone; a stream that was made to follow it sees them complete from then on,
 * without anybody waiting. Marks are made now and then, not at every free, and looked at only when somebody
 * is short of memory or would have to wait.
 *
 *      done      of a lane: frees up to this number are complete
 *      seen[q]   for a lane: frees of lane q up to this number are complete for it; done of q or later
 */
#include "internal.h"

#include <string.h>

#define PATIENCE                                                                                             \
    16 /* a mark that was not reached is looked at again after 2, 4, ... so many polls: looks cost */

#define QUIET 16 /* times the bytes between two marks, where nobody looks at them */

/* ---- what must be waited for ---- */

bool vs_order_need(const struct vs_arena *a, uint32_t lane, uint32_t users, uint64_t seq,
                   uint64_t need[LANES])
{
    bool any = false;
    for (uint32_t rest = a->lanes > 1 ? users & ~bit_of(lane) : 0; rest;) {
        uint32_t q = next_bit(&rest);
        uint64_t last = seq < a->lane[q].freed ? seq : a->lane[q].freed;
        if (last <= a->seen[q][lane])
            continue;
        need[q] = need[q] < last ? last : need[q];
        any = true;
    }
    return any;
}

void vs_order_done(struct vs_arena *a, uint32_t lane, uint64_t seq)
{
    if (seq <= a->lane[lane].done)
        return;
    a->lane[lane].done = seq;
    for (uint32_t rest = a->open & ~bit_of(lane); rest;) {
        uint64_t *seen = &a->seen[lane][next_bit(&rest)];
        *seen = *seen < seq ? seq : *seen;
    }
}

/* The lanes that have ever done anything, and the device's. */
static uint32_t known_lanes(const struct vs_arena *a)
{
    return a->open | bit_of(VS_ARENA_ANY);
}

/* The device has: each of them has. */
static void device_done(struct vs_arena *a, uint64_t seq)
{
    for (uint32_t rest = known_lanes(a); rest;)
        vs_order_done(a, next_bit(&rest), seq);
}

/* ---- marks ---- */

static void forget_oldest(struct vs_arena *a, struct lane *q)
{
    a->backing.forget(a->backing.context, q->mark[q->first_mark].handle);
    q->first_mark = (q->first_mark + 1) % MARKS;
    q->marks--;
}

static struct mark *youngest(struct lane *q)
{
    return &q->mark[(q->first_mark + q->marks - 1) % MARKS];
}

int vs_order_mark(struct vs_arena *a, uint32_t lane)
{
    struct lane *q = &a->lane[lane];
    uint64_t handle;
    if (q->retired)
        return VS_BACKING_NOT_READY;
    int status = a->backing.mark(a->backing.context, q->stream, &handle);
    if (status != 0)
        return status;
    if (q->marks == MARKS) { /* the youngest gives way: this one covers what it does */
        a->backing.forget(a->backing.context, youngest(q)->handle);
        q->marks--;
    }
    q->marks++;
    *youngest(q) = (struct mark){a->seq_now, handle};
    q->marked = a->seq_now;
    q->unmarked = 0;
    return 0;
}

/* Bytes freed until the next mark.  Nobody looked at the many that there are: each costs a call of the
 * driver, and when somebody is short one is made for him. */
static uint64_t until_mark(const struct vs_arena *a, const struct lane *q)
{
    return q->marks < MARKS || !RULE(QUIET) ? a->config.mark_bytes : QUIET * a->config.mark_bytes;
}

void vs_order_freed(struct vs_arena *a, uint32_t lane, uint64_t bytes)
{
    struct lane *q = &a->lane[lane];
    a->seq_now++;
    if (q->retired)
        return; /* its stream does nothing any more: its last mark covers this, too */
    q->freed = a->seq_now;
    if (a->lanes < 2 || lane == VS_ARENA_ANY)
        return;
    q->unmarked += bytes;
    if (RULE(MARKS) && q->unmarked >= until_mark(a, q))
        vs_order_mark(a, lane); /* none now: then at the next free, or when somebody is short */
}

static void look_at_marks(struct vs_arena *a, uint32_t lane)
{
    struct lane *q = &a->lane[lane];
    uint64_t done = q->done;
    q->polls = 0;
    while (q->marks && a->backing.reached(a->backing.context, q->mark[q->first_mark].handle) == 0) {
        done = q->mark[q->first_mark].seq;
        forget_oldest(a, q);
    }
    if (done > q->done || !q->marks)
        q->patience = 1;
    else if (q->patience < PATIENCE && RULE(PATIENCE))
        q->patience *= 2;
    if (lane == VS_ARENA_ANY)
        device_done(a, done);
    else
        vs_order_done(a, lane, done);
}

void vs_order_look(struct vs_arena *a, uint32_t lane)
{
    const struct lane *any = &a->lane[VS_ARENA_ANY];
    for (uint32_t rest = known_lanes(a); rest;) {
        uint32_t i = next_bit(&rest);
        struct lane *q = &a->lane[i];
        if (q->retired && !q->marks && q->done < q->freed && any->marked < q->freed)
            vs_order_mark(a, VS_ARENA_ANY); /* its end could not be marked */
        bool short_of_it = i != lane && i != VS_ARENA_ANY && a->lanes > 1 && q->freed > q->marked;
        if (q->marks && ++q->polls >= q->patience)
            look_at_marks(a, i);
        if (short_of_it ||
            (q->wanted > q->marked && i != VS_ARENA_ANY)) /* that one has its own (deferred.c) */
            vs_order_mark(a, i);
    }
}

/* ---- waiting ---- */

void vs_order_all_done(struct vs_arena *a, uint64_t seq)
{
    for (uint32_t rest = known_lanes(a); rest;) {
        uint32_t i = next_bit(&rest);
        struct lane *q = &a->lane[i];
        while (q->marks && q->mark[q->first_mark].seq <= seq)
            forget_oldest(a, q);
        vs_order_done(a, i, seq);
    }
}

/* Whether the mark is reached, in the end. */
static bool wait_for_mark(struct vs_arena *a, uint64_t handle)
{
    if (a->backing.reached(a->backing.context, handle) == 0)
        return true;
    if (!a->backing.await || a->backing.await(a->backing.context, handle) != 0)
        return false;
    a->stats.settles++;
    return true;
}

bool vs_order_await_mark(struct vs_arena *a)
{
    struct lane *q = &a->lane[VS_ARENA_ANY];
    if (!q->marks || !wait_for_mark(a, q->mark[q->first_mark].handle))
        return false;
    uint64_t seq = q->mark[q->first_mark].seq;
    forget_oldest(a, q);
    device_done(a, seq);
    return true;
}

static int follow(struct vs_arena *a, uint32_t lane, uint32_t other, uint64_t seq)
{
    struct lane *q = &a->lane[other];
    uint32_t i = 0;
    if (q->marked < seq || q->marks == 0) {
        int status = vs_order_mark(a, other);
        if (status != 0)
            return status;
    }
    while (i + 1 < q->marks && q->mark[(q->first_mark + i) % MARKS].seq < seq)
        i++;
    struct mark m = q->mark[(q->first_mark + i) % MARKS];
    int status = a->backing.follow(a->backing.context, a->lane[lane].stream, m.handle);
    if (status != 0)
        return status;
    a->stats.follows++;
    a->seen[other][lane] = a->seen[other][lane] < m.seq ? m.seq : a->seen[other][lane];
    return 0;
}

int vs_order_wait(struct vs_arena *a, uint32_t lane, const uint64_t need[LANES])
{
    for (uint32_t q = 0; q < LANES; q++) {
        if (need[q] > a->seen[q][lane] && a->lane[q].marks && ++a->lane[q].polls >= a->lane[q].patience)
            look_at_marks(a, q);
        if (need[q] <= a->seen[q][lane] || q == lane)
            continue;
        if (lane == VS_ARENA_ANY || a->lane[lane].retired || a->config.no_follows) /* no stream follows */
            return VS_BACKING_NOT_READY;
        int status = follow(a, lane, q, need[q]);
        if (status != 0)
            return status;
    }
    return 0;
}
