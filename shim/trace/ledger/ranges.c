/*
 * ranges.c - open ranges, and the peak of each device's totals during each of them.
 *
 * Events do not touch the ranges.  Each device keeps one running maximum since the last boundary; every push
 * and pop merges it into all open ranges and restarts it at the present value.  So nesting, threads and the
 * order of pops do not matter, and only boundaries cost time.
 *
 *      allocated   1   4   2 | 3   9   5 | 6   1
 *      open        A         | A B       | A
 *      fold            A=4   |   A=B=9   |   A=9 (6)
 */
#include "internal.h"

static uint32_t cached_phase(const struct vs_ledger *l, uint32_t id, bool *known)
{
    *known = l->range_cache[id % VS_RANGE_CACHE].id == id;
    return l->range_cache[id % VS_RANGE_CACHE].phase;
}

struct open_range *vs_range_find(struct vs_ledger *l, uint32_t id)
{
    for (size_t i = l->open.n; i-- > 0;)
        if (l->open.at[i].row.id == id)
            return &l->open.at[i];
    return NULL;
}

bool vs_ledger_range_open(const struct vs_ledger *l, uint32_t id)
{
    return vs_range_find((struct vs_ledger *)l, id) != NULL; /* the search changes nothing */
}

/* Remembers the last few thousand closed ranges, because an event may name one that another thread popped a
 * moment ago. */
uint32_t vs_range_phase(struct vs_ledger *l, uint32_t range)
{
    bool known;
    uint32_t phase = cached_phase(l, range, &known);
    if (known)
        return phase;
    struct open_range *o = vs_range_find(l, range);
    return o ? o->row.phase : VS_PHASE_NONE;
}

/* ---- peaks ---- */

static bool fold_one(struct open_range *o, int index, const struct device *d)
{
    struct range_peak *p = &o->peak[index];
    bool grew = false;
    if (d->run_allocated > p->allocated) {
        p->allocated = d->run_allocated;
        p->t = d->run_t;
        grew = true;
    }
    if (d->run_reserved > p->reserved) {
        p->reserved = d->run_reserved;
        grew = true;
    }
    return grew;
}

void vs_ranges_fold(struct vs_ledger *l)
{
    for (int i = 0; i < l->devices; i++) {
        struct device *d = &l->device[i];
        if (d->run_dirty)
            for (size_t k = 0; k < l->open.n; k++)
                l->open.at[k].dirty |= fold_one(&l->open.at[k], i, d);
        d->run_allocated = d->curve[VS_CURVE_ALLOCATED].now;
        d->run_reserved = d->curve[VS_CURVE_RESERVED].now;
        d->run_dirty = false;
    }
}

static void write_range(struct vs_ledger *l, struct open_range *o)
{
    if (l->level >= 2)
        return;
    vs_list_push(&l->out->ranges, l->out->no_memory, o->row);
    for (int i = 0; i < l->devices; i++)
        if (l->device[i].active)
            vs_list_push(&l->out->range_peaks, l->out->no_memory,
                         (struct vs_range_peak_row){o->row.id, i - 1,
                                                    vs_use_unknown(&l->device[i]) ? VS_BYTES_UNKNOWN
                                                                                  : o->peak[i].allocated,
                                                    o->peak[i].reserved, o->peak[i].t});
    o->dirty = false;
}

static void share_with_phase(struct vs_ledger *l, const struct open_range *o)
{
    if (o->row.phase == VS_PHASE_NONE)
        return;
    for (int i = 0; i < l->devices; i++)
        if (l->device[i].active)
            vs_phase_peak(l, i, o->row.phase, &o->peak[i]);
}

static void end_in_phase(struct vs_ledger *l, const struct open_range *o)
{
    if (o->row.phase == VS_PHASE_NONE)
        return;
    struct phase *p = vs_phase(l, o->row.phase);
    if (p && o->row.outermost && o->row.t_pop >= 0)
        p->ns += o->row.t_pop - o->row.t_push;
    if (p)
        p->dirty = true;
    for (int i = 0; i < l->devices; i++) {
        struct phase_dev *s = l->device[i].active ? vs_phase_dev(l, i, o->row.phase) : NULL;
        if (s)
            s->row.end_allocated = l->device[i].curve[VS_CURVE_ALLOCATED].now;
    }
}

