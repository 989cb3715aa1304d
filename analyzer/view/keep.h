/*
 * keep.h - which blocks go into the page with their identity: of every stretch of time the largest.
 *
 *      tiles of row j: the run in 2^j equal parts       row 0 |                               |
 *                                                       row 1 |               |               |
 *                                                       row 2 |       |       |       |       |
 *
 * Of each tile the VIEW_LARGEST largest blocks are kept that lived in it at any time; of equal blocks the
 * earlier.  That is done row after row, as long as there is room for a whole row more.  So a window on the
 * run, however placed, that is as long as a tile of the last row has its largest blocks, exactly.
 */
#ifndef VS_VIEW_KEEP_H
#define VS_VIEW_KEEP_H

#include "read/lives.h"

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
