/*
 * tape_held.c - see tape.h: what pools, the device's CUDA graphs and the arena hold beside a caching
 * allocator, by the ledger's rules (trace/ledger/totals.c).
 */
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "tape_parts.h"
#include "trace/event.h"
#include "trace/ledger/ledger.h"

static void note(struct trace_tape *tape, const struct trace_row *row, enum tape_beside what, int64_t bytes,
                 int64_t stack)
{
    *PUSH(tape->beside, tape->beside_count) =
        (struct tape_change){row->seq, bytes, stack, (uint64_t)row->address, what};
}

static void note_live(struct trace_tape *tape, const struct trace_row *row, int64_t bytes)
{
    if (row->space == VS_SPACE_POOL || row->space == VS_SPACE_GRAPH || row->space == VS_SPACE_ARENA)
        note(tape, row,
             row->space == VS_SPACE_POOL    ? BESIDE_POOL
             : row->space == VS_SPACE_GRAPH ? BESIDE_GRAPH
                                            : BESIDE_ARENA,
             bytes, UNKNOWN);
}

/* The driver is asked after an allocation on the same thread: that one made the pool grow. */
static void pool_figure(struct tape_held *h, struct trace_tape *tape, const struct trace_row *row)
{
    uint32_t asked = vs_table_get(&h->asked, (uint64_t)row->thread);
    note(tape, row, row->space == VS_SPACE_GRAPH ? BESIDE_GRAPHS_HOLD : BESIDE_POOL_HOLDS,
         (int64_t)tape_bytes(row), asked == VS_TABLE_NONE ? UNKNOWN : asked);
}

static void begins(struct tape_held *h, struct trace_tape *tape, const struct trace_row *row)
{
    if (tape_managed(row) == VS_UNKNOWN_USE) {
        note(tape, row, BESIDE_LIBRARY, (int64_t)tape_bytes(row), UNKNOWN);
        vs_table_put(&h->library, (uint64_t)row->seq, 0);
    }
    note_live(tape, row, (int64_t)tape_bytes(row));
    if (row->space == VS_SPACE_POOL)
        vs_table_put(&h->asked, (uint64_t)row->thread, (uint32_t)row->stack);
}

static void ends(struct tape_held *h, struct trace_tape *tape, const struct trace_row *row)
{
    if (row->mate <= 0)
        return;
    if (vs_table_remove(&h->library, (uint64_t)row->mate) != VS_TABLE_NONE)
        note(tape, row, BESIDE_LIBRARY, -(int64_t)tape_bytes(row), UNKNOWN);
    note_live(tape, row, -(int64_t)tape_bytes(row));
}

void tape_held_row(struct tape_held *h, struct trace_tape *tape, const struct trace_row *row)
{
    switch (row->op) {
    case VS_OP_ALLOC:
    case VS_OP_PHYS_CREATE:
        begins(h, tape, row);
        break;
    case VS_OP_FREE:
    case VS_OP_PHYS_RELEASE: /* of no size where references are left */
    case VS_OP_PHYS_FREED:
    case VS_OP_FREE_MISSED:
    case VS_OP_CONTEXT_FREED:
        ends(h, tape, row);
        break;
    case VS_OP_POOL_RESERVED:
        pool_figure(h, tape, row);
        break;
    case VS_OP_ARENA_RESERVED:
        note(tape, row, BESIDE_ARENA_HOLDS, (int64_t)tape_bytes(row) + row->address, UNKNOWN);
        break;
    case VS_OP_GRAPH_NODE:
        if ((int64_t)tape_bytes(row))
            *PUSH(tape->nodes, tape->node_count) =
                (struct tape_node){row->seq, row->stack, (int64_t)tape_bytes(row), tape_number(row)};
        break;
    default:
        break;
    }
}

void tape_held_free(struct tape_held *h)
{
    vs_table_free(&h->asked);
    vs_table_free(&h->library);
}

/* ---- a moment ---- */

static struct tape_holder *holder(struct tape_moment *m, uint64_t handle, bool graphs)
{
    for (size_t i = 0; i < m->holder_count; i++)
        if (m->holders[i].handle == handle && m->holders[i].graphs == graphs)
            return &m->holders[i];
    struct tape_holder *new = PUSH(m->holders, m->holder_count);
    *new = (struct tape_holder){.handle = handle, .graphs = graphs};
    return new;
}

static void apply(struct tape_moment *m, const struct tape_change *c)
{
    if (c->what < BESIDE_SUMS) {
        m->live[c->what] += c->bytes;
    } else if (c->what == BESIDE_ARENA_HOLDS) {
        m->arena_held = c->bytes;
    } else {
        struct tape_holder *pool = holder(m, c->handle, c->what == BESIDE_GRAPHS_HOLD);
        pool->stack = c->bytes > pool->bytes && c->stack != UNKNOWN ? c->stack : pool->stack;
        pool->bytes = c->bytes;
    }
}

static size_t events_to(const struct trace_tape *tape, int64_t seq)
{
    size_t low = 0, high = tape->n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (tape->at[middle].number <= tape_number_of(seq))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

void tape_moment_at(const struct trace_tape *tape, int64_t seq, struct tape_moment *m)
{
    *m = (struct tape_moment){.seq = seq, .n = events_to(tape, seq)};
    while (m->scopes < tape->scope_count && tape->scopes[m->scopes].seq <= seq)
        m->scopes++;
    while (m->nodes < tape->node_count && tape->nodes[m->nodes].seq <= seq)
        m->nodes++;
    for (size_t i = 0; i < tape->beside_count && tape->beside[i].seq <= seq; i++)
        apply(m, &tape->beside[i]);
}
