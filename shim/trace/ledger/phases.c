/*
 * phases.c - statistics (table phase_stat) and zones (table zone), per device and phase.
 *
 * A zone sums up consecutive rows of one device and phase, so that a plot of ten million events reads ten
 * thousand zones.  It ends after 1000 rows, when 256 rows of other phases have come since its last row, or
 * with its stretch.
 */
#include "internal.h"

/* More than any recording has: a bound for damaged databases. */
#define PHASES_MAX (1u << 20)

struct phase *vs_phase(struct vs_ledger *l, uint32_t phase)
{
    if (phase >= PHASES_MAX)
        return NULL;
    while (l->phase.n <= phase) {
        size_t before = l->phase.n;
        uint64_t failed = 0;
        vs_list_push(&l->phase, failed, (struct phase){0});
        if (l->phase.n == before)
            return NULL;
    }
    return &l->phase.at[phase];
}

static struct phase_dev *new_stat(struct vs_ledger *l, int index, uint32_t phase, uint64_t key)
{
    size_t before = l->stat.n;
    uint64_t failed = 0;
    if (!vs_phase(l, phase)) {
        vs_count(l, index - 1, VS_COUNT_NO_MEMORY);
        return NULL;
    }
    vs_list_push(&l->stat, failed,
                 (struct phase_dev){.row = {.device = index - 1, .phase = phase, .ns = -1}});
    if (l->stat.n == before || vs_table_put(&l->stats, key, (uint32_t)before) < 0) {
        l->stat.n = before;
        vs_count(l, index - 1, VS_COUNT_NO_MEMORY);
        return NULL;
    }
    return &l->stat.at[before];
}

/* The statistics of a phase on a device; NULL without memory.  The pointer is good until the next call. */
struct phase_dev *vs_phase_dev(struct vs_ledger *l, int index, uint32_t phase)
{
    struct device *d = &l->device[index];
    if (d->last_stat && d->last_phase == phase)
        return &l->stat.at[d->last_stat - 1];
    uint64_t key = (uint64_t)index << 32 | phase;
    uint32_t at = vs_table_get(&l->stats, key);
    struct phase_dev *s = at == VS_TABLE_NONE ? new_stat(l, index, phase, key) : &l->stat.at[at];
    d->last_phase = phase;
    d->last_stat = s ? (uint32_t)(s - l->stat.at) + 1 : 0;
    return s;
}

void vs_phase_peak(struct vs_ledger *l, int index, uint32_t phase, const struct range_peak *p)
{
    struct phase_dev *s = vs_phase_dev(l, index, phase);
    if (!s)
        return;
    s->dirty = true;
    /* a range may have seen the same peak before the phase's own events did: the earlier time counts */
    if (p->allocated > s->row.allocated || (p->allocated == s->row.allocated && p->t < s->row.t_allocated)) {
        s->row.allocated = p->allocated;
        s->row.t_allocated = p->t;
    }
    if (p->reserved > s->row.reserved)
        s->row.reserved = p->reserved;
}

/* ---- zones ---- */

static void zone_close(struct vs_ledger *l, struct phase_dev *s)
{
    if (s->zone_open && s->zone_dirty && l->level < 3)
        vs_list_push(&l->out->zones, l->out->no_memory, s->zone);
    s->zone_open = s->zone_dirty = false;
}

static bool zone_full(const struct vs_zone_row *z, const struct vs_row *r)
{
    return z->events >= VS_ZONE_EVENTS || r->seq - z->last_seq > VS_ZONE_GAP;
}

static void zone_start(struct vs_ledger *l, struct phase_dev *s, const struct vs_row *r, uint64_t allocated)
{
    s->zone = (struct vs_zone_row){.first_seq = r->seq,
                                   .t_first = r->t,
                                   .max_t = r->t,
                                   .min_t = r->t,
                                   .max_reserved_t = r->t,
                                   .min_reserved_t = r->t,
                                   .min_allocated = allocated,
                                   .max_allocated = allocated,
                                   .reserved_at_max = r->reserved,
                                   .reserved_at_min = r->reserved,
                                   .min_reserved = r->reserved,
                                   .max_reserved = r->reserved,
                                   .phase = s->row.phase,
                                   .device = s->row.device};
    s->zone.held = vs_device(l, r->device)->held;
    s->zone_open = true;
}

