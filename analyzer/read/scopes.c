/*
 * scopes.c - for who draws a run whole (lives.h): ranges with their depths, the table of call stacks with its
 * texts, and the stretches that were folded.
 */
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lives.h"
#include "trace/journal/journal.h"
#include "sql.h"

/* ---- names by their numbers ---- */

struct name {
    int64_t id;
    const char *text;
};

static int load_names(struct trace *t, const char *sql, struct name **out, size_t *n)
{
    struct sqlite3_stmt *s = trace_sql(t, sql, 0);
    int code = SQLITE_ERROR;
    while (s && (code = sqlite3_step(s)) == SQLITE_ROW) {
        struct name *name = PUSH(*out, *n);
        *name = (struct name){sqlite3_column_int64(s, 0), NULL};
        name->text = trace_sql_text(t, s, 1);
    }
    return trace_sql_done(t, s, code);
}

static const char *name_of(const struct name *names, size_t n, int64_t id)
{
    size_t low = 0, high = n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (names[middle].id < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low < n && names[low].id == id ? names[low].text : NULL;
}

/* ---- ranges ---- */

struct ranged {
    int64_t id;
    struct trace_scope scope;
    int64_t length;
};

static int depth_of(const struct ranged *all, size_t n, int64_t parent)
{
    size_t low = 0, high = n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (all[middle].id < parent)
            low = middle + 1;
        else
            high = middle;
    }
    return low < n && all[low].id == parent && all[low].scope.depth < 1000 ? all[low].scope.depth + 1 : 0;
}

static int load_ranges(struct trace *t, struct ranged **out, size_t *n)
{
    struct name *names = NULL;
    size_t name_count = 0;
    int result = load_names(t, "SELECT id, text FROM string WHERE id IN (SELECT name FROM rng) ORDER BY id",
                            &names, &name_count);
    struct sqlite3_stmt *s = result ? NULL
                                    : trace_sql(t,
                                                "SELECT id, t_push, t_pop, thread, phase, name, parent FROM "
                                                "rng WHERE NOT flags & 4 ORDER BY id",
                                                0);
    int code = SQLITE_ERROR;
    while (s && (code = sqlite3_step(s)) == SQLITE_ROW) {
        int64_t push = trace_sql_amount(s, 1), pop = trace_sql_int(s, 2),
                end = pop == UNKNOWN ? t->t_last : pop;
        int depth = depth_of(*out, *n, sqlite3_column_int64(s, 6));
        struct ranged r = {.id = sqlite3_column_int64(s, 0),
                           .scope = {push, pop, trace_sql_int(s, 3), sqlite3_column_int(s, 4), depth,
                                     name_of(names, name_count, sqlite3_column_int64(s, 5))},
                           .length = end - push};
        *PUSH(*out, *n) = r;
    }
    free(names);
    return result ? result : trace_sql_done(t, s, code);
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
    struct ranged *all = NULL;
    *out = NULL;
    *n = *total = 0;
    if (load_ranges(t, &all, total)) {
        free(all);
        return -1;
    }
    size_t kept = *total < most ? *total : most;
    if (kept < *total)
        qsort(all, *total, sizeof *all, longest_first);
    if (kept)
        qsort(all, kept, sizeof *all, by_push);
    for (size_t i = 0; i < kept; i++)
        *PUSH(*out, *n) = all[i].scope;
    free(all);
    return 0;
}

/* ---- call stacks ---- */

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
                                       "SELECT f.id, f.kind, f.function, f.file, f.line, m.path, f.offset "
                                       "FROM frame f LEFT JOIN module m ON m.id = f.module ORDER BY f.id",
                                       0);
    int code = SQLITE_ERROR;
    while (s && (code = sqlite3_step(s)) == SQLITE_ROW) {
        struct trace_frame_row *f = PUSH(out->frames, out->frame_count);
        *f = (struct trace_frame_row){.id = sqlite3_column_int64(s, 0), .kind = sqlite3_column_int64(s, 1)};
        const char *function = (const char *)sqlite3_column_text(s, 2),
                   *file = (const char *)sqlite3_column_text(s, 3),
                   *module = (const char *)sqlite3_column_text(s, 5);
        f->text = function ? own(out, xstrdup(function))
                           : own(out, xformat("%s+0x%llx", module ? file_of(module) : "unknown",
                                              (unsigned long long)sqlite3_column_int64(s, 6)));
        int64_t line = trace_sql_int(s, 4);
        if (file)
            f->file = own(out, line != UNKNOWN ? xformat("%s:%lld", file, (long long)line) : xstrdup(file));
        else if (module)
            f->file = own(out, xstrdup(module));
    }
    return trace_sql_done(t, s, code);
}

const struct trace_frame_row *trace_find_frame(const struct trace_stacks *s, int64_t id)
{
    size_t low = 0, high = s->frame_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (s->frames[middle].id < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low < s->frame_count && s->frames[low].id == id ? &s->frames[low] : NULL;
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
    struct name *owners = NULL;
    size_t owner_count = 0;
    struct named *cache = calloc(4096, sizeof *cache);
    int result =
        load_names(t, "SELECT id, text FROM string WHERE id IN (SELECT owner FROM stack) ORDER BY id",
                   &owners, &owner_count);
    struct sqlite3_stmt *s = result || !cache ? NULL
                                              : trace_sql(t,
                                                          "SELECT id, parent, frame, owner, line, forward, "
                                                          "node, layer, caller FROM stack ORDER BY id",
                                                          0);
    int code = SQLITE_ERROR;
    while (s && (code = sqlite3_step(s)) == SQLITE_ROW) {
        const struct trace_frame_row *layer = trace_find_frame(out, sqlite3_column_int64(s, 7));
        const char *line = line_text(out, cache, sqlite3_column_int64(s, 4), sqlite3_column_int64(s, 5),
                                     sqlite3_column_int64(s, 6), sqlite3_column_int64(s, 8));
        *PUSH(out->rows, out->count) = (struct trace_stack_row){
            sqlite3_column_int64(s, 0), sqlite3_column_int64(s, 1),
            sqlite3_column_int64(s, 2), line,
            layer ? layer->text : NULL, name_of(owners, owner_count, sqlite3_column_int64(s, 3))};
    }
    free(owners);
    free(cache);
    return result ? result : trace_sql_done(t, s, code);
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
    size_t low = 0, high = s->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (s->rows[middle].id < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low < s->count && s->rows[low].id == id ? &s->rows[low] : NULL;
}

int trace_stretches(struct trace *t, struct trace_stretch **out, size_t *n)
{
    struct sqlite3_stmt *s = trace_sql(t, "SELECT from_ns, to_ns, events FROM folded ORDER BY from_ns", 0);
    int code = SQLITE_ERROR;
    *out = NULL;
    *n = 0;
    while (s && (code = sqlite3_step(s)) == SQLITE_ROW)
        *PUSH(*out, *n) =
            (struct trace_stretch){trace_sql_amount(s, 0), trace_sql_amount(s, 1), trace_sql_amount(s, 2)};
    return trace_sql_done(t, s, code);
}

int trace_process_ids(struct trace *t, int64_t **out, size_t *n)
{
    struct sqlite3_stmt *s = trace_sql(t, "SELECT id FROM main.process ORDER BY id", 0);
    int code = SQLITE_ERROR;
    *out = NULL;
    *n = 0;
    while (s && (code = sqlite3_step(s)) == SQLITE_ROW)
        *PUSH(*out, *n) = sqlite3_column_int64(s, 0);
    return trace_sql_done(t, s, code);
}
