/*
 * away.c - how much of what was allocated on a device was on the host, at a moment (curve.h).  Table away has
 * a row for each change; a file of before there was any has none.
 */
#include <sqlite3.h>
#include <stdlib.h>

#include "curve.h"
#include "sql.h"

int trace_aways(struct trace *t, int64_t device, struct trace_away **out, size_t *n)
{
    struct sqlite3_stmt *s =
        trace_sql(t, "SELECT seq, t_ns, away_bytes FROM away WHERE device = ? ORDER BY seq", 1, device);
    *out = NULL;
    *n = 0;
    while (trace_sql_row(s))
        *PUSH(*out, *n) =
            (struct trace_away){trace_sql_amount(s, 0), trace_sql_amount(s, 1), trace_sql_amount(s, 2)};
    return trace_sql_done(t, s);
}

/* Of the rows up to event, or time, AT the last one's bytes. */
static int64_t last_until(const struct trace_away *aways, size_t n, bool by_time, int64_t at)
{
    size_t low = 0, high = n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if ((by_time ? aways[middle].t : aways[middle].seq) <= at)
            low = middle + 1;
        else
            high = middle;
    }
    return low ? aways[low - 1].bytes : 0;
}

int64_t trace_aways_after(const struct trace_away *aways, size_t n, int64_t seq)
{
    return last_until(aways, n, false, seq);
}

int64_t trace_aways_at(const struct trace_away *aways, size_t n, int64_t t)
{
    return last_until(aways, n, true, t);
}

static int64_t or_nothing(int64_t bytes)
{
    return bytes == UNKNOWN ? 0 : bytes;
}

int64_t trace_away_after(struct trace *t, int64_t device, int64_t seq)
{
    return or_nothing(trace_sql_one(
        t, "SELECT away_bytes FROM away WHERE seq <= ? AND device = ? ORDER BY seq DESC LIMIT 1", 2, seq,
        device));
}

int64_t trace_away_most(struct trace *t, int64_t device)
{
    return or_nothing(trace_sql_one(t, "SELECT max(away_bytes) FROM away WHERE device = ?", 1, device));
}

int64_t trace_away_most_seq(struct trace *t, int64_t device)
{
    return or_nothing(trace_sql_one(
        t, "SELECT seq FROM away WHERE device = ? AND away_bytes > 0 ORDER BY away_bytes DESC, seq LIMIT 1",
        1, device));
}
