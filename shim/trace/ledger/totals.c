/*
 * totals.c - totals and peaks per device, the living allocations, and what lived at the peak.
 *
 * What lived at the peak of `allocated` is kept without ever copying the live set: it is everything living
 * now that was there at the peak (seq <= peak_seq) plus everything that ended since (the list `gone`, emptied
 * at each new peak).  A steadily growing job so pays nothing, and any other one append per free.
 */
#include "internal.h"

int vs_device_index(int ordinal)
{
    return ordinal >= 0 && ordinal < VS_LEDGER_DEVICES - 1 ? ordinal + 1 : 0;
}

struct device *vs_device(struct vs_ledger *l, int ordinal)
{
    int index = vs_device_index(ordinal);
    if (index >= l->devices)
        l->devices = index + 1;
    return &l->device[index];
}

void vs_count(struct vs_ledger *l, int ordinal, enum vs_count what)
{
    struct device *d = vs_device(l, ordinal);
    if (l->restoring) /* the database's own counters are loaded instead */
        return;
    d->count[what]++;
    d->counts_dirty |= 1u << what;
}

/* Takes one back. */
void vs_uncount(struct vs_ledger *l, int ordinal, enum vs_count what)
{
    struct device *d = vs_device(l, ordinal);
    if (l->restoring || d->count[what] == 0)
        return;
    d->count[what]--;
    d->counts_dirty |= 1u << what;
}

void vs_curve_update(struct curve *c, uint64_t now, uint64_t seq, int64_t t)
{
    if (c->now == now)
        return;
    c->now = now;
    c->dirty = true;
    if (now > c->peak) {
        c->peak = now;
        c->peak_seq = seq;
        c->peak_t = t;
    }
}

/* Its first event: every curve gets a row, also those that stay 0. */
static void activate(struct device *d)
{
    d->active = true;
    for (int i = 0; i < VS_CURVE_END; i++)
        d->curve[i].dirty = true;
}

/* Brings the derived totals of the row's device up to date and writes them into the row. */
void vs_device_totals(struct vs_ledger *l, struct vs_row *r)
{
    struct device *d = vs_device(l, r->device);
    struct curve *c = d->curve;
    uint64_t pool = d->pool_sampled > d->pool_live ? d->pool_sampled : d->pool_live;
    uint64_t graph = d->graph_sampled > d->graph_live ? d->graph_sampled : d->graph_live;
    uint64_t blocks = d->arena_live + d->arena_managed + d->arena_unknown_use;
    uint64_t arena = d->arena_reserved > blocks ? d->arena_reserved : blocks;
    uint64_t direct = d->direct_driver + d->pool_live + d->graph_live + d->arena_live;
    uint64_t framework = c[VS_CURVE_FRAMEWORK].now, allocated = framework + direct;
    uint64_t managed =
        c[VS_CURVE_MANAGED].now - d->arena_managed; /* those of the arena lie in what it holds */
    uint64_t unknown = c[VS_CURVE_UNKNOWN_USE].now - d->arena_unknown_use; /* likewise */
    uint64_t reserved = managed + unknown + d->direct_driver + pool + graph + arena;
    r->framework = framework;
    r->direct = direct;
    r->reserved = reserved;
    if (l->restoring)
        return;
    bool peak = allocated > c[VS_CURVE_ALLOCATED].peak;
    vs_curve_update(&c[VS_CURVE_DIRECT], direct, r->seq, r->t);
    vs_curve_update(&c[VS_CURVE_ALLOCATED], allocated, r->seq, r->t);
    vs_curve_update(&c[VS_CURVE_RESERVED], reserved, r->seq, r->t);
    if (peak) {
        d->gone.n = 0;
        d->base_at_peak = d->base;
    }
    if (allocated > d->run_allocated) {
        d->run_allocated = allocated;
        d->run_t = r->t;
        d->run_dirty = true;
    }
    if (reserved > d->run_reserved) {
        d->run_reserved = reserved;
        d->run_dirty = true;
    }
    if (!d->active && r->op < VS_OP_RANGE_PUSH && (r->device >= 0 || allocated || reserved))
        activate(d);
}

