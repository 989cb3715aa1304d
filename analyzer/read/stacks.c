/* stacks.c - see stacks.h. */
#include "stacks.h"

#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

#include "sql.h"

#define FRAME "m.path, f.function, f.file, f.offset, f.line, f.kind" /* from column 1 on */

static struct trace_frame frame_of(struct trace *t, struct sqlite3_stmt *s)
{
    return (struct trace_frame){trace_sql_text(t, s, 1), trace_sql_text(t, s, 2), trace_sql_text(t, s, 3),
                                trace_sql_int(s, 4),     trace_sql_int(s, 5),     trace_sql_int(s, 6)};
}

int trace_stack(struct trace *t, int64_t id, struct trace_frame **out, size_t *n)
{
    /* ids must grow from parent to child, so that a damaged table can't make an endless loop */
    struct sqlite3_stmt *s = trace_sql(
        t,
        "WITH RECURSIVE up(id, parent, frame, depth) AS (SELECT id, parent, frame, 0 FROM stack WHERE id = ? "
        "UNION ALL SELECT s.id, s.parent, s.frame, up.depth + 1 FROM stack s JOIN up ON s.id = up.parent "
        "WHERE up.depth < 1024) "
        "SELECT f.id, " FRAME " FROM up LEFT JOIN frame f ON f.id = "
        "up.frame "
        "LEFT JOIN module m ON m.id = f.module ORDER BY up.depth",
        1, id);
    *out = NULL;
    *n = 0;
    while (trace_sql_row(s))
        *PUSH(*out, *n) = frame_of(t, s);
    return trace_sql_done(t, s);
}

static const char *text_of_stack(struct trace *t, const char *sql, int64_t stack)
{
    struct sqlite3_stmt *s = trace_sql(t, sql, 1, stack);
    const char *text = trace_sql_row(s) ? trace_sql_text(t, s, 0) : NULL;
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

/* ---- all of them ---- */

static const char *own(struct trace_stacks *s, char *text)
{
    return *PUSH(s->owned, s->owned_count) = text;
}

static const char *file_of(const char *path)
{
    const char *slash = path ? strrchr(path, '/') : NULL;
    return slash ? slash + 1 : path;
}

static int load_frames(struct trace *t, struct trace_stacks *out)
{
    struct sqlite3_stmt *s = trace_sql(t,
                                       "SELECT f.id, " FRAME " FROM frame f LEFT JOIN module m ON m.id = "
                                       "f.module ORDER BY f.id",
                                       0);
    const char *path = NULL; /* one text for neighbours that share it */
    while (trace_sql_row(s)) {
        struct trace_frame_row *f = PUSH(out->frames, out->frame_count);
        const char *module = (const char *)sqlite3_column_text(s, 1);
        if (module && (!path || strcmp(path, module) != 0))
            path = trace_sql_text(t, s, 1);
        *f = (struct trace_frame_row){.id = sqlite3_column_int64(s, 0), .is = frame_of(t, s)};
        f->is.module = module ? path : NULL;
        f->text = f->is.function ? f->is.function
                                 : own(out, xformat("%s+0x%llx", module ? file_of(path) : "unknown",
                                                    (unsigned long long)trace_sql_amount(s, 4)));
        f->file = f->is.file && f->is.line != UNKNOWN
                      ? own(out, xformat("%s:%lld", f->is.file, (long long)f->is.line))
                  : f->is.file ? f->is.file
                               : f->is.module;
    }
    return trace_sql_done(t, s);
}

const struct trace_frame_row *trace_find_frame(const struct trace_stacks *s, int64_t id)
{
    return FIND(id, s->frames, s->frame_count);
}

/* What view stack_text says; the same combination as in the row before is the same text. */
struct named {
    int64_t line, forward, node, caller;
    const char *text;
};

static const char *line_text(struct trace_stacks *out, struct named *cache, int64_t line, int64_t forward,
                             int64_t node, int64_t caller)
{
    const struct trace_frame_row *l = trace_find_frame(out, line), *n = trace_find_frame(out, node),
                                 *from = trace_find_frame(out, caller);
    struct named *c = &cache[(uint64_t)(line * 3 + forward + node * 7 + caller * 31) % 4096];
    if (!l)
        return n ? n->text : NULL;
    if (!c->text || c->line != line || c->forward != forward || c->node != node || c->caller != caller)
        *c = (struct named){
            line, forward, node, caller,
            own(out, xformat("%s%s%s%s %s", forward ? "forward: " : "", from && from->file ? from->file : "",
                             from ? " > " : "", l->file ? l->file : "", l->text ? l->text : ""))};
    return c->text;
}

static int load_stacks(struct trace *t, struct trace_stacks *out)
{
    struct trace_texts owners = {0};
    struct named *cache = calloc(4096, sizeof *cache);
    int result = trace_names(
        t, "SELECT id, text FROM string WHERE id IN (SELECT owner FROM stack) ORDER BY id", &owners);
    struct sqlite3_stmt *s = result || !cache ? NULL
                                              : trace_sql(t,
                                                          "SELECT id, parent, frame, owner, line, forward, "
                                                          "node, layer, caller FROM stack ORDER BY id",
                                                          0);
    while (trace_sql_row(s)) {
        const struct trace_frame_row *layer = trace_find_frame(out, sqlite3_column_int64(s, 7));
        const char *line = line_text(out, cache, sqlite3_column_int64(s, 4), sqlite3_column_int64(s, 5),
                                     sqlite3_column_int64(s, 6), sqlite3_column_int64(s, 8));
        int64_t id = sqlite3_column_int64(s, 0), parent = sqlite3_column_int64(s, 1);
        /* ids grow from parent to child, so a damaged table can't send us round in circles */
        *PUSH(out->rows, out->count) =
            (struct trace_stack_row){id,
                                     parent > 0 && parent < id ? parent : 0,
                                     sqlite3_column_int64(s, 2),
                                     line,
                                     layer ? layer->text : NULL,
                                     trace_name_of(&owners, sqlite3_column_int64(s, 3))};
    }
    free(owners.at);
    free(cache);
    return result ? result : trace_sql_done(t, s);
}

int trace_stacks(struct trace *t, struct trace_stacks *out)
{
    *out = (struct trace_stacks){0};
    if (!load_frames(t, out) && !load_stacks(t, out))
        return 0;
    trace_free_stacks(out);
    return -1;
}

void trace_free_stacks(struct trace_stacks *s)
{
    for (size_t i = 0; i < s->owned_count; i++)
        free(s->owned[i]);
    free(s->owned);
    free(s->rows);
    free(s->frames);
    *s = (struct trace_stacks){0};
}

const struct trace_stack_row *trace_find_stack(const struct trace_stacks *s, int64_t id)
{
    return FIND(id, s->rows, s->count);
}
