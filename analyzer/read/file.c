/*
 * file.c - checks that a file is a database that vramscope wrote, and opens it.
 *
 * Files are not trusted.  A database may define anything under the names that we query: its tables must be
 * tables, its views are not used.  A few KiB of pages that refer to each other make an endless table, so
 * the work of reading is bounded by the file's size.
 */
#include <errno.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "guard.h"
#include "trace/database.h"
#include "trace/store/files.h"
#include "sql.h"

#define HEAD 100 /* bytes */
#define GIVE "give a recording, such as vramscope run -o run.db -- python train.py writes"

/* ---- what the file is ---- */

static uint32_t big_endian(const unsigned char *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

/* The first 100 bytes give page size and page count (SQLite's file format): a shorter file was truncated. */
static bool is_truncated(const unsigned char *head, off_t size, const char *path)
{
    uint32_t page = (uint32_t)head[16] << 8 | head[17];
    uint64_t whole = (uint64_t)(page == 1 ? 65536 : page) * big_endian(head + 28);
    char *wal = xformat("%s-wal", path); /* the missing pages may be there */
    bool truncated = (uint64_t)size < whole && access(wal, F_OK);
    free(wal);
    return truncated;
}

/* SQLite opens these by name, and would wait for a FIFO. */
static bool has_strange_neighbour(struct trace *t)
{
    static const char *const suffixes[] = {"-wal", "-shm", "-journal"};
    struct stat st;
    bool strange = false;
    for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes && !strange; i++) {
        char *path = xformat("%s%s", t->file, suffixes[i]);
        strange = lstat(path, &st) == 0 && !S_ISREG(st.st_mode);
        if (strange)
            snprintf(t->why, sizeof t->why,
                     "%s is no regular file: remove it, or move the database away from it", path);
        free(path);
    }
    return strange;
}

void absent_file(char *why, size_t why_size, const char *path)
{
    struct stat st;
    if (errno == ENOENT)
        snprintf(why, why_size, "%s: %s: " GIVE, path, strerror(errno));
    else if (errno == EINVAL && stat(path, &st) == 0 && S_ISDIR(st.st_mode))
        snprintf(why, why_size, "%s is a directory: name one of the recordings in it", path);
    else if (errno == EINVAL)
        snprintf(why, why_size, "%s is no regular file: " GIVE, path);
    else
        snprintf(why, why_size, "%s can't be opened: %s: copy it to where you may read it", path,
                 strerror(errno));
}

void absent_files(char *why, size_t why_size, const char *path)
{
    size_t n = strlen(path);
    n -= n > 1 && path[n - 1] == '/';
    if (errno)
        snprintf(why, why_size, "%s: this directory can't be read: %s: copy it to where you may read it",
                 path, strerror(errno));
    else
        snprintf(why, why_size,
                 "%s: no database (*.db) in this directory: vramscope run -o %.*s/ -- python train.py puts "
                 "one there",
                 path, (int)n, path);
}

/* The first bytes, and the size in *ST; how many there are, or -1 with t->why. */
static ssize_t read_head(struct trace *t, unsigned char head[HEAD], struct stat *st)
{
    int fd = guard_open(t->file);
    ssize_t n = fd < 0 ? -1 : fstat(fd, st) == 0 ? pread(fd, head, HEAD, 0) : -1;
    if (n < 0)
        absent_file(t->why, sizeof t->why, t->path);
    if (fd >= 0)
        close(fd);
    return n;
}

/* What the file is instead of a database, and what to do. A pickle begins with its protocol; whether it is
 * one of PyTorch's snapshots only the import can tell. */
static void explain_foreign(struct trace *t, const unsigned char *head, ssize_t n)
{
    if (n >= 2 && head[0] == 0x80 && head[1] >= 2 && head[1] <= 5)
        snprintf(t->why, sizeof t->why,
                 "%s is a pickle: if PyTorch's _dump_snapshot wrote it, vramscope import -o run.db %s",
                 t->path, t->path);
    else
        snprintf(t->why, sizeof t->why, "%s is not a database: " GIVE, t->path);
}

/* Reads the head of the file: 1 = empty, 0 = looks like a database, -1 = t->why. */
int trace_inspect(struct trace *t)
{
    unsigned char head[HEAD];
    struct stat st;
    ssize_t n = read_head(t, head, &st);
    if (n < 0 || has_strange_neighbour(t))
        return -1;
    if (st.st_size == 0)
        return 1;
    if (memcmp(head, "SQLite format 3", n < 16 ? (size_t)n : 16))
        explain_foreign(t, head, n);
    else if (n < HEAD || is_truncated(head, st.st_size, t->file))
        snprintf(t->why, sizeof t->why,
                 "%s is truncated: its end is missing: copy it again, or record again with vramscope run",
                 t->path);
    else
        return 0;
    return -1;
}

