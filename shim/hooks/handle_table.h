/*
 * handle_table.h - hash tables with handles of the driver's as keys (context, pool, executable graph).
 *
 * A table is a zeroed static array of slots, each of which begins with its key, an _Atomic uintptr_t.  A slot
 * is claimed by one compare-and-swap and never moves: no lock, no allocation, any thread.  All accesses are
 * relaxed: after a look-up only the key is sure.  A word beside it has to be atomic, and may not be stored
 * yet; a user with several publishes these itself.
 */
#ifndef VS_HOOKS_HANDLE_TABLE_H
#define VS_HOOKS_HANDLE_TABLE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The key of a slot whose handle was destroyed: no handle has this value. */
#define VS_HANDLE_GONE ((uintptr_t)1)

/* The slot of HANDLE or, with CLAIM, a slot that is claimed for it; NULL: none of the PROBES slots that may
 * have it.  SLOTS has COUNT slots of SIZE bytes.  A claimed slot may have been used before; its other
 * members are as its last user left them.  With CLAIM the first slot that is free is taken, though a later
 * one may hold the handle; so search without CLAIM first unless the handle is new.  Two threads that claim
 * for one handle at once may leave two slots, of which one is never found again. */
static inline void *vs_handle_slot(void *slots, size_t size, uint32_t count, uint32_t probes,
                                   const void *handle, bool claim)
{
    uintptr_t key = (uintptr_t)handle;
    for (uint32_t i = 0, at = (uint32_t)((key >> 4) * 2654435761u); i < probes; i++, at++) {
        void *slot = (char *)slots + at % count * size;
        _Atomic uintptr_t *held = slot;
        uintptr_t seen = atomic_load_explicit(held, memory_order_relaxed);
        if (claim && (seen == 0 || seen == VS_HANDLE_GONE) &&
            atomic_compare_exchange_strong_explicit(held, &seen, key, memory_order_relaxed,
                                                    memory_order_relaxed))
            return slot;
        if (seen == key) /* found, or claimed for the same handle by another thread just now */
            return slot;
        if (!claim && seen == 0)
            return NULL;
    }
    return NULL;
}

#endif
