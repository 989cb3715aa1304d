/*
 * gnuplot.c - the picture as a gnuplot script that holds its own data, so that a user can restyle it: title,
 * legend, where panels stand, and above them a strip of the whole run where they show a part of it.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "overlay.h"
#include "script.h"
#include "base/shown.h"
#include "base/table.h"

#define STRIP_HIGH 70 /* pixels of the strip's drawing, and of a low picture's */
#define STRIP_LOW  34
#define LOW        560

#define OTHERS "other phases"

#define OOM_HIGH     30  /* more of a panel for each out-of-memory */
#define LEAST_ACROSS 360 /* of a panel beside others */

/* Panels beside each other: many below each other would be a picture that no screen shows. */
size_t picture_across(size_t panels)
{
    return panels <= 4 ? 1 : panels <= 16 ? 2 : 4;
}

/* ---- the head: title and legend ---- */

/* Whether any panel has its allocated memory divided. */
static bool picture_composed(const struct picture *p)
{
    for (size_t i = 0; i < p->panel_count; i++)
        if (p->panels[i].composition.groups)
            return true;
    return false;
}

/* Whether any panel has samples of the driver on its scale. */
static bool picture_sampled(const struct picture *p)
{
    for (size_t i = 0; i < p->panel_count; i++)
        if (p->panels[i].used_shown)
            return true;
    return false;
}

static bool any_capacity(const struct picture *p)
{
    for (size_t i = 0; i < p->panel_count; i++)
        if (p->panels[i].capacity_shown)
            return true;
    return false;
}

static bool any_oom(const struct picture *p)
{
    for (size_t i = 0; i < p->panel_count; i++)
        if (p->panels[i].oom_count)
            return true;
    return false;
}

static void add_box(struct legend *l, const char *color, const char *border, const char *name)
{
    legend_add(l, name, "boxes fs solid 1 border lc rgb %s lc rgb %s", border, color);
}

/* Shared colours stand in the legend once. */
static bool first_of_color(const struct picture *p, size_t phase)
{
    for (size_t i = 1; i < phase; i++)
        if (p->phases[i].shown && !strcmp(p->phases[i].color, p->phases[phase].color))
            return false;
    return true;
}

static bool shares_color(const struct picture *p, size_t phase)
{
    for (size_t i = 1; i < p->phase_count; i++)
        if (i != phase && p->phases[i].shown && !strcmp(p->phases[i].color, p->phases[phase].color))
            return true;
    return false;
}

/* Roles and phases may have the same names: beside roles a phase is "in logits". */
static void add_phases(struct legend *l, const struct picture *p)
{
    bool roles = picture_composed(p) && p->by == COMPOSITION_ROLE;
    for (size_t i = 1; i < p->phase_count; i++) {
        if (!p->phases[i].shown || !first_of_color(p, i))
            continue;
        bool shared = shares_color(p, i);
        char *color = xformat("\"%s\"", p->phases[i].color),
             *name = xformat("%s%s", roles && !shared ? "in " : "", shared ? OTHERS : p->phases[i].name);
        add_box(l, color, "\"#666666\"", name);
        free(color);
        free(name);
    }
}

static void add_groups(struct legend *l, const struct picture *p)
{
    size_t groups = p->by == COMPOSITION_ROLE ? COMPOSITION_ROLES : 1; /* phases stand there anyway */
    for (size_t i = 1; i <= groups; i++) {
        size_t group = i % groups;
        char *color = xformat("\"%s\"", picture_group_color(p, group));
        if (picture_has_group(p, group))
            add_box(l, color, "\"#666666\"", picture_group_name(p, group));
        free(color);
    }
}

