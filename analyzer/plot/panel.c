/*
 * panel.c - one panel as part of a gnuplot script: its data and what is drawn of them (script.h).
 *
 * The driver's samples are points: nobody knows what lies between two of them.  Allocated is one area,
 * lighter between a column's least and greatest value, and hatched where a folded stretch covers several
 * columns; or it is divided by what it was made of, at each column's greatest value.
 */
#include "script.h"

#include <stdlib.h>
#include <string.h>

#include "base/shown.h"
#include "base/units.h"
#include "read/tables.h"

#define BANDS_CALM 90 /* more bands than this are a flicker behind the curves: then the strip alone */
#define THIN       4  /* columns; a phase's highest moment is at least this wide in the strip */
#define STRIP      0.962

/* The band of PHASE with its greatest value; NULL: it has none. */
static const struct band *highest_band(const struct panel *q, int phase)
{
    const struct band *best = NULL;
    int64_t most = -1;
    for (size_t i = 0; i < q->band_count; i++) {
        const struct band *b = &q->bands[i];
        size_t x = columns_index(&q->columns, b->from);
        for (; b->phase == phase && x < q->columns.n && columns_edge(&q->columns, x) < b->to; x++)
            if (q->columns.at[x].allocated_max > most) {
                most = q->columns.at[x].allocated_max;
                best = b;
            }
    }
    return best;
}

/* Widened to THIN columns where it is less. */
static void put_highest(const struct panel *q, int phase, double time_scale, FILE *out)
{
    const struct band *b = highest_band(q, phase);
    double column = (double)(q->columns.to - q->columns.from) / (double)q->columns.n;
    if (!b || (double)(b->to - b->from) >= THIN * column)
        return;
    double middle = ((double)b->from + (double)b->to) / 2, from = middle - THIN * column / 2,
           to = middle + THIN * column / 2;
    from = from < (double)q->columns.from ? (double)q->columns.from : from;
    to = to > (double)q->columns.to ? (double)q->columns.to : to;
    fprintf(out, "%.15g %.15g\n", from / time_scale, to / time_scale);
}

static void put_bands(const struct picture *p, size_t panel, double time_scale, FILE *out)
{
    const struct panel *q = &p->panels[panel];
    for (size_t phase = 1; phase < p->phase_count; phase++) {
        if (!p->phases[phase].shown)
            continue;
        fprintf(out, "$bands_%zu_%zu << EOD\n# from to   phase ", panel, phase);
        script_text(out, p->phases[phase].name);
        fputc('\n', out);
        for (size_t i = 0; i < q->band_count; i++)
            if (q->bands[i].phase == (int)phase)
                fprintf(out, "%.15g %.15g\n", (double)q->bands[i].from / time_scale,
                        (double)q->bands[i].to / time_scale);
        /* a datablock without a row is an error to gnuplot: one beside the picture keeps the legend whole */
        fprintf(out, "NaN NaN\nEOD\n$highest_%zu_%zu << EOD\n", panel, phase);
        put_highest(q, (int)phase, time_scale, out);
        fputs("NaN NaN\nEOD\n", out);
    }
}

/* At most one sample a column, the greatest. */
static void put_samples(const struct panel *q, size_t panel, struct axis_unit time, struct axis_unit bytes,
                        FILE *out)
{
    const struct columns *c = &q->columns;
    size_t last = SIZE_MAX;
    int64_t most = 0;
    fprintf(out, "$used_%zu << EOD\n# t_%s driver_used_%s\n", panel, time.name, bytes.name);
    for (size_t i = 0; i < q->sample_count; i++) {
        const struct trace_sample *s = &q->samples[i];
        if (s->driver_used == UNKNOWN || s->t < c->from || s->t > c->to)
            continue;
        size_t x = columns_index(c, s->t);
        if (x == last && s->driver_used <= most)
            continue;
        fprintf(out, "%.15g %.6f\n", (double)s->t / time.scale, (double)s->driver_used / bytes.scale);
        most = s->driver_used;
        last = x;
    }
    fputs("NaN NaN\nEOD\n", out);
}

/* ---- what allocated was made of ---- */

/* Group at PLACE from below: 1, 2, ... and the rest, group 0, on top. */
static size_t group_at(const struct composition *c, size_t place)
{
    return (place + 1) % c->groups;
}

static void put_stack_row(const struct composition *c, size_t x, double t, double scale, FILE *out)
{
    int64_t sum = 0;
    fprintf(out, "%.15g", t);
    for (size_t place = 0; place < c->groups; place++) {
        sum += c->at[x * c->groups + group_at(c, place)];
        fprintf(out, " %.6f", (double)sum / scale);
    }
    fputc('\n', out);
}

