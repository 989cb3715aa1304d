/*
 * oom.c - whether the program noticed that memory ran out.
 *
 * A framework's own report (BLOCK_OOM) always reached the program.  A refusal by the driver may not:
 * PyTorch's allocator gives back what it caches, repeats the request, and only then gives up.  It reports
 * nothing meanwhile, so the refusal is open until the next event of its thread decides:
 *
 *      refused ... the same request granted, and its next block lies in that     absorbed
 *      refused ... BLOCK_OOM                                                     reported by the framework
 *      refused ... another request, a block elsewhere, a range, a step, the end  reached the program
 *
 * Of several in a row the first and the last are kept (oom_kept.c).
 */
#include "internal.h"

#define OPEN_MAX      8 /* threads; one more closes the oldest */
#define OUT_OF_MEMORY 2 /* CUDA_ERROR_OUT_OF_MEMORY */

/* ---- the end of an open refusal ---- */

static void close_open(struct vs_ledger *l, size_t first, size_t last)
{
    if (first != VS_OOM_NONE)
        l->oom.at.at[first].row.roles = 0;
    l->oom.at.at[last].row.roles = 0;
    l->oom.open--;
    l->oom.version++;
}

static void decide_reached(struct vs_ledger *l, size_t last)
{
    size_t first = vs_oom_find(l, VS_OOM_OPEN_FIRST, l->oom.at.at[last].row.thread);
    vs_oom_reached(l, first == VS_OOM_NONE ? last : first, last);
    close_open(l, first, last);
}

/* The framework got the memory after all (WHAT = absorbed), or reported the failure itself (reported). */
static void decide_inner(struct vs_ledger *l, size_t last, enum vs_count what)
{
    const struct vs_oom_row *row = &l->oom.at.at[last].row;
    for (uint64_t i = 0; i < row->refusals; i++)
        vs_count(l, row->device, what);
    close_open(l, vs_oom_find(l, VS_OOM_OPEN_FIRST, row->thread), last);
}

static void decide_oldest(struct vs_ledger *l)
{
    size_t oldest = VS_OOM_NONE;
    for (size_t i = 0; i < l->oom.at.n; i++) {
        const struct vs_oom_row *row = &l->oom.at.at[i].row;
        if (row->roles == VS_OOM_OPEN_LAST &&
            (oldest == VS_OOM_NONE || row->seq < l->oom.at.at[oldest].row.seq))
            oldest = i;
    }
    if (oldest != VS_OOM_NONE)
        decide_reached(l, oldest);
}

void vs_oom_finish(struct vs_ledger *l)
{
    while (l->oom.open)
        decide_oldest(l);
}

/* ---- what happens ---- */

/* Contexts, modules, limits and launches take memory too, but their calls have no size to compare. */
static bool names_bytes(const struct vs_event *e)
{
    return e->op < VS_OP_CONTEXT_CREATE || e->op == VS_OP_BLOCK_OOM;
}

/* The state of the device after event E, whose row is the last one. */
static struct vs_oom_row row_of(struct vs_ledger *l, const struct vs_event *e)
{
    const struct device *d = vs_device(l, e->device);
    const struct last_sample *last = l->oom.last_sample[vs_device_index(e->device)];
    return (struct vs_oom_row){
        .seq = l->seq,
        .requested = names_bytes(e) ? e->size : 0,
        .framework = d->curve[VS_CURVE_FRAMEWORK].now,
        .direct = d->curve[VS_CURVE_DIRECT].now,
        .managed = d->curve[VS_CURVE_MANAGED].now,
        .reserved = d->curve[VS_CURVE_RESERVED].now,
        .unknown_use = d->curve[VS_CURVE_UNKNOWN_USE].now,
        .base = d->base,
        .pinned = l->space[VS_SPACE_PINNED].now,
        .registered = l->space[VS_SPACE_REGISTERED].now,
        .step = l->step + 1,
        .free_bytes = VS_BYTES_UNKNOWN,
        .reserved_then = VS_BYTES_UNKNOWN,
        .process_used = last[0].t ? last[0].used : VS_BYTES_UNKNOWN,
        .device_used = last[1].t ? last[1].used : VS_BYTES_UNKNOWN,
        .t = (int64_t)e->t_ns - l->config.start_ns,
        .process_used_t = last[0].t,
        .device_used_t = last[1].t,
        .phase = vs_event_phase(l, e),
        .range = e->range,
        .stack = e->stack,
        .tensor = e->op == VS_OP_BLOCK_OOM ? vs_event_tensor(e) : 0,
        .api = vs_has_api(e->op) ? (uint16_t)e->arg1 : 0,
        .thread = e->thread,
        .op = e->op,
        .space = e->space,
        .context = e->context,
        .device = e->device,
    };
}

