/*
 * symbols.c - see symbols.h.  Names are looked up without touching the database; the store writes them
 * (trace/store/files.h).
 */
#include "symbols.h"

#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/base.h"
#include "guard.h"
#include "trace/store/files.h"

struct module {
    int64_t id;
    char *path, *build_id;
    struct name_query *queries;
    size_t count;
};

static char *column_copy(sqlite3_stmt *row, int column)
{
    const char *text = (const char *)sqlite3_column_text(row, column);
    return text ? xstrdup(text) : NULL;
}

static sqlite3_int64 one_number(sqlite3 *db, const char *sql, sqlite3_int64 otherwise)
{
    sqlite3_stmt *row = NULL;
    sqlite3_int64 value = otherwise;
    if (sqlite3_prepare_v2(db, sql, -1, &row, NULL) == SQLITE_OK && sqlite3_step(row) == SQLITE_ROW)
        value = sqlite3_column_int64(row, 0);
    sqlite3_finalize(row);
    return value;
}

/* A recording that still runs has the journal's path in meta. */
static bool still_recording(sqlite3 *db)
{
    sqlite3_stmt *row = NULL;
    bool running = false;
    if (sqlite3_prepare_v2(db, "SELECT value FROM meta WHERE key = 'journal'", -1, &row, NULL) == SQLITE_OK &&
        sqlite3_step(row) == SQLITE_ROW) {
        const char *path = (const char *)sqlite3_column_text(row, 0);
        running = path && access(path, F_OK) == 0;
    }
    sqlite3_finalize(row);
    return running;
}

static int read_modules(sqlite3 *db, struct module **modules, size_t *n)
{
    sqlite3_stmt *row;
    const char *sql = "SELECT id, path, build_id FROM module WHERE path LIKE '/%' AND id IN "
                      "(SELECT module FROM frame WHERE function IS NULL)";
    if (sqlite3_prepare_v2(db, sql, -1, &row, NULL) != SQLITE_OK)
        return -1;
    while (sqlite3_step(row) == SQLITE_ROW)
        *PUSH(*modules, *n) = (struct module){
            .id = sqlite3_column_int64(row, 0), .path = column_copy(row, 1), .build_id = column_copy(row, 2)};
    return sqlite3_finalize(row) == SQLITE_OK ? 0 : -1;
}

static void read_queries(sqlite3 *db, struct module *m)
{
    sqlite3_stmt *row;
    const char *sql =
        "SELECT id, offset FROM frame WHERE module = ?1 AND function IS NULL AND offset IS NOT NULL";
    if (sqlite3_prepare_v2(db, sql, -1, &row, NULL) != SQLITE_OK)
        return;
    sqlite3_bind_int64(row, 1, m->id);
    while (sqlite3_step(row) == SQLITE_ROW)
        *PUSH(m->queries, m->count) = (struct name_query){.frame = sqlite3_column_int64(row, 0),
                                                          .offset = (uint64_t)sqlite3_column_int64(row, 1)};
    sqlite3_finalize(row);
}

/* Passes the names to the store.  If time ran out (LATE) the rest is looked up next time. */
static int write_all(sqlite3 *db, const struct module *modules, size_t n, bool late)
{
    struct vs_frame_name *names = NULL;
    size_t count = 0;
    for (size_t m = 0; m < n; m++)
        for (size_t i = 0; i < modules[m].count; i++) {
            const struct name_query *q = &modules[m].queries[i];
            if (q->function || q->file)
                *PUSH(names, count) = (struct vs_frame_name){q->frame, q->function, q->file, q->line};
        }
    int named = vs_frames_name(db, names, count, !late);
    free(names);
    return named;
}

static void free_modules(struct module *modules, size_t n)
{
    for (size_t m = 0; m < n; m++) {
        for (size_t i = 0; i < modules[m].count; i++) {
            free(modules[m].queries[i].function);
            free(modules[m].queries[i].file);
        }
        free(modules[m].queries);
        free(modules[m].path);
        free(modules[m].build_id);
    }
    free(modules);
}

int vs_symbols_fill_db(sqlite3 *db, double seconds)
{
    int64_t deadline = elf_monotonic_ns() + (int64_t)(seconds * 1e9);
    struct module *modules = NULL;
    size_t n = 0;
    sqlite3_int64 frames = one_number(db, "SELECT count(id) FROM frame", -1);
    if (frames < 0)
        return -1;
    if (sqlite3_db_readonly(db, "main") == 1 || still_recording(db) ||
        one_number(db, "SELECT value FROM meta WHERE key = 'named_frames'", -1) == frames)
        return 0;
    int64_t started = one_number(db, "SELECT min(start_realtime_ns) FROM process", 0);
    int result = read_modules(db, &modules, &n);
    for (size_t m = 0; !result && m < n && elf_monotonic_ns() < deadline; m++) {
        read_queries(db, &modules[m]);
        elf_names(modules[m].path, modules[m].build_id, started, deadline, modules[m].queries,
                  modules[m].count);
    }
    if (!result && n)
        result = write_all(db, modules, n, elf_monotonic_ns() >= deadline);
    free_modules(modules, n);
    return result;
}

int vs_symbols_fill(const char *path, char *why, size_t why_size)
{
    sqlite3 *db = NULL;
    struct stat st;
    if (stat(path, &st) == 0 && st.st_uid != geteuid())
        return 0; /* files of another user are not written to */
    int64_t steps = guard_budget(path);
    int named = 0, rc = vs_frames_open(&db, path);
    if (rc == SQLITE_OK) {
        guard_connection(db);
        guard_steps(db, &steps);
        named = vs_symbols_fill_db(db, 10);
    }
    if (rc != SQLITE_OK || named < 0) {
        snprintf(why, why_size, "%s: %s", path, db ? sqlite3_errmsg(db) : "out of memory");
        named = -1;
    }
    sqlite3_close(db);
    return named;
}

const char *vs_sqlite_version(void)
{
    return sqlite3_libversion();
}
