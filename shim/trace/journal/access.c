/*
 * access.c - the rows that say when the device was given a block: handed out, and taken back.
 *
 * A row is its block's from its birth until what it says has been committed to the database: the free names
 * the row in its event (field `stack`), and the writer gives it back behind the commit.  So a process that is
 * killed leaves in its journal what is known of every block, living or freed and not yet written.
 *
 *      take() --> born, used, used, ... --> free, in the ring --> written, committed --> give()
 *
 * Vacant rows are a list through their `next`, with a count of changes in the upper half of its head, so that
 * a head that comes back is told from one that stayed (the list is the owner's, in private memory).  Rows
 * that were never taken are handed out in order.  No lock, no allocation; any thread and any signal handler.
 */
#include "format.h"

struct vs_access_row *vs_journal_access(const struct vs_journal *j, uint32_t id)
{
    if (id == 0 || id >= j->capacity[VS_SEC_ACCESSES])
        return NULL;
    return vs_journal_row(j, VS_SEC_ACCESSES, sizeof(struct vs_access_row), id);
}

_Atomic uint32_t *vs_journal_access_reached(const struct vs_journal *j)
{
    struct vs_access_row *none = vs_journal_row(j, VS_SEC_ACCESSES, sizeof *none, 0);
    return (_Atomic uint32_t *)&none->reach;
}

uint32_t vs_journal_access_rows(const struct vs_journal *j)
{
    uint64_t rows = atomic_load_explicit(&j->header->rows[VS_SEC_ACCESSES], memory_order_relaxed);
    return (uint32_t)(rows < j->capacity[VS_SEC_ACCESSES] ? rows : j->capacity[VS_SEC_ACCESSES]);
}

static uint32_t take_new(struct vs_journal *j)
{
    _Atomic uint64_t *rows = &j->header->rows[VS_SEC_ACCESSES];
    /* Relaxed: it hands out numbers.  It stops at the capacity, so that it never wraps. */
    uint64_t id = atomic_load_explicit(rows, memory_order_relaxed);
    do {
        if (id >= j->capacity[VS_SEC_ACCESSES])
            return 0;
    } while (!atomic_compare_exchange_weak_explicit(rows, &id, id + 1, memory_order_relaxed,
                                                    memory_order_relaxed));
    return (uint32_t)id;
}

uint32_t vs_journal_access_take(struct vs_journal *j)
{
    /* Acquire: pairs with give(); what its last user read of the row was read before we write. */
    uint64_t head = atomic_load_explicit(&j->vacant, memory_order_acquire);
    for (;;) {
        struct vs_access_row *row = vs_journal_access(j, (uint32_t)head);
        if (row == NULL)
            return take_new(j);
        /* Of a row that another thread takes meanwhile this is any number, and the swap fails. */
        uint64_t next = __atomic_load_n(&row->next, __ATOMIC_RELAXED) | ((head >> 32) + 1) << 32;
        if (atomic_compare_exchange_weak_explicit(&j->vacant, &head, next, memory_order_acquire,
                                                  memory_order_acquire))
            return (uint32_t)head;
    }
}

void vs_journal_access_give(struct vs_journal *j, uint32_t id)
{
    struct vs_access_row *row = vs_journal_access(j, id);
    if (row == NULL || !j->writable)
        return;
    __atomic_store_n(&row->address, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&row->end, 0, __ATOMIC_RELAXED);
    uint64_t head = atomic_load_explicit(&j->vacant, memory_order_relaxed), now;
    do {
        __atomic_store_n(&row->next, (uint32_t)head, __ATOMIC_RELAXED);
        now = id | ((head >> 32) + 1) << 32;
        /* Release: what was read of the row was read before the next block's birth writes it. */
    } while (!atomic_compare_exchange_weak_explicit(&j->vacant, &head, now, memory_order_release,
                                                    memory_order_relaxed));
}
