/*
 * gnuplot.c - the picture as a gnuplot script that contains its data, so that users can restyle it.
 *
 * Back to front in each panel: light bands of the phases, reserved, allocated (the range between the least
 * and the greatest value of a column lighter, and hatched where a folded stretch covers several columns),
 * driver used as a thin line, the strip of phases on top, the peak.
 */
#include <stdlib.h>
#include <string.h>

#include "label.h"
#include "script.h"
#include "base/table.h"
#include "base/units.h"

#define OTHERS     "other phases"
#define FOLDED     "folded: least to greatest"
#define LETTER     8.3 /* pixels of a letter of the peak's label, on average */
#define BANDS_CALM 90  /* more bands would flicker behind the curves: then only the strip is drawn */

static void put_bands(const struct picture *p, size_t panel, double time_scale, FILE *out)
{
    const struct panel *q = &p->panels[panel];
    for (size_t phase = 1; phase < p->phase_count; phase++) {
        fprintf(out, "$bands_%zu_%zu << EOD\n# from to   phase ", panel, phase);
        script_text(out, p->phases[phase].name);
        fputc('\n', out);
        for (size_t i = 0; i < q->band_count; i++)
            if (q->bands[i].phase == (int)phase)
                fprintf(out, "%.9g %.9g\n", (double)q->bands[i].from / time_scale,
                        (double)q->bands[i].to / time_scale);
        /* gnuplot rejects an empty datablock; a point outside the picture keeps the entry in the legend */
        fprintf(out, "NaN NaN\nEOD\n");
    }
}

/* At most one sample per column: the greatest. */
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
        fprintf(out, "%.9g %.6f\n", (double)s->t / time.scale, (double)s->driver_used / bytes.scale);
        most = s->driver_used;
        last = x;
    }
    fputs("NaN NaN\nEOD\n", out);
}

/* Writes t, minimum and maximum of allocated for the columns that are a band, with a gap between separate
 * bands. */
static void put_folded(const struct panel *q, size_t panel, struct axis_unit time, struct axis_unit bytes,
                       FILE *out)
{
    const struct columns *c = &q->columns;
    fprintf(out, "$folded_%zu << EOD\n# t_%s allocated_min allocated_max (%s, of folded stretches)\n", panel,
            time.name, bytes.name);
    for (size_t i = 0; i < c->n; i++) {
        const struct column *at = &c->at[i];
        if (!at->band)
            continue;
        double least = (double)at->allocated_min / bytes.scale,
               most = (double)at->allocated_max / bytes.scale;
        fprintf(out, "%.9g %.6f %.6f\n%.9g %.6f %.6f\n", (double)columns_edge(c, i) / time.scale, least, most,
                (double)columns_edge(c, i + 1) / time.scale, least, most);
        if (i + 1 < c->n && !at[1].band)
            fputs("\n", out);
    }
    fputs("EOD\n", out);
}

static bool has_phase(const struct picture *p, size_t phase)
{
    return p->phases[phase].ns > 0;
}

static bool any_samples(const struct picture *p)
{
    for (size_t i = 0; i < p->panel_count; i++)
        if (p->panels[i].used_shown)
            return true;
    return false;
}

/* A colour that is shared by several phases is in the legend once. */
static bool first_of_color(const struct picture *p, size_t phase)
{
    for (size_t i = 1; i < phase; i++)
        if (has_phase(p, i) && !strcmp(p->phases[i].color, p->phases[phase].color))
            return false;
    return true;
}

static bool shares_color(const struct picture *p, size_t phase)
{
    for (size_t i = 1; i < p->phase_count; i++)
        if (i != phase && has_phase(p, i) && !strcmp(p->phases[i].color, p->phases[phase].color))
            return true;
    return false;
}

/* ---- title and legend ---- */

/* Counts the entries and finds the longest name, to know how many fit side by side. */
static size_t legend_entries(const struct picture *p, size_t *longest)
{
    size_t n = 2 + any_samples(p) + picture_folded(p);
    *longest = picture_folded(p) ? sizeof FOLDED - 1 : sizeof "driver used" - 1;
    for (size_t i = 1; i < p->phase_count; i++) {
        if (!has_phase(p, i) || !first_of_color(p, i))
            continue;
        size_t w = shares_color(p, i) ? sizeof OTHERS - 1 : text_width(p->phases[i].name);
        *longest = w > *longest ? w : *longest;
        n++;
    }
    return n;
}

/* The number of columns of the legend, at about 9 pixels per letter and with the samples beside them. */
static size_t legend_columns(const struct picture *p, size_t *rows)
{
    size_t longest, n = legend_entries(p, &longest), fit = ((size_t)p->size[0] - 40) / (longest * 9 + 75);
    fit = fit < 1 ? 1 : fit > n ? n : fit;
    *rows = (n + fit - 1) / fit;
    return fit;
}

