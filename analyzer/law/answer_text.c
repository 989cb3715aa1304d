/* answer_text.c - an answer about other sizes as tables, and what its shape comes from. */
#include "answer.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "base/shown.h"
#include "base/table.h"
#include "base/units.h"
#include "show/report/frames.h"
#include "show/report/report.h"

#define FLAT 0.01 /* of a peak: it changes by less over a stretch */

/* WHOLE: of the same without a limit. */
static bool fits(struct answer *a, struct law_point at, enum law_policy policy,
                 const struct law_answer *whole)
{
    return whole->bytes <= a->q->capacity || law_play(&a->model, at, policy, a->q->capacity).fits;
}

/* "yes", "no", or by allocator: "not native", "arena only". */
static const char *fits_text(const bool *fit)
{
    static const char *const words[] = {"no",         "native only",    "expandable only", "not arena",
                                        "arena only", "not expandable", "not native",      "yes"};
    return words[fit[LAW_NATIVE] + 2 * fit[LAW_EXPANDABLE] + 4 * fit[LAW_ARENA]];
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
    bool limited = a->q->capacity != 0, wide = false, fit[LAW_POLICIES];
    table_init(&table, limited ? ">>>>>><" : ">>>>>>", header);
    for (size_t b = 0; b < a->batch.n; b++)
        for (size_t s = 0; s < a->seq.n; s++) {
            table_cell(&table, "%" PRId64, a->batch.at[b]);
            table_cell(&table, "%" PRId64, a->seq.at[s]);
            for (int p = 0; p < LAW_POLICIES; p++) {
                struct law_point at = {a->batch.at[b], a->seq.at[s]};
                struct law_answer one = law_play(&a->model, at, (enum law_policy)p, 0);
                char *off = width(law_play_span(&a->model, at, (enum law_policy)p), one.bytes);
                table_cell(&table, "%s%s%s", one.fits ? "" : "> ",
                           units_bytes((int64_t)one.bytes, a->q->bytes).s, off);
                wide = wide || *off;
                free(off);
                fit[p] = limited && fits(a, at, (enum law_policy)p, &one);
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
        for (int p = 0; p < LAW_POLICIES; p++) {
            int64_t best;
            uint64_t retries;
            enum law_found found =
                answer_largest(a, longest, rows->at[i], (enum law_policy)p, &best, &retries);
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

static char *growth(const struct law_stretch *s, int64_t batch, bool exact)
{
    const struct law *law = &s->end.sum;
    double a = answer_slope(law, batch), b = answer_square(law, batch), n = (double)s->to;
    if (fabs((double)s->end.bytes - (double)s->begin.bytes) < FLAT * (double)s->end.bytes)
        return xformat("flat, %s", units_bytes((int64_t)s->end.bytes, exact).s);
    char *linear = a * n >= 0.001 * (double)s->end.bytes
                       ? xformat("%s a token of length", units_bytes((int64_t)(a + 0.5), exact).s)
                       : NULL,
         *squared = b * n * n >= 0.001 * (double)s->end.bytes ? xformat("%.4g B x length^2", b) : NULL;
    char *text = xformat("%s%s%s, to %s", linear ? linear : "", linear && squared ? " and " : "",
                         squared ? squared : "", units_bytes((int64_t)s->end.bytes, exact).s);
    free(linear);
    free(squared);
    return text;
}

static void print_shape(struct answer *a, int64_t batch)
{
    struct law_shape shape = law_shape(&a->model, batch, &a->seq);
    for (size_t i = 0; i < shape.n; i++) {
        const struct law_stretch *s = &shape.at[i];
        char *grows = growth(s, batch, a->q->bytes), *line = s->end.line ? line_text(s->end.line) : NULL;
        printf("  batch %" PRId64 ", seq %" PRId64 " to %" PRId64 ": peak in %s%s%s: %s", batch, s->from,
               s->to, s->end.phase ? s->end.phase : "no phase", line ? " at " : "", line ? line : "", grows);
        if (s->end.guessed * 100 > s->end.bytes)
            printf(", of it %s without a law", units_bytes((int64_t)s->end.guessed, a->q->bytes).s);
        puts("");
        free(line);
        free(grows);
    }
    if (shape.more)
        puts("  ...");
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
    answer_print_trust(a);
    print_limits(a);
    print_points(a);
    if (a->q->capacity && (a->seq.n > 1 || a->batch.n > 1))
        print_largest(a);
    puts("\nwhere allocated peaks");
    print_shape(a, a->batch.at[0]);
    if (a->batch.n > 1)
        print_shape(a, a->batch.at[a->batch.n - 1]);
    if (!a->model.base->requests)
        puts("  sizes are blocks', not requests: record them anew, or with expandable_segments:True, for "
             "exact ones");
}
