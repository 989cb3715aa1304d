/*
 * access.c - finds the allocation that a row of the journal's table of accesses belongs to.
 *
 * The free of a tracked block names its row (event.stack).  A block that still lives is found by its address
 * and the time of its allocation, a pair that is unique.
 */
#include "internal.h"

/* E has ended A (NULL: nothing that is known). */
void vs_access_ended(struct vs_ledger *l, const struct vs_event *e, const struct vs_alloc *a)
{
    struct vs_access_ended end = {.alloc_seq = a ? a->seq : 0, .t = a ? a->t : 0, .id = e->stack};
    if (e->stack == 0 || l->restoring || !l->config.access_of ||
        !l->config.access_of(l->config.context, e->stack, &end.row))
        return;
    l->has_accesses = true;
    if (l->level >= 2) /* its row of ev is not written either */
        end.alloc_seq = 0;
    vs_list_push(&l->out->accesses, l->out->no_memory, end);
}

/* The free of A failed, so A lives on, but its accesses are no longer tracked: what was recorded at that
 * free may be incomplete. */
void vs_access_doubted(struct vs_ledger *l, const struct vs_alloc *a)
{
    struct vs_access_ended end = {
        .alloc_seq = a->seq,
        .t = a->t,
        .row = {.kinds = VS_ACCESS_PARTIAL, .is_block = a->op == VS_OP_BLOCK_ALLOC, .born_step = 1}};
    if (!l->restoring && l->has_accesses)
        vs_list_push(&l->out->accesses, l->out->no_memory, end);
}

uint64_t vs_ledger_access_seq(const struct vs_ledger *l, const struct vs_access_row *row, int64_t *t)
{
    const struct vs_table *table = row->is_block ? &l->blocks : &l->allocs;
    uint32_t index = vs_table_get(table, row->address);
    if (index == VS_TABLE_NONE)
        return 0;
    const struct vs_alloc *a = &l->entries.at[index].a;
    *t = a->t;
    return a->t == (int64_t)row->born_ns - l->config.start_ns ? a->seq : 0;
}
