/*
 * alloc.c - driver allocations and their frees, frees that failed, pools.
 *
 * A free is recorded before the real call, so it counts at once; FREE_FAILED takes it back.  For that the
 * last VS_UNDO frees, and older ones whose call may be under way, are remembered whole, found by the ring's
 * sequence, or, across a recover, by row, or by address and thread.
 */
#include "internal.h"

/* ---- remembered frees ---- */

/* Whether the call that U stands before may not have returned: its thread has recorded nothing since, or only
 * what the same call may end.  Another thread can free thousands meanwhile. */
static bool under_way(const struct vs_ledger *l, const struct undo *u)
{
    const struct passage *p = &l->passage[u->thread];
    return u->op && u->ring_seq && u->ring_seq > p->other && p->ends - u->number < VS_UNDO_CALL;
}

/* The oldest that can be forgotten; where none can, the oldest. */
static struct undo *vacant_undo(struct vs_ledger *l)
{
    for (int i = 0; i < VS_UNDO; i++) {
        struct undo *u = &l->undo[l->undo_next++ % VS_UNDO];
        if (!under_way(l, u))
            return u;
    }
    return &l->undo[l->undo_next++ % VS_UNDO];
}

struct undo *vs_undo_add(struct vs_ledger *l, const struct vs_row *r, uint64_t address)
{
    struct undo *u = vacant_undo(l);
    free(u->maps);
    free(u->ended);
    *u = (struct undo){.ring_seq = l->current_ring_seq,
                       .seq = r->seq,
                       .address = address,
                       .number = ++l->passage[r->thread].ends,
                       .thread = r->thread,
                       .op = r->op};
    return u;
}

/* Remembers that ENTRY ended with U, and the row that said so: a failed call needs it. */
void vs_undo_ended(struct vs_ledger *l, struct undo *u, const struct entry *entry, uint64_t seq)
{
    struct ended *more = realloc(u->ended, (u->n_ended + 1) * sizeof *more);
    if (!more) {
        vs_count(l, entry->a.device, VS_COUNT_NO_MEMORY);
        return;
    }
    u->ended = more;
    u->ended[u->n_ended++] = (struct ended){*entry, seq};
}

/* The same of a mapping or binding of the physical memory PHYS. */
void vs_undo_map(struct vs_ledger *l, struct undo *u, uint64_t start, uint64_t end, uint32_t phys)
{
    const struct entry *entry = &l->entries.at[phys];
    struct saved_map *more = realloc(u->maps, (u->n_maps + 1) * sizeof *more);
    if (!more) {
        vs_count(l, entry->a.device, VS_COUNT_NO_MEMORY);
        return;
    }
    u->maps = more;
    u->maps[u->n_maps++] = (struct saved_map){start, end, *entry};
}

static bool undo_matches(const struct undo *u, uint64_t ring_seq, uint64_t seq, uint64_t address,
                         uint16_t thread)
{
    if (!u->op)
        return false;
    if (seq)
        return u->seq == seq;
    /* replayed frees (after a kill) have no ring sequence: the newest of that address on its thread is meant
     */
    return u->ring_seq ? u->ring_seq == ring_seq : u->address == address && u->thread == thread;
}

/* Newest first, but for those that were passed over while they were under way: of several by address the one
 * with the highest row is the newest. */
struct undo *vs_undo_find(struct vs_ledger *l, uint64_t ring_seq, uint64_t seq, uint64_t address,
                          uint16_t thread)
{
    uint64_t oldest = l->undo_next > VS_UNDO ? l->undo_next - VS_UNDO : 0;
    struct undo *found = NULL;
    for (uint64_t i = l->undo_next; i-- > oldest;) {
        struct undo *u = &l->undo[i % VS_UNDO];
        if (!undo_matches(u, ring_seq, seq, address, thread))
            continue;
        if (seq || u->ring_seq)
            return u;
        if (!found || u->seq > found->seq)
            found = u;
    }
    return found;
}

