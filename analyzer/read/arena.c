/*
 * arena.c - reads the arenas' figures, as of the last sample of each.
 *
 * The list of figures, and so of columns, is in shim/trace/event.h.
 */
#include <math.h>
#include <sqlite3.h>

#include "sql.h"
#include "tables.h"

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
    return trace_sql_one(t, "SELECT count(*) FROM sqlite_master WHERE name = 'arena'") > 0;
}

bool trace_arena_served(struct trace *t, int64_t device)
{
    struct sqlite3_stmt *s =
        has_arenas(t) ? trace_sql(t, "SELECT count(*) FROM arena_sample WHERE ?1 IN (device, -1)", 1, device)
                      : NULL;
    int code = s ? sqlite3_step(s) : SQLITE_ERROR;
    bool served = code == SQLITE_ROW && sqlite3_column_int64(s, 0) > 0;
    if (s)
        sqlite3_finalize(s);
    return served;
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
    while (s && sqlite3_step(s) == SQLITE_ROW) {
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
    int code = SQLITE_ERROR;
    while (s && (code = sqlite3_step(s)) == SQLITE_ROW)
        *PUSH(*out, *n) = arena_of(s);
    return trace_sql_done(t, s, code);
}
