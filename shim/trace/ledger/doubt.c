/*
 * doubt.c - from where to where a device's totals are upper bounds, because ends were lost: rows of table
 * upper_bound.
 *
 * From a lost end on, the allocation that ended there still counts as living.  Which one it was is not known,
 * so every part of a total that has living bytes is in doubt, until one of two things shows that it is right:
 *
 *      a framework's report whose own figure is not less than ours    framework's blocks, managed memory
 *      nothing of the part lives any more                             each part, direct memory as well
 *
 * Managed memory is what a caching allocator carves blocks from (docs/design.md).
 *
 * Lost allocations make a total too low, and may hide for a while that it is too high.  So after the first
 * loss every report is compared, and one whose figure is below ours brings the doubt back.
 */
#include "internal.h"

enum { FRAMEWORK = 1, DIRECT = 2, MANAGED = 4 };

/* Device -1 stands for memory that is in no device's totals, all of it one part, DIRECT. */
static const struct {
    enum vs_curve curve;
    unsigned parts;
} totals[VS_DOUBTS] = {{VS_CURVE_ALLOCATED, FRAMEWORK | DIRECT}, {VS_CURVE_RESERVED, MANAGED | DIRECT}};

void vs_ledger_lost_ends(struct vs_ledger *l, uint64_t first, uint64_t last)
{
    if (l->doubt_from == 0 || first < l->doubt_from)
        l->doubt_from = first;
    if (last > l->doubt_to)
        l->doubt_to = last;
}

/* The parts in which something lives. */
static unsigned living(const struct vs_ledger *l, int index)
{
    const struct curve *c = l->device[index].curve;
    unsigned parts = (c[VS_CURVE_FRAMEWORK].now ? FRAMEWORK : 0) | (c[VS_CURVE_DIRECT].now ? DIRECT : 0) |
                     (c[VS_CURVE_MANAGED].now ? MANAGED : 0);
    for (int i = 0; index == 0 && i < VS_SPACES_MAX; i++)
        parts |= l->space[i].now ? DIRECT : 0;
    return parts;
}

static void write_row(struct vs_ledger *l, const struct vs_doubt_row *row)
{
    vs_list_push(&l->out->doubts, l->out->no_memory, *row);
}

/* Sets the device's PARTS in doubt and begins or ends its rows of upper_bound; SEQ, T: the row at which that
 * happens. */
static void set_parts(struct vs_ledger *l, int index, unsigned parts, uint64_t seq, int64_t t)
{
    struct device *d = &l->device[index];
    for (int i = 0; i < VS_DOUBTS; i++) {
        bool was = d->doubt & totals[i].parts, is = parts & totals[i].parts;
        if (was == is)
            continue;
        struct vs_doubt_row *row = &d->doubt_row[i];
        if (is)
            *row = (struct vs_doubt_row){index - 1, totals[i].curve, seq, 0, t, -1};
        row->to_seq = is ? 0 : seq;
        row->t_to = is ? -1 : t;
        write_row(l, row);
    }
    d->doubt = (uint8_t)parts;
}

void vs_doubt_begin(struct vs_ledger *l)
{
    for (int i = 0; i < l->devices; i++)
        set_parts(l, i, l->device[i].doubt | living(l, i), l->seq + 1, l->t);
    l->doubt_from = 0;
}

/* A loss further ahead would make a total that is right now too high again. */
static bool too_early(const struct vs_ledger *l)
{
    return l->restoring || l->current_ring_seq < l->doubt_to;
}

void vs_doubt_look(struct vs_ledger *l, const struct vs_row *r)
{
    int index = vs_device_index(r->device);
    if (!too_early(l))
        set_parts(l, index, l->device[index].doubt & living(l, index), r->seq, r->t);
}

void vs_doubt_report(struct vs_ledger *l, const struct vs_row *r, bool tells_managed)
{
    int index = vs_device_index(r->device);
    const struct device *d = &l->device[index];
    unsigned reported = FRAMEWORK | (tells_managed ? MANAGED : 0), high = 0;
    if (too_early(l))
        return;
    if (d->diff[0] > 0)
        high |= FRAMEWORK;
    if (d->diff[1] > 0)
        high |= MANAGED;
    set_parts(l, index, (d->doubt & ~reported) | (high & reported), r->seq, r->t);
}

void vs_ledger_restore_doubt(struct vs_ledger *l, const struct vs_doubt_row *row)
{
    struct device *d = vs_device(l, row->device);
    for (int i = 0; i < VS_DOUBTS; i++) {
        if (row->curve != totals[i].curve)
            continue;
        d->doubt |= (uint8_t)totals[i].parts;
        d->doubt_row[i] = *row;
        l->doubt_to = 1; /* the number is of an earlier ring, or lies behind us in this one */
    }
}
