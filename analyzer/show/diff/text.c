/*
 * text.c - two runs on a screen of 80 columns: what can't be compared, and for each device first the change
 * of the peak, by role, layer and line, then each phase.
 */
#include <stdlib.h>
#include <string.h>

#include "diff.h"
#include "plot/picture.h"
#include "base/shown.h"
#include "base/table.h"
#include "base/units.h"
#include "base/page.h"

#define B(n)  units_bytes(n, exact).s
#define LINES 6

struct page {
    const struct diff *d;
    const struct diff_device *x;
    FILE *out;
    bool exact;
};

/* ---- the runs ---- */

static void print_side(const struct diff *d, int side, FILE *out)
{
    const struct diff_side *s = &d->side[side];
    const struct trace *t = &s->trace;
    char *title = t->process.command ? title_of_command(t->process.command) : xstrdup("unknown command");
    fprintf(out, "%c  %s\n   %s\n   %s", "AB"[side], shown(t->path), shown(title),
            units_time(t->t_last == UNKNOWN ? 0 : t->t_last).s);
    if (t->steps > 0)
        fprintf(out, ", %s", units_count(t->steps, "step").s);
    fprintf(out, ", started %s\n", units_date(t->process.start_realtime_ns).s);
    char *labels = trace_run_labels(t);
    if (labels)
        fprintf(out, "   %s\n", shown(labels));
    free(labels);
    if (s->file_count > 1 && s->shown->rank != UNKNOWN)
        fprintf(out, "   the highest of %s: rank %lld\n", units_count((int64_t)s->file_count, "file").s,
                (long long)s->shown->rank);
    else if (s->file_count > 1)
        fprintf(out, "   the highest of %s\n", units_count((int64_t)s->file_count, "file").s);
    free(title);
}

/* ---- tables of A, B, B - A ---- */

static const char *cell(int64_t value, bool exact, struct text *buffer)
{
    *buffer = units_bytes(value, exact);
    return value == UNKNOWN ? "-" : buffer->s;
}

static void bytes_cells(struct table *t, int64_t a, int64_t b, const char *mark_a, const char *mark_b,
                        bool exact)
{
    struct text text;
    table_cell(t, "%s%s", a == UNKNOWN ? "" : mark_a, cell(a, exact, &text));
    table_cell(t, "%s%s", b == UNKNOWN ? "" : mark_b, cell(b, exact, &text));
    table_cell(t, "%s", units_bytes_change(compare_change(a, b), exact).s);
    table_cell(t, "%s", units_change(a, b).s);
}

static void bytes_row(struct table *t, const char *name, int64_t a, int64_t b, bool exact)
{
    table_cell(t, "%s", name);
    bytes_cells(t, a, b, "", "", exact);
}

static void init(struct table *t, const char *what)
{
    const char *header[] = {what, "A", "B", "B - A", ""};
    table_init(t, "<>>>>", header);
    t->changes = true;
}

static void print(struct table *t, const struct page *p)
{
    fputc('\n', p->out);
    table_print(t, p->out, 2);
    table_free(t);
}

/* Whether reserved equals allocated, as without a caching allocator; then a second table would add
 * nothing. */
static bool reserved_as_allocated(const struct page *p)
{
    struct comparison a = diff_phases(p->d, p->x, DIFF_ALLOCATED), r = diff_phases(p->d, p->x, DIFF_RESERVED);
    bool same = true;
    for (size_t i = 0; i < a.count; i++) /* both have the same rows */
        same = same && a.rows[i].value[0] == r.rows[i].value[0] && a.rows[i].value[1] == r.rows[i].value[1];
    compare_free(&a);
    compare_free(&r);
    return same;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct compared *)a)->name, ((const struct compared *)b)->name);
}

/* As --sort says; SORTED: by change already. */
static void sort_rows(const struct page *p, struct comparison *c, bool sorted)
{
    if (choice_sorts(p->d->choice, "name") && c->count)
        qsort(c->rows, c->count, sizeof *c->rows, by_name);
    else if (choice_sorts(p->d->choice, "change") && !sorted)
        compare_sort(c);
}

/* How many rows --top leaves out. */
static void more_row(struct table *t, size_t rows)
{
    table_cell(t, "%zu more", rows);
    for (int i = 1; i < t->columns; i++)
        table_cell(t, "%s", "");
}

static const char *mark(int64_t value, int64_t top)
{
    return value != UNKNOWN && value == top ? "▸ " : "";
}

