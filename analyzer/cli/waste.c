/*
 * waste.c - `vramscope waste`: memory that was held and not used, and by how much the peak would be lower
 * at most without it.
 */
#include <stdio.h>

#include "base/args.h"
#include "files.h"
#include "show/report/waste.h"

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

static int show_device(const struct report *r, const struct device_report *d, const void *options,
                       struct json *j)
{
    const struct options *o = options;
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

static int show_file(struct report *r, const void *options, struct json *j)
{
    const struct options *o = options;
    return files_devices(r, o->device, show_device, o, j);
}

static int call(void *options, char **operands, int n)
{
    struct options *o = options;
    return files_show(&(struct file_page){"waste", &o->relabel, o->json, false, 0, show_file, o}, operands,
                      n);
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
