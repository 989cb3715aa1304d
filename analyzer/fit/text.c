/* text.c - an answer for people: whether it fits, the figures, how exact they are, what the program wrote. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "reply.h"
#include "base/shown.h"
#include "base/table.h"
#include "base/units.h"
#include "base/page.h"
#include "read/trace.h"
#include "show/report/oom.h"

#define FILES  10 /* that were written */
#define PLACES 6  /* where values were read */

/* What programs had beside PyTorch's memory on an H200, at most: docs/measurements/fit.md. */
#define BESIDE_MOST (INT64_C(934) << 20)

#define B(n) units_bytes(n, false).s

/* "an H200 (139.8 GiB)", "a device of 24.00 GiB" */
char *device_words(const struct attempt_setup *s)
{
    if (s->capacity == UNKNOWN)
        return xformat("%s %s (%s)", strchr("AEFHILMNORSX", *s->card->key) ? "an" : "a", s->card->key,
                       B(s->card->bytes));
    return xformat("a device of %s", B(s->capacity));
}

/* ---- the first line ---- */

static void print_fits(const struct reply *a, const char *device, FILE *out)
{
    int64_t left = verdict_left(reply_peaks(a));
    if (left == UNKNOWN)
        wrap_print(out, 0, 2, "fits %s", device);
    else
        wrap_print(out, 0, 2, "fits %s, with %s to spare", device, B(left));
    if (left != UNKNOWN && left < BESIDE_MOST - verdict_beside(reply_peaks(a)))
        wrap_print(out, 2, 4, "only just: beside PyTorch's memory whole programs had up to %s on an H200",
                   B(BESIDE_MOST));
    if (a->verdicts[0].given_back > 0)
        wrap_print(
            out, 2, 4,
            "only just: %s the driver refused memory, and PyTorch gave cached memory back and then got it",
            a->verdicts[0].given_back == 1 ? "once" : units_count(a->verdicts[0].given_back, "time").s);
}

/* It ended well all the same. */
static void print_limited(const struct reply *a, FILE *out)
{
    if (reply_verdict(a)->limited)
        wrap_print(out, 2, 4, "under its own limit, and went on after that refused it memory: %s",
                   shown(reply_verdict(a)->limited));
}

static void print_refused(const struct reply *a, const char *device, FILE *out)
{
    const struct verdict *v = reply_verdict(a);
    wrap_print(out, 0, 2, "does not fit %s", device);
    wrap_print(out, 2, 4, "%s", shown(v->why));
    if (reply_decides(a))
        wrap_print(out, 2, 4, "so it is under the %s assumptions; under the first it fits",
                   attempt_assumption_name(a->runs[reply_decides(a)].assumption));
    if (v->went_on)
        wrap_print(out, 2, 4, "the program caught that and went on, with less");
}

static void print_headline(const struct reply *a, FILE *out)
{
    const struct verdict *v = reply_verdict(a);
    char *device = device_words(a->setup);
    if (v->kind == VERDICT_FITS) {
        print_fits(a, device, out);
        print_limited(a, out);
    } else if (v->kind == VERDICT_REFUSED)
        print_refused(a, device, out);
    else if (v->kind == VERDICT_FAILED)
        wrap_print(out, 0, 2, "no answer, the program failed: %s", v->why);
    else
        wrap_print(out, 0, 2, "can't tell: %s", v->why);
    if (v->what)
        wrap_print(out, 2, 4, "%s", v->what);
    free(device);
}

/* ---- figures ---- */

static void print_run(const struct reply *a, FILE *out)
{
    const struct fact *torch = facts_first(&a->runs[0].facts, FACT_TORCH);
    const struct peaks *p = reply_peaks(a);
    wrap_print(out, 2, 4, "dry run, no GPU: %s%s%s%s%s", units_count(p->steps, "step").s,
               torch ? ", PyTorch " : "", torch ? shown(torch->fields[0]) : "",
               a->runs[0].allocator == ALLOCATOR_OWN ? "" : ", allocator ",
               a->runs[0].allocator == ALLOCATOR_OWN ? "" : attempt_allocator_name(a->runs[0].allocator));
}

