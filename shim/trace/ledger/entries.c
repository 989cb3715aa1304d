/*
 * entries.c - the living allocations, what lived at the peak, and what others say of them.
 *
 * What lived at the peak of `allocated` is everything that lives now and was there at the peak (since <=
 * peak_seq), plus everything that was there and ended since (the list `gone`, emptied at each new peak).  So
 * the live set is never copied: a job that grows steadily pays nothing, any other one append per free.
 */
#include "internal.h"

static void mark_fresh(struct vs_ledger *l, uint32_t index, uint8_t fresh)
{
    struct vs_alloc *a = &l->entries.at[index].a;
    if (!l->track_live || a->fresh)
        return;
    uint64_t failed = 0;
    vs_list_push(&l->fresh, failed, index);
    if (!failed)
        a->fresh = fresh;
}

/* fresh: 1 = table live has no row of it yet, 2 = the row has to be written again */
void vs_entry_dirty(struct vs_ledger *l, uint32_t index)
{
    mark_fresh(l, index, 2);
}

static uint32_t take_entry(struct vs_ledger *l)
{
    if (l->vacant) {
        uint32_t index = l->vacant - 1;
        l->vacant = l->entries.at[index].a.next;
        return index;
    }
    if (!vs_list_room((void **)&l->entries.at, l->entries.n, &l->entries.size, sizeof *l->entries.at))
        return VS_TABLE_NONE;
    return (uint32_t)l->entries.n++;
}

static void give_entry(struct vs_ledger *l, uint32_t index)
{
    l->entries.at[index].a.op = 0;
    l->entries.at[index].a.next = l->vacant;
    l->vacant = index + 1;
}

/* Keeps E, which counts from row SINCE on, under its address in TABLE (whose old entry, if any, the caller
 * has ended).  After a failed free an allocation counts from the row that took the free back: between the
 * two it was missing from the totals and so from any peak.  For peaks before the free it stays in the lists
 * `gone`. */
uint32_t vs_entry_add(struct vs_ledger *l, struct vs_table *table, const struct entry *e, uint64_t since)
{
    uint32_t index = take_entry(l);
    if (index != VS_TABLE_NONE && vs_table_put(table, e->a.address, index) < 0) {
        give_entry(l, index);
        index = VS_TABLE_NONE;
    }
    if (index == VS_TABLE_NONE) {
        vs_count(l, e->a.device, VS_COUNT_NO_MEMORY);
        return index;
    }
    l->entries.at[index] = *e;
    l->entries.at[index].a.since = since;
    l->entries.at[index].a.away = 0;
    l->entries.at[index].a.fresh = 0;
    l->live++;
    mark_fresh(l, index, 1);
    return index;
}

/* Called before A leaves `allocated`.  (A replay also passes ends from before the peak; these are
 * ignored.) */
void vs_gone_remember(struct vs_ledger *l, const struct vs_alloc *a)
{
    struct device *d = vs_device(l, a->device);
    uint64_t failed = 0, peak_seq = d->curve[VS_CURVE_ALLOCATED].peak_seq;
    if (l->oom.at.n)
        vs_oom_remember(l, a);
    if (vs_in_allocated(a) && a->since <= peak_seq && l->seq > peak_seq)
        vs_list_push(&d->gone, failed, *a);
    if (failed)
        vs_count(l, a->device, VS_COUNT_NO_MEMORY);
}

void vs_entry_remove(struct vs_ledger *l, uint32_t index)
{
    struct vs_alloc *a = &l->entries.at[index].a;
    uint64_t failed = 0;
    if (l->track_live && a->fresh != 1)
        vs_list_push(&l->out->died, failed, a->seq);
    vs_gone_remember(l, a);
    if (a->away != 0)
        vs_away_ends(l, a);
    l->live--;
    give_entry(l, index);
}

void vs_entry_from(const struct vs_row *r, struct entry *e)
{
    *e = (struct entry){.a = {.seq = r->seq,
                              .address = r->address,
                              .size = r->size,
                              .t = r->t,
                              .phase = r->phase,
                              .range = r->range,
                              .stack = r->stack,
                              .tensor = r->tensor,
                              .device = r->device,
                              .op = r->op,
                              .space = r->space,
                              .managed = r->managed},
                        .context = r->context};
}

/* ---- what lives, what lived ---- */

size_t vs_ledger_live_count(const struct vs_ledger *l)
{
    return l->live;
}

void vs_ledger_each_live(const struct vs_ledger *l, void (*each)(void *context, const struct vs_alloc *a),
                         void *context)
{
    for (size_t i = 0; i < l->entries.n; i++)
        if (l->entries.at[i].a.op)
            each(context, &l->entries.at[i].a);
}

size_t vs_ledger_peaks(const struct vs_ledger *l, struct vs_peak_info *out, size_t max)
{
    size_t n = 0;
    for (int i = 0; i < l->devices && n < max; i++) {
        const struct curve *c = &l->device[i].curve[VS_CURVE_ALLOCATED];
        if (c->peak)
            out[n++] = (struct vs_peak_info){i - 1, c->peak_seq, c->peak,
                                             l->device[i].curve[VS_CURVE_RESERVED].peak_seq, c->peak_t};
    }
    return n;
}

