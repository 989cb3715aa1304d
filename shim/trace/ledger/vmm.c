/*
 * vmm.c - virtual memory management: physical handles, mappings, reservations.
 *
 * Physical memory lives from its creation until its last handle reference and its last mapping have ended:
 *
 *      create   refs 1                      reserved +size
 *      map      refs 1  maps 1
 *      release  refs 0  maps 1              still there
 *      unmap    refs 0  maps 0              reserved -size, row PHYS_FREED
 *
 * A PHYS_RELEASE row has the bytes that it freed: 0 while a reference or a mapping is left.  The driver may
 * reuse the value of a handle once refs is 0, so the entry leaves the look-up by handle then.
 */
#include "internal.h"

static struct entry *entry_at(struct vs_ledger *l, uint32_t index)
{
    return &l->entries.at[index];
}

static void forget_handles(struct vs_ledger *l, uint32_t index)
{
    struct entry *e = entry_at(l, index);
    if (vs_table_get(&l->handles, e->a.address) == index)
        vs_table_remove(&l->handles, e->a.address);
    if (e->alias && vs_table_get(&l->handles, e->alias) == index)
        vs_table_remove(&l->handles, e->alias);
}

/* Adds the entry of physical memory, under its handle. */
static uint32_t keep_phys(struct vs_ledger *l, const struct entry *e, uint64_t seq, int64_t t)
{
    uint32_t index = vs_entry_add(l, &l->handles, e, l->seq);
    if (index == VS_TABLE_NONE)
        return index;
    vs_account(l, &e->a, true, seq, t);
    if (vs_table_put(&l->phys_seq, e->a.seq, index) < 0)
        vs_count(l, e->a.device, VS_COUNT_NO_MEMORY);
    return index;
}

static bool on_host(const struct vs_event *e)
{
    return e->space == VS_SPACE_HOST_VMM || (e->arg0 >> 32) >= 2; /* CU_MEM_LOCATION_TYPE_HOST and kin */
}

static void end_missed(struct vs_ledger *l, const struct vs_event *e)
{
    uint32_t old = vs_table_remove(&l->handles, e->address);
    if (old == VS_TABLE_NONE)
        return;
    struct entry *entry = entry_at(l, old);
    if (entry->maps) { /* its mappings keep it alive, without a handle */
        entry->refs = 0;
        return;
    }
    vs_table_remove(&l->phys_seq, entry->a.seq);
    vs_emit_end(l, e, VS_OP_FREE_MISSED, old);
}

static void apply_create(struct vs_ledger *l, const struct vs_event *e, enum vs_managed managed)
{
    struct vs_row r;
    if (e->status == 0)
        end_missed(l, e);
    vs_row_begin(l, &r, e);
    r.managed = managed;
    r.space = on_host(e)                                                        ? VS_SPACE_HOST_VMM
              : e->space == VS_SPACE_IMPORTED || e->space == VS_SPACE_MULTICAST ? e->space
                                                                                : VS_SPACE_DEVICE;
    if (e->status == 0) {
        struct entry entry;
        vs_entry_from(&r, &entry);
        entry.refs = 1;
        keep_phys(l, &entry, r.seq, r.t);
    } else {
        vs_count(l, e->device, VS_COUNT_FAILED_ALLOC);
    }
    vs_row_end(l, &r);
}

/* Adds memory of another process, or memory whose creation was not recorded: known from here on, and in no
 * total. */
static uint32_t add_import(struct vs_ledger *l, struct vs_row *r)
{
    struct entry entry;
    r->space = VS_SPACE_IMPORTED;
    vs_entry_from(r, &entry);
    entry.a.size = 0;
    entry.refs = 1;
    return keep_phys(l, &entry, r->seq, r->t);
}

uint32_t vs_phys_mapped_at(struct vs_ledger *l, uint64_t address)
{
    const struct vs_span *span = address ? vs_spans_at(&l->maps, address) : NULL;
    return span ? span->value : VS_TABLE_NONE;
}

static void add_handle(struct vs_ledger *l, uint32_t index, uint64_t handle)
{
    struct entry *e = entry_at(l, index);
    if (e->a.address != handle)
        e->alias = handle;
    if (vs_table_put(&l->handles, handle, index) < 0)
        vs_count(l, e->a.device, VS_COUNT_NO_MEMORY);
}

