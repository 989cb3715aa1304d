/*
 * waste.c - `vramscope waste`: memory that was held and not used, who asked for it, and by how much the peak
 * would be lower at most without it.
 */
#include <stdio.h>
#include <stdlib.h>

#include "analysis/relabel.h"
#include "base/args.h"
#include "base/commands.h"
#include "base/wrap.h"
#include "show/ranks/ranks.h"
#include "show/report/unproven.h"
#include "show/report/waste.h"
#include "read/absent.h"

struct options {
    bool json, bytes, full;
    int64_t top, device;
    struct relabel relabel;
};

static const struct option_row rows[] = {
    {"top", 'n', "N", ARG_COUNT, offsetof(struct options, top),
     "lines and layers shown (default 10; 0 = all)"},
    {"device", 'd', "N", ARG_COUNT, offsetof(struct options, device), "only this device"},
    RELABEL_ROWS(struct options, relabel),
    {"json", 0, NULL, ARG_FLAG, offsetof(struct options, json), "for programs: see vramscope-waste(1)"},
    {"full", 0, NULL, ARG_FLAG, offsetof(struct options, full), "whole places in the code"},
    {"bytes", 'b', NULL, ARG_FLAG, offsetof(struct options, bytes), "exact bytes instead of rounded GiB"},
    {0}};

static const struct command_help help = {
    "waste", "[options] FILE...|DIR",
    "What was allocated and not used: never, long before its first use, long after its last, or for the "
    "longest\n"
    "time between two; by line of the program and layer, and by how much the peak would be lower at most "
    "without\n"
    "that, each alone and all together. Needs a recording made with `vramscope run --access`.\n"
    "Exit status 3: shown, but events are missing, or the end of the run is not known to be there.",
    rows, false};

static int show_device(const struct report *r, const struct device_report *d, const struct options *o,
                       struct json *j)
{
    struct waste_page p;
    int status = waste_page_load(&p, r, d) ? complain("%s", r->trace->why) : EXIT_GOOD;
    if (!status && j)
        waste_page_json(&p, o->top, j);
    else if (!status) {
        waste_page_text(&p, stdout, o->top, o->bytes, o->full);
        report_unproven(r->trace, "uses", 2, stdout);
    }
    waste_page_free(&p);
    return status;
}

static int show_devices(const struct report *r, const struct options *o, struct json *j)
{
    size_t shown = 0;
    int status = EXIT_GOOD;
    for (size_t i = 0; i < r->device_count; i++) {
        if (o->device != UNKNOWN && r->devices[i].device != o->device)
            continue;
        if (!j && shown++)
            putchar('\n');
        status = exit_worse(status, show_device(r, &r->devices[i], o, j));
    }
    if (!shown && o->device != UNKNOWN && !j)
        return complain("%s", absent_device(r->trace, o->device));
    if (!shown && !j)
        puts(trace_no_device(r->trace));
    return status;
}

static int show_file(const char *file, const struct options *o, struct json *j, bool several,
                     struct ranks_seen *seen)
{
    struct trace t;
    struct report r;
    if (relabel_open(&t, file, &o->relabel))
        return complain("%s", t.why);
    ranks_seen_add(seen, &t);
    t.oom_total = 0; /* not asked here */
    int status = report_load(&r, &t, 0) ? complain("%s", t.why) : EXIT_GOOD;
    report_file_begin(&t, file, several, j);
    if (!status)
        status = show_devices(&r, o, j);
    report_file_end(j);
    if (!trace_whole(&t))
        status = exit_worse(status, EXIT_INCOMPLETE);
    report_free(&r);
    trace_close(&t);
    return status;
}

static int show_all(char *const *files, size_t n, const struct options *o, struct ranks_seen *seen)
{
    struct json j;
    int status = EXIT_GOOD;
    json_open(&j, stdout);
    if (o->json) {
        json_document(&j);
        json_begin(&j, "files", '[');
    }
    for (size_t i = 0; i < n; i++)
        status = exit_worse(status, show_file(files[i], o, o->json ? &j : NULL, n > 1, seen));
    if (o->json) {
        json_end(&j);
        json_end(&j);
        json_close(&j);
    }
    return status;
}

int cmd_waste(int argc, char **argv)
{
    struct options o = {.top = 10, .device = UNKNOWN};
    char **operands, why[512];
    size_t count;
    int n = args_parse(&help, argc, argv, &o, &operands);
    if (n < 0)
        return n == -1 ? EXIT_GOOD : EXIT_USAGE;
    if (n == 0)
        return complain("waste: which file? vramscope waste FILE");
    if (relabel_check(&o.relabel, why, sizeof why))
        return complain("waste: %s", why);
    char **files = trace_files(operands, (size_t)n, &count, why, sizeof why);
    o.relabel.several = files && count > 1;
    if (!files || (!o.relabel.process && trace_spread(&files, &count, why, sizeof why)))
        return complain("%s", why);
    if (!o.json)
        wrap_page_begin(false);
    struct ranks_seen seen = {0};
    int status = show_all(files, count, &o, &seen);
    wrap_page_end();
    bool tell = status != EXIT_USAGE && (count > (size_t)n || trace_directory(operands, (size_t)n));
    status = exit_worse(status, ranks_seen_end(&seen, tell));
    trace_free_files(files, count);
    return status;
}
