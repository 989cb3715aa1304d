/*
 * peak.c - `vramscope peak`: who held the bytes when a device's allocated memory was greatest, or (--at
 * oom) when memory ran out.  The groups of every question sum to the peak to the byte; what the
 * file lacks of it is a row of its own.
 */
#include "base/args.h"
#include "read/ooms.h"
#include "base/units.h"
#include "peak_page.h"

#include <stdlib.h>

static const struct option_row rows[] = {
    {"by", 0, "line|layer|role|tensor|phase|category|library|stack|capture", ARG_INDEX, AT(only),
     "this question alone (default: all of them)"},
    {"at", 0, "peak|oom|first-oom|largest-oom", ARG_INDEX, AT(at),
     "the moment: peak (default), oom: the last out-of-memory that reached the program, the first, the "
     "largest"},
    CHOICE_ROWS("bytes|count|name"),
    {"why", 0, NULL, ARG_FLAG, AT(why), "beside roles the rules that decided them, and what PyTorch says"},
    RELABEL_ROWS,
    {"json", 0, NULL, ARG_FLAG, AT(json), "for programs: see vramscope-peak(1)"},
    {"full", 0, NULL, ARG_FLAG, AT(full), "every frame of a call stack, with its whole name"},
    {"bytes", 'b', NULL, ARG_FLAG, AT(bytes), "exact bytes instead of rounded GiB"},
    {0}};

static const int64_t moment_role[] = {0, OOM_LAST, OOM_FIRST, OOM_LARGEST};

/* ---- a file ---- */

static int show_device(const struct report *r, const struct device_report *d, const void *options,
                       struct json *j)
{
    struct peak_page p = {.t = r->trace, .o = options, .d = d};
    if (d->allocated && j)
        peak_json(&p, j);
    else if (d->allocated)
        peak_text(&p);
    return EXIT_GOOD;
}

/* The same page for an out-of-memory: treats the allocations that lived then as the peak. */
static void show_oom(const struct oom_report *oom, struct trace *t, const struct options *o, struct json *j)
{
    const struct trace_oom_kept *lead = oom->lead;
    int64_t bytes = lead->device < 0 ? oom->live_bytes : lead->framework + lead->direct;
    struct trace_peak then = {.device = lead->device, .bytes = bytes, .seq = lead->seq, .t = lead->t};
    struct device_report d = {.device = lead->device,
                              .allocated = &then,
                              .reserved_at_peak = lead->reserved,
                              .away_at_peak = lead->away,
                              .away_most = lead->away,
                              .step_at_peak = lead->step,
                              .phase_at_peak = lead->phase,
                              .live = oom->live,
                              .live_count = oom->live_count,
                              .held_bytes = oom->live_bytes};
    struct peak_page p = {.t = t, .o = o, .d = &d, .oom = oom};
    if (lead->away > 0 && trace_away_parts(t, lead->device, lead->seq, &d.away_parts, &d.away_part_count))
        d.away_part_count = 0;
    d.away_most_parts = d.away_parts;
    d.away_most_count = d.away_part_count;
    if (j)
        peak_json(&p, j);
    else
        peak_text(&p);
    free(d.away_parts);
}

static int at_oom(struct trace *t, int64_t role, const struct options *o, struct json *j)
{
    struct oom_report oom;
    int status = EXIT_GOOD;
    if (oom_report_load(&oom, t, role))
        status = complain("%s", t->why);
    else if (oom.lead)
        show_oom(&oom, t, o, j);
    else if (!j)
        puts("memory never ran out: vramscope peak shows the peak");
    oom_report_free(&oom);
    return status;
}

/* What the page shows: JSON has what is about the peak beside any question. */
static unsigned parts_of(const struct options *o)
{
    const unsigned beside = REPORT_HELD | REPORT_GROWTH | REPORT_SAVINGS | REPORT_RESIDUAL | REPORT_COSTS;
    if (o->at)
        return 0;
    if (o->only == PEAK_CAPTURES)
        return REPORT_UNUSED | (o->json ? beside : 0);
    return o->only < 0 ? beside | REPORT_UNUSED : o->json ? beside : REPORT_HELD;
}

static int show_file(struct report *r, const void *options, struct json *j)
{
    const struct options *o = options;
    struct trace *t = r->trace;
    int status = report_take_apart(r) ? complain("%s", t->why)
                 : o->at              ? at_oom(t, moment_role[o->at], o, j)
                                      : files_devices(r, o->choice.device, show_device, o, j);
    if (!j && r->lost_events)
        printf("\nLOST: %s; the peak may have been higher%s\n", units_count(r->lost_events, "event").s,
               t->bound_count ? ", or lower" : "");
    if (!j)
        report_bounds_text(t, stdout);
    return status;
}

static int call(void *options, char **operands, int n)
{
    struct options *o = options;
    bool stacks = o->only < 0 || o->only == BY_STACK;
    return files_show(&(struct file_page){"peak", &o->relabel, o->json, stacks, parts_of(o), show_file, o},
                      operands, n);
}

const struct command command_peak = {
    "peak",
    "who held the bytes at the peak: line, layer, role, phase, library, call stack",
    "[options] FILE...|DIR",
    "Who held the bytes when a device's allocated memory was at its peak, or when it ran out: by line of "
    "the program, by layer, by role, by tensor (element type and shape), by phase that made it, by "
    "category (framework blocks, direct driver allocations), by the library that asked, by call stack "
    "(innermost frame first).\n"
    "The rows of each table sum to the peak, to the byte; those of --by=capture sum to what was reserved, "
    "and the parts of "
    "what was reserved and not allocated to that.\n"
    "Exit status 3: shown, but events are missing, or the end of the run is not known to be there.",
    rows,
    call,
    COMMAND_OPTIONS(.only = -1, .choice = CHOICE_NONE)};