static void zone_add(struct vs_ledger *l, struct phase_dev *s, const struct vs_row *r)
{
    struct vs_zone_row *z = &s->zone;
    uint64_t allocated = r->framework + r->direct;
    if (s->zone_open && zone_full(z, r))
        zone_close(l, s);
    if (!s->zone_open)
        zone_start(l, s, r, allocated);
    if (allocated > z->max_allocated) {
        z->max_allocated = allocated;
        z->max_t = r->t;
        z->reserved_at_max = r->reserved;
        z->held = vs_device(l, r->device)->held;
    }
    if (allocated < z->min_allocated) {
        z->min_allocated = allocated;
        z->min_t = r->t;
        z->reserved_at_min = r->reserved;
    }
    if (r->reserved > z->max_reserved) {
        z->max_reserved = r->reserved;
        z->max_reserved_t = r->t;
    }
    if (r->reserved < z->min_reserved) {
        z->min_reserved = r->reserved;
        z->min_reserved_t = r->t;
    }
    z->last_seq = r->seq;
    z->t_last = r->t;
    z->last_framework = r->framework;
    z->last_direct = r->direct;
    z->last_reserved = r->reserved;
    z->events++;
    s->zone_dirty = true;
}

void vs_zones_close(struct vs_ledger *l)
{
    for (size_t i = 0; i < l->stat.n; i++)
        zone_close(l, &l->stat.at[i]);
}

void vs_phase_row(struct vs_ledger *l, const struct vs_row *r)
{
    struct phase_dev *s = vs_phase_dev(l, vs_device_index(r->device), r->phase);
    if (!s)
        return;
    uint64_t allocated = r->framework + r->direct;
    s->row.events++;
    s->dirty = true;
    if (allocated > s->row.allocated) {
        s->row.allocated = allocated;
        s->row.t_allocated = r->t;
    }
    if (r->reserved > s->row.reserved)
        s->row.reserved = r->reserved;
    if (l->phase.at[r->phase].ranges == 0) /* without ranges the last event is the end */
        s->row.end_allocated = allocated;
    zone_add(l, s, r);
}

/* ---- batches ---- */

static void write_stat(struct vs_ledger *l, struct phase_dev *s)
{
    const struct phase *p = &l->phase.at[s->row.phase];
    if (s->zone_open && s->zone_dirty && l->level < 3) {
        vs_list_push(&l->out->zones, l->out->no_memory, s->zone);
        s->zone_dirty = false;
    }
    if (!s->dirty && !p->dirty)
        return;
    s->row.ranges = p->ranges;
    s->row.ns = p->ranges ? p->ns : -1;
    s->row.open_ns = p->open_ns;
    struct vs_phase_row row = s->row;
    if (vs_use_unknown(vs_device(l, row.device)))
        row.allocated = row.end_allocated = VS_BYTES_UNKNOWN;
    vs_list_push(&l->out->phases, l->out->no_memory, row);
    s->dirty = false;
}

static void write_curves(struct vs_ledger *l, struct curve *c, int n, int device, int first)
{
    for (int i = 0; i < n; i++) {
        if (!c[i].dirty)
            continue;
        struct vs_peak_row row = {device,   first + i,        c[i].peak,  c[i].peak_seq,
                                  c[i].now, VS_BYTES_UNKNOWN, c[i].peak_t};
        if (row.curve == VS_CURVE_ALLOCATED && vs_use_unknown(vs_device(l, device))) {
            row.known = row.peak;
            row.peak = row.end = VS_BYTES_UNKNOWN;
        }
        vs_list_push(&l->out->peaks, l->out->no_memory, row);
        c[i].dirty = false;
    }
}

static void write_counts(struct vs_ledger *l, struct device *d, int device)
{
    for (int i = 0; i < VS_COUNT_END; i++)
        if (d->counts_dirty & 1u << i)
            vs_list_push(&l->out->counts, l->out->no_memory,
                         (struct vs_count_row){device, (enum vs_count)i, d->count[i]});
    d->counts_dirty = 0;
}

void vs_phases_end_batch(struct vs_ledger *l)
{
    for (size_t i = 0; i < l->stat.n; i++)
        write_stat(l, &l->stat.at[i]);
    for (size_t i = 0; i < l->phase.n; i++)
        l->phase.at[i].dirty = false;
    for (int i = 0; i < l->devices; i++) {
        write_curves(l, l->device[i].curve, VS_CURVE_END, i - 1, 0);
        write_counts(l, &l->device[i], i - 1);
    }
    write_curves(l, l->space, VS_SPACES_MAX, -1, VS_CURVE_END);
}
