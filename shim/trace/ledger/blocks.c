/*
 * blocks.c - a framework's blocks: pairing, the check against the framework's own totals, and the discovery
 * that a direct driver allocation is managed after all: that a caching allocator carves blocks from it
 * (docs/design.md).
 *
 * A `mismatch` row is written when the difference to the framework's totals changes, back to none included.
 * Where the recording began late (the first report's totals are above ours) the missing bytes become the
 * device's base, and a row says so.
 */
#include "internal.h"

/* ---- managed after all ---- */

static void forget_direct_spans(struct vs_ledger *l, uint32_t index)
{
    const struct vs_alloc *a = &l->entries.at[index].a;
    if (a->op == VS_OP_ALLOC) {
        vs_spans_remove(&l->direct_spans, a->address);
        return;
    }
    const struct vs_span *span;
    for (uint64_t from = 0; (span = vs_spans_from(&l->direct_spans, from));) {
        from = span->end;
        if (span->value == index)
            vs_spans_remove(&l->direct_spans, span->start);
    }
}

/* Takes A out of the base.  When the base was taken from the framework's reserved total, A was part of that
 * total but not yet known to be managed; without this it would count twice. */
static void take_from_base(struct vs_ledger *l, const struct vs_alloc *a, const struct vs_row *r)
{
    struct device *d = vs_device(l, a->device);
    struct curve *c = &d->curve[VS_CURVE_MANAGED];
    if (a->seq >= d->managed_base_seq)
        return;
    uint64_t bytes = a->size < d->managed_base ? a->size : d->managed_base;
    d->managed_base -= bytes;
    vs_curve_update(c, c->now - bytes, r->seq, r->t);
}

void vs_reclassify(struct vs_ledger *l, const struct vs_event *cause, uint32_t index)
{
    struct vs_alloc *a = &l->entries.at[index].a;
    struct vs_event e = *cause;
    e.op = VS_OP_RECLASSIFY;
    e.address = a->address;
    e.size = a->size;
    e.space = a->space;
    e.device = a->device;
    e.status = 0;
    struct vs_row r;
    vs_row_begin(l, &r, &e);
    r.mate = a->seq;
    r.managed = 1;
    forget_direct_spans(l, index);
    vs_gone_remember(l, a);
    vs_account(l, a, false, r.seq, r.t);
    take_from_base(l, a, &r); /* first, because the sum of both never existed */
    a->managed = 1;
    vs_account(l, a, true, r.seq, r.t);
    vs_entry_dirty(l, index);
    vs_count(l, a->device, VS_COUNT_RECLASSIFIED);
    if (!l->restoring)
        vs_list_push(&l->out->amends, l->out->no_memory,
                     (struct vs_amend_row){r.mate, r.seq, VS_OP_RECLASSIFY});
    vs_row_end(l, &r);
}

static void learn_from_block(struct vs_ledger *l, const struct vs_event *e)
{
    uint64_t end = e->address + (e->size ? e->size : 1);
    if (l->restoring)
        return;
    const struct vs_span *span;
    while ((span = vs_spans_from(&l->direct_spans, e->address)) && span->start < end)
        vs_reclassify(l, e, span->value);
}

void vs_reservation_managed(struct vs_ledger *l, const struct vs_event *cause, uint64_t address)
{
    /* casts const away: the span is one of our own nodes, and the tree is not ordered by `value` */
    struct vs_span *home = (struct vs_span *)vs_spans_at(&l->reservations, address);
    if (!home || home->value)
        return;
    home->value = 1;
    uint64_t start = home->start, end = home->end;
    const struct vs_span *span;
    while (!l->restoring && (span = vs_spans_from(&l->direct_spans, start)) && span->start < end)
        vs_reclassify(l, cause, span->value);
}

/* ---- the framework's totals ---- */

static void check_one(struct vs_ledger *l, const struct vs_row *r, int which, uint64_t ours, uint64_t theirs)
{
    struct device *d = vs_device(l, r->device);
    int64_t diff = (int64_t)(ours - theirs);
    if (diff == d->diff[which])
        return;
    d->diff[which] = diff;
    vs_mismatch(l, r, which ? VS_MISMATCH_RESERVED : VS_MISMATCH_ALLOCATED, ours, theirs);
}

static void set_base(struct vs_ledger *l, const struct vs_row *r, enum vs_curve which, uint64_t theirs)
{
    struct device *d = vs_device(l, r->device);
    struct curve *c = &d->curve[which];
    if (theirs <= c->now)
        return;
    if (which == VS_CURVE_FRAMEWORK) {
        d->base += theirs - c->now;
    } else {
        d->managed_base += theirs - c->now;
        d->managed_base_seq = r->seq;
    }
    vs_mismatch(l, r, which == VS_CURVE_FRAMEWORK ? VS_MISMATCH_LATE_ALLOCATED : VS_MISMATCH_LATE_RESERVED,
                c->now, theirs);
    vs_curve_update(c, theirs, r->seq, r->t);
}

