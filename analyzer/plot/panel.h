/* panel.h - one panel of a picture of one run as part of a gnuplot script. */
#ifndef VS_PLOT_PANEL_H
#define VS_PLOT_PANEL_H

#include "picture.h"

struct panel_place {
    double left, right, bottom, top; /* of its drawing, in parts of the screen */
    bool times;                      /* what its times are is written below */
};

/* Pixels above a drawing of WIDTH pixels: two lines where title and note don't fit into one. */
double panel_head(const struct panel *q, double width);
void panel_write(const struct picture *p, size_t panel, const struct panel_place *place, FILE *out);

#endif
