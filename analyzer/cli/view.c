/*
 * view.c - `vramscope view`: recordings as one page of HTML.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/args.h"
#include "base/destination.h"
#include "base/shown.h"
#include "files.h"
#include "read/guard.h"
#include "read/replace.h"
#include "read/symbols.h"
#include "view/view.h"
#include "read/trace.h"

struct options {
    const char *output;
    bool open, overlay;
    int64_t device, max_size; /* MiB */
    struct relabel relabel;
};

static const struct option_row rows[] = {
    {"output", 'o', "FILE", ARG_TEXT, AT(output),
     "the page, - for standard output; without it the names of what is shown, with .html"},
    {"open", 0, NULL, ARG_FLAG, AT(open), "show it in the browser (xdg-open)"},
    {"overlay", 0, NULL, ARG_FLAG, AT(overlay),
     "the files are runs to compare: lay the others' curves over the first one's"},
    {"max-size", 0, "MIB", ARG_COUNT, AT(max_size),
     "no page larger than this many MiB: less detail in a long recording (40)"},
    {"device", 'd', "N", ARG_COUNT, AT(device), "only this device"},
    RELABEL_ROWS,
    {0}};

/* ---- opening ---- */

struct job {
    struct trace **traces;
    char **labels;
    size_t count;
    char *made_of;
};

static int open_process(struct job *job, const char *path, const char *label, int64_t process,
                        const struct options *o)
{
    struct relabel relabel = o->relabel;
    struct trace *t = xrealloc(NULL, sizeof *t);
    relabel.process = process;
    if (relabel_open(t, path, &relabel)) {
        int status = complain("%s", t->why);
        free(t);
        return status;
    }
    bool one = t->processes <= 1;
    size_t n = job->count;
    *PUSH(job->labels, n) =
        one ? xstrdup(trace_rank_label(t, label))
            : xformat("%s, process %lld", trace_rank_label(t, label), (long long)t->process.id);
    *PUSH(job->traces, job->count) = t;
    return 0;
}

/* Of a file with several processes all of them, unless one was asked for. */
static int open_file(struct job *job, const char *path, const char *label, const struct options *o)
{
    struct trace t;
    int64_t *ids = NULL;
    size_t n = 0;
    char why[256]; /* without names frames are shown as module+offset: not worth a word */
    if (o->relabel.process)
        return open_process(job, path, label, o->relabel.process, o);
    if (trace_open(&t, path))
        return complain("%s", t.why);
    int status = trace_process_ids(&t, &ids, &n) ? complain("%s", t.why) : 0;
    bool running = t.end == TRACE_END_RUNNING;
    trace_close(&t);
    if (!running)
        vs_symbols_fill(path, why, sizeof why);
    for (size_t i = 0; !status && i < n; i++)
        status = open_process(job, path, label, ids[i], o);
    free(ids);
    return status;
}

static void close_job(struct job *job)
{
    for (size_t i = 0; i < job->count; i++) {
        trace_close(job->traces[i]);
        free(job->traces[i]);
        free(job->labels[i]);
    }
    free(job->traces);
    free(job->labels);
    free(job->made_of);
}

/* Processes that ran at the same time lie on the axis as they did by their clocks; others begin together. */
static void set_offsets(struct view_process *processes, size_t n, bool overlay)
{
    int64_t first = INT64_MAX, latest = INT64_MIN, earliest_end = INT64_MAX;
    for (size_t i = 0; i < n; i++) {
        const struct trace *t = processes[i].t;
        int64_t start = t->process.start_realtime_ns;
        if (start == UNKNOWN || start <= 0 || t->t_last == UNKNOWN)
            return;
        first = start < first ? start : first;
        latest = start > latest ? start : latest;
        earliest_end = start + t->t_last < earliest_end ? start + t->t_last : earliest_end;
    }
    for (size_t i = 0; !overlay && latest < earliest_end && i < n; i++)
        processes[i].offset = processes[i].t->process.start_realtime_ns - first;
}

/* ---- writing ---- */

static bool is_input(const char *path, char *const *files, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (same_file(path, files[i]))
            return true;
    return false;
}

/* A page never takes the place of a recording, and unasked never that of another page. */
static int check_output(const struct job *job, const char *path, bool asked, char *const *files, size_t n)
{
    if (is_input(path, files, n))
        return complain("view: %s is the recording: give the page another name with -o", path);
    if (replace_is_recording(path))
        return complain("view: %s is a recording: give the page another name with -o", path);
    if (!asked && view_is_other(path, job->made_of))
        return complain("view: %s is there, and was made of something else: give the page a name with -o",
                        path);
    return 0;
}

