/*
 * whatif_edits.c - `vramscope whatif`: what the recorded program would take if it were changed (edit/), as
 * rows of the page.  Without --edit each change is tried alone; with it those that are named, one after the
 * other.
 */
#include "whatif.h"

#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "base/shown.h"
#include "base/units.h"
#include "whatif/remedies.h"

#define LARGE (4 << 20) /* bytes of an array that goes back to the system when it is freed */

int edits_check(const struct arg_list *edits)
{
    struct edit *all = xrealloc(NULL, (edits->count + 1) * sizeof *all);
    int status = 0;
    for (size_t i = 0; i < edits->count && !status; i++) {
        char *why = NULL;
        if (edit_parse(edits->values[i], &all[i], &why))
            why = edit_contradiction(all, i + 1);
        if (why)
            status = complain("whatif: --edit %s: %s", shown(edits->values[i]), why);
        free(why);
    }
    free(all);
    return status;
}

int edits_ask(struct trace *t, int64_t device, const struct edits_question *q, struct edits *out)
{
    *out = (struct edits){.rows = NULL};
    if (program_read(t, device, SIZE_MAX, &out->from, &out->facts)) {
        program_free_facts(&out->facts);
        return -1;
    }
    trace_forget_tapes(t); /* it is as large as the program, which stands for it now */
    malloc_trim(0);        /* a packing leaves many small pieces, which would stay in the process */
    mallopt(M_MMAP_THRESHOLD, LARGE); /* nor do programs leave holes as large as they were */
    out->rows = answered_rows(q->edits, &out->n);
    answered_work(&out->from, q, out->rows, out->n);
    return 0;
}

int edits_complain(const struct edits *e, const struct edits_question *q)
{
    const struct answered *row = &e->rows[e->n > 1];
    if (!q->edits->count || !row->why)
        return 0;
    char *names = row->edit_count > 1 ? xstrdup("") : xformat("%s: ", row->name);
    int status = complain("whatif: %s%s%s", names, row->nothing ? "nothing to change: " : "", row->why);
    free(names);
    return status;
}

void edits_free(struct edits *e)
{
    answered_free(e->rows, e->n);
    program_free(&e->from);
    program_free_facts(&e->facts);
}

/* ---- the page ---- */

static char *between(uint64_t a, uint64_t b, bool exact)
{
    int64_t low, high;
    answered_ends(a, b, &low, &high);
    struct text from = units_bytes(low, exact), to = units_bytes(high, exact);
    if (!strcmp(from.s, to.s))
        return xstrdup(to.s);
    char *unit = strchr(from.s, ' '), *other = strchr(to.s, ' ');
    if (unit && other && !strcmp(unit, other)) /* once for both */
        *unit = '\0';
    return xformat("%s to %s", from.s, to.s);
}

/* Whether what the others are compared by is all that was asked about. */
static bool live_alone(const struct edits_question *q)
{
    return !q->wanted[FEED_NATIVE] && !q->wanted[FEED_EXPANDABLE] && !q->wanted[FEED_ARENA];
}

/* "yes", "no, in logits", "perhaps", or the allocators that have enough: "native perhaps, arena".  The caller
 * frees it.
 */
static char *fits(const struct edits *e, const struct edits_question *q, const struct answered *row)
{
    static const char *const names[FEED_POLICIES] = {"live", "native", "expandable", "arena"};
    size_t count[FIT_YES + 1] = {0}, asked = 0;
    char *text = xstrdup("");
    for (int p = live_alone(q) ? FEED_LIVE : FEED_NATIVE; p < FEED_POLICIES; p++) {
        if (!q->wanted[p])
            continue;
        enum fit fit = answered_fit(row, p);
        count[fit]++;
        asked++;
        if (fit == FIT_NO)
            continue;
        xappend(&text, "%s%s%s", *text ? ", " : "", names[p], fit == FIT_PERHAPS ? " perhaps" : "");
    }
    if (count[FIT_NO] != asked && count[FIT_PERHAPS] != asked && count[FIT_YES] != asked)
        return text;
    free(text);
    return count[FIT_NO]
               ? xformat("no, in %s", answered_phase(&e->from, answered_out(row, (int)q->column)->out_phase))
               : xstrdup(count[FIT_YES] ? "yes" : "perhaps");
}

/* What it is under each allocator, but for the one that the other columns are of. */
static void add_policies(const struct edits_question *q, const struct answered *row, struct whatif_row *cells)
{
    for (int p = 0; p < FEED_POLICIES; p++)
        if (q->wanted[p] && p != (int)q->column)
            cells->cells[COLUMN_UNDER + p] =
                between(row->low.of[p].peak.reserved, row->high.of[p].peak.reserved, q->bytes);
}

