/* script.c - the common parts of all gnuplot scripts (script.h). */
#include "script.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/shown.h"
#include "base/table.h"

#define TIC_HIGH 20  /* pixels of a number beside the axis */
#define TICS_LOW 150 /* of a drawing that has no room for all of them */

#define RESERVED_FILL  "#d3d7da"
#define RESERVED_LINE  "#7d868e"
#define ALLOCATED_FILL "#6e8190"
#define RANGE_FILL     "#9ca9b4" /* between a column's least and greatest allocated */
#define ALLOCATED_LINE "#22313c"
#define USED_LINE      "#000000"
#define CAPACITY_LINE  "#8b0000"
#define OOM_LINE       "#c00000"
#define FOLDED_LINE    "#22313c"

int64_t script_left(int64_t width)
{
    return width < 1000 ? SCRIPT_NARROW : SCRIPT_LEFT;
}

double script_width(const char *text, double letter)
{
    return (double)text_width(text) * letter;
}

unsigned script_tint(const char *color, unsigned percent)
{
    unsigned rgb = (unsigned)strtoul(color + 1, NULL, 16), out = 0;
    for (int shift = 16; shift >= 0; shift -= 8)
        out |= (255 - (255 - (rgb >> shift & 255)) * percent / 100) << shift;
    return out;
}

void script_text(FILE *out, const char *text)
{
    fputc('"', out);
    for (text = shown(text); *text; text++) {
        char c = *text;
        if (c == '"' || c == '\\' || c == '`')
            fputc(c == '`' ? '\'' : '\\', out);
        if (c != '`')
            fputc(c, out);
    }
    fputc('"', out);
}

/* Characters that are special to gnuplot in octal. */
void script_path(FILE *out, const char *path)
{
    fputc('"', out);
    for (const unsigned char *s = (const unsigned char *)path; *s; s++) {
        if (*s < 0x20 || *s == '"' || *s == '\\' || *s == '`' || *s >= 0x7f)
            fprintf(out, "\\%03o", *s);
        else
            fputc(*s, out);
    }
    fputc('"', out);
}

void script_title(const struct picture *p, FILE *out)
{
    char *title = shown_cut(shown(p->title), (size_t)p->size[0] / 11);
    fputs("set label 1 ", out);
    script_text(out, title);
    fprintf(out, " at screen 0.5, screen %.4f center font title_font\n", 1 - 25 / (double)p->size[1]);
    free(title);
}

void script_head(const struct picture *p, FILE *out, const char *terminal, const char *output)
{
    fputs("# Made by vramscope plot.  gnuplot FILE draws it again; change what you like.\nset encoding "
          "utf8\nset terminal ",
          out);
    fprintf(out, "%s\nset output ", terminal);
    script_path(out, output);
    fputs("\n\nallocated_fill = \"" ALLOCATED_FILL "\"\nrange_fill = \"" RANGE_FILL
          "\"\nallocated_line = \"" ALLOCATED_LINE "\"\nreserved_fill = \"" RESERVED_FILL
          "\"\nreserved_line = \"" RESERVED_LINE "\"\nused_line = \"" USED_LINE
          "\"\ncapacity_line = \"" CAPACITY_LINE "\"\noom_line = \"" OOM_LINE
          "\"\nfolded_line = \"" FOLDED_LINE "\"\n"
          "title_font = \",15\"\nlabel_font = \",11.5\"\npeak_font = \",11.5\"\ntic_font = \",10.5\"\n"
          "set style textbox 1 opaque fillcolor rgb \"#ffffff\" noborder margins 0.6,0.4\n"
          "set style textbox opaque fillcolor rgb \"#ffffff\" noborder margins 0.6,0.4\n"
          "set style fill solid noborder\nset grid ytics lw 0.6 lc rgb \"#d5d5d5\"\nset multiplot\n",
          out);
}

/* ---- the legend ---- */

void legend_add(struct legend *l, const char *name, const char *style, ...)
{
    char *text = NULL;
    size_t size;
    FILE *out = xmemstream(&text, &size);
    va_list args;
    va_start(args, style);
    vfprintf(out, style, args);
    va_end(args);
    fclose(out);
    *PUSH(l->entries, l->n) = (struct legend_entry){text, xstrdup(name)};
    l->longest = text_width(name) > l->longest ? text_width(name) : l->longest;
}

/* Columns at about 9 pixels a letter and the samples beside them. */
double legend_fit(struct legend *l, int64_t width)
{
    size_t fit = ((size_t)width - 40) / (l->longest * 9 + 75);
    l->columns = fit < 1 ? 1 : fit > l->n ? l->n : fit;
    l->rows = (l->n + l->columns - 1) / l->columns;
    return 58 + 24 * (double)l->rows;
}

void legend_free(struct legend *l)
{
    for (size_t i = 0; i < l->n; i++) {
        free(l->entries[i].style);
        free(l->entries[i].name);
    }
    free(l->entries);
    *l = (struct legend){0};
}

void legend_write(struct legend *l, const struct picture *p, double height, FILE *out)
{
    fprintf(out,
            "\n# title and legend\nunset border\nunset tics\nunset xlabel\nunset ylabel\nunset label\n"
            "set lmargin at screen 0.0\nset rmargin at screen 1.0\nset tmargin at screen 1.0\n"
            "set bmargin at screen %.4f\nset key inside center bottom horizontal Left reverse samplen 2.2 "
            "spacing 1.25 width 1.5 height 0.2 maxcols %zu maxrows %zu noautotitle\n",
            1 - height, l->columns, l->rows);
    script_title(p, out);
    fputs("set xrange [0:1]\nset yrange [0:1]\nplot", out);
    for (size_t i = 0; i < l->n; i++) {
        fprintf(out, "%s \\\n  NaN with %s title ", i ? "," : "", l->entries[i].style);
        script_text(out, l->entries[i].name);
    }
    fputs("\nunset key\nset border 3 lw 1 lc rgb \"#555555\"\nunset label 1\n", out);
    legend_free(l);
}