/* Not for the arena's blocks: the arena records what it holds by itself. */
static bool tells_reserved(const struct vs_event *e)
{
    return e->space != VS_SPACE_ARENA;
}

static void check_totals(struct vs_ledger *l, const struct vs_event *e, const struct vs_row *r)
{
    struct device *d = vs_device(l, r->device);
    if (l->restoring || e->arg0 == VS_BYTES_UNKNOWN) /* rows do not keep the framework's figures */
        return;
    vs_count(l, r->device, VS_COUNT_REPORTS);
    if (!d->reported || d->resync) {
        set_base(l, r, VS_CURVE_FRAMEWORK, e->arg0);
        if (tells_reserved(e))
            set_base(l, r, VS_CURVE_MANAGED, vs_event_block_arg1(e));
        d->reported = true;
        d->resync = false;
    }
    check_one(l, r, 0, d->curve[VS_CURVE_FRAMEWORK].now, e->arg0);
    if (tells_reserved(e))
        check_one(l, r, 1, d->curve[VS_CURVE_MANAGED].now, vs_event_block_arg1(e));
    if (d->diff[0] || d->diff[1])
        vs_count(l, r->device, VS_COUNT_MISMATCHED);
    if (l->doubt_to)
        vs_doubt_report(l, r, tells_reserved(e));
}

/* ---- blocks ---- */

static void end_missed(struct vs_ledger *l, const struct vs_event *e)
{
    uint32_t old = vs_table_remove(&l->blocks, e->address);
    if (old != VS_TABLE_NONE)
        vs_emit_end(l, e, VS_OP_FREE_MISSED, old);
}

static void block_alloc(struct vs_ledger *l, const struct vs_event *e)
{
    struct vs_row r;
    struct entry entry;
    end_missed(l, e);
    learn_from_block(l, e);
    vs_reservation_managed(l, e, e->address);
    vs_row_begin(l, &r, e);
    vs_entry_from(&r, &entry);
    if (vs_entry_add(l, &l->blocks, &entry, r.seq) != VS_TABLE_NONE)
        vs_account(l, &entry.a, true, r.seq, r.t);
    vs_count(l, r.device, VS_COUNT_BLOCK_ALLOCS);
    check_totals(l, e, &r);
    vs_row_end(l, &r);
}

/* The block is older than the recording: its bytes are in the base, or were never counted. */
static void unknown_block_free(struct vs_ledger *l, struct vs_row *r)
{
    struct device *d = vs_device(l, r->device);
    if (d->reported && d->base >= r->size) {
        d->base -= r->size;
        struct curve *c = &d->curve[VS_CURVE_FRAMEWORK];
        vs_curve_update(c, c->now - r->size, r->seq, r->t);
        return;
    }
    if (d->reported)
        vs_count(l, r->device, VS_COUNT_UNKNOWN_FREE);
}

static void block_free(struct vs_ledger *l, const struct vs_event *e)
{
    struct vs_row r;
    vs_row_begin(l, &r, e);
    uint32_t index = vs_table_remove(&l->blocks, e->address);
    if (index == VS_TABLE_NONE) {
        unknown_block_free(l, &r);
    } else {
        struct vs_alloc a = l->entries.at[index].a;
        r.mate = a.seq;
        r.size = a.size;
        r.device = a.device;
        vs_account(l, &a, false, r.seq, r.t);
        vs_entry_remove(l, index);
        vs_access_ended(l, e, &a);
    }
    if (r.mate == 0)
        vs_access_ended(l, e, NULL);
    vs_count(l, r.device, VS_COUNT_BLOCK_FREES);
    check_totals(l, e, &r);
    vs_row_end(l, &r);
}

static void block_oom(struct vs_ledger *l, const struct vs_event *e)
{
    struct vs_row r;
    vs_row_begin(l, &r, e);
    vs_count(l, r.device, VS_COUNT_OOM);
    check_totals(l, e, &r);
    vs_row_end(l, &r);
}

void vs_apply_block(struct vs_ledger *l, const struct vs_event *e)
{
    if (e->op == VS_OP_BLOCK_ALLOC)
        block_alloc(l, e);
    else if (e->op == VS_OP_BLOCK_FREE)
        block_free(l, e);
    else
        block_oom(l, e);
}
