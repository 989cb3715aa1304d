/*
 * view.h - a recording as one page of HTML that needs nothing else (vramscope view).
 *
 *      read/lives.h ──▶ levels.h  the curve in columns, and     ─┐
 *                                 the blocks that stay single    ├─▶ row.c ─┐
 *                   ──▶ dims.h    who held it, column by column ─┘          ├─▶ page.c ──▶ run.html
 *      ranges, steps, call stacks ──▶ process.c ────────────────────────────┘
 *
 * What comes from the recording is deflated base64 in script elements of type text/plain: no name in it can
 * end an element or begin one.
 */
#ifndef VS_VIEW_VIEW_H
#define VS_VIEW_VIEW_H

#include <stdio.h>

#include "base/json.h"
#include "dims.h"

/*
 * ---- numbers as bytes, bytes as deflated base64 in the page (pack.c; page/codec.js reads it) ----
 *
 * A number is little-endian in groups of 7 bits, the upper bit of a byte says that more follow; a signed one
 * is folded first (0, -1, 1, -2, ...).  Bytes of memory are nearly always multiples of 512: n is written as
 * 2 * (n / 512), what is none as 2 * n + 1.
 */

struct pack {
    unsigned char *bytes;
    size_t size, room;
};

void pack_byte(struct pack *p, unsigned value);
void pack_bytes(struct pack *p, const void *bytes, size_t n);
void pack_number(struct pack *p, uint64_t value);
void pack_signed(struct pack *p, int64_t value);
void pack_memory(struct pack *p, int64_t bytes); /* >= 0 */
void pack_memory_signed(struct pack *p, int64_t bytes);
/* PART with its length before it, and PART is empty again. */
void pack_section(struct pack *p, struct pack *part);
void pack_free(struct pack *p);

/* <script type="text/plain" id="ID">...</script> with P deflated; P is freed.  Returns the bytes written. */
size_t pack_write(struct pack *p, const char *id, FILE *out);

/* ---- the page ---- */

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
 * bytes, there is less detail in it.  MADE_OF: view_made_of.  0, or -1 with *WHY, which lives as long as the
 * traces. */
int view_write(struct view_process *processes, size_t n, int64_t device, bool overlay, int64_t limit,
               const char *made_of, FILE *out, const char **why);

#define VIEW_LIMIT   (INT64_C(40) << 20)
#define VIEW_PAGE    (INT64_C(1) << 19) /* what page/ takes at most */
#define VIEW_COLUMNS 524288             /* the most there is of each in a page, before the limit counts */
#define VIEW_BLOCKS  1000000
#define VIEW_SCOPES  200000
#define VIEW_LEAST   2048 /* that a row gets in any case */

/* ---- what a page is called that was given no name (name.c) ---- */

/* "run.html" of run.db or of the folder run, "a+b.html" of several, "a+9.html" where that would be too long;
 * the caller frees it. */
char *view_name(char *const *operands, size_t n);
/* Of the recordings FILES, in any order; the caller frees it. */
char *view_made_of(char *const *files, size_t n);
/* Whether PATH is there and no page made of MADE_OF. */
bool view_is_other(const char *path, const char *made_of);

#define VIEW_MADE_OF "<meta name=\"vramscope-made-of\" content=\"%s\">\n"

/* ---- the files of page/, embedded as they stand (embedded.c) ---- */

extern const char view_page_html[], view_page_css[];
extern const char *const view_page_scripts[]; /* in the order in which they stand in the page; NULL ends */

#endif
