/* columns.c - see columns.h. */
#include "columns.h"

#include <stdlib.h>
#include <string.h>

void columns_init(struct columns *c, int64_t from, int64_t to, size_t n)
{
    *c = (struct columns){.from = from, .to = to > from ? to : from + 1, .n = n};
    c->at = xrealloc(NULL, n * sizeof *c->at);
    memset(c->at, 0, n * sizeof *c->at);
}

void columns_free(struct columns *c)
{
    free(c->at);
    c->at = NULL;
}

size_t columns_index(const struct columns *c, int64_t t)
{
    if (t <= c->from)
        return 0;
    /* long double: 10 h in ns times thousands of columns is beyond 2^53 */
    size_t i = (size_t)((long double)(t - c->from) * (long double)c->n / (long double)(c->to - c->from));
    return i < c->n ? i : c->n - 1;
}

int64_t columns_edge(const struct columns *c, size_t i)
{
    return c->from + (int64_t)((long double)(c->to - c->from) * (long double)i / (long double)c->n);
}

static void take_max(struct column *to, const struct trace_point *p)
{
    if (to->any && p->allocated_max == to->allocated_max && p->away > to->away)
        to->away = p->away;
    if (to->any && p->allocated_max <= to->allocated_max)
        return;
    to->allocated_max = p->allocated_max;
    to->t_max = p->t_max;
    to->phase = p->phase;
    to->away = p->away;
}

static void take_last(struct column *to, const struct trace_point *p)
{
    if (to->any && p->t_last < to->t_last)
        return;
    to->t_last = p->t_last;
    to->last_phase = p->phase;
    to->allocated_last = p->allocated_last;
    to->reserved_last = p->reserved_last;
    to->away_last = p->away_last;
}

/* Notes the phases of the points themselves, which colour the columns where no range is open. */
static void take_phase(struct column *to, const struct trace_point *p)
{
    if (!to->any || p->t < to->t_first) {
        to->t_first = p->t;
        to->first_phase = p->phase;
    }
    if (p->phase > 0 && (!to->named || p->allocated_max > to->named_max)) {
        to->named = p->phase;
        to->named_max = p->allocated_max;
    }
}

/* Adds P, whose extremes are known to lie in this column. */
static void merge(struct column *to, const struct trace_point *p)
{
    take_max(to, p);
    take_last(to, p);
    if (!to->any || p->allocated_min < to->allocated_min)
        to->allocated_min = p->allocated_min;
    if (!to->any || p->reserved_min < to->reserved_min)
        to->reserved_min = p->reserved_min;
    if (!to->any || p->reserved_max > to->reserved_max)
        to->reserved_max = p->reserved_max;
    to->any = true;
}

static void widen(int64_t band[2], bool first, int64_t least, int64_t most)
{
    band[0] = first || least < band[0] ? least : band[0];
    band[1] = first || most > band[1] ? most : band[1];
}

/* P is a folded stretch: of its phases only the columns that it covers are known. */
static void add_folded(struct columns *c, const struct trace_point *p, size_t first, size_t last)
{
    for (size_t i = first; i <= last; i++) {
        struct column *at = &c->at[i];
        at->folded = true;
        if (first == last)
            continue;
        if (!at->band || p->allocated_max > at->band_allocated[1]) {
            at->band_t = p->t_max;
            at->band_phase = p->phase;
            at->band_away = p->away;
        }
        widen(at->band_allocated, !at->band, p->allocated_min, p->allocated_max);
        widen(at->band_reserved, !at->band, p->reserved_min, p->reserved_max);
        at->band = true;
    }
}

void columns_add(void *context, const struct trace_point *p)
{
    struct columns *c = context;
    if (p->t_last < c->from || p->t > c->to)
        return;
    size_t first = columns_index(c, p->t), last = columns_index(c, p->t_last),
           top = columns_index(c, p->t_max);
    if (p->folded)
        add_folded(c, p, first, last);
    if (first == last) {
        take_phase(&c->at[first], p);
        merge(&c->at[first], p);
        return;
    }
    /* of a stretch over several columns only the places of the maximum and the end are known */
    struct trace_point peak = *p, end = *p;
    peak.t = peak.t_last = p->t_max;
    peak.allocated_min = peak.allocated_last = p->allocated_max;
    peak.reserved_min = peak.reserved_last = p->reserved_max;
    peak.away_last = p->away;
    end.t = end.t_max = p->t_last;
    end.allocated_min = end.allocated_max = p->allocated_last;
    end.reserved_min = end.reserved_max = p->reserved_last;
    end.away = p->away_last;
    if (p->t_max >= c->from && p->t_max <= c->to) {
        take_phase(&c->at[top], &peak);
        merge(&c->at[top], &peak);
    }
    if (p->t_last <= c->to) {
        take_phase(&c->at[last], &end);
        merge(&c->at[last], &end);
    }
}

/* Merges the extremes of folded stretches, which may lie in another column, into the
 * column's own. */
static void show_band(struct column *at)
{
    const int64_t *allocated = at->band_allocated, *reserved = at->band_reserved;
    if (!at->any || allocated[1] > at->allocated_max) {
        at->allocated_max = allocated[1];
        at->t_max = at->band_t;
        at->phase = at->band_phase;
        at->away = at->band_away;
    }
    if (!at->any || allocated[0] < at->allocated_min)
        at->allocated_min = allocated[0];
    if (!at->any || reserved[1] > at->reserved_max)
        at->reserved_max = reserved[1];
    if (!at->any || reserved[0] < at->reserved_min)
        at->reserved_min = reserved[0];
}

/* LEFT, the value at the end of the column before, holds from this column's left edge until its first
 * point. */
static void carry_in(struct column *at, struct trace_point left)
{
    left.t_last = at->any ? INT64_MIN : left.t; /* before every point */
    bool any = at->any;
    merge(at, &left);
    at->any = any;
}

void columns_finish(struct columns *c, const struct trace_point *before)
{
    int64_t allocated = before->allocated_last, reserved = before->reserved_last, away = before->away_last;
    int phase = before->phase;
    c->before = before->phase;
    for (size_t i = 0; i < c->n; i++) {
        int64_t t = columns_edge(c, i);
        struct column *at = &c->at[i];
        if (at->band && !at->any) {
            at->allocated_last = allocated;
            at->reserved_last = reserved;
            at->last_phase = phase;
            at->away_last = away;
        }
        if (at->band) /* the band covers this value */
            show_band(at);
        else
            carry_in(at, (struct trace_point){t, t, t, allocated, allocated, allocated, reserved, reserved,
                                              reserved, phase, false, away, away});
        allocated = at->allocated_last;
        reserved = at->reserved_last;
        phase = at->last_phase;
        away = at->away_last;
    }
}

size_t columns_peak(const struct columns *c)
{
    size_t best = 0;
    for (size_t i = 1; i < c->n; i++)
        if (c->at[i].allocated_max > c->at[best].allocated_max)
            best = i;
    return best;
}

bool columns_any_away(const struct columns *c)
{
    for (size_t i = 0; i < c->n; i++)
        if (c->at[i].away > 0)
            return true;
    return false;
}

int64_t columns_max_reserved(const struct columns *c)
{
    int64_t most = 0;
    for (size_t i = 0; i < c->n; i++)
        most = c->at[i].reserved_max > most ? c->at[i].reserved_max : most;
    return most;
}
