/*
 * growth.c - whether anything grows from training step to step: what the report calls growth
 * (analysis/growth.h), and growth that no one place in the code made, and a cache that grows.
 */
#include <stdlib.h>

#include "base/units.h"
#include "read/curve.h"
#include "read/stacks.h"
#include "read/steps.h"
#include "check.h"

/* Where the steps end that the window's quarters end with: the totals there. */
struct ends {
    int64_t allocated[GROWTH_QUARTERS + 1], reserved[GROWTH_QUARTERS + 1];
    int64_t steps; /* of the window */
};

static bool load_ends(struct trace *t, int64_t device, struct ends *e)
{
    struct trace_step_end *steps = NULL;
    struct growth_window w;
    size_t n = 0;
    bool known = !trace_step_ends(t, &steps, &n) && growth_window(n, &w);
    for (size_t i = 0; known && i <= GROWTH_QUARTERS; i++) {
        e->allocated[i] = trace_allocated_at(t, device, steps[w.end[i]].seq);
        e->reserved[i] = trace_reserved_after(t, device, steps[w.end[i]].seq);
    }
    if (known)
        e->steps = (int64_t)(w.end[GROWTH_QUARTERS] - w.end[0]);
    free(steps);
    return known;
}

/* Whether a total rose in each quarter, at half of the whole's rate at least, by more than the grain of
 * allocators a step. */
static bool rises(const int64_t *at, int64_t steps)
{
    int64_t sum = at[GROWTH_QUARTERS] - at[0];
    if (sum <= 512 * steps)
        return false;
    for (int q = 0; q < GROWTH_QUARTERS; q++)
        if ((at[q + 1] - at[q]) * 2 * GROWTH_QUARTERS < sum)
            return false;
    return true;
}

static void grown_groups(struct check_row *r, struct check_file *f, const struct growth *g)
{
    char *words = report_leak_words(&f->trace, g, false);
    size_t n;
    struct report_leak *leaks = report_leaks(&f->trace, g, &n);
    const struct growth_group *top = &leaks[0].all;
    const char *line = top->stack > 0 ? trace_line(&f->trace, top->stack) : NULL;
    r->verdict = VERDICT_BEYOND;
    r->m.value = r->m.least = r->m.most = g->bytes / g->steps;
    r->why = words;
    r->cause.known = true;
    r->cause.change = true;
    if (line)
        r->cause.line = (struct check_part){.name = xstrdup(line), .bytes = top->bytes / g->steps};
    report_leaks_free(leaks, n);
}

static void grown_total(struct check_row *r, const int64_t *at, const struct growth *g, int64_t steps,
                        const char *why)
{
    r->verdict = VERDICT_BEYOND;
    r->m.value = r->m.least = r->m.most = (at[GROWTH_QUARTERS] - at[0]) / steps;
    r->why = xformat("from the end of step %lld to that of step %lld %s", (long long)g->first_step - 1,
                     (long long)g->last_step, why);
}

static char *growth_unknown(const struct check_file *f, const struct device_report *d)
{
    if (f->report.lost_events > 0)
        return xstrdup("events were lost: a free among them would look like growth");
    if (d->allocated && d->allocated->at_least)
        return xstrdup("a library's pool does not report what it uses of its memory");
    return xformat("%s in full in the file: growth is judged on %d or more",
                   f->trace.steps > 0 ? "too few steps are" : "no step is", GROWTH_STEPS);
}

static void judge_growth(struct check_row *r, struct check_file *f, const struct device_report *d,
                         const struct check_options *o)
{
    const struct growth *g = &d->growth;
    struct ends e;
    if (!g->known || !load_ends(&f->trace, d->device, &e)) {
        r->why = check_doubt_seen(f, d->device, o);
        r->why = r->why ? r->why : growth_unknown(f, d);
    } else if (g->count) {
        grown_groups(r, f, g);
    } else if (rises(e.allocated, e.steps)) {
        grown_total(r, e.allocated, g, e.steps,
                    "allocated rose in every quarter, and no one place in the code made it");
    } else if (rises(e.reserved, e.steps)) {
        grown_total(r, e.reserved, g, e.steps,
                    "reserved rose in every quarter though allocated did not: a cache grows (fragmentation, "
                    "or requests that grow)");
    } else {
        r->m = (struct measured){0, 0, 0};
        r->why = check_doubt_seen(f, d->device, o);
        r->verdict = r->why ? VERDICT_UNTOLD : VERDICT_WITHIN;
        if (!r->why)
            r->why = xformat("steps %lld to %lld were looked at", (long long)g->first_step,
                             (long long)g->last_step);
    }
}

void check_growth(struct check *c, struct check_file *f, const struct check_options *o)
{
    for (size_t i = 0; i < f->report.device_count; i++) {
        const struct device_report *d = &f->report.devices[i];
        struct check_row *r = check_add(c, f, d->device, CHECK_GROWTH, xstrdup("--no-growth"),
                                        xstrdup("growth from step to step"));
        r->per_step = true;
        judge_growth(r, f, d, o);
    }
    if (f->report.device_count)
        return;
    struct check_row *r =
        check_add(c, f, UNKNOWN, CHECK_GROWTH, xstrdup("--no-growth"), xstrdup("growth from step to step"));
    char *doubt = check_doubt_seen(f, UNKNOWN, o);
    r->nothing = !doubt;
    r->why = doubt ? doubt : xstrdup(trace_no_device(&f->trace));
}
