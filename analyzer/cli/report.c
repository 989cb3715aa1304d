/*
 * report.c - `vramscope report`: one file as a page, several as the ranks of a job.
 */
#include <stdlib.h>
#include <string.h>

#include "base/args.h"
#include "base/page.h"
#include "files.h"
#include "show/first/first.h"
#include "read/symbols.h"
#include "read/sweep.h"
#include "show/report/report.h"
#include "read/trace.h"

struct options {
    bool json, bytes, full, all;
    struct choice choice;
    struct relabel relabel;
};

static const struct option_row rows[] = {
    CHOICE_ROWS("time|peak|name"),
    RELABEL_ROWS,
    {"all", 'a', NULL, ARG_FLAG, AT(all),
     "everything, not the first screen alone; --full, --sort and --top ask for it, too"},
    {"json", 0, NULL, ARG_FLAG, AT(json), "for programs: see vramscope-report(1)"},
    {"full", 0, NULL, ARG_FLAG, AT(full), "every frame of a call stack, with its whole name"},
    {"bytes", 'b', NULL, ARG_FLAG, AT(bytes), "exact bytes instead of rounded GiB"},
    {0}};

/* The parts of all files that the page of the ranks needs. */
struct ranks {
    struct rank_file *files;
    size_t count;
};

static void free_ranks(struct ranks *ranks)
{
    for (size_t i = 0; i < ranks->count; i++)
        ranks_free_file(&ranks->files[i]);
    free(ranks->files);
}

/* What is shown of a file, SEVERAL: as one of a job's ranks. */
static unsigned parts_of(const struct options *o, bool several)
{
    return o->json || (o->all && !several) ? REPORT_ALL : several ? REPORT_RESIDUAL : FIRST_PARTS;
}

/* Opens file I and shows it as a page or as JSON; of several files only the part for the page of the ranks
 * is kept. */
static int show(const struct files *f, size_t i, const struct options *o, struct ranks *ranks, struct json *j)
{
    size_t n = f->n;
    struct trace t;
    struct report r;
    struct relabel relabel = o->relabel;
    relabel.brief = !j && n > 1;
    if (relabel_open(&t, f->at[i], &relabel))
        return complain("%s", t.why);
    t.label = trace_label(f->at, n, i);
    t.only_device = o->choice.device;
    if (t.end != TRACE_END_RUNNING && n == 1) {
        char why[256]; /* ignored: frames without names are shown as module+offset */
        vs_symbols_fill(t.file, why, sizeof why);
    }
    int status = EXIT_GOOD;
    if (report_load(&r, &t, parts_of(o, n > 1))) {
        status = complain("%s", t.why);
    } else if (o->choice.device != UNKNOWN && !r.device_count) {
        status = complain("%s", absent_device(&t, o->choice.device));
    } else {
        r.choice = &o->choice;
        *PUSH(ranks->files, ranks->count) = ranks_file_of(&r);
        status = trace_whole(&t) ? EXIT_GOOD : EXIT_INCOMPLETE;
        if (j)
            report_json(&r, j);
        else if (n == 1 && o->all)
            report_text(&r, stdout, o->bytes, o->full);
        else if (n == 1)
            first_text(&r, stdout, o->bytes);
    }
    report_free(&r);
    trace_close(&t);
    return status;
}

/* The points of the sweeps among FILES, before the pages of their recordings, or into J; some have none. */
static int show_points(const struct files *f, const struct options *o, struct json *j)
{
    int status = EXIT_GOOD;
    bool begun = false;
    for (size_t i = 0; i < f->n; i++) {
        struct trace t;
        struct trace_sweep sweep;
        if (!trace_is_merged(f->at[i]))
            continue;
        if (trace_open_brief(&t, f->at[i], 0))
            break; /* said where it is shown */
        if (trace_sweep_load(&t, &sweep))
            status = exit_worse(status, complain("%s", t.why));
        if (sweep.n && j && !begun)
            json_begin(j, "sweeps", '[');
        begun = begun || sweep.n;
        if (sweep.n && j)
            report_points_json(&sweep, t.path, j);
        else if (sweep.n)
            report_points_text(sweep.points, sweep.n, stdout, o->bytes);
        for (size_t k = 0; k < sweep.n; k++)
            if (trace_sweep_point_missing(&sweep.points[k]))
                status = exit_worse(status, EXIT_INCOMPLETE);
        trace_sweep_free(&sweep);
        trace_close(&t);
    }
    if (j && begun)
        json_end(j);
    return status;
}

/* GIVEN: the files whose processes F has. */
static int show_json(const struct files *f, const struct files *given, const struct options *o)
{
    struct ranks ranks = {0};
    struct json j;
    int status = EXIT_GOOD;
    json_document(&j, stdout);
    if (!o->relabel.process)
        status = show_points(given, o, &j);
    json_begin(&j, "files", '[');
    for (size_t i = 0; i < f->n; i++)
        status = exit_worse(status, show(f, i, o, &ranks, &j));
    json_end(&j);
    if (!ranks_json(ranks.files, ranks.count, &o->relabel, &j))
        status = exit_worse(status, EXIT_INCOMPLETE);
    json_close(&j);
    free_ranks(&ranks);
    return status;
}

static int show_text(const struct files *f, const struct options *o)
{
    struct ranks ranks = {0};
    int status = EXIT_GOOD;
    for (size_t i = 0; i < f->n; i++)
        status = exit_worse(status, show(f, i, o, &ranks, NULL));
    if (f->n > 1 && ranks.count &&
        !ranks_text(ranks.files, ranks.count, &o->relabel, &o->choice, o->all, stdout, o->bytes))
        status = exit_worse(status, EXIT_INCOMPLETE);
    free_ranks(&ranks);
    return status;
}

static int call(void *options, char **operands, int n)
{
    struct options *o = options;
    struct files given, files;
    if (n == 0)
        return complain("report: which file? vramscope report FILE...");
    o->all = o->all || o->full || o->choice.sort || o->choice.top != UNKNOWN;
    if (files_find(&given, "report", operands, n, &o->relabel, false))
        return EXIT_USAGE;
    if (!o->json)
        wrap_page_begin(false);
    int status = o->json || o->relabel.process ? EXIT_GOOD : show_points(&given, o, NULL);
    if (files_find(&files, "report", operands, n, &o->relabel, true))
        status = EXIT_USAGE;
    else
        status = exit_worse(status, o->json ? show_json(&files, &given, o) : show_text(&files, o));
    wrap_page_end();
    files_free(&given);
    files_free(&files);
    return status;
}

const struct command command_report = {
    "report",
    "peaks per device and phase, what they were made of, what would lower them",
    "[options] FILE...|DIR",
    "What a run used: per device and phase the time, the peaks of allocated and reserved memory, what "
    "the peak was made of, what would lower it and by how much at most, what the driver uses beyond it, "
    "and whether anything was lost. Several files, or a directory of them, are the ranks of a job: a row "
    "each, who is missing, who peaked highest, and each phase over all ranks.\n"
    "Exit status 3: shown, but events or ranks are missing, or the end of a run is not known to be there.",
    rows,
    call,
    COMMAND_OPTIONS(.choice = CHOICE_NONE)};
