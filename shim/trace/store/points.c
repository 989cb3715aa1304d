/* points.c - the points of a sweep, in the merged database of its recordings. */
#include "files.h"
#include "internal.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define AXES_MOST 32 /* of a merged file; a sweep has six at most */

#define TABLE "CREATE TABLE IF NOT EXISTS "

static const char tables[] =
    /* id counts from 1; outcome: ok, oom, crash or hang, NULL where the point was not run; status: "exit 1",
     * "signal 9", empty where it ended well; refused_bytes: of the request that ended an oom; predicted_*: of
     * the framework's allocator in the process of predicted_rank (NULL: its job has no ranks), by laws made
     * of the points that are fitted */
    TABLE
    "sweep_point(id INTEGER PRIMARY KEY, name TEXT, outcome TEXT, status TEXT, ns INT, "
    "expected_processes INT, refused_bytes INT, predicted_allocated_bytes INT, predicted_reserved_bytes INT, "
    "predicted_rank INT, fitted INT);" TABLE
    "sweep_value(point INT, axis INT, name TEXT, value, PRIMARY KEY(point, axis)) WITHOUT ROWID;"
    /* steps_per_second: without the first step */
    TABLE "sweep_process(point INT, process INT, steps_per_second REAL, PRIMARY KEY(point, process)) "
    "WITHOUT ROWID;"
    "CREATE INDEX IF NOT EXISTS sweep_process_point ON sweep_process(process);";

#define MOST(kind)                                                                                           \
    "(SELECT max(k.peak_bytes) FROM peak k WHERE k.process = s.process AND k.kind = '" kind "')"

static int execute(sqlite3 *db, char *sql)
{
    int rc = sql ? sqlite3_exec(db, sql, NULL, NULL, NULL) : SQLITE_NOMEM;
    sqlite3_free(sql);
    return rc == SQLITE_OK ? 0 : -1;
}

/* Columns that are no axis, of the views and of the table that `sweep` writes. */
static const char *const own_columns[] = {"point",
                                          "process",
                                          "rank",
                                          "outcome",
                                          "status",
                                          "seconds",
                                          "processes",
                                          "expected_processes",
                                          "files",
                                          "ranks",
                                          "steps",
                                          "file",
                                          "allocated_bytes",
                                          "reserved_bytes",
                                          "framework_allocated_bytes",
                                          "framework_reserved_bytes",
                                          "predicted_allocated_bytes",
                                          "predicted_reserved_bytes",
                                          "predicted_framework_allocated_bytes",
                                          "predicted_framework_reserved_bytes",
                                          "predicted_rank",
                                          "fitted",
                                          "steps_per_second",
                                          "refused_bytes"};

#define PREFIX "axis_"

const char *vs_store_axis_prefix(const char *axis)
{
    while (strncmp(axis, PREFIX, strlen(PREFIX)) == 0) /* so that no two axes get one name */
        axis += strlen(PREFIX);
    for (size_t i = 0; i < sizeof own_columns / sizeof *own_columns; i++)
        if (sqlite3_stricmp(axis, own_columns[i]) == 0)
            return PREFIX;
    return "";
}

/* ", (SELECT value ...) AS "batch"" for each axis of the point in column POINT. */
static char *axis_columns(sqlite3 *db, const char *const *axes, size_t n, const char *point)
{
    sqlite3_str *text = sqlite3_str_new(db);
    for (size_t i = 0; i < n; i++)
        sqlite3_str_appendf(
            text, "(SELECT value FROM sweep_value v WHERE v.point = %s AND v.name = %Q) AS \"%s%w\", ", point,
            axes[i], vs_store_axis_prefix(axes[i]), axes[i]);
    return sqlite3_str_finish(text);
}

/* "max(...) AS name" of the peaks of KIND. */
#define PEAK(kind, name) MOST(kind) " AS " name ", "

static const char rank_view[] = "CREATE VIEW sweep_rank AS SELECT %s s.point AS point, s.process AS process, "
                                "(SELECT rank FROM process p WHERE p.id = s.process) AS rank, " /**/
    PEAK("allocated", "allocated_bytes")                                                        /**/
    PEAK("reserved", "reserved_bytes")                                                          /**/
    PEAK("framework", "framework_allocated_bytes")                                              /**/
    PEAK("managed_reserved", "framework_reserved_bytes")                                        /**/
    "s.steps_per_second AS steps_per_second FROM sweep_process s";

