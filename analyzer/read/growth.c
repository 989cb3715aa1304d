/*
 * growth.c - reads the allocations that live at the end of the last training step, with the steps that made
 * them, for analysis/growth.h.
 *
 * Allocations that live now are in the table live.  Those that ended after the last step, for instance at
 * the program's teardown, are found among the events since.  So only the events after the last step are
 * read, however long the run.
 */
#include <sqlite3.h>
#include <stdlib.h>

#include "trace/event.h"
#include "sql.h"
#include "curve.h"
#include "stacks.h"
#include "steps.h"

int trace_step_ends(struct trace *t, struct trace_step_end **out, size_t *n)
{
    struct sqlite3_stmt *s =
        trace_sql(t,
                  "SELECT step, t_ns, seq FROM step WHERE process = ? AND seq > coalesce((SELECT "
                  "max(last_seq) FROM stretch WHERE folded > 0 OR unwritten > 0), 0) ORDER BY seq",
                  1, t->process.id);
    int code = SQLITE_ERROR;
    *out = NULL;
    *n = 0;
    while (s && (code = sqlite3_step(s)) == SQLITE_ROW)
        *PUSH(*out, *n) =
            (struct trace_step_end){trace_sql_int(s, 0), trace_sql_int(s, 1), trace_sql_int(s, 2)};
    return trace_sql_done(t, s, code);
}

/* The index of the first step that ends at SEQ or later. */
static int64_t step_of(const struct trace_step_end *steps, size_t n, int64_t seq)
{
    size_t low = 0, high = n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (steps[middle].seq < seq)
            low = middle + 1;
        else
            high = middle;
    }
    return (int64_t)low;
}

/* The conditions of the view live_at_peak, at the end of the last step.  With the + no index of all events by
 * device is made for this one question. */
#define BIRTHS                                                                                               \
    "SELECT o.alloc_seq, " X512(                                                                             \
        "o.size") ", o.phase, o.stack, o.op, o.space FROM open_allocation o WHERE +o.device = ?1 "           \
                  "AND o.alloc_seq <= ?2 AND NOT o.managed AND (o.op = 20 OR o.space IN (1, 2, 9, 10, 12)) " \
                  "UNION ALL "                                                                               \
                  "SELECT a.seq, " X512("a.size") ", a.phase, a.stack, a.op, k.space FROM ev f CROSS JOIN "  \
                                                  "ev a ON a.seq = f.mate "                                  \
                                                  "CROSS JOIN kind k ON k.id = a.kind WHERE f.seq > ?2 AND " \
                                                  "f.mate > 0 AND f.mate <= ?2 AND f.op IN (2, 6, 21, 51, "  \
                                                  "52, 53) AND (f.op <> 6 OR f.size <> 0) AND f.seq NOT IN " \
                                                  "(SELECT seq FROM amend WHERE op = 3) AND a.device = ?1 "  \
                                                  "AND (a.op = 20 OR (k.space IN (1, 2, 9, 10, 12) AND NOT " \
                                                  "k.managed AND a.seq NOT IN (SELECT seq FROM amend WHERE " \
                                                  "op = 50)))"

int trace_births(struct trace *t, int64_t device, const struct trace_step_end *steps, size_t n,
                 struct trace_birth **out, size_t *count)
{
    *out = NULL;
    *count = 0;
    if (!n)
        return 0;
    struct sqlite3_stmt *s = trace_sql(t, BIRTHS, 2, device, steps[n - 1].seq);
    int code = SQLITE_ERROR;
    while (s && (code = sqlite3_step(s)) == SQLITE_ROW)
        *PUSH(*out, *count) = (struct trace_birth){.step = step_of(steps, n, trace_sql_amount(s, 0)),
                                                   .size = trace_sql_amount(s, 1),
                                                   .phase = trace_sql_amount(s, 2),
                                                   .stack = trace_sql_amount(s, 3),
                                                   .op = trace_sql_amount(s, 4),
                                                   .space = trace_sql_amount(s, 5)};
    return trace_sql_done(t, s, code);
}

int64_t trace_allocated_at(struct trace *t, int64_t device, int64_t seq)
{
    struct sqlite3_stmt *s = trace_sql(t,
                                       "SELECT " X512("framework") ", " X512(
                                           "direct") " FROM ev WHERE seq <= ? AND device = ? AND (op < 30 OR "
                                                     "op >= 50) ORDER BY seq DESC LIMIT 1",
                                       2, seq, device);
    int64_t value = s && sqlite3_step(s) == SQLITE_ROW ? trace_sql_amount(s, 0) + trace_sql_amount(s, 1) : 0;
    sqlite3_finalize(s);
    return value;
}

int64_t trace_last_birth(struct trace *t, int64_t after, int64_t upto)
{
    struct sqlite3_stmt *s = trace_sql(t,
                                       "SELECT seq FROM ev WHERE seq > ? AND seq <= ? AND op IN (1, 4, 20) "
                                       "ORDER BY seq DESC LIMIT 1",
                                       2, after, upto);
    int64_t seq = s && sqlite3_step(s) == SQLITE_ROW ? trace_sql_amount(s, 0) : UNKNOWN;
    sqlite3_finalize(s);
    return seq;
}

static const char *text_of_stack(struct trace *t, const char *sql, int64_t stack)
{
    struct sqlite3_stmt *s = trace_sql(t, sql, 1, stack);
    const char *text = s && sqlite3_step(s) == SQLITE_ROW ? trace_sql_text(t, s, 0) : NULL;
    sqlite3_finalize(s);
    return text;
}

const char *trace_owner(struct trace *t, int64_t stack)
{
    return text_of_stack(t, "SELECT text FROM string WHERE id = (SELECT owner FROM stack WHERE id = ?)",
                         stack);
}

const char *trace_line(struct trace *t, int64_t stack)
{
    return text_of_stack(t, "SELECT line FROM stack_text WHERE id = ?", stack);
}