static double header_pixels(const struct picture *p)
{
    size_t rows;
    legend_columns(p, &rows);
    return 58 + 24 * (double)rows;
}

static void put_phase_entries(const struct picture *p, FILE *out)
{
    for (size_t i = 1; i < p->phase_count; i++) {
        if (!has_phase(p, i) || !first_of_color(p, i))
            continue;
        fputs(", \\\n  NaN with boxes fs solid 1 border lc rgb \"#666666\" lc rgb ", out);
        script_text(out, p->phases[i].color);
        fputs(" title ", out);
        script_text(out, shares_color(p, i) ? OTHERS : p->phases[i].name);
    }
}

/* The legend is a panel of its own without axes, so that it covers no data. */
static void put_legend(const struct picture *p, double height, FILE *out)
{
    size_t rows, columns = legend_columns(p, &rows);
    fprintf(out,
            "\n# title and legend\nunset border\nunset tics\nunset xlabel\nunset ylabel\nunset label\n"
            "set lmargin at screen 0.0\nset rmargin at screen 1.0\nset tmargin at screen 1.0\n"
            "set bmargin at screen %.4f\nset key inside center bottom horizontal Left reverse samplen 2.2 "
            "spacing 1.25 width 1.5 height 0.2 maxcols %zu maxrows %zu noautotitle\n",
            1 - height, columns, rows);
    script_title(p, out);
    fputs("set xrange [0:1]\nset yrange [0:1]\nplot \\\n"
          "  NaN with boxes fs solid 1 border lc rgb allocated_line lc rgb allocated_fill title "
          "\"allocated\", \\\n"
          "  NaN with boxes fs solid 1 border lc rgb reserved_line lc rgb reserved_fill title \"reserved\"",
          out);
    if (picture_folded(p))
        fputs(", \\\n  NaN with boxes fs transparent pattern 4 border lc rgb folded_line lc rgb folded_line "
              "title \"" FOLDED "\"",
              out);
    if (any_samples(p))
        fputs(", \\\n  NaN with lines lw 1.3 dt (6,3) lc rgb used_line title \"driver used\"", out);
    put_phase_entries(p, out);
    fputs("\nunset key\nset border 3 lw 1 lc rgb \"#555555\"\nunset label 1\n", out);
}

static void put_peak(const struct panel *q, struct axis_unit time, struct axis_unit bytes,
                     const struct label_room *room, FILE *out)
{
    char *text = panel_peak_text(q);
    struct label_room r = *room;
    r.text_width = (double)text_width(text) * LETTER + 14;
    r.text_height = 26;
    struct label_spot spot = label_place(q, &r);
    double x = (double)q->peak_t / time.scale, y = (double)q->peak / bytes.scale;
    if (spot.leader)
        fprintf(out,
                "set arrow 1 from graph %.4f, graph %.4f to graph %.4f, graph %.4f nohead front lw 1 lc rgb "
                "\"#000000\"\n",
                spot.from[0] / r.width, spot.from[1] / r.height, spot.to[0] / r.width, spot.to[1] / r.height);
    fprintf(out, "set label 1 ");
    script_text(out, text);
    fprintf(out, " at graph %.4f, graph %.4f center front boxed font peak_font\n", spot.x / r.width,
            spot.y / r.height);
    fprintf(out,
            "set label 2 \"\" at %.9g, %.6f point pt 7 ps 1.3 lc rgb \"#000000\" front\n"
            "set label 3 \"\" at %.9g, %.6f point pt 7 ps 0.7 lc rgb \"#ffffff\" front\n",
            x, y, x, y);
    free(text);
}

/* COLOR lightened, by mixing it with white, because not every SVG renderer supports transparency. */
static unsigned tint(const char *color)
{
    unsigned rgb = (unsigned)strtoul(color + 1, NULL, 16), out = 0;
    for (int shift = 16; shift >= 0; shift -= 8)
        out |= (255 - (255 - (rgb >> shift & 255)) * 22 / 100) << shift;
    return out;
}

