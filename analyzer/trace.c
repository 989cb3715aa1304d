/*
 * trace.c - opening a database: what can be wrong with the file, completing it, and the small tables.
 *
 * Order matters: the file's first bytes are looked at before SQLite is, so that a truncated or foreign file
 * is named as such; the journal of a killed process is merged before anything is read.
 */
#include "trace.h"

#include <dirent.h>
#include <errno.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "leftover.h"
#include "trace_sql.h"

/* ---- SQL helpers (trace_sql.h) ---- */

int trace_sql_error(struct trace *t)
{
    int code = sqlite3_errcode(t->db);
    if (code == SQLITE_NOTADB || code == SQLITE_CORRUPT)
        snprintf(t->why, sizeof t->why, "%s is truncated or damaged: %s", t->path, sqlite3_errmsg(t->db));
    else if (code == SQLITE_BUSY)
        snprintf(t->why, sizeof t->why, "%s is locked by another program: try again", t->path);
    else
        snprintf(t->why, sizeof t->why, "%s can't be read: %s", t->path, sqlite3_errmsg(t->db));
    return -1;
}

struct sqlite3_stmt *trace_sql(struct trace *t, const char *sql, int bound, ...)
{
    struct sqlite3_stmt *s = NULL;
    va_list list;
    if (sqlite3_prepare_v2(t->db, sql, -1, &s, NULL) != SQLITE_OK) {
        trace_sql_error(t);
        return NULL;
    }
    va_start(list, bound);
    for (int i = 1; i <= bound; i++)
        sqlite3_bind_int64(s, i, va_arg(list, int64_t));
    va_end(list);
    return s;
}

int trace_sql_done(struct trace *t, struct sqlite3_stmt *s, int code)
{
    int result = code == SQLITE_DONE || code == SQLITE_ROW ? 0 : trace_sql_error(t);
    sqlite3_finalize(s);
    return result;
}

#define MOST (INT64_C(1) << 61) /* beyond any bytes or nanoseconds, Unix time included */

