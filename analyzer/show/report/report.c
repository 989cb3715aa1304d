/* report.c - see report.h. */
#include "report.h"

#include <stdlib.h>
#include <string.h>

#include "analysis/residual.h"
#include "read/curve.h"
#include "read/steps.h"

static int load_held(struct trace *t, struct device_report *d)
{
    if (trace_live(t, d->device, &d->live, &d->live_count))
        return -1;
    d->held_bytes = holders_total(d->live, d->live_count);
    d->held = holders_composition(d->live, d->live_count, &d->held_count);
    return 0;
}

/* The costs on DEVICE; an end without a known device applies to any device. */
static struct trace_cost *costs_on(const struct report *r, int64_t device, size_t *n)
{
    struct trace_cost *costs = NULL;
    *n = 0;
    for (size_t i = 0; i < r->cost_count; i++) {
        const struct trace_cost *c = &r->costs[i];
        bool end = c->kind == COST_CONTEXT_END || c->kind == COST_MODULE_END;
        if (c->device == device || (end && c->device < 0))
            *PUSH(costs, *n) = *c;
    }
    return costs;
}

static int load_residual(struct report *r, struct device_report *d)
{
    struct trace_sample *samples = NULL;
    size_t n = 0, cost_count;
    struct trace_cost *costs = costs_on(r, d->device, &cost_count);
    int result = trace_samples(r->trace, d->device, &samples, &n);
    if (!result)
        d->residual = residual_of(samples, n, costs, cost_count);
    free(costs);
    free(samples);
    return result;
}

/* An output layer that ran where no hook sees it, in a recording without logits. */
static int64_t uncalled_classes(const struct trace *t)
{
    for (size_t i = 0; i < t->phase_count; i++)
        if (t->phases[i].name && !strcmp(t->phases[i].name, "logits"))
            return UNKNOWN;
    return t->uncalled_classes;
}

/* Without lost events only, because they would be missing in the step's replay. */
static int load_savings(struct report *r, struct device_report *d)
{
    struct trace_step_memory m;
    int result = 0;
    d->savings.uncalled_classes = uncalled_classes(r->trace);
    if (!d->allocated || d->allocated->bytes == 0)
        return 0;
    if (r->lost_events > 0)
        d->savings.why = "events were lost";
    else if (d->allocated->at_least)
        d->savings.why = "a library's pool does not report what it uses";
    if (d->savings.why)
        return 0;
    result = trace_step_memory(r->trace, d->device, d->allocated->seq, &m);
    if (!result)
        d->savings = savings_of(&m, d->allocated->bytes, d->phase_at_peak, r->trace->phase_names,
                                r->trace->phase_name_count, r->trace->uncalled_classes);
    if (!d->savings.known)
        d->savings.uncalled_classes = uncalled_classes(r->trace);
    if (d->savings.known && d->growth.before > 0 && d->growth.before <= d->savings.static_bytes)
        d->savings.left_bytes = d->growth.before;
    if (!result)
        report_load_causes(r->trace, d, &m);
    trace_free_step_memory(&m);
    return result;
}

static size_t peak_step(const struct device_report *d, const struct trace_step_end *steps, size_t n)
{
    for (size_t i = 0; d->allocated && i < n; i++)
        if (steps[i].seq >= d->allocated->seq)
            return i;
    return SIZE_MAX;
}

/* Growth up to the end of the last of the N steps. */
static int judge_growth(struct trace *t, struct device_report *d, const struct trace_step_end *steps,
                        size_t n)
{
    struct growth_window w;
    struct trace_birth *births = NULL;
    int64_t base[GROWTH_QUARTERS + 1];
    size_t count = 0;
    if (!growth_window(n, &w))
        return 0;
    int result = trace_births(t, d->device, steps, n, &births, &count);
    for (size_t i = 0; !result && i <= GROWTH_QUARTERS; i++)
        base[i] = trace_allocated_at(t, d->device, steps[w.end[i]].seq);
    if (!result) {
        d->growth = growth_of(&w, births, count, base, peak_step(d, steps, n));
        d->growth.first_step = steps[w.end[0] + 1].step;
        d->growth.last_step = steps[n - 1].step;
        for (size_t i = 0; i < d->growth.count; i++)
            d->growth.groups[i].since = steps[d->growth.groups[i].since].step;
    }
    free(births);
    return result;
}

