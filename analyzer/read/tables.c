/* tables.c - see tables.h.  The arena's figures, and so its columns, are in shim/trace/event.h. */
#include "tables.h"

#include <math.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

#include "sql.h"

/* ---- samples, ranges ---- */

int trace_samples(struct trace *t, int64_t device, struct trace_sample **out, size_t *n)
{
    struct sqlite3_stmt *s = trace_sql(
        t,
        "SELECT t_ns, device, driver_used_bytes, host_rss_bytes, pinned_bytes, reserved_bytes, source "
        "FROM sample WHERE process = ? AND device = ? ORDER BY t_ns",
        2, t->process.id, device);
    const char *source = NULL; /* rows with the same text share one copy */
    *out = NULL;
    *n = 0;
    while (trace_sql_row(s)) {
        const char *name = (const char *)sqlite3_column_text(s, 6);
        if (name && (!source || strcmp(source, name)))
            source = trace_sql_text(t, s, 6);
        *PUSH(*out, *n) = (struct trace_sample){trace_sql_int(s, 0), trace_sql_int(s, 1), trace_sql_int(s, 2),
                                                trace_sql_int(s, 3), trace_sql_int(s, 4), trace_sql_int(s, 5),
                                                name ? source : NULL};
    }
    return trace_sql_done(t, s);
}

int trace_ranges(struct trace *t, int64_t from, int64_t to, struct trace_range **out, size_t *n)
{
    struct sqlite3_stmt *s = trace_sql(t,
                                       "SELECT t_push, t_pop, thread, phase, source FROM rng WHERE phase > 0 "
                                       "AND NOT flags & 4 AND t_push <= ? "
                                       "AND (t_pop IS NULL OR t_pop >= ?) ORDER BY id",
                                       2, to, from);
    *out = NULL;
    *n = 0;
    while (trace_sql_row(s))
        *PUSH(*out, *n) = (struct trace_range){trace_sql_int(s, 0), trace_sql_int(s, 1), trace_sql_int(s, 2),
                                               sqlite3_column_int(s, 3), sqlite3_column_int(s, 4)};
    return trace_sql_done(t, s);
}

/* Single ranges, and folded ones by their names. */
#define LASTED "sum(max(0, coalesce(r.t_pop, CASE WHEN r.flags & 4 THEN r.t_push ELSE ?2 END) - r.t_push))"

/* Single ranges, and the sums of folded ones (their device -1 has number and duration). */
static const char names_sql[] =
    "SELECT name, domain, sum(ranges), sum(ns), max(allocated), max(reserved), count(*) OVER () FROM ("
    "SELECT n.text AS name, d.text AS domain, count(*) AS ranges, " LASTED
    " AS ns, max(p.allocated_bytes) AS allocated, "
    "max(p.reserved_bytes) AS reserved FROM rng r LEFT JOIN range_peak p ON p.range = r.id AND p.device = ?1 "
    "LEFT JOIN "
    "string n ON n.id = r.name LEFT JOIN string d ON d.id = r.domain WHERE r.phase = 0 GROUP BY n.text, "
    "d.text UNION ALL "
    "SELECT CASE f.name WHEN -1 THEN 'other names' ELSE n.text END, d.text, CASE f.device WHEN -1 THEN "
    "f.ranges ELSE 0 END, "
    "CASE f.device WHEN -1 THEN f.ns ELSE 0 END, CASE f.device WHEN ?1 THEN f.allocated_bytes END, CASE "
    "f.device WHEN ?1 "
    "THEN f.reserved_bytes END FROM range_fold f LEFT JOIN string n ON n.id = f.name LEFT JOIN string d ON "
    "d.id = f.domain "
    "WHERE f.phase = 0 AND f.device IN (-1, ?1)) GROUP BY name, domain ORDER BY 4 DESC, 1 LIMIT ?3";

int trace_range_names(struct trace *t, int64_t device, size_t most, struct trace_names **out, size_t *n,
                      int64_t *count)
{
    struct sqlite3_stmt *s =
        trace_sql(t, names_sql, 3, device, t->t_last == UNKNOWN ? 0 : t->t_last, (int64_t)most);
    *out = NULL;
    *n = 0;
    *count = 0;
    while (trace_sql_row(s)) {
        *PUSH(*out, *n) =
            (struct trace_names){trace_sql_text(t, s, 0), trace_sql_text(t, s, 1), trace_sql_amount(s, 2),
                                 trace_sql_int(s, 3),     trace_sql_int(s, 4),     trace_sql_int(s, 5)};
        *count = trace_sql_int(s, 6);
    }
    return trace_sql_done(t, s);
}

int64_t trace_other_ranges(struct trace *t)
{
    int64_t n = trace_sql_one(t,
                              "SELECT (SELECT count(*) FROM rng WHERE phase = 0) + (SELECT "
                              "coalesce(sum(ranges), 0) FROM range_fold WHERE phase = 0 AND device = -1)",
                              0);
    return n == UNKNOWN ? 0 : n;
}

