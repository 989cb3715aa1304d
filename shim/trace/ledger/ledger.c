/* ledger.c - the ledger's entry points: takes events, gives rows. */
#include "internal.h"

struct vs_ledger *vs_ledger_new(const struct vs_ledger_config *config)
{
    struct vs_ledger *l = calloc(1, sizeof *l);
    if (!l)
        return NULL;
    l->config = *config;
    l->undo = calloc(VS_UNDO, sizeof *l->undo);
    l->progress = calloc(VS_THREAD_UNKNOWN + 1, sizeof *l->progress);
    if (!l->undo || !l->progress) {
        free(l->undo);
        free(l->progress);
        free(l);
        return NULL;
    }
    return l;
}

void vs_ledger_free(struct vs_ledger *l)
{
    if (!l)
        return;
    for (int i = 0; i < VS_UNDO; i++) {
        free(l->undo[i].maps);
        free(l->undo[i].ended);
    }
    for (size_t i = 0; i < l->open.size; i++)
        free(l->open.at[i].peak);
    for (int i = 0; i < VS_LEDGER_DEVICES; i++)
        free(l->device[i].gone.at);
    struct vs_table *tables[] = {&l->blocks, &l->allocs, &l->handles,         &l->phys_seq,
                                 &l->pools,  &l->stats,  &l->resumed.verdicts};
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
        vs_table_free(tables[i]);
    struct vs_spans *spans[] = {&l->direct_spans, &l->maps, &l->reservations};
    for (size_t i = 0; i < sizeof spans / sizeof *spans; i++)
        vs_spans_free(spans[i]);
    void *lists[] = {l->entries.at, l->fresh.at, l->pool.at, l->queue.at, l->pending.at, l->open.at,
                     l->phase.at,   l->stat.at,  l->undo,    l->bound.at, l->objects.at, l->progress};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        free(lists[i]);
    vs_oom_free(l);
    free(l);
}

/* ---- output ---- */

void vs_output_clear(struct vs_output *out)
{
#define X(name, type) out->name.n = 0;
    VS_OUTPUT_LISTS(X)
#undef X
    out->dropped = out->no_memory = 0;
}

void vs_output_free(struct vs_output *out)
{
#define X(name, type) free(out->name.at);
    VS_OUTPUT_LISTS(X)
#undef X
    *out = (struct vs_output){0};
}

/* ---- events ---- */

static void apply_sample(struct vs_ledger *l, const struct vs_event *e)
{
    struct vs_row r;
    vs_row_begin(l, &r, e);
    vs_row_end(l, &r);
    vs_oom_sample(l, e, r.t);
    if (!l->restoring && l->level < 2 && e->arg0 != VS_SAMPLE_OOM && e->arg0 != VS_SAMPLE_OOM_PROCESS)
        vs_list_push(&l->out->samples, l->out->no_memory,
                     (struct vs_sample_row){r.seq, r.t, e->size, e->arg1, e->address, r.reserved, e->device,
                                            (uint32_t)e->arg0});
}

/* No row: it changes nothing that is counted here. */
static void apply_pool_use(struct vs_ledger *l, const struct vs_event *e)
{
    if (!l->restoring && l->level < 3)
        vs_list_push(&l->out->pools, l->out->no_memory,
                     (struct vs_pool_row){(int64_t)e->t_ns - l->config.start_ns, e->size, e->arg0, e->arg1,
                                          (uint32_t)e->address, e->device});
}

static void apply_fact(struct vs_ledger *l, const struct vs_event *e)
{
    if (!l->restoring)
        vs_list_push(&l->out->facts, l->out->no_memory,
                     (struct vs_fact_row){(uint32_t)e->address, (uint32_t)e->size});
}

static void apply_step(struct vs_ledger *l, const struct vs_event *e)
{
    struct vs_row r;
    vs_row_begin(l, &r, e);
    l->step += e->arg0 + 1; /* the calls before it that have no event, and its own */
    vs_row_end(l, &r);
    if (!l->restoring && l->level < 2)
        vs_list_push(&l->out->steps, l->out->no_memory, (struct vs_step_row){l->step, r.seq, r.t});
}

