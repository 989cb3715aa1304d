/* queues.c - queues are opened for streams, and go to other streams when theirs are gone. */
#include "internal.h"

#include <string.h>

/* While there is one queue frees are not stamped with their numbers.  When the second one opens, all that is
 * idle counts as freed just now, or, if the first one's stream is gone, at its end, which its last event
 * covers. */
static uint64_t stamp_idle(struct vs_arena *a)
{
    uint64_t seq = ++a->seq_now;
    for (uint32_t i = 0; i < QUEUES; i++)
        if (a->queue[i].retired)
            seq = a->queue[i].freed;
        else if (a->queue[i].open)
            a->queue[i].freed = seq;
    for (uint32_t h = 0; h < HEAPS; h++)
        for (uint32_t g = a->heap[h].first; g < a->heap[h].first + a->heap[h].top; g++)
            a->seq[g] = seq;
    return seq;
}

static void stamp_free_extents(struct vs_arena *a, uint64_t seq)
{
    for (uint32_t h = 0; h < HEAPS; h++)
        for (uint32_t i = a->heap[h].top ? a->heap[h].last : NIL; i != NIL; i = a->extent[i].prev)
            if (a->extent[i].state == EXTENT_FREE && a->extent[i].queue != VS_ARENA_ANY) {
                a->extent[i].seq = seq;
                vs_extent_list(a, i);
            }
}

static void begin(struct vs_arena *a, uint32_t queue)
{
    struct queue *l = &a->queue[queue];
    l->open = true;
    l->patience = 1;
    a->open |= bit_of(queue);
    a->queues++;
    a->stats.queues++;
    for (uint32_t q = 0; q < QUEUES; q++)
        a->seen[q][queue] = q == VS_ARENA_ANY ? UINT64_MAX : a->queue[q].done;
}

void vs_queue_begin(struct vs_arena *a, uint32_t queue)
{
    if (a->queue[queue].open)
        return;
    if (a->queues == 1)
        stamp_free_extents(a, stamp_idle(a));
    begin(a, queue);
}

/* Whether the queue's stream is gone and all its frees are complete for every queue. */
static bool is_over(const struct vs_arena *a, uint32_t queue)
{
    const struct queue *l = &a->queue[queue];
    bool over = l->retired && l->done >= l->freed;
    for (uint32_t q = 1; over && q < QUEUES; q++)
        over = q == queue ||
               a->seen[q][queue] <=
                   a->queue[q].done; /* its stream waited for others' frees, which the next stream has not */
    return over;
}

/* ALONE: no alias mapping may have chunks of it. */
static uint32_t find_over(struct vs_arena *a, bool alone)
{
    for (uint32_t i = 1; i < QUEUES; i++)
        if (is_over(a, i) && (!alone || vs_trim_aliases(a, i) == 0))
            return i;
    return NIL;
}

static bool any_retired(const struct vs_arena *a)
{
    bool any = false;
    for (uint32_t i = 1; i < QUEUES; i++)
        any = any || a->queue[i].retired;
    return any;
}

static uint32_t find_queue(struct vs_arena *a, bool alone)
{
    uint32_t queue = alone ? NIL : find_over(a, false);
    for (uint32_t i = 1; queue == NIL && i < QUEUES; i++)
        if (!a->queue[i].open)
            queue = i;
    if (queue == NIL && alone)
        queue = find_over(a, true);
    if (queue == NIL && any_retired(a) && vs_synchronize(a) == 0) /* only then can a wait set a queue free */
        queue = find_over(a, alone);
    return queue;
}

int vs_arena_open_queue(struct vs_arena *a, uint64_t stream, unsigned flags, uint32_t *queue)
{
    if (!vs_enter(a))
        return VS_BACKING_NOT_INITIALIZED;
    bool private = flags & VS_QUEUE_PRIVATE;
    uint32_t found = find_queue(a, private || a->config.plain);
    if (found != NIL) {
        struct queue *l = &a->queue[found];
        l->stream = stream;
        l->retired = false;
        l->private = private;
        vs_queue_begin(a, found);
        *queue = found;
    }
    vs_leave(a);
    return found == NIL ? VS_BACKING_OUT_OF_MEMORY : 0;
}

void vs_arena_retire_queue(struct vs_arena *a, uint32_t queue)
{
    if (!vs_enter(a))
        return;
    if (queue && queue < QUEUES && a->queue[queue].open) {
        a->queue[queue].freed = ++a->seq_now; /* its work up to now may use blocks of others */
        vs_order_record(a, queue);            /* no later event can be recorded in it */
        a->queue[queue].retired = true;
        a->queue[queue].private = false;
    }
    vs_leave(a);
}
