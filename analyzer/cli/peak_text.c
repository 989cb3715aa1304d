/* peak_text.c - `vramscope peak` of a device as text. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/page.h"
#include "show/report/parts.h"
#include "analysis/layers.h"
#include "show/report/stack.h"
#include "show/report/unused.h"
#include "base/shown.h"
#include "base/table.h"
#include "base/units.h"
#include "peak_page.h"

/* Prints the program's own line first, because the frames inside of it are the framework's.  Returns the
 * number of frames that are not shown. */
static size_t print_stack(const struct peak_page *p, const struct holder *h)
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

static const char *whole_name(const struct peak_page *p)
{
    return p->d->allocated->at_least ? "known of it" : p->oom ? "allocated then" : "peak allocated";
}

/* Prints the rows beyond --top as one, the unexplained bytes, and the sum. */
static void closing_rows(struct table *table, const struct peak_page *p, int64_t shown, int64_t held,
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

static void print_groups(const struct peak_page *p, enum holder_by by)
{
    const char *header[] = {xformat("by %s", peak_questions[by]), "held", "share", "allocations"};
    struct table table;
    size_t n;
    struct holder *groups = peak_groups(p, by, &n);
    size_t shown = choice_rows(&p->o->choice, n, PEAK_ROWS);
    int64_t sum = 0;
    peak_sort_groups(p, groups, n, by);
    table_init(&table, "<>>>", header);
    table_drops(&table, "--21");
    for (size_t i = 0; i < shown; i++) {
        char *name = peak_row_name(p, &groups[i], by);
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

/* A table of a question that nothing was recorded of says what another one says, with longer names. */
static void print_no_tensors(const struct peak_page *p)
{
    putchar('\n');
    wrap_print(stdout, 2, 4, "what tensors blocks were made for is not in %s: --by=line",
               trace_is_imported(p->t) ? "an import" : "this recording");
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

static void layer_row(struct table *table, const char *name, int64_t bytes, const struct peak_page *p)
{
    struct layer_row row = {.name = (char *)name, .bytes = bytes, .layers = 1};
    layer_cells(table, &row, p->d->allocated->bytes, p->o->bytes, false);
}

/* Layers are nested: the outermost rows and the rows after the layers sum to the peak.  REST: bytes that were
 * made in no layer. */
static struct table layers_table(const struct peak_page *p, const struct layer_row *tree, size_t n,
                                 int64_t rest, bool classes)
{
    static const char *const header[] = {"by layer", "held", "share", "each"};
    int64_t peak = p->d->allocated->bytes, told = 0;
    struct table table;
    table_init(&table, "<>>>", header);
    table_drops(&table, "--21");
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
static void print_layers(const struct peak_page *p)
{
    int64_t peak = p->d->allocated->bytes, rest;
    bool all = p->o->choice.top == 0;
    size_t n;
    struct layer_row *tree = layers_tree(p->d->live, p->d->live_count, all ? 0 : peak / LAYER_LEAST,
                                         all ? 0 : LAYER_ROWS, &n, &rest);
    struct table table = layers_table(p, tree, n, rest, true);
    bool narrow = table_needs(&table) + 2 > page_room();
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

static void capture_row(struct table *table, const char *name, int64_t reserved, int64_t whole,
                        int64_t allocated, bool exact)
{
    table_cell(table, "%s", name);
    table_cell(table, "%s", units_bytes(reserved, exact).s);
    table_cell(table, "%s", units_share(reserved, whole).s);
    table_cell(table, "%s", allocated == UNKNOWN ? "" : units_bytes(allocated, exact).s);
}

/* Each capture of a CUDA graph: what it asked of the driver and its pool still holds, and what lives there.
 */
static void print_captures(const struct peak_page *p)
{
    static const char *const header[] = {"by capture", "reserved", "share", "allocated"};
    const struct unused *u = peak_captures(p);
    struct table table;
    int64_t rest = u->reserved;
    if (!u->capture_count) {
        puts("\n  no capture of a CUDA graph was seen up to then (vramscope run sees PyTorch's)");
        return;
    }
    table_init(&table, "<>>>", header);
    for (size_t i = 0; i < u->capture_count; i++) {
        char *name = unused_capture_name(p->t, &u->captures[i]);
        capture_row(&table, name, u->captures[i].reserved, u->reserved, u->captures[i].allocated,
                    p->o->bytes);
        rest -= u->captures[i].reserved;
        free(name);
    }
    capture_row(&table, "in no capture", rest, u->reserved, UNKNOWN, p->o->bytes);
    table_rule(&table);
    capture_row(&table, u == peak_unused(p) ? "reserved then" : "reserved at the most", u->reserved,
                u->reserved, UNKNOWN, p->o->bytes);
    putchar('\n');
    table_print(&table, stdout, 2);
    table_free(&table);
}

static void print_unused(const struct peak_page *p)
{
    char *most = xformat("at the most, at %s,", units_time(p->d->reserved ? p->d->reserved->t : UNKNOWN).s);
    putchar('\n');
    report_unused_text(p->t, peak_unused(p), "then", UNUSED_ALL, stdout, p->o->bytes);
    if (!p->oom)
        report_unused_text(p->t, &p->d->unused_most, most, UNUSED_ALL, stdout, p->o->bytes);
    free(most);
}

static void print_question(const struct peak_page *p, enum holder_by by)
{
    static const struct {
        enum holder_by by;
        const char *part;
    } parts[] = {{BY_LINE, "lines"},
                 {BY_LAYER, "layers"},
                 {BY_ROLE, "roles"},
                 {BY_PHASE, "phases"},
                 {BY_TENSOR, "tensors"}};
    if (by == BY_LAYER)
        print_layers(p);
    else if (by == BY_TENSOR && !peak_has_any(p, by))
        print_no_tensors(p);
    else
        print_groups(p, by);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (parts[i].by == by)
            report_unproven(p->t, parts[i].part, 2, stdout);
}

void peak_text(const struct peak_page *p)
{
    const struct device_report *d = p->d;
    int only = p->o->only;
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
    report_away_text(d, stdout, p->o->bytes);
    for (int by = 0; by < PEAK_QUESTIONS; by++)
        if (by == only || (only < 0 && peak_has_any(p, (enum holder_by)by)))
            print_question(p, (enum holder_by)by);
    if (only == PEAK_CAPTURES || (only < 0 && peak_captures(p)->capture_count))
        print_captures(p);
    if (p->o->why && (only < 0 || only == BY_ROLE))
        report_rules_text(p->t, d->device, p->oom ? p->oom->lead->seq : UNKNOWN, d->allocated->bytes, stdout,
                          p->o->bytes);
    if (only < 0 && p->oom) {
        oom_report_device_text(p->oom, stdout, p->o->bytes);
        print_unused(p);
    } else if (only < 0) {
        print_unused(p);
        report_growth_text(p->t, &d->growth, stdout, p->o->bytes, p->o->full);
        report_savings_text(&d->savings, stdout, p->o->bytes);
        report_residual_text(d, stdout, p->o->bytes);
    }
}