/* Marks, the record window and kinds of a newer shim: a row, no totals. */
static void apply_other(struct vs_ledger *l, const struct vs_event *e)
{
    struct vs_row r;
    vs_row_begin(l, &r, e);
    if (e->op == VS_OP_RECORD_START)
        for (int i = 0; i < VS_LEDGER_DEVICES; i++) /* the framework went on while nothing was recorded */
            l->device[i].resync = true;
    if (e->op == VS_OP_MARK && !l->restoring && l->level < 2)
        vs_list_push(&l->out->marks, l->out->no_memory,
                     (struct vs_mark_row){r.seq, r.t, (uint32_t)e->address, (uint32_t)e->arg1, e->thread});
    vs_row_end(l, &r);
}

static bool ends(uint8_t op)
{
    return op == VS_OP_FREE || op == VS_OP_FREE_FAILED || op == VS_OP_PHYS_RELEASE || op == VS_OP_UNMAP ||
           op == VS_OP_VA_FREE || op == VS_OP_UNBIND || op == VS_OP_CONTEXT_DESTROY ||
           op == VS_OP_MODULE_UNLOAD;
}

/* Each kind of event has one function, which changes the totals and the live set and makes the
 * event's row. */
static void apply_by_kind(struct vs_ledger *l, const struct vs_event *e, enum verdict verdict)
{
    switch (e->op) {
    case VS_OP_ALLOC:
        vs_apply_alloc(l, e, vs_managed_by(verdict));
        break;
    case VS_OP_FREE:
        vs_apply_free(l, e);
        break;
    case VS_OP_FREE_FAILED:
        vs_apply_free_failed(l, e);
        break;
    case VS_OP_POOL_RESERVED:
        vs_apply_pool(l, e);
        break;
    case VS_OP_PHYS_CREATE ... VS_OP_SET_ACCESS:
        vs_apply_vmm(l, e, vs_managed_by(verdict), 0);
        break;
    case VS_OP_ARENA_RESERVED:
        vs_apply_arena_reserved(l, e);
        break;
    case VS_OP_ARENA_FIGURES:
        vs_apply_arena_figures(l, e);
        break;
    case VS_OP_BLOCK_AWAY:
        vs_apply_block_away(l, e);
        break;
    case VS_OP_BIND:
        vs_apply_bind(l, e, 0);
        break;
    case VS_OP_UNBIND:
        vs_apply_unbind(l, e);
        break;
    case VS_OP_CONTEXT_CREATE ... VS_OP_MODULE_UNLOAD:
        vs_apply_object(l, e);
        break;
    case VS_OP_LIMIT:
    case VS_OP_OVERHEAD:
        vs_apply_moved(l, e);
        break;
    case VS_OP_BLOCK_ALLOC ... VS_OP_BLOCK_OOM:
        vs_apply_block(l, e);
        break;
    case VS_OP_RANGE_PUSH ... VS_OP_RANGE_POP:
        vs_apply_range(l, e);
        break;
    case VS_OP_SAMPLE:
        apply_sample(l, e);
        break;
    case VS_OP_POOL_USE:
        apply_pool_use(l, e);
        break;
    case VS_OP_FRAMEWORK_ROLE:
        vs_apply_role(l, e);
        break;
    case VS_OP_FRAMEWORK_FACT:
        apply_fact(l, e);
        break;
    case VS_OP_STEP:
        apply_step(l, e);
        break;
    default:
        apply_other(l, e);
    }
}

/* Applies E, the next event in order.  VERDICT says whether an allocation is direct or managed, which
 * pending.c has decided by now. */
void vs_ledger_apply(struct vs_ledger *l, const struct vs_event *e, enum verdict verdict)
{
    if (e->op == VS_OP_USE) /* trace/uses has taken what it says */
        return;
    /* an end is recorded before its call: any other event of the thread shows that those calls
     * have returned */
    if (!ends(e->op))
        l->progress[e->thread].other = l->current_ring_seq;
    /* from here on an end is missing, so totals are upper bounds (doubt.c) */
    if (l->doubt_from && l->current_ring_seq >= l->doubt_from)
        vs_doubt_begin(l);
    apply_by_kind(l, e, verdict);
    /* a refusal, or any event while the outcome of one is open */
    if (vs_event_failed(e) || e->op == VS_OP_BLOCK_OOM || l->oom.open)
        vs_oom_event(l, e, verdict);
}

void vs_ledger_feed(struct vs_ledger *l, const struct vs_event *event, uint64_t ring_seq,
                    struct vs_output *out)
{
    l->out = out;
    if (vs_pending_take(l, event, ring_seq)) {
        vs_pending_run(l);
        return;
    }
    l->current_ring_seq = ring_seq;
    vs_ledger_apply(l, event, vs_verdict_at_birth(event));
    l->ring_seq = ring_seq;
}

