/* show.h - a sweep as a table, as CSV (a row a rank), and as a picture. */
#ifndef VS_SWEEP_SHOW_H
#define VS_SWEEP_SHOW_H

#include "grid.h"
#include "point.h"

struct sweep {
    struct grid grid;
    struct point *points;
    size_t n;
};

void show_table(const struct sweep *s);
/* 0, or 2, said. */
int show_csv(const struct sweep *s, const char *path);
int show_picture(const struct sweep *s, const char *path);

#endif
