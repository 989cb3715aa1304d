/*
 * handle_table.h - tables from a handle of the driver's (context, pool, executable graph) to what is known of
 * it.
 *
 * A table is a zeroed static array of slots, each of which begins with its key, an _Atomic uintptr_t.  A slot
 * is claimed by one compare-and-swap and never moves, so nothing here takes a lock or allocates, and any
 * thread may ask at any time.  All accesses are relaxed: they are about the key alone, and whoever keeps more
 * than one word beside it publishes that himself.
 */
#ifndef VS_HOOKS_HANDLE_TABLE_H
#define VS_HOOKS_HANDLE_TABLE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The key of a slot whose handle was destroyed: no handle has this value. */
#define VS_HANDLE_GONE ((uintptr_t)1)

/* The slot that holds HANDLE, or with CLAIM one that becomes its own; NULL where there is none in the PROBES
 * slots that may hold it.  SLOTS has COUNT slots of SIZE bytes.  A slot that is claimed may have been
 * another's: its other members are as they were left.  With CLAIM the first slot that is free is taken,
 * though a later one may hold the handle; who does not know that none does asks without first.  Two threads
 * that claim for one handle at once may leave two slots, of which one is never found again. */
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
