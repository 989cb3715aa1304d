/* failed.c - a free that failed: everything that it had ended (undo.c) counts again. */
#include "internal.h"

static void undo_known(struct vs_ledger *l, struct undo *u, struct vs_row *r)
{
    r->size = u->entry.a.size;
    r->device = u->entry.a.device;
    r->space = u->entry.a.space;
    uint32_t open = vs_table_get(&l->allocs, u->address);
    if (u->op == VS_OP_FREE) {
        vs_alloc_restore_ended(l, &u->entry, r->seq, r->t);
        vs_access_doubted(l, &u->entry.a);
    } else if (u->entry.a.op == VS_OP_ALLOC && open != VS_TABLE_NONE)
        l->entries.at[open].refs++; /* a close that was not the last */
    else if (u->entry.a.op != VS_OP_ALLOC)
        vs_vmm_undo_release(l, u);
}

/* The rows of other things that ended with the call are void too. */
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
        vs_spans_insert(&l->reservations, u->address, u->end, 0);
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

/* A bit per device on which U restores something. */
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
