/*
 * overlay.h - `vramscope plot --overlay`: one drawing for each device, with a curve for each run.  Each panel
 * of such a picture is one run on one device.  Time counts from each run's origin, and a curve ends where its
 * run does.
 */
#ifndef VS_PLOT_OVERLAY_H
#define VS_PLOT_OVERLAY_H

#include "picture.h"

struct overlay_options {
    const char *labels;   /* "before,after"; NULL: the files' names */
    int64_t from, to;     /* since each run's start; TO UNKNOWN: the end of the longest */
    const int64_t *steps; /* first and last; 0: not given */
    int64_t device;       /* UNKNOWN: all */
};

/* 0 if the options fit N files; else 2, after printing the reason. */
int overlay_check(const struct overlay_options *o, size_t n);
/* Fills P except its title, COLUMNS wide; 0, or 2 after printing the reason. */
int overlay_gather(struct picture *p, struct trace *traces, size_t n, const struct overlay_options *o,
                   size_t columns);
/* "naive, fused"; the caller frees it. */
char *overlay_default_title(const struct picture *p, const struct trace *traces);

/* ---- what a drawing shows ---- */

/* The devices that any run used, in the order in which they come; the caller frees them. */
int64_t *overlay_devices(const struct picture *p, size_t *n);
/* The run's panel on that device; NULL: the run did not use it. */
const struct panel *overlay_panel(const struct picture *p, int64_t device, size_t run);
/* The runs of DEVICE, the highest peak first: what is drawn later lies on top. */
size_t overlay_order(const struct picture *p, int64_t device, size_t *runs);
/* The greatest value that the device's drawing shows. */
int64_t overlay_top(const struct picture *p, int64_t device);
/* "device 0: NVIDIA H200" */
const char *overlay_title(const struct picture *p, int64_t device);
/* "naive: peak 42.68 MiB in backward" */
char *overlay_name(const struct picture *p, const struct panel *panel);
/* How many pixels high the picture must be. */
double overlay_least(const struct picture *p);

#endif