/* ---- what the file defines ---- */

/* What sqlite_master says of one table, view or index; SQL is "" where it has none. */
struct defined {
    char *type, *name, *table, *sql;
};

/* This program's own schema: names of tables and of views for an IN (...), the views, and all that it
 * defines, in its order. */
static struct {
    char *tables, *view_names, *views;
    struct defined *all;
    size_t count;
} schema;

static int add_name(void *list, int n, char **row, char **names)
{
    char **text = list, *more = xformat("%s%s'%s'", *text ? *text : "", *text ? ", " : "", row[0]);
    free(*text);
    *text = more;
    return 0;
}

static int add_view(void *unused, int n, char **row, char **names)
{
    char *more = xformat("%sCREATE TEMP%s;", schema.views ? schema.views : "", row[0] + strlen("CREATE"));
    free(schema.views);
    schema.views = more;
    return 0;
}

static int add_defined(void *unused, int n, char **row, char **names)
{
    *PUSH(schema.all, schema.count) =
        (struct defined){xstrdup(row[0]), xstrdup(row[1]), xstrdup(row[2]), xstrdup(row[3] ? row[3] : "")};
    return 0;
}

#define DEFINED "SELECT type, name, tbl_name, sql, rootpage FROM main.sqlite_master ORDER BY rowid"

static bool know_schema(void)
{
    sqlite3 *db = NULL;
    if (schema.views)
        return true;
    if (sqlite3_open_v2(":memory:", &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, NULL) == SQLITE_OK &&
        sqlite3_exec(db, vs_schema_sql, NULL, NULL, NULL) == SQLITE_OK) {
        sqlite3_exec(db, "SELECT name FROM sqlite_master WHERE type = 'table'", add_name, &schema.tables,
                     NULL);
        sqlite3_exec(db, "SELECT name FROM sqlite_master WHERE type = 'view'", add_name, &schema.view_names,
                     NULL);
        sqlite3_exec(db, "SELECT sql FROM sqlite_master WHERE type = 'view'", add_view, NULL, NULL);
        sqlite3_exec(db, DEFINED, add_defined, NULL, NULL);
    }
    sqlite3_close(db);
    return schema.views != NULL;
}

static bool is_text(struct sqlite3_stmt *s, int column, const char *wanted)
{
    const char *text = (const char *)sqlite3_column_text(s, column);
    return strcmp(text ? text : "", wanted) == 0;
}

/* Whether the file defines what this program's schema does, word by word and nothing else, with a page for
 * each table.  Then check_tables has nothing to find, and is left out: it takes a fifth of all that the page
 * of a job asks of a file. */
static bool defines_the_same(const struct trace *t)
{
    struct sqlite3_stmt *s = NULL;
    size_t n = 0;
    int code = sqlite3_prepare_v2(t->db, DEFINED, -1, &s, NULL);
    while (code == SQLITE_OK && (code = sqlite3_step(s)) == SQLITE_ROW) {
        const struct defined *d = &schema.all[n];
        bool same = n++ < schema.count && is_text(s, 0, d->type) && is_text(s, 1, d->name) &&
                    is_text(s, 2, d->table) && is_text(s, 3, d->sql) &&
                    (strcmp(d->type, "table") != 0 || sqlite3_column_int64(s, 4) > 0);
        code = same ? SQLITE_OK : SQLITE_ABORT;
    }
    sqlite3_finalize(s);
    return code == SQLITE_DONE && n == schema.count;
}

/* Rejects tables that are something else: a view (perhaps an endless one), a virtual table, computed
 * columns; and what has the name of a view and is none. */
static int check_tables(struct trace *t)
{
    char *sql =
        xformat("SELECT name FROM main.sqlite_master WHERE name IN (%s) AND (type <> 'table' OR "
                "rootpage IS NULL OR rootpage < 1) UNION ALL SELECT m.name FROM main.sqlite_master m, "
                "pragma_table_xinfo(m.name, 'main') x WHERE m.type = 'table' AND m.rootpage > 0 AND "
                "m.name IN (%s) AND x.hidden UNION ALL SELECT name FROM main.sqlite_master WHERE "
                "name COLLATE NOCASE IN (%s) AND type <> 'view' LIMIT 1",
                schema.tables, schema.tables, schema.view_names);
    struct sqlite3_stmt *s = trace_sql(t, sql, 0);
    const char *name = trace_sql_row(s) ? trace_sql_text(t, s, 0) : NULL;
    free(sql);
    if (trace_sql_done(t, s))
        return -1;
    if (name)
        snprintf(t->why, sizeof t->why,
                 "%s is a database, but none that vramscope wrote, as %s is not its table: " GIVE, t->path,
                 name);
    return name ? -1 : 0;
}

