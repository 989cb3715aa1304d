/*
 * blocks.c - one pass over the events of a caching allocator's blocks, in their order (blocks.h).
 *
 * A free names its allocation by number, and blocks are born in the order of their numbers: a binary search
 * finds the block.  The ends of steps and the roles come in the same order, and are merged in.
 */
#include "blocks.h"

#include <sqlite3.h>
#include <stdlib.h>

#include "events.h"
#include "sql.h"
#include "steps.h"
#include "trace/ledger/addresses.h"

#define SIZE_MOST    (INT64_C(1) << 46)
#define BLOCKS_MOST  (BLOCK_NEVER - 1)
#define STREAMS_MOST 60000

struct reading {
    struct trace *t;
    struct trace_blocks *out;
    struct vs_table streams;
    uint32_t stream_count;
    struct trace_step_end *steps;
    size_t step_count, step;
};

static uint16_t stream_of(struct reading *r, uint64_t handle)
{
    uint32_t known = vs_table_get(&r->streams, handle);
    if (known == VS_TABLE_NONE) {
        if (r->stream_count >= STREAMS_MOST)
            return 0;
        known = r->stream_count++;
        vs_table_put(&r->streams, handle, known);
    }
    return (uint16_t)known;
}

static uint32_t block_of(const struct trace_blocks *b, int64_t seq)
{
    const struct trace_made *block = FIND(seq, b->blocks, b->block_count);
    return block ? (uint32_t)(block - b->blocks) : BLOCK_NEVER;
}

static void note(struct reading *r, enum trace_moment_what what, uint32_t block, int64_t phase)
{
    bool known = phase > 0 && phase < (int64_t)r->t->phase_name_count && phase < UINT16_MAX;
    *PUSH(r->out->moments, r->out->moment_count) =
        (struct trace_moment){.block = block, .phase = known ? (uint16_t)phase : 0, .what = (uint8_t)what};
}

/* Steps that ended before event SEQ. */
static void end_steps(struct reading *r, int64_t seq)
{
    for (; r->step < r->step_count && r->steps[r->step].seq < seq; r->step++) {
        note(r, MOMENT_STEP, 0, 0);
        r->out->steps++;
    }
}

static void born(struct reading *r, const struct trace_row *e)
{
    struct trace_blocks *b = r->out;
    if (b->block_count >= BLOCKS_MOST || e->size < 0 || e->size >= SIZE_MOST)
        return;
    note(r, MOMENT_BORN, (uint32_t)b->block_count, e->phase);
    *PUSH(b->blocks, b->block_count) =
        (struct trace_made){.seq = e->seq,
                            .size = (uint64_t)e->size,
                            .stack = e->stack > 0 && e->stack < UINT32_MAX ? (uint32_t)e->stack : 0,
                            .asked = asked_find(&b->asked, e->tensor),
                            .born = (uint32_t)(b->moment_count - 1),
                            .died = BLOCK_NEVER,
                            .stream = stream_of(r, (uint64_t)e->stream)};
}

static void died(struct reading *r, const struct trace_row *e)
{
    uint32_t block = block_of(r->out, e->mate);
    if (block == BLOCK_NEVER || r->out->blocks[block].died != BLOCK_NEVER)
        return;
    note(r, MOMENT_DIED, block, e->phase);
    r->out->blocks[block].died = (uint32_t)(r->out->moment_count - 1);
}

/* Says of the free just before that its block is not reusable yet, or that it is now. */
static void deferred(struct reading *r, const struct trace_row *e, bool ends)
{
    struct trace_blocks *b = r->out;
    uint32_t block = block_of(b, e->mate);
    if (block == BLOCK_NEVER || b->blocks[block].died == BLOCK_NEVER)
        return;
    if (ends && b->moments[b->blocks[block].died].deferred)
        note(r, MOMENT_REUSABLE, block, e->phase);
    else if (!ends)
        b->moments[b->blocks[block].died].deferred = true;
}

static void refused(struct reading *r, const struct trace_row *e)
{
    struct trace_blocks *b = r->out;
    if (e->size < 0 || e->size >= SIZE_MOST)
        return;
    note(r, MOMENT_REFUSED, (uint32_t)b->refusal_count, e->phase);
    *PUSH(b->refusals, b->refusal_count) =
        (struct trace_refusal){e->seq, e->t, (uint64_t)e->size, b->limit,
                               e->stack > 0 && e->stack < UINT32_MAX ? (uint32_t)e->stack : 0};
}

static bool take_row(void *reading, const struct trace_row *e)
{
    struct reading *r = reading;
    if (e->status && e->op != VS_OP_BLOCK_OOM)
        return true;
    end_steps(r, e->seq);
    if (r->out->moment_count >= UINT32_MAX - 4)
        return false;
    switch (e->op) {
    case VS_OP_BLOCK_ALLOC:
        born(r, e);
        break;
    case VS_OP_BLOCK_FREE:
        died(r, e);
        break;
    case VS_OP_BLOCK_OOM:
        refused(r, e);
        break;
    case VS_OP_BLOCK_DEFERRED:
    case VS_OP_BLOCK_REUSABLE:
        deferred(r, e, e->op == VS_OP_BLOCK_REUSABLE);
        break;
    case VS_OP_EMPTY_CACHE:
        note(r, MOMENT_EMPTIED, 0, e->phase);
        break;
    case VS_OP_MEMORY_LIMIT:
        r->out->limit = e->size > 0 ? (uint64_t)e->size : 0;
        break;
    default:
        break;
    }
    return true;
}

static int read_events(struct reading *r, int64_t device)
{
    const struct trace_part part = {device, 0, INT64_MAX,
                                    EVENT(BLOCK_ALLOC) | EVENT(BLOCK_FREE) | EVENT(BLOCK_OOM) |
                                        EVENT(BLOCK_DEFERRED) | EVENT(BLOCK_REUSABLE) | EVENT(EMPTY_CACHE) |
                                        EVENT(MEMORY_LIMIT)};
    int result = trace_rows(r->t, &part, take_row, r);
    end_steps(r, INT64_MAX);
    return result;
}

static int read_roles(struct trace *t, struct trace_blocks *b)
{
    struct sqlite3_stmt *s = trace_sql(t, "SELECT alloc_seq, role FROM framework_role ORDER BY alloc_seq", 0);
    while (trace_sql_row(s)) {
        uint32_t block = block_of(b, sqlite3_column_int64(s, 0));
        uint8_t role = vs_role_number((uint64_t)sqlite3_column_int64(s, 1));
        if (block == BLOCK_NEVER || !role)
            continue;
        b->blocks[block].role = role;
        b->roles++;
    }
    return trace_sql_done(t, s);
}

int trace_blocks(struct trace *t, int64_t device, struct trace_blocks *out)
{
    struct reading r = {.t = t, .out = out};
    *out = (struct trace_blocks){0};
    int result = asked_read(t, &out->asked) || trace_step_ends(t, &r.steps, &r.step_count) ||
                 read_events(&r, device) || read_roles(t, out);
    vs_table_free(&r.streams);
    free(r.steps);
    if (result)
        trace_free_blocks(out);
    return result ? -1 : 0;
}

void trace_free_blocks(struct trace_blocks *b)
{
    free(b->blocks);
    free(b->moments);
    free(b->refusals);
    asked_free(&b->asked);
    *b = (struct trace_blocks){0};
}
