/*
 * trace.c - opens a database and reads its small tables.
 *
 * The order matters: the first bytes are checked before SQLite opens the file, which would not say that it
 * is truncated or foreign (file.c), and the journal of a killed process is merged before anything is read
 * (end.c).
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

#include "core/options.h"
#include "core/contracts.h"
#include "guard.h"
#include "sql.h"
#include "trace/database.h"
#include "trace/store/files.h"

/* (For the budget of guard_steps, SQLite executes count(*) in one step, however many rows there are.) */
#define STEPS_SQL "SELECT count(process) FROM step"

/* ---- the small tables ---- */

static int load_process(struct trace *t)
{
    struct sqlite3_stmt *s = trace_sql(t,
                                       "SELECT id, pid, rank, local_rank, world_size, start_realtime_ns, "
                                       "end_ns, host, command, simulated, (SELECT value FROM meta "
                                       "WHERE key = 'dry' AND process = id) FROM process ORDER BY id LIMIT 1",
                                       0);
    struct trace_process *p = &t->process;
    *p = (struct trace_process){1,       UNKNOWN, UNKNOWN, UNKNOWN,        UNKNOWN, UNKNOWN,
                                UNKNOWN, NULL,    NULL,    VS_DRIVER_REAL, NULL};
    if (trace_sql_row(s)) {
        int64_t *fields[] = {
            &p->id, &p->pid, &p->rank, &p->local_rank, &p->world_size, &p->start_realtime_ns, &p->end_ns};
        for (int i = 0; i < 7; i++)
            *fields[i] = trace_sql_int(s, i);
        p->host = trace_sql_text(t, s, 7);
        p->command = trace_sql_text(t, s, 8);
        int driver = sqlite3_column_int(s, 9);
        p->driver = driver == VS_DRIVER_SIMULATED || driver == VS_DRIVER_DRY ? (enum vs_driver)driver
                                                                             : VS_DRIVER_REAL;
        p->dry = trace_sql_text(t, s, 10);
    }
    return trace_sql_done(t, s);
}

/* A file whose limit nobody can read has none. */
static void limit_device(struct trace_device *d, const char *limit)
{
    uint64_t bytes[VS_LIMITED_DEVICES];
    if (!limit || d->id < 0 || d->id >= VS_LIMITED_DEVICES || vs_device_limits(limit, bytes))
        return;
    if (bytes[d->id] != 0 && (d->total_bytes == UNKNOWN || bytes[d->id] < (uint64_t)d->total_bytes))
        d->total_bytes = (int64_t)bytes[d->id];
}

static int load_devices(struct trace *t)
{
    struct sqlite3_stmt *s =
        trace_sql(t,
                  "SELECT id, total_bytes, name, uuid, (SELECT value FROM meta m WHERE m.key = 'limit' AND "
                  "m.process = d.process) FROM device d WHERE process = ? ORDER BY id",
                  1, t->process.id);
    while (trace_sql_row(s)) {
        int64_t bytes = trace_sql_int(s, 1);
        struct trace_device *d = PUSH(t->devices, t->device_count);
        *d = (struct trace_device){trace_sql_int(s, 0), bytes, bytes, trace_sql_text(t, s, 2),
                                   trace_sql_text(t, s, 3)};
        limit_device(d, trace_sql_text(t, s, 4));
    }
    return trace_sql_done(t, s);
}

static int load_phases(struct trace *t)
{
    struct sqlite3_stmt *s =
        trace_sql(t,
                  "SELECT p.device, p.ranges, p.ns + p.open_ns, p.events, p.allocated_bytes, "
                  "p.reserved_bytes, p.end_allocated_bytes, p.t_allocated_ns, n.name "
                  "FROM phase_stat p LEFT JOIN phase n ON n.id = p.phase WHERE "
                  "p.process = ? ORDER BY p.device, p.phase",
                  1, t->process.id);
    while (trace_sql_row(s)) {
        struct trace_phase *p = PUSH(t->phases, t->phase_count);
        int64_t *fields[] = {&p->device,   &p->ranges,        &p->ns,         &p->events, &p->allocated,
                             &p->reserved, &p->end_allocated, &p->t_allocated};
        for (int i = 0; i < 8; i++)
            *fields[i] = trace_sql_int(s, i);
        p->name = trace_sql_text(t, s, 8);
    }
    return trace_sql_done(t, s);
}

/* Whether there is a row of upper_bound for the peak P at WHEN; a kind of memory shares the bound of its
 * total. */
