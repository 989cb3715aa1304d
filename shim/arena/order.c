/*
 * order.c - which free is complete, and for whom.
 *
 * Frees are numbered.  A mark in a lane's stream covers all frees that were told up to it: once it is reached
 * they are complete for everyone; a stream that was made to follow it sees them complete from then on,
 * without anybody waiting. Marks are made now and then, not at every free, and looked at only when somebody
 * is short of memory.
 *
 *      done      of a lane: frees up to this number are complete
 *      seen[q]   for a lane: frees of lane q up to this number are complete for it; done of q or later
 *
 * What becomes visible to a lane must reach its views and its heap.  So each lane keeps a ring of its last
 * frees of aliased granules, and each other lane reads it up to what it sees: all at once where all learn it.
 * A ring that runs over is no loss: all is then counted anew when something completes.
 */
#include "internal.h"

#include <string.h>

#define PATIENCE                                                                                             \
    16 /* a mark that was not reached is looked at again after 2, 4, ... so many polls: looks cost */

#define QUIET 16 /* times the bytes between two marks, where nobody looks at them */

/* ---- what others must learn ---- */

static uint64_t slowest_reader(const struct vs_arena *a, uint32_t lane)
{
    const struct lane *q = &a->lane[lane];
    uint64_t slowest = q->recorded;
    for (uint32_t rest = a->open & ~bit_of(lane); rest;) {
        uint64_t read = q->read[next_bit(&rest)];
        slowest = read < slowest ? read : slowest;
    }
    return slowest;
}

/* Whether its ring has no room for one more record. */
static bool is_full(const struct vs_arena *a, struct lane *q, uint32_t lane)
{
    if (q->recorded - q->kept_from == RECORDS)
        q->kept_from = slowest_reader(a, lane);
    return q->recorded - q->kept_from == RECORDS;
}

void vs_order_record(struct vs_arena *a, uint32_t lane, uint32_t first, uint32_t count, uint32_t view)
{
    struct lane *q = &a->lane[lane];
    if (a->lanes < 2 || lane == VS_ARENA_ANY)
        return; /* everyone sees it at once */
    if (!q->record || q->overrun || is_full(a, q, lane)) {
        q->overrun = true;
        return;
    }
    q->record[q->recorded++ % RECORDS] = (struct record){a->seq_now, first, count, view};
}

/* For LANES (bits). */
static void read_record(struct vs_arena *a, uint32_t q, const struct record *r, uint32_t lanes)
{
    if (r->view == NIL) {
        vs_granules_reveal(a, r->first, r->first + r->count, q, r->seq, lanes);
        return;
    }
    const struct view *v = &a->view[r->view];
    uint32_t left = r->count;
    for (const struct run *run = v->run; left; run++) {
        uint32_t n = run->count < left ? run->count : left;
        vs_granules_reveal(a, run->first, run->first + n, q, r->seq, lanes);
        left -= n;
    }
}

/* Counts everything anew; what is still hidden has to be counted again when it completes. */
static void catch_up(struct vs_arena *a)
{
    for (uint32_t q = 0; q < LANES; q++) {
        struct lane *l = &a->lane[q];
        l->overrun = l->overrun || l->recorded > slowest_reader(a, q);
        l->overrun = l->overrun && l->done < l->freed;
        for (uint32_t s = 0; s < LANES; s++)
            l->read[s] = l->recorded;
    }
    vs_granules_recount(a);
}

/* Those of LANES that have not read the record. */
static uint32_t readers(const struct lane *q, uint64_t record, uint32_t lanes)
{
    uint32_t some = 0;
    while (lanes) {
        uint32_t s = next_bit(&lanes);
        some |= q->read[s] <= record ? bit_of(s) : 0;
    }
    return some;
}

/* LANES read the frees of lane Q up to SEQ. */
static void read_up_to(struct vs_arena *a, uint32_t q, uint64_t seq, uint32_t lanes)
{
    struct lane *l = &a->lane[q];
    uint64_t at = l->recorded;
    for (uint32_t rest = lanes; rest;) {
        uint64_t read = l->read[next_bit(&rest)];
        at = read < at ? read : at;
    }
    for (; at < l->recorded && l->record[at % RECORDS].seq <= seq; at++)
        read_record(a, q, &l->record[at % RECORDS], readers(l, at, lanes));
    while (lanes) {
        uint32_t s = next_bit(&lanes);
        l->read[s] = l->read[s] < at ? at : l->read[s];
    }
}

