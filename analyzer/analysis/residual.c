/*
 * residual.c - see residual.h.  When a context ends, the costs measured in it end too; when a module ends,
 * its own does.  The cost of a stream stays, because the driver gives nothing back when a stream is
 * destroyed.
 */
#include "residual.h"

#include <stdlib.h>
#include <string.h>

static int64_t greater(int64_t a, int64_t b)
{
    return a > b ? a : b; /* UNKNOWN is less than every number */
}

/* ---- costs ---- */

static enum residual_part part_of(const struct trace_cost *c)
{
    static const enum residual_part parts[] = {
        [COST_CONTEXT] = PART_CONTEXT, [COST_LIMIT] = PART_LIMIT,   [COST_MODULE] = PART_CODE,
        [COST_CODE] = PART_CODE,       [COST_STREAM] = PART_STREAM, [COST_GRAPH] = PART_GRAPH,
        [COST_PEER] = PART_PEER};
    return parts[c->kind];
}

/* Whether END ends the cost C. */
static bool ends(const struct trace_cost *end, const struct trace_cost *c)
{
    if (end->kind == COST_CONTEXT_END)
        return c->kind == COST_CONTEXT ? c->address == end->address
                                       : c->context && c->context == end->address;
    return end->kind == COST_MODULE_END && c->kind == COST_MODULE && c->address == end->address;
}

/* The costs that count at a moment. */
struct living {
    int64_t parts[RESIDUAL_PARTS];
    int64_t unmeasured;
    bool contexts_measured; /* a context lives, and the cost of each is known */
};

static bool *alive_at(const struct trace_cost *costs, size_t n)
{
    bool *alive = xrealloc(NULL, n + 1);
    for (size_t i = 0; i < n; i++) {
        alive[i] = costs[i].kind != COST_CONTEXT_END && costs[i].kind != COST_MODULE_END;
        for (size_t k = 0; !alive[i] && k < i; k++)
            alive[k] = alive[k] && !ends(&costs[i], &costs[k]);
    }
    return alive;
}

static struct living living_at(const struct trace_cost *costs, size_t n, int64_t t)
{
    struct living l = {.contexts_measured = true};
    size_t contexts = 0;
    while (n > 0 && costs[n - 1].t > t)
        n--;
    bool *alive = alive_at(costs, n);
    for (size_t i = 0; i < n; i++) {
        bool measured = costs[i].bytes != UNKNOWN;
        if (!alive[i])
            continue;
        contexts += costs[i].kind == COST_CONTEXT;
        l.contexts_measured = l.contexts_measured && (measured || costs[i].kind != COST_CONTEXT);
        l.unmeasured += !measured && costs[i].kind != COST_CONTEXT; /* the cost of contexts is inferred */
        l.parts[part_of(&costs[i])] += measured ? costs[i].bytes : 0;
    }
    l.contexts_measured = l.contexts_measured && contexts > 0;
    free(alive);
    return l;
}

static int64_t sum_of(const struct living *l)
{
    int64_t sum = 0;
    for (int p = 0; p < RESIDUAL_PARTS; p++)
        sum += l->parts[p];
    return sum;
}

/* ---- samples ---- */

static bool usable(const struct trace_sample *s)
{
    return s->driver_used != UNKNOWN && s->reserved != UNKNOWN && s->source;
}

static int says(const char *source)
{
    return !strcmp(source, "nvml_process") ? 2 : !strcmp(source, "nvml_device") ? 1 : 0;
}

/* The source whose figure is closest to this process's own; NULL: there is none.  Before NVML is loaded the
 * host's own cuMemGetInfo may have given the first samples. */
const char *residual_best_source(const struct trace_sample *samples, size_t n)
{
    const char *best = NULL;
    for (size_t i = 0; i < n; i++)
        if (usable(&samples[i]) && (!best || says(samples[i].source) > says(best)))
            best = samples[i].source;
    return best;
}

/* Of samples with equal figures the one with more reserved is right: the other was taken between a driver
 * call and its event. */
static bool fuller(const struct trace_sample *s, const struct trace_sample *than)
{
    return !than || s->driver_used > than->driver_used ||
           (s->driver_used == than->driver_used && s->reserved > than->reserved);
}

/* The bytes of contexts and code at the first sample, if no hook measured them: everything in the sample
 * beyond the reserved and measured bytes.  UNKNOWN if they were measured, or if the driver uses nothing NOW
 * because the last context has ended. */
static int64_t inferred_at(const struct trace_sample *first, const struct trace_sample *now,
                           const struct trace_cost *costs, size_t n, const struct living *living)
{
    struct living then = living_at(costs, n, first->t);
    if (living->contexts_measured || now->driver_used == 0)
        return UNKNOWN;
    int64_t rest = first->driver_used - first->reserved - sum_of(&then);
    return rest > 0 ? rest : 0;
}

static struct residual_moment moment_of(const struct trace_sample *s, const struct trace_sample *first,
                                        const struct trace_cost *costs, size_t n, int64_t *unmeasured)
{
    struct living l = living_at(costs, n, s->t);
    struct residual_moment m = {.t = s->t, .driver_used = s->driver_used, .reserved = s->reserved};
    m.residual = s->driver_used - s->reserved;
    memcpy(m.parts, l.parts, sizeof m.parts);
    m.inferred = inferred_at(first, s, costs, n, &l);
    m.unexplained = m.residual - sum_of(&l) - (m.inferred == UNKNOWN ? 0 : m.inferred);
    *unmeasured = l.unmeasured;
    return m;
}

struct residual residual_of(const struct trace_sample *samples, size_t n, const struct trace_cost *costs,
                            size_t cost_count)
{
    static const struct residual_moment nothing = {
        UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN, {UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN},
        UNKNOWN, UNKNOWN};
    struct residual r = {.source = residual_best_source(samples, n),
                         .fullest = nothing,
                         .last = nothing,
                         .rss = UNKNOWN,
                         .pinned = UNKNOWN};
    const struct trace_sample *first = NULL, *fullest = NULL, *last = NULL;
    for (size_t i = 0; i < n; i++) {
        const struct trace_sample *s = &samples[i];
        r.rss = greater(r.rss, s->rss);
        r.pinned = greater(r.pinned, s->pinned);
        if (!usable(s) || strcmp(s->source, r.source))
            continue;
        first = first ? first : s;
        fullest = fuller(s, fullest) ? s : fullest;
        last = s;
    }
    if (!first)
        return r;
    r.known = true;
    r.whole_device = strcmp(r.source, "nvml_process") != 0;
    r.last = moment_of(last, first, costs, cost_count, &r.unmeasured);
    r.fullest = moment_of(fullest, first, costs, cost_count, &r.unmeasured);
    return r;
}

/* ---- words ---- */

const char *residual_source(const char *source)
{
    if (!source)
        return "unknown";
    if (!strcmp(source, "nvml_process"))
        return "NVML, this process";
    if (!strcmp(source, "nvml_device"))
        return "NVML, whole device: other processes included";
    if (!strcmp(source, "meminfo"))
        return "cuMemGetInfo, whole device: other processes included";
    return source;
}

const char *residual_part_name(enum residual_part part)
{
    static const char *const names[] = {"context", "limits", "code", "streams", "graphs", "peer access"};
    return names[part];
}
