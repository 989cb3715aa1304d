/*
 * whatif_edits_text.c - the changes of a program as a table: what each would take under every policy, whether
 * that fits, and in which phase its peak would be.  Of changes that are not known it says why.
 */
#include <stdlib.h>
#include <string.h>

#include "base/shown.h"
#include "base/table.h"
#include "base/units.h"
#include "whatif_edits.h"

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

static bool limited(const struct edits_question *q)
{
    return q->settings->capacity != UINT64_MAX;
}

/* Whether what the others are compared by is all that was asked about. */
static bool live_alone(const struct edits_question *q)
{
    return !q->wanted[FEED_NATIVE] && !q->wanted[FEED_EXPANDABLE] && !q->wanted[FEED_ARENA];
}

/* "yes", "no", "perhaps", or the allocators that have enough: "native perhaps, arena".  The caller frees it.
 */
static char *fit_text(const struct edits_question *q, const struct answered *row)
{
    static const char *const words[] = {"no", "perhaps", "yes"}, *const names[FEED_POLICIES] = {
                                                                     "live", "native", "expandable", "arena"};
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
        char *longer =
            xformat("%s%s%s%s", text, *text ? ", " : "", names[p], fit == FIT_PERHAPS ? " perhaps" : "");
        free(text);
        text = longer;
    }
    for (int fit = FIT_NO; fit <= FIT_YES; fit++)
        if (count[fit] == asked) {
            free(text);
            return xstrdup(words[fit]);
        }
    return text;
}

static void print_out(const struct program *from, const struct edits_question *q, const struct answered *row)
{
    for (int p = live_alone(q) ? FEED_LIVE : FEED_NATIVE; p < FEED_POLICIES; p++) {
        const struct answer_policy *out = q->wanted[p] ? answered_out(row, p) : NULL;
        if (out)
            printf("  %s: %s %s no room for %s in %s, with %s held\n", row->name, feed_policy_names[p],
                   answered_fit(row, p) == FIT_NO ? "has" : "perhaps has",
                   units_bytes((int64_t)out->out_size, q->bytes).s,
                   shown(answered_phase(from, out->out_phase)),
                   units_bytes((int64_t)out->out_reserved, q->bytes).s);
    }
}

static void print_row(struct table *table, const struct edits_question *q, const struct answered *base,
                      const struct answered *row)
{
    table_cell(table, "%s", row->name);
    for (int p = 0; p < FEED_POLICIES; p++) {
        const struct answer_policy *low = &row->low.of[p], *high = &row->high.of[p];
        if (!q->wanted[p])
            continue;
        char *text = between(low->peak.reserved, high->peak.reserved, q->bytes);
        table_cell(table, "%s", text);
        free(text);
    }
    if (row == base)
        table_cell(table, "-");
    else
        table_cell(table, "%s%s",
                   answered_allocated(&row->low) == answered_allocated(&row->high) ? "" : "<= ",
                   units_bytes_change(-answered_saves(base, row), q->bytes).s);
    char *text = fit_text(q, row);
    if (limited(q))
        table_cell(table, "%s", text);
    free(text);
}

/* A column of each policy; the arena's goes first where the page is narrow. */
static void begin_table(struct table *table, const struct edits_question *q)
{
    static const char *const columns[FEED_POLICIES] = {"ALLOCATED", "NATIVE", "EXPANDABLE", "ARENA"};
    const char *header[FEED_POLICIES + 3] = {"CHANGE"};
    char shape[FEED_POLICIES + 4] = "<";
    static char drops[FEED_POLICIES + 4];
    size_t n = 1;
    drops[0] = '-';
    for (int p = 0; p < FEED_POLICIES; p++)
        if (q->wanted[p]) {
            shape[n] = '>';
            drops[n] = p == FEED_LIVE ? '-' : (char)('1' + FEED_ARENA - p);
            header[n++] = columns[p];
        }
    shape[n] = '>';
    drops[n] = '-';
    header[n++] = "DIFFERENCE";
    if (limited(q)) {
        shape[n] = '<';
        drops[n] = '-';
        header[n++] = "FITS";
    }
    shape[n] = drops[n] = '\0';
    table_init(table, shape, header);
    table_drops(table, drops);
}