static const char point_view[] =
    "CREATE VIEW sweep AS SELECT %s p.id AS point, p.outcome AS outcome, p.status AS status, p.ns / "
    "1e9 AS seconds, count(r.process) AS processes, p.expected_processes AS expected_processes, "
    "max(r.allocated_bytes) AS allocated_bytes, max(r.reserved_bytes) AS reserved_bytes, "
    "max(r.framework_allocated_bytes) AS framework_allocated_bytes, "
    "max(r.framework_reserved_bytes) AS framework_reserved_bytes, p.predicted_allocated_bytes AS "
    "predicted_allocated_bytes, p.predicted_reserved_bytes AS predicted_reserved_bytes, "
    "p.predicted_rank AS predicted_rank, p.fitted AS fitted, min(r.steps_per_second) AS "
    "steps_per_second, p.refused_bytes AS refused_bytes FROM sweep_point p LEFT JOIN sweep_rank r ON "
    "r.point = p.id GROUP BY p.id";

static int make_view(sqlite3 *db, const char *view, const char *const *axes, size_t n, const char *point)
{
    char *columns = axis_columns(db, axes, n, point);
    int rc = execute(db, sqlite3_mprintf(view, columns ? columns : ""));
    sqlite3_free(columns);
    return rc;
}

static int make_views(sqlite3 *db, const char *const *axes, size_t n)
{
    return execute(db,
                   sqlite3_mprintf("DROP VIEW IF EXISTS main.sweep; DROP VIEW IF EXISTS main.sweep_rank")) ||
                   make_view(db, rank_view, axes, n, "s.point") || make_view(db, point_view, axes, n, "p.id")
               ? -1
               : 0;
}

static void bind(sqlite3_stmt *q, int at, int64_t value)
{
    if (value == INT64_MIN)
        sqlite3_bind_null(q, at);
    else
        sqlite3_bind_int64(q, at, value);
}

static int insert_point(sqlite3 *db, int64_t id, const struct vs_point *p)
{
    sqlite3_stmt *q;
    if (sqlite3_prepare_v2(db, "INSERT INTO sweep_point VALUES(?,?,?,?,?,?,?,?,?,?,?)", -1, &q, NULL) !=
        SQLITE_OK)
        return -1;
    const int64_t numbers[] = {p->ns,
                               p->expected_processes,
                               p->refused_bytes,
                               p->predicted_allocated,
                               p->predicted_reserved,
                               p->predicted_rank,
                               p->fitted};
    sqlite3_bind_int64(q, 1, id);
    sqlite3_bind_text(q, 2, p->name, -1, SQLITE_STATIC);
    sqlite3_bind_text(q, 3, p->outcome, -1, SQLITE_STATIC);
    sqlite3_bind_text(q, 4, p->status, -1, SQLITE_STATIC);
    for (int i = 0; i < (int)(sizeof numbers / sizeof *numbers); i++)
        bind(q, 5 + i, numbers[i]);
    sqlite3_step(q);
    return sqlite3_finalize(q) == SQLITE_OK ? 0 : -1;
}

static int insert_parts(sqlite3 *db, int64_t id, const struct vs_point *p, const char *const *axes,
                        size_t axis_count)
{
    int rc = 0;
    for (size_t a = 0; a < axis_count && rc == 0; a++) { /* a number as one, so that it sorts as one */
        rc = execute(db,
                     sqlite3_mprintf("INSERT INTO sweep_value SELECT %lld, %d, %Q, CASE WHEN CAST(CAST(%Q AS "
                                     "INT) AS TEXT) = %Q THEN CAST(%Q AS INT) ELSE %Q END",
                                     (long long)id, (int)a + 1, axes[a], p->values[a], p->values[a],
                                     p->values[a], p->values[a]));
    }
    for (size_t i = 0; i < p->process_count && rc == 0; i++) {
        char rate[40] = "NULL";
        if (!isnan(p->processes[i].rate))
            snprintf(rate, sizeof rate, "%.17g", p->processes[i].rate);
        rc = execute(db, sqlite3_mprintf("INSERT INTO sweep_process VALUES(%lld, %lld, %s)", (long long)id,
                                         (long long)p->processes[i].process, rate));
    }
    return rc;
}

int vs_store_points(const char *into, const char *const *axes, size_t axis_count,
                    const struct vs_point *points, size_t n, char *why, size_t why_size)
{
    sqlite3 *db = NULL;
    int rc = sqlite3_open_v2(into, &db, SQLITE_OPEN_READWRITE, NULL) == SQLITE_OK ? 0 : -1;
    if (rc == 0)
        vs_schema_guard(db);
    if (rc == 0)
        rc = execute(
            db, sqlite3_mprintf("PRAGMA synchronous=OFF; PRAGMA journal_mode=MEMORY; BEGIN; %s", tables));
    for (size_t i = 0; i < n && rc == 0; i++) {
        rc = insert_point(db, (int64_t)i + 1, &points[i]);
        if (rc == 0)
            rc = insert_parts(db, (int64_t)i + 1, &points[i], axes, axis_count);
    }
    if (rc == 0)
        rc = make_views(db, axes, axis_count);
    if (rc == 0)
        rc = execute(db, sqlite3_mprintf("COMMIT"));
    if (rc)
        snprintf(why, why_size, "%s", db ? sqlite3_errmsg(db) : "out of memory");
    sqlite3_close(db);
    return rc;
}

