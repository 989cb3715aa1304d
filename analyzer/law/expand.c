/* expand.c - see expand.h. */
#include "expand.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/shown.h"
#include "base/units.h"
#include "read/trace.h"
#include "runs.h"

struct candidate { /* a process */
    char *word;    /* FILE#N */
    int64_t batch, seq, rank, held;
    bool usable;
};

/* ---- one file ---- */

static bool read_candidate(struct candidate *c, char *word)
{
    struct trace t;
    *c = (struct candidate){word, UNKNOWN, UNKNOWN, UNKNOWN, 0, false};
    if (trace_open(&t, word)) {
        complain("%s", t.why);
        return false;
    }
    law_label_sizes(&t, &c->batch, &c->seq);
    c->rank = t.process.rank;
    for (size_t i = 0; i < t.peak_count; i++)
        if (!strcmp(t.peaks[i].kind, "framework") && t.peaks[i].bytes > c->held)
            c->held = t.peaks[i].bytes;
    bool refused = trace_load_ooms(&t) || t.oom_total > 0 || trace_last_refused(&t) != UNKNOWN;
    c->usable = c->batch != UNKNOWN && c->seq != UNKNOWN && c->held > 0 && !refused && t.steps >= 2 &&
                t.end != TRACE_END_RUNNING;
    trace_close(&t);
    return true;
}

static int by_size(const void *a, const void *b)
{
    const struct candidate *x = a, *y = b;
    int64_t m = x->batch * x->seq, n = y->batch * y->seq;
    if (x->usable != y->usable)
        return x->usable ? -1 : 1;
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

/* Moves the words to take to the front of WORDS, frees the others; how many there are. */
static size_t take_best(const char *file, char **words, size_t n)
{
    struct candidate *all = xrealloc(NULL, n * sizeof *all);
    size_t usable = 0, sizes = 0;
    for (size_t i = 0; i < n; i++)
        if (read_candidate(&all[i], words[i]))
            usable += all[i].usable;
    qsort(all, n, sizeof *all, by_size);
    for (size_t i = 0; i < usable; i++)
        sizes += i == 0 || !same_size(&all[i - 1], &all[i]);
    size_t last = usable; /* of the largest size the first, which held most */
    while (last > 0 && same_size(&all[last - 1], &all[usable - 1]))
        last--;
    int64_t rank = usable ? all[last].rank : UNKNOWN;
    size_t count = choose(all, usable, rank, words);
    char *whose = rank != UNKNOWN ? xformat(" of rank %" PRId64, rank) : xstrdup("");
    if (count < n)
        complain(
            "whatif: %s: %zu of its %s taken%s: one for each batch and length, of those that made two steps "
            "and did "
            "not run out of memory%s",
            shown(file), count, units_count((int64_t)n, "recording").s, whose,
            sizes > count ? ", the smallest" : "");
    free(whose);
    for (size_t i = 0; i < n; i++)
        free(all[i].word);
    free(all);
    return count;
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
        k = take_best(words[i], own, k);
        for (size_t p = 0; p < k; p++)
            *PUSH(out, *count) = own[p];
        free(own);
    }
    return out;
}
