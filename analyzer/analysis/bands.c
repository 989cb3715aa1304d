/* bands.c - see bands.h. */
#include "bands.h"

#include <stdlib.h>
#include <string.h>

struct edge {
    int64_t t;
    size_t range;
    bool push;
};

/* Pops before pushes at the same moment: neighbours touch and do not overlap. */
static int by_time(const void *a, const void *b)
{
    const struct edge *x = a, *y = b;
    if (x->t != y->t)
        return x->t < y->t ? -1 : 1;
    if (x->push != y->push)
        return x->push ? 1 : -1;
    return x->range < y->range ? -1 : x->range > y->range;
}

static struct edge *make_edges(const struct trace_range *ranges, size_t n, int64_t to, size_t *count)
{
    struct edge *edges = NULL;
    *count = 0;
    for (size_t i = 0; i < n; i++) {
        int64_t pop = ranges[i].t_pop == UNKNOWN ? to : ranges[i].t_pop;
        if (pop <= ranges[i].t_push)
            continue;
        *PUSH(edges, *count) = (struct edge){ranges[i].t_push, i, true};
        *PUSH(edges, *count) = (struct edge){pop, i, false};
    }
    if (*count)
        qsort(edges, *count, sizeof *edges, by_time);
    return edges;
}

static void close_range(size_t *open, size_t *depth, size_t range)
{
    for (size_t i = *depth; i-- > 0;) {
        if (open[i] == range) {
            memmove(open + i, open + i + 1, (*depth - i - 1) * sizeof *open);
            --*depth;
            return;
        }
    }
}

static void add_band(struct band **bands, size_t *n, int64_t from, int64_t to, int phase)
{
    struct band *last = *n ? &(*bands)[*n - 1] : NULL;
    if (to <= from)
        return;
    if (last && last->phase == phase && last->to == from)
        last->to = to;
    else
        *PUSH(*bands, *n) = (struct band){from, to, phase};
}

struct band *bands_flatten(const struct trace_range *ranges, size_t n, int64_t from, int64_t to,
                           size_t *count)
{
    size_t edge_count, depth = 0;
    struct edge *edges = make_edges(ranges, n, to, &edge_count);
    size_t *open = xrealloc(NULL, (n + 1) * sizeof *open);
    struct band *bands = NULL;
    int64_t at = from;
    *count = 0;
    for (size_t i = 0; i < edge_count; i++) {
        int64_t t = edges[i].t < from ? from : edges[i].t > to ? to : edges[i].t;
        if (depth && t > at)
            add_band(&bands, count, at, t, ranges[open[depth - 1]].phase);
        at = t;
        if (edges[i].push)
            open[depth++] = edges[i].range;
        else
            close_range(open, &depth, edges[i].range);
    }
    free(edges);
    free(open);
    return bands;
}

/* The only phase that the bands from *I on give to column X, or -1 where there are several; *I moves on. */
static int phase_of_column(const struct band *bands, size_t n, size_t *i, int64_t left, int64_t right)
{
    int phase = 0;
    while (*i < n && bands[*i].to <= left)
        ++*i;
    for (size_t k = *i; k < n && bands[k].from < right; k++) {
        if (phase && bands[k].phase != phase)
            return -1;
        phase = bands[k].phase;
    }
    return phase;
}

struct band *bands_fit(const struct band *bands, size_t n, const struct columns *c, size_t *count,
                       size_t *mixed)
{
    struct band *fitted = NULL;
    size_t i = 0;
    *count = *mixed = 0;
    for (size_t x = 0; x < c->n; x++) {
        int64_t left = columns_edge(c, x), right = columns_edge(c, x + 1);
        int phase = phase_of_column(bands, n, &i, left, right);
        *mixed += phase < 0;
        /* several phases, or no range tells: what the curve itself says at its greatest */
        if (phase <= 0)
            phase = c->at[x].phase;
        add_band(&fitted, count, left, right, phase);
    }
    /* "none" is no band */
    size_t kept = 0;
    for (size_t k = 0; k < *count; k++)
        if (fitted[k].phase > 0)
            fitted[kept++] = fitted[k];
    *count = kept;
    return fitted;
}