/* ---- of another file ---- */

#define SWEEP_AXIS "sweep_file"

bool vs_store_points_has(const char *table)
{
    return !strcmp(table, "sweep_point") || !strcmp(table, "sweep_value") || !strcmp(table, "sweep_process");
}

/* Axes of a name are one axis, whichever number they have in either file: the view has a column a name, and
 * *LEFT is how many have none. */
static int make_views_again(sqlite3 *db, size_t *left)
{
    const char *axes[AXES_MOST] = {NULL};
    size_t n = 0;
    sqlite3_stmt *q;
    int rc = sqlite3_prepare_v2(
        db, "SELECT name FROM main.sweep_value WHERE name IS NOT NULL GROUP BY name ORDER BY min(axis), name",
        -1, &q, NULL);
    while (rc == SQLITE_OK && n < AXES_MOST && (rc = sqlite3_step(q)) == SQLITE_ROW) {
        rc = SQLITE_OK;
        axes[n] = sqlite3_mprintf("%s", sqlite3_column_text(q, 0));
        n += axes[n] != NULL;
    }
    sqlite3_finalize(q);
    int64_t all = n < AXES_MOST ? (int64_t)n
                                : vs_first_number(db, "SELECT count(DISTINCT name) FROM main.sweep_value", 0);
    *left = (size_t)(all - (int64_t)n);
    rc = make_views(db, axes, n);
    for (size_t i = 0; i < n; i++)
        sqlite3_free((void *)(uintptr_t)axes[i]);
    return rc;
}

/* Of a file that several sweeps were merged into, the axis says both files.  Else it comes before all others,
 * whose numbers need not begin with 1. */
static int add_sweep(sqlite3 *db, long long points, const char *sweep)
{
    return execute(db, sqlite3_mprintf("UPDATE main.sweep_point SET name = '" SWEEP_AXIS
                                       "=' || %Q || ',' || name WHERE id > %lld",
                                       sweep, points)) ||
                   execute(db, sqlite3_mprintf("UPDATE main.sweep_value SET value = %Q || '/' || value "
                                               "WHERE point > %lld AND name = '" SWEEP_AXIS "'",
                                               sweep, points)) ||
                   execute(db,
                           sqlite3_mprintf(
                               "INSERT INTO main.sweep_value SELECT p.id, (SELECT ifnull(min(v.axis), 1) "
                               "- 1 FROM main.sweep_value v WHERE v.point = p.id), '" SWEEP_AXIS
                               "', %Q FROM main.sweep_point p WHERE p.id > %lld AND NOT EXISTS (SELECT 1 "
                               "FROM main.sweep_value v WHERE v.point = p.id AND v.name = '" SWEEP_AXIS "')",
                               sweep, points))
               ? -1
               : 0;
}

int vs_store_points_copy(sqlite3 *db, int64_t process, const char *sweep, size_t *left)
{
    if (vs_first_number(db,
                        "SELECT count(*) FROM other.sqlite_master WHERE type = 'table' AND rootpage > 0 AND "
                        "name IN ('sweep_point', 'sweep_value', 'sweep_process')",
                        0) != 3)
        return 0;
    if (execute(db, sqlite3_mprintf("%s", tables)))
        return -1;
    long long points = vs_first_number(db, "SELECT max(id) FROM main.sweep_point", 0),
              processes = process - 1;
    int rc =
        execute(db,
                sqlite3_mprintf("INSERT INTO main.sweep_point SELECT id + %lld, name, outcome, status, ns, "
                                "expected_processes, refused_bytes, predicted_allocated_bytes, "
                                "predicted_reserved_bytes, predicted_rank, fitted FROM other.sweep_point",
                                points)) ||
        execute(db,
                sqlite3_mprintf("INSERT INTO main.sweep_value SELECT point + %lld, axis, name, value FROM "
                                "other.sweep_value",
                                points)) ||
        execute(db, sqlite3_mprintf("INSERT INTO main.sweep_process SELECT point + %lld, process + %lld, "
                                    "steps_per_second FROM other.sweep_process",
                                    points, processes)) ||
        (sweep && add_sweep(db, points, sweep)) || make_views_again(db, left);
    return rc ? -1 : 0;
}