/* The last step ends where the next one begins, and where none does with the program, when the lists of a
 * function that has returned are gone: if nothing grows up to there, it is judged at its last allocation. */
static int search_growth(struct trace *t, struct device_report *d, struct trace_step_end *steps, size_t n)
{
    int result = judge_growth(t, d, steps, n);
    if (result || !d->growth.known || d->growth.count || n < 2)
        return result;
    int64_t last = trace_last_birth(t, steps[n - 2].seq, steps[n - 1].seq);
    if (last == UNKNOWN)
        return 0;
    steps[n - 1].seq = last;
    result = judge_growth(t, d, steps, n);
    d->growth.freed_in_last = d->growth.count > 0;
    return result;
}

/* Without lost events only, because a missing free would look like growth. */
static int load_growth(struct report *r, struct device_report *d)
{
    struct trace_step_end *steps = NULL;
    size_t n = 0;
    if (r->trace->steps > 0)
        d->growth.why = r->lost_events > 0 ? "events were lost"
                        : d->allocated && d->allocated->at_least
                            ? "a library's pool does not report what it uses"
                            : NULL;
    if (r->lost_events > 0 || (d->allocated && d->allocated->at_least))
        return 0;
    int result = trace_step_ends(r->trace, &steps, &n);
    if (!result)
        result = search_growth(r->trace, d, steps, n);
    if (!d->growth.known)
        d->growth.seen = (int64_t)n;
    if (!d->growth.known && !n && r->trace->steps > 0)
        d->growth.why = "no step is in full in the file";
    free(steps);
    return result;
}

/* What is asked of the driver for a block is not handed out before the next event.  A moment with more than
 * EVENTS events before it is left out. */
static int load_unused(struct trace *t, struct device_report *d, int64_t events)
{
    const int64_t number = (INT64_C(1) << 40) - 1; /* of an event in its process */
    struct unused both[2];
    int64_t top = d->allocated ? d->allocated->seq : UNKNOWN;
    int64_t most =
        d->reserved && d->reserved->bytes > 0 ? trace_handed_out(t, d->device, d->reserved->seq) : UNKNOWN;
    int64_t seqs[2] = {
        top, most == top || (d->reserved && d->reserved_at_peak == d->reserved->bytes) ? UNKNOWN : most};
    d->unused_left_out = false;
    for (size_t i = 0; i < 2; i++)
        if (seqs[i] != UNKNOWN && (seqs[i] & number) > events) {
            seqs[i] = UNKNOWN;
            d->unused_left_out = true;
        }
    unused_free(&d->unused);
    unused_free(&d->unused_most);
    if (unused_load(t, d->device, seqs, 2, both))
        return -1;
    d->unused = both[0];
    d->unused_most = both[1];
    return 0;
}

int report_take_apart(struct report *r)
{
    int result = 0;
    for (size_t i = 0; !result && i < r->device_count; i++)
        if (r->devices[i].unused_left_out)
            result = load_unused(r->trace, &r->devices[i], INT64_MAX);
    return result;
}

static int load_parts(struct report *r, struct device_report *d)
{
    struct trace *t = r->trace;
    unsigned parts = r->parts;
    if (parts & REPORT_RANGES &&
        trace_range_names(t, d->device, MOST_NAMES, &d->names, &d->name_count, &d->all_names))
        return -1;
    if ((parts & REPORT_HELD &&
         (load_held(t, d) || trace_park(t, d->device, r->device_count == 1, &d->park))) ||
        (parts & REPORT_UNUSED && load_unused(t, d, EVENTS_MOST)) ||
        (parts & REPORT_GROWTH && load_growth(r, d)) || (parts & REPORT_SAVINGS && load_savings(r, d)) ||
        (parts & REPORT_RESIDUAL && load_residual(r, d)))
        return -1;
    return parts & REPORT_UNSEEN ? unseen_load(t, d->device, &d->unseen, &d->unseen_off) : 0;
}