int trace_allocations(struct trace *t, struct trace_count **out, size_t *n)
{
    struct sqlite3_stmt *s =
        trace_sql(t,
                  "SELECT e.device, count(*), (SELECT name FROM phase WHERE id = e.phase) FROM ev e WHERE "
                  "e.device >= 0 AND (e.op = ? OR (e.op IN (?, ?) AND e.kind IN (SELECT id FROM kind WHERE "
                  "status = 0))) GROUP BY e.device, e.phase",
                  3, (int64_t)VS_OP_BLOCK_ALLOC, (int64_t)VS_OP_ALLOC, (int64_t)VS_OP_PHYS_CREATE);
    *out = NULL;
    *n = 0;
    while (trace_sql_row(s))
        *PUSH(*out, *n) =
            (struct trace_count){trace_sql_int(s, 0), trace_sql_amount(s, 1), trace_sql_text(t, s, 2)};
    return trace_sql_done(t, s);
}

/* ---- what calls took without naming a size, as the recorder measured it ---- */

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
    *out = NULL;
    *n = 0;
    while (trace_sql_row(s))
        *PUSH(*out, *n) = cost_of(s);
    return trace_sql_done(t, s);
}

/* ---- libraries' pools, the arena ---- */

int trace_pools(struct trace *t, int64_t device, struct trace_pool **out, size_t *n)
{
    struct sqlite3_stmt *s = trace_sql(
        t,
        "SELECT (SELECT text FROM string WHERE id = pool), count(*), max(used_bytes), "
        "max(peak_bytes), max(held_bytes) FROM pool_use WHERE device = ? GROUP BY pool ORDER BY 5 DESC",
        1, device);
    *out = NULL;
    *n = 0;
    while (trace_sql_row(s))
        *PUSH(*out, *n) = (struct trace_pool){trace_sql_text(t, s, 0), trace_sql_amount(s, 1),
                                              trace_sql_int(s, 2), trace_sql_int(s, 3), trace_sql_int(s, 4)};
    return trace_sql_done(t, s);
}

static double ratio(struct sqlite3_stmt *s, int column)
{
    return sqlite3_column_type(s, column) == SQLITE_NULL ? NAN : sqlite3_column_double(s, column);
}

static struct trace_arena arena_of(struct sqlite3_stmt *s)
{
    struct trace_arena a = {.device = trace_sql_int(s, 0),
                            .t = trace_sql_int(s, 1),
                            .calls_per_thousand = ratio(s, 2),
                            .last_third_calls_per_thousand = ratio(s, 3)};
    for (int i = 0; i < VS_FIGURE_END; i++)
        a.figure[i] = trace_sql_amount(s, 4 + i);
    return a;
}

/* A file of an older recorder has no such table. */
static bool has_arenas(struct trace *t)
{
    return trace_sql_one(t, "SELECT count(*) FROM sqlite_master WHERE name = 'arena'", 0) > 0;
}

bool trace_arena_served(struct trace *t, int64_t device)
{
    return has_arenas(t) &&
           trace_sql_one(t, "SELECT count(*) FROM arena_sample WHERE ?1 IN (device, -1)", 1, device) > 0;
}

int64_t trace_mapped(struct trace *t, int64_t device, char **owner)
{
    int64_t sum = 0;
    struct sqlite3_stmt *s =
        trace_sql(t,
                  "SELECT sum(CASE WHEN e.size < 0 THEN -e.size ELSE e.size * 512 END),"
                  " (SELECT text FROM string WHERE id = k.owner) FROM ev e JOIN kind d ON d.id = e.kind"
                  " LEFT JOIN stack k ON k.id = e.stack"
                  " WHERE e.op = 4 AND d.status = 0 AND e.device = ?1 GROUP BY 2 ORDER BY 1 DESC",
                  1, device);
    while (trace_sql_row(s)) {
        const char *name = (const char *)sqlite3_column_text(s, 1);
        if (sum == 0 && name)
            *owner = xstrdup(name);
        sum += trace_sql_int(s, 0);
    }
    sqlite3_finalize(s);
    return sum;
}

int trace_arenas(struct trace *t, struct trace_arena **out, size_t *n)
{
    *out = NULL;
    *n = 0;
    if (!has_arenas(t))
        return 0;
    struct sqlite3_stmt *s =
        trace_sql(t,
                  "SELECT device, t_ns, calls_per_thousand, last_third_calls_per_thousand"
#define X(NAME, column) ", " column
                  VS_ARENA_FIGURES(X)
#undef X
                      " FROM arena ORDER BY device, number",
                  0);
    while (trace_sql_row(s))
        *PUSH(*out, *n) = arena_of(s);
    return trace_sql_done(t, s);
}
