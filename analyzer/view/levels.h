/*
 * levels.h - a device's curve at several levels of detail: columns of equal width, each with the exact
 * extremes of the time that it covers.
 *
 *      level 0    |           |           |           |           |     about 2048 columns for the run
 *      level 1    |  |  |  |  |  |  |  |  |  |  |  |  |  |  |  |  |     each a quarter as wide
 *      ...        down to columns of one event, or to as many columns as there is room for
 *
 * Only columns in which something happened are there; between two of them the totals are what the first one
 * left.  The extremes are those of the curve as a step function over the column's time: what it had when the
 * column began counts, too.  A column names the states in which its greatest value was reached and which it
 * left, as the number of changes until then: who held what in a state is dims.h's business.
 */
#ifndef VS_VIEW_LEVELS_H
#define VS_VIEW_LEVELS_H

#include "read/lives.h"

#define VIEW_ROOT   2048 /* columns of level 0 */
#define VIEW_FACTOR 4

struct view_column {
    uint32_t index;  /* its time begins at index * width */
    uint32_t events; /* changes in it */
    int64_t max, min, last, t_max;
    int64_t reserved_max, reserved_min, reserved_last;
    uint32_t at_max, at_last; /* states: so many changes had happened */
    bool gap;                 /* the next column of the level is not its neighbour */
    bool folded;              /* some of its extremes stand for events that are not in the file */
};

struct view_level {
    int64_t width; /* ns */
    struct view_column *columns;
    size_t count;
};

struct view_levels {
    struct view_level *levels; /* the widest columns first */
    size_t count;
};

#define VIEW_CROWD 32 /* events of a column that can be counted one by one when it is looked at */

/* MOST: columns of the finest level, but for level 0, which has VIEW_ROOT in any case.  CROWD: no finer level
 * is made once no column has more events than that.  LAST: the last moment shown.  Of changes at UINT32_MAX
 * and beyond nothing is seen. */
struct view_levels view_levels(const struct trace_change *changes, size_t n, int64_t last, size_t most,
                               size_t crowd);
void view_free_levels(struct view_levels *l);

#endif
