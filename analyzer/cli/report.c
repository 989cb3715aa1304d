/*
 * report.c - `vramscope report`: one file as a page, several as the ranks of a job.
 */
#include <stdlib.h>
#include <string.h>

#include "base/args.h"
#include "base/commands.h"
#include "base/wrap.h"
#include "show/first/first.h"
#include "show/ranks/ranks.h"
#include "read/symbols.h"
#include "read/sweep.h"
#include "analysis/relabel.h"
#include "show/report/report.h"
#include "read/absent.h"

struct options {
    bool json, bytes, full, all;
    struct choice choice;
    struct relabel relabel;
};

#define SORTS "time|peak|name"

static const struct option_row rows[] = {
    CHOICE_ROWS(struct options, choice, SORTS),
    RELABEL_ROWS(struct options, relabel),
    {"all", 'a', NULL, ARG_FLAG, offsetof(struct options, all),
     "everything, not the first screen alone; --full, --sort and --top ask for it, too"},
    {"json", 0, NULL, ARG_FLAG, offsetof(struct options, json), "for programs: see vramscope-report(1)"},
    {"full", 0, NULL, ARG_FLAG, offsetof(struct options, full),
     "every frame of a call stack, with its whole name"},
    {"bytes", 'b', NULL, ARG_FLAG, offsetof(struct options, bytes), "exact bytes instead of rounded GiB"},
    {0}};

static const struct command_help help = {
    "report", "[options] FILE...|DIR",
    "What a run used: per device and phase the time, the peaks of allocated and reserved memory, what the\n"
    "peak was made of, what would lower it and by how much at most, what the driver uses beyond it, and\n"
    "whether anything was lost. Several files, or a directory of them, are the ranks of a job: a row each,\n"
    "who is missing, who peaked highest, and each phase over all ranks.\n"
    "Exit status 3: shown, but events or ranks are missing, or the end of a run is not known to be there.",
    rows, false};

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
static int show(char *const *files, size_t n, size_t i, const struct options *o, struct ranks *ranks,
                struct json *j)
{
    struct trace t;
    struct report r;
    struct relabel relabel = o->relabel;
    relabel.brief = !j && n > 1;
    if (relabel_open(&t, files[i], &relabel))
        return complain("%s", t.why);
    t.label = trace_label(files, n, i);
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
static int show_points(char *const *files, size_t n, const struct options *o, struct json *j)
{
    int status = EXIT_GOOD;
    bool begun = false;
    for (size_t i = 0; i < n; i++) {
        struct trace t;
        struct trace_sweep sweep;
        if (!trace_is_merged(files[i]))
            continue;
        if (trace_open_brief(&t, files[i], 0))
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

/* GIVEN, which may be NULL: the files whose processes FILES are. */
static int show_json(char *const *files, size_t n, char *const *given, size_t given_count,
                     const struct options *o)
{
    struct ranks ranks = {0};
    struct json j;
    int status = EXIT_GOOD;
    json_open(&j, stdout);
    json_document(&j);
    if (given)
        status = show_points(given, given_count, o, &j);
    json_begin(&j, "files", '[');
    for (size_t i = 0; i < n; i++)
        status = exit_worse(status, show(files, n, i, o, &ranks, &j));
    json_end(&j);
    if (!ranks_json(ranks.files, ranks.count, &o->relabel, &j))
        status = exit_worse(status, EXIT_INCOMPLETE);
    json_end(&j);
    json_close(&j);
    free_ranks(&ranks);
    return status;
}

static int show_text(char *const *files, size_t n, const struct options *o)
{
    struct ranks ranks = {0};
    int status = EXIT_GOOD;
    for (size_t i = 0; i < n; i++)
        status = exit_worse(status, show(files, n, i, o, &ranks, NULL));
    if (n > 1 && ranks.count &&
        !ranks_text(ranks.files, ranks.count, &o->relabel, &o->choice, o->all, stdout, o->bytes))
        status = exit_worse(status, EXIT_INCOMPLETE);
    free_ranks(&ranks);
    return status;
}

int cmd_report(int argc, char **argv)
{
    struct options o = {.choice = CHOICE_NONE};
    char **operands, why[512];
    size_t count;
    int n = args_parse(&help, argc, argv, &o, &operands);
    if (n < 0)
        return n == -1 ? EXIT_GOOD : EXIT_USAGE;
    if (n == 0)
        return complain("report: which file? vramscope report FILE...");
    if (choice_check(&o.choice, "report", SORTS))
        return EXIT_USAGE;
    o.all = o.all || o.full || o.choice.sort || o.choice.top != UNKNOWN;
    if (relabel_check(&o.relabel, why, sizeof why))
        return complain("report: %s", why);
    char **files = trace_files(operands, (size_t)n, &count, why, sizeof why);
    o.relabel.several = files && count > 1;
    if (!files)
        return complain("%s", why);
    if (!o.json)
        wrap_page_begin(false);
    size_t given_count = 0;
    char **given = o.relabel.process ? NULL : trace_files(operands, (size_t)n, &given_count, why, sizeof why);
    int status = !given || o.json ? EXIT_GOOD : show_points(given, given_count, &o, NULL);
    if (!o.relabel.process && trace_spread(&files, &count, why, sizeof why)) {
        wrap_page_end();
        trace_free_files(given, given_count);
        return complain("%s", why);
    }
    status = exit_worse(status, o.json ? show_json(files, count, given, given_count, &o)
                                       : show_text(files, count, &o));
    wrap_page_end();
    trace_free_files(given, given_count);
    trace_free_files(files, count);
    return status;
}
