/*
 * peak.c - `vramscope peak`: who held the bytes at the moment when a device's allocated memory was
 * greatest, or (--at oom) when memory ran out.
 *
 * The groups of every question sum to the peak to the byte; where they don't, the difference is a row of its
 * own.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/args.h"
#include "base/choice.h"
#include "base/commands.h"
#include "base/page.h"
#include "base/wrap.h"
#include "show/report/frames.h"
#include "show/report/parts.h"
#include "show/report/rules.h"
#include "trace/journal/journal.h"
#include "analysis/layers.h"
#include "analysis/relabel.h"
#include "show/ranks/ranks.h"
#include "show/report/report.h"
#include "show/report/stack.h"
#include "base/shown.h"
#include "read/symbols.h"
#include "base/table.h"
#include "base/units.h"

struct options {
    bool json, bytes, full, why;
    const char *by, *at;
    struct choice choice;
    struct relabel relabel;
};

#define SORTS "bytes|count|name"
#define ROWS  10 /* of each table, unless --top says otherwise */

static const struct option_row rows[] = {
    {"by", 0, "line|layer|role|tensor|phase|category|library|stack", ARG_TEXT, offsetof(struct options, by),
     "this question alone (default: all of them)"},
    {"at", 0, "peak|oom|first-oom|largest-oom", ARG_TEXT, offsetof(struct options, at),
     "the moment: peak (default), oom: the last out-of-memory that reached the program, the first, the "
     "largest"},
    CHOICE_ROWS(struct options, choice, SORTS),
    {"why", 0, NULL, ARG_FLAG, offsetof(struct options, why),
     "beside roles the rules that decided them, and what PyTorch says"},
    RELABEL_ROWS(struct options, relabel),
    {"json", 0, NULL, ARG_FLAG, offsetof(struct options, json), "for programs: see vramscope-peak(1)"},
    {"full", 0, NULL, ARG_FLAG, offsetof(struct options, full),
     "every frame of a call stack, with its whole name"},
    {"bytes", 'b', NULL, ARG_FLAG, offsetof(struct options, bytes), "exact bytes instead of rounded GiB"},
    {0}};

static const struct command_help help = {
    "peak", "[options] FILE...|DIR",
    "Who held the bytes when a device's allocated memory was at its peak, or when it ran out: by line of the "
    "program, by layer, by role, by tensor (element type and shape), by phase\n"
    "of birth, by category (framework blocks, direct driver allocations), by the library that asked, by call "
    "stack\n"
    "(innermost frame first).\n"
    "The rows of each table sum to the peak, to the byte.\n"
    "Exit status 3: shown, but events are missing, or the end of the run is not known to be there.",
    rows, false};

static const char *const questions[] = {"line",     "layer",   "role",  "tensor", "phase",
                                        "category", "library", "stack", NULL};
enum { QUESTIONS = sizeof questions / sizeof *questions - 1 };
static const char *const moments[] = {"peak", "oom", "first-oom", "largest-oom", NULL};
static const int64_t moment_role[] = {0, OOM_LAST, OOM_FIRST, OOM_LARGEST};

struct page { /* one device, and how to show it */
    struct trace *t;
    const struct options *o;
    const struct device_report *d;
    const struct oom_report *oom; /* NULL: at the peak */
};

static char *nameless(const struct page *p, const struct holder *h)
{
    return holders_nameless(h, p->d->live, p->d->live_count, trace_is_imported(p->t));
}

static char *tensor_name(const struct holder *h)
{
    char *line = h->tensor.line ? line_text(h->tensor.line) : NULL, *name = holders_tensor_name(h, line);
    free(line);
    return name;
}

static struct holder *groups_of(const struct page *p, enum holder_by by, size_t *n)
{
    if (by == BY_TENSOR)
        return holders_of_tensors(p->t, p->d->device, p->oom ? p->oom->lead->seq : UNKNOWN, n);
    return holders_group(p->d->live, p->d->live_count, by, n);
}

