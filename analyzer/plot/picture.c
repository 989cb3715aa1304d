/* picture.c - see picture.h. */
#include "picture.h"

#include <stdlib.h>
#include <string.h>

#include "analysis/residual.h"
#include "base/shown.h"
#include "base/units.h"

/* Lightness beside each (L* of CIELAB): the usual phases differ by 12 and more. */
static const struct {
    const char *phase, *color;
} palette[PICTURE_PHASES] = {
    {"forward", "#56b4e9"},   /* 70 */
    {"logits", "#d55e00"},    /* 54 */
    {"backward", "#0072b2"},  /* 46 */
    {"optimizer", "#f0e442"}, /* 89 */
    {NULL, "#009e73"},        /* 58 */
    {NULL, "#cc79a7"},        /* 62 */
    {NULL, "#e69f00"},        /* 71 */
    {NULL, "#4d4d4d"},        /* 33 */
};
#define OTHER_COLOR "#a9a9a9"

static int phase_index(struct picture *p, const char *name)
{
    if (!p->phase_count) { /* the usual phases first, so that legends look alike; unused ones are hidden */
        *PUSH(p->phases, p->phase_count) = (struct picture_phase){.name = xstrdup("none")};
        for (int i = 0; i < 4; i++)
            *PUSH(p->phases, p->phase_count) = (struct picture_phase){.name = xstrdup(palette[i].phase)};
    }
    if (!name || !strcmp(name, "none"))
        return 0;
    name = shown(name);
    for (size_t i = 1; i < p->phase_count; i++)
        if (!strcmp(p->phases[i].name, name))
            return (int)i;
    *PUSH(p->phases, p->phase_count) = (struct picture_phase){.name = xstrdup(name)};
    return (int)p->phase_count - 1;
}

static const char *name_of(const struct trace *t, int phase)
{
    return phase >= 0 && (size_t)phase < t->phase_name_count ? t->phase_names[phase] : NULL;
}

static int load_columns(struct picture *p, struct trace *t, int64_t device, size_t n, struct panel *panel)
{
    struct trace_point before;
    columns_init(&panel->columns, p->from, p->to, n);
    int64_t coarse = (panel->columns.to - panel->columns.from) / (int64_t)n;
    int result =
        trace_curve(t, device, p->from, panel->columns.to, coarse, &before, columns_add, &panel->columns);
    if (!result)
        columns_finish(&panel->columns, &before);
    return result;
}

static int load_bands(struct picture *p, struct trace *t, struct panel *panel)
{
    struct trace_range *ranges = NULL;
    size_t n, flat_count, mixed;
    if (trace_ranges(t, p->from, panel->columns.to, &ranges, &n)) {
        free(ranges);
        return -1;
    }
    struct band *flat = bands_flatten(ranges, n, p->from, panel->columns.to, &flat_count);
    panel->bands = bands_fit(flat, flat_count, &panel->columns, &panel->band_count, &mixed);
    int64_t banded = 0;
    for (size_t i = 0; i < panel->band_count; i++) {
        struct band *b = &panel->bands[i];
        b->phase = phase_index(p, name_of(t, b->phase));
        p->phases[b->phase].ns += b->to - b->from;
        banded += b->to - b->from;
    }
    panel->mixed_phases = (double)mixed * (double)(panel->columns.to - panel->columns.from) >
                          (double)banded * (double)panel->columns.n / 4;
    free(flat);
    free(ranges);
    return 0;
}

/* The peak of the window: the run's own if it is inside, else the greatest column. */
static void find_peak(struct trace *t, int64_t device, struct panel *panel)
{
    const struct column *top = &panel->columns.at[columns_peak(&panel->columns)];
    const struct trace_peak *peak = trace_find_peak(t, device, "allocated");
    panel->peak = top->allocated_max;
    panel->peak_t = top->t_max;
    panel->peak_phase = name_of(t, top->phase);
    panel->known_only = peak && peak->at_least;
    if (peak && peak->bytes == top->allocated_max && peak->t >= panel->columns.from &&
        peak->t <= panel->columns.to) { /* a window may reach the value of the run's peak at a later moment */
        panel->peak_t = peak->t;
        panel->peak_at_most = peak->at_most;
        panel->peak_phase = trace_phase_at_peak(t, device);
    }
}

static void find_folded(struct panel *panel)
{
    for (size_t i = 0; i < panel->columns.n; i++)
        panel->folded |= panel->columns.at[i].band;
}

/* Figures of different sources measure different things, so no line joins them. */
static void keep_source(struct panel *panel)
{
    const char *source = residual_best_source(panel->samples, panel->sample_count);
    size_t kept = 0;
    for (size_t i = 0; i < panel->sample_count; i++)
        if (source && panel->samples[i].source && !strcmp(panel->samples[i].source, source))
            panel->samples[kept++] = panel->samples[i];
    panel->sample_count = kept;
    panel->whole_device = source && strcmp(source, "nvml_process") != 0;
}

static void find_used(struct panel *panel)
{
    panel->used_peak = UNKNOWN;
    for (size_t i = 0; i < panel->sample_count; i++) {
        const struct trace_sample *s = &panel->samples[i];
        if (s->t >= panel->columns.from && s->t <= panel->columns.to && s->driver_used > panel->used_peak)
            panel->used_peak = s->driver_used;
    }
    panel->used_shown = panel->used_peak != UNKNOWN && panel->used_peak / 5 * 2 <= panel_top(panel);
}

