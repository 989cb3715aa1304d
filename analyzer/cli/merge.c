/*
 * merge.c - `vramscope merge`: the files of a job in one database, each as a process of its own, opened as
 * every command opens it and copied behind what is there (shim/trace/store/merge.c).  The output gets its
 * name when it is whole.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/args.h"
#include "base/destination.h"
#include "base/shown.h"
#include "base/units.h"
#include "read/guard.h"
#include "read/replace.h"
#include "read/trace.h"
#include "read/sweep.h"
#include "show/ranks/ranks.h"
#include "trace/store/files.h"

#define ROUNDS 64 /* steps of SQLite's machine that copying a step's worth of reading may take */

struct options {
    const char *output;
    bool force;
};

static const struct option_row rows[] = {
    {"output", 'o', "FILE", ARG_TEXT, AT(output), "the database to write"},
    {"force", 'f', NULL, ARG_FLAG, AT(force), "replace a recording that is there"},
    {0}};

/* What was opened so far, to tell a process that comes twice. */
struct parts {
    struct ranks_seen seen;
    bool *of_sweep; /* of each of these */
    size_t of_sweep_count, sweeps;
    int64_t processes; /* that are in the output */
    struct vs_merge *into;
    size_t axes_left; /* of sweeps' points, that the views have no column for */
    bool whole;
};

static bool same_text(const char *a, const char *b)
{
    return a && b ? !strcmp(a, b) : a == b;
}

static int by_process(const void *a, const void *b)
{
    const struct rank_file *x = *(const struct rank_file *const *)a, *y = *(const struct rank_file *const *)b;
    if (x->pid != y->pid)
        return x->pid < y->pid ? -1 : 1;
    if (x->from_ns != y->from_ns)
        return x->from_ns < y->from_ns ? -1 : 1;
    int host = x->host && y->host ? strcmp(x->host, y->host) : (x->host != NULL) - (y->host != NULL);
    return host ? host : (x > y) - (x < y); /* in the order of the arguments */
}

static bool same_process(const struct rank_file *a, const struct rank_file *b)
{
    return a->pid == b->pid && a->from_ns == b->from_ns && same_text(a->host, b->host);
}

/* 0, or 2, said: a process of P comes twice. */
static int check_twice(const struct parts *p)
{
    const struct rank_file **order = xrealloc(NULL, (p->seen.count + 1) * sizeof *order);
    int status = 0;
    for (size_t i = 0; i < p->seen.count; i++)
        order[i] = &p->seen.files[i];
    qsort(order, p->seen.count, sizeof *order, by_process);
    for (size_t i = 1; i < p->seen.count && !status; i++)
        if (same_process(order[i - 1], order[i]))
            status = complain("merge: %s and %s are the same process: name one of them", order[i - 1]->path,
                              order[i]->path);
    free(order);
    return status;
}

/* 0, or 2, said: a rank comes twice in different runs.  A sweep has a run a point. */
static int check_jobs(const struct parts *p)
{
    size_t n, alone = 0;
    struct rank_file *files = xrealloc(NULL, (p->seen.count + 1) * sizeof *files); /* whose texts are p's */
    for (size_t i = 0; i < p->seen.count; i++)
        if (!p->of_sweep[i])
            files[alone++] = p->seen.files[i];
    struct rank_job *jobs = ranks_jobs(files, alone, &n);
    int status = 0;
    for (size_t i = 1; !status && i < n; i++)
        if (jobs[i].ranked && jobs[i - 1].ranked)
            status = complain("merge: %s and %s are of different jobs: vramscope report tells them apart, "
                              "merge the files of one",
                              jobs[i - 1].files[0]->path, jobs[i].files[0]->path);
    ranks_free_jobs(jobs, n);
    free(files);
    return status;
}

/* Opens each process of FILE, and says what is the matter with it. */
static int look_at(struct parts *p, const char *file, int64_t *processes)
{
    struct trace t;
    int64_t *ids = NULL;
    size_t n = 0;
    if (trace_open(&t, file))
        return complain("%s", t.why);
    int status = t.end == TRACE_END_RUNNING
                     ? complain("%s: its process is still running: merge it when that has ended", t.path)
                 : trace_process_ids(&t, &ids, &n) ? complain("%s", t.why)
                                                   : 0;
    bool sweep = !status && trace_is_sweep(&t);
    p->sweeps += sweep;
    *processes = n ? ids[n - 1] : 1;
    p->whole = p->whole && trace_whole(&t);
    trace_close(&t);
    for (size_t i = 0; !status && i < n; i++) {
        if (trace_open_process(&t, file, ids[i])) {
            status = complain("%s", t.why);
            break;
        }
        p->whole = p->whole && trace_whole(&t);
        ranks_seen_add(&p->seen, &t);
        *PUSH(p->of_sweep, p->of_sweep_count) = sweep;
        trace_close(&t);
    }
    free(ids);
    return status;
}

