/*
 * dropped.c - the addresses of allocations that the full ring dropped.
 *
 * The free of such an allocation is of no use: the ledger never counted its bytes, and in the ring it would
 * take the room of a free that matters.  So a dropped allocation leaves its address here, and its free is
 * dropped as well.  A program that allocates and frees in a loop while the ring is full thus adds nothing to
 * it, and the last eighth of the ring, which is reserved for ends, is left to the ends of recorded
 * allocations.
 *
 * A fixed table in the recording process's private memory: an address may lie in any of the 16 places that
 * its hash selects.  A search looks at all 16, so a removal needs no tombstone.  Where all 16 are taken the
 * address is not remembered; its free is then recorded, and the ledger counts it as the free of an unknown
 * allocation.
 *
 * Thread-safety: any thread, any signal handler.  The memory of one address belongs to one owner at a time:
 * the driver (or framework) hands it out again only after its free.  So two threads never work on the same
 * key, and different keys meet only in the compare-and-swap for an empty place.  All orders are relaxed: a
 * place carries nothing but its key, and the program itself synchronized the thread that frees with the
 * thread that allocated.
 */
#include "dropped.h"

#define PLACES 16u

/* The key of the event: its address, with the kind of allocation in the bits above (addresses are below
 * 2^57), because a framework's block can begin at the address of the driver's allocation.  0: the event
 * neither allocates nor frees. */
static uint64_t key_of(const struct vs_event *event)
{
    switch (event->op) {
    case VS_OP_ALLOC:
    case VS_OP_FREE:
        return event->address | UINT64_C(1) << 62;
    case VS_OP_BLOCK_ALLOC:
    case VS_OP_BLOCK_FREE:
        return event->address | UINT64_C(1) << 63;
    default:
        return 0;
    }
}

static _Atomic uint64_t *places_of(struct vs_dropped *u, uint64_t key)
{
    uint64_t hash = key * UINT64_C(0x9e3779b97f4a7c15) >> 40;
    return &u->key[hash % (VS_DROPPED_KEYS / PLACES) * PLACES];
}

static bool swap(_Atomic uint64_t *place, uint64_t old, uint64_t new)
{
    return atomic_load_explicit(place, memory_order_relaxed) == old &&
           atomic_compare_exchange_strong_explicit(place, &old, new, memory_order_relaxed,
                                                   memory_order_relaxed);
}

void vs_dropped_add(struct vs_dropped *u, const struct vs_event *event)
{
    bool starts = event->op == VS_OP_ALLOC || event->op == VS_OP_BLOCK_ALLOC;
    uint64_t key = key_of(event);
    if (!starts || vs_event_failed(event))
        return;
    _Atomic uint64_t *place = places_of(u, key);
    for (unsigned i = 0; i < PLACES; i++) {
        if (!swap(&place[i], 0, key))
            continue;
        atomic_fetch_add_explicit(&u->count, 1, memory_order_relaxed);
        return;
    }
}

bool vs_dropped_take(struct vs_dropped *u, const struct vs_event *event)
{
    uint64_t key = key_of(event);
    if (key == 0 || (vs_event_failed(event) && event->status != VS_STATUS_PENDING))
        return false;
    _Atomic uint64_t *place = places_of(u, key);
    for (unsigned i = 0; i < PLACES; i++) {
        if (!swap(&place[i], key, 0))
            continue;
        atomic_fetch_sub_explicit(&u->count, 1, memory_order_relaxed);
        return event->op == VS_OP_FREE || event->op == VS_OP_BLOCK_FREE;
    }
    return false;
}