static char *panel_title(struct trace *t, int64_t device, bool several)
{
    const struct trace_device *d = trace_find_device(t, device);
    char *rank =
        t->process.rank == UNKNOWN ? xstrdup("") : xformat("rank %lld, ", (long long)t->process.rank);
    char *title =
        xformat("%s%s%sdevice %lld%s%s%s%s", several ? shown(t->label) : "", several ? ", " : "", rank,
                (long long)device, d && d->name ? ": " : "", d && d->name ? shown(d->name) : "",
                t->process.simulated ? " (simulated driver, no GPU)" : "",
                trace_arena_served(t, device) ? ", memory from the arena" : "");
    free(rank);
    return title;
}

int picture_add(struct picture *p, struct trace *t, int64_t device, size_t columns, bool several)
{
    struct panel *panel = PUSH(p->panels, p->panel_count);
    *panel = (struct panel){.device = device};
    phase_index(p, NULL);
    panel->title = panel_title(t, device, several);
    if (load_columns(p, t, device, columns, panel) || load_bands(p, t, panel) ||
        trace_samples(t, device, &panel->samples, &panel->sample_count))
        return -1;
    find_peak(t, device, panel);
    keep_source(panel);
    find_folded(panel);
    find_used(panel);
    return 0;
}

int picture_add_run(struct picture *p, struct trace *t, int64_t device, size_t columns)
{
    if (picture_add(p, t, device, columns, false))
        return -1;
    p->panels[p->panel_count - 1].run = p->run_count - 1;
    return 0;
}

void picture_color(struct picture *p)
{
    bool taken[PICTURE_PHASES] = {false};
    size_t next = 4;
    for (size_t i = 1; i < p->phase_count; i++)
        for (size_t k = 0; k < 4; k++)
            if (!strcmp(p->phases[i].name, palette[k].phase)) {
                p->phases[i].color = palette[k].color;
                taken[k] = true;
            }
    for (size_t i = 1; i < p->phase_count; i++) {
        if (p->phases[i].color)
            continue;
        while (next < PICTURE_PHASES + 4 && taken[next % PICTURE_PHASES])
            next++;
        p->phases[i].color = next < PICTURE_PHASES + 4 ? palette[next % PICTURE_PHASES].color : OTHER_COLOR;
        next++;
    }
}

void picture_free(struct picture *p)
{
    for (size_t i = 0; i < p->panel_count; i++) {
        free(p->panels[i].title);
        free(p->panels[i].bands);
        free(p->panels[i].samples);
        columns_free(&p->panels[i].columns);
    }
    for (size_t i = 0; i < p->phase_count; i++)
        free(p->phases[i].name);
    for (size_t i = 0; i < p->run_count; i++)
        free(p->runs[i].label);
    free(p->runs);
    free(p->panels);
    free(p->phases);
    free(p->title);
}

struct axis_unit picture_time_unit(int64_t span)
{
    double s = (double)span / 1e9;
    if (s < 2e-3)
        return (struct axis_unit){"us", 1e3};
    if (s < 2)
        return (struct axis_unit){"ms", 1e6};
    if (s < 600)
        return (struct axis_unit){"s", 1e9};
    if (s < 3 * 3600)
        return (struct axis_unit){"min", 60e9};
    return (struct axis_unit){"h", 3600e9};
}

struct axis_unit picture_byte_unit(int64_t bytes)
{
    static const struct axis_unit units[] = {
        {"B", 1}, {"KiB", 1024}, {"MiB", 1048576}, {"GiB", 1073741824}, {"TiB", 1099511627776.0}};
    int i = 4;
    while (i > 0 && (double)bytes < 1.5 * units[i].scale)
        i--;
    return units[i];
}

bool picture_folded(const struct picture *p)
{
    for (size_t i = 0; i < p->panel_count; i++)
        if (p->panels[i].folded)
            return true;
    return false;
}

int64_t panel_top(const struct panel *p)
{
    int64_t top = columns_max_reserved(&p->columns);
    top = p->peak > top ? p->peak : top;
    top = p->used_shown && p->used_peak > top ? p->used_peak : top;
    return top > 0 ? top : 1;
}

char *panel_note(const struct panel *p)
{
    bool used = p->used_peak != UNKNOWN, above = used && !p->used_shown;
    const char *whose = used && p->whole_device ? " (of the whole device)" : "";
    char *driver =
        above ? xformat("driver used%s up to %s, above this scale", whose, units_bytes(p->used_peak, false).s)
        : *whose ? xformat("driver used: of the whole device")
                 : xstrdup("");
    char *note = xformat("%s%s%s", driver, *driver && p->mixed_phases ? "; " : "",
                         p->mixed_phases ? "a column shows the phase of its peak" : "");
    free(driver);
    return note;
}

char *panel_peak_text(const struct panel *p)
{
    bool phase = p->peak_phase && strcmp(p->peak_phase, "none") != 0;
    return xformat("%s %s%s%s%s", p->known_only ? "known" : "peak",
                   p->peak_at_most && !p->known_only ? "at most " : "", units_bytes(p->peak, false).s,
                   phase ? " in " : "", phase ? shown(p->peak_phase) : "");
}