/* SWEEP: what its points get as the sweep that they are of; NULL: nothing. */
static int copy(struct parts *p, const char *into, const char *file, int64_t processes, const char *sweep)
{
    char why[768];
    int64_t steps = ROUNDS * guard_budget(file);
    if (p->processes == 0 && (vs_store_merge_begin(into, file, why, sizeof why) ||
                              vs_store_merge_open(&p->into, into, why, sizeof why)))
        return complain("merge: %s", why);
    vs_store_merge_sweep(p->into, sweep);
    if (vs_store_merge_add(p->into, file, p->processes + 1, steps, why, sizeof why))
        return complain("merge: %s can't be copied: %s", file, why);
    p->processes += processes;
    return 0;
}

/* Writes the files into OUTPUT; 0, or 2, said. */
static int write_output(struct parts *p, char *const *files, size_t n, const int64_t *processes,
                        const char *output)
{
    struct destination d;
    int status = 0;
    bool replaces = replace_is_recording(output);
    destination_find(&d, output);
    const char *into = destination_name(&d);
    if (!replaces && replace_has_log(d.path))
        status =
            complain("merge: a log of SQLite's lies beside %s and would be taken for the new file's: give "
                     "another -o",
                     output);
    if (!status && d.error)
        status = destination_failed("merge", output, d.error);
    for (size_t i = 0; !status && i < n; i++)
        status = copy(p, into, files[i], processes[i], p->sweeps > 1 ? trace_label(files, n, i) : NULL);
    if (p->into && !status)
        p->axes_left = vs_store_merge_axes_left(p->into);
    vs_store_merge_close(p->into);
    int error = !status && replaces ? replace_begin(d.path) : 0,
        ended = destination_end(&d, !status && !error);
    error = error ? error : ended;
    if (!status && error)
        status = destination_failed("merge", output, error);
    return status;
}

static int merge(char *const *files, size_t n, const char *output, bool force)
{
    char why[512];
    struct parts p = {.whole = true};
    int64_t *processes = xrealloc(NULL, n * sizeof *processes);
    int status = 0;
    for (size_t i = 0; !status && i < n; i++)
        status = same_file(output, files[i])
                     ? complain("merge: %s is one of the recordings: give another name with -o", output)
                     : look_at(&p, files[i], &processes[i]);
    if (!status)
        status = check_twice(&p);
    if (!status)
        status = check_jobs(&p);
    if (!status && replace_check(output, force, why, sizeof why))
        status = complain("merge: %s", why);
    if (!status)
        status = write_output(&p, files, n, processes, output);
    if (!status) {
        printf("%s: %s of %s\n", shown(output), units_count((int64_t)p.seen.count, "recording").s,
               units_count((int64_t)n, "file").s);
        if (p.axes_left)
            complain("merge: %zu ax%cs of the sweeps' points: without a column in views sweep and "
                     "sweep_rank; the values "
                     "are in table sweep_value",
                     p.axes_left, p.axes_left == 1 ? 'i' : 'e');
        status = p.whole ? EXIT_GOOD : EXIT_INCOMPLETE;
    }
    status = exit_worse(status, ranks_seen_end(&p.seen, status != EXIT_USAGE));
    free(processes);
    free(p.of_sweep);
    return status;
}

static int call(void *options, char **operands, int n)
{
    struct options *o = options;
    char why[512];
    size_t count;
    struct stat st;
    if (n == 0 || !o->output)
        return complain("merge: of which recordings, and into which file? vramscope merge -o FILE DIR");
    if (stat(o->output, &st) == 0 && !S_ISREG(st.st_mode))
        return complain("merge: %s is no regular file: give another name with -o", o->output);
    char **files = trace_files(operands, (size_t)n, &count, why, sizeof why);
    if (!files)
        return complain("%s", why);
    int status = merge(files, count, o->output, o->force);
    trace_free_files(files, count);
    return status;
}

const struct command command_merge = {
    "merge",
    "the files of a job in one database",
    "-o FILE FILE...|DIR",
    "Puts the files of a job into one database, each as a process of its own: ranks, devices, losses and "
    "all that was recorded stay as they are. report, peak, waste, plot, check, diff and view show it as "
    "they show a directory; of one process 'FILE#N', or --process N. The points of sweeps stay points.\n"
    "Exit status 3: merged, but events are missing, or the end of a run is not known to be there.",
    rows,
    call,
    COMMAND_OPTIONS()};