static int load_device(struct report *r, int64_t id, struct device_report *d)
{
    struct trace *t = r->trace;
    const struct trace_device *device = trace_find_device(t, id);
    *d = (struct device_report){
        .device = id, .reserved_at_peak = UNKNOWN, .unused_at_peak = UNKNOWN, .step_at_peak = UNKNOWN};
    d->name = device ? device->name : NULL;
    d->uuid = device ? device->uuid : NULL;
    d->total_bytes = device ? device->total_bytes : UNKNOWN;
    d->own_bytes = device ? device->own_bytes : UNKNOWN;
    d->allocated = trace_find_peak(t, id, "allocated");
    d->reserved = trace_find_peak(t, id, "reserved");
    d->framework = trace_find_peak(t, id, "framework");
    d->direct = trace_find_peak(t, id, "direct");
    if (d->allocated) {
        struct trace_then then = {.away = 0};
        if (!trace_then(t, id, d->allocated->seq, &then) && then.found)
            d->reserved_at_peak = then.reserved;
        d->away_at_peak = then.away;
        d->away_most = trace_away_most(t, id);
        if (d->away_most > 0 &&
            (trace_away_parts(t, id, d->allocated->seq, &d->away_parts, &d->away_part_count) ||
             trace_away_parts(t, id, trace_away_most_seq(t, id), &d->away_most_parts, &d->away_most_count)))
            return -1;
        d->step_at_peak = trace_step_at(t, d->allocated->t);
        d->phase_at_peak = trace_phase_at_peak(t, id);
        if (d->reserved_at_peak != UNKNOWN && !d->allocated->at_least)
            d->unused_at_peak = d->reserved_at_peak + d->away_at_peak - d->allocated->bytes;
    }
    return load_parts(r, d);
}

static bool has_device(const struct report *r, int64_t id)
{
    for (size_t i = 0; i < r->device_count; i++)
        if (r->devices[i].device == id)
            return true;
    return false;
}

static int add_device(struct report *r, int64_t id)
{
    if (id < 0 || has_device(r, id) || (r->trace->only_device != UNKNOWN && r->trace->only_device != id))
        return 0;
    return load_device(r, id, PUSH(r->devices, r->device_count));
}

int report_load(struct report *r, struct trace *t, unsigned parts)
{
    *r = (struct report){.trace = t, .parts = parts};
    int result = t->oom_total == UNKNOWN ? trace_load_ooms(t) : 0;
    if (!result && parts & REPORT_COSTS)
        result = trace_costs(t, &r->costs, &r->cost_count);
    if (!result && parts & REPORT_ARENAS)
        result = trace_arenas(t, &r->arenas, &r->arena_count);
    for (size_t i = 0; i < t->loss_count; i++)
        r->lost_events += t->losses[i].events == UNKNOWN ? 0 : t->losses[i].events;
    if (!result && parts & REPORT_REFUSAL && t->oom_total + t->refused_total > 0)
        result = oom_report_load(&r->oom, t, OOM_LAST);
    /* only devices with events; the table `device` may list more */
    for (size_t i = 0; !result && i < t->peak_count; i++)
        result = add_device(r, t->peaks[i].device);
    return result;
}

void report_free(struct report *r)
{
    for (size_t i = 0; i < r->device_count; i++) {
        free(r->devices[i].held);
        free(r->devices[i].live);
        free(r->devices[i].away_parts);
        free(r->devices[i].away_most_parts);
        free(r->devices[i].names);
        unused_free(&r->devices[i].unused);
        unused_free(&r->devices[i].unused_most);
        growth_free(&r->devices[i].growth);
        causes_free(&r->devices[i].causes);
    }
    free(r->costs);
    free(r->arenas);
    oom_report_free(&r->oom);
    free(r->devices);
    r->devices = NULL;
    r->device_count = 0;
}

char *report_holder_name(const struct holder *h)
{
    const char *category = h->category ? h->category : "unknown";
    const char *asked = h->owner ? h->owner : h->no_stack ? "no call stack" : "unknown library";
    bool outside = h->phase && !strcmp(h->phase, "none");
    if (!strcmp(category, "before recording"))
        return xstrdup("held by the framework before the recording began");
    if (!strcmp(category, "framework block"))
        return outside ? xstrdup("framework blocks made outside any phase")
                       : xformat("framework blocks made in %s", h->phase ? h->phase : "an unknown phase");
    return xformat("%s, %s%s%s", category, asked,
                   outside    ? ", made outside any phase"
                   : h->phase ? ", made in "
                              : "",
                   outside || !h->phase ? "" : h->phase);
}
