/*
 * picture.h - the contents of a plot, independent of the renderer: panels of columns and bands, names and
 * colours.
 *
 * Colours are Okabe and Ito's, which colour-blind readers can distinguish; the four usual phases get four of
 * different lightness, which stay distinct in print.
 */
#ifndef VS_PLOT_PICTURE_H
#define VS_PLOT_PICTURE_H

#include <stdio.h>

#include "analysis/bands.h"

#define PICTURE_PHASES 8 /* with a colour of their own; the rest share "other phases" */

struct panel {
    char *title;
    int64_t device;
    size_t run; /* index into picture.runs, if runs are overlaid */
    struct columns columns;
    struct band *bands; /* phase = index into picture.phases */
    size_t band_count;
    int64_t used_peak; /* greatest sample in the window, UNKNOWN without one */
    bool whole_device; /* the samples count other processes too */
    bool used_shown;   /* it fits the scale of the curves; far above them it would flatten them */
    bool folded;       /* it shows a folded stretch that is wider than a column */
    bool mixed_phases; /* many columns have several phases and show one of them */
    int64_t peak, peak_t;
    const char *peak_phase; /* NULL unknown */
    bool known_only;        /* allocated is a lower bound: libraries' pools do not report their use */
    bool peak_at_most;      /* ends were lost, so the peak may have been lower */
    struct trace_sample *samples;
    size_t sample_count;
};

struct picture_phase {
    char *name;
    const char *color; /* "#rrggbb" */
    int64_t ns;        /* shown in all panels */
};

#define PICTURE_RUNS 8 /* laid over each other */

struct picture_run {
    char *label;
    const char *color;
    int64_t origin; /* the moment that is 0 on its time axis */
};

struct picture {
    char *title;
    struct picture_run *runs; /* NULL: a panel for each process and device */
    size_t run_count;
    bool from_step; /* time counts from the begin of a step, not of the run */
    size_t columns; /* of a whole drawing of runs */
    int64_t from, to;
    int64_t size[2]; /* pixels; 0 = chosen */
    struct panel *panels;
    size_t panel_count;
    struct picture_phase *phases; /* [0] is none */
    size_t phase_count;
};

/* Adds a panel for DEVICE of T over [from, to] with COLUMNS columns; 0, or -1 with t->why. */
int picture_add(struct picture *p, struct trace *t, int64_t device, size_t columns, bool several);
/* Likewise for an overlaid run: the last of p->runs, over its own [from, to]. */
int picture_add_run(struct picture *p, struct trace *t, int64_t device, size_t columns);
/* To be called after the last panel: gives the phases their colours. */
void picture_color(struct picture *p);
void picture_free(struct picture *p);

struct axis_unit {
    const char *name;
    double scale; /* divide by it */
};
struct axis_unit picture_time_unit(int64_t span_ns);
struct axis_unit picture_byte_unit(int64_t bytes);
/* The greatest value that a panel shows. */
int64_t panel_top(const struct panel *p);
/* Whether a panel shows a folded stretch wider than a column. */
bool picture_folded(const struct picture *p);
/* A note that the reader must know; "" = none. */
char *panel_note(const struct panel *p);
/* "peak 3.71 GiB in logits" */
char *panel_peak_text(const struct panel *p);

/* COMMAND as a title (title.c); the caller frees it. */
char *title_of_command(const char *command);

/* Writes the whole gnuplot script, data included.  TERMINAL: the line after "set terminal"; OUTPUT the file
 * it draws. */
void gnuplot_write(const struct picture *p, FILE *out, const char *terminal, const char *output);
/* Likewise for overlaid runs (overlay_gnuplot.c, overlay_text.c). */
void overlay_gnuplot(const struct picture *p, FILE *out, const char *terminal, const char *output);
void overlay_text(const struct picture *p, FILE *out, size_t height, bool color);
/* Draws in text, a character a column; COLOR with ANSI sequences. */
void text_draw(const struct picture *p, FILE *out, size_t height, bool color);

#endif
