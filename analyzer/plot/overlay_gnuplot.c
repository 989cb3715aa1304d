/*
 * overlay_gnuplot.c - an overlay as a gnuplot script.
 *
 * The highest run is drawn first, so that the lower ones are seen.  Peaks are in the legend, where no curve
 * hides them; with several devices they are at the head of each drawing.
 */
#include <stdlib.h>
#include <string.h>

#include "overlay.h"
#include "script.h"
#include "base/shown.h"
#include "base/table.h"
#include "base/units.h"

#define RANGES "range in a pixel (tinted)"
#define FOLDED "folded: least to greatest (hatched)"

struct canvas {
    const struct picture *p;
    FILE *out;
    int64_t device;
    struct axis_unit time, bytes;
    double full;
};

/* ---- legend ---- */

/* RUN's name in the legend, with its peak if there is only one drawing. */
static char *entry(const struct picture *p, size_t run, size_t devices)
{
    const struct panel *q = p->panel_count ? overlay_panel(p, p->panels[0].device, run) : NULL;
    return devices == 1 && q && q->peak > 0 ? overlay_name(p, q) : xstrdup(p->runs[run].label);
}

/* How many pixels the head takes. */
static double make_legend(const struct picture *p, size_t devices, struct legend *l)
{
    *l = (struct legend){.longest = picture_folded(p) ? sizeof FOLDED : sizeof RANGES};
    for (size_t i = 0; i < p->run_count; i++) {
        char *text = entry(p, i, devices);
        legend_add(l, text, "lines lw 2.6 lc rgb \"%s\"", p->runs[i].color);
        free(text);
    }
    if (picture_ranges(p))
        legend_add(l, RANGES, "boxes fs solid 1 border lc rgb reserved_line lc rgb range_fill");
    if (picture_folded(p))
        legend_add(l, FOLDED, "boxes fs transparent pattern 4 border lc rgb folded_line lc rgb folded_line");
    legend_add(l, "reserved (dashed)", "lines lw 1.4 dt (12,8) lc rgb reserved_line");
    return legend_fit(l, p->size[0]);
}

/* ---- a drawing ---- */

static void put_curves(const struct canvas *d, size_t index)
{
    for (size_t run = 0; run < d->p->run_count; run++) {
        const struct panel *q = overlay_panel(d->p, d->device, run);
        char *name = xformat("curve_%zu_%zu", index, run);
        if (q)
            script_curve(&q->columns, name, d->p->runs[run].origin, d->time, d->bytes, d->out);
        free(name);
        char *folded = xformat("folded_%zu_%zu", index, run);
        if (q && q->folded)
            script_folded(&q->columns, folded, d->p->runs[run].origin, d->time, d->bytes, d->out);
        free(folded);
    }
}

static void put_peaks(const struct canvas *d, const size_t *runs, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const struct panel *q = overlay_panel(d->p, d->device, runs[i]);
        double x = (double)(q->peak_t - d->p->runs[runs[i]].origin) / d->time.scale,
               y = (double)q->peak / d->bytes.scale;
        if (q->peak > 0)
            fprintf(d->out,
                    "set label %zu \"\" at %.15g, %.6f point pt 7 ps 1.5 lc rgb \"%s\" front\n"
                    "set label %zu \"\" at %.15g, %.6f point pt 7 ps 0.7 lc rgb \"#ffffff\" front\n",
                    20 + 2 * i, x, y, d->p->runs[runs[i]].color, 21 + 2 * i, x, y);
    }
}

/* Peaks of several devices don't fit into one legend, so they are at the head of each drawing. */
static void put_heading(const struct canvas *d, size_t devices)
{
    char *text = NULL;
    for (size_t run = 0; run < d->p->run_count; run++) {
        const struct panel *q = overlay_panel(d->p, d->device, run);
        if (!q)
            continue;
        char *longer = xformat("%s%s %s %s", text ? text : "peaks:", text ? "," : "", d->p->runs[run].label,
                               units_bytes(q->peak, false).s);
        free(text);
        text = longer;
    }
    if (devices > 1) {
        /* beside the drawing's own title */
        double room = (double)(d->p->size[0] - script_left(d->p->size[0])) - SCRIPT_RIGHT -
                      script_width(overlay_title(d->p, d->device), SCRIPT_LETTER);
        char *brief = shown_cut(text, room > 4 * SCRIPT_SMALL ? (size_t)(room / SCRIPT_SMALL) - 1 : 3);
        fputs("set label 8 ", d->out);
        script_text(d->out, brief);
        free(brief);
        fputs(" at graph 1.0, graph 1.0 right offset 0,0.75 font tic_font textcolor rgb \"#555555\"\n",
              d->out);
    }
    free(text);
}

