/*
 * sql.h - shared by the files of this folder: queries (sql.c), and the steps of opening a database (file.c,
 * process.c, end.c).
 */
#ifndef VS_READ_SQL_H
#define VS_READ_SQL_H

#include "trace.h"

struct sqlite3_stmt;
struct trace_live; /* living.h */

/* The file's first bytes: 1 = empty, 0 = looks like a database, -1 = t->why (file.c). */
int trace_inspect(struct trace *t);
int trace_connect(struct trace *t);
/* Makes this program's own views; false: they are there, or can't be made. */
bool trace_own_views(struct trace *t);
/* Restricts all later queries to the rows of t->wanted_process, or of the first process (process.c). */
int trace_select(struct trace *t);
void trace_disconnect(struct trace *t);
int trace_check_schema(struct trace *t);
bool trace_has_no_tables(struct trace *t); /* if so, also disconnects */

/* Merges the journal of a killed process, and determines the file's end; afterwards there is a connection
 * (end.c).  EMPTY: there is no table to read, and no connection before the call. */
int trace_complete(struct trace *t, bool empty);

/* Prepares SQL with BOUND int64_t parameters; NULL = error, described in t->why. */
struct sqlite3_stmt *trace_sql(struct trace *t, const char *sql, int bound, ...);
/* Whether S has one more row. */
bool trace_sql_row(struct sqlite3_stmt *s);
/* Finalizes S; 0, or -1: it is NULL, or its last step failed. */
int trace_sql_done(struct trace *t, struct sqlite3_stmt *s);
int trace_sql_error(struct trace *t);   /* puts the connection's error into t->why; -1 */
int trace_sql_endless(struct trace *t); /* describes the error "tables do not end"; -1 */

/* NULL and impossible values become UNKNOWN, so that numbers of a damaged file can be added without
 * overflow.
 */
int64_t trace_sql_int(struct sqlite3_stmt *s, int column);
/* Likewise, but 0 instead of UNKNOWN: for numbers that are only summed. */
int64_t trace_sql_amount(struct sqlite3_stmt *s, int column);
const char *trace_sql_text(struct trace *t, struct sqlite3_stmt *s, int column); /* lives until trace_close */
/* What the process says of itself under KEY (table meta); NULL: nothing.  Lives until trace_close. */
const char *trace_fact(struct trace *t, const char *key);
/* Runs statements that give no rows; 0 or -1. */
int trace_sql_run(struct trace *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* First column of the first row; UNKNOWN: there is none, or the file can't be read. */
int64_t trace_sql_one(struct trace *t, const char *sql, int bound, ...);

struct trace_texts { /* by their numbers, in that order */
    struct trace_numbered {
        int64_t number;
        const char *text;
    } * at;
    size_t n;
};
/* The rows of SQL, a number and its text each; for free(OUT->at).  The text of NUMBER; NULL. */
int trace_names(struct trace *t, const char *sql, struct trace_texts *out);
const char *trace_name_of(const struct trace_texts *texts, int64_t number);

/* The schema's short forms of bytes (schema.sql: x512, x2m).  ROW is the name of a row of ev with a dot, or
 * nothing. */
#define X512(column) "CASE WHEN " column " < 0 THEN -" column " ELSE " column " * 512 END"
#define X2M(row)                                                                                             \
    "CASE WHEN " row "reserved >= 0 THEN " row "reserved * 2097152 WHEN ~" row "reserved & 1 THEN ~" row     \
    "reserved >> 1 ELSE (~" row "reserved >> 1) * 2097152 + " X512(row "direct") " END"
/* What no memory can hold is 0. */
int64_t trace_x512(int64_t x);
int64_t trace_x2m(int64_t x, int64_t direct); /* DIRECT: x512 */

/* What lives in the view FROM, by all that is told of it and by ROLE: rows for trace_live_rows. */
#define LIVING(role, from)                                                                                   \
    "SELECT device, sum(size_bytes), count(*), stack, phase, category, owner, line, layer, (SELECT "         \
    "layer_type FROM stack_text WHERE id = stack), " role " FROM " from                                      \
    " GROUP BY phase, category, owner, line, layer, stack, 11 ORDER BY 2 DESC"
/* Reads the rows of S about living allocations: device, bytes, count, stack, phase, category, owner
 * (rows.c). */
int trace_live_rows(struct trace *t, struct sqlite3_stmt *s, struct trace_live **out, size_t *n);

/* Why the file at PATH can't be opened, by errno, and what to do; a directory without a recording, or, by
 * errno, one that can't be read (file.c). */
void absent_file(char *why, size_t why_size, const char *path);
void absent_files(char *why, size_t why_size, const char *path);

/* Reads which stretches were folded, and the number of steps (fold.c). */
void trace_load_folded(struct trace *t);

/* What the user calls the process's run by (labels.c). */
int trace_load_labels(struct trace *t);

/* Finds roles of the blocks of a recording by their lives, for all later queries (found_roles.c):
 * t->find_roles. Statements that ask for roles have it done by themselves; others need it (0 or -1). */
int trace_find_roles(struct trace *t);
int trace_need_roles(struct trace *t);

/* Out-of-memory events, first and last moment (rows.c). */
int trace_load_extent(struct trace *t);
int64_t trace_unfinished_step(struct trace *t);

#endif
