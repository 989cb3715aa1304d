/* answer_text.c - an answer about other sizes as tables, and how far it can be relied on. */
#include "answer.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/shown.h"
#include "base/table.h"
#include "base/units.h"
#include "show/report/stack.h"
#include "show/report/report.h"

/* ---- how far it can be relied on ---- */

/* The laws at the recordings' own sizes against what was recorded: the least and the greatest ratio. */
struct fidelity {
    double live[2], reserved[2]; /* NAN: nothing was recorded to compare with */
    enum feed_policy policy;
};

static void widen(double *range, uint64_t ours, int64_t recorded)
{
    if (recorded == UNKNOWN || recorded <= 0)
        return;
    double ratio = (double)ours / (double)recorded;
    range[0] = isnan(range[0]) || ratio < range[0] ? ratio : range[0];
    range[1] = isnan(range[1]) || ratio > range[1] ? ratio : range[1];
}

static struct fidelity fidelity(struct answer *a)
{
    struct fidelity f = {{NAN, NAN}, {NAN, NAN}, FEED_NATIVE};
    if (a->model.base->tape.expandable)
        f.policy = FEED_EXPANDABLE;
    for (size_t i = 0; i < a->runs.n; i++) {
        const struct law_run *run = &a->runs.at[i];
        struct law_point at = {run->batch, run->seq};
        struct law_answer one = law_play(&a->model, at, f.policy, 0);
        if (run->tape.expandable != a->model.base->tape.expandable)
            continue;
        widen(f.live, one.allocated, run->peak);
        widen(f.reserved, one.bytes, run->reserved);
    }
    return f;
}

static void print_range(const char *what, const double *range)
{
    if (isnan(range[0]))
        return;
    double low = 100 * (range[0] - 1), high = 100 * (range[1] - 1);
    if (high - low < 0.005)
        printf("%s %+.2f %%", what, low + 0.0);
    else
        printf("%s %+.2f to %+.2f %%", what, low + 0.0, high + 0.0);
}

#define LAWLESS_SHOWN 3

/* Rows without a law, the one that takes most first. */
static size_t lawless(const struct law_model *m, uint32_t *out)
{
    size_t n = 0;
    for (size_t i = 0; i < m->law_count; i++) {
        uint64_t size = m->rows[i].sizes[m->runs->largest];
        size_t at = n;
        if (m->laws[i].trust != LAW_NONE)
            continue;
        while (at > 0 && m->rows[out[at - 1]].sizes[m->runs->largest] < size)
            at--;
        if (at == LAWLESS_SHOWN)
            continue;
        n += n < LAWLESS_SHOWN;
        memmove(out + at + 1, out + at, (n - at - 1) * sizeof *out);
        out[at] = (uint32_t)i;
    }
    return n;
}

/* The caller frees it. */
static char *line_of(const struct law_model *m, uint32_t block)
{
    uint32_t stack = m->base->blocks[block].stack;
    const struct trace_stack_row *row = stack ? trace_find_stack(&m->base->stacks, stack) : NULL;
    return row && row->line ? line_text(row->line) : xstrdup("no line known");
}

/* The blocks that do not fit, by what they took in each run: workspaces and other ways through the code. */
static void print_lawless(const struct answer *a)
{
    const struct law_model *m = &a->model;
    uint32_t rows[LAWLESS_SHOWN];
    size_t n = lawless(m, rows);
    for (size_t i = 0; i < n; i++) {
        const struct law_row *row = &m->rows[rows[i]];
        char *line = line_of(m, row->block);
        printf("  no law: %s:", line);
        free(line);
        for (size_t r = 0; r < a->runs.n; r++)
            printf("%s %s at %" PRId64 " x %" PRId64, r ? "," : "",
                   row->sizes[r] ? units_bytes((int64_t)row->sizes[r], a->q->bytes).s : "not there",
                   a->runs.at[r].batch, a->runs.at[r].seq);
        puts("");
    }
    struct law_list lengths;
    law_own_list(&a->runs, false, &lengths);
    if (n && lengths.n == 2)
        puts("  a recording at a third length tells growth with length from growth with its square");
    if (n)
        puts("  (taken as the nearest line through these, by tokens or by batch x length^2)");
}

