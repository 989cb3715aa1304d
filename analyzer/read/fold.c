/*
 * fold.c - reads which parts of the recording were folded to keep the file below its limit (tables stretch,
 * zone).  Who reads events must check here whether all of the time in question are there.
 */
#include <sqlite3.h>

#include "sql.h"
#include "curve.h"
#include "steps.h"

/* The view `folded`, from its table: every command asks this of every file, and makes no views for it. */
#define FOLDED                                                                                               \
    "(SELECT t_first AS from_ns, t_last AS to_ns, first_step, last_step, folded AS stretches, "              \
    "last_seq - first_seq + 1 AS events, ranges, steps, samples FROM stretch WHERE folded > 0)"

void trace_load_folded(struct trace *t)
{
    struct sqlite3_stmt *s =
        trace_sql(t,
                  "SELECT count(*), min(from_ns), max(to_ns), min(first_step), max(last_step), sum(events), "
                  "sum(ranges), sum(steps), sum(samples), max(stretches) FROM " FOLDED,
                  0);
    struct trace_folded *f = &t->folded;
    int64_t *const fields[] = {&f->stretches, &f->from,   &f->to,    &f->first_step, &f->last_step,
                               &f->events,    &f->ranges, &f->steps, &f->samples,    &f->largest};
    if (trace_sql_row(s) && sqlite3_column_int64(s, 0) > 0)
        for (int i = 0; i < 10; i++)
            *fields[i] = trace_sql_int(s, i);
    sqlite3_finalize(s);
    t->unwritten = trace_sql_one(t, "SELECT sum(unwritten) FROM stretch", 0);
    t->unwritten = t->unwritten > 0 ? t->unwritten : 0;
    t->unwritten_from = trace_sql_one(t, "SELECT min(t_first) FROM stretch WHERE unwritten > 0", 0);
    t->thinned = t->folded.stretches > 0 || t->unwritten > 0 ||
                 trace_sql_one(t, "SELECT value FROM meta WHERE key = 'thinned_from_seq'", 0) != UNKNOWN;
    int64_t counted = trace_sql_one(t, "SELECT sum(steps) FROM stretch", 0);
    t->steps = counted > t->steps ? counted : t->steps;
}

bool trace_all_events(struct trace *t, int64_t first_seq, int64_t last_seq)
{
    return trace_sql_one(
               t,
               "SELECT count(*) FROM stretch WHERE (folded > 0 OR unwritten > 0) AND first_seq <= ?2 "
               "AND last_seq >= ?1",
               2, first_seq, last_seq) <= 0;
}

bool trace_folded_at(struct trace *t, int64_t from, int64_t to, int64_t *first_step, int64_t *last_step)
{
    struct sqlite3_stmt *s = trace_sql(
        t, "SELECT first_step, last_step FROM " FOLDED " WHERE from_ns <= ?2 AND to_ns >= ?1 LIMIT 1", 2,
        from, to);
    bool found = s && t->folded.stretches > 0 && sqlite3_step(s) == SQLITE_ROW;
    if (found) {
        *first_step = trace_sql_int(s, 0);
        *last_step = trace_sql_int(s, 1);
    }
    sqlite3_finalize(s);
    return found;
}

bool trace_step_folded(struct trace *t, int64_t step, int64_t *first_step, int64_t *last_step)
{
    *first_step = trace_sql_one(
        t, "SELECT first_step FROM " FOLDED " WHERE ?1 BETWEEN first_step AND last_step", 2, step, 0);
    *last_step = trace_sql_one(
        t, "SELECT last_step FROM " FOLDED " WHERE ?1 BETWEEN first_step AND last_step", 2, step, 0);
    return t->folded.stretches > 0 && *first_step != UNKNOWN && *last_step != UNKNOWN;
}

int64_t trace_steps_after(struct trace *t, int64_t when)
{
    int64_t whole = trace_sql_one(t, "SELECT coalesce(sum(steps), 0) FROM stretch WHERE t_first > ?1", 2,
                                  when, 0),
            rows = trace_sql_one(t,
                                 "SELECT count(*) FROM step WHERE t_ns > ?1 AND seq <= coalesce((SELECT "
                                 "max(last_seq) FROM stretch WHERE t_first <= ?1), 9223372036854775807)",
                                 2, when, 0);
    return (whole > 0 ? whole : 0) + (rows > 0 ? rows : 0);
}
