/*
 * peak.c - `vramscope peak`: who held the bytes at the moment when a device's allocated memory was
 * greatest, or (--at oom) when memory ran out.
 *
 * The groups of every question sum to the peak to the byte; where they don't, the difference is a row of its
 * own.
 */
#include <inttypes.h>
#include <string.h>

#include "base/commands.h"
#include "base/wrap.h"
#include "show/ranks/ranks.h"
#include "read/symbols.h"
#include "read/ooms.h"
#include "base/units.h"
#include "peak_page.h"
#include "read/absent.h"

#define SORTS "bytes|count|name"

static const struct option_row rows[] = {
    {"by", 0, "line|layer|role|tensor|phase|category|library|stack|capture", ARG_TEXT,
     offsetof(struct peak_options, by), "this question alone (default: all of them)"},
    {"at", 0, "peak|oom|first-oom|largest-oom", ARG_TEXT, offsetof(struct peak_options, at),
     "the moment: peak (default), oom: the last out-of-memory that reached the program, the first, the "
     "largest"},
    CHOICE_ROWS(struct peak_options, choice, SORTS),
    {"why", 0, NULL, ARG_FLAG, offsetof(struct peak_options, why),
     "beside roles the rules that decided them, and what PyTorch says"},
    RELABEL_ROWS(struct peak_options, relabel),
    {"json", 0, NULL, ARG_FLAG, offsetof(struct peak_options, json), "for programs: see vramscope-peak(1)"},
    {"full", 0, NULL, ARG_FLAG, offsetof(struct peak_options, full),
     "every frame of a call stack, with its whole name"},
    {"bytes", 'b', NULL, ARG_FLAG, offsetof(struct peak_options, bytes),
     "exact bytes instead of rounded GiB"},
    {0}};

static const struct command_help help = {
    "peak", "[options] FILE...|DIR",
    "Who held the bytes when a device's allocated memory was at its peak, or when it ran out: by line of the "
    "program, by layer, by role, by tensor (element type and shape), by phase\n"
    "that made it, by category (framework blocks, direct driver allocations), by the library that asked, by "
    "call "
    "stack\n"
    "(innermost frame first).\n"
    "The rows of each table sum to the peak, to the byte; so do the parts of what was reserved beside it, "
    "and\n"
    "what the captures of CUDA graphs hold (--by=capture) to what was reserved.\n"
    "Exit status 3: shown, but events are missing, or the end of the run is not known to be there.",
    rows, false};

static const char *const moments[] = {"peak", "oom", "first-oom", "largest-oom", NULL};
static const int64_t moment_role[] = {0, OOM_LAST, OOM_FIRST, OOM_LARGEST};

/* ---- a file ---- */

static void show_device(const struct report *r, const struct device_report *d, const struct peak_options *o,
                        int only, struct json *j)
{
    struct peak_page p = {.t = r->trace, .o = o, .d = d};
    if (!d->allocated)
        return;
    if (j)
        peak_json(&p, only, j);
    else
        peak_text(&p, only);
}

static int show_devices(const struct report *r, const struct peak_options *o, int only, struct json *j)
{
    size_t shown = 0;
    for (size_t i = 0; i < r->device_count; i++) {
        if (o->choice.device != UNKNOWN && r->devices[i].device != o->choice.device)
            continue;
        if (!j && shown)
            putchar('\n');
        shown++;
        show_device(r, &r->devices[i], o, only, j);
    }
    if (!shown && o->choice.device != UNKNOWN)
        return complain("%s", absent_device(r->trace, o->choice.device));
    if (!shown && !j)
        puts(trace_no_device(r->trace));
    return EXIT_GOOD;
}

static int moment(const char *at)
{
    for (int i = 0; at && moments[i]; i++)
        if (!strcmp(at, moments[i]))
            return i;
    return at ? -1 : 0;
}

/* The same page for an out-of-memory: treats the allocations that lived then as the peak. */
static void show_oom(const struct oom_report *oom, struct trace *t, const struct peak_options *o, int only,
                     struct json *j)
{
    const struct trace_oom_kept *lead = oom->lead;
    int64_t bytes = lead->device < 0 ? oom->live_bytes : lead->framework + lead->direct;
    struct trace_peak then = {.device = lead->device, .bytes = bytes, .seq = lead->seq, .t = lead->t};
    struct device_report d = {.device = lead->device,
                              .allocated = &then,
                              .reserved_at_peak = lead->reserved,
                              .step_at_peak = lead->step,
                              .phase_at_peak = lead->phase,
                              .live = oom->live,
                              .live_count = oom->live_count,
                              .held_bytes = oom->live_bytes};
    struct peak_page p = {.t = t, .o = o, .d = &d, .oom = oom};
    if (j)
        peak_json(&p, only, j);
    else
        peak_text(&p, only);
}

