/*
 * resume.c - the state of a ledger that exists only between rows, such as an open refusal, and that
 * continuing a database needs: table resume.
 *
 * The events of the look-ahead queue are still in the journal and are fed again.  But a verdict on one of
 * them may depend on earlier events that have left the queue.  So the verdicts are kept, and nothing is
 * decided anew while events are fed again:
 *
 *      committed | A provisional   B managed   free of A ...               | C
 *                | fed again: B by the table's verdict, A still undecided  | from here on as ever
 */
#include "internal.h"

#define EACH(context, ...) each(context, &(struct vs_resume_row){__VA_ARGS__})

enum { RESYNC = 1, POOLS_IN_DOUBT = 2, GRAPHS_IN_DOUBT = 4 };

typedef void each_fn(void *context, const struct vs_resume_row *row);

static uint64_t flags_of(const struct device *d)
{
    return (d->resync ? RESYNC : 0) | (d->pools_in_doubt ? POOLS_IN_DOUBT : 0) |
           (d->graphs_in_doubt ? GRAPHS_IN_DOUBT : 0);
}

static void each_arena_part(const struct device *d, uint64_t index, each_fn *each, void *context)
{
    for (uint64_t part = 0; part < VS_FIGURE_PARTS; part++) {
        const uint64_t *f = &d->arena.figure[4 * part];
        if (d->arena_parts >> part & 1)
            EACH(context, VS_RESUME_ARENA_PART, index << 8 | part, {f[0], f[1], f[2], f[3]});
    }
}

static void each_device(const struct vs_ledger *l, each_fn *each, void *context)
{
    for (int i = 0; i < l->devices; i++) {
        const struct device *d = &l->device[i];
        uint64_t index = (uint64_t)i;
        if (flags_of(d))
            EACH(context, VS_RESUME_DEVICE, index, {flags_of(d)});
        if (d->base || d->base_at_peak || d->managed_base)
            EACH(context, VS_RESUME_BASE, index,
                 {d->base, d->base_at_peak, d->managed_base, d->managed_base_seq});
        if (d->arena_parts)
            EACH(context, VS_RESUME_ARENA, index, {d->arena_sample});
        each_arena_part(d, index, each, context);
        for (uint64_t kind = 0; kind < 2; kind++)
            if (l->oom.last_sample[i][kind].t)
                EACH(context, VS_RESUME_LAST_SAMPLE, index << 1 | kind,
                     {l->oom.last_sample[i][kind].used, (uint64_t)l->oom.last_sample[i][kind].t});
    }
}

/* Where the use of some memory is unknown the tables have no peak of allocated, but the known part of it
 * still decides when the peak was. */
static void each_known_peak(const struct vs_ledger *l, each_fn *each, void *context)
{
    for (size_t i = 0; i < l->open.n; i++)
        for (int k = 0; k < l->devices; k++)
            if (vs_use_unknown(&l->device[k]))
                EACH(context, VS_RESUME_RANGE, (uint64_t)l->open.at[i].row.id << 8 | (uint64_t)k,
                     {l->open.at[i].peak[k].allocated, (uint64_t)l->open.at[i].peak[k].t});
    for (size_t i = 0; i < l->stat.n; i++) {
        const struct vs_phase_row *row = &l->stat.at[i].row;
        uint64_t index = (uint64_t)vs_device_index(row->device);
        if (vs_use_unknown(&l->device[index]))
            EACH(context, VS_RESUME_PHASE, (uint64_t)row->phase << 8 | index,
                 {row->allocated, (uint64_t)row->t_allocated, row->end_allocated});
    }
}

static bool has_statistics(const struct vs_ledger *l, uint64_t phase)
{
    for (uint64_t i = 0; i < (uint64_t)l->devices; i++)
        if (vs_table_get(&l->stats, i << 32 | phase) != VS_TABLE_NONE)
            return true;
    return false;
}

/* A phase whose ranges have not met any device's memory has no row. */
static void each_quiet_phase(const struct vs_ledger *l, each_fn *each, void *context)
{
    for (size_t i = 0; i < l->phase.n; i++)
        if (l->phase.at[i].ranges && !has_statistics(l, i))
            EACH(context, VS_RESUME_RANGES, i, {l->phase.at[i].ranges, (uint64_t)l->phase.at[i].ns});
}

