/*
 * symbols.c - see symbols.h.
 *
 * Reads all frames without a name, looks their names up without touching the database, and passes the names
 * to the store, which writes them (trace/store/frames.h).
 */
#include "symbols.h"

#include <sqlite3.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "elf_names.h"
#include "guard.h"
#include "trace/store/frames.h"

struct module {
    int64_t id;
    char *path, *build_id;
};

struct work {
    sqlite3 *db;
    int64_t deadline, started_ns;
    struct module *modules;
    size_t module_count;
    int named;
};

static char *column_copy(sqlite3_stmt *row, int column)
{
    const char *text = (const char *)sqlite3_column_text(row, column);
    return text ? strdup(text) : NULL;
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

static int read_modules(struct work *w)
{
    sqlite3_stmt *row;
    const char *sql = "SELECT id, path, build_id FROM module WHERE path LIKE '/%' AND id IN "
                      "(SELECT module FROM frame WHERE function IS NULL)";
    if (sqlite3_prepare_v2(w->db, sql, -1, &row, NULL) != SQLITE_OK)
        return -1;
    while (sqlite3_step(row) == SQLITE_ROW) {
        struct module *grown = realloc(w->modules, (w->module_count + 1) * sizeof *grown);
        if (!grown)
            break;
        w->modules = grown;
        grown[w->module_count++] =
            (struct module){sqlite3_column_int64(row, 0), column_copy(row, 1), column_copy(row, 2)};
    }
    return sqlite3_finalize(row) == SQLITE_OK ? 0 : -1;
}

static struct name_query *read_queries(struct work *w, int64_t module, size_t *count)
{
    sqlite3_stmt *row;
    struct name_query *queries = NULL;
    *count = 0;
    const char *sql =
        "SELECT id, offset FROM frame WHERE module = ?1 AND function IS NULL AND offset IS NOT NULL";
    if (sqlite3_prepare_v2(w->db, sql, -1, &row, NULL) != SQLITE_OK)
        return NULL;
    sqlite3_bind_int64(row, 1, module);
    while (sqlite3_step(row) == SQLITE_ROW) {
        if ((*count & (*count - 1)) == 0) {
            struct name_query *grown = realloc(queries, (*count ? *count * 2 : 1) * sizeof *grown);
            if (!grown)
                break;
            queries = grown;
        }
        queries[(*count)++] = (struct name_query){.frame = sqlite3_column_int64(row, 0),
                                                  .offset = (uint64_t)sqlite3_column_int64(row, 1)};
    }
    sqlite3_finalize(row);
    return queries;
}

/* Collects the names for the store.  If time ran out the rest is looked up next time. */
static void write_all(struct work *w, struct name_query *const *queries, const size_t *counts)
{
    bool late = elf_monotonic_ns() >= w->deadline;
    struct vs_frame_name *names = NULL;
    size_t n = 0, room = 0;
    for (size_t m = 0; m < w->module_count; m++)
        room += counts[m];
    if (!(names = malloc((room + 1) * sizeof *names)))
        return;
    for (size_t m = 0; m < w->module_count; m++)
        for (size_t i = 0; i < counts[m]; i++) {
            const struct name_query *q = &queries[m][i];
            if (q->function || q->file)
                names[n++] = (struct vs_frame_name){q->frame, q->function, q->file, q->line};
        }
    w->named = vs_frames_name(w->db, names, n, !late);
    free(names);
}

static void free_work(struct work *w, struct name_query **queries, size_t *counts)
{
    for (size_t m = 0; m < w->module_count; m++) {
        for (size_t i = 0; queries && i < counts[m]; i++) {
            free(queries[m][i].function);
            free(queries[m][i].file);
        }
        if (queries)
            free(queries[m]);
        free(w->modules[m].path);
        free(w->modules[m].build_id);
    }
    free(w->modules);
    free(queries);
    free(counts);
}

int vs_symbols_fill_db(sqlite3 *db, double seconds)
{
    struct work w = {.db = db, .deadline = elf_monotonic_ns() + (int64_t)(seconds * 1e9)};
    sqlite3_int64 frames = one_number(db, "SELECT count(id) FROM frame", -1);
    if (frames < 0)
        return -1;
    if (sqlite3_db_readonly(db, "main") == 1 || still_recording(db) ||
        one_number(db, "SELECT value FROM meta WHERE key = 'named_frames'", -1) == frames)
        return 0;
    w.started_ns = one_number(db, "SELECT min(start_realtime_ns) FROM process", 0);
    if (read_modules(&w) != 0) {
        free_work(&w, NULL, NULL);
        return -1;
    }
    struct name_query **queries = calloc(w.module_count + 1, sizeof *queries);
    size_t *counts = calloc(w.module_count + 1, sizeof *counts);
    for (size_t m = 0; queries && counts && m < w.module_count && elf_monotonic_ns() < w.deadline; m++) {
        queries[m] = read_queries(&w, w.modules[m].id, &counts[m]);
        elf_names(w.modules[m].path, w.modules[m].build_id, w.started_ns, w.deadline, queries[m], counts[m]);
    }
    if (queries && counts && w.module_count)
        write_all(&w, queries, counts);
    free_work(&w, queries, counts);
    return w.named;
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
