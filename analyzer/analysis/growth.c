/* growth.c - see growth.h. */
#include "growth.h"

#include <stdlib.h>

#define WARM_UP 3                        /* steps at least */
#define LEAST   (GROWTH_STEPS - WARM_UP) /* steps in the window, and steps that made something of a group */
#define GRAIN   512

bool growth_window(size_t n, struct growth_window *w)
{
    size_t warm = n / 8 > WARM_UP ? n / 8 : WARM_UP;
    if (n < warm + LEAST)
        return false;
    for (size_t i = 0; i <= GROWTH_QUARTERS; i++)
        w->end[i] = warm - 1 + (n - warm) * i / GROWTH_QUARTERS;
    return true;
}

/* Saturates, because the numbers of a damaged file may overflow. */
static int64_t add(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a + (uint64_t)b);
}

/* ---- groups ---- */

static int compare(int64_t a, int64_t b)
{
    return (a > b) - (a < b);
}

static int by_origin(const struct trace_birth *x, const struct trace_birth *y)
{
    int order = compare(x->phase, y->phase);
    order = order ? order : compare(x->stack, y->stack);
    order = order ? order : compare(x->op, y->op);
    return order ? order : compare(x->space, y->space);
}

static int by_origin_and_size(const void *a, const void *b)
{
    const struct trace_birth *x = a, *y = b;
    int order = by_origin(x, y);
    order = order ? order : compare(x->size, y->size);
    return order ? order : compare(x->step, y->step);
}

static int by_origin_and_step(const void *a, const void *b)
{
    const struct trace_birth *x = a, *y = b;
    int order = by_origin(x, y);
    return order ? order : compare(x->step, y->step);
}

struct stretch { /* neighbours among the births: a group that may grow */
    const struct trace_birth *at;
    size_t n;
};

static size_t steps_of(const struct growth_window *w, size_t quarter)
{
    return w->end[quarter + 1] - w->end[quarter];
}

static int64_t window_steps(const struct growth_window *w)
{
    return (int64_t)(w->end[GROWTH_QUARTERS] - w->end[0]);
}

/* Sums the births of S by quarters; returns the total. */
static int64_t quarters_of(const struct growth_window *w, const struct stretch *s, int64_t *quarters)
{
    int64_t sum = 0;
    for (size_t q = 0; q < GROWTH_QUARTERS; q++)
        quarters[q] = 0;
    for (size_t i = 0; i < s->n; i++)
        for (size_t q = 0; q < GROWTH_QUARTERS; q++)
            if (s->at[i].step > (int64_t)w->end[q] && s->at[i].step <= (int64_t)w->end[q + 1]) {
                quarters[q] = add(quarters[q], s->at[i].size);
                sum = add(sum, s->at[i].size);
            }
    return sum;
}

/* The number of steps in the window with births of S, which are in order of steps. */
static size_t steps_with(const struct growth_window *w, const struct stretch *s)
{
    size_t n = 0;
    int64_t last = (int64_t)w->end[0];
    for (size_t i = 0; i < s->n; i++)
        if (s->at[i].step > last) {
            last = s->at[i].step;
            n++;
        }
    return n;
}

static bool grows(const struct growth_window *w, const struct stretch *s)
{
    int64_t quarters[GROWTH_QUARTERS], sum = quarters_of(w, s, quarters);
    if (sum <= GRAIN * window_steps(w) || steps_with(w, s) < LEAST)
        return false;
    double rate = (double)sum / (double)window_steps(w);
    for (size_t q = 0; q < GROWTH_QUARTERS; q++)
        if ((double)quarters[q] < rate / 2 * (double)steps_of(w, q))
            return false;
    return true;
}

/* The first birth of S in the window. */
static size_t first_in_window(const struct growth_window *w, const struct stretch *s)
{
    size_t i = 0;
    while (i < s->n && s->at[i].step <= (int64_t)w->end[0])
        i++;
    return i;
}

/* The longest distance in steps between two successive births of S in the window. */
static int64_t longest_pause(const struct growth_window *w, const struct stretch *s)
{
    int64_t last = (int64_t)w->end[0], most = 1;
    for (size_t i = first_in_window(w, s); i < s->n; last = s->at[i++].step)
        most = s->at[i].step - last > most ? s->at[i].step - last : most;
    return most;
}

/* The step since which S grows: the earliest from which its average rate is within a tenth of the window's,
 * without a longer pause than there, so that what only the first step made does not count.  Its births are in
 * order of steps. */
