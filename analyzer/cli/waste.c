/*
 * waste.c - `vramscope waste`: memory that was held and not used, who asked for it, and by how much the peak
 * would be lower at most without it.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/commands.h"
#include "files.h"
#include "show/report/waste.h"
#include "read/absent.h"

struct options {
    bool json, bytes, full;
    int64_t top, device;
    struct relabel relabel;
};

static const struct option_row rows[] = {
    {"top", 'n', "N", ARG_COUNT, AT(top), "lines and layers shown (default 10; 0 = all)"},
    {"device", 'd', "N", ARG_COUNT, AT(device), "only this device"},
    RELABEL_ROWS,
    {"json", 0, NULL, ARG_FLAG, AT(json), "for programs: see vramscope-waste(1)"},
    {"full", 0, NULL, ARG_FLAG, AT(full), "whole places in the code"},
    {"bytes", 'b', NULL, ARG_FLAG, AT(bytes), "exact bytes instead of rounded GiB"},
    {0}};

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

static int show_file(const char *file, const void *options, struct json *j, bool several,
                     struct ranks_seen *seen)
{
    const struct options *o = options;
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

static int call(void *options, char **operands, int n)
{
    struct options *o = options;
    struct files files;
    if (n == 0)
        return complain("waste: which file? vramscope waste FILE");
    if (files_find(&files, "waste", operands, n, &o->relabel, true))
        return EXIT_USAGE;
    return files_show(&files, o->json, show_file, o);
}

const struct command command_waste = {
    "waste",
    "what was allocated and lay unused, and what the peak would be without it",
    "[options] FILE...|DIR",
    "What was allocated and not used: never, long before its first use, long after its last, or for the "
    "longest time between two; by line of the program and layer, and by how much the peak would be lower "
    "at most without that, each alone and all together. Needs a recording made with `vramscope run "
    "--access`.\n"
    "Exit status 3: shown, but events are missing, or the end of the run is not known to be there.",
    rows,
    call,
    COMMAND_OPTIONS(.top = 10, .device = UNKNOWN)};