static void put_stack(const struct picture *p, const struct panel *q, size_t panel, struct axis_unit time,
                      struct axis_unit bytes, FILE *out)
{
    const struct composition *c = &q->composition;
    size_t row = c->groups * sizeof *c->at;
    fprintf(out, "$parts_%zu << EOD\n# t_%s, and in %s upper edges of:", panel, time.name, bytes.name);
    for (size_t place = 0; place < c->groups; place++) {
        fputs(place ? ", " : " ", out);
        script_text(out, picture_group_name(p, group_at(c, place)));
    }
    fputc('\n', out);
    for (size_t x = 0; x < q->columns.n; x++) {
        double t = (double)columns_edge(&q->columns, x) / time.scale;
        if (x > 0 && !memcmp(&c->at[x * c->groups], &c->at[(x - 1) * c->groups], row))
            continue;
        if (x > 0)
            put_stack_row(c, x - 1, t, bytes.scale, out);
        put_stack_row(c, x, t, bytes.scale, out);
    }
    put_stack_row(c, q->columns.n - 1, (double)q->columns.to / time.scale, bytes.scale, out);
    fputs("EOD\n", out);
}

static void plot_stack(const struct picture *p, const struct panel *q, size_t panel, FILE *out)
{
    for (size_t place = q->composition.groups; place-- > 0;) {
        size_t group = group_at(&q->composition, place);
        if (composition_most(&q->composition, q->columns.n, group) > 0)
            fprintf(out,
                    ", \\\n  $parts_%zu using 1:%zu with filledcurves y=0 fs solid 1 noborder lc rgb \"%s\"",
                    panel, place + 2, picture_group_color(p, group));
    }
}

static void plot_area(const struct panel *q, size_t panel, FILE *out)
{
    fprintf(out,
            ", \\\n  $curve_%zu using 1:2 with filledcurves y=0 fs solid 1 noborder lc rgb range_fill,"
            " \\\n  $curve_%zu using 1:3 with filledcurves y=0 fs solid 1 noborder lc rgb allocated_fill",
            panel, panel);
    if (q->folded)
        fprintf(
            out,
            ", \\\n  $folded_%zu using 1:2:3 with filledcurves fs transparent pattern 4 lc rgb folded_line",
            panel);
}

/* ---- marks and their labels ---- */

struct labels { /* what stands in a panel already */
    struct label_room room;
    double full; /* value at the upper edge, in the axis's unit */
    struct label_box boxes[64];
    size_t n;
    int next; /* of gnuplot's tags */
};

static void take(struct labels *l, double left, double bottom, double right, double top)
{
    if (l->n < sizeof l->boxes / sizeof *l->boxes)
        l->boxes[l->n++] = (struct label_box){left, bottom, right, top};
}

/* TEXT near moment T and VALUE. */
static void put_label(struct labels *l, const struct panel *q, char *text, int64_t t, int64_t value,
                      const char *color, FILE *out)
{
    struct label_room r = l->room;
    r.text_width = script_width(text, SCRIPT_LETTER) + 14;
    r.text_height = 26;
    r.taken = l->boxes;
    r.taken_count = l->n;
    struct label_spot spot = label_place(q, &r, t, value);
    take(l, spot.x - r.text_width / 2, spot.y - 13, spot.x + r.text_width / 2, spot.y + 13);
    if (spot.leader)
        fprintf(out,
                "set arrow %d from graph %.4f, graph %.4f to graph %.4f, graph %.4f nohead front lw 1 lc rgb "
                "\"#000000\"\n",
                l->next, spot.from[0] / r.width, spot.from[1] / r.height, spot.to[0] / r.width,
                spot.to[1] / r.height);
    fprintf(out, "set label %d ", l->next++);
    script_text(out, text);
    fprintf(out, " at graph %.4f, graph %.4f center front boxed font peak_font textcolor rgb %s\n",
            spot.x / r.width, spot.y / r.height, color);
    free(text);
}

static void put_peak(struct labels *l, const struct panel *q, struct axis_unit time, struct axis_unit bytes,
                     FILE *out)
{
    double x = (double)q->peak_t / time.scale, y = (double)q->peak / bytes.scale;
    fprintf(out,
            "set label 2 \"\" at %.15g, %.6f point pt 7 ps 1.3 lc rgb \"#000000\" front\n"
            "set label 3 \"\" at %.15g, %.6f point pt 7 ps 0.7 lc rgb \"#ffffff\" front\n",
            x, y, x, y);
    put_label(l, q, panel_peak_text(q), q->peak_t, q->peak, "\"#000000\"", out);
}

struct oom_mark {
    double t, bottom, top; /* in the units of the axes */
    bool beyond;           /* the scale */
};