/* Of ranks that a launcher would start, and how many are answered for. */
static void print_launch(const struct reply *a, FILE *out)
{
    const struct fact *f = facts_first(&a->runs[0].facts, FACT_LAUNCH);
    int64_t ranks = f ? strtoll(f->fields[1], NULL, 10) : 0;
    if (!f || (a->setup != &a->launched && ranks == a->setup->ranks.world))
        return;
    fprintf(out, "  %s would start %s", shown(f->fields[0]), units_count(ranks, "rank").s);
    if (a->setup == &a->launched)
        fprintf(out, ": the answer is of these, as with --ranks=%d\n", a->setup->ranks.world);
    else if (a->setup->ranks.world)
        fprintf(out, ", and --ranks says %d: the answer is of %d\n", a->setup->ranks.world,
                a->setup->ranks.world);
    else
        fputs(", as on a machine with one GPU; of more: --ranks\n", out);
}

static void row(struct table *t, const char *name, int64_t bytes, char *note)
{
    table_cell(t, "%s", name);
    table_cell(t, "%s", units_bytes(bytes, true).s);
    table_cell(t, "%s", B(bytes));
    table_cell(t, "%s", note ? note : "");
    free(note);
}

static char *place_words(const struct peaks *p)
{
    bool phase = p->phase && strcmp(p->phase, "none") != 0;
    char *step = p->step == UNKNOWN ? xstrdup("") : xformat("step %" PRId64, p->step);
    char *text = xformat("%s%s%s%s", phase ? "in " : "", phase ? shown(p->phase) : "",
                         phase && *step ? ", " : "", step);
    free(step);
    return text;
}

/* docs/measurements/fit.md */
static char *beside_words(const struct reply *a)
{
    return reply_beside_is_measured(a)
               ? xstrdup("context, code and cuBLAS, as measured; whole programs had 630 to 934 MiB")
               : xstrdup("context, code, libraries: an estimate");
}

static void print_figures(const struct reply *a, FILE *out)
{
    const struct peaks *p = reply_peaks(a);
    struct table t;
    if (p->driver == UNKNOWN)
        return;
    table_init(&t, "<>><", NULL);
    t.sentences = true;
    row(&t, "peak allocated", p->allocated, place_words(p));
    row(&t, "peak reserved", p->reserved, NULL);
    if (verdict_beside(p) != UNKNOWN)
        row(&t, "beside it", verdict_beside(p), beside_words(a));
    if (verdict_left(p) != UNKNOWN && reply_verdict(a)->kind == VERDICT_FITS)
        row(&t, "left of the device", verdict_left(p), NULL);
    table_print(&t, out, 4);
    table_free(&t);
}

/* ---- how exact ---- */

/* Which of the runs; 0: none but the first. */
static size_t run_under(const struct reply *a, enum assumption assumption)
{
    for (size_t i = 1; i < a->n; i++)
        if (a->runs[i].assumption == assumption)
            return i;
    return 0;
}

/* How run I ended, beside the first; the caller frees it. */
static char *outcome_of(const struct reply *a, size_t i)
{
    const struct verdict *v = &a->verdicts[i], *first = &a->verdicts[0];
    if (!i)
        return xstrdup("could not be started: whether sizes hang on them is undecided");
    if (v->kind > VERDICT_REFUSED)
        return xformat("%s (%s): whether sizes hang on them is undecided",
                       v->kind == VERDICT_FAILED ? "failed by itself" : "can't be judged", v->why);
    if (v->kind != first->kind)
        return xstrdup(v->kind == VERDICT_FITS ? "fits" : "does not fit");
    return xstrdup(v->peaks.allocated == first->peaks.allocated && v->peaks.reserved == first->peaks.reserved
                       ? "gave the same sizes"
                       : "gave other sizes");
}

/* Whether there are guesses that further runs try. */
static bool has_tried(const struct facts *facts)
{
    for (size_t i = 0; i < facts->n; i++)
        if (facts->all[i].kind == FACT_GUESS && *facts->all[i].fields[4])
            return true;
    return false;
}

static void print_span(const char *name, struct span s, FILE *out)
{
    if (s.least == s.most)
        fprintf(out, "%s exact", name);
    else
        fprintf(out, "%s within %s to %s", name, B(s.least), B(s.most));
}

