/*
 * tape_held.c - see tape.h: what stands beside a caching allocator's memory, as its events add it up.
 *
 * The rules are the ledger's (trace/ledger/totals.c): a pool, the device's CUDA graphs and the arena hold
 * memory that allocations are carved from.
 */
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "tape_parts.h"
#include "trace/event.h"
#include "trace/ledger/ledger.h"

static int64_t *live_of(struct tape_moment *m, const struct trace_row *row)
{
    return row->space == VS_SPACE_POOL    ? &m->pool_live
           : row->space == VS_SPACE_GRAPH ? &m->graph_live
           : row->space == VS_SPACE_ARENA ? &m->arena_live
                                          : NULL;
}

static struct tape_holder *holder(struct tape_moment *m, uint64_t handle, bool graphs)
{
    for (size_t i = 0; i < m->holder_count; i++)
        if (m->holders[i].handle == handle && m->holders[i].graphs == graphs)
            return &m->holders[i];
    struct tape_holder *new = PUSH(m->holders, m->holder_count);
    *new = (struct tape_holder){.handle = handle, .graphs = graphs};
    return new;
}

/* The driver is asked after an allocation on the same thread: that one made the pool grow. */
static void pool_figure(struct tape_held *h, const struct trace_row *row)
{
    struct tape_holder *pool = holder(&h->now, (uint64_t)row->address, row->space == VS_SPACE_GRAPH);
    uint32_t asked = vs_table_get(&h->asked, (uint64_t)row->thread);
    if ((int64_t)tape_bytes(row) > pool->bytes && asked != VS_TABLE_NONE)
        pool->stack = asked;
    pool->bytes = (int64_t)tape_bytes(row);
}

static void begins(struct tape_held *h, const struct trace_row *row)
{
    int64_t *live = live_of(&h->now, row);
    if (tape_managed(row) == VS_UNKNOWN_USE) {
        h->now.library += (int64_t)tape_bytes(row);
        vs_table_put(&h->library, (uint64_t)row->seq, 0);
    }
    if (live)
        *live += (int64_t)tape_bytes(row);
    if (row->space == VS_SPACE_POOL)
        vs_table_put(&h->asked, (uint64_t)row->thread, (uint32_t)row->stack);
}

static void ends(struct tape_held *h, const struct trace_row *row)
{
    int64_t *live = live_of(&h->now, row);
    if (row->mate <= 0)
        return;
    if (vs_table_remove(&h->library, (uint64_t)row->mate) != VS_TABLE_NONE)
        h->now.library -= (int64_t)tape_bytes(row);
    if (live)
        *live -= (int64_t)tape_bytes(row);
}

void tape_held_row(struct tape_held *h, struct trace_tape *tape, const struct trace_row *row)
{
    switch (row->op) {
    case VS_OP_ALLOC:
    case VS_OP_PHYS_CREATE:
        begins(h, row);
        break;
    case VS_OP_FREE:
    case VS_OP_PHYS_RELEASE: /* of no size where references are left */
    case VS_OP_PHYS_FREED:
    case VS_OP_FREE_MISSED:
    case VS_OP_CONTEXT_FREED:
        ends(h, row);
        break;
    case VS_OP_POOL_RESERVED:
        pool_figure(h, row);
        break;
    case VS_OP_ARENA_RESERVED:
        h->now.arena_held = (int64_t)tape_bytes(row);
        break;
    case VS_OP_GRAPH_NODE:
        if ((int64_t)tape_bytes(row))
            *PUSH(tape->nodes, tape->node_count) =
                (struct tape_node){row->stack, (int64_t)tape_bytes(row), tape_number(row)};
        break;
    default:
        break;
    }
}

void tape_held_copy(const struct tape_held *h, struct tape_moment *m)
{
    struct tape_moment copy = h->now;
    copy.seq = m->seq;
    copy.n = m->n;
    copy.scopes = m->scopes;
    copy.nodes = m->nodes;
    copy.holders = NULL;
    copy.holder_count = 0;
    for (size_t i = 0; i < h->now.holder_count; i++)
        *PUSH(copy.holders, copy.holder_count) = h->now.holders[i];
    *m = copy;
}

void tape_held_free(struct tape_held *h)
{
    free(h->now.holders);
    vs_table_free(&h->asked);
    vs_table_free(&h->library);
}