static char *group_name(const struct page *p, const struct holder *h, enum holder_by by)
{
    switch (by) {
    case BY_LINE:
        return h->line ? line_text(h->line) : holders_lineless(h);
    case BY_LAYER:
        return xstrdup(h->layer ? h->layer : "no layer");
    case BY_ROLE:
        return h->role ? xstrdup(h->role)
                       : xformat("%s (not followed: %s)", h->category ? h->category : "unknown",
                                 trace_is_imported(p->t) ? "a snapshot has no roles" : "run --access");
    case BY_TENSOR:
        return tensor_name(h);
    case BY_PHASE:
        return xstrdup(h->phase ? h->phase : "unknown");
    case BY_CATEGORY:
        return xstrdup(h->category ? h->category : "unknown");
    case BY_LIBRARY:
        return h->owner ? xstrdup(h->owner) : nameless(p, h);
    case BY_STACK:
        break;
    }
    return h->stack ? xformat("stack %" PRId64, h->stack) : nameless(p, h);
}

/* The name in the table: a call stack's number says nothing alone, so the line of Python stands beside it, or
 * the innermost informative function. */
static char *row_name(const struct page *p, const struct holder *h, enum holder_by by)
{
    char *name = group_name(p, h, by);
    if (by != BY_STACK || !h->stack)
        return name;
    char *place = stack_where(p->t, h->stack), *both = xformat("%s, %s", name, place);
    free(name);
    free(place);
    return both;
}

/* Greatest first, as they come, or by how many they are, or by name. */
static void sort_groups(const struct page *p, struct holder *groups, size_t n, enum holder_by by)
{
    bool names = choice_sorts(&p->o->choice, "name"), counts = choice_sorts(&p->o->choice, "count");
    for (size_t i = 1; (names || counts) && i < n; i++) {
        struct holder group = groups[i];
        char *name = group_name(p, &group, by);
        size_t at = i;
        for (; at > 0; at--) {
            char *other = group_name(p, &groups[at - 1], by);
            bool before = counts ? group.count > groups[at - 1].count : strcmp(name, other) < 0;
            free(other);
            if (!before)
                break;
            groups[at] = groups[at - 1];
        }
        groups[at] = group;
        free(name);
    }
}

/* ---- text ---- */

/* Prints the program's own line first, because the frames inside of it are the framework's.  Returns the
 * number of frames that are not shown. */
static size_t print_stack(const struct page *p, const struct holder *h)
{
    char *line = stack_line_text(p->t, h->stack);
    printf("\n      stack %" PRId64 ": %s in %s%s%s\n", h->stack, units_bytes(h->bytes, p->o->bytes).s,
           units_count(h->count, "allocation").s, *line ? "," : "", line);
    free(line);
    return stack_print(p->t, h->stack, 0, p->o->full, 8, stdout);
}

static void group_row(struct table *table, const char *name, int64_t bytes, int64_t count, int64_t whole,
                      bool exact)
{
    table_cell(table, "%s", name);
    table_cell(table, "%s", units_bytes(bytes, exact).s);
    table_cell(table, "%s", units_share(bytes, whole).s);
    if (count == UNKNOWN)
        table_cell(table, "%s", "");
    else
        table_cell(table, "%" PRId64, count);
}

static const char *whole_name(const struct page *p)
{
    return p->d->allocated->at_least ? "known of it" : p->oom ? "allocated then" : "peak allocated";
}

/* Prints the rows beyond --top as one, the unexplained bytes, and the sum. */
static void closing_rows(struct table *table, const struct page *p, int64_t shown, int64_t held,
                         size_t hidden)
{
    int64_t peak = p->d->allocated->bytes;
    char *more = xformat("%zu more", hidden);
    if (hidden)
        group_row(table, more, held - shown, UNKNOWN, peak, p->o->bytes);
    if (held != peak)
        group_row(table, "not in the file (unknown)", peak - held, UNKNOWN, peak, p->o->bytes);
    free(more);
    table_rule(table);
    group_row(table, whole_name(p), peak, UNKNOWN, peak, p->o->bytes);
}