void vs_ledger_each_resume(const struct vs_ledger *l, each_fn *each, void *context)
{
    EACH(context, VS_RESUME_PLACE, 0, {(uint64_t)l->t, l->step, l->newest_ns, l->framework_seen});
    if (l->doubt_to || l->lost_to)
        EACH(context, VS_RESUME_LOST, 0, {l->doubt_from, l->doubt_to, l->lost_to});
    each_device(l, each, context);
    each_known_peak(l, each, context);
    each_quiet_phase(l, each, context);
    vs_oom_each_resume(l, each, context);
    vs_pending_each_resume(l, each, context);
}

/* ---- restoring ---- */

/* The device, in use from here on as it was in the earlier ledger; NULL: there is no such device. */
static struct device *device_at(struct vs_ledger *l, uint64_t index)
{
    return index < VS_LEDGER_DEVICES ? vs_device(l, (int)index - 1) : NULL;
}

static void restore_device(struct device *d, const struct vs_resume_row *row)
{
    const uint64_t *v = row->value;
    switch (row->what) {
    case VS_RESUME_DEVICE:
        d->resync = v[0] & RESYNC;
        d->pools_in_doubt = v[0] & POOLS_IN_DOUBT;
        d->graphs_in_doubt = v[0] & GRAPHS_IN_DOUBT;
        break;
    case VS_RESUME_BASE:
        d->base = v[0];
        d->base_at_peak = v[1];
        d->managed_base = v[2];
        d->managed_base_seq = v[3];
        break;
    default:
        d->arena_sample = (uint32_t)v[0];
    }
}

static void restore_arena_part(struct vs_ledger *l, const struct vs_resume_row *row)
{
    uint64_t index = row->id >> 8, part = row->id & 0xff;
    struct device *d = device_at(l, index);
    if (!d || part >= VS_FIGURE_PARTS)
        return;
    memcpy(&d->arena.figure[4 * part], row->value, sizeof row->value);
    d->arena.device = (int)index - 1;
    d->arena_parts |= 1u << part;
}

static void restore_known_peak(struct vs_ledger *l, const struct vs_resume_row *row)
{
    uint64_t index = row->id & 0xff;
    uint32_t id = (uint32_t)(row->id >> 8);
    if (!device_at(l, index))
        return;
    if (row->what == VS_RESUME_RANGE) {
        struct open_range *o = vs_range_find(l, id);
        if (!o)
            return;
        o->peak[index].allocated = row->value[0];
        o->peak[index].t = (int64_t)row->value[1];
        return;
    }
    struct phase_dev *s = vs_phase_dev(l, (int)index, id);
    if (!s)
        return;
    s->row.allocated = row->value[0];
    s->row.t_allocated = (int64_t)row->value[1];
    s->row.end_allocated = row->value[2];
}

static void restore_quiet_phase(struct vs_ledger *l, const struct vs_resume_row *row)
{
    struct phase *p = row->id <= UINT32_MAX ? vs_phase(l, (uint32_t)row->id) : NULL;
    if (!p)
        return;
    p->ranges = row->value[0];
    p->ns = (int64_t)row->value[1];
}

/* The file may be damaged: an id is checked before it is used as an index. */
void vs_ledger_restore_resume(struct vs_ledger *l, const struct vs_resume_row *row)
{
    const uint64_t *v = row->value;
    switch (row->what) {
    case VS_RESUME_PLACE:
        l->t = (int64_t)v[0];
        l->step = v[1];
        l->newest_ns = v[2];
        l->framework_seen = v[3];
        break;
    case VS_RESUME_LOST:
        l->doubt_from = v[0];
        l->doubt_to = v[1];
        l->lost_to = v[2];
        break;
    case VS_RESUME_DEVICE ... VS_RESUME_ARENA:
        if (device_at(l, row->id))
            restore_device(device_at(l, row->id), row);
        break;
    case VS_RESUME_ARENA_PART:
        restore_arena_part(l, row);
        break;
    case VS_RESUME_RANGE:
    case VS_RESUME_PHASE:
        restore_known_peak(l, row);
        break;
    case VS_RESUME_RANGES:
        restore_quiet_phase(l, row);
        break;
    case VS_RESUME_LAST_SAMPLE:
    case VS_RESUME_RETRY:
        vs_oom_restore_resume(l, row);
        break;
    default:
        vs_pending_restore_resume(l, row);
    }
}
