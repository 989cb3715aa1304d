/*
 * overlay.c - gathers the runs of an overlay (overlay.h).
 *
 * Every run has a window of its own on its own clock, and all of them the length of the longest.  A run's
 * share of the columns is its share of that length, so a column is as long in every run.
 */
#include "overlay.h"

#include <stdlib.h>
#include <string.h>

#include "base/shown.h"
#include "read/curve.h"
#include "read/steps.h"
#include "read/trace.h"

/* ---- gathering ---- */

/* Okabe and Ito's, the two that differ most first. */
static const char *const colors[PICTURE_RUNS] = {"#d55e00", "#0072b2", "#009e73", "#cc79a7",
                                                 "#e69f00", "#56b4e9", "#4d4d4d", "#b0a000"};

static size_t count_labels(const char *labels)
{
    size_t n = 1;
    for (; *labels; labels++)
        n += *labels == ',';
    return n;
}

int overlay_check(const struct overlay_options *o, size_t n)
{
    if (n < 2)
        return complain("plot: --overlay needs two runs or more");
    if (n > PICTURE_RUNS)
        return complain("plot: --overlay: %zu runs are too many to tell apart: at most %d", n, PICTURE_RUNS);
    if (o->labels && count_labels(o->labels) != n)
        return complain("plot: --labels names %zu of %zu runs: give all, separated by commas",
                        count_labels(o->labels), n);
    return 0;
}

/* Label I of LABELS, or the file's name without its ending. */
static char *own_label(const struct overlay_options *o, struct trace *t, size_t i)
{
    const char *at = o->labels;
    for (size_t k = 0; at && k < i; k++)
        at = strchr(at, ',') + 1;
    if (at)
        return xformat("%.*s", (int)strcspn(at, ","), at);
    size_t length = strlen(t->label);
    bool database = length > 3 && !strcmp(t->label + length - 3, ".db");
    char *name = xformat("%.*s", (int)(length - (database ? 3 : 0)), t->label);
    if (t->process.rank == UNKNOWN)
        return name;
    char *ranked = xformat("rank %lld, %s", (long long)t->process.rank, name);
    free(name);
    return ranked;
}

static char *label_of(const struct overlay_options *o, struct trace *t, size_t i)
{
    char *own = own_label(o, t, i),
         *label = trace_dry(t) ? xformat("%s (%s)", shown(own), trace_mark(t)) : xstrdup(shown(own));
    free(own);
    return label;
}

struct window {
    int64_t from, to;
};

static int find_window(struct trace *t, const struct overlay_options *o, struct window *w)
{
    int64_t last = t->t_last == UNKNOWN ? 0 : t->t_last;
    if (o->steps[0] && !trace_step_span(t, o->steps[0], o->steps[1], &w->from, &w->to))
        return complain("plot: %s", absent_steps(t, o->steps));
    if (o->steps[0]) {
        w->to = w->to > w->from ? w->to : w->from + 1;
        return 0;
    }
    if (!t->device_count)
        return complain("%s", absent_device(t, UNKNOWN));
    *w = (struct window){o->from, o->to == UNKNOWN || o->to > last ? last : o->to};
    if (w->from > last)
        return complain("plot: --from is beyond the end of %s, which lasted %.9g s", t->path,
                        (double)last / 1e9);
    if (w->from >= w->to)
        return complain("plot: nothing of %s lies between --from and --to: it lasted %.9g s", t->path,
                        (double)last / 1e9);
    return 0;
}

static int add_run(struct picture *p, struct trace *t, const struct overlay_options *o, size_t columns)
{
    size_t before = p->panel_count;
    for (size_t i = 0; i < t->peak_count; i++) {
        const struct trace_peak *k = &t->peaks[i];
        if (k->device < 0 || !k->kind || strcmp(k->kind, "allocated") != 0 ||
            (o->device != UNKNOWN && o->device != k->device))
            continue;
        if (picture_add_run(p, t, k->device, columns))
            return complain("%s", t->why);
    }
    if (p->panel_count > before)
        return 0;
    return complain("%s", absent_device(t, o->device));
}