static void apply_retain(struct vs_ledger *l, const struct vs_event *e, uint64_t restored_mate)
{
    struct vs_row r;
    vs_row_begin(l, &r, e);
    if (e->status == 0) {
        uint32_t index = vs_table_get(&l->handles, e->address);
        if (index == VS_TABLE_NONE)
            index = restored_mate ? vs_table_get(&l->phys_seq, restored_mate) : vs_phys_mapped_at(l, e->arg0);
        if (index == VS_TABLE_NONE) {
            index = add_import(l, &r);
        } else {
            add_handle(l, index, e->address);
            entry_at(l, index)->refs++;
            r.space = entry_at(l, index)->a.space;
            r.device = entry_at(l, index)->a.device;
        }
        r.mate = index == VS_TABLE_NONE ? 0 : entry_at(l, index)->a.seq;
    }
    vs_row_end(l, &r);
}

/* Removes the entry from every look-up; the caller updates the totals. */
void vs_phys_drop(struct vs_ledger *l, uint32_t index)
{
    forget_handles(l, index);
    vs_table_remove(&l->phys_seq, entry_at(l, index)->a.seq);
}

static void apply_release(struct vs_ledger *l, const struct vs_event *e)
{
    struct vs_row r;
    bool gone = false;
    vs_row_begin(l, &r, e);
    r.status = 0;
    r.size = 0;
    uint32_t index = vs_table_get(&l->handles, e->address);
    if (index == VS_TABLE_NONE) {
        vs_unknown_free(l, &r, e->address);
        vs_row_end(l, &r);
        return;
    }
    struct entry *entry = entry_at(l, index);
    r.mate = entry->a.seq;
    r.space = entry->a.space;
    r.device = entry->a.device;
    r.managed = entry->a.managed;
    struct undo *u = vs_undo_add(l, &r, e->address);
    u->entry = *entry;
    entry->refs -= entry->refs > 0;
    if (entry->refs == 0 && entry->maps == 0) {
        r.size = entry->a.size;
        vs_account(l, &entry->a, false, r.seq, r.t);
        gone = true;
        vs_phys_drop(l, index);
        vs_entry_remove(l, index);
    } else if (entry->refs == 0) {
        forget_handles(l, index);
    }
    vs_row_end(l, &r);
    if (gone && r.space == VS_SPACE_MULTICAST)
        vs_bind_object_gone(l, e, u, e->address);
}

/* ---- mappings ---- */

static bool direct(const struct entry *e)
{
    return e->a.space == VS_SPACE_DEVICE && !e->a.managed;
}

static void add_map(struct vs_ledger *l, uint64_t start, uint64_t end, uint32_t index)
{
    if (vs_spans_insert(&l->maps, start, end, index) < 0) {
        vs_count(l, entry_at(l, index)->a.device, VS_COUNT_NO_MEMORY);
        return;
    }
    entry_at(l, index)->maps++;
    if (direct(entry_at(l, index)))
        vs_spans_insert(&l->direct_spans, start, end, index);
}

static bool managed(const struct entry *e)
{
    return e->a.space == VS_SPACE_DEVICE && e->a.managed == VS_MANAGED;
}

/* A reservation holds either only memory of a caching allocator or none.  So one piece that is known to be
 * the allocator's decides for everything that is mapped in the reservation. */
static void learn_from_reservation(struct vs_ledger *l, const struct vs_event *e, uint32_t index)
{
    const struct vs_span *home = vs_spans_at(&l->reservations, e->address);
    if (home && home->value && direct(entry_at(l, index)) && !l->restoring)
        vs_reclassify(l, e, index);
    if (managed(entry_at(l, index)))
        vs_reservation_managed(l, e, e->address);
}

/* The physical memory of HANDLE, or, from a row of the database, the one that row RESTORED_MATE created. */
uint32_t vs_phys_of(struct vs_ledger *l, uint64_t handle, uint64_t restored_mate)
{
    return restored_mate ? vs_table_get(&l->phys_seq, restored_mate) : vs_table_get(&l->handles, handle);
}

static void apply_map(struct vs_ledger *l, const struct vs_event *e, uint64_t restored_mate)
{
    struct vs_row r;
    uint32_t index = vs_phys_of(l, e->arg0, restored_mate);
    bool ok = e->status == 0 && index != VS_TABLE_NONE;
    if (ok)
        learn_from_reservation(l, e, index);
    vs_row_begin(l, &r, e);
    if (ok) {
        r.mate = entry_at(l, index)->a.seq;
        r.space = entry_at(l, index)->a.space;
        r.device = entry_at(l, index)->a.device;
        add_map(l, e->address, e->address + e->size, index);
    }
    vs_row_end(l, &r);
}

