/* alloc.c - driver allocations and their frees. */
#include "internal.h"

/* Whether the allocation counts as direct so far and may turn out to be managed. */
static bool carvable(const struct vs_alloc *a)
{
    return (a->space == VS_SPACE_DEVICE || a->space == VS_SPACE_ARENA) && !a->managed;
}

static void end_direct_span(struct vs_ledger *l, const struct vs_alloc *a)
{
    if (carvable(a))
        vs_spans_remove(&l->direct_spans, a->address);
}

static void end_missed(struct vs_ledger *l, const struct vs_event *e)
{
    uint32_t old = vs_table_remove(&l->allocs, e->address);
    if (old == VS_TABLE_NONE)
        return;
    end_direct_span(l, &l->entries.at[old].a);
    vs_emit_end(l, e, VS_OP_FREE_MISSED, old);
}

static void keep(struct vs_ledger *l, const struct entry *e, uint64_t seq, int64_t t)
{
    uint32_t index = vs_entry_add(l, &l->allocs, e, seq);
    if (index == VS_TABLE_NONE)
        return;
    vs_account(l, &e->a, true, seq, t);
    if (carvable(&e->a))
        vs_spans_insert(&l->direct_spans, e->a.address, e->a.address + e->a.size, index);
}

/* An import that is opened again gives the address that it has: one more reference (row PHYS_RETAIN), which
 * its closes give back (PHYS_RELEASE) before the last one ends it. */
static bool opened_again(struct vs_ledger *l, const struct vs_event *e)
{
    struct vs_row r;
    uint32_t index = vs_table_get(&l->allocs, e->address);
    if (e->space != VS_SPACE_IMPORTED || e->status != 0 || index == VS_TABLE_NONE ||
        l->entries.at[index].a.space != VS_SPACE_IMPORTED)
        return false;
    l->entries.at[index].refs++;
    vs_row_begin(l, &r, e);
    r.op = VS_OP_PHYS_RETAIN;
    r.size = 0;
    r.mate = l->entries.at[index].a.seq;
    vs_row_end(l, &r);
    return true;
}

static bool closed_not_last(struct vs_ledger *l, const struct vs_event *e)
{
    struct vs_row r;
    uint32_t index = vs_table_get(&l->allocs, e->address);
    if (index == VS_TABLE_NONE || l->entries.at[index].a.space != VS_SPACE_IMPORTED ||
        l->entries.at[index].refs == 0)
        return false;
    l->entries.at[index].refs--;
    vs_row_begin(l, &r, e);
    r.op = VS_OP_PHYS_RELEASE;
    r.status = 0;
    r.size = 0;
    r.space = VS_SPACE_IMPORTED;
    r.device = l->entries.at[index].a.device;
    r.mate = l->entries.at[index].a.seq;
    vs_undo_add(l, &r, e->address)->entry = l->entries.at[index];
    vs_row_end(l, &r);
    return true;
}

void vs_apply_alloc(struct vs_ledger *l, const struct vs_event *e, enum vs_managed managed)
{
    struct vs_row r;
    if (opened_again(l, e))
        return;
    if (e->status == 0)
        end_missed(l, e);
    vs_row_begin(l, &r, e);
    r.managed = managed;
    if (e->status == 0) {
        struct entry entry;
        vs_entry_from(&r, &entry);
        keep(l, &entry, r.seq, r.t);
    } else {
        vs_count(l, e->device, VS_COUNT_FAILED_ALLOC);
    }
    vs_row_end(l, &r);
}

void vs_apply_free(struct vs_ledger *l, const struct vs_event *e)
{
    struct vs_row r;
    struct undo *u;
    if (closed_not_last(l, e))
        return;
    vs_row_begin(l, &r, e);
    r.status = 0; /* the call has not happened yet */
    uint32_t index = vs_table_remove(&l->allocs, e->address);
    if (index == VS_TABLE_NONE) {
        u = vs_unknown_free(l, &r, e->address);
    } else {
        struct entry entry = l->entries.at[index];
        r.mate = entry.a.seq;
        r.size = entry.a.size;
        r.space = entry.a.space;
        r.device = entry.a.device;
        r.managed = entry.a.managed;
        u = vs_undo_add(l, &r, e->address);
        u->entry = entry;
        end_direct_span(l, &entry.a);
        vs_account(l, &entry.a, false, r.seq, r.t);
        vs_entry_remove(l, index);
    }
    vs_access_ended(l, e, index != VS_TABLE_NONE ? &u->entry.a : NULL);
    vs_row_end(l, &r);
    if (r.space == VS_SPACE_ARRAY)
        vs_bind_object_gone(l, e, u, e->address);
}

/* Takes an ALLOC out of its look-ups; its end is the caller's. */
void vs_alloc_drop(struct vs_ledger *l, uint32_t index)
{
    const struct vs_alloc *a = &l->entries.at[index].a;
    if (vs_table_get(&l->allocs, a->address) == index)
        vs_table_remove(&l->allocs, a->address);
    end_direct_span(l, a);
}

/* Restores E, which had been ended by a call that failed or with its context, unless its address was handed
 * out again meanwhile. */
void vs_alloc_restore_ended(struct vs_ledger *l, const struct entry *e, uint64_t seq, int64_t t)
{
    if (vs_table_get(&l->allocs, e->a.address) != VS_TABLE_NONE)
        return;
    keep(l, e, seq, t);
}
