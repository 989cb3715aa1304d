/*
 * label.h - where a mark's label may stand without covering anything that the reader wants to see.
 */
#ifndef VS_PLOT_LABEL_H
#define VS_PLOT_LABEL_H

#include "picture.h"

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