/* Frees carry no result; a free that failed has an event of its own. */
static bool is_refusal(const struct vs_event *e)
{
    bool asks = e->op < VS_OP_BLOCK_ALLOC || e->op == VS_OP_LIMIT || e->op == VS_OP_OVERHEAD;
    return e->status == OUT_OF_MEMORY && asks && e->op != VS_OP_FREE_FAILED;
}

/* The arena requests what it lacks from the driver, and may itself serve what the driver refused before. */
static bool same_space(uint8_t a, uint8_t b)
{
    return a == b || a == VS_SPACE_ARENA || b == VS_SPACE_ARENA;
}

static bool same_request(const struct vs_oom_row *row, const struct vs_event *e)
{
    return row->op == e->op && row->api == (vs_has_api(e->op) ? (uint16_t)e->arg1 : 0) &&
           row->requested == (names_bytes(e) ? e->size : 0) && same_space(row->space, e->space) &&
           row->device == e->device;
}

static void open_new(struct vs_ledger *l, const struct vs_oom_row *row)
{
    if (l->oom.open >= OPEN_MAX)
        decide_oldest(l);
    if (vs_oom_put(l, VS_OOM_OPEN_LAST, row) == VS_OOM_NONE)
        return;
    vs_oom_put(l, VS_OOM_OPEN_FIRST, row);
    l->oom.open++;
}

static void refused(struct vs_ledger *l, const struct vs_event *e)
{
    struct vs_oom_row row = row_of(l, e);
    size_t last = vs_oom_find(l, VS_OOM_OPEN_LAST, e->thread);
    row.asked_driver = row.requested;
    row.refusals = 1;
    vs_count(l, e->device, VS_COUNT_REFUSED);
    if (last != VS_OOM_NONE && same_request(&l->oom.at.at[last].row, e)) {
        row.refusals += l->oom.at.at[last].row.refusals;
        vs_oom_put(l, VS_OOM_OPEN_LAST, &row);
        return;
    }
    if (last != VS_OOM_NONE)
        decide_reached(l, last);
    open_new(l, &row);
}

/* Whether the refusals before REPORT were the framework's own: it requests at least as much as it needs or,
 * for expandable segments, piece by piece. */
static bool reports(const struct vs_oom_row *refused, const struct vs_oom_row *report)
{
    return refused->device == report->device &&
           (refused->op == VS_OP_PHYS_CREATE || refused->asked_driver >= report->requested);
}

/* Copies the driver's figures at the refusal, all of one moment. */
static void take_figures(struct vs_oom_row *row, const struct vs_oom_row *refused)
{
    row->free_bytes = refused->free_bytes;
    row->free_t = refused->free_t;
    row->reserved_then = refused->reserved_then;
    if (refused->free_bytes == VS_BYTES_UNKNOWN)
        return;
    row->process_used = refused->process_used;
    row->process_used_t = refused->process_used_t;
    row->device_used = refused->device_used;
    row->device_used_t = refused->device_used_t;
}

static void gave_up(struct vs_ledger *l, const struct vs_event *e)
{
    struct vs_oom_row row = row_of(l, e);
    size_t last = vs_oom_find(l, VS_OOM_OPEN_LAST, e->thread);
    if (last != VS_OOM_NONE && reports(&l->oom.at.at[last].row, &row)) {
        const struct vs_oom_row *refused = &l->oom.at.at[last].row;
        row.refusals = refused->refusals;
        row.asked_driver = refused->asked_driver;
        take_figures(&row, refused);
        if (!row.stack)
            row.stack = refused->stack;
        decide_inner(l, last, VS_COUNT_REFUSED_REPORTED);
    } else if (last != VS_OOM_NONE) {
        decide_reached(l, last);
    }
    size_t at = vs_oom_put(l, VS_OOM_LAST, &row);
    if (at != VS_OOM_NONE)
        vs_oom_reached(l, at, at);
}

/* The refused request was repeated on its thread and granted: to the framework, or to a caller not known
 * yet. */
