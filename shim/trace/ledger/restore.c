/*
 * restore.c - a ledger that continues a database.
 *
 * Sums (totals, peaks, statistics, open ranges, counters) are loaded from the tables, which have them as of
 * the last commit.  Living allocations are found by replaying the rows of `ev` with the output discarded;
 * folding removes only allocations that have ended, together with their ends, so the replay finds the same
 * ones.  Where rows were not written for lack of room, blocks come from table `live`, which is then up to
 * date with every commit.  The order of calls:
 *
 *      restore_peak       (every row of peak)      so that the replay knows what ended after the peak
 *      restore_begin
 *      restore_row        (rows of ev)  restore_block (rows of live, where rows were not written)
 *      restore_at_peak, restore_at_oom   (what is written out of them: all of the set)
 *      restore_totals     (every row of peak)
 *      restore_phase, _stretch, _zone, _range (by id), _range_peak, _count, _mismatch, _away_block (the last)
 *      restore_end
 *      restore_resume     the rest (resume.c)
 */
#include "internal.h"

static struct curve *curve_of(struct vs_ledger *l, const struct vs_peak_row *row)
{
    if (row->curve >= VS_CURVE_END)
        return row->curve - VS_CURVE_END < VS_SPACES_MAX ? &l->space[row->curve - VS_CURVE_END] : NULL;
    return row->curve >= 0 ? &vs_device(l, row->device)->curve[row->curve] : NULL;
}

void vs_ledger_restore_peak(struct vs_ledger *l, const struct vs_peak_row *row)
{
    struct curve *c = curve_of(l, row);
    if (c)
        *c = (struct curve){.now = 0, .peak = row->peak, .peak_seq = row->seq, .peak_t = row->t};
}

void vs_ledger_restore_begin(struct vs_ledger *l)
{
    static struct vs_output nowhere; /* restoring writes nothing; `died` needs track_live, which is off */
    l->restoring = true;
    l->out = &nowhere;
}

static void restore_reclassify(struct vs_ledger *l, const struct vs_row *row)
{
    uint32_t index = vs_table_get(&l->allocs, row->address);
    if (index == VS_TABLE_NONE || l->entries.at[index].a.seq != row->mate)
        index = vs_table_get(&l->phys_seq, row->mate);
    if (index == VS_TABLE_NONE)
        return;
    struct vs_event e = {.op = VS_OP_RECLASSIFY, .t_ns = (uint64_t)(row->t + l->config.start_ns)};
    vs_reclassify(l, &e, index);
}

static struct vs_event event_of(const struct vs_ledger *l, const struct vs_row *row)
{
    bool bind = row->op == VS_OP_BIND || row->op == VS_OP_UNBIND;
    return (struct vs_event){.t_ns = (uint64_t)(row->t + l->config.start_ns),
                             .address = row->address,
                             .size = row->size,
                             .arg0 = bind ? 0 : row->stream,
                             .arg1 = vs_with_tensor(bind                           ? row->stream
                                                    : row->op == VS_OP_FREE_FAILED ? row->mate
                                                                                   : row->api,
                                                    row->tensor),
                             .stack = row->stack,
                             .range = row->range,
                             .thread = row->thread,
                             .op = row->op,
                             .space = row->space,
                             .device = row->device,
                             .context = row->context,
                             .status = row->tensor ? (uint16_t)row->tensor : row->status};
}

static bool makes_alloc(uint8_t op)
{
    return op == VS_OP_ALLOC || vs_makes_phys(op) || op == VS_OP_BLOCK_ALLOC;
}

/* The row has its phase: the range that gave it may be closed and forgotten. */
static void restore_phase_of(struct vs_ledger *l, const struct vs_row *row)
{
    struct vs_table *table = row->op == VS_OP_ALLOC   ? &l->allocs
                             : vs_makes_phys(row->op) ? &l->handles
                                                      : &l->blocks;
    uint32_t index = vs_table_get(table, row->address);
    if (index != VS_TABLE_NONE && l->entries.at[index].a.seq == row->seq)
        l->entries.at[index].a.phase = row->phase;
}

/* References of an import that was opened more than once. */
static bool restore_import(struct vs_ledger *l, const struct vs_row *row, const struct vs_event *e)
{
    uint32_t index = vs_table_get(&l->allocs, row->address);
    if ((row->op != VS_OP_PHYS_RETAIN && row->op != VS_OP_PHYS_RELEASE) || row->space != VS_SPACE_IMPORTED ||
        index == VS_TABLE_NONE || l->entries.at[index].a.seq != row->mate)
        return false;
    struct vs_event again = *e;
    again.op = row->op == VS_OP_PHYS_RETAIN ? VS_OP_ALLOC : VS_OP_FREE;
    vs_ledger_apply(l, &again, VERDICT_DIRECT);
    return true;
}

