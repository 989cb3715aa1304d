/*
 * answer.c - see law.h: what is asked, and the answer as text or JSON.
 */
#include "law.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/commands.h"
#include "base/json.h"
#include "base/shown.h"
#include "base/table.h"
#include "base/units.h"
#include "base/wrap.h"
#include "expand.h"
#include "plot/curves.h"
#include "show/report/frames.h"
#include "sizes.h"

#define FLAT 0.01 /* of a peak: it changes by less over a stretch */

struct answer {
    const struct law_request *q;
    struct law_runs runs;
    struct law_model model;
    struct law_list batch, seq;
};

/* ---- how far it can be relied on ---- */

/* The laws at the recordings' own sizes against what was recorded: the least and the greatest ratio. */
struct fidelity {
    double live[2], reserved[2]; /* NAN: nothing was recorded to compare with */
    enum law_policy policy;
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
    struct fidelity f = {{NAN, NAN}, {NAN, NAN}, LAW_NATIVE};
    if (a->model.base->tape.expandable)
        f.policy = LAW_EXPANDABLE;
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
    char *reserved = xformat("; %s reserved", law_policy_names[f.policy]);
    print_range(reserved, f.reserved);
    free(reserved);
    puts(" of what was recorded");
    print_switches(a);
    print_lawless(a);
}

/* ---- text ---- */

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

