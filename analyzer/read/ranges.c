/*
 * ranges.c - ranges, threads, and where the events are that have rows: for who draws a run whole or writes
 * it out (stream.h, lives.h).
 */
#include <sqlite3.h>
#include <stdlib.h>

#include "lives.h"
#include "sql.h"
#include "stream.h"

/* ---- ranges ---- */

int trace_each_range(struct trace *t, trace_span_visit *visit, void *context)
{
    struct trace_texts names = {0};
    int result =
        trace_names(t, "SELECT id, text FROM string WHERE id IN (SELECT name FROM rng) ORDER BY id", &names);
    struct sqlite3_stmt *s =
        result
            ? NULL
            : trace_sql(
                  t, "SELECT id, parent, t_push, t_pop, thread, phase, flags, name FROM rng ORDER BY id", 0);
    bool more = true;
    while (more && trace_sql_row(s)) {
        int flags = sqlite3_column_int(s, 6);
        struct trace_span_row row = {.id = sqlite3_column_int64(s, 0),
                                     .parent = sqlite3_column_int64(s, 1),
                                     .t_push = trace_sql_amount(s, 2),
                                     .t_pop = trace_sql_int(s, 3),
                                     .thread = trace_sql_amount(s, 4),
                                     .phase = sqlite3_column_int(s, 5),
                                     .lost = flags & 4,
                                     .crosses = flags & 2,
                                     .name = trace_name_of(&names, trace_sql_amount(s, 7))};
        more = visit(context, &row);
    }
    if (!result)
        result = trace_sql_done(t, s);
    free(names.at);
    return result;
}

struct ranged {
    int64_t id;
    struct trace_scope scope;
    int64_t length;
};

struct ranges {
    struct ranged *at; /* by id */
    size_t n;
    int64_t last; /* when the recording ended */
};

static bool take_range(void *ranges, const struct trace_span_row *row)
{
    struct ranges *all = ranges;
    const struct ranged *parent = FIND(row->parent, all->at, all->n);
    int depth = parent && parent->scope.depth < 1000 ? parent->scope.depth + 1 : 0;
    int64_t end = row->t_pop == UNKNOWN ? all->last : row->t_pop;
    if (!row->lost)
        *PUSH(all->at, all->n) = (struct ranged){
            row->id, {row->t_push, row->t_pop, row->thread, row->phase, depth, row->name}, end - row->t_push};
    return true;
}

static int longest_first(const void *a, const void *b)
{
    const struct ranged *x = a, *y = b;
    return x->length != y->length ? (x->length > y->length ? -1 : 1) : (x->id > y->id) - (x->id < y->id);
}

static int by_push(const void *a, const void *b)
{
    const struct ranged *x = a, *y = b;
    if (x->scope.push != y->scope.push)
        return x->scope.push < y->scope.push ? -1 : 1;
    return (x->id > y->id) - (x->id < y->id);
}

int trace_scopes(struct trace *t, size_t most, struct trace_scope **out, size_t *n, size_t *total)
{
    struct ranges all = {.last = t->t_last};
    *out = NULL;
    *n = 0;
    int result = trace_each_range(t, take_range, &all);
    *total = all.n;
    size_t kept = all.n < most ? all.n : most;
    if (kept < all.n)
        qsort(all.at, all.n, sizeof *all.at, longest_first);
    if (kept)
        qsort(all.at, kept, sizeof *all.at, by_push);
    for (size_t i = 0; !result && i < kept; i++)
        *PUSH(*out, *n) = all.at[i].scope;
    free(all.at);
    return result;
}

/* ---- threads, processes ---- */

int trace_threads(struct trace *t, struct trace_thread **out, size_t *n)
{
    struct sqlite3_stmt *s =
        trace_sql(t, "SELECT id, tid, name FROM thread WHERE process = ? ORDER BY id", 1, t->process.id);
    *out = NULL;
    *n = 0;
    while (trace_sql_row(s))
        *PUSH(*out, *n) =
            (struct trace_thread){trace_sql_amount(s, 0), trace_sql_int(s, 1), trace_sql_text(t, s, 2)};
    return trace_sql_done(t, s);
}

int trace_process_ids(struct trace *t, int64_t **out, size_t *n)
{
    struct sqlite3_stmt *s = trace_sql(t, "SELECT id FROM main.process ORDER BY id", 0);
    *out = NULL;
    *n = 0;
    while (trace_sql_row(s))
        *PUSH(*out, *n) = sqlite3_column_int64(s, 0);
    return trace_sql_done(t, s);
}

/* ---- where events are ---- */

int trace_stretches(struct trace *t, struct trace_stretch **out, size_t *n)
{
    struct sqlite3_stmt *s = trace_sql(t, "SELECT from_ns, to_ns, events FROM folded ORDER BY from_ns", 0);
    *out = NULL;
    *n = 0;
    while (trace_sql_row(s))
        *PUSH(*out, *n) =
            (struct trace_stretch){trace_sql_amount(s, 0), trace_sql_amount(s, 1), trace_sql_amount(s, 2)};
    return trace_sql_done(t, s);
}

int64_t trace_first_whole_seq(struct trace *t)
{
    int64_t last = trace_sql_one(t, "SELECT max(last_seq) FROM stretch WHERE folded > 0 OR unwritten > 0", 0);
    if (last == UNKNOWN && t->thinned) /* there was no room, and no stretch says where: nothing is whole */
        last = trace_sql_one(t, "SELECT upto_seq FROM mark", 0);
    return last == UNKNOWN ? 0 : last + 1;
}

int64_t trace_imported_start(struct trace *t)
{
    int64_t seq = trace_is_imported(t)
                      ? trace_sql_one(t, "SELECT seq FROM ev WHERE op = 34 ORDER BY seq LIMIT 1", 0)
                      : UNKNOWN;
    return seq == UNKNOWN ? 0 : seq;
}

int64_t trace_seq_at(struct trace *t, int64_t when)
{
    int64_t seq = trace_sql_one(t, "SELECT seq FROM ev WHERE t <= ? ORDER BY seq DESC LIMIT 1", 1, when);
    return seq == UNKNOWN ? 0 : seq;
}