/* ---- curves ---- */

static bool same(const struct column *a, const struct column *b)
{
    return a->allocated_min == b->allocated_min && a->allocated_max == b->allocated_max &&
           a->reserved_min == b->reserved_min && a->reserved_max == b->reserved_max;
}

static void put_row(double t, const struct column *at, double scale, FILE *out)
{
    fprintf(out, "%.15g %.6f %.6f %.6f %.6f\n", t, (double)at->allocated_max / scale,
            (double)at->allocated_min / scale, (double)at->reserved_max / scale,
            (double)at->reserved_min / scale);
}

/* Both corners of every step are written, so that an area is one polygon: areas drawn box by box show
 * hairlines between the boxes. */
void script_curve(const struct columns *c, const char *name, int64_t origin, struct axis_unit time,
                  struct axis_unit bytes, FILE *out)
{
    fprintf(out,
            "$%s << EOD\n# t_%s allocated_max allocated_min reserved_max reserved_min (%s, of each "
            "column)\n",
            name, time.name, bytes.name);
    for (size_t i = 0; i < c->n; i++) {
        double t = (double)(columns_edge(c, i) - origin) / time.scale;
        if (i > 0 && same(&c->at[i], &c->at[i - 1]))
            continue;
        if (i > 0)
            put_row(t, &c->at[i - 1], bytes.scale, out);
        put_row(t, &c->at[i], bytes.scale, out);
    }
    put_row((double)(c->to - origin) / time.scale, &c->at[c->n - 1], bytes.scale, out);
    fputs("EOD\n", out);
}

void script_folded(const struct columns *c, const char *name, int64_t origin, struct axis_unit time,
                   struct axis_unit bytes, FILE *out)
{
    fprintf(out, "$%s << EOD\n# t_%s allocated_min allocated_max (%s, of folded stretches)\n", name,
            time.name, bytes.name);
    for (size_t i = 0; i < c->n; i++) {
        const struct column *at = &c->at[i];
        if (!at->band)
            continue;
        double least = (double)at->allocated_min / bytes.scale,
               most = (double)at->allocated_max / bytes.scale;
        fprintf(out, "%.15g %.6f %.6f\n%.15g %.6f %.6f\n", (double)(columns_edge(c, i) - origin) / time.scale,
                least, most, (double)(columns_edge(c, i + 1) - origin) / time.scale, least, most);
        if (i + 1 < c->n && !at[1].band)
            fputs("\n", out);
    }
    fputs("EOD\n", out);
}

void script_away(const struct columns *c, const char *name, struct axis_unit time, struct axis_unit bytes,
                 FILE *out)
{
    fprintf(out, "$%s << EOD\n# t_%s on_device allocated (%s, where a part was on the host)\n", name,
            time.name, bytes.name);
    for (size_t i = 0; i < c->n; i++) {
        const struct column *at = &c->at[i];
        if (at->away <= 0)
            continue;
        double least = (double)(at->allocated_max - at->away) / bytes.scale,
               most = (double)at->allocated_max / bytes.scale;
        fprintf(out, "%.15g %.6f %.6f\n%.15g %.6f %.6f\n", (double)columns_edge(c, i) / time.scale, least,
                most, (double)columns_edge(c, i + 1) / time.scale, least, most);
        if (i + 1 < c->n && at[1].away <= 0)
            fputs("\n", out);
    }
    fputs("EOD\n", out);
}

/* ---- a panel ---- */

/* 1, 2 or 5 times a power of ten, or a little more: so that tics of a drawing with FULL at its upper edge are
 * TIC_HIGH apart. */
static double tic_step(double full, double pixels)
{
    double least = full * TIC_HIGH / (pixels > 1 ? pixels : 1), step = 1e-9;
    while (step * 10 <= least)
        step *= 10;
    return step >= least ? step : 2 * step >= least ? 2 * step : 5 * step >= least ? 5 * step : 10 * step;
}

void script_panel(const struct script_panel *q, FILE *out)
{
    fprintf(out,
            "set lmargin at screen %.4f\nset rmargin at screen %.4f\nset bmargin at screen "
            "%.4f\nset tmargin at screen %.4f\n",
            q->left, q->right, q->bottom, q->top);
    fprintf(out, "set xrange [%.15g:%.15g]\nset yrange [0:%.6f]\n", q->from, q->to, q->full);
    fputs("set xtics out nomirror scale 0.6 font tic_font textcolor rgb \"#333333\"\nset ytics out nomirror "
          "scale 0.6 font tic_font textcolor rgb \"#333333\"\n",
          out);
    if (q->pixels < TICS_LOW) /* gnuplot by itself writes them over each other */
        fprintf(out, "set ytics %.9g\n", tic_step(q->full, q->pixels));
    else
        fputs("set ytics autofreq\n", out);
    /* a short part of a long run: what gnuplot writes by itself would be the same at every tic */
    fprintf(out, "set format x \"%s\"\n", q->from >= 1e5 ? "%.11g" : "%h");
    fprintf(out, "set ylabel \"%s\" offset 0.5,0\n", q->byte_unit);
    if (q->time_label)
        fprintf(out, "set xlabel \"%s\"\n", q->time_label);
    else
        fputs("unset xlabel\n", out);
    if (!q->title)
        return;
    fputs("set label 9 ", out);
    script_text(out, q->title);
    fputs(" at graph 0.0, graph 1.0 left offset 0,0.75 font label_font textcolor rgb \"#222222\"\n", out);
}
