/*
 * relabel.c - see relabel.h.  SQLite finds a temporary table before the file's own of the same name, so
 * other queries, and the views, which are temporary too (file.c), see the new values without being changed.
 */
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sql.h"
#include "tables.h"

/* Removes a view that lies over TABLE already: the rows of one process of several (process.c). */
static int uncover(struct trace *t, const char *table)
{
    return trace_sql_run(t, "DROP VIEW IF EXISTS temp.%s", table);
}

/* Runs SQL, in which file.TABLE stands for the file's own table, or for the process's part of it. */
static int run_over(struct trace *t, const char *sql)
{
    const char *own = t->processes > 1 ? "temp.one_" : "main.", *file;
    char *text = xstrdup("");
    for (; (file = strstr(sql, "file.")) != NULL; sql = file + strlen("file.")) {
        char *longer = xformat("%s%.*s%s", text, (int)(file - sql), sql, own);
        free(text);
        text = longer;
    }
    int result = trace_sql_run(t, "%s%s", text, sql);
    free(text);
    return result;
}

/* ---- names ---- */

/* Whether a rule may make the range a phase.  Start/end ranges cross threads and name none, and automatic
 * ones keep theirs; those of a profiler, which a snapshot has, are both, and wait for a rule. */
#define PROFILED "(source = 3 AND flags & 2)"
#define FREE     "((source <> 3 AND NOT flags & 2) OR " PROFILED ")"

int trace_relabel_begin(struct trace *t, struct trace_relabel_text **names, size_t *n)
{
    if (trace_sql_run(t, "CREATE TEMP TABLE new_phase(name INTEGER PRIMARY KEY, phase INT);"
                         "CREATE TEMP TABLE new_step(name INTEGER PRIMARY KEY);"
                         "CREATE TEMP TABLE phase(id INTEGER PRIMARY KEY, name TEXT);"
                         "INSERT INTO temp.phase SELECT id, name FROM main.phase"))
        return -1;
    struct sqlite3_stmt *s =
        trace_sql(t,
                  "SELECT s.id, s.text, n.free FROM (SELECT name, max(free) AS free FROM (SELECT name, " FREE
                  " AS free FROM rng UNION ALL SELECT name, 0 FROM moment) GROUP BY name) n JOIN string s ON "
                  "s.id = n.name ORDER BY s.id",
                  0);
    while (trace_sql_row(s))
        *PUSH(*names, *n) = (struct trace_relabel_text){trace_sql_amount(s, 0), trace_sql_text(t, s, 1),
                                                        sqlite3_column_int(s, 2) != 0};
    return trace_sql_done(t, s);
}

/* Runs SQL with the number ID and, where it has a second parameter, the text NAME. */
static int run_with(struct trace *t, const char *sql, int64_t id, const char *name)
{
    struct sqlite3_stmt *s = trace_sql(t, sql, 1, id);
    if (s && name)
        sqlite3_bind_text(s, 2, name, -1, SQLITE_STATIC);
    trace_sql_row(s);
    return trace_sql_done(t, s);
}

int trace_relabel_name(struct trace *t, int64_t name, const char *phase)
{
    return run_with(t,
                    "INSERT INTO temp.phase SELECT (SELECT max(id) FROM temp.phase) + 1, ?2 WHERE ?1 IS NOT "
                    "NULL AND NOT "
                    "EXISTS (SELECT 1 FROM temp.phase WHERE name = ?2)",
                    name, phase) ||
                   run_with(
                       t,
                       "INSERT INTO new_phase VALUES(?1, (SELECT min(id) FROM temp.phase WHERE name = ?2))",
                       name, phase)
               ? -1
               : 0;
}

int trace_relabel_step(struct trace *t, int64_t name)
{
    return run_with(t, "INSERT INTO new_step VALUES(?)", name, NULL);
}

/* ---- ranges and steps ---- */

