/* expand.c - chooses among the recordings of a file of many processes (runs.h). */
#include "runs.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/shown.h"
#include "base/units.h"
#include "read/trace.h"
#include "read/ooms.h"

enum verdict { USABLE, UNREADABLE, RUNNING, REFUSED, UNSIZED, SHORT, EMPTY, VERDICTS };

struct candidate { /* a process */
    char *word;    /* FILE#N */
    int64_t batch, seq, rank, held;
    enum verdict verdict;
    char *program; /* its labels that are no size, "attention=eager, lr=1"; "" */
};

/* ---- one file ---- */

static enum verdict judge(const struct candidate *c, struct trace *t)
{
    if (t->end == TRACE_END_RUNNING)
        return RUNNING;
    if (trace_load_ooms(t) || t->oom_total > 0 || trace_last_refused(t) != UNKNOWN)
        return REFUSED;
    if (c->batch == UNKNOWN || c->seq == UNKNOWN)
        return UNSIZED;
    return t->steps < 2 ? SHORT : c->held <= 0 ? EMPTY : USABLE;
}

static void read_candidate(struct candidate *c, char *word)
{
    struct trace t;
    *c = (struct candidate){.word = word,
                            .batch = UNKNOWN,
                            .seq = UNKNOWN,
                            .rank = UNKNOWN,
                            .verdict = UNREADABLE,
                            .program = xstrdup("")};
    if (trace_open(&t, word)) {
        complain("%s", t.why);
        return;
    }
    law_label_sizes(&t, &c->batch, &c->seq);
    for (size_t i = 0; i < t.label_count; i++)
        if (strcmp(t.labels[i].name, "batch") != 0 && strcmp(t.labels[i].name, "seq") != 0)
            xappend(&c->program, "%s%s=%s", *c->program ? ", " : "", t.labels[i].name, t.labels[i].value);
    c->rank = t.process.rank;
    for (size_t i = 0; i < t.peak_count; i++)
        if (!strcmp(t.peaks[i].kind, "framework") && t.peaks[i].bytes > c->held)
            c->held = t.peaks[i].bytes;
    c->verdict = judge(c, &t);
    trace_close(&t);
}

static void free_candidates(struct candidate *all, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        free(all[i].word);
        free(all[i].program);
    }
    free(all);
}

/* The usable ones first, the smallest of them before all. */
static int by_size(const void *a, const void *b)
{
    const struct candidate *x = a, *y = b;
    if (x->verdict != y->verdict)
        return x->verdict < y->verdict ? -1 : 1;
    if (x->verdict != USABLE) /* whose sizes may be unknown */
        return strcmp(x->word, y->word);
    int64_t m = x->batch * x->seq, n = y->batch * y->seq;
    if (m != n)
        return m < n ? -1 : 1;
    if (x->batch != y->batch)
        return x->batch < y->batch ? -1 : 1;
    return x->held != y->held ? (x->held > y->held ? -1 : 1) : strcmp(x->word, y->word);
}

static bool same_size(const struct candidate *a, const struct candidate *b)
{
    return a->batch == b->batch && a->seq == b->seq;
}

/* Of N usable ones in order the ranks' one: at each size the process of RANK, or the first, which held most.
 */
static size_t choose(struct candidate *all, size_t n, int64_t rank, char **out)
{
    size_t count = 0;
    for (size_t i = 0, end; i < n && count < LAW_RUNS_MOST; i = end) {
        size_t best = i;
        for (end = i; end < n && same_size(&all[i], &all[end]); end++)
            if (all[end].rank == rank && all[best].rank != rank)
                best = end;
        out[count++] = all[best].word;
        all[best].word = NULL;
    }
    return count;
}

/* ---- programs ---- */

/* The first of N usable ones that has other labels than the first of all; N: they are of one program. */
static size_t find_other_program(const struct candidate *all, size_t n)
{
    size_t i = 1;
    while (i < n && !strcmp(all[i].program, all[0].program))
        i++;
    return i < n ? i : n;
}