static void add_curves(struct legend *l, const struct picture *p)
{
    if (picture_composed(p)) {
        legend_add(l, "allocated", "lines lw 1.6 lc rgb allocated_line");
        add_groups(l, p);
    } else {
        add_box(l, "allocated_fill", "allocated_line", "allocated");
        if (picture_ranges(p))
            add_box(l, "range_fill", "allocated_line", "its range in a pixel");
    }
    char *away = picture_away(p);
    if (away)
        legend_add(l, away,
                   "boxes fs transparent pattern 5 border lc rgb \"" SCRIPT_AWAY "\" lc rgb \"" SCRIPT_AWAY
                   "\"");
    free(away);
    add_box(l, "reserved_fill", "reserved_line", "reserved");
    if (picture_folded(p))
        legend_add(l, "folded: least to greatest",
                   "boxes fs transparent pattern 4 border lc rgb folded_line lc rgb folded_line");
    if (picture_sampled(p))
        legend_add(l, "driver used, sampled", "points pt 7 ps 0.6 lc rgb used_line");
    if (any_capacity(p))
        legend_add(l, "device memory", "lines lw 1.6 dt (10,5) lc rgb capacity_line");
    if (any_oom(p))
        legend_add(l, "out of memory", "points pt 2 ps 1.2 lw 2.4 lc rgb oom_line");
}

/* How many pixels the head takes. */
static double make_legend(const struct picture *p, struct legend *l)
{
    *l = (struct legend){.longest = 1};
    add_curves(l, p);
    add_phases(l, p);
    return legend_fit(l, p->size[0]);
}

static double legend_pixels(const struct picture *p)
{
    struct legend l;
    double pixels = make_legend(p, &l);
    legend_free(&l);
    return pixels;
}

/* ---- how high it must be ---- */

static double strip_pixels(const struct picture *p, bool low)
{
    if (!p->whole)
        return 0;
    return SCRIPT_TITLE + (low ? STRIP_LOW + 10 : STRIP_HIGH + 38);
}

static double head_of_row(const struct picture *p, size_t row, size_t across, double width)
{
    double head = SCRIPT_TITLE;
    for (size_t i = row * across; i < p->panel_count && i < (row + 1) * across; i++) {
        double own = panel_head(&p->panels[i], width);
        head = own > head ? own : head;
    }
    return head;
}

/* How high a picture as wide as P must be. */
static double needed(const struct picture *p, bool low)
{
    size_t ooms = 0, across = picture_across(p->panel_count), rows = (p->panel_count + across - 1) / across;
    double part = (double)p->size[0] / (double)across, left = (double)script_left((int64_t)part), head = 0;
    for (size_t row = 0; row < rows; row++) { /* rows are equally high: the greatest head counts */
        double own = head_of_row(p, row, across, part - left - SCRIPT_RIGHT);
        head = own > head ? own : head;
    }
    for (size_t i = 0; i < p->panel_count; i++) /* each out-of-memory has a label beside the peak's */
        ooms = p->panels[i].oom_count > ooms ? p->panels[i].oom_count : ooms;
    return legend_pixels(p) + strip_pixels(p, low) + SCRIPT_FOOT + SCRIPT_GAP * (double)(rows - 1) +
           (head + SCRIPT_LEAST + OOM_HIGH * (double)ooms) * (double)rows;
}

static bool is_low(const struct picture *p)
{
    return p->size[1] < LOW || (double)p->size[1] < needed(p, false);
}

/* ---- the strip of the whole run ---- */

