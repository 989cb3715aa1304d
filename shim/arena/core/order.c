/*
 * order.c - which free is complete, and for whom.
 *
 * Frees are numbered.  An event in a queue's stream covers all frees that were asked for before it.  Once it
 * is reached, they are complete for everyone; a stream that was made to wait for it on the device sees them
 * as complete at once, and the host does not wait.  Events are recorded now and then, not at every free, and
 * queried only when somebody is short of memory or would have to wait.
 */
#include "internal.h"

#include <string.h>

#define PATIENCE                                                                                             \
    16 /* an event that was not reached is looked at again after 2, 4, ... so many polls: a query costs a    \
          call */

#define QUIET 16 /* times the bytes between two events, where nobody looks at them */

/* ---- what must be waited for ----
 *
 *      done      of a queue: frees up to this number are complete
 *      seen[q]   for a queue: frees of queue q up to this number are complete for it; done of q or later */

bool vs_order_need(const struct vs_arena *a, uint32_t queue, uint32_t users, uint64_t seq,
                   uint64_t need[QUEUES])
{
    bool any = false;
    for (uint32_t rest = a->queues > 1 ? users & ~bit_of(queue) : 0; rest;) {
        uint32_t q = next_bit(&rest);
        uint64_t last = seq < a->queue[q].freed ? seq : a->queue[q].freed;
        if (last <= a->seen[q][queue])
            continue;
        need[q] = need[q] < last ? last : need[q];
        any = true;
    }
    return any;
}

void vs_order_done(struct vs_arena *a, uint32_t queue, uint64_t seq)
{
    if (seq <= a->queue[queue].done)
        return;
    a->queue[queue].done = seq;
    for (uint32_t rest = a->open & ~bit_of(queue); rest;) {
        uint64_t *seen = &a->seen[queue][next_bit(&rest)];
        *seen = *seen < seq ? seq : *seen;
    }
}

/* The queues that have ever done anything, and the device's. */
static uint32_t known_queues(const struct vs_arena *a)
{
    return a->open | bit_of(VS_ARENA_ANY);
}

/* What the device has done, each queue has done. */
static void device_done(struct vs_arena *a, uint64_t seq)
{
    for (uint32_t rest = known_queues(a); rest;)
        vs_order_done(a, next_bit(&rest), seq);
}

/* ---- events ---- */

static void forget_oldest(struct vs_arena *a, struct queue *q)
{
    a->backing.forget(a->backing.context, q->event[q->first_event].handle);
    q->first_event = (q->first_event + 1) % EVENTS;
    q->events--;
}

static struct event *youngest(struct queue *q)
{
    return &q->event[(q->first_event + q->events - 1) % EVENTS];
}

int vs_order_record(struct vs_arena *a, uint32_t queue)
{
    struct queue *q = &a->queue[queue];
    uint64_t handle;
    if (q->retired)
        return VS_BACKING_NOT_READY;
    int status = a->backing.event(a->backing.context, q->stream, &handle);
    if (status != 0)
        return status;
    if (q->events == EVENTS) { /* the youngest is dropped: the new one covers what it covered */
        a->backing.forget(a->backing.context, youngest(q)->handle);
        q->events--;
    }
    q->events++;
    *youngest(q) = (struct event){a->seq_now, handle};
    q->recorded = a->seq_now;
    q->unrecorded = 0;
    return 0;
}

/* Bytes to be freed before the next event is recorded.  If nobody has queried the many that there are, they
 * come at greater distances, since each costs a call of the driver; who is short of memory gets one recorded
 * then. */
static uint64_t until_record(const struct vs_arena *a, const struct queue *q)
{
    return q->events < EVENTS || !RULE(QUIET) ? a->config.record_bytes : QUIET * a->config.record_bytes;
}

void vs_order_freed(struct vs_arena *a, uint32_t queue, uint64_t bytes)
{
    struct queue *q = &a->queue[queue];
    a->seq_now++;
    if (q->retired)
        return; /* its stream does nothing any more, so its last event covers this free, too */
    q->freed = a->seq_now;
    if (a->queues < 2 || queue == VS_ARENA_ANY)
        return;
    q->unrecorded += bytes;
    if (RULE(EVENTS) && q->unrecorded >= until_record(a, q))
        vs_order_record(a, queue); /* where this fails, the next free or request tries again */
}