static void complain_of_programs(const char *file, const struct candidate *a, const struct candidate *b)
{
    static const char none[] = "no such label";
    char *words[] = {xstrdup(shown(file)), xstrdup(shown(*a->program ? a->program : none))};
    complain("whatif: %s has recordings of %s and of %s, for which no one law holds: name those of one, %s "
             "and so on",
             words[0], words[1], shown(*b->program ? b->program : none), shown(a->word));
    free(words[0]);
    free(words[1]);
}

/* ---- what is left out ---- */

static void add_reason(char **text, size_t n, const char *what)
{
    if (n)
        xappend(text, "%s%zu %s", **text ? ", " : "; left out: ", n, what);
}

/* COUNT of N were taken, of SIZES sizes, of USABLE ones; WHOSE: " of rank 1". */
static void say_left_out(const char *file, const struct candidate *all, size_t n, size_t usable, size_t count,
                         size_t sizes, const char *whose)
{
    static const char *const what[VERDICTS] = {
        [UNREADABLE] = "that can't be read",  [RUNNING] = "still running",
        [REFUSED] = "that ran out of memory", [UNSIZED] = "without labels batch and seq",
        [SHORT] = "of less than two steps",   [EMPTY] = "without blocks of a framework"};
    size_t left[VERDICTS] = {0}, unsized = n;
    for (size_t i = 0; i < n; i++) {
        left[all[i].verdict]++;
        if (all[i].verdict == UNSIZED && unsized == n)
            unsized = i;
    }
    char *why = xstrdup("");
    add_reason(&why, usable - sizes, "of a size that another one has");
    add_reason(&why, sizes - count, "larger than these");
    for (size_t v = USABLE + 1; v < VERDICTS; v++)
        add_reason(&why, left[v], what[v]);
    char *name =
        unsized < n ? xformat(" (name each as %s:batch=4,seq=1024)", shown(all[unsized].word)) : xstrdup("");
    complain("whatif: %s: %zu of its %s taken%s%s%s%s", shown(file), count,
             units_count((int64_t)n, "recording").s, whose, count ? ": one for each batch and length" : "",
             why, name);
    free(name);
    free(why);
}

/* Moves the words to take to the front of WORDS, frees the others; how many there are, or -1, said. */
static int take_best(const char *file, char **words, size_t n)
{
    struct candidate *all = xrealloc(NULL, n * sizeof *all);
    size_t usable = 0, sizes = 0;
    for (size_t i = 0; i < n; i++) {
        read_candidate(&all[i], words[i]);
        usable += all[i].verdict == USABLE;
    }
    qsort(all, n, sizeof *all, by_size);
    size_t other = find_other_program(all, usable);
    if (other < usable) {
        complain_of_programs(file, &all[0], &all[other]);
        free_candidates(all, n);
        return -1;
    }
    for (size_t i = 0; i < usable; i++)
        sizes += i == 0 || !same_size(&all[i - 1], &all[i]);
    size_t last = usable; /* of the largest size the first, which held most */
    while (last > 0 && same_size(&all[last - 1], &all[usable - 1]))
        last--;
    int64_t rank = usable ? all[last].rank : UNKNOWN;
    size_t count = choose(all, usable, rank, words);
    char *whose = rank != UNKNOWN ? xformat(" of rank %" PRId64, rank) : xstrdup("");
    if (count < n)
        say_left_out(file, all, n, usable, count, sizes, whose);
    free(whose);
    free_candidates(all, n);
    return (int)count;
}

/* ---- all ---- */

char **law_expand(char **words, size_t n, size_t *count)
{
    char **out = NULL;
    *count = 0;
    for (size_t i = 0; i < n; i++) {
        char why[512], **own = NULL;
        size_t k = 0;
        *PUSH(own, k) = xstrdup(words[i]);
        if (trace_spread(&own, &k, why, sizeof why) || k < 2) { /* what is wrong is said where it is opened */
            *PUSH(out, *count) = xstrdup(words[i]);
            if (own)
                trace_free_files(own, k);
            continue;
        }
        int taken = take_best(words[i], own, k);
        for (int p = 0; p < taken; p++)
            *PUSH(out, *count) = own[p];
        free(own);
        if (taken < 0 || (!*count && i + 1 == n)) {
            trace_free_files(out, *count);
            *count = 0;
            return NULL;
        }
    }
    return out;
}