static int write_to(struct job *job, FILE *out, const struct options *o)
{
    struct view_process *processes = xrealloc(NULL, job->count * sizeof *processes);
    const char *why = "";
    int status = 0;
    for (size_t i = 0; i < job->count; i++)
        processes[i] = (struct view_process){.t = job->traces[i], .label = job->labels[i]};
    set_offsets(processes, job->count, o->overlay);
    if (view_write(processes, job->count, o->device, o->overlay, o->max_size << 20, job->made_of, out, &why))
        status = complain("%s", why);
    free(processes);
    return status;
}

/* A page that can't be written whole leaves what was there before. */
static int write_page(struct job *job, const char *path, const struct options *o)
{
    struct destination to;
    FILE *out = destination_open(&to, "view", path);
    int status = out ? write_to(job, out, o) : EXIT_USAGE,
        closed = out ? destination_close(&to, out, !status) : 0;
    return status ? status : closed;
}

static int tell_incomplete(const struct job *job)
{
    int status = EXIT_GOOD;
    for (size_t i = 0; i < job->count; i++) {
        char *line = trace_not_whole_line(job->traces[i]);
        if (line) {
            complain("view: %s: %s", job->traces[i]->path, line);
            status = EXIT_INCOMPLETE;
        }
        free(line);
    }
    return status;
}

static int show(const char *path)
{
    int status = 0;
    pid_t pid = fork();
    if (pid == 0) {
        guard_memory_end();
        unsetenv("LD_PRELOAD"); /* a browser is not what is to be recorded */
        execlp("xdg-open", "xdg-open", path, (char *)NULL);
        _exit(127);
    }
    if (pid < 0 || waitpid(pid, &status, 0) < 0 || status)
        return complain("view: --open: xdg-open can't show %s: open it in a browser by hand", path);
    return 0;
}

/* Whether any of the recordings has a device to show. */
static bool has_rows(const struct job *job, int64_t device)
{
    for (size_t i = 0; i < job->count; i++)
        for (size_t k = 0; k < job->traces[i]->peak_count; k++)
            if (job->traces[i]->peaks[k].device >= 0 &&
                (device == UNKNOWN || job->traces[i]->peaks[k].device == device))
                return true;
    return false;
}

/* FILES, into the page PATH. */
static int view_files(char *const *files, size_t count, const char *path, const struct options *o,
                      bool directory)
{
    struct ranks_seen seen = {0};
    struct job job = {.made_of = view_made_of(files, count)};
    int status = 0;
    for (size_t i = 0; !status && i < count; i++)
        status = open_file(&job, files[i], trace_label(files, count, i), o);
    if (!status && !has_rows(&job, o->device))
        status = complain("%s", absent_device(job.traces[0], o->device));
    if (!status)
        status = check_output(&job, path, o->output != NULL, files, count);
    if (!status && !strcmp(path, "-")) {
        status = write_to(&job, stdout, o);
        status = status ? status : tell_incomplete(&job);
    } else if (!status && !(status = write_page(&job, path, o))) {
        struct stat st;
        printf("%s: %.1f MB, open it in a browser\n", shown(path),
               stat(path, &st) ? 0.0 : (double)st.st_size / 1e6);
        int whole = tell_incomplete(&job);
        status = o->open ? exit_worse(show(path), whole) : whole;
    }
    for (size_t i = 0; directory && i < job.count; i++)
        ranks_seen_add(&seen, job.traces[i]);
    status = exit_worse(status, ranks_seen_end(&seen, status != EXIT_USAGE));
    close_job(&job);
    return status;
}

static int call(void *options, char **operands, int n)
{
    struct options *o = options;
    struct files files;
    if (n == 0)
        return complain("view: which file? vramscope view FILE -o OUT.html");
    if (o->max_size < 1 || o->max_size > 2000)
        return complain("view: --max-size: a page has 1 to 2000 MiB");
    if (o->open && o->output && !strcmp(o->output, "-"))
        return complain("view: --open needs a file to show: give -o another name than -");
    if (files_find(&files, "view", operands, n, &o->relabel, false))
        return EXIT_USAGE;
    char *path = o->output ? xstrdup(o->output) : view_name(operands, (size_t)n);
    int status = view_files(files.at, files.n, path, o, files.ranks);
    free(path);
    files_free(&files);
    return status;
}

const struct command command_view = {
    "view",
    "a page of HTML to zoom, click and search in: no server, no network",
    "[options] FILE...|DIR",
    "One page of HTML that needs no server and no network: allocated memory over time, stacked by phase, "
    "role, layer, line or tensor, to zoom, to click and to search. Several files are rows on one time "
    "axis.\n"
    "Exit status 3: written, but events are missing, or the end of a run is not known to be there.",
    rows,
    call,
    COMMAND_OPTIONS(.device = UNKNOWN, .max_size = VIEW_LIMIT >> 20)};