/* what a rule made of a profiler's range comes before automatic ones, as any annotation */
static const char ranges_sql[] =
    "CREATE TEMP TABLE pop(range INTEGER PRIMARY KEY, seq INT);"
    "INSERT OR IGNORE INTO pop SELECT range, seq FROM file.ev WHERE op = 31;"
    "CREATE TEMP TABLE rng(id INTEGER PRIMARY KEY, process INT, phase INT, name "
    "INT, domain INT, source INT, flags INT, "
    "parent INT, thread INT, step INT, first_seq INT, t_push INT, t_pop INT);"
    "INSERT INTO temp.rng SELECT id, process, CASE WHEN " FREE " THEN coalesce((SELECT n.phase FROM "
    "new_phase n WHERE n.name = r.name), phase) ELSE phase END, name, domain, "
    "source, flags, parent, thread, step, "
    "first_seq, t_push, t_pop FROM file.rng r;"
    "UPDATE temp.rng SET source = 2, flags = flags & ~2 WHERE phase > 0 AND " PROFILED ";"
    "UPDATE temp.rng SET flags = (flags & ~1) | NOT EXISTS (WITH RECURSIVE "
    "up(id) AS (SELECT rng.parent UNION SELECT "
    "p.parent FROM temp.rng p JOIN up ON p.id = up.id) SELECT 1 FROM up JOIN "
    "temp.rng q ON q.id = up.id WHERE q.phase = "
    "rng.phase) WHERE phase > 0";

/* marks, and the outermost ranges of such a name, of the thread that opened the first one */
static const char steps_sql[] =
    "CREATE TEMP TABLE step(process INT, step INT, t_ns INT, seq INT);"
    "INSERT INTO temp.step SELECT (SELECT min(id) FROM process), row_number() OVER (ORDER BY t, seq), t, seq "
    "FROM ("
    "SELECT r.t_pop AS t, (SELECT seq FROM pop WHERE range = r.id) AS seq FROM temp.rng r WHERE r.name IN "
    "(SELECT name FROM "
    "new_step) AND r.t_pop IS NOT NULL AND r.thread = (SELECT thread FROM temp.rng WHERE name IN (SELECT "
    "name FROM new_step) "
    "ORDER BY id LIMIT 1) AND NOT EXISTS (WITH RECURSIVE up(id) AS (SELECT r.parent UNION SELECT p.parent "
    "FROM temp.rng p "
    "JOIN up ON p.id = up.id) SELECT 1 FROM up JOIN temp.rng q ON q.id = up.id WHERE q.name IN (SELECT name "
    "FROM new_step)) "
    "UNION ALL SELECT m.t_ns, m.seq FROM moment m WHERE m.name IN (SELECT name FROM new_step));"
    "CREATE INDEX temp.step_t ON step(t_ns);"
    "UPDATE temp.rng SET step = coalesce((SELECT s.step FROM temp.step s WHERE s.t_ns > rng.t_push ORDER BY "
    "s.t_ns LIMIT 1), "
    "(SELECT count(*) + 1 FROM temp.step))";

int trace_relabel_ranges(struct trace *t, bool steps)
{
    if (uncover(t, "rng") || run_over(t, ranges_sql))
        return -1;
    return steps && (uncover(t, "step") || run_over(t, steps_sql)) ? -1 : 0;
}

int trace_relabel_spans(struct trace *t, struct trace_range **out, size_t *n)
{
    struct sqlite3_stmt *s = trace_sql(
        t,
        "SELECT r.first_seq, CASE WHEN r.t_pop IS NOT NULL THEN coalesce(p.seq, (SELECT e.seq + 1 FROM ev e "
        "WHERE e.t <= r.t_pop ORDER BY e.seq DESC LIMIT 1)) END, r.thread, r.phase, r.source FROM temp.rng r "
        "LEFT JOIN pop p ON p.range = r.id WHERE r.phase > 0 AND NOT r.flags & 4 ORDER BY r.id",
        0);
    *out = NULL;
    *n = 0;
    while (trace_sql_row(s))
        *PUSH(*out, *n) = (struct trace_range){trace_sql_int(s, 0), trace_sql_int(s, 1), trace_sql_int(s, 2),
                                               sqlite3_column_int(s, 3), sqlite3_column_int(s, 4)};
    return trace_sql_done(t, s);
}

