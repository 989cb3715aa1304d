/*
 * curves_text.c - curves in text: a row a point, with a bar as long as its mean.  Where least and greatest
 * differ, what lies between them is dotted.
 *
 *      reserved, GiB, over seq
 *        batch=2
 *           512  ########               3.75
 *          1024  ############....       5.22 (5.22 to 6.90)
 */
#include <stdlib.h>

#include "base/shown.h"
#include "curves.h"

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

void curves_text(const struct curves *c, size_t width, FILE *out)
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