static void print_groups(const struct page *p, enum holder_by by)
{
    const char *header[] = {xformat("by %s", questions[by]), "held", "share", "allocations"};
    struct table table;
    size_t n;
    struct holder *groups = groups_of(p, by, &n);
    size_t shown = choice_rows(&p->o->choice, n, ROWS);
    int64_t sum = 0;
    sort_groups(p, groups, n, by);
    table_init(&table, "<>>>", header);
    for (size_t i = 0; i < shown; i++) {
        char *name = row_name(p, &groups[i], by);
        group_row(&table, name, groups[i].bytes, groups[i].count, p->d->allocated->bytes, p->o->bytes);
        sum += groups[i].bytes;
        free(name);
    }
    closing_rows(&table, p, sum, p->d->held_bytes, n - shown);
    putchar('\n');
    table_print(&table, stdout, 2);
    size_t hidden = 0;
    for (size_t i = 0; by == BY_STACK && i < shown; i++)
        hidden += groups[i].stack ? print_stack(p, &groups[i]) : 0;
    stack_print_hidden(hidden, stdout);
    table_free(&table);
    free((char *)header[0]);
    free(groups);
}

/* Whether a page has anything to show: lines, layers, roles and tensors exist only in some recordings, and
 * are left out otherwise unless they were requested. */
static bool has_any(const struct page *p, enum holder_by by)
{
    const struct device_report *d = p->d;
    if (by == BY_TENSOR)
        return trace_knows_tensors(p->t);
    for (size_t i = 0; i < d->live_count; i++)
        if (by == BY_LINE    ? d->live[i].line
            : by == BY_LAYER ? d->live[i].layer
            : by == BY_ROLE  ? d->live[i].role
                             : "")
            return true;
    return false;
}

enum { LAYER_ROWS = 80, LAYER_LEAST = 500 }; /* a row has at least 1 / LAYER_LEAST of the peak */

/* The sizes of several layers in one row: as one text if they print alike, with one unit if they have the
 * same. */
static void spread_cell(struct table *table, int64_t least, int64_t most, bool exact)
{
    struct text low = units_bytes(least, exact), high = units_bytes(most, exact);
    const char *of_low = strrchr(low.s, ' '), *of_high = strrchr(high.s, ' ');
    bool one_unit = of_low && of_high && !strcmp(of_low, of_high);
    if (strcmp(low.s, high.s) == 0)
        table_cell(table, "%s", high.s);
    else
        table_cell(table, "%.*s to %s", (int)(one_unit ? (size_t)(of_low - low.s) : strlen(low.s)), low.s,
                   high.s);
}

/* CLASSES: a layer's class stands behind its name. */
static void layer_cells(struct table *table, const struct layer_row *r, int64_t whole, bool exact,
                        bool classes)
{
    char *type = classes && r->type ? xformat(" (%s)", shown(r->type)) : xstrdup("");
    if (r->layers > 1)
        table_cell(table, "%*s%s x%" PRId64 "%s", 2 * r->depth, "", shown(r->name), r->layers, type);
    else
        table_cell(table, "%*s%s%s", 2 * r->depth, "", shown(r->name), type);
    free(type);
    table_cell(table, "%s", units_bytes(r->bytes, exact).s);
    table_cell(table, "%s", units_share(r->bytes, whole).s);
    if (r->layers == 1)
        table_cell(table, "%s", "");
    else
        spread_cell(table, r->least, r->most, exact);
}

static void layer_row(struct table *table, const char *name, int64_t bytes, const struct page *p)
{
    struct layer_row row = {.name = (char *)name, .bytes = bytes, .layers = 1};
    layer_cells(table, &row, p->d->allocated->bytes, p->o->bytes, false);
}

/* Layers are nested: the outermost rows and the rows after the layers sum to the peak.  REST: bytes that were
 * made in no layer. */
static struct table layers_table(const struct page *p, const struct layer_row *tree, size_t n, int64_t rest,
                                 bool classes)
{
    static const char *const header[] = {"by layer", "held", "share", "each"};
    int64_t peak = p->d->allocated->bytes, told = 0;
    struct table table;
    table_init(&table, "<>>>", header);
    for (size_t i = 0; i < n; i++) {
        layer_cells(&table, &tree[i], peak, p->o->bytes, classes);
        told += tree[i].depth == 0 ? tree[i].bytes : 0;
    }
    int64_t smaller = p->d->held_bytes - rest - told;
    if (smaller > 0)
        layer_row(&table, "smaller ones", smaller, p);
    if (rest > 0)
        layer_row(&table, "in no layer", rest, p);
    if (p->d->held_bytes != peak)
        layer_row(&table, "not in the file (unknown)", peak - p->d->held_bytes, p);
    table_rule(&table);
    layer_row(&table, whole_name(p), peak, p);
    return table;
}