/* An end that the ledger itself had made.  The replay of its cause has made it again, unless the cause was
 * folded and the allocation, in a stretch that is not folded, stayed. */
static void restore_end_of(struct vs_ledger *l, const struct vs_row *row)
{
    static const uint8_t makers[] = {VS_OP_BLOCK_ALLOC, VS_OP_ALLOC, VS_OP_PHYS_CREATE};
    for (size_t i = 0; i < sizeof makers; i++) {
        uint32_t index = vs_entry_living(l, makers[i], row->address, row->mate);
        if (index == VS_TABLE_NONE || vs_makes_phys(l->entries.at[index].a.op) != vs_makes_phys(makers[i]))
            continue;
        struct vs_alloc a = l->entries.at[index].a;
        l->seq = row->seq;
        if (a.op == VS_OP_BLOCK_ALLOC)
            vs_table_remove(&l->blocks, a.address);
        else if (a.op == VS_OP_ALLOC)
            vs_alloc_drop(l, index);
        else
            vs_phys_drop(l, index);
        vs_account(l, &a, false, row->seq, row->t);
        vs_entry_remove(l, index);
        return;
    }
}

static enum verdict verdict_of(const struct vs_row *row)
{
    return row->managed == VS_UNKNOWN_USE ? VERDICT_UNKNOWN_USE
           : row->managed                 ? VERDICT_MANAGED
                                          : VERDICT_DIRECT;
}

void vs_ledger_restore_row(struct vs_ledger *l, const struct vs_row *row)
{
    struct vs_event e = event_of(l, row);
    l->seq = row->seq - 1;
    l->current_ring_seq = 0;
    if (restore_import(l, row, &e))
        return;
    switch (row->op) {
    case VS_OP_RECLASSIFY:
        restore_reclassify(l, row);
        return;
    case VS_OP_PHYS_FREED:
    case VS_OP_FREE_MISSED:
    case VS_OP_CONTEXT_FREED:
        restore_end_of(l, row);
        return;
    case VS_OP_PHYS_CREATE ... VS_OP_SET_ACCESS:
        vs_apply_vmm(l, &e, row->managed, row->mate);
        break;
    case VS_OP_BIND:
        vs_apply_bind(l, &e, row->mate);
        break;
    case VS_OP_ARENA_RESERVED:
        vs_apply_arena_reserved(l, &e);
        break;
    case VS_OP_BLOCK_AWAY:
        vs_apply_block_away(l, &e);
        break;
    default:
        if (row->op > VS_OP_BLOCK_FREE)
            return;
        vs_ledger_apply(l, &e, verdict_of(row));
    }
    if (makes_alloc(row->op))
        restore_phase_of(l, row);
}

void vs_ledger_restore_block(struct vs_ledger *l, const struct vs_alloc *block)
{
    struct entry e = {.a = *block};
    if (block->op == VS_OP_BLOCK_ALLOC && vs_entry_add(l, &l->blocks, &e, block->seq) != VS_TABLE_NONE)
        vs_account(l, block, true, block->seq, block->t);
}

/* A row of peak_live, which has the whole set: those that do not live any more ended since the peak. */
void vs_ledger_restore_at_peak(struct vs_ledger *l, int device, const struct vs_alloc *a)
{
    uint64_t failed = 0;
    struct device *d = vs_device(l, device);
    if (!d->peak_restored)
        d->gone.n = 0; /* the replay found some of them */
    d->peak_restored = true;
    if (!a->op)
        d->base_at_peak = a->size;
    else if (!vs_restored_lives(l, a, d->curve[VS_CURVE_ALLOCATED].peak_seq))
        vs_list_push(&d->gone, failed, *a);
}

void vs_ledger_restore_totals(struct vs_ledger *l, const struct vs_peak_row *row)
{
    struct curve *c = curve_of(l, row);
    if (!c)
        return;
    if (row->curve == VS_CURVE_FRAMEWORK && row->end > c->now)
        vs_device(l, row->device)->base = row->end - c->now; /* bytes that no living block accounts for */
    if (row->curve == VS_CURVE_MANAGED && row->end > c->now)
        vs_device(l, row->device)->managed_base = row->end - c->now;
    c->now = row->end;
}

void vs_ledger_restore_phase(struct vs_ledger *l, const struct vs_phase_row *row)
{
    struct phase_dev *s = vs_phase_dev(l, vs_device_index(row->device), row->phase);
    struct phase *p = vs_phase(l, row->phase);
    if (!s || !p)
        return;
    s->row = *row;
    vs_device(l, row->device)->active |= row->device >= 0;
    p->ranges = row->ranges;
    p->ns = row->ns > 0 ? row->ns : 0;
}