/* A mapping or binding of the entry ended.  U, if not NULL, remembers whether the memory ended with it. */
void vs_phys_unheld(struct vs_ledger *l, const struct vs_event *cause, struct undo *u, uint32_t index)
{
    struct entry *entry = entry_at(l, index), was = *entry;
    entry->maps--;
    if (entry->maps != 0 || entry->refs != 0)
        return;
    vs_phys_drop(l, index);
    vs_emit_end(l, cause, VS_OP_PHYS_FREED, index);
    if (u)
        vs_undo_ended(l, u, &was, l->seq);
}

static void unmap_one(struct vs_ledger *l, const struct vs_event *e, struct undo *u,
                      const struct vs_span *span)
{
    uint32_t index = span->value;
    uint64_t start = span->start;
    vs_undo_map(l, u, span->start, span->end, index);
    if (direct(entry_at(l, index)))
        vs_spans_remove(&l->direct_spans, start);
    vs_spans_remove(&l->maps, start);
    vs_phys_unheld(l, e, u, index);
}

/* An unmap ends every mapping that lies in its range. */
static void apply_unmap(struct vs_ledger *l, const struct vs_event *e)
{
    struct vs_row r;
    uint64_t end = e->address + e->size;
    vs_row_begin(l, &r, e);
    r.status = 0;
    const struct vs_span *span = vs_spans_from(&l->maps, e->address);
    if (span && span->start < end) {
        r.space = entry_at(l, span->value)->a.space;
        r.device = entry_at(l, span->value)->a.device;
    }
    vs_row_end(l, &r);
    struct undo *u = vs_undo_add(l, &r, e->address);
    while ((span = vs_spans_from(&l->maps, e->address)) && span->start < end)
        unmap_one(l, e, u, span);
}

/* ---- reservations and the rest ---- */

static void apply_reservation(struct vs_ledger *l, const struct vs_event *e)
{
    struct vs_row r;
    vs_row_begin(l, &r, e);
    r.space = VS_SPACE_ADDRESS;
    if (e->op == VS_OP_VA_RESERVE && e->status == 0)
        vs_spans_insert(&l->reservations, e->address, e->address + e->size, 0);
    if (e->op == VS_OP_VA_FREE) {
        r.status = 0;
        vs_undo_add(l, &r, e->address)->end = e->address + e->size;
        vs_spans_remove(&l->reservations, e->address);
    }
    vs_row_end(l, &r);
}

void vs_apply_vmm(struct vs_ledger *l, const struct vs_event *e, enum vs_managed managed,
                  uint64_t restored_mate)
{
    struct vs_row r;
    switch (e->op) {
    case VS_OP_PHYS_CREATE:
        apply_create(l, e, managed);
        break;
    case VS_OP_PHYS_RETAIN:
        apply_retain(l, e, restored_mate);
        break;
    case VS_OP_PHYS_RELEASE:
        apply_release(l, e);
        break;
    case VS_OP_MAP:
        apply_map(l, e, restored_mate);
        break;
    case VS_OP_UNMAP:
        apply_unmap(l, e);
        break;
    case VS_OP_VA_RESERVE:
    case VS_OP_VA_FREE:
        apply_reservation(l, e);
        break;
    default:
        vs_row_begin(l, &r, e);
        vs_row_end(l, &r);
    }
}

/* ---- calls that failed ---- */

/* Restores the mapping SAVED; its entry lives again if it had ended. */
uint32_t vs_phys_revive(struct vs_ledger *l, const struct entry *saved)
{
    uint32_t index = vs_table_get(&l->phys_seq, saved->a.seq);
    if (index != VS_TABLE_NONE)
        return index;
    struct entry entry = *saved;
    entry.refs = entry.maps = 0;
    return keep_phys(l, &entry, saved->a.seq, saved->a.t);
}

void vs_vmm_undo_release(struct vs_ledger *l, struct undo *u)
{
    uint32_t index = vs_phys_revive(l, &u->entry);
    if (index == VS_TABLE_NONE)
        return;
    entry_at(l, index)->refs++;
    add_handle(l, index, u->address);
}

void vs_vmm_undo_unmap(struct vs_ledger *l, struct undo *u)
{
    for (size_t i = 0; i < u->n_maps; i++) {
        const struct saved_map *m = &u->maps[i];
        uint32_t index = vs_phys_revive(l, &m->phys);
        if (index == VS_TABLE_NONE)
            continue;
        if (entry_at(l, index)->refs == 0) /* keep_phys put the dead handle back into the look-up */
            forget_handles(l, index);
        add_map(l, m->start, m->end, index);
    }
}
