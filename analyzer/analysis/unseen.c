/* unseen.c - see residual.h. */
#include "residual.h"

#include <stdlib.h>
#include <string.h>

#include "base/base.h"

#define LEAST    (INT64_C(64) << 20)
#define SHARE    100
#define AHEAD_NS INT64_C(10000000000)

struct witness {
    const struct trace_sample *samples;
    size_t n;
    const struct trace_cost *costs;
    size_t cost_count;
    int64_t device;
    int64_t elsewhere; /* bytes that may lie on the device or not */
    /* the moment that was reached: costs before `now` have happened, those before `next` soon will */
    size_t now, next, contexts;
    int64_t alive_bytes, soon_bytes;
    bool *alive; /* of each cost */
    bool unmeasured;
};

static bool is_end(const struct trace_cost *c)
{
    return c->kind == COST_CONTEXT_END || c->kind == COST_MODULE_END;
}

static bool on_device(const struct witness *w, const struct trace_cost *c)
{
    return c->device == w->device || (is_end(c) && c->device < 0);
}

static bool ends(const struct trace_cost *e, const struct trace_cost *c)
{
    if (e->kind == COST_MODULE_END || c->kind == COST_CONTEXT)
        return c->kind == (e->kind == COST_MODULE_END ? COST_MODULE : COST_CONTEXT) &&
               c->address == e->address;
    return c->context && c->context == e->address;
}

static void end_costs(struct witness *w, const struct trace_cost *e)
{
    for (size_t i = 0; i < w->now; i++) {
        if (!w->alive[i] || !ends(e, &w->costs[i]))
            continue;
        w->alive[i] = false;
        w->alive_bytes -= w->costs[i].bytes == UNKNOWN ? 0 : w->costs[i].bytes;
        w->contexts -= w->costs[i].kind == COST_CONTEXT;
    }
}

static int64_t rise(const struct trace_cost *c)
{
    return c->bytes > 0 ? c->bytes : 0;
}

/* Goes on to the moment T.  A sample may stand between a call and its event. */
static void go_to(struct witness *w, int64_t t)
{
    for (; w->next < w->cost_count && w->costs[w->next].t - AHEAD_NS <= t; w->next++) {
        const struct trace_cost *c = &w->costs[w->next];
        if (is_end(c) || !on_device(w, c))
            continue;
        w->unmeasured = w->unmeasured || c->bytes == UNKNOWN;
        w->soon_bytes += rise(c);
    }
    for (; w->now < w->next && w->costs[w->now].t <= t; w->now++) {
        const struct trace_cost *c = &w->costs[w->now];
        if (!on_device(w, c))
            continue;
        if (is_end(c)) {
            end_costs(w, c);
            continue;
        }
        w->alive[w->now] = true;
        w->soon_bytes -= rise(c);
        w->alive_bytes += c->bytes == UNKNOWN ? 0 : c->bytes;
        w->contexts += c->kind == COST_CONTEXT;
    }
}

static bool of_process(const struct trace_sample *s)
{
    return s->source && !strcmp(s->source, "nvml_process") && s->driver_used != UNKNOWN &&
           s->reserved != UNKNOWN;
}

/* The process's figure at sample I beyond all that is known; 0 where that says nothing. */
static int64_t beyond(struct witness *w, size_t i)
{
    int64_t used = w->samples[i].driver_used, reserved = w->samples[i].reserved;
    if (i + 1 < w->n && w->samples[i + 1].reserved > reserved)
        reserved = w->samples[i + 1].reserved;
    go_to(w, w->samples[i].t);
    int64_t rest = used - reserved - w->alive_bytes - w->soon_bytes - w->elsewhere;
    return w->contexts > 0 && rest > LEAST && rest > used / SHARE ? rest : 0;
}

static int64_t peak_of(const struct trace *t, const char *kind)
{
    int64_t sum = 0;
    for (size_t i = 0; i < t->peak_count; i++)
        if (t->peaks[i].kind && !strcmp(t->peaks[i].kind, kind) && t->peaks[i].bytes > 0)
            sum += t->peaks[i].bytes;
    return sum;
}

/* Keeps the samples of this process alone; whether its figure was ever below what it holds. */
static size_t keep_process(struct trace_sample *samples, size_t n, bool *strange)
{
    size_t kept = 0;
    *strange = false;
    for (size_t i = 0; i < n; i++) {
        if (!of_process(&samples[i]))
            continue;
        samples[kept++] = samples[i];
        *strange = *strange || samples[i].driver_used + LEAST < samples[i].reserved;
    }
    return kept;
}

static const char *look(struct witness *w, int64_t *bytes)
{
    w->alive = xrealloc(NULL, w->cost_count + 1);
    memset(w->alive, 0, w->cost_count + 1);
    for (size_t i = 0; i < w->n; i++) {
        int64_t rest = beyond(w, i);
        *bytes = rest > *bytes ? rest : *bytes;
    }
    free(w->alive);
    if (!w->unmeasured || *bytes == 0)
        return NULL;
    *bytes = 0;
    return "what some calls took could not be measured";
}

int unseen_load(struct trace *t, int64_t device, int64_t *bytes, const char **off)
{
    struct trace_sample *samples = NULL;
    struct trace_cost *costs = NULL;
    size_t n = 0, cost_count = 0;
    bool strange;
    *bytes = 0;
    *off = NULL;
    int result = trace_samples(t, device, &samples, &n);
    if (!result)
        result = trace_costs(t, &costs, &cost_count);
    n = keep_process(samples, n, &strange);
    struct witness w = {.samples = samples,
                        .n = n,
                        .costs = costs,
                        .cost_count = cost_count,
                        .device = device,
                        .elsewhere = peak_of(t, "managed") + peak_of(t, "imported")};
    if (!result && n == 0)
        *off = "the driver has no figure for this process alone";
    else if (!result && trace_has_loss(t, LOSS_EVENTS))
        *off = "events were lost";
    else if (!result && strange) /* in a container NVML's figure may be that of another process */
        *off = "the driver's figure for this process was below what it held";
    else if (!result)
        *off = look(&w, bytes);
    free(samples);
    free(costs);
    return result;
}