static void put_plot(const struct picture *p, size_t panel, double top, FILE *out)
{
    const struct panel *q = &p->panels[panel];
    fputs("plot", out);
    for (size_t i = 1; i < p->phase_count; i++) {
        if (!has_phase(p, i))
            continue;
        if (q->band_count <= BANDS_CALM)
            fprintf(out,
                    " \\\n  $bands_%zu_%zu using 1:(0):1:2:(0):(%.6f) with boxxyerror fs solid 1 "
                    "noborder lc rgb \"#%06x\",",
                    panel, i, top * 0.955, tint(p->phases[i].color));
        fprintf(out,
                " \\\n  $bands_%zu_%zu using 1:(0):1:2:(%.6f):(%.6f) with boxxyerror fs solid 1 noborder lc "
                "rgb \"%s\",",
                panel, i, top * 0.962, top, p->phases[i].color);
    }
    fprintf(out,
            " \\\n  $curve_%zu using 1:4 with filledcurves y=0 fs solid 1 noborder lc rgb reserved_fill,"
            " \\\n  $curve_%zu using 1:4 with lines lw 1.2 lc rgb reserved_line,"
            " \\\n  $curve_%zu using 1:2 with filledcurves y=0 fs solid 1 noborder lc rgb range_fill,"
            " \\\n  $curve_%zu using 1:3 with filledcurves y=0 fs solid 1 noborder lc rgb allocated_fill,"
            " \\\n  $curve_%zu using 1:2 with lines lw 1.2 lc rgb allocated_line",
            panel, panel, panel, panel, panel);
    if (q->folded)
        fprintf(
            out,
            ", \\\n  $folded_%zu using 1:2:3 with filledcurves fs transparent pattern 4 lc rgb folded_line",
            panel);
    if (q->used_shown) /* few samples get points: a line alone would claim to know what lies between */
        fprintf(out, ", \\\n  $used_%zu using 1:2 with %s lw 1.3 dt (6,3) lc rgb used_line", panel,
                q->sample_count < 60 ? "linespoints pt 7 ps 0.45" : "lines");
    fputc('\n', out);
}

static void put_note(const struct panel *q, FILE *out)
{
    char *note = panel_note(q);
    if (*note) {
        fputs("set label 8 ", out);
        script_text(out, note);
        fputs(" at graph 1.0, graph 1.0 right offset 0,0.75 font tic_font textcolor rgb \"#555555\"\n", out);
    }
    free(note);
}

/* Panels share a scale, so that they can be compared, unless that would flatten one of them. */
static int64_t scale_top(const struct picture *p, size_t panel)
{
    int64_t most = 0, own = panel_top(&p->panels[panel]);
    for (size_t i = 0; i < p->panel_count; i++)
        most = panel_top(&p->panels[i]) > most ? panel_top(&p->panels[i]) : most;
    return own < most / 4 ? own : most;
}

static void put_panel(const struct picture *p, size_t panel, double bottom, double top_edge, FILE *out)
{
    const struct panel *q = &p->panels[panel];
    struct axis_unit time = picture_time_unit(p->to - p->from),
                     bytes = picture_byte_unit(scale_top(p, panel));
    double top = (double)scale_top(p, panel) / bytes.scale * 1.2;
    fprintf(out, "\n# panel %zu\n", panel);
    char *name = xformat("curve_%zu", panel),
         *label = panel + 1 == p->panel_count ? xformat("time since the start (%s)", time.name) : NULL;
    script_curve(&q->columns, name, 0, time, bytes, out);
    put_samples(q, panel, time, bytes, out);
    if (q->folded)
        put_folded(q, panel, time, bytes, out);
    put_bands(p, panel, time.scale, out);
    script_panel(&(struct script_panel){bottom, top_edge, (double)q->columns.from / time.scale,
                                        (double)q->columns.to / time.scale, top, bytes.name, label, q->title},
                 out);
    free(name);
    free(label);
    put_note(q, out);
    struct label_room room = {.width = (double)p->size[0] - SCRIPT_LEFT - SCRIPT_RIGHT,
                              .height = (top_edge - bottom) * (double)p->size[1],
                              .full = top * bytes.scale};
    if (q->peak > 0)
        put_peak(q, time, bytes, &room, out);
    put_plot(p, panel, top, out);
    fputs("unset label\nunset arrow\n", out);
}

void gnuplot_write(const struct picture *p, FILE *out, const char *terminal, const char *output)
{
    if (p->run_count) {
        overlay_gnuplot(p, out, terminal, output);
        return;
    }
    double pixels = (double)p->size[1], header = header_pixels(p) / pixels, foot = 66 / pixels,
           gap = 62 / pixels, title = 26 / pixels;
    double each = (1 - header - foot - gap * (double)(p->panel_count - 1)) / (double)p->panel_count;
    script_head(p, out, terminal, output);
    put_legend(p, header, out);
    for (size_t i = 0; i < p->panel_count; i++) {
        double top = 1 - header - (each + gap) * (double)i;
        put_panel(p, i, top - each, top - title, out);
    }
    fputs("\nunset multiplot\nunset output\n", out);
}
