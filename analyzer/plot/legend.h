/* legend.h - the head of a picture of one run: its title, and what its colours and marks mean. */
#ifndef VS_PLOT_LEGEND_H
#define VS_PLOT_LEGEND_H

#include "picture.h"

/* Pixels that the head takes. */
double legend_pixels(const struct picture *p);
/* Writes it; HEIGHT: its part of the screen. */
void legend_write(const struct picture *p, double height, FILE *out);

/* Whether any panel has its allocated memory divided, and samples of the driver on its scale. */
bool picture_composed(const struct picture *p);
bool picture_sampled(const struct picture *p);

#endif