static void print_phases(const struct page *p, enum diff_figure figure, const char *what)
{
    struct comparison c = diff_phases(p->d, p->x, figure);
    int64_t a = diff_whole(p->d, p->x, SIDE_A, figure), b = diff_whole(p->d, p->x, SIDE_B, figure);
    bool marked = figure == DIFF_ALLOCATED;
    struct table t;
    init(&t, what);
    sort_rows(p, &c, false);
    size_t shown_rows = choice_rows(p->d->choice, c.count, 0);
    for (size_t i = 0; i < shown_rows; i++) {
        const int64_t *v = c.rows[i].value;
        table_cell(&t, "%s", c.rows[i].name);
        bytes_cells(&t, v[0], v[1], marked ? mark(v[0], a) : "", marked ? mark(v[1], b) : "", p->exact);
    }
    if (shown_rows < c.count)
        more_row(&t, c.count - shown_rows);
    table_rule(&t);
    bytes_row(&t, "whole run", a, b, p->exact);
    print(&t, p);
    compare_free(&c);
}

/* ---- time and allocations ---- */

static void count_cell(struct table *t, int64_t n)
{
    if (n == UNKNOWN)
        table_cell(t, "-");
    else
        table_cell(t, "%lld", (long long)n);
}

static void time_cells(struct table *t, int64_t a, int64_t b)
{
    table_cell(t, "%s", a == UNKNOWN ? "-" : units_time(a).s);
    table_cell(t, "%s", b == UNKNOWN ? "-" : units_time(b).s);
    table_cell(t, "%s", units_change(a, b).s);
}

static void print_work(const struct page *p)
{
    static const char *const header[] = {"", "ranges: A",      "B", "time each: A", "B",
                                         "", "allocations: A", "B"};
    enum diff_figure figures[] = {DIFF_RANGES, DIFF_TIME, DIFF_ALLOCATIONS};
    struct comparison c[3];
    struct table t;
    table_init(&t, "<>>>>>>>", header);
    table_drops(&t, "-22---11");
    t.changes = true;
    for (int i = 0; i < 3; i++)
        c[i] = diff_phases(p->d, p->x, figures[i]);
    for (size_t i = 0; i < c[0].count; i++) { /* all three have the same rows */
        table_cell(&t, "%s", c[0].rows[i].name);
        count_cell(&t, c[0].rows[i].value[0]);
        count_cell(&t, c[0].rows[i].value[1]);
        time_cells(&t, c[1].rows[i].value[0], c[1].rows[i].value[1]);
        count_cell(&t, c[2].rows[i].value[0]);
        count_cell(&t, c[2].rows[i].value[1]);
    }
    table_rule(&t);
    table_cell(&t, "whole run");
    table_cell(&t, "%s", "");
    table_cell(&t, "%s", "");
    time_cells(&t, diff_whole(p->d, p->x, SIDE_A, DIFF_TIME), diff_whole(p->d, p->x, SIDE_B, DIFF_TIME));
    count_cell(&t, diff_whole(p->d, p->x, SIDE_A, DIFF_ALLOCATIONS));
    count_cell(&t, diff_whole(p->d, p->x, SIDE_B, DIFF_ALLOCATIONS));
    print(&t, p);
    for (int i = 0; i < 3; i++)
        compare_free(&c[i]);
}

/* ---- the peaks ---- */

static void print_moment(const struct page *p, int side)
{
    const struct device_report *r = p->x->side[side];
    bool exact = p->exact, outside = r->phase_at_peak && !strcmp(r->phase_at_peak, "none");
    fprintf(p->out, "  %c: %s at %s", "AB"[side], B(trace_peak_bytes(r->allocated)),
            units_time(r->allocated->t).s);
    if (r->step_at_peak != UNKNOWN)
        fprintf(p->out, ", step %lld", (long long)r->step_at_peak);
    fprintf(p->out, ", %s%s\n", outside ? "outside any phase" : "in ",
            outside            ? ""
            : r->phase_at_peak ? shown(r->phase_at_peak)
                               : "an unknown phase");
}

static bool is_peak_phase(const struct page *p, const char *name)
{
    const char *a = p->x->side[SIDE_A]->phase_at_peak, *b = p->x->side[SIDE_B]->phase_at_peak;
    return (a && !strcmp(a, name)) || (b && !strcmp(b, name));
}

/* Names the phase whose peak changed most; nothing if none changed, or no phase is in both runs.  Nested
 * phases change together; of these it names the one that a run's peak lies in.  What is outside any phase has
 * a peak as well. */
