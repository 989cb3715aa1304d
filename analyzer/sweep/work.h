/*
 * work.h - the points of a sweep are run: on a GPU one after another, each alone; dry runs as many at a time
 * as there are cores.
 *
 *      this process --> a process for each dry run, which ends all of its program --> `vramscope fit`
 */
#ifndef VS_SWEEP_WORK_H
#define VS_SWEEP_WORK_H

#include "show.h"

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
