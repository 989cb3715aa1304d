/*
 * sql.c - queries: statements, numbers and texts of their rows, and error messages.
 */
#include "sql.h"

#include <sqlite3.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int trace_sql_endless(struct trace *t)
{
    snprintf(t->why, sizeof t->why,
             "%s is damaged: its tables do not end where its size says: copy it again, or record again with "
             "vramscope run",
             t->path);
    return -1;
}

static int say(struct trace *t, int code, const char *text)
{
    if (code == SQLITE_NOTADB || code == SQLITE_CORRUPT)
        snprintf(t->why, sizeof t->why,
                 "%s is truncated or damaged: %s: copy it again, or record again with vramscope run", t->path,
                 text);
    else if (code == SQLITE_INTERRUPT || code == SQLITE_TOOBIG)
        trace_sql_endless(t);
    else if (code == SQLITE_BUSY)
        snprintf(t->why, sizeof t->why, "%s is locked by another program: try again", t->path);
    else
        snprintf(t->why, sizeof t->why, "%s can't be read: %s", t->path, text);
    return -1;
}

int trace_sql_error(struct trace *t)
{
    return say(t, sqlite3_errcode(t->db), sqlite3_errmsg(t->db));
}

/* What blocks are for is found by a pass over all events, which few pages need: for the first statement that
 * asks it. */
static bool asks_for_roles(const char *sql)
{
    static const char *const froms[] = {"FROM framework_role", "FROM framework_says", "FROM block_role",
                                        "FROM life_role",      "FROM role_agreement", "FROM live_at_",
                                        "FROM allocation",     "FROM waste"};
    for (size_t i = 0; i < sizeof froms / sizeof *froms; i++)
        if (strstr(sql, froms[i]))
            return true;
    return false;
}

int trace_need_roles(struct trace *t)
{
    trace_find *find = t->find_roles;
    t->find_roles = NULL;
    return find ? find(t) : 0;
}

static struct sqlite3_stmt *prepare(struct trace *t, const char *sql, int bound, va_list list)
{
    struct sqlite3_stmt *s = NULL;
    if (t->find_roles && asks_for_roles(sql) && trace_need_roles(t))
        return NULL;
    int code = sqlite3_prepare_v2(t->db, sql, -1, &s, NULL);
    if (code == SQLITE_ERROR && t->brief && trace_own_views(t)) /* it may need a view */
        code = sqlite3_prepare_v2(t->db, sql, -1, &s, NULL);
    if (code != SQLITE_OK) {
        trace_sql_error(t);
        return NULL;
    }
    for (int i = 1; i <= bound; i++)
        sqlite3_bind_int64(s, i, va_arg(list, int64_t));
    return s;
}

struct sqlite3_stmt *trace_sql(struct trace *t, const char *sql, int bound, ...)
{
    va_list list;
    va_start(list, bound);
    struct sqlite3_stmt *s = prepare(t, sql, bound, list);
    va_end(list);
    return s;
}

bool trace_sql_row(struct sqlite3_stmt *s)
{
    return s && sqlite3_step(s) == SQLITE_ROW;
}

int trace_sql_done(struct trace *t, struct sqlite3_stmt *s)
{
    int code = sqlite3_reset(s);
    if (code != SQLITE_OK && sqlite3_errcode(t->db) != (code & 0xff)) /* another query came between */
        say(t, code & 0xff, sqlite3_errstr(code));
    else if (code != SQLITE_OK)
        trace_sql_error(t);
    sqlite3_finalize(s);
    return s && code == SQLITE_OK ? 0 : -1;
}

#define MOST (INT64_C(1) << 61) /* beyond any bytes or nanoseconds, Unix time included */

/* Whether a text, as values of meta are, begins as a number does. */
static bool is_numeral(struct sqlite3_stmt *s, int column)
{
    const char *text = (const char *)sqlite3_column_text(s, column);
    return text && strchr("+-0123456789", *text) && text[strcspn(text, "0123456789")];
}

int64_t trace_sql_int(struct sqlite3_stmt *s, int column)
{
    int type = sqlite3_column_type(s, column);
    /* of a damaged file: SQLite reads "abc" as 0 */
    if (type == SQLITE_NULL || (type != SQLITE_INTEGER && type != SQLITE_FLOAT && !is_numeral(s, column)))
        return UNKNOWN;
    int64_t value = sqlite3_column_int64(s, column);
    return value < MOST && value > -MOST ? value : UNKNOWN;
}

int64_t trace_sql_amount(struct sqlite3_stmt *s, int column)
{
    int64_t value = trace_sql_int(s, column);
    return value == UNKNOWN ? 0 : value;
}

const char *trace_sql_text(struct trace *t, struct sqlite3_stmt *s, int column)
{
    const char *text = (const char *)sqlite3_column_text(s, column);
    if (!text)
        return NULL;
    return *PUSH(t->texts, t->text_count) = xstrdup(text);
}

int64_t trace_sql_one(struct trace *t, const char *sql, int bound, ...)
{
    va_list list;
    va_start(list, bound);
    struct sqlite3_stmt *s = prepare(t, sql, bound, list);
    va_end(list);
    int64_t value = trace_sql_row(s) ? trace_sql_int(s, 0) : UNKNOWN;
    sqlite3_finalize(s);
    return value;
}

const char *trace_fact(struct trace *t, const char *key)
{
    struct sqlite3_stmt *s = trace_sql(t, "SELECT value FROM meta WHERE key = ?1 AND process = ?2", 0);
    if (!s)
        return NULL;
    sqlite3_bind_text(s, 1, key, -1, SQLITE_STATIC);
    sqlite3_bind_int64(s, 2, (t->before >> 40) + 1);
    const char *text = sqlite3_step(s) == SQLITE_ROW ? trace_sql_text(t, s, 0) : NULL;
    sqlite3_finalize(s);
    return text;
}

int trace_sql_run(struct trace *t, const char *format, ...)
{
    va_list list;
    char *sql = NULL;
    va_start(list, format);
    int length = vasprintf(&sql, format, list), code = SQLITE_NOMEM;
    va_end(list);
    if (length >= 0)
        code = sqlite3_exec(t->db, sql, NULL, NULL, NULL);
    free(sql);
    return code == SQLITE_OK ? 0 : trace_sql_error(t);
}

int trace_names(struct trace *t, const char *sql, struct trace_texts *out)
{
    struct sqlite3_stmt *s = trace_sql(t, sql, 0);
    while (trace_sql_row(s))
        *PUSH(out->at, out->n) = (struct trace_numbered){sqlite3_column_int64(s, 0), trace_sql_text(t, s, 1)};
    return trace_sql_done(t, s);
}

const char *trace_name_of(const struct trace_texts *texts, int64_t number)
{
    const struct trace_numbered *found = FIND(number, texts->at, texts->n);
    return found ? found->text : NULL;
}

int64_t trace_x512(int64_t x)
{
    if (x > (INT64_C(1) << 60) / 512 || x < -(INT64_C(1) << 60))
        return 0;
    return x < 0 ? -x : x * 512;
}

int64_t trace_x2m(int64_t x, int64_t direct)
{
    const int64_t unit = 2097152, most = INT64_C(1) << 60;
    if (x > most / unit || x < -2 * most)
        return 0;
    if (x >= 0)
        return x * unit;
    if (~x & 1)
        return ~x >> 1;
    return ~x >> 1 > most / unit ? 0 : (~x >> 1) * unit + trace_x512(direct);
}
