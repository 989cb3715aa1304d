/* window.c - which part of a run a plot shows (picture.h). */
#include "picture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "overlay.h"
#include "read/ooms.h"
#include "read/steps.h"
#include "read/trace.h"

/* ---- what was asked for ---- */

/* From the first to the last moment that any process spent in these steps. */
static int asked_steps(struct plot_window *w, struct trace *traces, size_t n, const int64_t *steps)
{
    w->from = INT64_MAX;
    w->to = 0;
    for (size_t i = 0; i < n; i++) {
        int64_t from, to;
        if (!trace_step_span(&traces[i], steps[0], steps[1], &from, &to))
            return complain("plot: %s", absent_steps(&traces[i], steps));
        w->from = from < w->from ? from : w->from;
        w->to = to > w->to ? to : w->to;
    }
    if (steps[0] == steps[1])
        snprintf(w->name, sizeof w->name, "step %lld", (long long)steps[0]);
    else
        snprintf(w->name, sizeof w->name, "steps %lld to %lld", (long long)steps[0], (long long)steps[1]);
    return 0;
}

static int64_t last_moment(const struct trace *traces, size_t n)
{
    int64_t last = 0;
    for (size_t i = 0; i < n; i++)
        last = traces[i].t_last > last ? traces[i].t_last : last;
    return last;
}

/* ---- the step of the peak ---- */

/* The highest peak of all files, on a device that is shown; NULL: nothing was allocated. */
static const struct trace_peak *highest(struct trace *traces, size_t n, int64_t device, struct trace **of)
{
    const struct trace_peak *best = NULL;
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < traces[i].peak_count; k++) {
            const struct trace_peak *p = &traces[i].peaks[k];
            bool counts = p->device >= 0 && p->kind && !strcmp(p->kind, "allocated") && p->bytes > 0 &&
                          (device == UNKNOWN || device == p->device);
            if (counts && (!best || p->bytes > best->bytes)) {
                best = p;
                *of = &traces[i];
            }
        }
    return best;
}

/* When memory last ran out on the device; UNKNOWN: it did not. */
static int64_t last_oom(struct trace *t, int64_t device)
{
    struct trace_oom_kept *kept;
    size_t n;
    int64_t when = UNKNOWN;
    if (trace_ooms_kept(t, &kept, &n) == 0)
        for (size_t i = 0; i < n; i++)
            if ((device == UNKNOWN || kept[i].device == device) && kept[i].t > when)
                when = kept[i].t;
    free(kept);
    return when;
}

/* The step that moment WHEN lies in; one that has no end with the step before it: it may be no more than a
 * moment. */
static bool step_around(struct trace *t, int64_t when, int64_t *step, int64_t *from, int64_t *to)
{
    int64_t end, number = trace_step_at(t, when);
    *step = number;
    if (number != UNKNOWN && number <= t->steps && trace_step_span(t, number, number, from, to))
        return when >= *from && when <= *to;
    if (!trace_step_span(t, t->steps, t->steps, from, &end) || when < end)
        return false;
    *step = t->steps + 1;
    *to = t->t_last;
    return *to > *from;
}

static void show_one_step(struct plot_window *w, struct trace *traces, size_t n, int64_t device)
{
    struct trace *of = NULL;
    const struct trace_peak *peak = highest(traces, n, device, &of);
    if (!peak || of->steps <= MANY_STEPS)
        return;
    int64_t oom = last_oom(of, peak->device), step, from, to, own_from, own_to;
    if (!step_around(of, oom != UNKNOWN ? oom : peak->t, &step, &from, &to))
        return;
    for (size_t i = 0; i < n; i++) { /* the other ranks' moments of the same step */
        if (&traces[i] == of)
            continue;
        if (!trace_step_span(&traces[i], step, step, &own_from, &own_to))
            return;
        from = own_from < from ? own_from : from;
        to = own_to > to ? own_to : to;
    }
    w->from = from;
    w->to = to;
    w->of = of;
    w->device = peak->device;
    w->last = of->t_last;
    const char *why = oom != UNKNOWN ? "out of memory" : "with the peak";
    if (step > of->steps)
        snprintf(w->name, sizeof w->name, "the last of %lld steps and what follows, %s", (long long)of->steps,
                 why);
    else
        snprintf(w->name, sizeof w->name, "step %lld of %lld, %s", (long long)step, (long long)of->steps,
                 why);
}

int plot_window(struct plot_window *w, struct trace *traces, size_t n, const struct window_options *o)
{
    int64_t last = last_moment(traces, n);
    *w = (struct plot_window){.from = o->from, .to = o->to == UNKNOWN ? last : o->to};
    if (o->steps[0])
        return asked_steps(w, traces, n, o->steps);
    if (w->from > last && last > 0)
        return complain("plot: --from is beyond the end of the run, which lasted %.9g s", (double)last / 1e9);
    if (w->from >= w->to && last > 0)
        return complain("plot: nothing lies between --from and --to: the run lasted %.9g s",
                        (double)last / 1e9);
    if (!o->whole && o->from == 0 && o->to == UNKNOWN)
        show_one_step(w, traces, n, o->device);
    return 0;
}