static int at_oom(struct trace *t, int64_t role, const struct peak_options *o, int only, struct json *j)
{
    struct oom_report oom;
    int status = EXIT_GOOD;
    if (oom_report_load(&oom, t, role))
        status = complain("%s", t->why);
    else if (oom.lead)
        show_oom(&oom, t, o, only, j);
    else if (!j)
        puts("memory never ran out: vramscope peak shows the peak");
    oom_report_free(&oom);
    return status;
}

/* What the page shows: JSON has what is about the peak beside any question. */
static unsigned parts_of(const struct peak_options *o, int only)
{
    const unsigned beside = REPORT_HELD | REPORT_GROWTH | REPORT_SAVINGS | REPORT_RESIDUAL | REPORT_COSTS;
    if (moment(o->at) > 0)
        return 0;
    if (only == PEAK_CAPTURES)
        return REPORT_UNUSED | (o->json ? beside : 0);
    return only < 0 ? beside | REPORT_UNUSED : o->json ? beside : REPORT_HELD;
}

static int show_file(const char *file, const struct peak_options *o, int only, struct json *j, bool several,
                     struct ranks_seen *seen)
{
    struct trace t;
    struct report r;
    if (relabel_open(&t, file, &o->relabel))
        return complain("%s", t.why);
    ranks_seen_add(seen, &t);
    if (t.end != TRACE_END_RUNNING && (only < 0 || only == BY_STACK)) {
        char why[256]; /* ignored: frames without names are shown as module+offset */
        vs_symbols_fill(t.file, why, sizeof why);
    }
    t.oom_total = 0; /* not shown on this page */
    int status =
        report_load(&r, &t, parts_of(o, only)) || report_take_apart(&r) ? complain("%s", t.why) : EXIT_GOOD;
    report_file_begin(&t, file, several, j);
    int at = moment(o->at);
    if (!status)
        status = at > 0 ? at_oom(&t, moment_role[at], o, only, j) : show_devices(&r, o, only, j);
    if (!j && r.lost_events)
        printf("\nLOST: %s; the peak may have been higher%s\n", units_count(r.lost_events, "event").s,
               t.bound_count ? ", or lower" : "");
    if (!j)
        report_bounds_text(&t, stdout);
    report_file_end(j);
    if (!trace_whole(&t))
        status = exit_worse(status, EXIT_INCOMPLETE);
    report_free(&r);
    trace_close(&t);
    return status;
}

static int question(const char *by)
{
    for (int i = 0; by && peak_questions[i]; i++)
        if (!strcmp(by, peak_questions[i]))
            return i;
    return -1;
}

static int show_all(char *const *files, size_t n, const struct peak_options *o, int only,
                    struct ranks_seen *seen)
{
    struct json j;
    int status = EXIT_GOOD;
    json_open(&j, stdout);
    if (o->json) {
        json_document(&j);
        json_begin(&j, "files", '[');
    }
    for (size_t i = 0; i < n; i++)
        status = exit_worse(status, show_file(files[i], o, only, o->json ? &j : NULL, n > 1, seen));
    if (o->json) {
        json_end(&j);
        json_end(&j);
        json_close(&j);
    }
    return status;
}

int cmd_peak(int argc, char **argv)
{
    struct peak_options o = {.choice = CHOICE_NONE};
    char **operands, why[512];
    size_t count;
    int n = args_parse(&help, argc, argv, &o, &operands);
    if (n < 0)
        return n == -1 ? EXIT_GOOD : EXIT_USAGE;
    if (n == 0)
        return complain("peak: which file? vramscope peak FILE");
    int only = question(o.by);
    if (o.by && only < 0)
        return complain("peak: --by takes line, layer, role, tensor, phase, category, library, stack or "
                        "capture, not '%s'",
                        o.by);
    if (choice_check(&o.choice, "peak", SORTS))
        return EXIT_USAGE;
    if (moment(o.at) < 0)
        return complain("peak: --at takes peak, oom, first-oom or largest-oom, not '%s'", o.at);
    if (relabel_check(&o.relabel, why, sizeof why))
        return complain("peak: %s", why);
    char **files = trace_files(operands, (size_t)n, &count, why, sizeof why);
    o.relabel.several = files && count > 1;
    if (!files || (!o.relabel.process && trace_spread(&files, &count, why, sizeof why)))
        return complain("%s", why);
    if (!o.json)
        wrap_page_begin(false);
    struct ranks_seen seen = {0};
    int status = show_all(files, count, &o, only, &seen);
    wrap_page_end();
    bool tell = status != EXIT_USAGE && (count > (size_t)n || trace_directory(operands, (size_t)n));
    status = exit_worse(status, ranks_seen_end(&seen, tell));
    trace_free_files(files, count);
    return status;
}