static void print_places(const struct reply *a, FILE *out)
{
    const struct facts *facts = &a->runs[0].facts;
    size_t shown_facts = 0, all = facts_count(facts, FACT_VALUE);
    for (size_t i = 0; i < facts->n && shown_facts < PLACES; i++) {
        const struct fact *f = &facts->all[i];
        if (f->kind != FACT_VALUE)
            continue;
        shown_facts++;
        wrap_print(out, 6, 8, "%s: %s, %s%s", shown(f->fields[0]), shown(f->fields[1]),
                   strcmp(f->fields[2], "unknown") ? "taken as " : "", shown(f->fields[2]));
    }
    if (all > shown_facts)
        fprintf(out, "      %zu more\n", all - shown_facts);
}

static void print_values(const struct reply *a, FILE *out)
{
    size_t n = facts_count(&a->runs[0].facts, FACT_VALUE);
    bool compiled = a->runs[0].compiled;
    if (!n && !compiled)
        return;
    char *end = outcome_of(a, run_under(a, ASSUME_SECOND));
    const char *guesses = has_tried(&a->runs[0].facts) ? ", and with other guesses," : "";
    if (n)
        wrap_print(
            out, 4, 6,
            "the program reads values that only a GPU computes, at %s; a second run with others%s%s %s",
            units_count((int64_t)n, "place").s, guesses,
            compiled ? ", and with torch.compile's caches full," : "", end);
    else
        wrap_print(out, 4, 6, "torch.compile's caches were empty; a second run with full ones%s %s", guesses,
                   end);
    print_places(a, out);
    free(end);
}

struct guesses { /* of a library */
    int64_t all, convolutions, least, most;
};

static struct guesses guesses_of(const struct facts *facts, const char *library)
{
    struct guesses g = {.least = INT64_MAX};
    for (size_t i = 0; i < facts->n; i++) {
        const char *const *fields = facts->all[i].fields;
        if (facts->all[i].kind != FACT_GUESS || strcmp(fields[0], library) != 0)
            continue;
        int64_t bytes = strtoll(fields[2], NULL, 10);
        int64_t least = *fields[4] ? strtoll(fields[3], NULL, 10) : bytes;
        int64_t most = *fields[4] ? strtoll(fields[4], NULL, 10) : bytes;
        g.all++;
        g.convolutions += !strncmp(fields[1], "forward ", 8) || !strncmp(fields[1], "data ", 5) ||
                          !strncmp(fields[1], "filter ", 7);
        g.least = least < g.least ? least : g.least;
        g.most = most > g.most ? most : g.most;
    }
    return g;
}

static bool is_first_of_library(const struct facts *facts, size_t at)
{
    for (size_t i = 0; i < at; i++)
        if (facts->all[i].kind == FACT_GUESS && !strcmp(facts->all[i].fields[0], facts->all[at].fields[0]))
            return false;
    return facts->all[at].kind == FACT_GUESS;
}

/* A line of each library: in --json are all. */
static void print_guesses(const struct reply *a, FILE *out)
{
    const struct facts *facts = &a->runs[0].facts;
    for (size_t i = 0; i < facts->n; i++) {
        const char *library = facts->all[i].fields[0];
        if (!is_first_of_library(facts, i))
            continue;
        struct guesses g = guesses_of(facts, library);
        const char *what = g.all == 1                ? facts->all[i].fields[1]
                           : g.convolutions == g.all ? "convolutions"
                                                     : "calls";
        if (g.convolutions == 1 && g.all == 1)
            what = "a convolution";
        char *count = g.all == 1 ? xstrdup("") : xformat("%" PRId64 " ", g.all);
        const char *name = strcmp(library, "cudnn") ? shown(library) : "cuDNN";
        if (g.least == g.most)
            wrap_print(out, 4, 6, "%s: %s%s, a guess: %s", name, count, shown(what), B(g.most));
        else
            wrap_print(out, 4, 6, "%s's room for %s%s was not measured: taken as %s to %s", name, count,
                       shown(what), B(g.least), B(g.most));
        free(count);
    }
    for (size_t i = 1; i < a->n; i++)
        if (a->verdicts[i].kind > VERDICT_REFUSED &&
            (a->runs[i].assumption == ASSUME_THIRD || !facts_count(facts, FACT_VALUE))) {
            char *end = outcome_of(a, i);
            wrap_print(out, 4, 6, "a run with other guesses %s", end);
            free(end);
        }
}

