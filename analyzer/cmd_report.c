/*
 * cmd_report.c - `vramscope report`: one file as a page, several (the ranks of a job) as a row each.
 */
#include <stdlib.h>
#include <string.h>

#include "args.h"
#include "commands.h"
#include "report.h"
#include "table.h"
#include "units.h"

struct options {
    bool json, bytes;
};

static const struct option_row rows[] = {
    {"json", 0, NULL, ARG_FLAG, offsetof(struct options, json), "for programs: see vramscope-report(1)"},
    {"bytes", 'b', NULL, ARG_FLAG, offsetof(struct options, bytes), "exact bytes instead of rounded GiB"},
    {0}};

static const struct command_help help = {"report", "[options] FILE...|DIR",
                                         "What a run used: per device and phase the time, the peaks of "
                                         "allocated and reserved memory, what the peak was\n"
                                         "made of, what the driver uses beyond it, and whether anything was "
                                         "lost. Several files, or a directory of them,\n"
                                         "are the ranks of one job: a row each.",
                                         rows, false};

static void rank_row(struct table *table, const struct report *r, const struct device_report *d, bool exact)
{
    const struct trace *t = r->trace;
    table_cell(table, "%s", t->label);
    if (t->process.rank == UNKNOWN)
        table_cell(table, "-");
    else
        table_cell(table, "%lld", (long long)t->process.rank);
    table_cell(table, "%lld", d ? (long long)d->device : -1);
    table_cell(table, "%s", d && d->allocated ? units_bytes(d->allocated->bytes, exact).s : "-");
    table_cell(table, "%s", d && d->reserved ? units_bytes(d->reserved->bytes, exact).s : "-");
    table_cell(table, "%s", d && d->phase_at_peak ? d->phase_at_peak : "-");
    table_cell(table, "%s", d ? units_bytes(d->residual.residual, exact).s : "-");
    table_cell(table, "%lld", (long long)t->steps);
    if (r->lost_events || t->oom_total + t->refused_total > 0)
        table_cell(table, "%s%lld lost, %lld out of memory", "", (long long)r->lost_events,
                   (long long)(t->oom_total ? t->oom_total : t->refused_total));
    else
        table_cell(table, "%s",
                   t->running                           ? "still running"
                   : t->loss_count || t->mismatch_count ? "see its report"
                   : !t->clean_end                      ? "complete, but did not end in good order"
                                                        : "complete");
}

static void rank_rows(struct table *table, const struct report *r, bool exact)
{
    for (size_t i = 0; i < r->device_count; i++)
        rank_row(table, r, &r->devices[i], exact);
    if (!r->device_count)
        rank_row(table, r, NULL, exact);
}

/* Opens file I and shows it: into TABLE where there are several, as a page or as JSON otherwise. */
static int show(char *const *files, size_t n, size_t i, const struct options *o, struct table *table,
                struct json *j)
{
    struct trace t;
    struct report r;
    if (trace_open(&t, files[i]))
        return complain("%s", t.why);
    t.label = trace_label(files, n, i);
    int status = EXIT_GOOD;
    if (report_load(&r, &t))
        status = complain("%s", t.why);
    else if (j)
        report_json(&r, j);
    else if (table)
        rank_rows(table, &r, o->bytes);
    else
        report_text(&r, stdout, o->bytes);
    report_free(&r);
    trace_close(&t);
    return status;
}

static int show_json(char *const *files, size_t n, const struct options *o)
{
    struct json j;
    int status = EXIT_GOOD;
    json_open(&j, stdout);
    json_begin(&j, NULL, '{');
    json_begin(&j, "files", '[');
    for (size_t i = 0; i < n; i++)
        status |= show(files, n, i, o, NULL, &j);
    json_end(&j);
    json_end(&j);
    json_close(&j);
    return status;
}

static int show_ranks(char *const *files, size_t n, const struct options *o)
{
    static const char *const header[] = {"file",    "rank",     "device", "peak allocated", "peak reserved",
                                         "peak in", "residual", "steps",  "state"};
    struct table table;
    int status = EXIT_GOOD;
    table_init(&table, "<>>>><>><", header);
    for (size_t i = 0; i < n; i++)
        status |= show(files, n, i, o, &table, NULL);
    table_print(&table, stdout, 0);
    table_free(&table);
    return status;
}

int cmd_report(int argc, char **argv)
{
    struct options o = {0};
    char **operands, why[512];
    size_t count;
    int n = args_parse(&help, argc, argv, &o, &operands);
    if (n < 0)
        return n == -1 ? EXIT_GOOD : EXIT_USAGE;
    if (n == 0)
        return complain("report: which file? vramscope report FILE...");
    char **files = trace_files(operands, (size_t)n, &count, why, sizeof why);
    if (!files)
        return complain("%s", why);
    int status = o.json      ? show_json(files, count, &o)
                 : count > 1 ? show_ranks(files, count, &o)
                             : show(files, count, 0, &o, NULL, NULL);
    trace_free_files(files, count);
    return status;
}
