/*
 * access.c - hands out the rows that record when the device was given a block, and takes them back.
 *
 * A block keeps its row from its birth until the row's contents are committed to the database: the event of
 * the free names the row (field `stack`), and the writer gives it back after the commit.  So the journal of
 * a killed process still has the row of every block that lives, or was freed and is not written yet.
 *
 *      take() --> born, used, used, ... --> free, in the ring --> written, committed --> give()
 *
 * Vacant rows form a list through their `next`, whose head lies in the owner's private memory.  The upper
 * half of the head counts changes, so that a compare-and-swap fails when the same row was taken and given
 * back meanwhile (ABA).  Rows that were never taken are handed out in order.  No lock, no allocation; any
 * thread and any signal handler.
 */
#include "format.h"

struct vs_access_row *vs_journal_access(const struct vs_journal *j, uint32_t id)
{
    if (id == 0 || id >= j->capacity[VS_SEC_ACCESSES])
        return NULL;
    return vs_journal_row(j, VS_SEC_ACCESSES, sizeof(struct vs_access_row), id);
}

uint32_t vs_journal_access_rows(const struct vs_journal *j)
{
    uint64_t rows = atomic_load_explicit(&j->header->rows[VS_SEC_ACCESSES], memory_order_relaxed);
    return (uint32_t)(rows < j->capacity[VS_SEC_ACCESSES] ? rows : j->capacity[VS_SEC_ACCESSES]);
}

static uint32_t take_new(struct vs_journal *j)
{
    _Atomic uint64_t *rows = &j->header->rows[VS_SEC_ACCESSES];
    /* Relaxed: the counter only hands out numbers.  It stops at the capacity, so that it never wraps. */
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
    /* Acquire, pairs with give(): the row's last user has finished reading it before we write to it. */
    uint64_t head = atomic_load_explicit(&j->vacant, memory_order_acquire);
    for (;;) {
        struct vs_access_row *row = vs_journal_access(j, (uint32_t)head);
        if (row == NULL)
            return take_new(j);
        /* If another thread takes the row meanwhile this may be any number; the swap then fails. */
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
        /* Release: our reads of the row come before the writes of its next user. */
    } while (!atomic_compare_exchange_weak_explicit(&j->vacant, &head, now, memory_order_release,
                                                    memory_order_relaxed));
}