/* ---- rows of the ledger's own that end an allocation ---- */

/* Ends entry INDEX with a row OP (FREE_MISSED, PHYS_FREED) in the name of CAUSE's thread.  The tables that
 * point at the entry are the caller's to clean. */
void vs_emit_end(struct vs_ledger *l, const struct vs_event *cause, uint8_t op, uint32_t index)
{
    struct vs_alloc a = l->entries.at[index].a;
    struct vs_event e = *cause;
    e.op = op;
    e.address = a.address;
    e.size = a.size;
    e.space = a.space;
    e.device = a.device;
    e.stack = 0;
    e.status = 0;
    struct vs_row r;
    vs_row_begin(l, &r, &e);
    r.mate = a.seq;
    vs_account(l, &a, false, r.seq, r.t);
    vs_entry_remove(l, index);
    if (op == VS_OP_FREE_MISSED) {
        vs_count(l, a.device, VS_COUNT_FREE_MISSED);
        vs_mismatch(l, &r, VS_MISMATCH_FREE_MISSED, a.size, 0);
    }
    vs_row_end(l, &r);
}

/* Direct so far, and a caching allocator may turn out to carve it. */
static bool carvable(const struct vs_alloc *a)
{
    return (a->space == VS_SPACE_DEVICE || a->space == VS_SPACE_ARENA) && !a->managed;
}

static void end_direct_span(struct vs_ledger *l, const struct vs_alloc *a)
{
    if (carvable(a))
        vs_spans_remove(&l->direct_spans, a->address);
}

/* ---- alloc, free ---- */

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

/* A free of what the ledger does not know: made before the recording or in a closed window, or nobody's at
 * all. The driver refuses the last kind, and then it was no free: remembered without an entry. */
