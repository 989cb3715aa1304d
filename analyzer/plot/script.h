/*
 * script.h - the common parts of all gnuplot scripts: head, texts, title, curves.
 */
#ifndef VS_PLOT_SCRIPT_H
#define VS_PLOT_SCRIPT_H

#include "picture.h"

#define SCRIPT_LEFT  104 /* pixels beside the drawing */
#define SCRIPT_RIGHT 28

/* Colours, fonts and the output's name. */
void script_head(const struct picture *p, FILE *out, const char *terminal, const char *output);
/* A text inside a gnuplot string in double quotes, enhanced mode off. */
void script_text(FILE *out, const char *text);
/* The picture's title, as label 1. */
void script_title(const struct picture *p, FILE *out);
/* The datablock NAME: t, allocated max and min, reserved max and min of each column, times from ORIGIN on. */
void script_curve(const struct columns *c, const char *name, int64_t origin, struct axis_unit time,
                  struct axis_unit bytes, FILE *out);
/* Begins a panel between two heights of the screen: margins, ranges, axes. */
struct script_panel {
    double bottom, top;                 /* of the screen */
    double from, to;                    /* in the unit of time */
    double full;                        /* the value at the upper edge, in the unit of bytes */
    const char *byte_unit, *time_label; /* NULL: no label below */
    const char *title;
};
void script_panel(const struct script_panel *panel, FILE *out);

#endif
