/*
 * check.c - `vramscope check`: recordings held against limits, for continuous integration.
 */
#include <stdlib.h>
#include <string.h>

#include "base/args.h"
#include "base/units.h"
#include "base/page.h"
#include "files.h"
#include "show/check/check.h"

struct options {
    struct arg_list max;
    bool no_growth, allow_killed, json, github;
    const char *max_peak, *max_reserved, *against, *tolerance, *junit;
    struct relabel relabel;
};

static const struct option_row rows[] = {
    {"max-peak", 0, "BYTES", ARG_TEXT, AT(max_peak), "the most that may be allocated on a device: 20GiB"},
    {"max-reserved", 0, "BYTES", ARG_TEXT, AT(max_reserved),
     "the most that may be reserved of the driver on a device"},
    {"max", 0, "SELECTOR:BYTES", ARG_LIST, AT(max),
     "a limit of a part, such as phase=logits:4GiB (more than one may be given)"},
    {"no-growth", 0, NULL, ARG_FLAG, AT(no_growth), "nothing may grow from training step to step"},
    {"against", 0, "RUN", ARG_TEXT, AT(against),
     "no peak may be higher than that of RUN, a file or a directory"},
    {"tolerance", 0, "AMOUNT", ARG_TEXT, AT(tolerance),
     "by how much it may be all the same: 1% (default) or 100MiB"},
    {"allow-killed", 0, NULL, ARG_FLAG, AT(allow_killed),
     "a process that was killed, or left by _exit, counts as ended"},
    {"junit", 0, "FILE", ARG_TEXT, AT(junit), "write JUnit XML to FILE, too"},
    {"github", 0, NULL, ARG_FLAG, AT(github),
     "annotations for a GitHub workflow (default where GITHUB_ACTIONS is set)"},
    RELABEL_ROWS,
    {"json", 0, NULL, ARG_FLAG, AT(json), "for programs: see vramscope-check(1)"},
    {0}};

/* ---- the limits ---- */

/* TEXT is the limit, and VALUE what OPTION had of it. */
static int add_limit(struct check_options *o, const char *text, const char *option, const char *value)
{
    char why[512];
    struct limit *l = PUSH(o->limits, o->limit_count);
    if (limit_parse(l, text, why, sizeof why))
        return complain("check: --max: %s", why);
    l->given = xformat("%s %s", option, value);
    return 0;
}

/* The short forms are limits like the others. */
static int add_short(struct check_options *o, const char *option, const char *of, const char *bytes)
{
    int64_t read;
    if (!bytes)
        return 0;
    if (!units_read_bytes(bytes, &read))
        return complain("check: %s takes an amount of memory such as 20GiB, not '%s'", option, bytes);
    if (units_lacks_unit(bytes))
        return complain("check: %s=%s: %s of what? A number alone is bytes: write %sGiB, or %sB", option,
                        bytes, bytes, bytes, bytes);
    char *text = xformat("%s:%s", of, bytes);
    int status = add_limit(o, text, option, bytes);
    free(text);
    return status;
}

static int add_limits(struct check_options *o, const struct options *given)
{
    int status = add_short(o, "--max-peak", "allocated", given->max_peak);
    if (!status)
        status = add_short(o, "--max-reserved", "reserved", given->max_reserved);
    for (size_t i = 0; !status && i < given->max.count; i++)
        status = add_limit(o, given->max.values[i], "--max", given->max.values[i]);
    return status;
}

static int read_options(struct check_options *o, const struct options *given)
{
    *o = (struct check_options){.no_growth = given->no_growth,
                                .against = given->against,
                                .tolerance_text = given->tolerance ? given->tolerance : "1%",
                                .allow_killed = given->allow_killed,
                                .relabel = given->relabel};
    int status = add_limits(o, given);
    if (status)
        return status;
    if (given->tolerance && !given->against)
        return complain("check: --tolerance is how far from --against RUN the figures may be: give both");
    if (!tolerance_parse(&o->tolerance, o->tolerance_text))
        return complain("check: --tolerance takes a share such as 1%% or an amount such as 100MiB, not '%s'",
                        o->tolerance_text);
    if (!o->limit_count && !o->no_growth && !o->against)
        return complain("check: which limit? vramscope check FILE --max-peak=20GiB (or --max, --no-growth, "
                        "--against)");
    return 0;
}

/* ---- the answer ---- */

static void show(const struct check *c, size_t files, const struct options *o)
{
    const char *actions = getenv("GITHUB_ACTIONS"), *summary = getenv("GITHUB_STEP_SUMMARY");
    bool github = o->github || (actions && *actions);
    if (o->json) {
        check_json(c, stdout);
    } else {
        wrap_page_begin(false);
        check_text(c, files, stdout);
        wrap_page_end();
    }
    if (github)
        check_github(c, o->json ? stderr : stdout);
    if (github && summary && *summary)
        check_github_summary(c, summary);
}

static int check(char **operands, int n, const struct check_options *o, const struct options *given)
{
    struct relabel relabel = o->relabel; /* each file says itself which process it has */
    struct files files;
    struct check c;
    if (files_find(&files, "check", operands, n, &relabel, false))
        return EXIT_USAGE;
    int status = EXIT_USAGE;
    if (!check_run(&c, files.at, files.n, trace_directory(operands, 1), o)) {
        show(&c, files.n, given);
        status = check_status(&c);
        if (given->junit)
            status = exit_worse(status, check_junit(&c, given->junit));
    }
    check_free(&c);
    files_free(&files);
    return status;
}

static int call(void *options, char **operands, int n)
{
    struct options *given = options;
    struct check_options o;
    int status = read_options(&o, given);
    if (n == 0 && !status)
        status = complain("check: which file? vramscope check FILE... --max-peak=20GiB");
    else if (!status)
        status = check(operands, n, &o, given);
    for (size_t i = 0; i < o.limit_count; i++)
        limit_free(&o.limits[i]);
    free(o.limits);
    return status;
}

const struct command command_check = {
    "check",
    "hold runs against limits of memory, for continuous integration",
    "[options] FILE...|DIR",
    "Whether runs kept to limits of memory: each limit on each device of each file, with what held the "
    "most where one is exceeded. A SELECTOR has one or several of\n"
    "  allocated, reserved       all of a device (reserved: what the driver was asked for)\n"
    "  phase=NAME                all that was allocated while a range of the phase was open\n"
    "  line=FILE[:LINE], layer=PATH, role=NAME, made=PHASE    what such blocks held together\n"
    "  device=N, rank=N          only there\n"
    "Exit status 0: all within their limits; 1: one at least is beyond; 3: none is known to be beyond, "
    "but one at least could not be checked, because something was lost, the run was cut off, or the "
    "recording lacks it.",
    rows,
    call,
    COMMAND_OPTIONS()};
