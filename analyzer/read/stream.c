/*
 * stream.c - ranges, threads and call stacks, a row at a time (stream.h).
 */
#include "stream.h"

#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

#include "sql.h"

struct text {
    int64_t id;
    const char *text;
};

struct names { /* sorted by id */
    struct text *at;
    size_t n;
};

/* First column of the first row of SQL with one parameter. */
static int64_t one_of(struct trace *t, const char *sql, int64_t a)
{
    struct sqlite3_stmt *s = trace_sql(t, sql, 1, a);
    int64_t value = s && sqlite3_step(s) == SQLITE_ROW ? trace_sql_int(s, 0) : UNKNOWN;
    sqlite3_finalize(s);
    return value;
}

int64_t trace_first_whole_seq(struct trace *t)
{
    int64_t last = trace_sql_one(t, "SELECT max(last_seq) FROM stretch WHERE folded > 0 OR unwritten > 0");
    if (last == UNKNOWN && t->thinned) /* there was no room, and no stretch says where: nothing is whole */
        last = trace_sql_one(t, "SELECT upto_seq FROM mark");
    return last == UNKNOWN ? 0 : last + 1;
}

int64_t trace_imported_start(struct trace *t)
{
    int64_t seq = trace_is_imported(t)
                      ? trace_sql_one(t, "SELECT seq FROM ev WHERE op = 34 ORDER BY seq LIMIT 1")
                      : UNKNOWN;
    return seq == UNKNOWN ? 0 : seq;
}

int64_t trace_seq_at(struct trace *t, int64_t when)
{
    int64_t seq = one_of(t, "SELECT seq FROM ev WHERE t <= ? ORDER BY seq DESC LIMIT 1", when);
    return seq == UNKNOWN ? 0 : seq;
}

/* ---- ranges, threads ---- */

static const char *name_of(const struct names *names, int64_t id)
{
    const struct text *known = FIND(id, names->at, names->n);
    return known ? known->text : NULL;
}

static int load_range_names(struct trace *t, struct names *names)
{
    struct sqlite3_stmt *s = trace_sql(
        t, "SELECT id, text FROM string WHERE id IN (SELECT DISTINCT name FROM rng) ORDER BY id", 0);
    int code = SQLITE_ERROR;
    while (s && (code = sqlite3_step(s)) == SQLITE_ROW)
        *PUSH(names->at, names->n) = (struct text){trace_sql_amount(s, 0), trace_sql_text(t, s, 1)};
    return trace_sql_done(t, s, code);
}

int trace_each_range(struct trace *t, trace_span_visit *visit, void *context)
{
    struct names names = {0};
    int result = load_range_names(t, &names);
    struct sqlite3_stmt *s =
        result ? NULL
               : trace_sql(t, "SELECT t_push, t_pop, thread, phase, flags, name FROM rng ORDER BY id", 0);
    int code = SQLITE_ERROR;
    bool more = true;
    while (s && more && (code = sqlite3_step(s)) == SQLITE_ROW) {
        int flags = sqlite3_column_int(s, 4);
        struct trace_span_row row = {.t_push = trace_sql_amount(s, 0),
                                     .t_pop = trace_sql_int(s, 1),
                                     .thread = trace_sql_amount(s, 2),
                                     .phase = sqlite3_column_int(s, 3),
                                     .lost = flags & 4,
                                     .crosses = flags & 2,
                                     .name = name_of(&names, trace_sql_amount(s, 5))};
        more = visit(context, &row);
    }
    if (!result)
        result = trace_sql_done(t, s, code);
    free(names.at);
    return result;
}

int trace_threads(struct trace *t, struct trace_thread **out, size_t *n)
{
    struct sqlite3_stmt *s =
        trace_sql(t, "SELECT id, tid, name FROM thread WHERE process = ? ORDER BY id", 1, t->process.id);
    int code = SQLITE_ERROR;
    *out = NULL;
    *n = 0;
    while (s && (code = sqlite3_step(s)) == SQLITE_ROW)
        *PUSH(*out, *n) =
            (struct trace_thread){trace_sql_amount(s, 0), trace_sql_int(s, 1), trace_sql_text(t, s, 2)};
    return trace_sql_done(t, s, code);
}

/* ---- call stacks ---- */

static int load_frames(struct trace *t, struct trace_paths *out, int64_t **ids)
{
    struct sqlite3_stmt *s =
        trace_sql(t,
                  "SELECT f.id, m.path, f.function, f.file, f.offset, f.line, f.kind FROM frame f LEFT JOIN "
                  "module m ON m.id = f.module ORDER BY f.id",
                  0);
    int code = SQLITE_ERROR;
    const char *path = NULL; /* one text for neighbours that share it */
    size_t n = 0;
    while (s && (code = sqlite3_step(s)) == SQLITE_ROW) {
        const char *module = (const char *)sqlite3_column_text(s, 1);
        if (module && (!path || strcmp(path, module) != 0))
            path = trace_sql_text(t, s, 1);
        *PUSH(*ids, n) = trace_sql_amount(s, 0);
        *PUSH(out->frames, out->frame_count) =
            (struct trace_frame){module ? path : NULL, trace_sql_text(t, s, 2), trace_sql_text(t, s, 3),
                                 trace_sql_int(s, 4),  trace_sql_int(s, 5),     trace_sql_int(s, 6)};
    }
    return trace_sql_done(t, s, code);
}

int trace_load_paths(struct trace *t, struct trace_paths *out)
{
    int64_t *ids = NULL; /* of the frames */
    int code = SQLITE_ERROR;
    *out = (struct trace_paths){0};
    int result = load_frames(t, out, &ids);
    struct sqlite3_stmt *s =
        result ? NULL : trace_sql(t, "SELECT id, parent, frame FROM stack ORDER BY id", 0);
    while (s && (code = sqlite3_step(s)) == SQLITE_ROW) {
        int64_t id = trace_sql_amount(s, 0), parent = trace_sql_amount(s, 1);
        const int64_t *frame = FIND(trace_sql_amount(s, 2), ids, out->frame_count);
        /* ids grow from parent to child, so a damaged table can't send us round in circles */
        *PUSH(out->nodes, out->node_count) =
            (struct trace_node){id, parent < id && parent > 0 ? parent : 0, frame ? frame - ids : -1};
    }
    if (!result)
        result = trace_sql_done(t, s, code);
    free(ids);
    if (result)
        trace_free_paths(out);
    return result;
}

void trace_free_paths(struct trace_paths *s)
{
    free(s->nodes);
    free(s->frames);
    *s = (struct trace_paths){0};
}

const struct trace_node *trace_find_node(const struct trace_paths *s, int64_t id)
{
    return id > 0 ? FIND(id, s->nodes, s->node_count) : NULL;
}