static int64_t since_step(const struct growth_window *w, const struct stretch *s, int64_t bytes)
{
    size_t first = first_in_window(w, s), i = first;
    if (first == s->n)
        return (int64_t)w->end[0] + 1;
    double rate = (double)bytes / (double)window_steps(w), sum = (double)bytes;
    int64_t since = s->at[first].step, pause = longest_pause(w, s), end = (int64_t)w->end[GROWTH_QUARTERS];
    while (i > 0 && since - s->at[i - 1].step <= pause) {
        int64_t step = s->at[i - 1].step;
        for (; i > 0 && s->at[i - 1].step == step; i--)
            sum += (double)s->at[i - 1].size;
        double mean = sum / (double)(end - step + 1);
        if (mean < 0.9 * rate || mean > 1.1 * rate)
            break;
        since = step;
    }
    return since;
}

static struct growth_group group_of(const struct growth_window *w, const struct stretch *s, size_t peak_step)
{
    struct growth_group g = {.phase = s->at->phase,
                             .stack = s->at->stack,
                             .op = s->at->op,
                             .space = s->at->space,
                             .least_size = INT64_MAX};
    for (size_t i = 0; i < s->n; i++) {
        const struct trace_birth *b = &s->at[i];
        if (peak_step != SIZE_MAX && b->step > 0 && b->step < (int64_t)peak_step)
            g.before = add(g.before, b->size);
        if (b->step <= (int64_t)w->end[0])
            continue;
        g.bytes = add(g.bytes, b->size);
        g.count++;
        g.least_size = b->size < g.least_size ? b->size : g.least_size;
        g.greatest_size = b->size > g.greatest_size ? b->size : g.greatest_size;
    }
    g.since = since_step(w, s, g.bytes);
    return g;
}

/* Moves the groups that grow out of the births; returns how many births are left, at the front. */
static size_t take_groups(struct growth *g, const struct growth_window *w, struct trace_birth *births,
                          size_t n, bool sizes, size_t peak_step)
{
    size_t left = 0;
    if (n)
        qsort(births, n, sizeof *births, sizes ? by_origin_and_size : by_origin_and_step);
    for (size_t i = 0, k; i < n; i = k) {
        for (k = i + 1;
             k < n && !by_origin(&births[i], &births[k]) && (!sizes || births[k].size == births[i].size);
             k++) {
        }
        struct stretch s = {&births[i], k - i};
        if (grows(w, &s))
            *PUSH(g->groups, g->count) = group_of(w, &s, peak_step);
        else
            for (size_t m = i; m < k; m++)
                births[left++] = births[m];
    }
    return left;
}

/* ---- all of it ---- */

static int faster(const void *a, const void *b)
{
    const struct growth_group *x = a, *y = b;
    return x->bytes != y->bytes ? compare(y->bytes, x->bytes) : compare(x->phase, y->phase);
}

/* Whether allocated itself rose.  One quarter may be an exception, for instance because a large model was
 * freed. */
static bool rises(const struct growth *g, const struct growth_window *w, const int64_t *base)
{
    size_t quarters = 0;
    for (size_t q = 0; q < GROWTH_QUARTERS; q++) {
        double part = (double)g->bytes * (double)steps_of(w, q) / (double)window_steps(w);
        quarters += (double)base[q + 1] - (double)base[q] >= part / 2;
    }
    return quarters + 1 >= GROWTH_QUARTERS;
}

static void add_up(struct growth *g)
{
    g->bytes = g->before = 0;
    for (size_t i = 0; i < g->count; i++) {
        g->bytes = add(g->bytes, g->groups[i].bytes);
        g->before = add(g->before, g->groups[i].before);
    }
}

struct growth growth_of(const struct growth_window *w, struct trace_birth *births, size_t n,
                        const int64_t *base, size_t peak_step)
{
    struct growth g = {.known = true, .steps = window_steps(w)};
    n = take_groups(&g, w, births, n, true, peak_step);
    take_groups(&g, w, births, n, false, peak_step);
    add_up(&g);
    if (g.count && !rises(&g, w, base)) {
        growth_free(&g);
        g = (struct growth){.known = true, .steps = window_steps(w)};
    }
    if (g.count)
        qsort(g.groups, g.count, sizeof *g.groups, faster);
    return g;
}

void growth_free(struct growth *g)
{
    free(g->groups);
    g->groups = NULL;
    g->count = 0;
}