static struct oom_mark mark_of(const struct panel *q, const struct panel_oom *o, struct axis_unit time,
                               struct axis_unit bytes)
{
    bool beyond;
    double top = (double)panel_oom_top(q, o, &beyond) / bytes.scale;
    return (struct oom_mark){(double)o->t / time.scale, (double)o->allocated / bytes.scale, top, beyond};
}

/* From what was allocated up to what would have been; an arrow where that lies beyond the scale. */
static void put_oom(struct labels *l, const struct panel *q, const struct oom_mark *m, double scale,
                    FILE *out)
{
    double from = (double)q->columns.from / scale, span = (double)q->columns.to / scale - from,
           x = (m->t - from) / span * l->room.width, pixel = l->room.height / l->full;
    fprintf(out, "set arrow %d from %.15g, %.6f to %.15g, %.6f %s front lw 2.4 lc rgb oom_line\n", l->next,
            m->t, m->bottom, m->t, m->top, m->beyond ? "head filled size screen 0.008,20" : "nohead");
    fprintf(out, "set label %d \"\" at %.15g, %.6f point pt 2 ps 1.2 lw 2.4 lc rgb oom_line front\n",
            l->next++, m->t, m->beyond ? m->bottom : m->top);
    take(l, x - 6, m->bottom * pixel, x + 6, m->top * pixel);
}

/* All marks first: no label may lie over one.  The peak's label comes next to it. */
static void put_marks(const struct panel *q, const struct label_room *room, struct axis_unit time,
                      struct axis_unit bytes, FILE *out)
{
    struct labels l = {.room = *room, .full = room->full / bytes.scale, .next = 20};
    double y = q->capacity_shown ? (double)q->capacity / room->full * room->height : -9;
    take(&l, 0, y - 2, room->width, y + 2);
    for (size_t i = 0; i < q->oom_count; i++) {
        struct oom_mark m = mark_of(q, &q->ooms[i], time, bytes);
        put_oom(&l, q, &m, time.scale, out);
    }
    if (q->peak > 0)
        put_peak(&l, q, time, bytes, out);
    for (size_t i = 0; i < q->oom_count; i++) {
        bool beyond;
        put_label(&l, q, panel_oom_text(&q->ooms[i]), q->ooms[i].t, panel_oom_top(q, &q->ooms[i], &beyond),
                  "oom_line", out);
    }
}

/* ---- a panel ---- */

static void plot_bands(const struct picture *p, size_t panel, double top, FILE *out)
{
    const struct panel *q = &p->panels[panel];
    for (size_t i = 1; i < p->phase_count; i++) {
        if (!p->phases[i].shown)
            continue;
        if (q->band_count <= BANDS_CALM)
            fprintf(out,
                    " \\\n  $bands_%zu_%zu using 1:(0):1:2:(0):(%.6f) with boxxyerror fs solid 1 "
                    "noborder lc rgb \"#%06x\",",
                    panel, i, top * 0.955, script_tint(p->phases[i].color, 22));
        fprintf(out,
                " \\\n  $bands_%zu_%zu using 1:(0):1:2:(%.6f):(%.6f) with boxxyerror fs solid 1 noborder lc "
                "rgb \"%s\",",
                panel, i, top * STRIP, top, p->phases[i].color);
    }
}

/* Above all others: the moment of a phase's highest value, lowest phase first. */
static void plot_highest(const struct picture *p, size_t panel, double top, FILE *out)
{
    size_t *order = NULL, n = 0;
    for (size_t i = 1; i < p->phase_count; i++) {
        size_t at = n;
        if (!p->phases[i].shown)
            continue;
        *PUSH(order, n) = i;
        for (; at > 0 && p->phases[order[at - 1]].peak > p->phases[i].peak; at--)
            order[at] = order[at - 1];
        order[at] = i;
    }
    for (size_t k = 0; k < n; k++)
        fprintf(out,
                ", \\\n  $highest_%zu_%zu using 1:(0):1:2:(%.6f):(%.6f) with boxxyerror fs solid 1 noborder "
                "lc rgb "
                "\"%s\"",
                panel, order[k], top * STRIP, top, p->phases[order[k]].color);
    free(order);
}