struct undo *vs_unknown_free(struct vs_ledger *l, struct vs_row *r, uint64_t address)
{
    r->size = 0;
    vs_count(l, r->device, VS_COUNT_UNKNOWN_FREE);
    return vs_undo_add(l, r, address);
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

/* ---- a free that failed ---- */

static void undo_free(struct vs_ledger *l, struct undo *u, const struct vs_row *r)
{
    if (vs_table_get(&l->allocs, u->address) != VS_TABLE_NONE)
        return; /* handed out again: the free cannot have failed */
    keep(l, &u->entry, r->seq, r->t);
}

/* E, which ended with its context, did not: unless its address was handed out again. */
void vs_alloc_restore_ended(struct vs_ledger *l, const struct entry *e, uint64_t seq, int64_t t)
{
    if (vs_table_get(&l->allocs, e->a.address) != VS_TABLE_NONE)
        return;
    keep(l, e, seq, t);
}

static void undo_va_free(struct vs_ledger *l, struct undo *u)
{
    vs_spans_insert(&l->reservations, u->address, u->end, 0);
}

static void undo_known(struct vs_ledger *l, struct undo *u, struct vs_row *r)
{
    r->size = u->entry.a.size;
    r->device = u->entry.a.device;
    r->space = u->entry.a.space;
    uint32_t open = vs_table_get(&l->allocs, u->address);
    if (u->op == VS_OP_FREE)
        undo_free(l, u, r);
    else if (u->entry.a.op == VS_OP_ALLOC && open != VS_TABLE_NONE)
        l->entries.at[open].refs++; /* a close that was not the last */
    else if (u->entry.a.op != VS_OP_ALLOC)
        vs_vmm_undo_release(l, u);
}

/* The rows that ended something in the name of the call are not true either. */
static void amend(struct vs_ledger *l, const struct undo *u, const struct vs_row *r)
{
    if (l->restoring)
        return;
    vs_list_push(&l->out->amends, l->out->no_memory,
                 (struct vs_amend_row){r->mate, r->seq, VS_OP_FREE_FAILED});
    for (size_t i = 0; i < u->n_ended; i++)
        if (u->ended[i].seq)
            vs_list_push(&l->out->amends, l->out->no_memory,
                         (struct vs_amend_row){u->ended[i].seq, r->seq, VS_OP_FREE_FAILED});
}

static void undo(struct vs_ledger *l, struct undo *u, struct vs_row *r)
{
    bool names_memory = u->op == VS_OP_FREE || u->op == VS_OP_PHYS_RELEASE;
    r->mate = u->seq;
    if (names_memory && u->entry.a.op)
        undo_known(l, u, r);
    else if (names_memory)
        vs_uncount(l, r->device, VS_COUNT_UNKNOWN_FREE);
    else if (u->op == VS_OP_UNMAP)
        vs_vmm_undo_unmap(l, u);
    else if (u->op == VS_OP_VA_FREE)
        undo_va_free(l, u);
    else if (u->op == VS_OP_CONTEXT_DESTROY || u->op == VS_OP_MODULE_UNLOAD)
        vs_context_undo(l, u, r);
    if (u->op != VS_OP_UNMAP)
        vs_bind_undo(l, u);
    amend(l, u, r);
    u->op = 0;
}

static uint64_t bit_of(const struct entry *e)
{
    return e->a.device >= 0 && e->a.device < 64 ? 1ull << e->a.device : 0;
}

/* A bit per device on which something came back with U. */
static uint64_t devices_of(const struct undo *u)
{
    uint64_t devices = 0;
    for (size_t i = 0; i < u->n_maps; i++)
        devices |= bit_of(&u->maps[i].phys);
    for (size_t i = 0; i < u->n_ended; i++)
        devices |= bit_of(&u->ended[i].entry);
    return devices;
}

/* One row for each device whose totals the failure changed: an unmap or a context's end may span several. */
void vs_apply_free_failed(struct vs_ledger *l, const struct vs_event *e)
{
    struct vs_row r;
    vs_row_begin(l, &r, e);
    vs_count(l, e->device, VS_COUNT_FAILED_FREE);
    struct undo *u = vs_undo_find(l, e->arg0, l->restoring ? e->arg1 : 0, e->address, e->thread);
    uint64_t devices = u ? devices_of(u) : 0, mate;
    if (u)
        undo(l, u, &r);
    if (r.device < 0 && devices)
        r.device = (int8_t)__builtin_ctzll(devices);
    if (r.device >= 0)
        devices &= ~(1ull << r.device);
    vs_row_end(l, &r);
    for (mate = r.mate; devices; devices &= devices - 1) {
        vs_row_begin(l, &r, e);
        r.mate = mate;
        r.device = (int8_t)__builtin_ctzll(devices);
        vs_row_end(l, &r);
    }
}

/* ---- pools ---- */

void vs_apply_pool(struct vs_ledger *l, const struct vs_event *e)
{
    struct vs_row r;
    vs_row_begin(l, &r, e);
    uint32_t index = vs_table_get(&l->pools, e->address);
    if (index == VS_TABLE_NONE) {
        uint64_t failed = 0;
        index = (uint32_t)l->pool.n;
        vs_list_push(&l->pool, failed, (struct pool_sample){0, e->device, e->space == VS_SPACE_GRAPH});
        if (failed || vs_table_put(&l->pools, e->address, index) < 0) {
            vs_count(l, e->device, VS_COUNT_NO_MEMORY);
            vs_row_end(l, &r);
            return;
        }
    }
    struct pool_sample *p = &l->pool.at[index];
    struct device *d = vs_device(l, p->device);
    int device = p->device;
    uint64_t old = p->bytes;
    *(p->graph ? &d->graph_sampled : &d->pool_sampled) += e->size - old;
    p->bytes = e->size;
    r.device = (int8_t)device;
    vs_row_end(l, &r);
    vs_context_reserve_told(l, e, device, old);
}