static void print_table(const struct edits_question *q, const struct answered *rows, size_t n)
{
    struct table table;
    begin_table(&table, q);
    for (size_t i = 0; i < n; i++)
        if (!rows[i].why)
            print_row(&table, q, rows, &rows[i]);
    table_print(&table, stdout, 2);
    table_free(&table);
}

static void print_note(const struct program *from, const struct edits_question *q, const struct answered *row)
{
    uint16_t phase = row->low.of[FEED_LIVE].peak.phase;
    char *where =
        phase ? xformat("in %s", shown(answered_phase(from, phase))) : xstrdup("outside of any phase");
    printf("  %s: the peak is %s then, its largest part %s (%s)", row->name, where,
           answer_kind(row->low.most), units_bytes((int64_t)row->low.most_bytes, q->bytes).s);
    free(where);
    if (row->cost)
        printf("; costs: %s", row->cost);
    if (row->assumes)
        printf("; if: %s", row->assumes);
    puts("");
}

/* Those that have the same reason, on one line. */
static void print_refused(const struct answered *rows, size_t n)
{
    bool *told = xrealloc(NULL, n);
    memset(told, 0, n);
    for (size_t i = 1; i < n; i++) {
        if (!rows[i].why || told[i])
            continue;
        printf("  %s", rows[i].name);
        for (size_t k = i + 1; k < n; k++)
            if (rows[k].why && !strcmp(rows[k].why, rows[i].why)) {
                printf(", %s", rows[k].name);
                told[k] = true;
            }
        printf(": %s%s\n", rows[i].nothing ? "nothing to change: " : "not known: ", rows[i].why);
    }
    free(told);
}

/* Of one change, or of its two answers, a column each. */
static void print_phases(const struct program *from, const struct edits_question *q,
                         const struct answered *rows, size_t n)
{
    const char *header[] = {"PHASE", "AS RECORDED", "CHANGED", "OR"};
    char *texts[2];
    struct table table;
    size_t answers = n - 1 < 2 ? n - 1 : 2;
    table_init(&table, answers == 2 ? "<>>>" : "<>>", header);
    if (answers == 2)
        printf("  (CHANGED: %s, OR: %s)\n", rows[1].name, rows[2].name);
    for (size_t p = 0; p < rows[1].low.phases; p++) {
        uint64_t was = rows[0].low.of[FEED_LIVE].phase_allocated[p], most = was;
        for (size_t k = 0; k < answers; k++) {
            uint64_t low = rows[k + 1].low.of[FEED_LIVE].phase_allocated[p],
                     high = rows[k + 1].high.of[FEED_LIVE].phase_allocated[p];
            most |= high;
            texts[k] = between(low, high, q->bytes);
        }
        if (most) {
            table_cell(&table, "%s", shown(answered_phase(from, (uint16_t)p)));
            table_cell(&table, "%s", units_bytes((int64_t)was, q->bytes).s);
        }
        for (size_t k = 0; k < answers; k++) {
            if (most)
                table_cell(&table, "%s", texts[k]);
            free(texts[k]);
        }
    }
    table_print(&table, stdout, 2);
    table_free(&table);
}

void answered_print_text(const struct program *from, const struct edits_question *q,
                         const struct answered *rows, size_t n)
{
    printf("%s: the most that is allocated at once, and what PyTorch's allocators and the arena reserve, "
           "begun with an "
           "empty cache%s:\n",
           q->edits->count ? "the program changed" : "changes of the program, each alone",
           limited(q) ? "" : " and without an end");
    if (limited(q))
        printf("  (as much as each takes without an end, and whether %s are enough)\n",
               units_bytes((int64_t)q->settings->capacity, q->bytes).s);
    print_table(q, rows, n);
    if (q->edits->count && n > 1 && !rows[1].why)
        print_phases(from, q, rows, n);
    for (size_t i = 0; i < n; i++)
        if (!rows[i].why)
            print_out(from, q, &rows[i]);
    for (size_t i = 1; i < n; i++)
        if (!rows[i].why)
            print_note(from, q, &rows[i]);
    print_refused(rows, n);
}