/* Where code switches, the row that takes most first: the two sizes between which that was are known. */
static void print_switches(const struct answer *a)
{
    const struct law_model *m = &a->model;
    const struct law *of = NULL;
    uint32_t block = 0;
    uint64_t most = 0;
    for (size_t i = 0; i < m->law_count; i++)
        for (size_t r = 0; m->laws[i].from && r < a->runs.n; r++)
            if (m->rows[i].sizes[r] > most) {
                most = m->rows[i].sizes[r];
                of = &m->laws[i];
                block = m->rows[i].block;
            }
    if (!of)
        return;
    char *line = line_of(m, block);
    printf("  %s %s one law at small sizes and another at large ones, %sfrom between %" PRId64 " and %" PRId64
           " tokens on: %s\n",
           units_count((int64_t)m->switching, "block").s, m->switching == 1 ? "has" : "have",
           m->switching == 1 ? "" : "the largest ", of->upto, of->from, line);
    free(line);
}

static void print_trust(struct answer *a)
{
    const struct law_model *m = &a->model;
    struct fidelity f = fidelity(a);
    printf("%zu recordings, %zu steps of each; ", a->runs.n, m->base->steps);
    printf("%s of a run: %zu follow a law exactly, %zu within rounding, %zu follow none\n",
           units_count(m->base->tape.ids, "block").s, m->by_trust[LAW_EXACT], m->by_trust[LAW_NEAR],
           m->by_trust[LAW_NONE]);
    if (m->some || m->missing)
        printf(
            "  the runs disagree: %s of the largest run not in all others, up to %zu (%s) of others not in "
            "it\n",
            units_count((int64_t)m->some, "block").s, m->missing,
            units_bytes((int64_t)m->missing_bytes, a->q->bytes).s);
    print_range("  the recordings themselves by these laws: allocated", f.live);
    char *reserved = xformat("; %s reserved", feed_policy_names[f.policy]);
    print_range(reserved, f.reserved);
    free(reserved);
    puts(" of what was recorded");
    print_switches(a);
    print_lawless(a);
}

/* ---- the tables ---- */

/* WHOLE: of the same without a limit. */
static bool fits(struct answer *a, struct law_point at, enum feed_policy policy,
                 const struct law_answer *whole)
{
    return whole->bytes <= a->q->capacity || law_play(&a->model, at, policy, a->q->capacity).fits;
}

/* "yes", "no", or by allocator: "not native", "arena only". */
static const char *fits_text(const bool *fit)
{
    static const char *const words[] = {"no",         "native only",    "expandable only", "not arena",
                                        "arena only", "not expandable", "not native",      "yes"};
    return words[fit[FEED_NATIVE] + 2 * fit[FEED_EXPANDABLE] + 4 * fit[FEED_ARENA]];
}

/* " ±3 %" of BYTES, empty below half a percent; the caller frees it. */
static char *width(struct law_span span, uint64_t bytes)
{
    uint64_t below = bytes - span.least, above = span.most - bytes, most = below > above ? below : above;
    double percent = bytes ? 100 * (double)most / (double)bytes : 0;
    return percent < 0.5 ? xstrdup("") : xformat(" ±%.0f %%", percent);
}