static int add_runs(struct picture *p, struct trace *traces, size_t n, const struct overlay_options *o,
                    const struct window *windows, int64_t span)
{
    int status = 0;
    for (size_t i = 0; !status && i < n; i++) {
        const struct window *w = &windows[i];
        size_t share = (size_t)((long double)p->columns * (long double)(w->to - w->from) / (long double)span);
        *PUSH(p->runs, p->run_count) =
            (struct picture_run){label_of(o, &traces[i], i), colors[i], o->steps[0] ? w->from : 0};
        p->from = w->from;
        p->to = w->to;
        status = add_run(p, &traces[i], o, share > 0 ? share : 1);
    }
    return status;
}

int overlay_gather(struct picture *p, struct trace *traces, size_t n, const struct overlay_options *o,
                   size_t columns)
{
    struct window windows[PICTURE_RUNS];
    int64_t span = 1;
    int status = overlay_check(o, n);
    p->columns = columns;
    p->from_step = o->steps[0] > 0;
    for (size_t i = 0; !status && i < n; i++) {
        status = find_window(&traces[i], o, &windows[i]);
        if (!status && windows[i].to - windows[i].from > span)
            span = windows[i].to - windows[i].from;
    }
    if (!status)
        status = add_runs(p, traces, n, o, windows, span);
    p->from = p->from_step ? 0 : o->from;
    p->to = p->from + span;
    return status;
}

static bool same_command(const struct trace *a, const struct trace *b)
{
    return a->process.command && b->process.command && !strcmp(a->process.command, b->process.command);
}

char *overlay_default_title(const struct picture *p, const struct trace *traces)
{
    bool all = true;
    for (size_t i = 1; i < p->run_count; i++)
        all = all && same_command(&traces[0], &traces[i]);
    if (all)
        return title_of_command(traces[0].process.command);
    char *title = xstrdup(p->runs[0].label);
    for (size_t i = 1; i < p->run_count; i++) {
        char *longer = xformat("%s%s%s", title, i + 1 < p->run_count ? ", " : " and ", p->runs[i].label);
        free(title);
        title = longer;
    }
    return title;
}

/* ---- what a drawing shows ---- */

int64_t *overlay_devices(const struct picture *p, size_t *n)
{
    int64_t *devices = NULL;
    *n = 0;
    for (size_t i = 0; i < p->panel_count; i++) {
        bool known = false;
        for (size_t k = 0; k < *n; k++)
            known = known || devices[k] == p->panels[i].device;
        if (!known)
            *PUSH(devices, *n) = p->panels[i].device;
    }
    return devices;
}

const struct panel *overlay_panel(const struct picture *p, int64_t device, size_t run)
{
    for (size_t i = 0; i < p->panel_count; i++)
        if (p->panels[i].device == device && p->panels[i].run == run)
            return &p->panels[i];
    return NULL;
}

size_t overlay_order(const struct picture *p, int64_t device, size_t *runs)
{
    size_t n = 0;
    for (size_t run = 0; run < p->run_count; run++) {
        const struct panel *q = overlay_panel(p, device, run);
        size_t at = n;
        if (!q)
            continue;
        for (; at > 0 && overlay_panel(p, device, runs[at - 1])->peak < q->peak; at--)
            runs[at] = runs[at - 1];
        runs[at] = run;
        n++;
    }
    return n;
}

int64_t overlay_top(const struct picture *p, int64_t device)
{
    int64_t top = 1;
    for (size_t i = 0; i < p->panel_count; i++) {
        const struct panel *q = &p->panels[i];
        int64_t reserved = columns_max_reserved(&q->columns), own = q->peak > reserved ? q->peak : reserved;
        if (q->device == device && own > top)
            top = own;
    }
    return top;
}

const char *overlay_title(const struct picture *p, int64_t device)
{
    for (size_t i = 0; i < p->panel_count; i++)
        if (p->panels[i].device == device)
            return p->panels[i].title;
    return "";
}

char *overlay_name(const struct picture *p, const struct panel *panel)
{
    char *peak = panel_peak_text(panel), *name = xformat("%s: %s", p->runs[panel->run].label, peak);
    free(peak);
    return name;
}
