/*
 * synchronize.c - queries or waits for what the device has done, and carries out the frees that waited for
 * it.
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

bool vs_synchronize_event(struct vs_arena *a)
{
    if (!vs_order_await_event(a))
        return false;
    vs_deferred_poll(a);
    return true;
}
