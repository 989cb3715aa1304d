/* show.h - a sweep as a table, as CSV (a row a rank), and as a picture. */
#ifndef VS_SWEEP_SHOW_H
#define VS_SWEEP_SHOW_H

#include <stdio.h>

#include "grid.h"
#include "point.h"

struct sweep {
    const char *who; /* which command it is of: "sweep" */
    struct grid grid;
    struct point *points;
    size_t n;
    bool dry;
    int64_t predicted_rank;  /* whose the predictions are; UNKNOWN: of the only process, or of the one that
                              * held  most where none has a rank */
    const char *unpredicted; /* why there are none; NULL: there are, or nobody expects any */
};

void show_table(const struct sweep *s);
void show_dry_table(const struct sweep *s, FILE *out);
/* 0, or 2, said. */
int show_csv(const struct sweep *s, const char *path);
int show_picture(const struct sweep *s, const char *path);

#endif