/* Whether the allocation counts into its device's `allocated`. */
bool vs_in_allocated(const struct vs_alloc *a)
{
    if (a->op == VS_OP_BLOCK_ALLOC)
        return true;
    return !a->managed &&
           (a->space == VS_SPACE_DEVICE || a->space == VS_SPACE_POOL || a->space == VS_SPACE_ARRAY ||
            a->space == VS_SPACE_GRAPH || a->space == VS_SPACE_ARENA);
}

static uint64_t moved(uint64_t total, uint64_t size, bool add)
{
    return add ? total + size : total - (size < total ? size : total);
}

/* Keeps who holds `allocated`, by the phase of birth. */
void vs_held_add(struct vs_ledger *l, const struct vs_alloc *a, bool add)
{
    struct vs_held *h = &vs_device(l, a->device)->held;
    uint32_t at = a->phase < VS_HELD_PHASES - 1 ? a->phase : VS_HELD_PHASES - 1;
    uint64_t *bytes = a->op == VS_OP_BLOCK_ALLOC ? &h->framework[at] : &h->direct[at];
    *bytes = moved(*bytes, a->size, add);
}

/* Adds the allocation to the totals that it belongs to, or takes it away. */
void vs_account(struct vs_ledger *l, const struct vs_alloc *a, bool add, uint64_t seq, int64_t t)
{
    struct device *d = vs_device(l, a->device);
    struct curve *c = NULL;
    if (vs_in_allocated(a))
        vs_held_add(l, a, add);
    if (a->op == VS_OP_BLOCK_ALLOC)
        c = &d->curve[VS_CURVE_FRAMEWORK];
    else if (a->space == VS_SPACE_POOL)
        d->pool_live = moved(d->pool_live, a->size, add);
    else if (a->space == VS_SPACE_GRAPH)
        d->graph_live = moved(d->graph_live, a->size, add);
    else if (a->managed == VS_UNKNOWN_USE)
        c = &d->curve[VS_CURVE_UNKNOWN_USE];
    else if (a->managed && (a->space == VS_SPACE_DEVICE || a->space == VS_SPACE_ARENA))
        c = &d->curve[VS_CURVE_MANAGED];
    else if (a->space == VS_SPACE_ARENA)
        d->arena_live = moved(d->arena_live, a->size, add);
    else if (a->space == VS_SPACE_DEVICE || a->space == VS_SPACE_ARRAY)
        d->direct_driver = moved(d->direct_driver, a->size, add);
    else if (a->space < VS_SPACES_MAX && a->space != VS_SPACE_MULTICAST) /* an address, no memory */
        c = &l->space[a->space];
    if (c)
        vs_curve_update(c, moved(c->now, a->size, add), seq, t);
    if (a->space == VS_SPACE_ARENA && a->managed == VS_UNKNOWN_USE)
        d->arena_unknown_use = moved(d->arena_unknown_use, a->size, add);
    else if (a->space == VS_SPACE_ARENA && a->managed)
        d->arena_managed = moved(d->arena_managed, a->size, add);
    if (a->managed == VS_UNKNOWN_USE)
        d->curve[VS_CURVE_ALLOCATED].dirty = true; /* its row says from here that it is unknown */
}

/* ---- living allocations ---- */

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
 * has ended).  One whose free failed was missing from the totals meanwhile, and so is no part of what lived
 * then; what lived before its free is still in the lists of what has gone since. */
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
    l->entries.at[index].a.fresh = 0;
    l->live++;
    mark_fresh(l, index, 1);
    return index;
}

/* Called before A leaves `allocated`.  (A replay also passes ends from before the peak: not those.) */
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
