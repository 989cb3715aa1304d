/*
 * row.c - makes a row of table ev: begins it from its event, adds the totals after it, decides whether it is
 * written.
 */
#include "internal.h"

bool vs_has_api(uint8_t op)
{
    return op >= VS_OP_ALLOC && op <= VS_OP_OVERHEAD && op != VS_OP_MAP && op != VS_OP_FREE_FAILED &&
           op != VS_OP_POOL_RESERVED && op != VS_OP_BIND && op != VS_OP_UNBIND && !vs_event_is_block(op);
}

/* The event's own second number, which the database shows as `stream`. */
static uint64_t second_number(const struct vs_event *e)
{
    switch (e->op) {
    case VS_OP_ALLOC:
    case VS_OP_FREE:
    case VS_OP_GRAPH_NODE:
    case VS_OP_CONTEXT_CREATE:
    case VS_OP_CONTEXT_DESTROY:
    case VS_OP_MODULE_LOAD:
    case VS_OP_LIMIT:
    case VS_OP_OVERHEAD:
    case VS_OP_BLOCK_DEFERRED:
    case VS_OP_POOL_BEGIN:
    case VS_OP_BLOCK_SHARED:
    case VS_OP_BLOCK_AWAY:
        return e->arg0;
    case VS_OP_BIND:
    case VS_OP_UNBIND:
        return e->arg1;
    default:
        return 0;
    }
}

static uint64_t block_stream(const struct vs_event *e)
{
    if (e->space == VS_SPACE_ARENA || e->arg0 == VS_BYTES_UNKNOWN)
        return vs_event_block_arg1(e);
    return e->op == VS_OP_BLOCK_FREE ? 0 : e->context;
}

uint32_t vs_event_phase(struct vs_ledger *l, const struct vs_event *e)
{
    uint32_t phase = e->range ? vs_range_phase(l, e->range) : VS_PHASE_NONE;
    if (phase == VS_PHASE_NONE && (e->op < VS_OP_RANGE_PUSH || e->op >= VS_OP_RECLASSIFY) &&
        l->config.is_autograd && l->config.is_autograd(l->config.context, e->thread))
        return VS_PHASE_BACKWARD;
    return phase;
}

void vs_row_begin(struct vs_ledger *l, struct vs_row *r, const struct vs_event *e)
{
    *r = (struct vs_row){.seq = ++l->seq,
                         .t = (int64_t)e->t_ns - l->config.start_ns,
                         .address = e->address,
                         .size = e->size,
                         .phase = vs_event_phase(l, e),
                         .range = e->range,
                         .stack = e->op == VS_OP_FREE || e->op == VS_OP_BLOCK_FREE ? 0 : e->stack,
                         .thread = e->thread,
                         .status = e->status,
                         .op = e->op,
                         .space = e->space,
                         .context = e->context,
                         .device = e->device};
    l->t = r->t;
    if (vs_event_is_block(e->op)) { /* most events are, and have no api */
        r->stream = block_stream(e);
        r->tensor = e->op == VS_OP_BLOCK_FREE ? 0 : vs_event_tensor(e);
        r->context = 0;
        r->status = 0;
        return;
    }
    if (vs_has_api(e->op))
        r->api = (uint16_t)e->arg1;
    r->stream = second_number(e);
}

/* The rows that a writer which continues the file needs: the driver's events. */
static bool essential(const struct vs_row *r)
{
    if (r->op == VS_OP_FREE_MISSED)
        return r->space != VS_SPACE_NONE; /* not a block's */
    return r->op < VS_OP_BLOCK_ALLOC || r->op >= VS_OP_RECLASSIFY ||
           (r->op >= VS_OP_LIMIT && r->op <= VS_OP_ARENA_RESERVED);
}

static bool is_written(const struct vs_ledger *l, const struct vs_row *r)
{
    return l->level < 2 || (l->level == 2 && essential(r));
}

void vs_row_end(struct vs_ledger *l, struct vs_row *r)
{
    vs_device_totals(l, r);
    if (l->restoring)
        return;
    if (vs_device(l, r->device)->doubt)
        vs_doubt_look(l, r);
    if (r->op < VS_OP_RANGE_PUSH || r->op >= VS_OP_RECLASSIFY)
        vs_phase_row(l, r);
    bool written = is_written(l, r);
    if (written)
        vs_list_push(&l->out->rows, l->out->no_memory, *r);
    else
        l->out->dropped++;
    vs_stretch_row(l, r, written);
}

void vs_mismatch(struct vs_ledger *l, const struct vs_row *r, enum vs_mismatch what, uint64_t ours,
                 uint64_t theirs)
{
    if (l->restoring || vs_device(l, r->device)->mismatches[what]++ >= VS_MISMATCH_ROWS)
        return;
    vs_list_push(&l->out->mismatches, l->out->no_memory,
                 (struct vs_mismatch_row){r->seq, ours, theirs, r->t, r->device, what});
}