static void put_plot(const struct canvas *d, size_t index, const size_t *runs, size_t n)
{
    fputs("plot", d->out);
    for (size_t i = 0; i < n; i++)
        fprintf(d->out,
                "%s \\\n  $curve_%zu_%zu using 1:2 with filledcurves y=0 fs solid 1 noborder lc rgb \"#%06x\""
                ", \\\n  $curve_%zu_%zu using 1:2:3 with filledcurves fs solid 1 noborder lc rgb \"#%06x\"",
                i ? "," : "", index, runs[i], script_tint(d->p->runs[runs[i]].color, 12), index, runs[i],
                script_tint(d->p->runs[runs[i]].color, 35));
    for (size_t i = 0; i < n; i++)
        if (overlay_panel(d->p, d->device, runs[i])->folded)
            fprintf(d->out,
                    ", \\\n  $folded_%zu_%zu using 1:2:3 with filledcurves fs transparent pattern 4 lc rgb "
                    "\"%s\"",
                    index, runs[i], d->p->runs[runs[i]].color);
    for (size_t i = 0; i < n; i++)
        fprintf(d->out,
                ", \\\n  $curve_%zu_%zu using 1:4 with lines lw 1.4 dt (12,8) lc rgb \"#%06x\""
                ", \\\n  $curve_%zu_%zu using 1:2 with lines lw 1.8 lc rgb \"%s\"",
                index, runs[i], script_tint(d->p->runs[runs[i]].color, 60), index, runs[i],
                d->p->runs[runs[i]].color);
    fputc('\n', d->out);
}

static char *time_label(const struct canvas *d)
{
    return xformat("time since %s (%s)", d->p->from_step ? "the step began" : "each run's start",
                   d->time.name);
}

static void put_drawing(const struct canvas *d, size_t index, size_t devices, double bottom, double top)
{
    size_t runs[PICTURE_RUNS], n = overlay_order(d->p, d->device, runs);
    const struct picture *p = d->p;
    double width = (double)p->size[0], from = (double)p->from / d->time.scale,
           to = (double)p->to / d->time.scale;
    char *label = index + 1 == devices ? time_label(d) : NULL;
    fprintf(d->out, "\n# device %lld\n", (long long)d->device);
    put_curves(d, index);
    script_panel(&(struct script_panel){(double)script_left(p->size[0]) / width, 1 - SCRIPT_RIGHT / width,
                                        bottom, top, from, to, d->full, d->bytes.name, label,
                                        overlay_title(p, d->device), (top - bottom) * (double)p->size[1]},
                 d->out);
    put_heading(d, devices);
    put_peaks(d, runs, n);
    put_plot(d, index, runs, n);
    fputs("unset label\n", d->out);
    free(label);
}

double overlay_least(const struct picture *p)
{
    size_t n;
    struct legend l;
    free(overlay_devices(p, &n));
    double head = make_legend(p, n, &l);
    legend_free(&l);
    return head + SCRIPT_FOOT + (SCRIPT_TITLE + SCRIPT_LEAST) * (double)n + SCRIPT_GAP * (double)(n - 1);
}

void overlay_gnuplot(const struct picture *p, FILE *out, const char *terminal, const char *output)
{
    size_t n;
    int64_t *devices = overlay_devices(p, &n);
    struct legend l;
    double pixels = (double)p->size[1], header = make_legend(p, n, &l) / pixels, foot = SCRIPT_FOOT / pixels,
           gap = SCRIPT_GAP / pixels, title = SCRIPT_TITLE / pixels;
    double each = (1 - header - foot - gap * (double)(n - 1)) / (double)n;
    script_head(p, out, terminal, output);
    legend_write(&l, p, header, out);
    for (size_t i = 0; i < n; i++) {
        int64_t highest = overlay_top(p, devices[i]);
        double top = 1 - header - (each + gap) * (double)i;
        struct canvas d = {p, out, devices[i], picture_time_unit(p->to - p->from), picture_byte_unit(highest),
                           0};
        d.full = (double)highest / d.bytes.scale * 1.1;
        put_drawing(&d, i, n, top - each, top - title);
    }
    fputs("\nunset multiplot\nunset output\n", out);
    free(devices);
}
