/*
 * costs.c - reads the device memory that calls took without naming a size: contexts, modules, limits, code
 * and streams, as the recorder measured it.
 */
#include <sqlite3.h>

#include "trace/event.h"
#include "sql.h"
#include "tables.h"

static enum trace_cost_kind overhead_kind(int64_t what)
{
    switch (what) {
    case VS_OVERHEAD_STREAM:
        return COST_STREAM;
    case VS_OVERHEAD_GRAPH:
        return COST_GRAPH;
    case VS_OVERHEAD_PEER:
        return COST_PEER;
    }
    return COST_CODE;
}

static enum trace_cost_kind kind_of(int64_t op, int64_t what)
{
    switch (op) {
    case VS_OP_CONTEXT_CREATE:
        return COST_CONTEXT;
    case VS_OP_CONTEXT_DESTROY:
        return COST_CONTEXT_END;
    case VS_OP_MODULE_LOAD:
        return COST_MODULE;
    case VS_OP_MODULE_UNLOAD:
        return COST_MODULE_END;
    case VS_OP_LIMIT:
        return COST_LIMIT;
    }
    return overhead_kind(what);
}

/* Bytes of the schema's compact form; of a limit and of an overhead the mate 1 says that the figure fell. */
static int64_t moved(struct sqlite3_stmt *s, int64_t op)
{
    int64_t x512 = trace_sql_int(s, 4);
    bool fell = (op == VS_OP_LIMIT || op == VS_OP_OVERHEAD) && sqlite3_column_int64(s, 7) == 1;
    if (x512 == UNKNOWN || x512 > INT64_MAX / 1024) /* larger than any memory: a damaged file */
        return UNKNOWN;
    int64_t bytes = x512 < 0 ? -x512 : x512 * 512;
    return fell ? -bytes : bytes;
}

static struct trace_cost cost_of(struct sqlite3_stmt *s)
{
    int64_t op = sqlite3_column_int64(s, 0), address = trace_sql_amount(s, 3);
    return (struct trace_cost){.kind = kind_of(op, sqlite3_column_int64(s, 6)),
                               .t = trace_sql_amount(s, 1),
                               .device = trace_sql_int(s, 2),
                               .address = address < 0 ? -address : address * 512,
                               .bytes = moved(s, op),
                               .context = trace_sql_amount(s, 5)};
}

int trace_costs(struct trace *t, struct trace_cost **out, size_t *n)
{
    struct sqlite3_stmt *s = trace_sql(
        t,
        "SELECT e.op, e.t, e.device, e.address, e.size, (SELECT handle FROM context WHERE id = k.context AND "
        "process = ?1), k.stream, e.mate FROM ev e JOIN kind k ON k.id = e.kind "
        "WHERE (e.op BETWEEN ?2 AND ?3 OR e.op IN (?4, ?5)) AND k.status = 0 AND e.seq NOT IN "
        "(SELECT seq FROM amend WHERE op = ?6) ORDER BY e.seq",
        6, t->process.id, (int64_t)VS_OP_CONTEXT_CREATE, (int64_t)VS_OP_MODULE_UNLOAD, (int64_t)VS_OP_LIMIT,
        (int64_t)VS_OP_OVERHEAD, (int64_t)VS_OP_FREE_FAILED);
    int code = SQLITE_ERROR;
    *out = NULL;
    *n = 0;
    while (s && (code = sqlite3_step(s)) == SQLITE_ROW)
        *PUSH(*out, *n) = cost_of(s);
    return trace_sql_done(t, s, code);
}