/* On a narrow page the classes go before a layer's name is cut: the name says where it is. */
static void print_layers(const struct page *p)
{
    int64_t peak = p->d->allocated->bytes, rest;
    bool all = p->o->choice.top == 0;
    size_t n;
    struct layer_row *tree = layers_tree(p->d->live, p->d->live_count, all ? 0 : peak / LAYER_LEAST,
                                         all ? 0 : LAYER_ROWS, &n, &rest);
    struct table table = layers_table(p, tree, n, rest, true);
    bool narrow = table_needs(&table) + 2 > page_width();
    if (narrow) {
        table_free(&table);
        table = layers_table(p, tree, n, rest, false);
    }
    putchar('\n');
    table_print(&table, stdout, 2);
    if (narrow)
        puts("  (no room for: each layer's class; COLUMNS=200 shows it)");
    table_free(&table);
    layers_free(tree, n);
}

static void page_text(const struct page *p, int only)
{
    const struct device_report *d = p->d;
    char *oom = p->oom ? oom_report_line(p->oom, p->o->bytes) : NULL;
    if (oom)
        printf("%s\n", oom);
    free(oom);
    printf("device %" PRId64 ": %s %s %s, %s", d->device, units_bytes(d->allocated->bytes, p->o->bytes).s,
           d->allocated->at_least ? "known to be allocated, beside pools whose use is unknown," : "allocated",
           p->oom ? "when memory ran out" : "at the peak", units_time(d->allocated->t).s);
    if (d->step_at_peak != UNKNOWN)
        printf(", step %" PRId64, d->step_at_peak);
    if (d->phase_at_peak && !strcmp(d->phase_at_peak, "none"))
        puts(", outside any phase");
    else
        printf(", in %s\n", d->phase_at_peak ? shown(d->phase_at_peak) : "an unknown phase");
    for (int by = 0; by < QUESTIONS; by++)
        if (by == only || (only < 0 && has_any(p, (enum holder_by)by)))
            by == BY_LAYER ? print_layers(p) : print_groups(p, (enum holder_by)by);
    if (p->o->why && (only < 0 || only == BY_ROLE))
        report_rules_text(p->t, d->device, p->oom ? p->oom->lead->seq : UNKNOWN, d->allocated->bytes, stdout,
                          p->o->bytes);
    if (only < 0 && p->oom) {
        oom_report_device_text(p->oom, stdout, p->o->bytes);
    } else if (only < 0) {
        report_growth_text(p->t, &d->growth, stdout, p->o->bytes, p->o->full);
        report_savings_text(&d->savings, stdout, p->o->bytes);
        report_residual_text(&d->residual, stdout, p->o->bytes);
    }
}

/* ---- JSON ---- */

static const char *frame_kind(const struct trace_frame *f)
{
    switch (f->kind) {
    case VS_FRAME_PYTHON:
        return "python";
    case VS_FRAME_NODE:
        return "autograd";
    case VS_FRAME_LAYER:
        return "layer";
    default:
        return "native";
    }
}

static void stack_json(struct trace *t, int64_t id, struct json *j)
{
    struct trace_frame *frames;
    size_t n;
    json_begin(j, "frames", '[');
    if (id && !trace_stack(t, id, &frames, &n)) {
        for (size_t i = 0; i < n; i++) {
            json_begin(j, NULL, '{');
            json_text(j, "kind", frame_kind(&frames[i]));
            json_text(j, "module", frames[i].module);
            json_int(j, "offset", frames[i].offset);
            json_text(j, "function", frames[i].function);
            json_text(j, "file", frames[i].file);
            json_int(j, "line", frames[i].line);
            json_end(j);
        }
        free(frames);
    }
    json_end(j);
}

static void tensor_json(const struct trace_tensor *x, struct json *j)
{
    json_text(j, "made_for", x->made_for);
    json_text(j, "element_type", x->element_type);
    json_text(j, "shape", x->shape);
    json_int(j, "request_bytes", x->request);
    json_text(j, "line", x->line);
    json_text(j, "role", x->role);
}

