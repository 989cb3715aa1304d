/*
 * picture.h - what a plot shows, independent of who draws it: panels of columns and bands, names and colours;
 * which part of a run, and where it is drawn.
 */
#ifndef VS_PLOT_PICTURE_H
#define VS_PLOT_PICTURE_H

#include <stdio.h>

#include "analysis/unused.h"
#include "analysis/columns.h"
#include "read/tables.h"

#define PICTURE_PHASES 8 /* with a colour of their own; the rest share "other phases" */

struct panel_oom { /* an out-of-memory that reached the program */
    int64_t t, allocated, requested;
};

struct panel {
    char *title;
    int64_t device;
    size_t run; /* index into picture.runs, if runs are overlaid */
    struct columns columns;
    char *away;                     /* what was away is, in words; NULL: at times other things */
    struct composition composition; /* what allocated was made of; no groups: not shown */
    struct band *bands;             /* phase = index into picture.phases */
    size_t band_count;
    int64_t used_peak; /* greatest sample in the window, UNKNOWN without one */
    bool whole_device; /* the samples count other processes too */
    bool used_shown;   /* it lies on the scale of the curves; far above, it would squash them */
    int64_t capacity;  /* of the device, UNKNOWN */
    bool capacity_shown;
    struct panel_oom *ooms; /* in the window: the first, the last and the largest of the run */
    size_t oom_count;
    int64_t oom_total;            /* that the run had, on any device */
    int64_t beside[UNUSED_KINDS]; /* what was reserved and not allocated when memory ran out last, else at the
                                     most, by enum unused_kind, where at least a fiftieth of that; else 0 */
    bool folded;                  /* part of what is shown is a folded stretch, wider than a column */
    bool mixed_phases;            /* a good part of the columns has several phases and shows one */
    int64_t peak, peak_t;
    const char *peak_phase; /* NULL unknown */
    bool known_only; /* of what is allocated a part alone: libraries' pools do not report what they use */
    const char *peak_bound; /* "at most " or "at least ": events were lost; NULL: it is exact */
    bool peak_of_part;      /* the run was higher at another time than what is shown */
    struct trace_sample *samples;
    size_t sample_count;
};

struct picture_phase {
    char *name;
    const char *color; /* "#rrggbb" */
    int64_t ns;        /* shown in all panels */
    bool shown;        /* by a band, or as a part of allocated */
    int64_t peak;      /* the greatest allocated of a column that shows it; 0: none does */
};

struct picture_whole { /* of a picture that shows a part: all of the run that peaked highest, small */
    struct columns columns;
    int64_t device, steps;
};

#define PICTURE_WIDE 480 /* pixels, without which there is no use to try */
#define PICTURE_HIGH 320

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
    bool from_step; /* their time counts from a step's begin, not from the run's */
    size_t columns; /* of a whole drawing of runs */
    int64_t from, to;
    struct picture_whole *whole; /* NULL: all is shown, or a part was asked for */
    enum composition_by by;      /* what allocated is divided by */
    int64_t size[2];             /* pixels; 0 = chosen */
    struct panel *panels;
    size_t panel_count;
    struct picture_phase *phases; /* [0] is none */
    size_t phase_count;
};

/* Adds a panel for DEVICE of T over [from, to] with COLUMNS columns; 0, or -1 with t->why. */
int picture_add(struct picture *p, struct trace *t, int64_t device, size_t columns, bool several);
/* Adds the strip of the whole run of DEVICE of T, which lasted until LAST; 0, or -1 with t->why. */
int picture_add_whole(struct picture *p, struct trace *t, int64_t device, int64_t last, size_t columns);
/* The same, laid over the other runs: the last of p->runs, over its own [from, to]. */
int picture_add_run(struct picture *p, struct trace *t, int64_t device, size_t columns);
/* After the last panel: gives the phases their colours (colors.c). */
void picture_color(struct picture *p);
/* The colour of group I of a composition; of phases it is the phase's. */
const char *picture_group_color(const struct picture *p, size_t group);
const char *picture_group_name(const struct picture *p, size_t group);
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
/* "on the host (optimizer state, parked)", where a panel shows memory that was away; NULL: none does.  The
 * caller frees it. */
