/*
 * grid.h - the points of a sweep: every combination of the values of its axes.
 *
 *      --grid batch=1,2 --grid seq=512..2048     6 points, the last axis the fastest
 *      "--batch={batch}"                          becomes "--batch=1"
 *      batch=1,seq=512                            a point's name, which is its folder's too
 */
#ifndef VS_SWEEP_GRID_H
#define VS_SWEEP_GRID_H

#include "base/args.h"

#define GRID_AXES   6
#define GRID_VALUES 64
#define GRID_POINTS 4096

struct grid_axis {
    char *name;
    char *values[GRID_VALUES];
    size_t n;
};

struct grid {
    const char *option; /* that has the axes, with the command: what complaints begin with */
    struct grid_axis axes[GRID_AXES];
    size_t n, points;
};

/* 0, or 2, said. */
int grid_read(struct grid *g, const char *option, const struct arg_list *words);
void grid_free(struct grid *g);

/* The value of axis AXIS at point POINT of all. */
const char *grid_value(const struct grid *g, size_t point, size_t axis);
/* Of a point with these VALUES, one an axis: that of the axis NAME as a number; UNKNOWN where there is none,
 * or it is none. */
int64_t grid_number(const struct grid *g, char *const *values, const char *name);
/* The caller frees both. */
char *grid_name(const struct grid *g, char *const *values);
char *grid_fill(const struct grid *g, char *const *values, const char *word);
/* 0, or 2, said: an axis stands nowhere in the command, or a word in braces is none. */
int grid_check(const struct grid *g, char *const *command);

#endif
