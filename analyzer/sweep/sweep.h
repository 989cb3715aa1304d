/* sweep.h - a sweep: its points, how they are run, and what is made of them. */
#ifndef VS_SWEEP_SWEEP_H
#define VS_SWEEP_SWEEP_H

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

struct work {
    struct sweep *sweep;
    char *const *own;     /* words of this program's: "run" or "fit", and options */
    char *const *command; /* with {NAME} */
    int64_t limit;        /* ns that a point may take; 0: no end */
    bool quiet;           /* no line for each point as it ends */
    size_t jobs;          /* dry runs at a time */
    const char *state;    /* what is known so far, for the line of progress; NULL */
    size_t runs;          /* points that were run */
};

/* OWN: words of this program's that points depend on, too; NULL: none.  Makes it where it is not there, and
 * holds it until we and every process of a point have ended.  0, or 2, said in the name of WHO. */
int claim_folder(const char *who, const char *folder, char *const *own, char *const *command);
/* The cores that we may use. */
size_t work_cores(void);
/* Runs N points of the sweep.  0; 1: we were asked to end; or 2, said. */
int work_run(struct work *w, const size_t *which, size_t n);

#endif
