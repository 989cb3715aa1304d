/*
 * context_ids.c - assigns the number that events have for a context.
 *
 * It is one byte: the row of the journal's table that the handle has.  A program that makes contexts in a
 * loop may get another handle each time, and the table is full after 254; from then on a context that is
 * born takes the number of one that has ended, so that its end ends its own memory and nothing else.  If
 * more than 254 live at once the others have none.
 *
 *      owner[id]   the living context that has the number; 0: none
 *
 * A number is taken by compare-and-swap.  Relaxed throughout: each word is complete in itself, and birth and
 * end of one context are in the host's own order.
 */
#include "place.h"

static _Atomic uintptr_t owner[VS_CONTEXT_UNKNOWN];
static _Atomic unsigned rows; /* of the table, as far as they were seen */

static bool take(uint8_t id, uintptr_t handle)
{
    uintptr_t seen = 0;
    return atomic_compare_exchange_strong_explicit(&owner[id], &seen, handle, memory_order_relaxed,
                                                   memory_order_relaxed) ||
           seen == handle;
}

uint8_t vs_context_id_of(CUcontext context)
{
    uintptr_t handle = (uintptr_t)context;
    for (unsigned id = 1; handle != 0 && id < VS_CONTEXT_UNKNOWN; id++)
        if (atomic_load_explicit(&owner[id], memory_order_relaxed) == handle)
            return (uint8_t)id;
    return 0;
}

static uint8_t take_over(CUcontext context)
{
    uint8_t own = vs_context_id_of(context);
    if (own != 0)
        return own;
    for (unsigned id = 1; id <= atomic_load_explicit(&rows, memory_order_relaxed); id++)
        if (take((uint8_t)id, (uintptr_t)context))
            return (uint8_t)id;
    return VS_CONTEXT_UNKNOWN;
}

uint8_t vs_context_id(struct vs_journal *j, CUcontext context, int device)
{
    bool full = atomic_load_explicit(&rows, memory_order_relaxed) == VS_CONTEXT_UNKNOWN - 1;
    uint8_t id = full ? take_over(context) : VS_CONTEXT_UNKNOWN;
    if (id != VS_CONTEXT_UNKNOWN)
        return id;
    id = vs_journal_context(j, (uint64_t)(uintptr_t)context, device); /* counts it where there is no room */
    if (id == VS_CONTEXT_UNKNOWN)
        return take_over(context);
    if (id > atomic_load_explicit(&rows, memory_order_relaxed))
        atomic_store_explicit(&rows, id, memory_order_relaxed);
    return take(id, (uintptr_t)context) ? id : take_over(context); /* its row's number was taken over */
}

void vs_context_id_forget(CUcontext context)
{
    for (unsigned id = 1; id < VS_CONTEXT_UNKNOWN; id++) {
        uintptr_t seen = (uintptr_t)context;
        atomic_compare_exchange_strong_explicit(&owner[id], &seen, 0, memory_order_relaxed,
                                                memory_order_relaxed);
    }
}

void vs_context_ids_begin(void)
{
    for (unsigned id = 0; id < VS_CONTEXT_UNKNOWN; id++)
        atomic_store_explicit(&owner[id], 0, memory_order_relaxed);
    atomic_store_explicit(&rows, 0, memory_order_relaxed);
}