static void print_layouts(const struct reply *a, FILE *out)
{
    const struct layouts *l = &reply_peaks(a)->layouts;
    if (l->differ)
        wrap_print(out, 4, 6,
                   "addresses decide, as PyTorch takes the lower one of two equal free blocks: of %d ways in "
                   "which a "
                   "driver may place memory %d give other figures",
                   l->tried, l->differ);
}

static void print_exactness(const struct reply *a, FILE *out)
{
    if (!reply_peaks(a)->framework || reply_verdict(a)->kind > VERDICT_REFUSED)
        return;
    struct span allocated = reply_allocated(a), reserved = reply_reserved(a);
    if (reply_is_exact(a)) {
        fputs("    exact\n", out);
    } else if (!a->verdicts[0].whole) {
        fputs("    not exact: events were lost (vramscope report says which)\n", out);
    } else if (allocated.least == allocated.most && reserved.least == reserved.most) {
        fputs("    not exact: not all that sizes may hang on was tried\n", out);
    } else {
        fputs("    ", out);
        print_span("allocated", allocated, out);
        print_span(", reserved", reserved, out);
        fputc('\n', out);
    }
    print_layouts(a, out);
    print_guesses(a, out);
    print_values(a, out);
}

/* ---- what would let it, what it wrote, what it said ---- */

static void print_changes(const struct reply *a, FILE *out)
{
    const struct verdict *v = reply_verdict(a);
    const struct attempt *run = &a->runs[reply_decides(a)];
    struct trace t;
    struct oom_report r;
    if (v->kind != VERDICT_REFUSED || trace_open(&t, run->files[v->refused_file]))
        return;
    if (!oom_report_load(&r, &t, OOM_LAST)) {
        oom_report_changes_text(&r, &t, out, false);
        oom_report_free(&r);
    }
    trace_close(&t);
}

static void print_written(const struct reply *a, FILE *out)
{
    static const char *const hows[] = {"", ", changed", ", deleted"};
    const struct written *w = &a->runs[0].written;
    if (w->n)
        fprintf(out, "\n  written, %s: %s, %s\n",
                a->setup->keep_writes ? "and kept apart" : "and thrown away",
                units_count((int64_t)w->n, "file").s, B(w->bytes));
    for (size_t i = 0; i < w->n && i < FILES; i++)
        fprintf(out, "    %s%s%s%s\n", shown(w->files[i].path),
                w->files[i].how == WRITTEN_DELETED ? "" : ", ",
                w->files[i].how == WRITTEN_DELETED ? "" : B(w->files[i].bytes), hows[w->files[i].how]);
    if (w->n > FILES)
        fprintf(out, "    %zu more\n", w->n - FILES);
    if (w->full)
        wrap_print(
            out, 2, 4,
            "all the room for that was taken, %s: the program may have been told that the disk is full",
            B(w->room));
    size_t stopped = facts_count(&a->runs[0].facts, FACT_WROTE), done = 0;
    if (stopped)
        fprintf(out, "\n  stopped: %s\n", units_count((int64_t)stopped, "write").s);
    for (size_t i = 0; i < a->runs[0].facts.n && done < FILES; i++)
        if (a->runs[0].facts.all[i].kind == FACT_WROTE && ++done)
            fprintf(out, "    %s\n", shown(a->runs[0].facts.all[i].fields[0]));
}

static void print_said(const struct reply *a, FILE *out)
{
    if (a->verdicts[0].kind != VERDICT_FAILED || !a->runs[0].said || !*a->runs[0].said)
        return;
    fputs("\n  the last that it said\n", out);
    char *copy = xstrdup(a->runs[0].said), *at = copy, *line;
    while ((line = strsep(&at, "\n")))
        fprintf(out, "    %s\n", shown(line));
    free(copy);
}

void reply_text(const struct reply *a, FILE *out)
{
    print_headline(a, out);
    if (reply_verdict(a)->kind <= VERDICT_REFUSED) {
        print_run(a, out);
        print_launch(a, out);
        fputc('\n', out);
        print_figures(a, out);
        if (a->setup->ranks.world)
            fit_ranks_text(a->runs[0].files, a->runs[0].n, out);
        print_exactness(a, out);
        print_changes(a, out);
    }
    print_said(a, out);
    print_written(a, out);
    if (a->path)
        fprintf(out, "\n  all of it: vramscope report %s\n", shown_word(a->path));
}
