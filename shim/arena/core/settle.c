/*
 * settle.c - what completes is looked at, or waited for, and the frees that waited for it are carried out.
 *
 * The frees that are carried out get numbers of their own, behind all that was asked before: where the device
 * was waited for they are as complete as the rest, and that is said once more.
 */
#include "internal.h"

#define ROUNDS 4

void vs_settle_poll(struct vs_arena *a, uint32_t lane)
{
    vs_order_look(a, lane);
    if (a->deferreds)
        vs_deferred_poll(a);
}

void vs_settled(struct vs_arena *a, uint64_t seq)
{
    vs_order_all_done(a, seq);
    vs_deferred_settled(a, seq);
}

int vs_settle(struct vs_arena *a)
{
    int status = a->backing.settle(a->backing.context);
    if (status != 0)
        return status;
    a->stats.settles++;
    vs_settled(a, a->seq_now);
    vs_settled(a, a->seq_now); /* what was deferred has been freed meanwhile, and is as complete */
    return 0;
}

int vs_settle_outside(struct vs_arena *a)
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
        vs_settled(a, ticket);
        if (alone)
            vs_settled(a, a->seq_now);
    }
    return status;
}

bool vs_settle_await(struct vs_arena *a)
{
    if (!vs_order_await_mark(a))
        return false;
    vs_deferred_poll(a);
    return true;
}
