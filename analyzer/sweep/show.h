/*
 * show.h - a sweep as a table and as CSV, a row a rank (show.c); as one database, the
 * recordings of all points merged, and a table of the points (database.c); and what laws made of its smallest
 * points say of the others (predict.c).
 */
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

/* Of grids of batch and seq; where none are made s->unpredicted says why. */
void predict(struct sweep *s);

/* 0, or 2, said: FOLDER's sweep.db is not of a sweep, and is never replaced. */
int database_check(const char *who, const char *folder);
/* Replaces the one that is there, with no recordings by none; and CSV (NULL: FOLDER's sweep.csv).
 * 0, or 2, said. */
int database_all(const struct sweep *s, const char *folder, const char *csv);

#endif