static void put_strip(const struct picture *p, double top, FILE *out)
{
    const struct picture_whole *w = p->whole;
    int64_t reserved = columns_max_reserved(&w->columns),
            allocated = w->columns.at[columns_peak(&w->columns)].allocated_max,
            most = allocated > reserved ? allocated : reserved; /* where memory was away it may be */
    struct axis_unit time = picture_time_unit(w->columns.to), bytes = picture_byte_unit(most);
    double pixels = (double)p->size[1], width = (double)p->size[0], full = (double)most / bytes.scale * 1.15,
           drawing = is_low(p) ? STRIP_LOW : STRIP_HIGH,
           least = (double)w->columns.to / (double)w->columns.n * 3, from = (double)p->from,
           to = (double)p->to;
    if (to - from < least)
        to = from + least;
    double room = width - (double)script_left(p->size[0]) - SCRIPT_RIGHT;
    char *whole =
        xformat("whole run of device %lld, %lld steps (%s; light: range in a pixel); marked: shown below",
                (long long)w->device, (long long)w->steps, time.name);
    char *title = shown_cut(whole, (size_t)(room / SCRIPT_SMALL));
    free(whole);
    fputs("\n# the whole run\n", out);
    script_curve(&w->columns, "whole", 0, time, bytes, out);
    script_panel(&(struct script_panel){(double)script_left(p->size[0]) / width, 1 - SCRIPT_RIGHT / width,
                                        top - (SCRIPT_TITLE + drawing) / pixels, top - SCRIPT_TITLE / pixels,
                                        0, (double)w->columns.to / time.scale, full > 0 ? full : 1,
                                        bytes.name, NULL, title, drawing},
                 out);
    fprintf(out, "set ytics %.6g\n%s", full > 0 ? full / 1.15 : 1,
            is_low(p) ? "unset ytics\nset format x \"\"\n" : "set ytics format \"%.3g\"\n");
    fprintf(out,
            "set object 1 rectangle from %.15g, graph 0 to %.15g, graph 1 front fs empty border lc rgb "
            "\"#d55e00\" lw "
            "2\nplot $whole using 1:4 with filledcurves y=0 fs solid 1 noborder lc rgb reserved_fill, \\\n"
            "  $whole using 1:2 with filledcurves y=0 fs solid 1 noborder lc rgb range_fill, \\\n"
            "  $whole using 1:3 with filledcurves y=0 fs solid 1 noborder lc rgb allocated_fill\n"
            "unset object 1\nunset label\nset format x\nset ytics autofreq format \"%%h\"\n",
            from / time.scale, to / time.scale);
    free(title);
}

/* ---- the panels ---- */

static void put_panels(const struct picture *p, double used, FILE *out)
{
    size_t across = picture_across(p->panel_count), rows = (p->panel_count + across - 1) / across;
    double width = (double)p->size[0], height = (double)p->size[1], part = width / (double)across,
           left = (double)script_left((int64_t)part);
    double each = (height - used - SCRIPT_FOOT - SCRIPT_GAP * (double)(rows - 1)) / (double)rows;
    for (size_t i = 0; i < p->panel_count; i++) {
        size_t row = i / across, column = i % across;
        double top = used + (each + SCRIPT_GAP) * (double)row,
               head = head_of_row(p, row, across, part - left - SCRIPT_RIGHT), x = part * (double)column;
        struct panel_place place = {(x + left) / width, (x + part - SCRIPT_RIGHT) / width,
                                    1 - (top + each) / height, 1 - (top + head) / height,
                                    i + across >= p->panel_count};
        panel_write(p, i, &place, out);
    }
}

void picture_least(const struct picture *p, int64_t *least)
{
    struct picture q = *p;
    int64_t across = p->run_count ? 1 : (int64_t)picture_across(p->panel_count);
    least[0] = across > 1 ? across * LEAST_ACROSS : PICTURE_WIDE;
    q.size[0] = q.size[0] > least[0] ? q.size[0] : least[0];
    least[1] = (int64_t)ceil(p->run_count ? overlay_least(&q) : needed(&q, true));
    least[1] = least[1] > PICTURE_HIGH ? least[1] : PICTURE_HIGH;
}

void gnuplot_write(const struct picture *p, FILE *out, const char *terminal, const char *output)
{
    if (p->run_count) {
        overlay_gnuplot(p, out, terminal, output);
        return;
    }
    struct legend l;
    double head = make_legend(p, &l), height = (double)p->size[1];
    script_head(p, out, terminal, output);
    legend_write(&l, p, head / height, out);
    if (p->whole)
        put_strip(p, 1 - head / height, out);
    put_panels(p, head + strip_pixels(p, is_low(p)), out);
    fputs("\nunset multiplot\nunset output\n", out);
}
