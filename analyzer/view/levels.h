/*
 * levels.h - how much detail a page has: a device's curve in columns of equal width at several levels, each
 * column with the exact extremes of its time; and which blocks.
 *
 *      level 0    |           |           |           |           |     about 2048 columns for the run
 *      level 1    |  |  |  |  |  |  |  |  |  |  |  |  |  |  |  |  |     each a quarter as wide
 *      ...        down to columns of one event, or to as many columns as there is room for
 *
 * Only columns in which something happened are there; between two of them the totals are what the first one
 * left.  The extremes are those of a step function: what it had when the column began counts, too.  A column
 * names the states (dims.h) in which its greatest value was reached and which it left.
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

/*
 * Which blocks go into the page with their identity: of every stretch of time the largest (keep.c).
 *
 *      tiles of row j: the run in 2^j equal parts       row 0 |                               |
 *                                                       row 1 |               |               |
 *                                                       row 2 |       |       |       |       |
 *
 * Of each tile the VIEW_LARGEST largest blocks are kept that lived in it at any time; of equal blocks the
 * earlier.  That is done row after row, as long as there is room for a whole row more.  So a window on the
 * run, however placed, that is as long as a tile of the last row has its largest blocks, exactly.
 */

#define VIEW_LARGEST 2048

struct view_kept {
    bool *kept; /* of each block */
    size_t count;
    bool all;     /* every block is kept */
    int64_t tile; /* ns: of the last whole row; where ALL, 0 */
};

/* MOST: blocks that there is room for; LARGEST: VIEW_LARGEST but in tests.  If it holds not even one row,
 * that row's first MOST are kept, and TILE is UNKNOWN. */
struct view_kept view_keep(const struct trace_block *blocks, size_t n, int64_t last, size_t largest,
                           size_t most);
/* Keeps what lived at MOMENT as well, the largest first, up to MOST blocks in all. */
void view_keep_moment(struct view_kept *k, const struct trace_block *blocks, size_t n, int64_t moment,
                      size_t most);
void view_free_kept(struct view_kept *k);

#endif