static void add_row(const struct edits *e, const struct edits_question *q, const struct answered *row,
                    struct whatif_page *page)
{
    const struct answer_policy *low = &row->low.of[q->column], *high = &row->high.of[q->column];
    int64_t most = answered_reserved(row, q->column);
    bool one = low->peak.reserved == high->peak.reserved, limited = q->settings->capacity != UINT64_MAX;
    struct whatif_row *cells = whatif_row(page, 0, most);
    cells->cells[COLUMN_WHAT] = xstrdup(row->name);
    cells->cells[COLUMN_RESERVED] = between(low->peak.reserved, high->peak.reserved, q->bytes);
    cells->cells[COLUMN_DIFFERENCE] =
        row == e->rows
            ? xstrdup("-")
            : xformat("%s%s", one ? "" : "<= ",
                      units_bytes_change(most - answered_reserved(e->rows, q->column), q->bytes).s);
    add_policies(q, row, cells);
    if (limited)
        cells->cells[COLUMN_FITS] = fits(e, q, row);
    else if (row != e->rows)
        cells->cells[COLUMN_COSTS] = remedy_costs(row->name);
}

/* The program as it was: where its replay is that of the run's row, it is that row. */
static void add_recorded(const struct edits *e, const struct edits_question *q, uint64_t base,
                         struct whatif_page *page)
{
    if (page->run != SIZE_MAX && (uint64_t)answered_reserved(e->rows, q->column) == base) {
        add_policies(q, e->rows, &page->rows[page->run]);
        return;
    }
    add_row(e, q, e->rows, page);
    if (page->run == SIZE_MAX)
        return;
    free(page->rows[page->count - 1].cells[COLUMN_WHAT]);
    page->rows[page->count - 1].cells[COLUMN_WHAT] = xstrdup("the run, for changes");
    whatif_say(page, "  difference: of a change to the run replayed as changes are, which know no limit and "
                     "no private pool");
}

static void add_out(const struct edits *e, const struct edits_question *q, const struct answered *row,
                    struct whatif_page *page)
{
    for (int p = live_alone(q) ? FEED_LIVE : FEED_NATIVE; p < FEED_POLICIES; p++) {
        const struct answer_policy *out = q->wanted[p] ? answered_out(row, p) : NULL;
        if (out)
            whatif_say(page, "  %s: %s %s no room for %s in %s, with %s held", row->name,
                       feed_policy_names[p], answered_fit(row, p) == FIT_NO ? "has" : "perhaps has",
                       units_bytes((int64_t)out->out_size, q->bytes).s,
                       shown(answered_phase(&e->from, out->out_phase)),
                       units_bytes((int64_t)out->out_reserved, q->bytes).s);
    }
}

static void add_note(const struct edits *e, const struct edits_question *q, const struct answered *row,
                     struct whatif_page *page)
{
    uint16_t phase = row->low.of[FEED_LIVE].peak.phase;
    char *where =
        phase ? xformat("in %s", shown(answered_phase(&e->from, phase))) : xstrdup("outside of any phase");
    whatif_say(page, "  %s: the peak is %s then, its largest part %s (%s)%s%s%s%s", row->name, where,
               answer_kind(row->low.most), units_bytes((int64_t)row->low.most_bytes, q->bytes).s,
               row->cost ? "; costs: " : "", row->cost ? row->cost : "", row->assumes ? "; if: " : "",
               row->assumes ? row->assumes : "");
    free(where);
}

/* Those that have the same reason, on one line. */
static void add_refused(const struct answered *rows, size_t n, struct whatif_page *page)
{
    bool *told = xrealloc(NULL, n);
    memset(told, 0, n);
    for (size_t i = 1; i < n; i++) {
        if (!rows[i].why || told[i])
            continue;
        char *names = xstrdup(rows[i].name);
        for (size_t k = i + 1; k < n; k++)
            if (rows[k].why && !strcmp(rows[k].why, rows[i].why)) {
                xappend(&names, ", %s", rows[k].name);
                told[k] = true;
            }
        whatif_say(page, "  %s: %s%s", names,
                   rows[i].nothing ? "nothing to change: " : "not known: ", rows[i].why);
        free(names);
    }
    free(told);
}

void edits_page(const struct edits *e, const struct edits_question *q, uint64_t base, bool why,
                struct whatif_page *page)
{
    size_t known = 0;
    for (size_t i = 1; i < e->n; i++)
        known += !e->rows[i].why;
    if (known)
        add_recorded(e, q, base, page);
    for (size_t i = 1; i < e->n; i++)
        if (!e->rows[i].why)
            add_row(e, q, &e->rows[i], page);
    for (size_t i = 0; i < e->n && why; i++)
        if (!e->rows[i].why)
            add_out(e, q, &e->rows[i], page);
    for (size_t i = 1; i < e->n && why; i++)
        if (!e->rows[i].why)
            add_note(e, q, &e->rows[i], page);
    add_refused(e->rows, e->n, page);
}

