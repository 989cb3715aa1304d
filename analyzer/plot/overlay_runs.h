/* overlay_runs.h - `vramscope plot --overlay`: gathers runs that are laid over each other. */
#ifndef VS_PLOT_OVERLAY_RUNS_H
#define VS_PLOT_OVERLAY_RUNS_H

#include "picture.h"

struct overlay_options {
    const char *labels;   /* "before,after"; NULL: the files' names */
    int64_t from, to;     /* since each run's start; TO UNKNOWN: the end of the longest */
    const int64_t *steps; /* first and last; 0: not given */
    int64_t device;       /* UNKNOWN: all */
    const char *shares;   /* which axes are shares: "time", "memory", "both"; NULL: none */
};

/* 0 if the options fit N files; else 2, after printing the reason. */
int overlay_check(const struct overlay_options *o, size_t n);
/* Fills P except its title, COLUMNS wide; 0, or 2 after printing the reason. */
int overlay_gather(struct picture *p, struct trace *traces, size_t n, const struct overlay_options *o,
                   size_t columns);
/* "naive, fused"; the caller frees it. */
char *overlay_default_title(const struct picture *p, const struct trace *traces);

#endif