static void put_plot(const struct picture *p, size_t panel, double top, struct axis_unit bytes, FILE *out)
{
    const struct panel *q = &p->panels[panel];
    fputs("plot", out);
    plot_bands(p, panel, top, out);
    fprintf(out,
            " \\\n  $curve_%zu using 1:4 with filledcurves y=0 fs solid 1 noborder lc rgb reserved_fill,"
            " \\\n  $curve_%zu using 1:4 with lines lw 1.2 lc rgb reserved_line",
            panel, panel);
    if (q->composition.groups)
        plot_stack(p, q, panel, out);
    else
        plot_area(q, panel, out);
    if (columns_any_away(&q->columns))
        fprintf(
            out,
            ", \\\n  $away_%zu using 1:2:3 with filledcurves fs transparent pattern 5 lc rgb \"" SCRIPT_AWAY
            "\"",
            panel);
    fprintf(out, ", \\\n  $curve_%zu using 1:2 with lines lw 1.2 lc rgb allocated_line", panel);
    if (q->used_shown)
        fprintf(out, ", \\\n  $used_%zu using 1:2 with points pt 7 ps 0.45 lc rgb used_line", panel);
    if (q->capacity_shown)
        fprintf(out, ", \\\n  %.6f with lines lw 1.6 dt (10,5) lc rgb capacity_line",
                (double)q->capacity / bytes.scale);
    plot_highest(p, panel, top, out);
    fputc('\n', out);
}

static bool two_lines(const char *title, const char *note, double width)
{
    return *note && script_width(title, SCRIPT_LETTER) + script_width(note, SCRIPT_SMALL) + 20 > width;
}

double panel_head(const struct panel *q, double width)
{
    char *note = panel_note(q);
    bool two = two_lines(q->title, note, width);
    free(note);
    return SCRIPT_TITLE + (two ? 20 : 0);
}

/* Beside the title, or below it where both don't fit into one line. */
static void put_heading(const struct panel *q, double width, FILE *out)
{
    char *whole = panel_note(q), *note = shown_cut(whole, (size_t)(width / SCRIPT_SMALL) + 4),
         *title = shown_cut(q->title, (size_t)(width / SCRIPT_LETTER) + 4);
    bool two = two_lines(q->title, whole, width);
    fputs("set label 9 ", out);
    script_text(out, title);
    fprintf(out, " at graph 0.0, graph 1.0 left offset 0,%s font label_font textcolor rgb \"#222222\"\n",
            two ? "1.9" : "0.75");
    if (*note) {
        fputs("set label 8 ", out);
        script_text(out, note);
        fprintf(out, " at graph %s offset 0,0.75 font tic_font textcolor rgb \"#555555\"\n",
                two ? "0.0, graph 1.0 left" : "1.0, graph 1.0 right");
    }
    free(whole);
    free(note);
    free(title);
}

/* Panels that are compared with the eye share a scale, unless that would flatten one of them. */
static int64_t scale_top(const struct picture *p, size_t panel)
{
    int64_t most = 0, own = panel_top(&p->panels[panel]);
    for (size_t i = 0; i < p->panel_count; i++)
        most = panel_top(&p->panels[i]) > most ? panel_top(&p->panels[i]) : most;
    return own < most / 4 ? own : most;
}

static void put_data(const struct picture *p, size_t panel, struct axis_unit time, struct axis_unit bytes,
                     FILE *out)
{
    const struct panel *q = &p->panels[panel];
    char *name = xformat("curve_%zu", panel);
    script_curve(&q->columns, name, 0, time, bytes, out);
    if (q->composition.groups)
        put_stack(p, q, panel, time, bytes, out);
    put_samples(q, panel, time, bytes, out);
    char *folded = xformat("folded_%zu", panel);
    if (q->folded)
        script_folded(&q->columns, folded, 0, time, bytes, out);
    free(folded);
    char *away = xformat("away_%zu", panel);
    if (columns_any_away(&q->columns))
        script_away(&q->columns, away, time, bytes, out);
    free(away);
    put_bands(p, panel, time.scale, out);
    free(name);
}

void panel_write(const struct picture *p, size_t panel, const struct panel_place *place, FILE *out)
{
    const struct panel *q = &p->panels[panel];
    struct axis_unit time = picture_time_unit(p->to - p->from),
                     bytes = picture_byte_unit(scale_top(p, panel));
    double top = (double)scale_top(p, panel) / bytes.scale * 1.2;
    struct label_room room = {.width = (place->right - place->left) * (double)p->size[0],
                              .height = (place->top - place->bottom) * (double)p->size[1],
                              .full = top * bytes.scale};
    char *label = place->times ? xformat("time since the start (%s)", time.name) : NULL;
    fprintf(out, "\n# panel %zu\n", panel);
    put_data(p, panel, time, bytes, out);
    script_panel(&(struct script_panel){place->left, place->right, place->bottom, place->top,
                                        (double)q->columns.from / time.scale,
                                        (double)q->columns.to / time.scale, top, bytes.name, label, NULL,
                                        room.height},
                 out);
    free(label);
    put_heading(q, room.width, out);
    put_marks(q, &room, time, bytes, out);
    put_plot(p, panel, top, bytes, out);
    fputs("unset label\nunset arrow\n", out);
}
