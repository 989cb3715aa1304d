/* pools.c - reads the figures that libraries' pools reported about themselves. */
#include <sqlite3.h>

#include "sql.h"
#include "tables.h"

int trace_pools(struct trace *t, int64_t device, struct trace_pool **out, size_t *n)
{
    struct sqlite3_stmt *s = trace_sql(
        t,
        "SELECT (SELECT text FROM string WHERE id = pool), count(*), max(used_bytes), "
        "max(peak_bytes), max(held_bytes) FROM pool_use WHERE device = ? GROUP BY pool ORDER BY 5 DESC",
        1, device);
    int code = SQLITE_ERROR;
    *out = NULL;
    *n = 0;
    while (s && (code = sqlite3_step(s)) == SQLITE_ROW)
        *PUSH(*out, *n) = (struct trace_pool){trace_sql_text(t, s, 0), trace_sql_amount(s, 1),
                                              trace_sql_int(s, 2), trace_sql_int(s, 3), trace_sql_int(s, 4)};
    return trace_sql_done(t, s, code);
}