/* Of one change, or of its two answers, a column each. */
void edits_phases(const struct edits *e, const struct edits_question *q)
{
    static const char *const headers[WHATIF_COLUMNS] = {
        [COLUMN_WHAT] = "PHASE", [COLUMN_LEFT] = "AS RECORDED", "CHANGED", "OR"};
    const struct answered *rows = e->rows;
    struct whatif_page page = {.headers = headers};
    size_t n = e->n < 3 ? e->n : 3;
    if (n == 3)
        whatif_say(&page, "  (CHANGED: %s, OR: %s)", rows[1].name, rows[2].name);
    page.above = page.line_count;
    for (size_t p = 0; p < rows[1].low.phases; p++) {
        uint64_t most = 0;
        for (size_t k = 0; k < n; k++)
            most |= rows[k].high.of[FEED_LIVE].phase_allocated[p];
        struct whatif_row *row = most ? whatif_row(&page, 0, 0) : NULL;
        for (size_t k = 0; k < n && row; k++)
            row->cells[COLUMN_LEFT + k] = between(rows[k].low.of[FEED_LIVE].phase_allocated[p],
                                                  rows[k].high.of[FEED_LIVE].phase_allocated[p], q->bytes);
        if (row)
            row->cells[COLUMN_WHAT] = xstrdup(answered_phase(&e->from, (uint16_t)p));
    }
    whatif_print(&page);
    whatif_free(&page);
}

/* ---- as JSON ---- */

static void json_ends(struct json *j, const char *what, uint64_t a, uint64_t b)
{
    int64_t low, high;
    answered_ends(a, b, &low, &high);
    char *name = xformat("%s_low_bytes", what);
    json_int(j, name, low);
    free(name);
    name = xformat("%s_high_bytes", what);
    json_int(j, name, high);
    free(name);
}

static void print_policy_json(struct json *j, const struct program *from, const struct answered *row, int p)
{
    const struct answer_policy *low = &row->low.of[p], *high = &row->high.of[p];
    json_begin(j, NULL, '{');
    json_text(j, "policy", feed_policy_names[p]);
    json_ends(j, "allocated", low->peak.allocated, high->peak.allocated);
    json_ends(j, "reserved", low->peak.reserved, high->peak.reserved);
    const struct answer_policy *out = answered_out(row, p);
    json_bool(j, "fits", answered_fit(row, p) == FIT_YES);
    json_bool(j, "may_fit", answered_fit(row, p) != FIT_NO);
    json_int(j, "ran_out_request_bytes", out ? (int64_t)out->out_size : UNKNOWN);
    json_int(j, "ran_out_reserved_bytes", out ? (int64_t)out->out_reserved : UNKNOWN);
    json_text(j, "ran_out_phase",
              !out             ? NULL
              : out->out_phase ? answered_phase(from, out->out_phase)
                               : "none");
    json_begin(j, "phases", '[');
    for (size_t i = 0; i < row->low.phases; i++) {
        if (!low->phase_allocated[i] && !high->phase_allocated[i])
            continue;
        json_begin(j, NULL, '{');
        json_text(j, "phase", i ? answered_phase(from, (uint16_t)i) : "none");
        json_ends(j, "allocated", low->phase_allocated[i], high->phase_allocated[i]);
        json_ends(j, "reserved", low->phase_reserved[i], high->phase_reserved[i]);
        json_end(j);
    }
    json_end(j);
    json_end(j);
}

static int by_savings(const void *a, const void *b, void *base)
{
    int64_t x = answered_saves(base, a), y = answered_saves(base, b);
    return x < y   ? 1
           : x > y ? -1
                   : strcmp(((const struct answered *)a)->name, ((const struct answered *)b)->name);
}

void edits_json(const struct edits *e, const struct edits_question *q, struct json *j)
{
    struct answered *rows = e->rows;
    qsort_r(rows + 1, e->n - 1, sizeof *rows, by_savings, rows);
    json_begin(j, "edits", '[');
    for (size_t i = 0; i < e->n; i++) {
        const struct answered *row = &rows[i];
        json_begin(j, NULL, '{');
        json_text(j, "edit", i ? row->name : NULL);
        json_text(j, "refused", row->why);
        json_bool(j, "nothing_to_change", row->nothing);
        json_text(j, "assumes", row->assumes);
        json_text(j, "cost", row->cost);
        json_text(j, "peak_phase",
                  row->why ? NULL : answered_phase(&e->from, row->low.of[FEED_LIVE].peak.phase));
        json_text(j, "peak_most", row->why ? NULL : answer_kind(row->low.most));
        json_int(j, "peak_most_bytes", row->why ? UNKNOWN : (int64_t)row->low.most_bytes);
        json_int(j, "saves_bytes", row->why ? UNKNOWN : answered_saves(rows, row));
        json_int(j, "saves_reserved_bytes",
                 row->why ? UNKNOWN : answered_reserved(rows, q->column) - answered_reserved(row, q->column));
        json_begin(j, "policies", '[');
        for (int p = 0; p < FEED_POLICIES && !row->why; p++)
            if (q->wanted[p])
                print_policy_json(j, &e->from, row, p);
        json_end(j);
        json_end(j);
    }
    json_end(j);
    json_text(j, "refusal", NULL);
}