static void print_most(const struct page *p)
{
    struct comparison c = diff_phases(p->d, p->x, DIFF_ALLOCATED);
    const struct compared *most = NULL;
    bool exact = p->exact;
    int64_t distance = 0;
    for (size_t i = 0; i < c.count; i++) {
        const int64_t *v = c.rows[i].value;
        int64_t change = v[0] == UNKNOWN || v[1] == UNKNOWN ? 0 : compare_distance(v[0], v[1]);
        if (change > distance || (change && change == distance && is_peak_phase(p, c.rows[i].name))) {
            distance = change;
            most = &c.rows[i];
        }
    }
    bool outside = most && !strcmp(most->name, "none"); /* of the table's row, and no phase */
    if (most)
        fprintf(p->out, "  the %s that changed most: %s, from %s to %s (%s)\n", outside ? "peak" : "phase",
                outside ? "outside any phase" : shown(most->name), B(most->value[0]), B(most->value[1]),
                units_change(most->value[0], most->value[1]).s);
    compare_free(&c);
}

/* Role, layer and line that explain most of the difference. */
static void print_words(const struct page *p)
{
    char *words = diff_words(p->x, p->exact);
    if (words)
        wrap_print(p->out, 2, 4, "what changed most between the peaks: %s", words);
    free(words);
}

static void print_headline(const struct page *p)
{
    const struct trace_peak *a = p->x->side[SIDE_A]->allocated, *b = p->x->side[SIDE_B]->allocated;
    bool exact = p->exact;
    if (!a || !b)
        return;
    int64_t change = compare_distance(a->bytes, b->bytes);
    if (a->at_least || b->at_least)
        fprintf(p->out,
                "\n  which peak is higher is unknown: a library's pool does not report what it uses\n");
    else if (!change)
        fprintf(p->out, "\n  the peaks are equal: %s allocated\n", B(a->bytes));
    else
        fprintf(p->out, "\n  B's peak is %s (%s) %s\n", B(change), units_share(change, a->bytes).s,
                b->bytes > a->bytes ? "higher" : "lower");
    if (!a->at_least)
        print_moment(p, SIDE_A);
    if (!b->at_least)
        print_moment(p, SIDE_B);
    print_words(p);
    print_most(p);
}

static int64_t static_of(const struct device_report *r)
{
    return r->savings.known ? r->savings.static_bytes - r->savings.left_bytes : UNKNOWN;
}

static int64_t amount(int64_t value)
{
    return value == UNKNOWN ? 0 : value;
}

static void held_row(struct table *t, const char *name, int64_t a, int64_t b, bool exact)
{
    struct text text;
    table_cell(t, "%s", name);
    table_cell(t, "%s", cell(a, exact, &text));
    table_cell(t, "%s", cell(b, exact, &text));
    table_cell(t, "%s", units_bytes_change(compare_change(a, b), exact).s);
}

/* The rows of C from FROM on, added up. */
static int64_t rest_of(const struct comparison *c, size_t from, int side)
{
    int64_t bytes = 0;
    for (size_t i = from; i < c->count; i++)
        bytes += amount(c->rows[i].value[side]);
    return bytes;
}

static void print_held(const struct page *p)
{
    static const char *const header[] = {"held at the peak", "A", "B", "B - A"};
    const struct device_report *a = p->x->side[SIDE_A], *b = p->x->side[SIDE_B];
    struct comparison c = diff_held(p->x);
    struct table t;
    table_init(&t, "<>>>", header);
    t.changes = true;
    sort_rows(p, &c, true);
    size_t shown_rows = choice_rows(p->d->choice, c.count, 0);
    for (size_t i = 0; i < shown_rows; i++)
        held_row(&t, c.rows[i].name, amount(c.rows[i].value[0]), amount(c.rows[i].value[1]), p->exact);
    if (shown_rows < c.count) {
        char *more = xformat("%zu more", c.count - shown_rows);
        held_row(&t, more, rest_of(&c, shown_rows, 0), rest_of(&c, shown_rows, 1), p->exact);
        free(more);
    }
    table_rule(&t);
    held_row(&t, "allocated", diff_whole(p->d, p->x, SIDE_A, DIFF_ALLOCATED),
             diff_whole(p->d, p->x, SIDE_B, DIFF_ALLOCATED), p->exact);
    held_row(&t, "reserved, not allocated then", a->unused_at_peak, b->unused_at_peak, p->exact);
    if (static_of(a) != UNKNOWN || static_of(b) != UNKNOWN)
        held_row(&t, "static memory, of allocated", static_of(a), static_of(b), p->exact);
    print(&t, p);
    compare_free(&c);
}