/* LANES learn that the frees of lane Q up to SEQ are complete. */
static void see(struct vs_arena *a, uint32_t q, uint64_t seq, uint32_t lanes)
{
    uint32_t news = 0;
    while (lanes) {
        uint32_t s = next_bit(&lanes);
        if (seq <= a->seen[q][s])
            continue;
        a->seen[q][s] = seq;
        news |= bit_of(s);
    }
    if (news && !a->lane[q].overrun)
        read_up_to(a, q, seq, news);
}

void vs_order_done(struct vs_arena *a, uint32_t lane, uint64_t seq)
{
    struct lane *q = &a->lane[lane];
    bool overrun = q->overrun;
    if (seq <= q->done)
        return;
    q->done = seq;
    see(a, lane, seq, a->open & ~bit_of(lane));
    if (overrun)
        catch_up(a);
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
    return q->marks < MARKS ? a->config.mark_bytes : QUIET * a->config.mark_bytes;
}

void vs_order_freed(struct vs_arena *a, uint32_t lane, uint64_t bytes)
{
    struct lane *q = &a->lane[lane];
    q->freed = ++a->seq_now;
    if (a->lanes < 2 || lane == VS_ARENA_ANY)
        return;
    q->unmarked += bytes;
    if (q->unmarked >= until_mark(a, q))
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
    else if (q->patience < PATIENCE)
        q->patience *= 2;
    for (uint32_t i = 0; lane == VS_ARENA_ANY && i < LANES; i++) /* the device did: each of them did */
        vs_order_done(a, i, done);
    vs_order_done(a, lane, done);
}

void vs_order_poll(struct vs_arena *a, uint32_t lane)
{
    for (uint32_t rest = a->open; rest;) {
        uint32_t i = next_bit(&rest);
        struct lane *q = &a->lane[i];
        bool short_of_it = i != lane && i != VS_ARENA_ANY && a->lanes > 1 && q->freed > q->marked;
        if (q->marks && ++q->polls >= q->patience)
            look_at_marks(a, i);
        if (short_of_it ||
            (q->wanted > q->marked && i != VS_ARENA_ANY)) /* that one has its own (deferred.c) */
            vs_order_mark(a, i);
    }
    if (a->deferreds)
        vs_deferred_poll(a);
}

/* ---- waiting ---- */

void vs_order_settled(struct vs_arena *a, uint64_t seq)
{
    for (uint32_t i = 0; i < LANES; i++) {
        struct lane *q = &a->lane[i];
        while (q->marks && q->mark[q->first_mark].seq <= seq)
            forget_oldest(a, q);
        vs_order_done(a, i, seq);
    }
    vs_deferred_settled(a, seq);
}

int vs_order_settle(struct vs_arena *a)
{
    int status = a->backing.settle(a->backing.context);
    if (status != 0)
        return status;
    a->stats.settles++;
    vs_order_settled(a, a->seq_now);
    vs_order_settled(a, a->seq_now); /* what was deferred has been freed meanwhile, and is as complete */
    return 0;
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

#define ROUNDS 4

int vs_order_settle_outside(struct vs_arena *a)
{
    bool alone = false;
    int status = 0;
    for (int round = 0; round < ROUNDS && !alone && status == 0; round++) {
        uint64_t ticket = a->seq_now;
        vs_leave(a);
        status = a->backing.settle(a->backing.context);
        if (!vs_enter(a))
            return VS_BACKING_NOT_INITIALIZED;
        if (status != 0)
            break;
        a->stats.settles++;
        alone = a->seq_now == ticket; /* else what was deferred is freed, and not known to be complete yet */
        vs_order_settled(a, ticket);
        if (alone)
            vs_order_settled(a, a->seq_now);
    }
    return status;
}

bool vs_order_await(struct vs_arena *a)
{
    struct lane *q = &a->lane[VS_ARENA_ANY];
    if (!q->marks || !wait_for_mark(a, q->mark[q->first_mark].handle))
        return false;
    uint64_t seq = q->mark[q->first_mark].seq;
    forget_oldest(a, q);
    for (uint32_t i = 0; i < LANES; i++)
        vs_order_done(a, i, seq);
    vs_deferred_poll(a);
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
    bool overrun = q->overrun;
    see(a, other, m.seq, bit_of(lane));
    if (overrun)
        catch_up(a);
    return 0;
}

int vs_order_wait(struct vs_arena *a, uint32_t lane, const uint64_t need[LANES])
{
    if (lane == VS_ARENA_ANY || a->lane[lane].retired) /* there is no stream that could follow */
        return vs_order_settle(a);
    for (uint32_t q = 0; q < LANES; q++) {
        if (need[q] <= a->seen[q][lane] || q == lane)
            continue;
        int status = follow(a, lane, q, need[q]);
        if (status != 0)
            return status;
    }
    return 0;
}
