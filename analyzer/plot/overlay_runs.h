/* overlay_runs.h - `vramscope plot --overlay`: gathers runs that are laid over each other. */
#ifndef VS_PLOT_OVERLAY_RUNS_H
#define VS_PLOT_OVERLAY_RUNS_H

#include "picture.h"

struct overlay_options {
    const char *labels;   /* "before,after"; NULL: the files' names */
    int64_t from, to;     /* since each run's start; TO UNKNOWN: the end of the longest */
    const int64_t *steps; /* first and last; 0: not asked */
    int64_t device;       /* UNKNOWN: all */
};

/* Whether the options fit N files; else 2, said. */
int overlay_check(const struct overlay_options *o, size_t n);
/* Fills P but for its title, COLUMNS wide; 0 or 2, said. */
int overlay_gather(struct picture *p, struct trace *traces, size_t n, const struct overlay_options *o,
                   size_t columns);
/* "naive, fused"; the caller frees it. */
char *overlay_default_title(const struct picture *p, const struct trace *traces);

/* Says why the run has no such steps to show. */
int overlay_no_step(struct trace *t, const int64_t *steps);

#endif
