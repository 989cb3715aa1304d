/* script.h - the parts of a gnuplot script: head, texts, legend, curves, panels, labels. */
#ifndef VS_PLOT_SCRIPT_H
#define VS_PLOT_SCRIPT_H

#include "picture.h"

#define SCRIPT_LEFT   104 /* pixels beside a drawing */
#define SCRIPT_NARROW 84  /* of these to its left where the drawing is narrower than a thousand */
#define SCRIPT_RIGHT  40
#define SCRIPT_FOOT   66 /* below the last drawing: its times and what they are */
#define SCRIPT_GAP    62 /* between two drawings */
#define SCRIPT_TITLE  26 /* above each */
#define SCRIPT_LEAST  56 /* of a drawing that can be read */

/* Pixels to the left of a drawing in a part of the picture that is WIDTH wide. */
int64_t script_left(int64_t width);
/* Width of TEXT in pixels, a little more rather than less: LETTER pixels a column of it. */
#define SCRIPT_LETTER 8.3 /* of 11.5 points */
#define SCRIPT_SMALL  7.6 /* of 10.5 points */
double script_width(const char *text, double letter);
/* COLOR mixed with white, PERCENT of it: not everything that draws SVG knows transparency. */
unsigned script_tint(const char *color, unsigned percent);

/* Colours, fonts and the output's name. */
void script_head(const struct picture *p, FILE *out, const char *terminal, const char *output);
/* A text inside a gnuplot string in double quotes, enhanced mode off. */
void script_text(FILE *out, const char *text);
/* A file's name exactly, likewise. */
void script_path(FILE *out, const char *path);
/* The picture's title, as label 1. */
void script_title(const struct picture *p, FILE *out);

/* The legend is a panel of its own without axes, so that it covers no data.  Its entries are gathered first,
 * to know how many fit beside each other. */
struct legend {
    struct legend_entry {
        char *style; /* what gnuplot draws beside it */
        char *name;
    } * entries;
    size_t n, longest; /* name, in columns of text; at least what it is before the first entry */
    size_t columns, rows;
};
void legend_add(struct legend *l, const char *name, const char *style, ...)
    __attribute__((format(printf, 3, 4)));
/* After the last entry: how they stand in a picture so wide.  How many pixels they take with the title. */
double legend_fit(struct legend *l, int64_t width);
/* Writes title and legend, HEIGHT of the screen, and frees L's entries. */
void legend_write(struct legend *l, const struct picture *p, double height, FILE *out);
void legend_free(struct legend *l);
/* The datablock NAME: t, allocated max and min, reserved max and min of each column, times from ORIGIN on. */
void script_curve(const struct columns *c, const char *name, int64_t origin, struct axis_unit time,
                  struct axis_unit bytes, FILE *out);
/* The datablock NAME: t, the least and the greatest allocated of the columns that folded stretches have; a
 * gap between two stretches. */
void script_folded(const struct columns *c, const char *name, int64_t origin, struct axis_unit time,
                   struct axis_unit bytes, FILE *out);
/* The datablock NAME: t, and from where to where what is allocated is on the host, of the columns in which a
 * part was; a gap between two stretches. */
void script_away(const struct columns *c, const char *name, struct axis_unit time, struct axis_unit bytes,
                 FILE *out);
#define SCRIPT_AWAY "#e0a030" /* what is on the host */
/* Begins a panel between two heights of the screen: margins, ranges, axes. */
struct script_panel {
    double left, right, bottom, top;    /* of the screen */
    double from, to;                    /* in the unit of time */
    double full;                        /* the value at the upper edge, in the unit of bytes */
    const char *byte_unit, *time_label; /* NULL: no label below */
    const char *title;                  /* NULL: written by the caller */
    double pixels;                      /* how high it is */
};
void script_panel(const struct script_panel *panel, FILE *out);

/* ---- one panel of a picture of one run (panel.c) ---- */

struct panel_place {
    double left, right, bottom, top; /* of its drawing, in parts of the screen */
    bool times;                      /* what its times are is written below */
};

/* Pixels above a drawing of WIDTH pixels: two lines where title and note don't fit into one. */
double panel_head(const struct panel *q, double width);
void panel_write(const struct picture *p, size_t panel, const struct panel_place *place, FILE *out);

/* ---- where a mark's label may stand without covering what the reader wants to see (label.c) ---- */

struct label_box { /* pixels from the lower left corner of the drawing */
    double left, bottom, right, top;
};

struct label_room { /* a panel's drawing, in pixels; FULL is the value at its upper edge */
    double width, height, full;
    double text_width, text_height;
    const struct label_box *taken; /* by other labels and marks */
    size_t taken_count;
};

struct label_spot {        /* pixels from the lower left corner of the drawing */
    double x, y;           /* middle of the text */
    bool leader;           /* it is far enough away to need a line from the mark */
    double from[2], to[2]; /* that line */
};

/* The place nearest to the mark at moment T and VALUE where the text covers none of these: a line (allocated,
 * reserved), a sample of the driver, what is taken, the strip of phases, the mark itself.  If there is none,
 * the place that covers least. */
struct label_spot label_place(const struct panel *p, const struct label_room *room, int64_t t, int64_t value);

#endif
