/*
 * sizes.c - reads which sizes are asked about, and searches the largest that fits (answer.h). It halves: what
 * is held grows with the size, or the answer is one of several.
 */
#include "answer.h"

#include <stdlib.h>
#include <string.h>

#define GRANULE    64
#define BATCH_MOST (INT64_C(1) << 20) /* that is searched */

static bool read_number(const char **at, int64_t *out)
{
    char *end;
    long long n = **at >= '0' && **at <= '9' ? strtoll(*at, &end, 10) : 0;
    if (n < 1 || n > NUMBER_MOST)
        return false;
    *out = n;
    *at = end;
    return true;
}

/* False: the list is full, or does not rise. */
static bool add(struct law_list *list, int64_t x)
{
    if (list->n == SIZES_MOST || (list->n && x <= list->at[list->n - 1]))
        return false;
    list->at[list->n++] = x;
    return true;
}

bool law_read_list(const char *text, struct law_list *list)
{
    int64_t x, last;
    *list = (struct law_list){.n = 0};
    if (!read_number(&text, &x) || !add(list, x))
        return false;
    if (!strncmp(text, "..", 2)) {
        text += 2;
        if (!read_number(&text, &last) || last < x || *text)
            return false;
        for (x *= 2; x < last; x *= 2)
            add(list, x);
        return list->at[list->n - 1] == last || add(list, last);
    }
    while (*text == ',') {
        text++;
        if (!read_number(&text, &x) || !add(list, x))
            return false;
    }
    return !*text;
}

static int by_value(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

void law_own_list(const struct law_runs *runs, bool batch, struct law_list *list)
{
    int64_t all[LAW_RUNS_MOST];
    for (size_t i = 0; i < runs->n; i++)
        all[i] = batch ? runs->at[i].batch : runs->at[i].seq;
    qsort(all, runs->n, sizeof *all, by_value);
    *list = (struct law_list){.n = 0};
    for (size_t i = 0; i < runs->n; i++)
        add(list, all[i]);
}

static int check_axis(const struct law_runs *runs, const struct law_list *asked, bool batch)
{
    struct law_list own;
    law_own_list(runs, batch, &own);
    if (own.n > 1 || (asked->n == 1 && asked->at[0] == own.at[0]))
        return 0;
    const char *name = batch ? "batch" : "seq";
    return complain(
        "whatif: every recording has %s=%lld, which says nothing of others: record one more, or ask "
        "for --%s=%lld",
        name, (long long)own.at[0], name, (long long)own.at[0]);
}

int law_check_design(const struct law_runs *runs, const struct law_list *batch, const struct law_list *seq)
{
    static const char *const names[] = {"nothing", "the tokens", "batch times length squared", "the batch",
                                        "the length"};
    struct law_point points[LAW_RUNS_MOST];
    struct law_list own_batch, own_seq;
    enum law_term a, b;
    if (check_axis(runs, batch, true) || check_axis(runs, seq, false))
        return 2;
    law_own_list(runs, true, &own_batch);
    law_own_list(runs, false, &own_seq);
    for (size_t i = 0; i < runs->n; i++)
        points[i] = (struct law_point){runs->at[i].batch, runs->at[i].seq};
    if (own_batch.n > 1 && own_seq.n > 1 && law_same_terms(points, runs->n, &a, &b))
        return complain(
            "whatif: these recordings can't tell what grows with %s from what grows with %s: record "
            "one more, at batch=%lld,seq=%lld for example",
            names[a], names[b], (long long)own_batch.at[1], (long long)own_seq.at[0]);
    return 0;
}

/* Lengths that are looked at are multiples of the largest power of two, 64 at most, that divides those of the
 * runs. */
static int64_t granule(const struct law_runs *runs)
{
    int64_t n = GRANULE;
    for (size_t i = 0; i < runs->n; i++)
        while (runs->at[i].seq % n)
            n /= 2;
    return n;
}

/* ---- the largest that fits ---- */

struct search {
    struct law_model *m;
    enum feed_policy policy;
    uint64_t capacity;
    struct law_point fixed; /* the other one is 0 */
};

static struct law_answer try(const struct search *s, int64_t x)
{
    struct law_point at = {s->fixed.batch ? s->fixed.batch : x, s->fixed.seq ? s->fixed.seq : x};
    return law_play(s->m, at, s->policy, s->capacity);
}

static enum law_found halve(const struct search *s, int64_t least, int64_t most, int64_t step, int64_t *best,
                            uint64_t *retries)
{
    struct law_answer a = try(s, most);
    *best = most;
    *retries = a.retries;
    if (a.fits)
        return LAW_ALL_FIT;
    a = try(s, least);
    *best = least;
    *retries = a.retries;
    if (!a.fits)
        return LAW_NOTHING_FITS;
    int64_t low = 0, high = (most - least + step - 1) / step; /* in steps: low fits, high does not */
    while (high - low > 1) {
        int64_t middle = low + (high - low) / 2;
        a = try(s, least + middle * step);
        if (a.fits) {
            low = middle;
            *retries = a.retries;
        } else {
            high = middle;
        }
    }
    *best = least + low * step;
    return LAW_FOUND;
}

enum law_found law_largest(struct law_model *m, bool longest, int64_t x, const struct law_list *along,
                           enum feed_policy policy, uint64_t capacity, int64_t *best, uint64_t *retries)
{
    struct law_point fixed = longest ? (struct law_point){x, 0} : (struct law_point){0, x};
    struct search s = {m, policy, capacity, fixed};
    int64_t least = along->at[0], most = along->at[along->n - 1], step = longest ? granule(m->runs) : 1;
    enum law_found found = halve(&s, least, most, step, best, retries);
    while (!longest && found == LAW_ALL_FIT && most < BATCH_MOST) {
        least = most; /* fits */
        most *= 2;
        found = halve(&s, least, most, step, best, retries);
    }
    return found;
}
