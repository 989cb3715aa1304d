/*
 * tape.c - what a caching allocator was asked for and what it asked of the driver, in order: the input of a
 * replay.
 *
 * Blocks are paired by their addresses here, so that an event names the block it is about by a number.
 */
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

#include "sql.h"
#include "trace/ledger/addresses.h"

#define BYTES(c)     "CASE WHEN " c " < 0 THEN -" c " ELSE " c " * 512 END"
#define SIZE_MOST    (UINT64_C(1) << 46)
#define ADDRESS_MOST (UINT64_C(1) << 62)
#define STREAMS_MOST 60000

struct reading {
    struct trace_tape *tape;
    struct vs_table living, deferred; /* blocks by address: their numbers */
    struct vs_table pieces;           /* the framework's driver memory, by address or handle: 0 */
    struct vs_table streams;
};

static uint16_t stream_of(struct reading *r, uint64_t handle)
{
    uint32_t known = vs_table_get(&r->streams, handle);
    if (known == VS_TABLE_NONE) {
        if (r->tape->streams >= STREAMS_MOST)
            return 0;
        known = r->tape->streams++;
        vs_table_put(&r->streams, handle, known);
    }
    return (uint16_t)known;
}

static void push(struct reading *r, struct tape_event e)
{
    *PUSH(r->tape->at, r->tape->n) = e;
}

static void block_alloc(struct reading *r, struct tape_event e)
{
    e.id = r->tape->ids++;
    e.what = TAPE_ALLOC;
    vs_table_put(&r->living, e.address, e.id);
    push(r, e);
}

static void block_free(struct reading *r, struct tape_event e)
{
    e.id = vs_table_remove(&r->living, e.address);
    e.what = TAPE_FREE;
    if (e.id != VS_TABLE_NONE)
        push(r, e);
}

/* Says of the free just before that its block is not reusable yet. */
static void block_deferred(struct reading *r, uint64_t address)
{
    struct tape_event *last = r->tape->n ? &r->tape->at[r->tape->n - 1] : NULL;
    if (!last || last->what != TAPE_FREE || last->address != address)
        return;
    last->deferred = true;
    vs_table_put(&r->deferred, address, last->id);
}

static void block_reusable(struct reading *r, struct tape_event e)
{
    e.id = vs_table_remove(&r->deferred, e.address);
    e.what = TAPE_REUSABLE;
    if (e.id != VS_TABLE_NONE)
        push(r, e);
}

/* Driver memory that a framework carves: told by what the file says of its birth, ended by its address. */
static void driver_memory(struct reading *r, struct tape_event e, int op, bool managed, uint64_t handle)
{
    bool begins = op == VS_OP_ALLOC || op == VS_OP_PHYS_CREATE;
    if (begins && managed)
        vs_table_put(&r->pieces, e.address, 0);
    else if (op == VS_OP_PHYS_RELEASE)
        return;
    e.what = op == VS_OP_ALLOC  ? TAPE_SEGMENT_ALLOC
             : op == VS_OP_FREE ? TAPE_SEGMENT_FREE
             : op == VS_OP_MAP  ? TAPE_MAP
                                : TAPE_UNMAP;
    if (op == VS_OP_ALLOC && managed) {
        push(r, e);
    } else if (op == VS_OP_FREE && vs_table_remove(&r->pieces, e.address) != VS_TABLE_NONE) {
        push(r, e);
    } else if (op == VS_OP_MAP && vs_table_get(&r->pieces, handle) != VS_TABLE_NONE) {
        vs_table_put(&r->pieces, e.address, 1);
        r->tape->expandable = true;
        push(r, e);
    } else if (op == VS_OP_UNMAP && vs_table_remove(&r->pieces, e.address) != VS_TABLE_NONE) {
        push(r, e);
    }
}

