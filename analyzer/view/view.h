/*
 * view.h - a recording as one page of HTML that needs nothing else (vramscope view).
 *
 *      read/lives.h ──▶ levels.h  the curve in columns           ─┐
 *                   ──▶ dims.h    who held it, column by column   ├─▶ row.c ─┐
 *                   ──▶ keep.h    the blocks that stay single    ─┘          ├─▶ page.c ──▶ run.html
 *      ranges, steps, call stacks ──▶ process.c ─────────────────────────────┘
 *
 * What comes from the recording is in the page as deflated base64, in script elements of type text/plain: no
 * name in it can end an element or begin one.  page/ is hand-written HTML, CSS and JavaScript.  The build
 * puts it into the command (embedded.c).
 */
#ifndef VS_VIEW_VIEW_H
#define VS_VIEW_VIEW_H

#include <stdio.h>

#include "base/json.h"
#include "dims.h"
#include "pack.h"

/* What there is room for, over all rows together. */
struct view_room {
    size_t columns; /* of the finest levels */
    size_t blocks;
    size_t scopes;
};

struct view_part { /* of the page: what page.c has gathered so far */
    struct json *head;
    FILE *body;
    const struct view_room *room; /* of one row, of one process */
    unsigned number;              /* of the next script element */
    bool tensors;                 /* of some block it is known what tensor it was made for */
};

/* A process, with its name in the page and the moment of its t = 0 on the page's time axis. */
struct view_process {
    struct trace *t;
    const char *label;
    int64_t offset;
    struct trace_stacks stacks;
    struct view_tags tags;
    struct view_asked asked;
    bool *stack_used; /* of each row of stacks, from 1 */
};

/* 0, or -1 with the reason in the trace's why. */
int view_write_row(struct view_part *p, struct view_process *process, size_t index, int64_t device);
int view_write_process(struct view_part *p, struct view_process *process);
void view_use_stack(struct view_process *process, uint32_t row);

/* Of the rows with a number, as lists: words, the name's index, the bytes that were asked for (null: not
 * known, or as many as the block has). */
void view_write_asked(struct json *j, const struct view_asked *a);

/* The page of N processes, into OUT; OVERLAY: they are runs to compare.  Where it would be longer than LIMIT
 * bytes, there is less detail in it.  MADE_OF: name.h.  0, or -1 with *WHY, which lives as long as the
 * traces. */
int view_write(struct view_process *processes, size_t n, int64_t device, bool overlay, int64_t limit,
               const char *made_of, FILE *out, const char **why);

#define VIEW_LIMIT   (INT64_C(40) << 20)
#define VIEW_PAGE    (INT64_C(1) << 19) /* what page/ takes at most */
#define VIEW_COLUMNS 524288             /* the most there is of each in a page, before the limit counts */
#define VIEW_BLOCKS  1000000
#define VIEW_SCOPES  200000
#define VIEW_LEAST   2048 /* that a row gets in any case */

#endif
