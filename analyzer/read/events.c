/* events.c - see events.h. */
#include "events.h"

#include <sqlite3.h>
#include <stdlib.h>

#include "sql.h"

struct kind {
    int64_t id, api, space, context, stream, thread, status, managed, tensor;
};

struct amended {
    int64_t seq, op, by;
};

struct reader {
    struct kind *kinds; /* each by its first number, in order */
    size_t kind_count;
    struct amended *amended;
    size_t amended_count;
    struct trace_texts apis;
};

const char *trace_op_name(int op)
{
    static const char *const names[256] = {
#define X(n, NAME, text) [n] = text,
        VS_OPS(X)
#undef X
    };
    return op >= 0 && op < 256 && names[op] ? names[op] : "unknown";
}

const char *trace_space_name(int space)
{
    static const char *const names[] = {
#define X(n, NAME, text) [n] = text,
        VS_SPACES(X)
#undef X
    };
    return space >= 0 && (size_t)space < sizeof names / sizeof *names ? names[space] : "unknown";
}

bool trace_row_counts(const struct trace_row *row)
{
    return row->device >= 0 && (row->op < 30 || row->op >= 50);
}

static bool is_counted(int space)
{
    return space == VS_SPACE_DEVICE || space == VS_SPACE_POOL || space == VS_SPACE_ARRAY ||
           space == VS_SPACE_GRAPH || space == VS_SPACE_ARENA;
}

bool trace_row_begins(const struct trace_row *row)
{
    return row->op == VS_OP_BLOCK_ALLOC || ((row->op == VS_OP_ALLOC || row->op == VS_OP_PHYS_CREATE) &&
                                            !row->status && is_counted(row->space) && !row->managed);
}

/* A release that leaves references has no size. */
bool trace_row_ends(const struct trace_row *row)
{
    switch (row->op) {
    case VS_OP_FREE:
    case VS_OP_BLOCK_FREE:
    case VS_OP_PHYS_FREED:
    case VS_OP_FREE_MISSED:
    case VS_OP_CONTEXT_FREED:
        return row->mate > 0;
    case VS_OP_PHYS_RELEASE:
        return row->mate > 0 && row->size != 0;
    default:
        return false;
    }
}

static int load_kinds(struct trace *t, struct reader *r)
{
    struct sqlite3_stmt *s = trace_sql(
        t, "SELECT id, api, space, context, stream, thread, status, managed, tensor FROM kind ORDER BY id",
        0);
    while (trace_sql_row(s)) {
        struct kind *k = PUSH(r->kinds, r->kind_count);
        int64_t *fields[] = {&k->id,     &k->api,    &k->space,   &k->context, &k->stream,
                             &k->thread, &k->status, &k->managed, &k->tensor};
        for (int i = 0; i < 9; i++)
            *fields[i] = trace_sql_amount(s, i);
    }
    return trace_sql_done(t, s);
}

static int load_amended(struct trace *t, struct reader *r)
{
    struct sqlite3_stmt *s = trace_sql(t, "SELECT seq, op, by_seq FROM amend ORDER BY seq", 0);
    while (trace_sql_row(s))
        *PUSH(r->amended, r->amended_count) =
            (struct amended){trace_sql_amount(s, 0), trace_sql_amount(s, 1), trace_sql_amount(s, 2)};
    return trace_sql_done(t, s);
}

static void read_row(const struct reader *r, struct sqlite3_stmt *s, struct trace_row *row)
{
    static const struct kind none;
    const struct kind *k = FIND(sqlite3_column_int64(s, 5), r->kinds, r->kind_count);
    k = k ? k : &none;
    *row = (struct trace_row){
        .seq = trace_sql_amount(s, 0),
        .t = trace_sql_amount(s, 1),
        .device = trace_sql_amount(s, 3),
        .address = trace_x512(sqlite3_column_int64(s, 6)),
        .range = trace_sql_amount(s, 8),
        .stack = trace_sql_amount(s, 9),
        .size = sqlite3_column_type(s, 7) == SQLITE_NULL ? UNKNOWN : trace_x512(sqlite3_column_int64(s, 7)),
        .mate = trace_sql_amount(s, 10),
        .framework = trace_x512(sqlite3_column_int64(s, 11)),
        .direct = trace_x512(sqlite3_column_int64(s, 12)),
        .reserved = trace_x2m(sqlite3_column_int64(s, 13), sqlite3_column_int64(s, 12)),
        .thread = k->thread,
        .context = k->context,
        .stream = k->stream,
        .status = k->status,
        .tensor = k->tensor,
        .op = sqlite3_column_int(s, 2),
        .space = (int)k->space,
        .phase = sqlite3_column_int(s, 4),
        .managed = (int)k->managed,
        .api = trace_name_of(&r->apis, k->api)};
    const struct amended *a = FIND(row->seq, r->amended, r->amended_count);
    row->taken_back = a && a->op == VS_OP_FREE_FAILED ? a->by : 0;
    row->reclassified = a && a->op == VS_OP_RECLASSIFY;
}

static int visit_rows(struct trace *t, const struct reader *r, const struct trace_part *part,
                      trace_row_visit *visit, void *context)
{
    struct sqlite3_stmt *s = trace_sql(
        t,
        "SELECT seq, t, op, device, phase, kind, address, size, range, stack, mate, framework, "
        "direct, reserved FROM ev WHERE seq BETWEEN ?1 AND ?2 AND (?3 OR device = ?4) AND (?5 = -1 "
        "OR 1 << op & ?5) ORDER BY seq",
        5, part->first, part->last, (int64_t)(part->device == UNKNOWN), part->device, (int64_t)part->ops);
    bool more = true;
    while (more && trace_sql_row(s)) {
        struct trace_row row;
        read_row(r, s, &row);
        more = visit(context, &row);
    }
    return trace_sql_done(t, s);
}

int trace_rows(struct trace *t, const struct trace_part *part, trace_row_visit *visit, void *context)
{
    static const struct trace_part whole = {UNKNOWN, 0, INT64_MAX, EVENTS_ALL};
    struct reader r = {0};
    int result = load_kinds(t, &r) || load_amended(t, &r) ||
                 trace_names(t, "SELECT id, name FROM api WHERE id > 0 ORDER BY id", &r.apis) ||
                 visit_rows(t, &r, part ? part : &whole, visit, context);
    free(r.kinds);
    free(r.amended);
    free(r.apis.at);
    return result ? -1 : 0;
}