#define BOUND(when)                                                                                          \
    "EXISTS (SELECT 1 FROM upper_bound b WHERE b.device = p.device AND b.kind = CASE WHEN p.kind IN "        \
    "('reserved', 'managed_reserved') THEN 'reserved' ELSE 'allocated' END AND " when ")"
#define AT_PEAK "b.from_seq <= p.seq AND (b.to_seq IS NULL OR b.to_seq > p.seq)"
#define AT_END  "b.to_seq IS NULL"

static int load_peaks(struct trace *t)
{
    static const char sql[] =
        "SELECT device, ifnull(peak_bytes, known_bytes), seq, t_ns, end_bytes, kind, " BOUND(
            AT_PEAK) ", " BOUND(AT_END) ", peak_bytes IS NULL FROM peak p WHERE process = ? ORDER BY device";
    struct sqlite3_stmt *s = trace_sql(t, sql, 1, t->process.id);
    while (trace_sql_row(s))
        *PUSH(t->peaks, t->peak_count) =
            (struct trace_peak){trace_sql_int(s, 0),      trace_sql_amount(s, 1),   trace_sql_int(s, 2),
                                trace_sql_int(s, 3),      trace_sql_int(s, 4),      trace_sql_text(t, s, 5),
                                trace_sql_int(s, 6) == 1, trace_sql_int(s, 7) == 1, trace_sql_int(s, 8) == 1};
    return trace_sql_done(t, s);
}

/* Finds the kind by its code, never by its text; a code that this version does not know is a note. */
static enum trace_loss_kind loss_kind(const struct trace_loss *l)
{
    if (l->events > 0)
        return LOSS_EVENTS;
    return l->code && (!strcmp(l->code, vs_loss_code(VS_LOSS_NOT_COVERED)) ||
                       !strcmp(l->code, vs_loss_code(VS_LOSS_JOURNAL_CUT)))
               ? LOSS_GAP
               : LOSS_NOTE;
}

static int load_bounds(struct trace *t)
{
    struct sqlite3_stmt *s = trace_sql(
        t,
        "SELECT device, count(*), min(t_from_ns), CASE WHEN count(to_seq) = count(*) THEN max(t_to_ns) END,"
        " kind FROM upper_bound WHERE device >= 0 OR kind = 'allocated' GROUP BY device, kind",
        0);
    while (trace_sql_row(s))
        *PUSH(t->bounds, t->bound_count) =
            (struct trace_bound){trace_sql_int(s, 0), trace_sql_int(s, 1), trace_sql_int(s, 2),
                                 trace_sql_int(s, 3), trace_sql_text(t, s, 4)};
    return trace_sql_done(t, s);
}

static int load_losses(struct trace *t)
{
    struct sqlite3_stmt *s = trace_sql(
        t,
        "SELECT sum(events), count(*), min(t_ns), why, code, NULL FROM loss WHERE code IS NOT 'thinned' "
        "GROUP BY code, why UNION ALL SELECT 0, 1, 0, substr(value, 9), '" VS_CONTRACT_CODE
        "', substr(key, 10) FROM meta WHERE process = ? AND key BETWEEN 'contract.' AND 'contract.~' AND "
        "substr(value, 1, 8) = 'broken: ' ORDER BY 3",
        1, t->process.id);
    while (trace_sql_row(s))
        *PUSH(t->losses, t->loss_count) = (struct trace_loss){.events = trace_sql_int(s, 0),
                                                              .rows = trace_sql_int(s, 1),
                                                              .t_first = trace_sql_int(s, 2),
                                                              .why = trace_sql_text(t, s, 3),
                                                              .code = trace_sql_text(t, s, 4),
                                                              .contract = trace_sql_text(t, s, 5)};
    for (size_t i = 0; i < t->loss_count; i++)
        t->losses[i].kind = loss_kind(&t->losses[i]);
    return trace_sql_done(t, s);
}

int64_t trace_proven(struct trace *t)
{
    return trace_sql_one(t,
                         "SELECT count(*) FROM meta WHERE key BETWEEN 'contract.' AND 'contract.~' AND "
                         "substr(value, 1, 8) = 'proven: '",
                         0);
}

const char *trace_unproven(const struct trace *t, const char *part)
{
    for (size_t i = 0; i < t->loss_count; i++)
        for (unsigned c = 0; t->losses[i].contract && c < VS_CONTRACTS; c++)
            if (strstr(vs_contract_rows[c].part, part) &&
                !strcmp(vs_contract_rows[c].name, t->losses[i].contract))
                return t->losses[i].why;
    return NULL;
}