static void groups_json(const struct page *p, enum holder_by by, struct json *j)
{
    size_t n;
    struct holder *groups = groups_of(p, by, &n);
    char *name = xformat("by_%s", questions[by]);
    sort_groups(p, groups, n, by);
    json_begin(j, name, '[');
    for (size_t i = 0; i < choice_rows(&p->o->choice, n, ROWS); i++) {
        const struct holder *h = &groups[i];
        json_begin(j, NULL, '{');
        if (by == BY_STACK)
            json_int(j, "stack", h->stack);
        else if (by == BY_TENSOR)
            tensor_json(&h->tensor, j);
        else
            json_text(j, questions[by],
                      by == BY_LINE       ? h->line
                      : by == BY_LAYER    ? h->layer
                      : by == BY_ROLE     ? h->role
                      : by == BY_PHASE    ? h->phase
                      : by == BY_CATEGORY ? h->category
                                          : h->owner);
        if (by == BY_LINE || by == BY_LAYER || by == BY_ROLE || by == BY_TENSOR || by == BY_LIBRARY ||
            by == BY_STACK) /* for rows without a line, library or stack */
            json_text(j, "category", h->category);
        json_int(j, "size_bytes", groups[i].bytes);
        json_int(j, "allocations", groups[i].count);
        if (by == BY_STACK)
            stack_json(p->t, groups[i].stack, j);
        json_end(j);
    }
    json_end(j);
    free(name);
    free(groups);
}

static void page_json(const struct page *p, int only, struct json *j)
{
    const struct device_report *d = p->d;
    json_begin(j, NULL, '{');
    json_text(j, "at", p->oom ? "oom" : "peak");
    if (p->oom)
        oom_report_json(p->oom, p->t, j);
    json_int(j, "device", d->device);
    json_int(j, "allocated_bytes", trace_peak_bytes(d->allocated));
    json_int(j, "known_bytes", d->allocated->bytes);
    json_int(j, "held_bytes", d->held_bytes);
    json_int(j, "reserved_then_bytes", d->reserved_at_peak);
    json_int(j, "t_ns", d->allocated->t);
    json_int(j, "step", d->step_at_peak);
    json_text(j, "phase", d->phase_at_peak);
    for (int by = 0; by < QUESTIONS; by++)
        if (only < 0 || by == only)
            groups_json(p, (enum holder_by)by, j);
    if (only < 0 || only == BY_ROLE) {
        report_parts_json(d->live, d->live_count, j);
        if (p->o->why)
            report_rules_json(p->t, d->device, p->oom ? p->oom->lead->seq : UNKNOWN, j);
    }
    if (!p->oom) { /* these are about the peak */
        report_growth_json(p->t, &d->growth, j);
        report_savings_json(&d->savings, j);
        report_residual_json(&d->residual, j);
    }
    json_end(j);
}

/* ---- a file ---- */

static void show_device(const struct report *r, const struct device_report *d, const struct options *o,
                        int only, struct json *j)
{
    struct page p = {.t = r->trace, .o = o, .d = d};
    if (!d->allocated)
        return;
    if (j)
        page_json(&p, only, j);
    else
        page_text(&p, only);
}

static int show_devices(const struct report *r, const struct options *o, int only, struct json *j)
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
        return complain("%s has nothing on device %" PRId64, r->trace->path, o->choice.device);
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
static void show_oom(const struct oom_report *oom, struct trace *t, const struct options *o, int only,
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
    struct page p = {.t = t, .o = o, .d = &d, .oom = oom};
    if (j)
        page_json(&p, only, j);
    else
        page_text(&p, only);
}

static int at_oom(struct trace *t, int64_t role, const struct options *o, int only, struct json *j)
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

static int show_file(const char *file, const struct options *o, int only, struct json *j, bool several,
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
    int status = report_load(&r, &t) ? complain("%s", t.why) : EXIT_GOOD;
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
    for (int i = 0; by && questions[i]; i++)
        if (!strcmp(by, questions[i]))
            return i;
    return -1;
}

static int show_all(char *const *files, size_t n, const struct options *o, int only, struct ranks_seen *seen)
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
    struct options o = {.choice = CHOICE_NONE};
    char **operands, why[512];
    size_t count;
    int n = args_parse(&help, argc, argv, &o, &operands);
    if (n < 0)
        return n == -1 ? EXIT_GOOD : EXIT_USAGE;
    if (n == 0)
        return complain("peak: which file? vramscope peak FILE");
    int only = question(o.by);
    if (o.by && only < 0)
        return complain("peak: --by takes line, layer, role, phase, category, library or stack, not '%s'",
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