/* The largest that fits at X of the one axis, along the other. */
static enum law_found find(struct answer *a, bool longest, int64_t x, enum law_policy policy, int64_t *best,
                           uint64_t *retries)
{
    const struct law_list *along = longest ? &a->seq : &a->batch;
    return (longest ? law_longest : law_largest)(&a->model, x, along->at[0], along->at[along->n - 1], policy,
                                                 a->q->capacity, best, retries);
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
            enum law_found found = find(a, longest, rows->at[i], (enum law_policy)p, &best, &retries);
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

static double slope(const struct law *law, int64_t batch)
{
    return law->of[TERM_TOKENS] * (double)batch + law->of[TERM_LENGTH];
}

static double square(const struct law *law, int64_t batch)
{
    return law->of[TERM_SQUARE] * (double)batch + law->of[TERM_LENGTH_SQUARE];
}

static char *growth(const struct law_stretch *s, int64_t batch, bool exact)
{
    const struct law *law = &s->end.sum;
    double a = slope(law, batch), b = square(law, batch), n = (double)s->to;
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

static void print_text(struct answer *a)
{
    print_trust(a);
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

/* ---- JSON ---- */

static void json_points(struct answer *a, struct json *j)
{
    json_begin(j, "points", '[');
    for (size_t b = 0; b < a->batch.n; b++)
        for (size_t s = 0; s < a->seq.n; s++) {
            struct law_point at = {a->batch.at[b], a->seq.at[s]};
            json_begin(j, NULL, '{');
            json_int(j, "batch", at.batch);
            json_int(j, "seq", at.seq);
            for (int p = 0; p < LAW_POLICIES; p++) {
                struct law_answer one = law_play(&a->model, at, (enum law_policy)p, a->q->capacity);
                json_begin(j, law_policy_names[p], '{');
                struct law_answer whole = law_play(&a->model, at, (enum law_policy)p, 0);
                struct law_span span = law_play_span(&a->model, at, (enum law_policy)p);
                json_int(j, "bytes", (int64_t)whole.bytes);
                json_int(j, "least_bytes", (int64_t)span.least);
                json_int(j, "most_bytes", (int64_t)span.most);
                json_int(j, "allocated_bytes", whole.allocated ? (int64_t)whole.allocated : UNKNOWN);
                json_bool(j, "fits", one.fits);
                json_int(j, "retries", (int64_t)one.retries);
                json_end(j);
            }
            json_end(j);
        }
    json_end(j);
}

static void json_largest(struct answer *a, struct json *j)
{
    static const char *const found_names[] = {"found", "nothing fits", "all fit"};
    bool longest = a->seq.n > 1;
    const struct law_list *rows = longest ? &a->batch : &a->seq;
    json_begin(j, "largest", '[');
    for (size_t i = 0; i < rows->n && a->q->capacity; i++)
        for (int p = 0; p < LAW_POLICIES; p++) {
            int64_t best;
            uint64_t retries;
            enum law_found found = find(a, longest, rows->at[i], (enum law_policy)p, &best, &retries);
            json_begin(j, NULL, '{');
            json_int(j, longest ? "batch" : "seq", rows->at[i]);
            json_text(j, "policy", law_policy_names[p]);
            json_text(j, "found", found_names[found]);
            json_int(j, longest ? "seq" : "batch", found == LAW_NOTHING_FITS ? UNKNOWN : best);
            json_int(j, "retries", found == LAW_NOTHING_FITS ? UNKNOWN : (int64_t)retries);
            json_end(j);
        }
    json_end(j);
}

static void json_shape(struct answer *a, struct json *j)
{
    json_begin(j, "shape", '[');
    for (size_t b = 0; b < a->batch.n; b++) {
        struct law_shape shape = law_shape(&a->model, a->batch.at[b], &a->seq);
        for (size_t i = 0; i < shape.n; i++) {
            const struct law_stretch *s = &shape.at[i];
            json_begin(j, NULL, '{');
            json_int(j, "batch", a->batch.at[b]);
            json_int(j, "from_seq", s->from);
            json_int(j, "to_seq", s->to);
            json_text(j, "phase", s->end.phase);
            json_text(j, "line", s->end.line);
            json_int(j, "bytes", (int64_t)s->end.bytes);
            json_int(j, "bytes_without_law", (int64_t)s->end.guessed);
            json_ratio(j, "bytes_per_length", slope(&s->end.sum, a->batch.at[b]));
            json_ratio(j, "bytes_per_length_squared", square(&s->end.sum, a->batch.at[b]));
            json_end(j);
        }
    }
    json_end(j);
}

static void print_json(struct answer *a)
{
    struct json j;
    const struct law_model *m = &a->model;
    json_open(&j, stdout);
    json_document(&j);
    json_int(&j, "device", a->runs.device);
    json_int(&j, "runs", (int64_t)a->runs.n);
    json_int(&j, "steps", (int64_t)m->base->steps);
    json_int(&j, "blocks", m->base->tape.ids);
    json_int(&j, "blocks_exact", (int64_t)m->by_trust[LAW_EXACT]);
    json_int(&j, "blocks_near", (int64_t)m->by_trust[LAW_NEAR]);
    json_int(&j, "blocks_switching", (int64_t)m->switching);
    json_int(&j, "blocks_without_law", (int64_t)m->by_trust[LAW_NONE]);
    json_int(&j, "blocks_not_in_all", (int64_t)m->some);
    json_int(&j, "blocks_missing", (int64_t)m->missing);
    json_int(&j, "capacity_bytes", a->q->capacity ? (int64_t)a->q->capacity : UNKNOWN);
    json_points(a, &j);
    json_largest(a, &j);
    json_shape(a, &j);
    json_end(&j);
    json_close(&j);
}

/* ---- all of it ---- */

static int read_axis(const struct answer *a, const char *text, bool batch, struct law_list *list)
{
    if (!text)
        law_own_list(&a->runs, batch, list);
    else if (!law_read_list(text, list))
        return complain("whatif: --%s takes 4, 1,2,4 or 1..64 (rising, %d values at most, none above "
                        "%lld), not '%s'",
                        batch ? "batch" : "seq", SIZES_MOST, (long long)NUMBER_MOST, shown(text));
    return 0;
}

/* ---- a picture ---- */

static void add_policy(struct answer *a, struct curve_panel *panel, int64_t batch, bool along_seq, int p,
                       int color)
{
    const struct law_list *xs = along_seq ? &a->seq : &a->batch;
    char *name = xformat("%s %" PRId64 ", %s", along_seq ? "batch" : "seq", batch,
                         p == LAW_LIVE ? "allocated" : law_policy_names[p]);
    struct curve *c = curves_add(panel, name, color, p == LAW_LIVE);
    for (size_t i = 0; c && i < xs->n; i++) {
        struct law_point at =
            along_seq ? (struct law_point){batch, xs->at[i]} : (struct law_point){xs->at[i], batch};
        double gib = (double)law_play(&a->model, at, (enum law_policy)p, 0).bytes / (1 << 30);
        *PUSH(c->points, c->n) = (struct curve_point){(double)xs->at[i], gib, gib, gib};
    }
}

/* A panel for the first and one for the last batch (or length, where one length alone was asked for). */
static int draw(struct answer *a)
{
    bool along_seq = a->seq.n > 1;
    const struct law_list *rows = along_seq ? &a->batch : &a->seq;
    struct curves *c = xrealloc(NULL, sizeof *c);
    *c = (struct curves){.title = xformat("from %zu short recordings", a->runs.n),
                         .x = along_seq ? "seq" : "batch"};
    for (size_t i = 0; i<rows->n; i += rows->n> 1 ? rows->n - 1 : 1) {
        struct curve_panel *panel = &c->panels[c->n++];
        *panel = (struct curve_panel){.title = "allocated, and reserved by allocator",
                                      .unit = "GiB",
                                      .limit = (double)a->q->capacity / (1 << 30)};
        for (int p = 0; p < LAW_POLICIES; p++)
            add_policy(a, panel, rows->at[i], along_seq, p, p);
    }
    int status = curves_draw(c, "whatif", a->q->plot);
    curves_free(c);
    free(c);
    return status;
}

int law_forecast(char **files, size_t n, struct law_forecast *points, size_t count)
{
    struct answer a = {.q = NULL};
    int bad = law_load(&a.runs, files, n, UNKNOWN);
    law_own_list(&a.runs, true, &a.batch);
    law_own_list(&a.runs, false, &a.seq);
    if (!bad)
        bad = law_check_design(&a.runs, &a.batch, &a.seq);
    if (!bad)
        bad = law_model(&a.model, &a.runs);
    for (size_t i = 0; i < count; i++) {
        struct law_point at = {points[i].batch, points[i].seq};
        bool off = (a.batch.n == 1 && at.batch != a.batch.at[0]) || (a.seq.n == 1 && at.seq != a.seq.at[0]);
        enum law_policy policy = !bad && a.model.base->tape.expandable ? LAW_EXPANDABLE : LAW_NATIVE;
        struct law_answer one = {0};
        if (!bad && !off)
            one = law_play(&a.model, at, policy, 0);
        points[i].allocated = bad || off ? UNKNOWN : (int64_t)one.allocated;
        points[i].reserved = bad || off ? UNKNOWN : (int64_t)one.bytes;
    }
    law_free_model(&a.model);
    law_free_runs(&a.runs);
    return bad;
}

int law_whatif(const struct law_request *request, char **files, size_t n)
{
    struct answer a = {.q = request};
    size_t count;
    char **words = law_expand(files, n, &count);
    int bad = law_load(&a.runs, words, count, request->device);
    trace_free_files(words, count);
    if (!bad)
        bad = read_axis(&a, request->batch, true, &a.batch);
    if (!bad)
        bad = read_axis(&a, request->seq, false, &a.seq);
    if (!bad)
        bad = law_check_design(&a.runs, &a.batch, &a.seq);
    if (!bad)
        bad = law_model(&a.model, &a.runs);
    if (!bad && request->json) {
        print_json(&a);
    } else if (!bad) {
        wrap_page_begin(false);
        print_text(&a);
        wrap_page_end();
    }
    if (!bad && request->plot)
        bad = draw(&a);
    law_free_model(&a.model);
    law_free_runs(&a.runs);
    return bad ? bad : EXIT_GOOD;
}