static void granted(struct vs_ledger *l, size_t last, const struct vs_event *e, enum verdict verdict)
{
    struct oom *o = &l->oom.at.at[last];
    bool same = same_request(&o->row, e);
    bool whole = e->op != VS_OP_PHYS_CREATE; /* else a piece: the next one may be refused again */
    if (same && whole && verdict == VERDICT_MANAGED)
        decide_inner(l, last, VS_COUNT_REFUSED_ABSORBED);
    else if (!same)
        decide_reached(l, last);
    else {
        o->retry_seq = l->seq;
        o->retry_address = e->address;
    }
}

/* A block of the thread: does it lie in memory that was granted on the second request?  Then that memory is
 * the framework's. */
static void block_elsewhere(struct vs_ledger *l, size_t last)
{
    const struct oom *o = &l->oom.at.at[last];
    uint32_t index = VS_TABLE_NONE;
    if (o->retry_seq)
        index = o->row.op == VS_OP_PHYS_CREATE ? vs_table_get(&l->phys_seq, o->retry_seq)
                                               : vs_table_get(&l->allocs, o->retry_address);
    if (index != VS_TABLE_NONE && l->entries.at[index].a.seq == o->retry_seq &&
        l->entries.at[index].a.managed)
        decide_inner(l, last, VS_COUNT_REFUSED_ABSORBED);
    else
        decide_reached(l, last);
}

static void watch(struct vs_ledger *l, const struct vs_event *e, enum verdict verdict)
{
    size_t last = vs_oom_find(l, VS_OOM_OPEN_LAST, e->thread);
    if (last == VS_OOM_NONE)
        return;
    switch (e->op) {
    case VS_OP_ALLOC:
    case VS_OP_PHYS_CREATE:
        if (e->status == 0)
            granted(l, last, e, verdict);
        break;
    case VS_OP_BLOCK_ALLOC:
        block_elsewhere(l, last);
        break;
    case VS_OP_RANGE_PUSH ... VS_OP_STEP:
        decide_reached(l, last);
        break;
    default:
        break;
    }
}

void vs_oom_event(struct vs_ledger *l, const struct vs_event *e, enum verdict verdict)
{
    if (l->restoring)
        return;
    if (is_refusal(e))
        refused(l, e);
    else if (e->op == VS_OP_BLOCK_OOM)
        gave_up(l, e);
    else if (l->oom.open)
        watch(l, e, verdict);
}

/* ---- what the driver says ---- */

static void say(struct vs_ledger *l, int device, uint64_t source, uint64_t used, int64_t t)
{
    if (source >= VS_SAMPLE_NVML_PROCESS && source <= VS_SAMPLE_OOM)
        l->oom.last_sample[vs_device_index(device)][source != VS_SAMPLE_NVML_PROCESS] =
            (struct last_sample){used, t};
}

/* The driver's free bytes, as the refused thread queried them: the first answer belongs to the refusal. */
static void note_free_bytes(struct vs_ledger *l, struct vs_oom_row *row, const struct vs_event *e, int64_t t)
{
    if (row->free_bytes != VS_BYTES_UNKNOWN)
        return;
    row->free_bytes = e->address;
    row->device_used = e->size;
    row->reserved_then = vs_device(l, e->device)->curve[VS_CURVE_RESERVED].now;
    row->free_t = row->device_used_t = t;
    l->oom.version++;
}

static void note_process_use(struct vs_ledger *l, struct vs_oom_row *row, const struct vs_event *e, int64_t t)
{
    if (row->free_bytes == VS_BYTES_UNKNOWN || (row->process_used_t >= row->free_t && row->process_used_t))
        return;
    row->process_used = e->size;
    row->process_used_t = t;
    l->oom.version++;
}

void vs_oom_sample(struct vs_ledger *l, const struct vs_event *e, int64_t t)
{
    bool to_refused = e->arg0 == VS_SAMPLE_OOM || e->arg0 == VS_SAMPLE_OOM_PROCESS;
    if (l->restoring)
        return;
    if (e->size != VS_BYTES_UNKNOWN)
        say(l, e->device, e->arg0, e->size, t);
    for (size_t i = 0; to_refused && i < l->oom.at.n; i++) {
        struct vs_oom_row *row = &l->oom.at.at[i].row;
        bool reported = row->op == VS_OP_BLOCK_OOM && row->seq == l->seq - 1; /* an import's entry says it */
        if (!(row->roles & VS_OOM_OPEN_ROLES || reported) || row->thread != e->thread ||
            row->device != e->device)
            continue;
        (e->arg0 == VS_SAMPLE_OOM ? note_free_bytes : note_process_use)(l, row, e, t);
    }
}