/* Tables that came later than some files: there they are without rows. */
static int stand_in(struct trace *t)
{
    if (trace_sql_one(t, "SELECT count(*) FROM main.sqlite_master WHERE name = 'away_block'", 0) != 0)
        return 0;
    return trace_sql_run(
        t,
        "CREATE TEMP TABLE away(seq INTEGER PRIMARY KEY, t_ns INT, device INT, "
        "away_bytes INT);"
        "CREATE TEMP TABLE away_block(seq INTEGER PRIMARY KEY, t_ns INT, device INT, "
        "alloc_seq INT, away_bytes INT, why TEXT, out_bytes INT, back_bytes INT, times INT, waited_ns INT)");
}

/* This program's own views over the file's tables are temporary views, which SQLite finds before the file's.
 * To make them takes twice the time of all that the page of a job asks of a file, which needs none: so there
 * they are made for the first query that cannot do without (t->brief).  Until then such a query fails,
 * because the views of the file itself are forbidden (guard_connection).  They cannot be made while another
 * query runs, so that everybody else has them from the start. */
bool trace_own_views(struct trace *t)
{
    if (t->own_views)
        return false;
    t->own_views = true;
    return sqlite3_exec(t->db, schema.views, NULL, NULL, NULL) == SQLITE_OK;
}

static int check_file(struct trace *t)
{
    t->own_views = false;
    if (!know_schema())
        snprintf(t->why, sizeof t->why, "out of memory");
    else if (defines_the_same(t) || (check_tables(t) == 0 && stand_in(t) == 0))
        return (t->brief && sqlite3_libversion_number() >= 3035000) || trace_own_views(t)
                   ? 0
                   : trace_sql_error(t);
    return -1;
}

/* ---- the connection ---- */

static int open_with(struct trace *t, const char *name, int flags)
{
    int code = sqlite3_open_v2(name, &t->db, SQLITE_OPEN_READONLY | flags, NULL);
    if (code != SQLITE_OK)
        return code;
    guard_connection(t->db);
    guard_steps(t->db, &t->steps_left);
    sqlite3_busy_timeout(t->db, 5000);
    return sqlite3_exec(t->db, "SELECT count(*) FROM sqlite_master", NULL, NULL, NULL);
}

int trace_connect(struct trace *t)
{
    t->steps_left = guard_budget(t->file);
    int code = open_with(t, t->file, 0);
    if (code == SQLITE_CANTOPEN || code == SQLITE_READONLY || code == SQLITE_READONLY_CANTINIT) {
        /* a WAL file in a directory where we can't write: no process writes it, so it may be read as it is */
        sqlite3_close(t->db);
        char *uri = sqlite3_mprintf("file:%s?immutable=1", t->file);
        code = open_with(t, uri, SQLITE_OPEN_URI);
        sqlite3_free(uri);
    }
    return code == SQLITE_OK ? check_file(t) : trace_sql_error(t);
}

void trace_disconnect(struct trace *t)
{
    sqlite3_close(t->db);
    t->db = NULL;
}

int trace_check_schema(struct trace *t)
{
    int64_t tables = trace_sql_one(
        t, "SELECT count(*) FROM sqlite_master WHERE name IN ('meta','ev','phase_stat','zone')", 0);
    int64_t version =
        tables == 4 ? trace_sql_one(t, "SELECT value FROM meta WHERE key = 'schema_version'", 0) : UNKNOWN;
    if (tables == UNKNOWN)
        return trace_sql_error(t);
    if (version == UNKNOWN)
        snprintf(t->why, sizeof t->why, "%s is a database, but none that vramscope wrote: " GIVE, t->path);
    else if (version > VS_SCHEMA_VERSION)
        snprintf(t->why, sizeof t->why,
                 "%s was made by a newer vramscope (schema %lld), this one reads %d: install one as new here",
                 t->path, (long long)version, VS_SCHEMA_VERSION);
    else if (version < VS_SCHEMA_VERSION)
        snprintf(t->why, sizeof t->why,
                 "%s was made by a vramscope older than any release (schema %lld), this one reads %d: record "
                 "again with vramscope run",
                 t->path, (long long)version, VS_SCHEMA_VERSION);
    else
        return 0;
    return -1;
}

/* A process that is killed in its first milliseconds leaves a database without tables.  Everything that it
 * recorded is in its journal, as with an empty file.  A copy of the file without the journal is then
 * reported as empty. */
bool trace_has_no_tables(struct trace *t)
{
    if (trace_sql_one(t, "SELECT count(*) FROM sqlite_master", 0) != 0)
        return false;
    trace_disconnect(t);
    return true;
}
