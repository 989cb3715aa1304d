/*
 * curves.h - curves over a number that is no time (a batch, a length): one panel below the other, each curve
 * a line with the band between its least and its greatest.
 */
#ifndef VS_PLOT_CURVES_H
#define VS_PLOT_CURVES_H

#include "base/base.h"
#include "picture.h"
#include "read/sweep.h"

#define CURVES_MOST   16
#define CURVES_PANELS 4

struct curve_point {
    double x, least, mean, greatest;
};

struct curve {
    char *name;
    struct curve_point *points;
    size_t n;
    bool dashed; /* predicted, not measured */
    int color;   /* curves of one number share a colour */
};

struct curve_panel {
    const char *title, *unit;
    double limit; /* a line across, such as a capacity; 0: none */
    struct curve curves[CURVES_MOST];
    size_t n;
};

struct curves {
    char *title;
    const char *x; /* what the axis below is */
    struct curve_panel panels[CURVES_PANELS];
    size_t n;
    int64_t size[2]; /* pixels, columns of text; 0: as many as the panels need */
};

/* Into PATH, as of output_draw; 0, or 2, said. */
int curves_draw(const struct curves *c, const char *path, enum picture_format format);
/* The next curve of a panel; NULL: it is full. */
struct curve *curves_add(struct curve_panel *panel, char *name, int color, bool dashed);
void curves_free(struct curves *c);

/* ---- a sweep over its last axis of numbers (sweep_picture.c) ---- */

struct sweep_picture {
    const char *path;  /* as of output_draw */
    const char *title; /* NULL: what the band is */
    enum picture_format format;
    int64_t size[2]; /* pixels, characters of text; 0: as its panels need */
};

/* Draws S; 0, or 2, said. */
int sweep_picture_draw(const struct trace_sweep *s, const struct sweep_picture *how);

#endif
