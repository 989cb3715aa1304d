/* bands.c - see columns.h. */
#include "columns.h"

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

/* The index in OPEN (ranges in the order of their pushes) of the range that determines the phase. */
static size_t telling(const struct trace_range *ranges, const size_t *open, size_t depth)
{
    size_t best = depth - 1;
    for (size_t i = best; i-- > 0;) {
        const struct trace_range *r = &ranges[open[i]];
        if (r->thread == ranges[open[best]].thread && r->source < ranges[open[best]].source)
            best = i;
    }
    return best;
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
            add_band(&bands, count, at, t, ranges[open[telling(ranges, open, depth)]].phase);
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

/* The phase that the bands from *I on give to column X; 0: none.  Of several phases it is the one at the
 * column's greatest value or, if that lies between bands, the longest.  Advances *I. */
static int phase_of_column(const struct band *bands, size_t n, size_t *i, const struct columns *c, size_t x,
                           size_t *mixed)
{
    int64_t left = columns_edge(c, x), right = columns_edge(c, x + 1), peak = c->at[x].t_max, longest = 0;
    int phase = 0, at_peak = 0, first = 0;
    bool several = false;
    while (*i < n && bands[*i].to <= left)
        ++*i;
    for (size_t k = *i; k < n && bands[k].from < right; k++) {
        const struct band *b = &bands[k];
        int64_t in = (b->to < right ? b->to : right) - (b->from > left ? b->from : left);
        first = first ? first : b->phase;
        several = several || b->phase != first;
        if (b->from <= peak && peak < b->to)
            at_peak = b->phase;
        if (in > longest) {
            longest = in;
            phase = b->phase;
        }
    }
    *mixed += several;
    return at_peak ? at_peak : phase;
}

/* Columns without a range get the phases of their own events; a column without an event gets its neighbours'
 * phase if both have the same. */
static void use_events(int *phases, const bool *ranged, const struct columns *c)
{
    int before = c->before;
    size_t from = 0; /* columns since the last event */
    for (size_t x = 0; x < c->n; x++) {
        const struct column *at = &c->at[x];
        if (at->folded && !ranged[x]) { /* many phases in turn */
            before = 0;
            from = x + 1;
            continue;
        }
        if (!ranged[x] && !at->any)
            continue;
        for (size_t k = from; k < x && !ranged[x] && before > 0 && at->first_phase == before; k++)
            phases[k] = before;
        if (!ranged[x])
            phases[x] = at->named;
        before = ranged[x] ? 0 : at->last_phase;
        from = x + 1;
    }
}

static struct band *join_columns(const int *phases, const struct columns *c, size_t *count)
{
    struct band *bands = NULL;
    *count = 0;
    for (size_t x = 0; x < c->n; x++)
        if (phases[x] > 0)
            add_band(&bands, count, columns_edge(c, x), columns_edge(c, x + 1), phases[x]);
    return bands;
}

struct band *bands_fit(const struct band *bands, size_t n, const struct columns *c, size_t *count,
                       size_t *mixed)
{
    int *phases = xrealloc(NULL, c->n * sizeof *phases);
    bool *ranged = xrealloc(NULL, c->n * sizeof *ranged);
    size_t i = 0;
    *mixed = 0;
    for (size_t x = 0; x < c->n; x++) {
        phases[x] = phase_of_column(bands, n, &i, c, x, mixed);
        ranged[x] = phases[x] > 0;
    }
    use_events(phases, ranged, c);
    struct band *fitted = join_columns(phases, c, count);
    free(phases);
    free(ranged);
    return fitted;
}