static int load_mismatches(struct trace *t)
{
    struct sqlite3_stmt *s =
        trace_sql(t,
                  "SELECT count(*), min(t_ns), device, ours_bytes, theirs_bytes, what "
                  "FROM mismatch WHERE ours_bytes <> theirs_bytes GROUP BY what, device ORDER BY 2",
                  0);
    while (trace_sql_row(s))
        *PUSH(t->mismatches, t->mismatch_count) =
            (struct trace_mismatch){trace_sql_int(s, 0), trace_sql_int(s, 1), trace_sql_int(s, 2),
                                    trace_sql_int(s, 3), trace_sql_int(s, 4), trace_sql_text(t, s, 5)};
    return trace_sql_done(t, s);
}

static int load_phase_names(struct trace *t)
{
    struct sqlite3_stmt *s =
        trace_sql(t, "SELECT id, name FROM phase WHERE id BETWEEN 0 AND 1000000 ORDER BY id", 0);
    while (trace_sql_row(s)) {
        while (t->phase_name_count <= (size_t)sqlite3_column_int64(s, 0))
            *PUSH(t->phase_names, t->phase_name_count) = NULL;
        t->phase_names[t->phase_name_count - 1] = trace_sql_text(t, s, 1);
    }
    return trace_sql_done(t, s);
}

static int load_small(struct trace *t)
{
    struct sqlite3_stmt *s = trace_sql(t, "SELECT value FROM meta WHERE key = 'version'", 0);
    if (trace_sql_row(s))
        t->version = trace_sql_text(t, s, 0);
    sqlite3_finalize(s);
    t->reports = trace_sql_one(t, "SELECT sum(value) FROM counter WHERE name = 'framework_reports'", 0);
    t->reports_mismatched =
        trace_sql_one(t, "SELECT sum(value) FROM counter WHERE name = 'framework_reports_in_mismatch'", 0);
    if (t->reports_mismatched == UNKNOWN && t->reports != UNKNOWN)
        t->reports_mismatched = 0; /* a missing counter means 0 */
    t->steps = trace_sql_one(t, STEPS_SQL, 0);
    trace_load_folded(t);
    t->uncalled_classes =
        trace_sql_one(t,
                      "SELECT CAST(substr(s.text, 25) AS INT) FROM moment m JOIN string s ON s.id = m.name "
                      "WHERE m.source = 3 AND s.text GLOB 'output_layer_not_called [0-9]*' LIMIT 1",
                      0);
    int64_t written = trace_sql_one(t, "SELECT max(seq) FROM ev", 0);
    t->events = trace_sql_one(t, "SELECT upto_seq FROM mark", 0);
    t->events -= t->events == UNKNOWN ? 0 : t->before;
    written -= written == UNKNOWN ? 0 : t->before;
    if (t->events == UNKNOWN || (written != UNKNOWN && written > t->events))
        t->events = written == UNKNOWN ? 0 : written;
    if (load_process(t) || trace_load_labels(t) || load_devices(t) || load_phases(t) || load_peaks(t) ||
        load_bounds(t) || load_losses(t) || load_mismatches(t) || load_phase_names(t))
        return -1;
    t->unfinished_step = trace_unfinished_step(t);
    return trace_load_extent(t);
}

/* What was read on demand. */
static void forget(struct trace *t)
{
    if (t->forget_tapes)
        t->forget_tapes(t);
}

int trace_reload(struct trace *t)
{
    forget(t);
    t->phase_count = t->phase_name_count = 0;
    free(t->phases);
    free(t->phase_names);
    t->phases = NULL;
    t->phase_names = NULL;
    t->steps = trace_sql_one(t, STEPS_SQL, 0);
    return load_phases(t) || load_phase_names(t) ? -1 : 0;
}

/* ---- open, close ---- */

static const char *name_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static int open_steps(struct trace *t)
{
    int kind = trace_inspect(t);
    if (kind < 0 || (kind == 0 && trace_connect(t)))
        return -1;
    bool empty = kind == 1 || trace_has_no_tables(t);
    if (!empty && (trace_check_schema(t) || trace_select(t)))
        return -1;
    if (trace_complete(t, empty) || load_small(t))
        return -1;
    return t->steps_left < 0 ? trace_sql_endless(t)
                             : 0; /* single numbers that could not be read are "unknown" */
}

int trace_open(struct trace *t, const char *path)
{
    return trace_open_process(t, path, 0);
}

