/* picture.c - gathers what a picture shows (picture.h). */
#include "picture.h"

#include <stdlib.h>
#include <string.h>

#include "analysis/residual.h"
#include "base/shown.h"
#include "base/units.h"
#include "read/curve.h"

/* The usual ones first, so that legends look alike; those that never come are not shown. */
static const char *const usual[] = {"forward", "logits", "backward", "optimizer"};

static int phase_index(struct picture *p, const char *name)
{
    if (!p->phase_count) {
        *PUSH(p->phases, p->phase_count) = (struct picture_phase){.name = xstrdup("none")};
        for (size_t i = 0; i < sizeof usual / sizeof *usual; i++)
            *PUSH(p->phases, p->phase_count) = (struct picture_phase){.name = xstrdup(usual[i])};
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
    if (!result && columns_any_away(&panel->columns))
        panel->away = trace_away_always(t, device);
    return result;
}

/* The greatest allocated of the columns from band B. */
static int64_t band_peak(const struct columns *c, const struct band *b)
{
    int64_t most = 0;
    for (size_t x = columns_index(c, b->from); x < c->n && columns_edge(c, x) < b->to; x++)
        most = c->at[x].allocated_max > most ? c->at[x].allocated_max : most;
    return most;
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
        struct picture_phase *phase = &p->phases[b->phase];
        int64_t peak = band_peak(&panel->columns, b);
        phase->ns += b->to - b->from;
        phase->shown = true;
        phase->peak = peak > phase->peak ? peak : phase->peak;
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
    panel->peak_of_part = peak && peak->bytes > panel->peak;
    if (peak && peak->bytes == top->allocated_max && peak->t >= panel->columns.from &&
        peak->t <= panel->columns.to) { /* a window may reach the value of the run's peak at a later moment */
        panel->peak_t = peak->t;
        panel->peak_bound = peak->at_most ? "at most " : trace_has_loss(t, LOSS_EVENTS) ? "at least " : NULL;
        panel->peak_phase = trace_phase_at_peak(t, device);
    }
}

static int load_composition(struct picture *p, struct trace *t, struct panel *panel)
{
    size_t *groups = xrealloc(NULL, (t->phase_name_count + 1) * sizeof *groups);
    if (p->by == COMPOSITION_NONE || composition_none(t)) {
        free(groups);
        return 0;
    }
    for (size_t i = 0; p->by == COMPOSITION_PHASE && i < t->phase_name_count; i++)
        groups[i] = t->phase_names[i] ? (size_t)phase_index(p, t->phase_names[i]) : 0;
    int result = composition_load(&panel->composition, t, panel->device, &panel->columns, p->by, groups,
                                  p->phase_count);
    free(groups);
    for (size_t i = 1; p->by == COMPOSITION_PHASE && i < p->phase_count; i++)
        p->phases[i].shown |= composition_most(&panel->composition, panel->columns.n, i) > 0;
    return result;
}

/* The phase of the peak is shown, however short it was: its column is that phase's. */
static void show_peak_phase(struct picture *p, struct panel *panel)
{
    int phase = phase_index(p, panel->peak_phase);
    size_t x = columns_index(&panel->columns, panel->peak_t), n = 0;
    int64_t from = columns_edge(&panel->columns, x), to = columns_edge(&panel->columns, x + 1);
    struct band *bands = NULL;
    bool there = false;
    for (size_t i = 0; i < panel->band_count; i++)
        there |= panel->bands[i].phase == phase && panel->bands[i].from <= from && panel->bands[i].to >= to;
    if (!phase || there || panel->peak <= 0)
        return;
    for (size_t i = 0; i < panel->band_count; i++) {
        struct band left = panel->bands[i], right = left;
        left.to = left.to < from ? left.to : from;
        right.from = right.from > to ? right.from : to;
        if (left.to > left.from)
            *PUSH(bands, n) = left;
        if (right.to > right.from)
            *PUSH(bands, n) = right;
    }
    size_t at = 0;
    *PUSH(bands, n) = (struct band){from, to, phase};
    while (bands[at].to <= from)
        at++;
    memmove(bands + at + 1, bands + at, (n - 1 - at) * sizeof *bands);
    bands[at] = (struct band){from, to, phase};
    free(panel->bands);
    panel->bands = bands;
    panel->band_count = n;
    p->phases[phase].ns += to - from;
    p->phases[phase].shown = true;
    p->phases[phase].peak = panel->peak > p->phases[phase].peak ? panel->peak : p->phases[phase].peak;
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
    const char *mark = trace_mark(t);
    char *title = xformat("%s%s%sdevice %lld%s%s%s%s%s%s", several ? shown(t->label) : "",
                          several ? ", " : "", rank, (long long)device, d && d->name ? ": " : "",
                          d && d->name ? shown(d->name) : "", mark ? " (" : "", mark ? mark : "",
                          mark ? ")" : "", trace_arena_served(t, device) ? ", memory from the arena" : "");
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
        trace_samples(t, device, &panel->samples, &panel->sample_count) || load_composition(p, t, panel))
        return -1;
    find_peak(t, device, panel);
    panel->peak_phase = shown(panel->peak_phase);
    show_peak_phase(p, panel);
    if (panel_load_marks(panel, t))
        return -1;
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

int picture_add_whole(struct picture *p, struct trace *t, int64_t device, int64_t last, size_t columns)
{
    struct trace_point before;
    struct picture_whole *w = xrealloc(NULL, sizeof *w);
    *w = (struct picture_whole){.device = device, .steps = t->steps};
    p->whole = w;
    columns_init(&w->columns, 0, last, columns);
    int result = trace_curve(t, device, 0, w->columns.to, w->columns.to / (int64_t)columns, &before,
                             columns_add, &w->columns);
    if (!result)
        columns_finish(&w->columns, &before);
    return result;
}

void picture_free(struct picture *p)
{
    for (size_t i = 0; i < p->panel_count; i++) {
        free(p->panels[i].title);
        free(p->panels[i].away);
        free(p->panels[i].bands);
        free(p->panels[i].samples);
        free(p->panels[i].ooms);
        composition_free(&p->panels[i].composition);
        columns_free(&p->panels[i].columns);
    }
    for (size_t i = 0; i < p->phase_count; i++)
        free(p->phases[i].name);
    for (size_t i = 0; i < p->run_count; i++)
        free(p->runs[i].label);
    if (p->whole)
        columns_free(&p->whole->columns);
    free(p->whole);
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

char *picture_away(const struct picture *p)
{
    const struct panel *first = NULL;
    bool same = true;
    for (size_t i = 0; i < p->panel_count; i++) {
        const struct panel *q = &p->panels[i];
        if (!columns_any_away(&q->columns))
            continue;
        first = first ? first : q;
        same = same && q->away && first->away && !strcmp(q->away, first->away);
    }
    if (!first)
        return NULL;
    return same && *first->away ? xformat("on the host (%s)", first->away) : xstrdup("on the host");
}

#define SEEN 3 /* columns beside each other: less is the side of a step */

bool picture_ranges(const struct picture *p)
{
    for (size_t i = 0; i < p->panel_count; i++) {
        const struct panel *q = &p->panels[i];
        size_t run = 0;
        for (size_t x = 0; x < q->columns.n; x++) {
            const struct column *at = &q->columns.at[x];
            run = !at->band && at->allocated_max - at->allocated_min > panel_top(q) / 200 ? run + 1 : 0;
            if (run >= SEEN)
                return true;
        }
    }
    return false;
}

bool picture_has_group(const struct picture *p, size_t group)
{
    for (size_t i = 0; i < p->panel_count; i++)
        if (composition_most(&p->panels[i].composition, p->panels[i].columns.n, group) > 0)
            return true;
    return false;
}

int64_t panel_top(const struct panel *p)
{
    int64_t top = columns_max_reserved(&p->columns);
    bool beyond;
    top = p->peak > top ? p->peak : top;
    top = p->used_shown && p->used_peak > top ? p->used_peak : top;
    top = p->capacity_shown && p->capacity > top ? p->capacity : top;
    for (size_t i = 0; i < p->oom_count; i++) {
        int64_t end = panel_oom_top(p, &p->ooms[i], &beyond);
        top = end > top ? end : top;
    }
    return top > 0 ? top : 1;
}

/* NOTE; MORE */
static void add_note(char **note, char *more)
{
    char *both = xformat("%s%s%s", *note, **note && *more ? "; " : "", more);
    free(*note);
    free(more);
    *note = both;
}

/* "reserved beside it then: ..." of an out-of-memory, "of the most reserved: cached 2.00 GiB, private
 * pools 10.00 GiB", or nothing. */
char *panel_beside_text(const struct panel *p)
{
    static const char *const names[UNUSED_KINDS] = {"cached",
                                                    "waiting for a stream",
                                                    "private pools",
                                                    "nodes of CUDA graphs",
                                                    "stream-ordered pools",
                                                    "rounding",
                                                    "the arena's own",
                                                    "libraries' pools",
                                                    "unknown"};
    char *text = xstrdup("");
    for (int kind = 0; kind < UNUSED_KINDS; kind++) {
        if (!p->beside[kind])
            continue;
        char *longer = xformat("%s%s %s %s", text,
                               *text          ? ","
                               : p->oom_count ? "reserved beside it then:"
                                              : "of the most reserved:",
                               names[kind], units_bytes(p->beside[kind], false).s);
        free(text);
        text = longer;
    }
    return text;
}

char *panel_note(const struct panel *p)
{
    bool used = p->used_peak != UNKNOWN;
    const char *whose = used && p->whole_device ? " (of the whole device)" : "";
    char *note = xstrdup("");
    if (used && !p->used_shown)
        add_note(&note, xformat("driver used%s up to %s, above this scale", whose,
                                units_bytes(p->used_peak, false).s));
    else if (*whose)
        add_note(&note, xstrdup("driver used: of the whole device"));
    if (p->oom_count && !p->capacity_shown && p->capacity != UNKNOWN)
        add_note(&note, xformat("the device has %s", units_bytes(p->capacity, false).s));
    if (p->oom_count && p->oom_total > (int64_t)p->oom_count)
        add_note(&note, xformat("out of memory %lld times in all", (long long)p->oom_total));
    char *beside = panel_beside_text(p);
    add_note(&note, beside);
    if (p->mixed_phases)
        add_note(&note, xstrdup("a column shows the phase of its peak"));
    return note;
}

char *panel_peak_text(const struct panel *p)
{
    bool phase = p->peak_phase && strcmp(p->peak_phase, "none") != 0;
    return xformat("%s %s%s%s%s",
                   p->peak_of_part ? "highest here"
                   : p->known_only ? "known"
                                   : "peak",
                   p->known_only || !p->peak_bound ? "" : p->peak_bound, units_bytes(p->peak, false).s,
                   phase ? " in " : "", phase ? shown(p->peak_phase) : "");
}
