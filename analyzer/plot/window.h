/*
 * window.h - which part of a run a plot shows.
 *
 * It shows what was asked for, else the whole run.  If the run has so many steps that each would be a few
 * pixels wide it shows the step of the peak, with the whole run as a strip above; where memory ran out, the
 * step in which it last did.
 */
#ifndef VS_PLOT_WINDOW_H
#define VS_PLOT_WINDOW_H

#include "read/trace.h"

#define MANY_STEPS 20 /* more than these are too many to see one */

struct window_options {
    int64_t from, to;     /* since the start; TO UNKNOWN: the end */
    const int64_t *steps; /* first and last; 0: not asked */
    int64_t device;       /* UNKNOWN: all */
    bool whole;           /* all of it, however many steps */
};

struct plot_window {
    int64_t from, to;
    char name[96];    /* "step 7 of 400, with the peak"; "": none is needed */
    struct trace *of; /* the run whose strip stands above; NULL: none does */
    int64_t device;   /* of it */
    int64_t last;     /* the last moment of that run */
};

/* 0, or 2, said. */
int plot_window(struct plot_window *w, struct trace *traces, size_t n, const struct window_options *o);

#endif