int64_t trace_sql_int(struct sqlite3_stmt *s, int column)
{
    int64_t value = sqlite3_column_int64(s, column);
    bool known = sqlite3_column_type(s, column) != SQLITE_NULL && value < MOST && value > -MOST;
    return known ? value : UNKNOWN;
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

int64_t trace_sql_one(struct trace *t, const char *sql)
{
    struct sqlite3_stmt *s = trace_sql(t, sql, 0);
    int64_t value = s && sqlite3_step(s) == SQLITE_ROW ? trace_sql_int(s, 0) : UNKNOWN;
    sqlite3_finalize(s);
    return value;
}

/* ---- what the file is ---- */

static uint32_t big_endian(const unsigned char *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

/* The first 100 bytes say page size and page count (SQLite's file format): a file that is shorter lost its
 * end. */
static bool is_truncated(const unsigned char *head, off_t size, const char *path)
{
    uint32_t page = (uint32_t)head[16] << 8 | head[17];
    uint64_t whole = (uint64_t)(page == 1 ? 65536 : page) * big_endian(head + 28);
    char *wal = xformat("%s-wal", path); /* pages may still stand there */
    bool truncated = (uint64_t)size < whole && access(wal, F_OK);
    free(wal);
    return truncated;
}

/* Reads the head of the file: 1 = empty, 0 = looks like a database, -1 = t->why. */
static int inspect(struct trace *t)
{
    unsigned char head[100];
    struct stat st;
    FILE *f = fopen(t->path, "rb");
    if (!f || fstat(fileno(f), &st)) {
        snprintf(t->why, sizeof t->why, "%s can't be opened: %s", t->path, strerror(errno));
        if (f)
            fclose(f);
        return -1;
    }
    size_t n = S_ISREG(st.st_mode) ? fread(head, 1, sizeof head, f) : 0;
    fclose(f);
    if (!S_ISREG(st.st_mode))
        snprintf(t->why, sizeof t->why, "%s is no regular file: give a database that vramscope wrote",
                 t->path);
    else if (st.st_size == 0)
        return 1;
    else if (memcmp(head, "SQLite format 3", n < 16 ? n : 16))
        snprintf(t->why, sizeof t->why, "%s is not a database: give a file that vramscope wrote", t->path);
    else if (n < sizeof head || is_truncated(head, st.st_size, t->path))
        snprintf(t->why, sizeof t->why, "%s is truncated: its end is missing, copy it again", t->path);
    else
        return 0;
    return -1;
}

static int connect_database(struct trace *t)
{
    if (sqlite3_open_v2(t->path, &t->db, SQLITE_OPEN_READONLY, NULL) != SQLITE_OK)
        return trace_sql_error(t);
    sqlite3_busy_timeout(t->db, 5000);
    int code = sqlite3_exec(t->db, "SELECT count(*) FROM sqlite_master", NULL, NULL, NULL);
    if (code == SQLITE_CANTOPEN || code == SQLITE_READONLY || code == SQLITE_READONLY_CANTINIT) {
        /* a WAL file in a directory where we can't write: nobody writes it, so it may be read as it lies */
        sqlite3_close(t->db);
        char *uri = sqlite3_mprintf("file:%s?immutable=1", t->path);
        code = sqlite3_open_v2(uri, &t->db, SQLITE_OPEN_READONLY | SQLITE_OPEN_URI, NULL);
        sqlite3_free(uri);
    }
    if (code != SQLITE_OK)
        return trace_sql_error(t);
    return 0;
}

static void disconnect(struct trace *t)
{
    sqlite3_close(t->db);
    t->db = NULL;
}

static int check_schema(struct trace *t)
{
    int64_t tables = trace_sql_one(
        t, "SELECT count(*) FROM sqlite_master WHERE name IN ('meta','ev','phase_stat','zone')");
    int64_t version =
        tables == 4 ? trace_sql_one(t, "SELECT value FROM meta WHERE key = 'schema_version'") : UNKNOWN;
    if (tables == UNKNOWN)
        return trace_sql_error(t);
    if (version == UNKNOWN)
        snprintf(t->why, sizeof t->why, "%s is a database, but none that vramscope wrote", t->path);
    else if (version > TRACE_SCHEMA)
        snprintf(t->why, sizeof t->why,
                 "%s was made by a newer vramscope (schema %lld), this one reads %d: upgrade", t->path,
                 (long long)version, TRACE_SCHEMA);
    else if (version < TRACE_SCHEMA)
        snprintf(t->why, sizeof t->why,
                 "%s was made by a vramscope older than any release (schema %lld), this one reads %d: record "
                 "the run again",
                 t->path, (long long)version, TRACE_SCHEMA);
    else
        return 0;
    return -1;
}

/* ---- completing ---- */

/* The journal that meta names while the process runs, or, in an empty file, one found by looking. */
static char *journal_of(struct trace *t, bool empty)
{
    if (empty)
        return leftover_find(t->path);
    struct sqlite3_stmt *s = trace_sql(t, "SELECT value FROM meta WHERE key = 'journal' AND value <> ''", 0);
    char *journal = NULL;
    if (s && sqlite3_step(s) == SQLITE_ROW)
        journal = xstrdup((const char *)sqlite3_column_text(s, 0));
    sqlite3_finalize(s);
    if (journal && access(journal, F_OK)) {
        free(journal);
        journal = NULL;
    }
    return journal;
}

static int complete(struct trace *t, bool empty)
{
    char *journal = journal_of(t, empty);
    enum leftover_state state = LEFTOVER_NONE;
    if (journal) {
        if (!empty)
            disconnect(t);
        state = leftover_merge(journal, t->path, &t->recovered, t->why, sizeof t->why);
        free(journal);
    }
    t->running = state == LEFTOVER_RUNNING;
    if (state == LEFTOVER_FAILED)
        complain("%s; what is in the file is shown, its end is missing", t->why);
    if (empty && state != LEFTOVER_RECOVERED) {
        snprintf(t->why, sizeof t->why,
                 state == LEFTOVER_RUNNING ? "%s is still empty: its process has just begun, try again"
                                           : "%s is empty: nothing was recorded into it",
                 t->path);
        return -1;
    }
    return t->db ? 0 : connect_database(t);
}

/* ---- the small tables ---- */

static int load_process(struct trace *t)
{
    struct sqlite3_stmt *s = trace_sql(t,
                                       "SELECT id, pid, rank, local_rank, world_size, start_realtime_ns, "
                                       "end_ns, host, command, simulated FROM process ORDER BY id LIMIT 1",
                                       0);
    struct trace_process *p = &t->process;
    *p = (struct trace_process){1, UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN, NULL, NULL, false};
    int code = s ? sqlite3_step(s) : SQLITE_ERROR;
    if (code == SQLITE_ROW) {
        int64_t *fields[] = {
            &p->id, &p->pid, &p->rank, &p->local_rank, &p->world_size, &p->start_realtime_ns, &p->end_ns};
        for (int i = 0; i < 7; i++)
            *fields[i] = trace_sql_int(s, i);
        p->host = trace_sql_text(t, s, 7);
        p->command = trace_sql_text(t, s, 8);
        p->simulated = sqlite3_column_int(s, 9) == 1;
    }
    return trace_sql_done(t, s, code);
}

static int load_devices(struct trace *t)
{
    struct sqlite3_stmt *s = trace_sql(
        t, "SELECT id, total_bytes, name, uuid FROM device WHERE process = ? ORDER BY id", 1, t->process.id);
    int code = SQLITE_ERROR;
    while (s && (code = sqlite3_step(s)) == SQLITE_ROW)
        *PUSH(t->devices, t->device_count) = (struct trace_device){
            trace_sql_int(s, 0), trace_sql_int(s, 1), trace_sql_text(t, s, 2), trace_sql_text(t, s, 3)};
    return trace_sql_done(t, s, code);
}

static int load_phases(struct trace *t)
{
    struct sqlite3_stmt *s = trace_sql(t,
                                       "SELECT p.device, p.ranges, p.ns, p.events, p.allocated_bytes, "
                                       "p.reserved_bytes, p.end_allocated_bytes, p.t_allocated_ns, n.name "
                                       "FROM phase_stat p LEFT JOIN phase n ON n.id = p.phase WHERE "
                                       "p.process = ? ORDER BY p.device, p.phase",
                                       1, t->process.id);
    int code = SQLITE_ERROR;
    while (s && (code = sqlite3_step(s)) == SQLITE_ROW) {
        struct trace_phase *p = PUSH(t->phases, t->phase_count);
        int64_t *fields[] = {&p->device,   &p->ranges,        &p->ns,         &p->events, &p->allocated,
                             &p->reserved, &p->end_allocated, &p->t_allocated};
        for (int i = 0; i < 8; i++)
            *fields[i] = trace_sql_int(s, i);
        p->name = trace_sql_text(t, s, 8);
    }
    return trace_sql_done(t, s, code);
}

static int load_peaks(struct trace *t)
{
    struct sqlite3_stmt *s = trace_sql(
        t,
        "SELECT device, peak_bytes, seq, t_ns, end_bytes, kind FROM peak WHERE process = ? ORDER BY device",
        1, t->process.id);
    int code = SQLITE_ERROR;
    while (s && (code = sqlite3_step(s)) == SQLITE_ROW)
        *PUSH(t->peaks, t->peak_count) =
            (struct trace_peak){trace_sql_int(s, 0), trace_sql_amount(s, 1), trace_sql_int(s, 2),
                                trace_sql_int(s, 3), trace_sql_int(s, 4),    trace_sql_text(t, s, 5)};
    return trace_sql_done(t, s, code);
}

static enum trace_loss_kind loss_kind(const struct trace_loss *l)
{
    static const char gap[] = "not covered", residual[] = "not covered: what some calls take";
    if (l->events > 0)
        return LOSS_EVENTS;
    if (l->why && !strncmp(l->why, residual, sizeof residual - 1))
        return LOSS_RESIDUAL;
    return l->why && !strncmp(l->why, gap, sizeof gap - 1) ? LOSS_GAP : LOSS_NOTE;
}

static int load_losses(struct trace *t)
{
    struct sqlite3_stmt *s = trace_sql(t,
                                       "SELECT sum(events), count(*), min(t_ns), why FROM loss WHERE why NOT "
                                       "LIKE 'thinned, not lost%' GROUP BY why ORDER BY min(t_ns)",
                                       0);
    int code = SQLITE_ERROR;
    while (s && (code = sqlite3_step(s)) == SQLITE_ROW)
        *PUSH(t->losses, t->loss_count) = (struct trace_loss){.events = trace_sql_int(s, 0),
                                                              .rows = trace_sql_int(s, 1),
                                                              .t_first = trace_sql_int(s, 2),
                                                              .why = trace_sql_text(t, s, 3)};
    for (size_t i = 0; i < t->loss_count; i++)
        t->losses[i].kind = loss_kind(&t->losses[i]);
    return trace_sql_done(t, s, code);
}

static int load_mismatches(struct trace *t)
{
    struct sqlite3_stmt *s =
        trace_sql(t,
                  "SELECT count(*), min(t_ns), device, ours_bytes, theirs_bytes, what "
                  "FROM mismatch WHERE ours_bytes <> theirs_bytes GROUP BY what, device ORDER BY 2",
                  0);
    int code = SQLITE_ERROR;
    while (s && (code = sqlite3_step(s)) == SQLITE_ROW)
        *PUSH(t->mismatches, t->mismatch_count) =
            (struct trace_mismatch){trace_sql_int(s, 0), trace_sql_int(s, 1), trace_sql_int(s, 2),
                                    trace_sql_int(s, 3), trace_sql_int(s, 4), trace_sql_text(t, s, 5)};
    return trace_sql_done(t, s, code);
}

static int load_phase_names(struct trace *t)
{
    struct sqlite3_stmt *s =
        trace_sql(t, "SELECT id, name FROM phase WHERE id BETWEEN 0 AND 1000000 ORDER BY id", 0);
    int code = SQLITE_ERROR;
    while (s && (code = sqlite3_step(s)) == SQLITE_ROW) {
        while (t->phase_name_count <= (size_t)sqlite3_column_int64(s, 0))
            *PUSH(t->phase_names, t->phase_name_count) = NULL;
        t->phase_names[t->phase_name_count - 1] = trace_sql_text(t, s, 1);
    }
    return trace_sql_done(t, s, code);
}

/* A process on another host may still be running, or have been killed: what it has not written yet is in its
 * journal, and that is in its host's memory. */
static void load_elsewhere(struct trace *t)
{
    char here[256] = "";
    struct sqlite3_stmt *s;
    gethostname(here, sizeof here - 1);
    if (t->clean_end || t->running || t->recovered || !t->process.host || !strcmp(t->process.host, here))
        return;
    s = trace_sql(t, "SELECT value FROM meta WHERE key = 'journal' AND value <> ''", 0);
    if (s && sqlite3_step(s) == SQLITE_ROW)
        t->elsewhere = trace_sql_text(t, s, 0);
    sqlite3_finalize(s);
}

static int load_small(struct trace *t)
{
    struct sqlite3_stmt *s = trace_sql(t, "SELECT value FROM meta WHERE key = 'version'", 0);
    if (s && sqlite3_step(s) == SQLITE_ROW)
        t->version = trace_sql_text(t, s, 0);
    sqlite3_finalize(s);
    t->clean_end = trace_sql_one(t, "SELECT value FROM meta WHERE key = 'clean_end'") == 1;
    t->thinned = trace_sql_one(t, "SELECT value FROM meta WHERE key = 'thinned_from_seq'") != UNKNOWN;
    t->reports = trace_sql_one(t, "SELECT sum(value) FROM counter WHERE name = 'framework reports'");
    t->reports_mismatched =
        trace_sql_one(t, "SELECT sum(value) FROM counter WHERE name = 'framework reports in mismatch'");
    if (t->reports_mismatched == UNKNOWN && t->reports != UNKNOWN)
        t->reports_mismatched = 0; /* what never happened has no counter */
    t->steps = trace_sql_one(t, "SELECT count(*) FROM step");
    int64_t written = trace_sql_one(t, "SELECT max(seq) FROM ev");
    t->events = trace_sql_one(t, "SELECT upto_seq FROM mark");
    if (t->events == UNKNOWN || (written != UNKNOWN && written > t->events))
        t->events = written == UNKNOWN ? 0 : written;
    if (load_process(t) || load_devices(t) || load_phases(t) || load_peaks(t) || load_losses(t) ||
        load_mismatches(t) || load_phase_names(t))
        return -1;
    load_elsewhere(t);
    return trace_load_extent(t);
}

/* ---- open, close ---- */

static const char *name_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* A process killed in its first milliseconds leaves a database that has a head and no tables: all that it
 * recorded is in its journal, as with an empty file.  A copy without a journal is then called empty. */
static bool has_no_tables(struct trace *t)
{
    if (trace_sql_one(t, "SELECT count(*) FROM sqlite_master") != 0)
        return false;
    disconnect(t);
    return true;
}

static int open_steps(struct trace *t)
{
    int kind = inspect(t);
    if (kind < 0 || (kind == 0 && connect_database(t)))
        return -1;
    bool empty = kind == 1 || has_no_tables(t);
    if (!empty && check_schema(t))
        return -1;
    return complete(t, empty) || check_schema(t) || load_small(t) ? -1 : 0;
}

int trace_open(struct trace *t, const char *path)
{
    memset(t, 0, sizeof *t);
    t->path = xstrdup(path);
    t->label = name_of(t->path);
    if (open_steps(t) == 0)
        return 0;
    char why[sizeof t->why];
    memcpy(why, t->why, sizeof why);
    trace_close(t);
    memcpy(t->why, why, sizeof why);
    return -1;
}

void trace_close(struct trace *t)
{
    disconnect(t);
    for (size_t i = 0; i < t->text_count; i++)
        free(t->texts[i]);
    free(t->texts);
    free(t->devices);
    free(t->phases);
    free(t->peaks);
    free(t->losses);
    free(t->mismatches);
    free(t->ooms);
    free(t->phase_names);
    free(t->path);
    memset(t, 0, sizeof *t);
}

/* ---- several files ---- */

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static bool add_directory(const char *path, char ***files, size_t *n)
{
    size_t before = *n, path_length = strlen(path);
    const char *slash = path_length && path[path_length - 1] == '/' ? "" : "/";
    DIR *d = opendir(path);
    if (!d)
        return false;
    for (struct dirent *e; (e = readdir(d));) {
        size_t length = strlen(e->d_name);
        if (length > 3 && !strcmp(e->d_name + length - 3, ".db"))
            *PUSH(*files, *n) = xformat("%s%s%s", path, slash, e->d_name);
    }
    closedir(d);
    if (*n > before)
        qsort(*files + before, *n - before, sizeof **files, by_name);
    return *n > before;
}

char **trace_files(char *const *paths, size_t n, size_t *count, char *why, size_t why_size)
{
    char **files = NULL;
    *count = 0;
    for (size_t i = 0; i < n; i++) {
        struct stat st;
        bool good = stat(paths[i], &st) == 0;
        if (!good)
            snprintf(why, why_size, "%s: %s", paths[i], strerror(errno));
        else if (!S_ISDIR(st.st_mode))
            *PUSH(files, *count) = xstrdup(paths[i]);
        else if (!(good = add_directory(paths[i], &files, count)))
            snprintf(why, why_size, "%s: no database (*.db) in this directory", paths[i]);
        if (!good) {
            trace_free_files(files, *count);
            return NULL;
        }
    }
    return files;
}

const char *trace_label(char *const *files, size_t n, size_t i)
{
    for (size_t k = 0; k < n; k++)
        if (k != i && !strcmp(name_of(files[k]), name_of(files[i])))
            return files[i];
    return name_of(files[i]);
}

const char *trace_rank_label(struct trace *t, const char *label)
{
    if (t->process.rank == UNKNOWN)
        return label;
    return *PUSH(t->texts, t->text_count) = xformat("rank %lld, %s", (long long)t->process.rank, label);
}

void trace_free_files(char **files, size_t n)
{
    for (size_t i = 0; i < n; i++)
        free(files[i]);
    free(files);
}