static void query_events(struct vs_arena *a, uint32_t queue)
{
    struct queue *q = &a->queue[queue];
    uint64_t done = q->done;
    q->polls = 0;
    while (q->events && a->backing.reached(a->backing.context, q->event[q->first_event].handle) == 0) {
        done = q->event[q->first_event].seq;
        forget_oldest(a, q);
    }
    if (done > q->done || !q->events)
        q->patience = 1;
    else if (q->patience < PATIENCE && RULE(PATIENCE))
        q->patience *= 2;
    if (queue == VS_ARENA_ANY)
        device_done(a, done);
    else
        vs_order_done(a, queue, done);
}

void vs_order_look(struct vs_arena *a, uint32_t queue)
{
    const struct queue *any = &a->queue[VS_ARENA_ANY];
    for (uint32_t rest = known_queues(a); rest;) {
        uint32_t i = next_bit(&rest);
        struct queue *q = &a->queue[i];
        if (q->retired && !q->events && q->done < q->freed && any->recorded < q->freed)
            vs_order_record(a, VS_ARENA_ANY); /* no event could be recorded at its end */
        bool short_of_it = i != queue && i != VS_ARENA_ANY && a->queues > 1 && q->freed > q->recorded;
        if (q->events && ++q->polls >= q->patience)
            query_events(a, i);
        if (short_of_it || (q->wanted > q->recorded &&
                            i != VS_ARENA_ANY)) /* the backlog has events of its own (deferred.c) */
            vs_order_record(a, i);
    }
}

/* ---- waiting ---- */

void vs_order_all_done(struct vs_arena *a, uint64_t seq)
{
    for (uint32_t rest = known_queues(a); rest;) {
        uint32_t i = next_bit(&rest);
        struct queue *q = &a->queue[i];
        while (q->events && q->event[q->first_event].seq <= seq)
            forget_oldest(a, q);
        vs_order_done(a, i, seq);
    }
}

/* The host waits; returns whether the event is reached. */
static bool wait_for_event(struct vs_arena *a, uint64_t handle)
{
    if (a->backing.reached(a->backing.context, handle) == 0)
        return true;
    if (!a->backing.await || a->backing.await(a->backing.context, handle) != 0)
        return false;
    a->stats.host_waits++;
    return true;
}

bool vs_order_await_event(struct vs_arena *a)
{
    struct queue *q = &a->queue[VS_ARENA_ANY];
    if (!q->events || !wait_for_event(a, q->event[q->first_event].handle))
        return false;
    uint64_t seq = q->event[q->first_event].seq;
    forget_oldest(a, q);
    device_done(a, seq);
    return true;
}

static int stream_wait(struct vs_arena *a, uint32_t queue, uint32_t other, uint64_t seq)
{
    struct queue *q = &a->queue[other];
    uint32_t i = 0;
    if (q->recorded < seq || q->events == 0) {
        int status = vs_order_record(a, other);
        if (status != 0)
            return status;
    }
    while (i + 1 < q->events && q->event[(q->first_event + i) % EVENTS].seq < seq)
        i++;
    struct event m = q->event[(q->first_event + i) % EVENTS];
    int status = a->backing.stream_wait(a->backing.context, a->queue[queue].stream, m.handle);
    if (status != 0)
        return status;
    a->stats.stream_waits++;
    a->seen[other][queue] = a->seen[other][queue] < m.seq ? m.seq : a->seen[other][queue];
    return 0;
}

int vs_order_wait(struct vs_arena *a, uint32_t queue, const uint64_t need[QUEUES])
{
    for (uint32_t q = 0; q < QUEUES; q++) {
        if (need[q] > a->seen[q][queue] && a->queue[q].events && ++a->queue[q].polls >= a->queue[q].patience)
            query_events(a, q);
        if (need[q] <= a->seen[q][queue] || q == queue)
            continue;
        if (queue == VS_ARENA_ANY || a->queue[queue].retired ||
            a->config.no_stream_waits) /* no stream can be made to wait */
            return VS_BACKING_NOT_READY;
        int status = stream_wait(a, queue, q, need[q]);
        if (status != 0)
            return status;
    }
    return 0;
}
