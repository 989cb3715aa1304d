/*
 * label.h - finds a place for the peak's label where it covers nothing important.
 */
#ifndef VS_PLOT_LABEL_H
#define VS_PLOT_LABEL_H

#include "picture.h"

struct label_room { /* a panel's drawing, in pixels; FULL is the value at its upper edge */
    double width, height, full;
    double text_width, text_height;
};

struct label_spot {        /* pixels from the lower left corner of the drawing */
    double x, y;           /* middle of the text */
    bool leader;           /* it is far enough away to need a line from the peak */
    double from[2], to[2]; /* that line */
};

/* The place nearest to the peak at which the text covers no line (allocated, reserved, driver used), not the
 * strip of phases and not the peak's own mark; if there is none, the place that covers least. */
struct label_spot label_place(const struct panel *p, const struct label_room *room);

#endif
