/* curves.c - draws curves over a number, by gnuplot or in text (curves.h). */
#include "curves.h"

#include <stdlib.h>
#include <string.h>

#include "base/page.h"
#include "base/shown.h"
#include "script.h"

#define WIDE        1000
#define PANEL_HIGH  330
#define PANEL_TITLE 60

static const char *const palette[] = {"#22313c", "#c0392b", "#2471a3", "#1e8449",
                                      "#b9770e", "#7d3c98", "#5d6d7e", "#a04000"};
enum { COLORS = sizeof palette / sizeof *palette };

struct curve *curves_add(struct curve_panel *panel, char *name, int color, bool dashed)
{
    if (panel->n == CURVES_MOST) {
        free(name);
        return NULL;
    }
    struct curve *c = &panel->curves[panel->n++];
    *c = (struct curve){.name = name, .dashed = dashed, .color = color};
    return c;
}

void curves_free(struct curves *c)
{
    for (size_t p = 0; p < c->n; p++)
        for (size_t i = 0; i < c->panels[p].n; i++) {
            free(c->panels[p].curves[i].name);
            free(c->panels[p].curves[i].points);
        }
    free(c->title);
    *c = (struct curves){0};
}

static void write_data(const struct curves *c, FILE *out)
{
    for (size_t p = 0; p < c->n; p++)
        for (size_t i = 0; i < c->panels[p].n; i++) {
            const struct curve *one = &c->panels[p].curves[i];
            fprintf(out, "$curve_%zu_%zu << END\n", p, i);
            for (size_t k = 0; k < one->n; k++)
                fprintf(out, "%.10g %.10g %.10g %.10g\n", one->points[k].x, one->points[k].least,
                        one->points[k].mean, one->points[k].greatest);
            fputs("END\n", out);
        }
}

static bool has_band(const struct curve *c)
{
    for (size_t i = 0; i < c->n; i++)
        if (c->points[i].greatest > c->points[i].least)
            return true;
    return false;
}

static void write_panel(const struct curves *c, size_t p, FILE *out)
{
    const struct curve_panel *panel = &c->panels[p];
    const char *before = "plot ";
    fprintf(out, "set size 1, %.4f\nset origin 0, %.4f\nset title ", 0.94 / (double)c->n,
            0.94 * (double)(c->n - 1 - p) / (double)c->n);
    script_text(out, panel->title);
    fputs("\nset ylabel ", out);
    script_text(out, panel->unit);
    fputs("\nset xlabel ", out);
    script_text(out, c->x);
    fputs("\n", out);
    for (size_t i = 0; i < panel->n; i++) {
        const struct curve *one = &panel->curves[i];
        const char *color = palette[one->color % COLORS];
        if (has_band(one)) {
            fprintf(out, "%s$curve_%zu_%zu using 1:2:4 with filledcurves fillcolor rgb \"#%06x\" notitle",
                    before, p, i, script_tint(color, 25));
            before = ", \\\n     ";
        }
        fprintf(out,
                "%s$curve_%zu_%zu using 1:3 with linespoints linecolor rgb \"%s\" linewidth 2 pointtype 7 "
                "pointsize %s"
                " dashtype %d title ",
                before, p, i, color, one->dashed ? "0" : "0.8", one->dashed ? 2 : 1);
        script_text(out, one->name);
        before = ", \\\n     ";
    }
    if (panel->limit > 0)
        fprintf(out, "%s%.10g with lines linecolor rgb \"#8b0000\" dashtype 3 title \"limit\"", before,
                panel->limit);
    fputs("\n", out);
}

static void write_all(void *context, FILE *out, const char *terminal, const char *output)
{
    const struct curves *c = context;
    fprintf(out,
            "# Made by vramscope.  gnuplot FILE draws it again; change what you like.\nset encoding utf8\n"
            "set terminal %s\nset output ",
            terminal);
    script_path(out, output);
    fputc('\n', out);
    write_data(c, out);
    fputs("set multiplot title ", out);
    script_text(out, c->title);
    fputs("\nset key outside right top\nset grid linecolor rgb \"#d3d7da\"\nset yrange [0:*]\n"
          "set lmargin 10\nset rmargin 34\n",
          out);
    for (size_t p = 0; p < c->n; p++)
        write_panel(c, p, out);
    fputs("unset multiplot\n", out);
}

/* ---- in text ---- */

/*
 * A row a point, with a bar as long as its mean.  Where least and greatest differ, what lies between them is
 * dotted.
 *
 *      reserved, GiB, over seq
 *        batch=2
 *           512  ########               3.75
 *          1024  ############....       5.22 (5.22 to 6.90)
 */
#define FIGURES_WIDE 34 /* of a row: the number below, the spaces, and the values */
#define BAR_LEAST    10

static double panel_most(const struct curve_panel *p)
{
    double most = p->limit;
    for (size_t i = 0; i < p->n; i++)
        for (size_t k = 0; k < p->curves[i].n; k++)
            most = p->curves[i].points[k].greatest > most ? p->curves[i].points[k].greatest : most;
    return most;
}

static size_t length_of(double y, double most, size_t width)
{
    return most > 0 && y > 0 ? (size_t)(y / most * (double)width + 0.5) : 0;
}

static void write_row(const struct curve_point *p, double most, size_t width, FILE *out)
{
    size_t mean = length_of(p->mean, most, width), greatest = length_of(p->greatest, most, width);
    fprintf(out, "  %10.10g  ", p->x);
    for (size_t i = 0; i < width; i++)
        fputc(i < mean ? '#' : i < greatest ? '.' : ' ', out);
    fprintf(out, "  %.3g", p->mean);
    if (p->greatest > p->least)
        fprintf(out, " (%.3g to %.3g)", p->least, p->greatest);
    fputc('\n', out);
}

/* In rows of about WIDTH columns. */
static void put_text(const struct curves *c, size_t width, FILE *out)
{
    size_t bar = width > FIGURES_WIDE + BAR_LEAST ? width - FIGURES_WIDE : BAR_LEAST;
    fprintf(out, "%s\n", shown(c->title));
    for (size_t p = 0; p < c->n; p++) {
        const struct curve_panel *panel = &c->panels[p];
        double most = panel_most(panel);
        fprintf(out, "\n%s, %s, ", panel->title, panel->unit);
        fprintf(out, "over %s\n", shown(c->x));
        for (size_t i = 0; i < panel->n; i++) {
            fprintf(out, "  %s\n", shown(panel->curves[i].name));
            for (size_t k = 0; k < panel->curves[i].n; k++)
                write_row(&panel->curves[i].points[k], most, bar, out);
        }
        if (panel->limit > 0)
            fprintf(out, "  limit %.3g\n", panel->limit);
    }
}

static void write_text(void *context, FILE *out)
{
    const struct curves *c = context;
    put_text(c, c->size[0] ? (size_t)c->size[0] : page_width(), out);
}

int curves_draw(const struct curves *c, const char *path, enum picture_format format)
{
    struct curves copy = *c; /* the writer's context is not const */
    if (format == FORMAT_TEXT)
        return output_write_text(write_text, &copy, path && strcmp(path, "-") != 0 ? path : NULL);
    struct drawing d = {
        write_all,
        &copy,
        {c->size[0] ? c->size[0] : WIDE, c->size[1] ? c->size[1] : PANEL_TITLE + PANEL_HIGH * (int64_t)c->n}};
    return output_draw_script(&d, path ? path : "-", format);
}