void vs_ledger_lost(struct vs_ledger *l, uint64_t last)
{
    l->lost_to = last;
}

void vs_ledger_flush(struct vs_ledger *l, struct vs_output *out)
{
    l->out = out;
    vs_pending_resolve_all(l);
    vs_pending_run(l);
}

size_t vs_ledger_held(const struct vs_ledger *l)
{
    return l->queue_tail - l->queue_head;
}

int64_t vs_ledger_held_since(const struct vs_ledger *l)
{
    /* all events that are held back stand behind the oldest provisional allocation */
    return l->pending.n ? (int64_t)vs_pending_since(l) : INT64_MAX;
}

uint64_t vs_ledger_ring_seq(const struct vs_ledger *l)
{
    return l->ring_seq;
}

uint64_t vs_ledger_seq(const struct vs_ledger *l)
{
    return l->seq;
}

void vs_ledger_set_thinning(struct vs_ledger *l, int level)
{
    l->level = level;
}

/* ---- the end of a batch, or of the recording: puts all that changed into the output ---- */

static void write_live(struct vs_ledger *l)
{
    for (size_t i = 0; i < l->fresh.n; i++) {
        struct vs_alloc *a = &l->entries.at[l->fresh.at[i]].a;
        if (a->op && a->fresh)
            vs_list_push(&l->out->born, l->out->no_memory, *a);
        a->fresh = 0;
    }
    l->fresh.n = 0;
}

void vs_ledger_end_batch(struct vs_ledger *l, struct vs_output *out)
{
    l->out = out;
    vs_ranges_end_batch(l);
    vs_phases_end_batch(l);
    vs_stretch_end_batch(l);
    write_live(l);
}

void vs_ledger_finish(struct vs_ledger *l, struct vs_output *out)
{
    vs_ledger_flush(l, out);
    vs_oom_finish(l);
    if (l->doubt_from) /* ends were lost after the last event */
        vs_doubt_begin(l);
    vs_ranges_finish(l);
    vs_ledger_end_batch(l, out);
}

/* ---- for whoever watches the process meanwhile ---- */

static struct vs_now_device device_now(const struct vs_ledger *l, int index)
{
    const struct device *d = &l->device[index];
    const struct last_sample *said = l->oom.last_sample[index];
    struct vs_now_device now = {.ordinal = index - 1,
                                .flags = (vs_use_unknown(d) ? VS_NOW_USE_UNKNOWN : 0) |
                                         (d->was_away ? VS_NOW_WAS_AWAY : 0),
                                .allocated = d->curve[VS_CURVE_ALLOCATED].now,
                                .reserved = d->curve[VS_CURVE_RESERVED].now,
                                .away = d->arena_away,
                                .peak_allocated = d->curve[VS_CURVE_ALLOCATED].peak,
                                .peak_reserved = d->curve[VS_CURVE_RESERVED].peak,
                                .peak_t = d->curve[VS_CURVE_ALLOCATED].peak_t,
                                .process_used = said[0].used,
                                .process_used_t = said[0].t,
                                .device_used = said[1].used,
                                .device_used_t = said[1].t,
                                .out_of_memory = d->count[VS_COUNT_OOM],
                                .driver_refusals = d->count[VS_COUNT_REFUSED]};
    memcpy(now.away_of, d->away_of, sizeof now.away_of);
    return now;
}

void vs_ledger_now(const struct vs_ledger *l, struct vs_now *out)
{
    *out = (struct vs_now){.t = l->t,
                           .rows = l->seq,
                           .steps = l->step,
                           .pinned = l->space[VS_SPACE_PINNED].now,
                           .open_ranges = l->open.n};
    for (int i = 1; i < l->devices && out->devices < VS_NOW_DEVICES; i++)
        if (l->device[i].active)
            out->device[out->devices++] = device_now(l, i);
    size_t skip = l->open.n > VS_NOW_RANGES ? l->open.n - VS_NOW_RANGES : 0;
    for (size_t i = skip; i < l->open.n; i++) {
        const struct vs_range_row *r = &l->open.at[i].row;
        out->range[out->ranges++] = (struct vs_now_range){
            .name = r->name, .thread = r->thread, .phase = r->phase, .t_push = r->t_push};
    }
}