/* The rows of C that changed most, and the rest in one; nothing where there are none. */
static void print_changes(const struct page *p, const char *what, struct comparison c)
{
    const char *header[] = {what, "A", "B", "B - A"};
    size_t own = c.count <= LINES + 1 ? 0 : LINES, shown_rows = choice_rows(p->d->choice, c.count, own);
    struct table t;
    table_init(&t, "<>>>", header);
    t.changes = true;
    sort_rows(p, &c, true);
    for (size_t i = 0; i < shown_rows; i++)
        held_row(&t, c.rows[i].name, amount(c.rows[i].value[0]), amount(c.rows[i].value[1]), p->exact);
    if (shown_rows < c.count) {
        char *more = xformat("%zu more", c.count - shown_rows);
        held_row(&t, more, rest_of(&c, shown_rows, 0), rest_of(&c, shown_rows, 1), p->exact);
        free(more);
    }
    if (c.count)
        print(&t, p);
    else
        table_free(&t);
    compare_free(&c);
}

static void print_residual(const struct page *p)
{
    const struct residual *a = &p->x->side[SIDE_A]->residual, *b = &p->x->side[SIDE_B]->residual;
    struct table t;
    if (!a->known && !b->known)
        return;
    init(&t, "the driver's figure at its greatest");
    bytes_row(&t, "reserved", a->known ? a->fullest.reserved : UNKNOWN,
              b->known ? b->fullest.reserved : UNKNOWN, p->exact);
    bytes_row(&t, "residual", a->known ? a->fullest.residual : UNKNOWN,
              b->known ? b->fullest.residual : UNKNOWN, p->exact);
    bytes_row(&t, "driver used", a->known ? a->fullest.driver_used : UNKNOWN,
              b->known ? b->fullest.driver_used : UNKNOWN, p->exact);
    print(&t, p);
    report_words_text("residual: what the driver uses beyond it", p->out);
    for (int i = 0; i < 2; i++)
        if ((i ? b : a)->whole_device)
            fprintf(p->out, "  %c's is the whole device's figure, other processes included\n", "AB"[i]);
}

/* ---- the ranks ---- */

static struct rank_span span_of(const struct diff_side *s, enum rank_figure figure)
{
    struct rank_job alone = {.files = (const struct rank_file **)&s->shown, .file_count = 1};
    return ranks_span(s->job ? s->job : &alone, figure);
}

static void span_rows(struct table *t, const char *what, const struct diff *d, enum rank_figure figure,
                      bool exact)
{
    struct rank_span a = span_of(&d->side[SIDE_A], figure), b = span_of(&d->side[SIDE_B], figure);
    const char *names[] = {"min", "mean", "max"};
    int64_t of_a[] = {a.least, a.mean, a.most}, of_b[] = {b.least, b.mean, b.most};
    for (int i = 0; i < 3; i++) {
        char *name = xformat("%s, %s", what, names[i]);
        bytes_row(t, name, of_a[i], of_b[i], exact);
        free(name);
    }
}

static void print_ranks(const struct diff *d, FILE *out, bool exact)
{
    struct table t;
    if (d->side[SIDE_A].file_count < 2 && d->side[SIDE_B].file_count < 2)
        return;
    init(&t, "over all devices of all ranks");
    span_rows(&t, "peak allocated", d, FIGURE_ALLOCATED, exact);
    span_rows(&t, "peak reserved", d, FIGURE_RESERVED, exact);
    fputc('\n', out);
    table_print(&t, out, 2);
    table_free(&t);
}

/* ---- all of it ---- */

static void print_device(const struct diff *d, const struct diff_device *x, FILE *out, bool exact)
{
    struct page p = {d, x, out, exact};
    const struct device_report *a = x->side[SIDE_A], *b = x->side[SIDE_B];
    if (!a || !b)
        return;
    fprintf(out, "\ndevice %lld: %s\n", (long long)a->device,
            a->name   ? shown(a->name)
            : b->name ? shown(b->name)
                      : "unknown name");
    print_headline(&p);
    print_changes(&p, "held at the peak, by role", diff_parts(x, MOVED_ROLE));
    print_changes(&p, "by layer", diff_parts(x, MOVED_LAYER));
    print_changes(&p, "by line of the program", diff_lines(x));
    print_phases(&p, DIFF_ALLOCATED, "peak allocated");
    if (reserved_as_allocated(&p))
        fputs("\n  peak reserved: in every phase what was allocated\n", out);
    else
        print_phases(&p, DIFF_RESERVED, "peak reserved");
    print_held(&p);
    print_work(&p);
    print_residual(&p);
}

void diff_text(const struct diff *d, FILE *out, bool exact)
{
    print_side(d, SIDE_A, out);
    print_side(d, SIDE_B, out);
    for (size_t i = 0; i < d->note_count; i++)
        fprintf(out, "%sNOTE: %s\n", i ? "" : "\n", shown(d->notes[i]));
    print_ranks(d, out, exact);
    for (size_t i = 0; i < d->device_count; i++)
        print_device(d, &d->devices[i], out, exact);
}