/* ---- events ---- */

struct asked {
    trace_phase_of *phase;
    void *context;
    void (*done)(void *context);
};

static void forget(void *asked)
{
    struct asked *a = asked;
    a->done(a->context);
    free(a);
}

/* The SQL function relabeled(thread, seq, phase): the new phase of that moment; without one the
 * recorded phase. */
static void relabeled(sqlite3_context *c, int n, sqlite3_value **v)
{
    const struct asked *a = sqlite3_user_data(c);
    int phase = a->phase(a->context, sqlite3_value_int64(v[0]), sqlite3_value_int64(v[1]));
    if (phase)
        sqlite3_result_int(c, phase);
    else
        sqlite3_result_value(c, v[2]);
}

#define THREAD_OF(seq) "(SELECT k.thread FROM file.ev o JOIN kind k ON k.id = o.kind WHERE o.seq = " seq ")"

struct column {
    const char *table, *name, *expression; /* X is the file's own row */
};

/* Creates the table with new COLUMNS and every other column unchanged. */
static int overlay(struct trace *t, const struct column *columns, size_t n)
{
    const char *table = columns[0].table;
    char *view = xformat("CREATE TEMP VIEW %s AS SELECT ", table),
         *ask = xformat("PRAGMA main.table_info(%s)", table);
    struct sqlite3_stmt *s = trace_sql(t, ask, 0);
    int count = 0;
    while (trace_sql_row(s)) {
        const char *name = (const char *)sqlite3_column_text(s, 1), *expression = NULL;
        for (size_t i = 0; i < n; i++)
            expression = strcmp(name, columns[i].name) ? expression : columns[i].expression;
        char *quoted = sqlite3_mprintf("\"%w\"", name);
        char *longer = xformat("%s%s%s%s%s", view, count++ ? ", " : "", expression ? expression : "",
                               expression ? " AS " : "", quoted);
        sqlite3_free(quoted);
        free(view);
        view = longer;
    }
    int result = trace_sql_done(t, s);
    char *whole = xformat("%s FROM file.%s x", view, table);
    if (!result && count)
        result = uncover(t, table) || run_over(t, whole) ? -1 : 0;
    free(whole);
    free(view);
    free(ask);
    return result;
}

static int overlay_all(struct trace *t)
{
    static const struct column columns[] = {
        {"ev", "phase", "relabeled((SELECT thread FROM kind WHERE id = x.kind), x.seq, x.phase)"},
        {"live", "phase", "relabeled(" THREAD_OF("x.alloc_seq") ", x.alloc_seq, x.phase)"},
        {"peak_live", "phase",
         "CASE WHEN x.op THEN relabeled(" THREAD_OF(
             "x.alloc_seq") ", x.alloc_seq, x.phase) ELSE x.phase END"},
        {"oom_live", "phase",
         "CASE WHEN x.op THEN relabeled(" THREAD_OF(
             "x.alloc_seq") ", x.alloc_seq, x.phase) ELSE x.phase END"},
        {"oom", "phase", "relabeled(x.thread, x.seq, x.phase)"},
        {"oom", "step", "(SELECT count(*) + 1 FROM step WHERE t_ns < x.t_ns)"},
        {"zone", "phase",
         "relabeled(0, coalesce((SELECT e.seq FROM file.ev e WHERE e.seq BETWEEN x.first_seq AND x.last_seq "
         "AND "
         "e.t = x.max_allocated_t LIMIT 1), x.first_seq), x.phase)"}};
    size_t n = sizeof columns / sizeof *columns;
    for (size_t i = 0, k; i < n; i = k) {
        for (k = i + 1; k < n && !strcmp(columns[k].table, columns[i].table); k++) {
        }
        if (overlay(t, &columns[i], k - i))
            return -1;
    }
    return 0;
}

