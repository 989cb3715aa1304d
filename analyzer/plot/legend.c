/*
 * legend.c - see legend.h.
 *
 * The legend is a panel of its own without axes, so that it covers no data.  Its entries are gathered first,
 * to know how many fit beside each other.
 */
#include "legend.h"

#include <stdlib.h>
#include <string.h>

#include "script.h"
#include "base/table.h"

#define OTHERS "other phases"

struct entry {
    char *style; /* what gnuplot draws beside it */
    char *name;
};

struct legend {
    struct entry *entries;
    size_t n, columns, rows;
};

bool picture_composed(const struct picture *p)
{
    for (size_t i = 0; i < p->panel_count; i++)
        if (p->panels[i].composition.groups)
            return true;
    return false;
}

bool picture_sampled(const struct picture *p)
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

static void add(struct legend *l, const char *style, const char *name)
{
    *PUSH(l->entries, l->n) = (struct entry){xstrdup(style), xstrdup(name)};
}

static void add_box(struct legend *l, const char *color, const char *border, const char *name)
{
    char *style = xformat("boxes fs solid 1 border lc rgb %s lc rgb %s", border, color);
    add(l, style, name);
    free(style);
}

/* ---- phases ---- */

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

/* ---- all of it ---- */

static void add_curves(struct legend *l, const struct picture *p)
{
    if (picture_composed(p)) {
        add(l, "lines lw 1.6 lc rgb allocated_line", "allocated");
        add_groups(l, p);
    } else {
        add_box(l, "allocated_fill", "allocated_line", "allocated");
        if (picture_ranges(p))
            add_box(l, "range_fill", "allocated_line", "its range in a pixel");
    }
    add_box(l, "reserved_fill", "reserved_line", "reserved");
    if (picture_folded(p))
        add(l, "boxes fs transparent pattern 4 border lc rgb folded_line lc rgb folded_line",
            "folded: least to greatest");
    if (picture_sampled(p))
        add(l, "points pt 7 ps 0.6 lc rgb used_line", "driver used, sampled");
    if (any_capacity(p))
        add(l, "lines lw 1.6 dt (10,5) lc rgb capacity_line", "device memory");
    if (any_oom(p))
        add(l, "points pt 2 ps 1.2 lw 2.4 lc rgb oom_line", "out of memory");
}

/* Columns at about 9 pixels a letter and the samples beside them. */
static struct legend make_legend(const struct picture *p)
{
    struct legend l = {0};
    size_t longest = 1;
    add_curves(&l, p);
    add_phases(&l, p);
    for (size_t i = 0; i < l.n; i++)
        longest = text_width(l.entries[i].name) > longest ? text_width(l.entries[i].name) : longest;
    size_t fit = ((size_t)p->size[0] - 40) / (longest * 9 + 75);
    l.columns = fit < 1 ? 1 : fit > l.n ? l.n : fit;
    l.rows = (l.n + l.columns - 1) / l.columns;
    return l;
}

static void free_legend(struct legend *l)
{
    for (size_t i = 0; i < l->n; i++) {
        free(l->entries[i].style);
        free(l->entries[i].name);
    }
    free(l->entries);
}

double legend_pixels(const struct picture *p)
{
    struct legend l = make_legend(p);
    double pixels = 58 + 24 * (double)l.rows;
    free_legend(&l);
    return pixels;
}

void legend_write(const struct picture *p, double height, FILE *out)
{
    struct legend l = make_legend(p);
    fprintf(out,
            "\n# title and legend\nunset border\nunset tics\nunset xlabel\nunset ylabel\nunset label\n"
            "set lmargin at screen 0.0\nset rmargin at screen 1.0\nset tmargin at screen 1.0\n"
            "set bmargin at screen %.4f\nset key inside center bottom horizontal Left reverse samplen 2.2 "
            "spacing 1.25 width 1.5 height 0.2 maxcols %zu maxrows %zu noautotitle\n",
            1 - height, l.columns, l.rows);
    script_title(p, out);
    fputs("set xrange [0:1]\nset yrange [0:1]\nplot", out);
    for (size_t i = 0; i < l.n; i++) {
        fprintf(out, "%s \\\n  NaN with %s title ", i ? "," : "", l.entries[i].style);
        script_text(out, l.entries[i].name);
    }
    fputs("\nunset key\nset border 3 lw 1 lc rgb \"#555555\"\nunset label 1\n", out);
    free_legend(&l);
}
