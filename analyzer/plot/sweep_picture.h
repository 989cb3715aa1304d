/* sweep_picture.h - a sweep over its last axis of numbers: bands over the ranks, and what was predicted. */
#ifndef VS_PLOT_SWEEP_PICTURE_H
#define VS_PLOT_SWEEP_PICTURE_H

#include "output.h"
#include "read/trace.h"
#include "read/sweep.h"

struct sweep_picture {
    const char *path;  /* as of output_draw */
    const char *title; /* NULL: what the band is */
    enum picture_format format;
    int64_t size[2]; /* pixels, characters of text; 0: as its panels need */
};

/* Draws S; 0, or 2, said. */
int sweep_picture_draw(const struct trace_sweep *s, const struct sweep_picture *how);

#endif
