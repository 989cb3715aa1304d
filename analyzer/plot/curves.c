/* curves.c - see curves.h. */
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
            "set terminal %s\nset output \"",
            terminal);
    for (const unsigned char *s = (const unsigned char *)output; *s; s++)
        if (*s < 0x20 || *s == '"' || *s == '\\' || *s == '`' || *s >= 0x7f)
            fprintf(out, "\\%03o", *s);
        else
            fputc(*s, out);
    fputs("\"\n", out);
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

static void write_text(void *context, FILE *out)
{
    const struct curves *c = context;
    curves_text(c, c->size[0] ? (size_t)c->size[0] : page_width(), out);
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