static void read_row(struct reading *r, struct sqlite3_stmt *s)
{
    int op = sqlite3_column_int(s, 0);
    struct tape_event e = {.t = trace_sql_amount(s, 1),
                           .address = (uint64_t)trace_sql_amount(s, 2),
                           .size = (uint64_t)trace_sql_amount(s, 3)};
    if (e.size >= SIZE_MOST || e.address >= ADDRESS_MOST)
        return; /* damaged */
    bool block = op >= VS_OP_BLOCK_ALLOC && op <= VS_OP_BLOCK_REUSABLE;
    if (block || op == VS_OP_ALLOC)
        e.stream = stream_of(r, (uint64_t)sqlite3_column_int64(s, 4));
    switch (op) {
    case VS_OP_BLOCK_ALLOC:
        r->tape->arena = r->tape->arena || sqlite3_column_int(s, 6) == VS_SPACE_ARENA;
        block_alloc(r, e);
        break;
    case VS_OP_BLOCK_FREE:
        block_free(r, e);
        break;
    case VS_OP_BLOCK_OOM:
        e.what = TAPE_OOM;
        push(r, e);
        break;
    case VS_OP_BLOCK_DEFERRED:
        block_deferred(r, e.address);
        break;
    case VS_OP_BLOCK_REUSABLE:
        block_reusable(r, e);
        break;
    case VS_OP_RECORD_START:
        if (r->tape->imported)
            r->tape->start = r->tape->n;
        break;
    default:
        driver_memory(r, e, op, sqlite3_column_int(s, 5) != 0, (uint64_t)trace_sql_amount(s, 7));
    }
}

static const char *fact(struct trace *t, const char *key)
{
    struct sqlite3_stmt *s = trace_sql(t, "SELECT value FROM meta WHERE key = ?1 AND process = ?2", 0);
    if (!s)
        return NULL;
    sqlite3_bind_text(s, 1, key, -1, SQLITE_STATIC);
    sqlite3_bind_int64(s, 2, (t->before >> 40) + 1);
    const char *text = sqlite3_step(s) == SQLITE_ROW ? trace_sql_text(t, s, 0) : NULL;
    sqlite3_finalize(s);
    return text;
}

static void read_settings(struct trace *t, struct trace_tape *tape)
{
    const char *split = fact(t, "torch_max_split_size"), *gc = fact(t, "torch_garbage_collection_threshold"),
               *roundup = fact(t, "torch_roundup_power2_divisions");
    tape->imported = fact(t, "imported") != NULL;
    tape->settings_known = split && gc && roundup;
    const char *conf = fact(t, "torch_alloc_conf"),
               *segment = conf ? strstr(conf, "large_segment_size_mb:") : NULL;
    tape->max_split = split ? strtoll(split, NULL, 10) : -1;
    tape->gc_threshold = gc ? strtod(gc, NULL) : 0;
    tape->roundup = roundup ? strtoll(roundup, NULL, 10) : 0;
    tape->large_segment = segment ? strtoll(strchr(segment, ':') + 1, NULL, 10) & 0xffff : 0;
    tape->large_segment <<= 20;
}

int trace_tape(struct trace *t, int64_t device, struct trace_tape *tape)
{
    *tape = (struct trace_tape){0};
    struct reading r = {.tape = tape};
    read_settings(t, tape);
    /* maps have no device of their own, the beginning of the trace has none */
    struct sqlite3_stmt *s = trace_sql(
        t,
        "SELECT e.op, e.t, " BYTES("e.address") ", " BYTES(
            "e.size") ", k.stream, k.managed OR EXISTS (SELECT 1 FROM amend a WHERE a.seq = e.seq AND a.op = "
                      "50), k.space, "
                      "CASE WHEN e.op = 7 THEN (SELECT " BYTES(
                          "p.address") " FROM ev p WHERE p.seq = e.mate) END "
                                       "FROM ev e CROSS JOIN kind k ON k.id = e.kind WHERE (e.device = ?1 OR "
                                       "e.op IN (7, 8, 34)) AND "
                                       "e.op IN (1, 2, 4, 6, 7, 8, 20, 21, 22, 27, 28, 34) AND k.status = 0 "
                                       "AND e.seq NOT IN (SELECT seq FROM amend WHERE op = 3) ORDER BY e.seq",
        1, device);
    int code = SQLITE_ERROR;
    while (s && (code = sqlite3_step(s)) == SQLITE_ROW)
        read_row(&r, s);
    tape->streams_known = tape->imported || tape->arena;
    vs_table_free(&r.living);
    vs_table_free(&r.deferred);
    vs_table_free(&r.pieces);
    vs_table_free(&r.streams);
    return trace_sql_done(t, s, code);
}

void trace_free_tape(struct trace_tape *tape)
{
    free(tape->at);
    *tape = (struct trace_tape){0};
}