static int open_process(struct trace *t, const char *path, int64_t process, bool brief)
{
    int64_t named;
    memset(t, 0, sizeof *t);
    t->brief = brief;
    t->find_roles = brief ? NULL : trace_find_roles;
    t->file = trace_file(path, &named);
    t->wanted_process = process ? process : named;
    t->only_device = UNKNOWN;
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

int trace_open_process(struct trace *t, const char *path, int64_t process)
{
    return open_process(t, path, process, false);
}

int trace_open_brief(struct trace *t, const char *path, int64_t process)
{
    return open_process(t, path, process, true);
}

void trace_close(struct trace *t)
{
    forget(t);
    trace_disconnect(t);
    free(t->process_names);
    for (size_t i = 0; i < t->text_count; i++)
        free(t->texts[i]);
    free(t->texts);
    free(t->labels);
    free(t->devices);
    free(t->phases);
    free(t->peaks);
    free(t->bounds);
    free(t->losses);
    free(t->mismatches);
    free(t->ooms);
    free(t->phase_names);
    free(t->end_line);
    free(t->journal);
    free(t->path);
    free(t->file);
    memset(t, 0, sizeof *t);
}

char *trace_file(const char *name, int64_t *process)
{
    struct stat st;
    const char *sign = strrchr(name, '#');
    char *file = xstrdup(name), *end = NULL;
    long long n = sign && sign[1] >= '1' && sign[1] <= '9' ? strtoll(sign + 1, &end, 10) : 0;
    if (process)
        *process = 0;
    if (n <= 0 || *end || stat(name, &st) == 0)
        return file;
    file[sign - name] = '\0';
    if (stat(file, &st) != 0) {
        file[sign - name] = '#';
        return file;
    }
    if (process)
        *process = n;
    return file;
}

/* ---- several files ---- */

/* Whether `vramscope merge` made FILE, by the first bytes of SQLite's format. */
bool trace_is_merged(const char *file)
{
    unsigned char head[64];
    static const unsigned char sign[] = {VS_MERGED >> 24 & 255, VS_MERGED >> 16 & 255, VS_MERGED >> 8 & 255,
                                         VS_MERGED & 255};
    int fd = guard_open(file);
    ssize_t n = fd < 0 ? -1 : pread(fd, head, sizeof head, 0);
    if (fd >= 0)
        close(fd);
    return n == (ssize_t)sizeof head && !memcmp(head, "SQLite format 3", 16) && !memcmp(head + 60, sign, 4);
}

static int add_processes(char ***files, size_t *n, const char *file, char *why, size_t why_size)
{
    struct trace t;
    int64_t *ids = NULL;
    size_t count = 0;
    if (trace_open(&t, file)) {
        snprintf(why, why_size, "%s", t.why);
        return -1;
    }
    int result = trace_process_ids(&t, &ids, &count);
    if (result)
        snprintf(why, why_size, "%s", t.why);
    for (size_t i = 0; !result && i < count; i++)
        *PUSH(*files, *n) = xformat("%s#%lld", file, (long long)ids[i]);
    free(ids);
    trace_close(&t);
    return result;
}

int trace_spread(char ***files, size_t *count, char *why, size_t why_size)
{
    char **all = NULL;
    size_t n = 0;
    int result = 0;
    for (size_t i = 0; !result && i < *count; i++) {
        if (trace_is_merged((*files)[i]))
            result = add_processes(&all, &n, (*files)[i], why, why_size);
        else
            *PUSH(all, n) = xstrdup((*files)[i]);
    }
    trace_free_files(*files, *count);
    *files = all;
    *count = n;
    if (result) {
        trace_free_files(all, n);
        *files = NULL;
    }
    return result;
}

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
    errno = 0;
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
        char *file = trace_file(paths[i], NULL);
        bool good = stat(file, &st) == 0;
        free(file);
        if (!good)
            absent_file(why, why_size, paths[i]);
        else if (!S_ISDIR(st.st_mode))
            *PUSH(files, *count) = xstrdup(paths[i]);
        else if (!(good = add_directory(paths[i], &files, count)))
            absent_files(why, why_size, paths[i]);
        if (!good) {
            trace_free_files(files, *count);
            return NULL;
        }
    }
    return files;
}

bool trace_directory(char *const *paths, size_t n)
{
    struct stat st;
    for (size_t i = 0; i < n; i++)
        if (stat(paths[i], &st) == 0 && S_ISDIR(st.st_mode))
            return true;
    return false;
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