/* Writes the range's last row and removes it from the open ranges. */
static void close_range(struct vs_ledger *l, struct open_range *o)
{
    share_with_phase(l, o);
    end_in_phase(l, o);
    write_range(l, o);
    struct range_peak *spare = o->peak;
    size_t index = (size_t)(o - l->open.at);
    l->open.n--;
    memmove(o, o + 1, (l->open.n - index) * sizeof *o);
    l->open.at[l->open.n].peak = spare; /* kept for the next push */
}

/* ---- lost pops ---- */

static void close_lost(struct vs_ledger *l, uint32_t id, int64_t t)
{
    for (size_t i = 0; i < l->open.n;) { /* the pops of ranges inside it are lost as well */
        struct open_range *o = &l->open.at[i];
        if (o->row.parent == id && !o->row.cross_thread) {
            close_lost(l, o->row.id, t);
            i = 0;
        } else {
            i++;
        }
    }
    struct open_range *o = vs_range_find(l, id);
    vs_count(l, -1, VS_COUNT_LOST_POP);
    if (o) {
        o->row.lost = true;
        close_range(l, o);
    }
}

/* Two open ranges of one thread and source with the same parent cannot be: the pop of the older one was
 * lost. */
static void find_lost(struct vs_ledger *l, const struct vs_range_row *next)
{
    if (next->cross_thread || next->thread == VS_THREAD_UNKNOWN)
        return;
    for (size_t i = l->open.n; i-- > 0;) {
        const struct open_range *o = &l->open.at[i];
        if (!o->row.cross_thread && o->row.thread == next->thread && o->row.source == next->source &&
            o->row.parent == next->parent) {
            close_lost(l, o->row.id, next->t_push);
            return;
        }
    }
    if (l->open.n >= VS_RANGES_OPEN_MAX)
        close_lost(l, l->open.at[0].row.id, next->t_push);
}

/* ---- push, pop ---- */

struct open_range *vs_range_open_slot(struct vs_ledger *l)
{
    size_t size = l->open.size;
    if (!vs_list_room((void **)&l->open.at, l->open.n, &l->open.size, sizeof *l->open.at))
        return NULL;
    if (l->open.size > size)
        memset(&l->open.at[size], 0, (l->open.size - size) * sizeof *l->open.at);
    struct open_range *o = &l->open.at[l->open.n];
    struct range_peak *peak = o->peak ? o->peak : malloc(VS_LEDGER_DEVICES * sizeof *peak);
    if (!peak)
        return NULL;
    *o = (struct open_range){.peak = peak};
    memset(peak, 0, VS_LEDGER_DEVICES * sizeof *peak);
    l->open.n++;
    return o;
}

/* Where the thread is unknown only the chain of parents can be searched, as far as those ranges are open. */
static bool parent_of_phase(struct vs_ledger *l, const struct vs_range_row *row)
{
    uint32_t id = row->parent;
    for (int depth = 0; id && depth < VS_RANGES_OPEN_MAX; depth++) {
        const struct open_range *o = vs_range_find(l, id);
        if (!o)
            return false;
        if (o->row.phase == row->phase)
            return true;
        id = o->row.parent;
    }
    return false;
}

/* Whether a range of the same phase is open around ROW on its thread.  Sources and domains interleave
 * freely, so a range in between may be closed already: search the thread's open ranges, not the chain of
 * parents.
 */
static bool inside_its_phase(struct vs_ledger *l, const struct vs_range_row *row)
{
    if (row->cross_thread)
        return false;
    if (row->thread == VS_THREAD_UNKNOWN)
        return parent_of_phase(l, row);
    for (size_t i = 0; i < l->open.n; i++) {
        const struct vs_range_row *o = &l->open.at[i].row;
        if (o->phase == row->phase && o->thread == row->thread && !o->cross_thread)
            return true;
    }
    return false;
}

static uint32_t phase_named_by(struct vs_ledger *l, const struct vs_event *e)
{
    if (!(e->arg1 & VS_RANGE_NAMES_PHASE) || (e->arg1 & VS_RANGE_CROSS_THREAD) || !l->config.phase_of)
        return VS_PHASE_NONE;
    return l->config.phase_of(l->config.context, e->stack ? e->stack : (uint32_t)e->address);
}