static void print_points(struct answer *a)
{
    static const char *const header[] = {"BATCH", "SEQ", "ALLOCATED", "TORCH-NATIVE", "TORCH-EXPANDABLE",
                                         "ARENA", "FITS"};
    struct table table;
    bool limited = a->q->capacity != 0, wide = false, fit[FEED_POLICIES];
    table_init(&table, limited ? ">>>>>><" : ">>>>>>", header);
    for (size_t b = 0; b < a->batch.n; b++)
        for (size_t s = 0; s < a->seq.n; s++) {
            table_cell(&table, "%" PRId64, a->batch.at[b]);
            table_cell(&table, "%" PRId64, a->seq.at[s]);
            for (int p = 0; p < FEED_POLICIES; p++) {
                struct law_point at = {a->batch.at[b], a->seq.at[s]};
                struct law_answer one = law_play(&a->model, at, (enum feed_policy)p, 0);
                char *off = width(law_play_span(&a->model, at, (enum feed_policy)p), one.bytes);
                table_cell(&table, "%s%s%s", one.fits ? "" : "> ",
                           units_bytes((int64_t)one.bytes, a->q->bytes).s, off);
                wide = wide || *off;
                free(off);
                fit[p] = limited && fits(a, at, (enum feed_policy)p, &one);
            }
            if (limited)
                table_cell(&table, "%s", fits_text(fit));
        }
    table_print(&table, stdout, 2);
    table_free(&table);
    if (wide)
        puts("  ±: with the blocks that follow no law at the least and the most of their line that was "
             "recorded");
}

static void print_largest(struct answer *a)
{
    static const char *const longest_header[] = {"BATCH", "LIVE BYTES", "TORCH-NATIVE", "TORCH-EXPANDABLE",
                                                 "ARENA"},
                             *const largest_header[] = {"SEQ", "LIVE BYTES", "TORCH-NATIVE",
                                                        "TORCH-EXPANDABLE", "ARENA"};
    bool longest = a->seq.n > 1;
    const struct law_list *rows = longest ? &a->batch : &a->seq;
    struct table table;
    printf("\nthe %s that fits into %s\n", longest ? "longest" : "largest batch",
           units_bytes((int64_t)a->q->capacity, a->q->bytes).s);
    table_init(&table, ">>>>>", longest ? longest_header : largest_header);
    bool emptied = false;
    for (size_t i = 0; i < rows->n; i++) {
        table_cell(&table, "%" PRId64, rows->at[i]);
        for (int p = 0; p < FEED_POLICIES; p++) {
            int64_t best;
            uint64_t retries;
            enum law_found found = law_largest(&a->model, longest, rows->at[i], longest ? &a->seq : &a->batch,
                                               (enum feed_policy)p, a->q->capacity, &best, &retries);
            bool star = retries && found != LAW_NOTHING_FITS;
            emptied = emptied || star;
            if (found == LAW_NOTHING_FITS)
                table_cell(&table, "none");
            else
                table_cell(&table, "%s%" PRId64 "%s", found == LAW_ALL_FIT ? ">= " : "", best,
                           star ? "*" : "");
        }
    }
    table_print(&table, stdout, 2);
    table_free(&table);
    if (emptied)
        puts("  * with its cache emptied on the way, which costs time");
}

/* Which recordings peak behind the steps that are used, and batches of 1 that nothing was recorded of. */
static void print_limits(const struct answer *a)
{
    bool one = false;
    for (size_t i = 0; i < a->runs.n; i++) {
        const struct law_run *run = &a->runs.at[i];
        one = one || run->batch == 1;
        if (run->later > 0 && (double)run->peak > 1.001 * (double)run->peak_used)
            printf("  %s peaks after its step %zu, at %s; laws are of the steps before, which peak at %s\n",
                   shown(run->path), run->steps, units_bytes(run->peak, a->q->bytes).s,
                   units_bytes(run->peak_used, a->q->bytes).s);
    }
    if (!one && a->batch.at[0] == 1)
        puts("  batch 1 was not recorded: programs often take other ways there, and here it is one of many");
    else if (one && (a->model.by_trust[LAW_NONE] || a->model.some || a->model.missing))
        puts("  a recording of batch 1 is among these: where programs take other ways there, leave it out");
}

void answer_print_text(struct answer *a)
{
    report_dry_text(&a->runs.at[0].t, stdout);
    print_trust(a);
    print_limits(a);
    print_points(a);
    if (a->q->capacity && (a->seq.n > 1 || a->batch.n > 1))
        print_largest(a);
    if (!a->model.base->requests)
        puts("  sizes are blocks', not requests: record them anew, or with expandable_segments:True, for "
             "exact ones");
}