/* Computes the rows of phase_stat from ranges and events.  If events were thinned only those that are there
 * count. */
static const char statistics_sql[] =
    "CREATE TEMP TABLE seen AS SELECT device, phase, " X512("framework") " + " X512("direct") " AS a, " X2M(
        "") " AS r, t, seq FROM temp.ev WHERE device >= 0 AND (op < 30 OR op >= 50);"
            "INSERT INTO seen SELECT p.device, r.phase, p.allocated_bytes, p.reserved_bytes, p.t_ns, "
            "NULL FROM range_peak p JOIN "
            "temp.rng r ON r.id = p.range WHERE r.phase > 0 AND p.device >= 0;"
            "CREATE TEMP TABLE ended AS SELECT phase, count(*) AS n, coalesce(sum(CASE WHEN flags & "
            "1 THEN t_pop - t_push END), 0) "
            "AS ns, coalesce(sum(CASE WHEN flags & 5 = 1 AND t_pop IS NULL THEN max(0, (SELECT t "
            "FROM file.ev ORDER BY seq DESC "
            "LIMIT 1) - t_push) END), 0) AS open_ns, max((SELECT seq FROM pop WHERE range = rng.id)) "
            "AS last FROM temp.rng WHERE phase > "
            "0 GROUP BY phase;"
            "CREATE TEMP TABLE phase_stat(process INT, device INT, phase INT, ranges INT, ns INT, "
            "open_ns INT, events INT, "
            "allocated_bytes INT, reserved_bytes INT, end_allocated_bytes INT, t_allocated_ns INT);"
            "INSERT INTO temp.phase_stat SELECT (SELECT min(id) FROM process), device, phase, 0, "
            "NULL, 0, count(seq), max(a), NULL, "
            "NULL, t FROM seen GROUP BY device, phase;"
            "UPDATE temp.phase_stat SET reserved_bytes = (SELECT max(r) FROM seen WHERE device = "
            "phase_stat.device AND phase = "
            "phase_stat.phase), end_allocated_bytes = (SELECT a FROM seen WHERE device = "
            "phase_stat.device AND phase = "
            "phase_stat.phase AND seq IS NOT NULL ORDER BY seq DESC LIMIT 1);"
            "UPDATE temp.phase_stat SET ranges = (SELECT n FROM ended WHERE phase = "
            "phase_stat.phase), ns = (SELECT ns FROM ended "
            "WHERE phase = phase_stat.phase), open_ns = (SELECT open_ns FROM ended WHERE phase = "
            "phase_stat.phase), "
            "end_allocated_bytes = coalesce((SELECT a FROM seen WHERE device = phase_stat.device AND "
            "seq IS NOT NULL AND seq <= "
            "(SELECT last FROM ended WHERE phase = phase_stat.phase) ORDER BY seq DESC LIMIT 1), "
            "end_allocated_bytes) WHERE phase IN "
            "(SELECT phase FROM ended);"
            "DROP TABLE ended;"
            "DROP TABLE seen";

int trace_relabel_events(struct trace *t, trace_phase_of *phase, void *context, void (*done)(void *context))
{
    struct asked *asked = xrealloc(NULL, sizeof *asked);
    *asked = (struct asked){phase, context, done};
    if (sqlite3_create_function_v2(t->db, "relabeled", 3, SQLITE_UTF8 | SQLITE_DETERMINISTIC, asked,
                                   relabeled, NULL, NULL, forget) != SQLITE_OK)
        return trace_sql_error(t);
    return overlay_all(t) || uncover(t, "phase_stat") || run_over(t, statistics_sql) || trace_reload(t) ? -1
                                                                                                        : 0;
}
