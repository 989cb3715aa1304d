/*
 * point.h - one point of a sweep: how it ended, and what each of its processes held.
 *
 *      DIR/batch=1,seq=512/run*.db   the recordings, one a process that used the GPU
 *      DIR/batch=1,seq=512/log       what the command printed
 *      DIR/batch=1,seq=512/answer    of a dry run: what `fit` said
 *      DIR/batch=1,seq=512/outcome   one line, written last: with it the point is done
 */
#ifndef VS_SWEEP_POINT_H
#define VS_SWEEP_POINT_H

#include "base/base.h"
#include "child.h"
#include "dry.h"
#include "grid.h"

enum outcome {
    POINT_OK,
    POINT_OOM,
    POINT_CRASH,
    POINT_HANG,
    POINT_BETWEEN, /* of dry runs: whether it fits lies within what is not known exactly */
    POINT_UNKNOWN, /* likewise: nobody can tell */
    OUTCOMES
};
extern const char *const outcome_names[OUTCOMES + 1]; /* NULL at the end */

struct rank_figures { /* of one recording; UNKNOWN: not recorded */
    char *path;
    bool readable;
    int64_t rank, world_size;
    int64_t allocated, reserved;                     /* the most, of the device where it is highest */
    int64_t framework_allocated, framework_reserved; /* of the framework's allocator there */
    int64_t steps;
    double rate;     /* steps a second, without the first; NAN */
    int64_t refused; /* of the last request, which nothing followed; 0: it was, and nobody said how much */
};

struct point {
    char *name, *folder;
    char *values[GRID_AXES]; /* of each axis */
    struct dry_answer dry;   /* of a dry run */
    bool done;
    enum outcome outcome;
    int status; /* as waitpid gives it */
    int64_t ns;
    bool left;                  /* processes were left behind, and ended */
    struct rank_figures *ranks; /* by rank */
    size_t n;
    int64_t expected; /* ranks by the job's own word; 1 where it says nothing */
    int64_t predicted_allocated, predicted_reserved; /* of the framework's allocator; UNKNOWN */
    bool fitted; /* the predictions were made of this point among others */
};

/* The point of G with these VALUES, in its folder in FOLDER, and what is there of it. */
void point_begin(struct point *p, const struct grid *g, const char *folder, const char *const *values);
/* Reads what is there of it. */
void point_load(struct point *p);
/* Reads the answer of a dry run; whether there is one. */
bool point_answer(struct point *p);
/* Writes its outcome; 0, or 2, said in the name of WHO. */
int point_finish(struct point *p, const struct child_end *end, const char *who);
/* Removes what an interrupted sweep left of it. */
void point_clear(const struct point *p);
void point_free(struct point *p);

/* "exit 1", "signal 9", of a dry run a sentence; "" where it ended well.  The caller frees it. */
char *point_status(const struct point *p);
/* The largest request that was refused in the end; UNKNOWN: none, or nobody said how much. */
int64_t point_refused(const struct point *p);
/* The least, mean and greatest of a figure over the ranks that have it; false: none has. */
enum point_figure {
    FIGURE_POINT_ALLOCATED,
    FIGURE_POINT_RESERVED,
    FIGURE_POINT_FRAMEWORK,
    FIGURE_POINT_RATE
};
bool point_span(const struct point *p, enum point_figure what, double *least, double *mean, double *greatest);

#endif