void vs_ledger_each_at_peak(const struct vs_ledger *l, int device,
                            void (*each)(void *context, const struct vs_alloc *a), void *context)
{
    int index = vs_device_index(device);
    const struct device *d = &l->device[index];
    uint64_t peak_seq = d->curve[VS_CURVE_ALLOCATED].peak_seq;
    for (size_t i = 0; i < l->entries.n; i++) {
        const struct vs_alloc *a = &l->entries.at[i].a;
        if (a->op && vs_device_index(a->device) == index && a->since <= peak_seq && vs_in_allocated(a))
            each(context, a);
    }
    for (size_t i = 0; i < d->gone.n; i++)
        each(context, &d->gone.at[i]);
    if (d->base_at_peak)
        each(context, &(struct vs_alloc){.size = d->base_at_peak, .device = (int8_t)device});
}

void vs_ledger_track_live(struct vs_ledger *l, bool on)
{
    l->track_live = on;
    l->fresh.n = 0;
    for (size_t i = 0; i < l->entries.n; i++)
        l->entries.at[i].a.fresh = 0;
}

/* The entry of allocation A where it lives, else VS_TABLE_NONE. */
uint32_t vs_entry_living(const struct vs_ledger *l, uint8_t op, uint64_t address, uint64_t seq)
{
    uint32_t index = vs_makes_phys(op)
                         ? vs_table_get(&l->phys_seq, seq)
                         : vs_table_get(op == VS_OP_BLOCK_ALLOC ? &l->blocks : &l->allocs, address);
    return index != VS_TABLE_NONE && l->entries.at[index].a.seq == seq ? index : VS_TABLE_NONE;
}

/* Whether A, which counted at row SEQ, has counted ever since.  After a free that failed it counts anew from
 * a later row. */
bool vs_restored_lives(const struct vs_ledger *l, const struct vs_alloc *a, uint64_t seq)
{
    uint32_t index = vs_entry_living(l, a->op, a->address, a->seq);
    if (index == VS_TABLE_NONE || l->entries.at[index].a.since > seq)
        return false;
    return vs_in_allocated(&l->entries.at[index].a) || !vs_in_allocated(a);
}

/* ---- a row of the ledger's own that ends one ---- */

/* Ends entry INDEX with a row OP (FREE_MISSED, PHYS_FREED) on CAUSE's thread.  The caller removes the entry
 * from the tables that point at it. */
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

/* ---- how the device used one ----
 *
 * The free of a tracked block names its row of the journal's table of accesses (event.stack).  A block that
 * still lives is found by its address and the time of its allocation, a pair that is unique. */

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

/* ---- what a framework says that they are for ----
 *
 * It says so with the addresses at which its storages begin, of blocks that live at that point of the order.
 * What begins nowhere that is known (memory of another library, an address inside a block) is nobody's. */

/* The living allocation that begins at ADDRESS: a block, or what the driver gave the framework for itself. */
static struct vs_alloc *beginning_at(struct vs_ledger *l, uint64_t address)
{
    uint32_t index = address ? vs_table_get(&l->blocks, address) : VS_TABLE_NONE;
    if (index == VS_TABLE_NONE && address)
        index = vs_table_get(&l->allocs, address);
    struct vs_alloc *a = index == VS_TABLE_NONE ? NULL : &l->entries.at[index].a;
    return a && a->managed == VS_NOT_MANAGED ? a : NULL;
}

/* No row of ev: it changes nothing that is counted here. */
void vs_apply_role(struct vs_ledger *l, const struct vs_event *e)
{
    const uint64_t addresses[] = {e->address, e->size, e->arg0};
    if (l->restoring || l->level >= 2 ||
        (!vs_life_is_rule(e->arg1) && (e->arg1 == 0 || e->arg1 >= VS_FRAMEWORK_ROLES)))
        return; /* level 2: the blocks' own rows are not written either */
    for (size_t i = 0; i < sizeof addresses / sizeof *addresses; i++) {
        struct vs_alloc *a = beginning_at(l, addresses[i]);
        if (!a || a->role == e->arg1)
            continue;
        if (a->away != 0)
            vs_away_has_role(l, a, (uint8_t)e->arg1);
        a->role = (uint8_t)e->arg1;
        vs_list_push(&l->out->roles, l->out->no_memory, (struct vs_role_row){a->seq, a->role});
    }
}

/* ---- those that another process asks about ---- */

/* The arena's own: what a framework carves out of one cannot go alone. */
static bool is_the_arenas(const struct vs_alloc *a)
{
    return (a->op == VS_OP_BLOCK_ALLOC || a->op == VS_OP_ALLOC) && a->space == VS_SPACE_ARENA &&
           a->managed == VS_NOT_MANAGED;
}

size_t vs_ledger_blocks(const struct vs_ledger *l, const struct vs_control_request *request,
                        struct vs_control_block *blocks, size_t most, size_t *named)
{
    size_t n = 0;
    *named = 0;
    for (size_t i = 0; i < l->entries.n; i++) {
        const struct vs_alloc *a = &l->entries.at[i].a;
        if (!is_the_arenas(a))
            continue;
        uint32_t role = UINT32_C(1) << vs_role_of(a->role);
        *named += (role & (request->roles | request->keep)) != 0;
        if ((request->roles && !(role & request->roles)) || role & request->keep)
            continue;
        if (n < most)
            blocks[n] = (struct vs_control_block){.address = a->address, .size = a->size};
        n++;
    }
    return n;
}