char *picture_away(const struct picture *p);
/* Whether in some column the least and the greatest allocated differ by enough to be seen. */
bool picture_ranges(const struct picture *p);
/* Whether group I of the composition is in any panel. */
bool picture_has_group(const struct picture *p, size_t group);
/* The capacity of a panel's device and the out-of-memory in it (marks.c); 0, or -1 with t->why. */
int panel_load_marks(struct panel *p, struct trace *t);
/* Where the mark of an out-of-memory ends: what would have been allocated, or the scale's end (*BEYOND). */
int64_t panel_oom_top(const struct panel *p, const struct panel_oom *oom, bool *beyond);
/* "out of memory: 2.00 GiB asked" */
char *panel_oom_text(const struct panel_oom *oom);
/* What the reader must know beside the picture, "" = nothing. */
char *panel_note(const struct panel *p);
/* "of the most reserved: cached 2.00 GiB", a part of it; the caller frees it. */
char *panel_beside_text(const struct panel *p);
/* "peak 3.71 GiB in logits" */
char *panel_peak_text(const struct panel *p);

/* COMMAND as a title (title.c); the caller frees it. */
char *title_of_command(const char *command);

/* How many panels of so many stand beside each other. */
size_t picture_across(size_t panels);
/* Width and height that a picture of what P shows, if possible as wide as P, has at least. */
void picture_least(const struct picture *p, int64_t *least);
/* Writes the whole gnuplot script, data included.  TERMINAL: the line after "set terminal"; OUTPUT the file
 * it draws. */
void gnuplot_write(const struct picture *p, FILE *out, const char *terminal, const char *output);
/* Likewise for overlaid runs (overlay_gnuplot.c, overlay_text.c). */
void overlay_gnuplot(const struct picture *p, FILE *out, const char *terminal, const char *output);
void overlay_text(const struct picture *p, FILE *out, size_t height, bool color);
/* Draws in text, a character a column; COLOR with ANSI sequences. */
void text_draw(const struct picture *p, FILE *out, size_t height, bool color);
#define TEXT_AXIS 10 /* characters left of the drawing */
/* What follows is drawn in "#rrggbb"; NULL: as before. */
void text_color(FILE *out, const char *hex);
/* The axis of time below WIDTH characters, in the unit of SPAN. */
void text_axis(int64_t from, int64_t to, int64_t span, size_t width, FILE *out);

/* ---- which part of a run is shown (window.c) ---- */

#define MANY_STEPS 20 /* more than these are too many to see one */

struct window_options {
    int64_t from, to;     /* since the start; TO UNKNOWN: the end */
    const int64_t *steps; /* first and last; 0: not asked */
    int64_t device;       /* UNKNOWN: all */
    bool whole;           /* all of it, however many steps */
};

/* What was asked for, else the whole run.  Of so many steps that each would be a few pixels wide it is that
 * of the peak, with the whole run as a strip above; where memory ran out, that in which it last did. */
struct plot_window {
    int64_t from, to;
    char name[96];    /* "step 7 of 400, with the peak"; "": none is needed */
    struct trace *of; /* the run whose strip stands above; NULL: none does */
    int64_t device;   /* of it */
    int64_t last;     /* the last moment of that run */
};

/* 0, or 2, said. */
int plot_window(struct plot_window *w, struct trace *traces, size_t n, const struct window_options *o);

/* ---- where a picture goes: a file in the format of its name, or standard output (output.c) ---- */

enum picture_format { FORMAT_TEXT, FORMAT_GP, FORMAT_PNG, FORMAT_SVG, FORMAT_PDF, FORMAT_BAD };

/* FORMAT by its name ("png"), or NULL: that of the file PATH; PATH NULL: text; "-", standard output: text on
 * a terminal, else PNG. */
enum picture_format output_format(const char *path, const char *format);

/* Draws P into PATH ("-": standard output; NULL: likewise, as text); 0, or 2, said. */
int output_draw(const struct picture *p, const char *path, enum picture_format format);

/* Text that WRITE writes, into PATH, NULL: standard output; 0, or 2, said. */
int output_write_text(void (*write)(void *context, FILE *out), void *context, const char *path);

/* What writes a whole gnuplot script of its own: TERMINAL is the line after "set terminal", OUTPUT the file
 * that it draws. */
struct drawing {
    void (*write)(void *context, FILE *out, const char *terminal, const char *output);
    void *context;
    int64_t size[2]; /* pixels */
};
/* Likewise; FORMAT is not text, PATH not NULL. */
int output_draw_script(const struct drawing *d, const char *path, enum picture_format format);

#endif