void vs_ledger_restore_away_block(struct vs_ledger *l, const struct vs_away_block_row *row)
{
    if (row->why < VS_AWAY_WHYS)
        vs_device(l, row->device)->went[row->why] =
            (struct went){row->out, row->back, row->times, row->waited_ns};
}

void vs_ledger_restore_zone(struct vs_ledger *l, const struct vs_zone_row *row)
{
    struct phase_dev *s = vs_phase_dev(l, vs_device_index(row->device), row->phase);
    if (!s || (s->zone_open && s->zone.first_seq > row->first_seq) || !l->stretch.open ||
        row->first_seq < l->stretch.first_seq)
        return;
    s->zone = *row;
    s->zone_open = true;
}

void vs_ledger_restore_range(struct vs_ledger *l, const struct vs_range_row *row)
{
    l->range_cache[row->id % VS_RANGE_CACHE].id = row->id;
    l->range_cache[row->id % VS_RANGE_CACHE].phase = row->phase;
    if (row->t_pop >= 0 || row->lost)
        return;
    struct open_range *o = vs_range_open_slot(l);
    if (!o)
        return;
    o->row = *row;
    for (int i = 0; i < VS_LEDGER_DEVICES; i++)
        o->peak[i].t = row->t_push; /* a device that was not active yet has no row */
}

void vs_ledger_restore_range_peak(struct vs_ledger *l, const struct vs_range_peak_row *row)
{
    struct open_range *o = vs_range_find(l, row->range);
    if (o)
        o->peak[vs_device_index(row->device)] = (struct range_peak){row->allocated, row->reserved, row->t};
}

void vs_ledger_restore_count(struct vs_ledger *l, const struct vs_count_row *row)
{
    struct device *d = vs_device(l, row->device);
    d->count[row->what] = row->value;
    if (row->what == VS_COUNT_REPORTS && row->value) {
        d->reported = true;
        l->framework_seen = true;
    }
}

void vs_ledger_restore_mismatch(struct vs_ledger *l, const struct vs_mismatch_row *row)
{
    vs_device(l, row->device)->mismatches[row->what]++;
    if (row->what == VS_MISMATCH_LATE_RESERVED)
        vs_device(l, row->device)->managed_base_seq = row->seq;
    if (row->what == VS_MISMATCH_ALLOCATED || row->what == VS_MISMATCH_RESERVED)
        vs_device(l, row->device)->diff[row->what == VS_MISMATCH_RESERVED] =
            (int64_t)(row->ours - row->theirs);
}

/* The base at the peak: the bytes that the allocations found there do not account for. */
static void restore_base_at_peak(struct vs_ledger *l, int index)
{
    struct device *d = &l->device[index];
    uint64_t sum = 0;
    for (size_t i = 0; i < l->entries.n; i++) {
        const struct vs_alloc *a = &l->entries.at[i].a;
        if (a->op && vs_device_index(a->device) == index && vs_in_allocated(a) &&
            a->since <= d->curve[VS_CURVE_ALLOCATED].peak_seq)
            sum += a->size;
    }
    for (size_t i = 0; i < d->gone.n; i++)
        sum += d->gone.at[i].size;
    uint64_t peak = d->curve[VS_CURVE_ALLOCATED].peak;
    d->base_at_peak = peak > sum ? peak - sum : 0;
}

static void restore_held(struct vs_ledger *l)
{
    for (int i = 0; i < l->devices; i++)
        l->device[i].held = (struct vs_held){0};
    for (size_t i = 0; i < l->entries.n; i++)
        if (l->entries.at[i].a.op && vs_in_allocated(&l->entries.at[i].a))
            vs_held_add(l, &l->entries.at[i].a, true);
}

void vs_ledger_restore_end(struct vs_ledger *l, uint64_t seq, uint64_t ring_seq)
{
    l->restoring = false;
    l->out = NULL;
    l->seq = seq;
    l->ring_seq = ring_seq;
    restore_held(l);
    for (int i = 0; i < l->devices; i++) {
        struct device *d = &l->device[i];
        d->active |= d->curve[VS_CURVE_ALLOCATED].peak || d->curve[VS_CURVE_RESERVED].peak;
        d->counts_dirty = 0;
        d->curve[VS_CURVE_ALLOCATED].now = /* its row is NULL where use is unknown */
            d->curve[VS_CURVE_FRAMEWORK].now + d->curve[VS_CURVE_DIRECT].now;
        d->run_allocated = d->curve[VS_CURVE_ALLOCATED].now;
        d->run_reserved = d->curve[VS_CURVE_RESERVED].now;
        restore_base_at_peak(l, i);
    }
}
