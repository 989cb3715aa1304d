/* totals.c - totals and peaks per device. */
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
    if (l->restoring) /* the database's counters are loaded instead */
        return;
    d->count[what]++;
    d->counts_dirty |= 1u << what;
}

/* Counts one less. */
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

/* The device's first event: every curve gets a row, also those that stay 0. */
static void activate(struct device *d)
{
    d->active = true;
    for (int i = 0; i < VS_CURVE_END; i++)
        d->curve[i].dirty = true;
}

static inline uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

void vs_ledger_pools(const struct vs_ledger *l, uint64_t *pools, uint64_t *graphs)
{
    *pools = *graphs = 0;
    for (int i = 0; i < l->devices; i++) {
        *pools += larger(l->device[i].pool_sampled, l->device[i].pool_live);
        *graphs += larger(l->device[i].graph_sampled, l->device[i].graph_live);
    }
}

struct totals {
    uint64_t framework, direct, reserved;
};

/* What the device's allocations add up to.  A pool, a device's graphs and the arena hold memory that
 * allocations are carved from.  That memory counts as reserved once, by the larger of two figures: what the
 * driver or the arena last reported, and what is allocated from it, which may have grown since.  Memory that
 * is away is in neither. */
static inline struct totals totals_of(const struct device *d)
{
    uint64_t pools = larger(d->pool_sampled, d->pool_live);
    uint64_t graphs = larger(d->graph_sampled, d->graph_live);
    uint64_t arena_blocks = d->arena_live + d->arena_managed + d->arena_unknown_use;
    uint64_t arena = larger(d->arena_reserved + d->arena_away, arena_blocks) - d->arena_away;
    uint64_t managed_outside_arena = d->curve[VS_CURVE_MANAGED].now - d->arena_managed;
    uint64_t unknown_use_outside_arena = d->curve[VS_CURVE_UNKNOWN_USE].now - d->arena_unknown_use;
    return (struct totals){.framework = d->curve[VS_CURVE_FRAMEWORK].now,
                           .direct = d->direct_driver + d->pool_live + d->graph_live + d->arena_live,
                           .reserved = managed_outside_arena + unknown_use_outside_arena + d->direct_driver +
                                       pools + graphs + arena};
}

/* Keeps the highest totals since a range last began or ended, which ranges.c merges into the open ranges. */
static inline void note_highest(struct device *d, uint64_t allocated, uint64_t reserved, int64_t t)
{
    if (allocated > d->run_allocated) {
        d->run_allocated = allocated;
        d->run_t = t;
        d->run_dirty = true;
    }
    if (reserved > d->run_reserved) {
        d->run_reserved = reserved;
        d->run_dirty = true;
    }
}

/* Computes the derived totals of the row's device, updates its curves, and writes the totals into the row. */
void vs_device_totals(struct vs_ledger *l, struct vs_row *r)
{
    struct device *d = vs_device(l, r->device);
    struct totals now = totals_of(d);
    uint64_t allocated = now.framework + now.direct;
    r->framework = now.framework;
    r->direct = now.direct;
    r->reserved = now.reserved;
    if (l->restoring)
        return;
    bool is_peak = allocated > d->curve[VS_CURVE_ALLOCATED].peak;
    vs_curve_update(&d->curve[VS_CURVE_DIRECT], now.direct, r->seq, r->t);
    vs_curve_update(&d->curve[VS_CURVE_ALLOCATED], allocated, r->seq, r->t);
    vs_curve_update(&d->curve[VS_CURVE_RESERVED], now.reserved, r->seq, r->t);
    if (is_peak) { /* so far nothing that lives at this peak has ended */
        d->gone.n = 0;
        d->base_at_peak = d->base;
    }
    note_highest(d, allocated, now.reserved, r->t);
    bool about_memory = r->op < VS_OP_RANGE_PUSH;
    if (!d->active && about_memory && (r->device >= 0 || allocated || now.reserved))
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

/* Updates who holds `allocated`, by the phase of birth. */
void vs_held_add(struct vs_ledger *l, const struct vs_alloc *a, bool add)
{
    struct vs_held *h = &vs_device(l, a->device)->held;
    uint32_t at = a->phase < VS_HELD_PHASES - 1 ? a->phase : VS_HELD_PHASES - 1;
    uint64_t *bytes = a->op == VS_OP_BLOCK_ALLOC ? &h->framework[at] : &h->direct[at];
    *bytes = moved(*bytes, a->size, add);
}

/* Adds the allocation to the totals that it belongs to, or subtracts it. */
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
        d->curve[VS_CURVE_ALLOCATED].dirty = true; /* from here on its row says "unknown" */
}
