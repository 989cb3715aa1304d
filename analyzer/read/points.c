/* points.c - reads the points of a sweep's database (shim/trace/store/points.h), whichever process is shown.
 */
#include <sqlite3.h>

#include "sql.h"

/* Not of the shown process alone: tables under the temporary views (process.c). */
#define HELD(kind)                                                                                           \
    "(SELECT max(k.peak_bytes) FROM sweep_process s JOIN main.peak k ON k.process = s.process WHERE "        \
    "s.point "                                                                                               \
    "= p.id AND k.kind = '" kind "')"

bool trace_is_sweep(struct trace *t)
{
    /* of a file of several processes alone, and never of a view, which might be an endless one */
    return trace_sql_one(t, "SELECT count(*) FROM main.sqlite_master WHERE type = 'table' AND rootpage > 0 "
                            "AND name IN ('sweep_point', 'sweep_process')") == 2;
}

int trace_sweep_points(struct trace *t, struct trace_sweep_point **out, size_t *n)
{
    *out = NULL;
    *n = 0;
    if (!trace_is_sweep(t))
        return 0;
    struct sqlite3_stmt *s =
        trace_sql(t,
                  "SELECT name, outcome, status, ns, expected_processes, (SELECT count(*) FROM sweep_process "
                  "s WHERE s.point = p.id), refused_bytes, " HELD("allocated") ", " HELD(
                      "reserved") ", predicted_reserved_bytes, fitted FROM sweep_point p ORDER BY id",
                  0);
    int code = SQLITE_ERROR;
    while (s && (code = sqlite3_step(s)) == SQLITE_ROW)
        *PUSH(*out, *n) = (struct trace_sweep_point){.name = trace_sql_text(t, s, 0),
                                                     .outcome = trace_sql_text(t, s, 1),
                                                     .status = trace_sql_text(t, s, 2),
                                                     .ns = trace_sql_int(s, 3),
                                                     .expected = trace_sql_amount(s, 4),
                                                     .recorded = trace_sql_amount(s, 5),
                                                     .refused = trace_sql_int(s, 6),
                                                     .allocated = trace_sql_int(s, 7),
                                                     .reserved = trace_sql_int(s, 8),
                                                     .predicted = trace_sql_int(s, 9),
                                                     .fitted = trace_sql_amount(s, 10) != 0};
    return trace_sql_done(t, s, code);
}

bool trace_sweep_point_missing(const struct trace_sweep_point *p)
{
    return !p->outcome || p->recorded < 1 || p->recorded < p->expected;
}
