/*
 * database.c - a sweep as one database, made anew each time; the recordings stay where they are, so that a
 * sweep can go on.
 */
#include "sweep.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/destination.h"
#include "base/shown.h"
#include "read/guard.h"
#include "read/replace.h"
#include "read/trace.h"
#include "read/sweep.h"
#include "trace/store/files.h"

#define ROUNDS 64 /* steps of SQLite's machine that copying a step's worth of reading may take */

/* ---- recordings ---- */

struct merging {
    const char *who;
    const char *into;
    struct vs_merge *merge;
    int64_t processes; /* that are in it */
};

/* Gives the recording R a process of the database; 0, or 2, said. */
static int add_recording(struct merging *m, const struct rank_figures *r)
{
    char why[768];
    if (!m->merge && (vs_store_merge_begin(m->into, r->path, why, sizeof why) ||
                      vs_store_merge_open(&m->merge, m->into, why, sizeof why)))
        return complain("%s: %s", m->who, why);
    if (vs_store_merge_add(m->merge, r->path, m->processes + 1, ROUNDS * guard_budget(r->path), why,
                           sizeof why))
        return complain("%s: %s can't be copied: %s", m->who, r->path, why);
    m->processes++;
    return 0;
}

/* PROCESSES gets, for each point, which processes its recordings are. */
static int add_recordings(struct merging *m, const struct sweep *s, struct vs_point_process **processes)
{
    int bad = 0;
    for (size_t i = 0; i < s->n && !bad; i++) {
        const struct point *p = &s->points[i];
        size_t n = 0;
        for (size_t r = 0; p->done && r < p->n && !bad; r++) {
            if (!p->ranks[r].readable)
                continue;
            bad = add_recording(m, &p->ranks[r]);
            *PUSH(processes[i], n) = (struct vs_point_process){m->processes, p->ranks[r].rate};
        }
    }
    return bad;
}

/* ---- points ---- */

static size_t readable(const struct point *p)
{
    size_t n = 0;
    for (size_t r = 0; p->done && r < p->n; r++)
        n += p->ranks[r].readable;
    return n;
}

static int add_points(const struct sweep *s, const char *into, struct vs_point_process **processes)
{
    const char *axes[GRID_AXES], **values = xrealloc(NULL, (s->n * s->grid.n + 1) * sizeof *values);
    struct vs_point *points = xrealloc(NULL, (s->n + 1) * sizeof *points);
    char why[256], **status = xrealloc(NULL, (s->n + 1) * sizeof *status);
    for (size_t a = 0; a < s->grid.n; a++)
        axes[a] = s->grid.axes[a].name;
    for (size_t i = 0; i < s->n; i++) {
        const struct point *p = &s->points[i];
        for (size_t a = 0; a < s->grid.n; a++)
            values[i * s->grid.n + a] = p->values[a];
        status[i] = point_status(p);
        points[i] = (struct vs_point){.name = p->name,
                                      .outcome = p->done ? outcome_names[p->outcome] : NULL,
                                      .status = p->done ? status[i] : NULL,
                                      .values = &values[i * s->grid.n],
                                      .ns = p->done ? p->ns : UNKNOWN,
                                      .expected_processes = p->done ? p->expected : UNKNOWN,
                                      .refused_bytes = point_refused(p),
                                      .predicted_allocated = p->predicted_allocated,
                                      .predicted_reserved = p->predicted_reserved,
                                      .predicted_rank =
                                          p->predicted_reserved == UNKNOWN ? UNKNOWN : s->predicted_rank,
                                      .fitted = p->fitted,
                                      .processes = processes[i],
                                      .process_count = readable(p)};
    }
    int bad = vs_store_points(into, axes, s->grid.n, points, s->n, why, sizeof why)
                  ? complain("%s: the points can't be written: %s", s->who, why)
                  : 0;
    for (size_t i = 0; i < s->n; i++)
        free(status[i]);
    free(status);
    free(points);
    free(values);
    return bad;
}

/* ---- all ---- */

static int write_parts(const struct sweep *s, const char *into)
{
    struct merging m = {.into = into, .who = s->who};
    struct vs_point_process **processes = xrealloc(NULL, (s->n + 1) * sizeof *processes);
    memset(processes, 0, (s->n + 1) * sizeof *processes);
    int bad = add_recordings(&m, s, processes);
    vs_store_merge_close(m.merge);
    if (!bad)
        bad = add_points(s, into, processes);
    for (size_t i = 0; i < s->n; i++)
        free(processes[i]);
    free(processes);
    return bad;
}

/* Whether PATH is a database that a sweep made. */
static bool is_sweep(const char *path)
{
    struct trace t;
    if (!replace_is_recording(path) || trace_open(&t, path))
        return false;
    bool ours = t.end != TRACE_END_RUNNING && trace_is_sweep(&t);
    trace_close(&t);
    return ours;
}

static int check(const char *who, const char *path)
{
    struct stat st;
    int error = stat(path, &st) ? errno : 0;
    if (error == ENOTDIR)
        return complain("%s: %s can't be made: %s: give another -o", who, path, strerror(error));
    if (error == ENOENT || is_sweep(path))
        return 0;
    return complain("%s: %s is not of a sweep, and would be replaced: move it away, or give another -o", who,
                    path);
}

/* What an earlier sweep wrote says nothing of the points as they are now; 0, or errno. */
static int remove_old(const char *path)
{
    int error = replace_is_recording(path) ? replace_begin(path) : 0;
    return error ? error : unlink(path) && errno != ENOENT ? errno : 0;
}

static int write_database(const struct sweep *s, const char *path)
{
    struct destination to;
    size_t recordings = 0;
    if (check(s->who, path))
        return 2;
    for (size_t i = 0; i < s->n; i++)
        recordings += readable(&s->points[i]);
    if (!recordings) {
        int error = remove_old(path);
        return error ? complain("%s: %s can't be removed: %s", s->who, path, strerror(error)) : 0;
    }
    bool replaces = replace_is_recording(path);
    if (!replaces && replace_has_log(path))
        return complain("%s: a log of SQLite's lies beside %s and would be taken for the new file's: remove "
                        "it",
                        s->who, path);
    destination_find(&to, path);
    int bad = write_parts(s, destination_name(&to));
    int error = !bad && replaces ? replace_begin(to.path) : 0, ended = destination_end(&to, !bad && !error);
    error = error ? error : ended;
    return bad ? bad : error ? destination_failed(s->who, path, error) : 0;
}

int database_check(const char *who, const char *folder)
{
    char *path = xformat("%s/sweep.db", folder);
    int bad = check(who, path);
    free(path);
    return bad;
}

int database_all(const struct sweep *s, const char *folder, const char *csv)
{
    char *database = xformat("%s/sweep.db", folder),
         *rows = csv ? xstrdup(csv) : xformat("%s/sweep.csv", folder);
    int bad = show_csv(s, rows);
    if (!bad)
        bad = write_database(s, database);
    free(database);
    free(rows);
    return bad;
}