static void start_peaks(struct vs_ledger *l, struct open_range *o)
{
    for (int i = 0; i < l->devices; i++)
        o->peak[i] = (struct range_peak){l->device[i].curve[VS_CURVE_ALLOCATED].now,
                                         l->device[i].curve[VS_CURVE_RESERVED].now, o->row.t_push};
    for (int i = l->devices; i < VS_LEDGER_DEVICES; i++) /* these devices hold nothing yet */
        o->peak[i].t = o->row.t_push;
}

static void open_range(struct vs_ledger *l, const struct vs_range_row *row)
{
    find_lost(l, row);
    bool outermost = !inside_its_phase(l, row);
    struct open_range *o = vs_range_open_slot(l);
    if (!o) {
        vs_count(l, -1, VS_COUNT_NO_MEMORY);
        return;
    }
    o->row = *row;
    o->row.outermost = outermost;
    o->dirty = true;
    start_peaks(l, o);
    struct phase *p = row->phase == VS_PHASE_NONE ? NULL : vs_phase(l, row->phase);
    if (p) {
        p->ranges++;
        p->dirty = true;
    }
}

static void push(struct vs_ledger *l, const struct vs_event *e, struct vs_row *r)
{
    r->phase = phase_named_by(l, e);
    r->stack = 0;
    r->address = r->size = 0; /* the name stands in rng */
    l->range_cache[e->range % VS_RANGE_CACHE].id = e->range;
    l->range_cache[e->range % VS_RANGE_CACHE].phase = r->phase;
    vs_ranges_fold(l);
    open_range(l, &(struct vs_range_row){.id = e->range,
                                         .phase = r->phase,
                                         .name = (uint32_t)e->address,
                                         .domain = (uint32_t)e->size,
                                         .parent = (uint32_t)e->arg0,
                                         .step = (uint32_t)(l->step + 1),
                                         .thread = e->thread,
                                         .source = e->arg1 & VS_RANGE_SOURCE_MASK,
                                         .first_seq = r->seq,
                                         .cross_thread = e->arg1 & VS_RANGE_CROSS_THREAD,
                                         .t_push = r->t,
                                         .t_pop = -1});
}

static void pop(struct vs_ledger *l, const struct vs_event *e, struct vs_row *r)
{
    vs_ranges_fold(l);
    struct open_range *o = vs_range_find(l, e->range);
    if (!o)
        return; /* its push was lost, or it opened before the recording */
    r->phase = o->row.phase;
    o->row.t_pop = r->t;
    close_range(l, o);
}

void vs_apply_range(struct vs_ledger *l, const struct vs_event *e)
{
    struct vs_row r;
    vs_row_begin(l, &r, e);
    if (!l->restoring && e->range) {
        if (e->op == VS_OP_RANGE_PUSH)
            push(l, e, &r);
        else
            pop(l, e, &r);
    }
    vs_row_end(l, &r);
}

/* ---- batches ---- */

/* Open ranges count up to the last row. */
static void add_up_open(struct vs_ledger *l)
{
    for (size_t i = 0; i < l->phase.n; i++) {
        l->phase.at[i].dirty |= l->phase.at[i].open_ns != 0;
        l->phase.at[i].open_ns = 0;
    }
    for (size_t i = 0; i < l->open.n; i++) {
        const struct vs_range_row *r = &l->open.at[i].row;
        struct phase *p = r->outermost && r->phase != VS_PHASE_NONE ? vs_phase(l, r->phase) : NULL;
        if (p && l->t > r->t_push) {
            p->open_ns += l->t - r->t_push;
            p->dirty = true;
        }
    }
}

void vs_ranges_end_batch(struct vs_ledger *l)
{
    vs_ranges_fold(l);
    if (!l->finished)
        add_up_open(l);
    for (size_t i = 0; i < l->open.n; i++) {
        struct open_range *o = &l->open.at[i];
        if (!o->dirty)
            continue;
        share_with_phase(l, o);
        write_range(l, o);
        o->dirty = false;
    }
}

void vs_ranges_finish(struct vs_ledger *l)
{
    vs_ranges_fold(l);
    add_up_open(l);
    l->finished = true;
    while (l->open.n)
        close_range(l, &l->open.at[l->open.n - 1]);
}
