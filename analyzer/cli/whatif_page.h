/*
 * whatif_page.h - the page of `vramscope whatif`: one table, with a row for each allocator and each change of
 * the program, and what each row rests on.
 *
 * Who answers (whatif_policies.c, whatif_edits.c, whatif_refusal.c) adds rows and their cells; a column that
 * nobody fills is not there.
 */
#ifndef VS_CLI_WHATIF_PAGE_H
#define VS_CLI_WHATIF_PAGE_H

#include "base/base.h"

enum whatif_column {
    COLUMN_WHAT,
    COLUMN_REQUEST, /* whether the refused one passes */
    COLUMN_LEFT,
    COLUMN_FREES,
    COLUMN_RESERVED,
    COLUMN_DIFFERENCE,
    COLUMN_FITS,
    COLUMN_COSTS,
    COLUMN_ALLOCATED, /* from here on under allocators by enum feed_policy; the first has no cache */
    WHATIF_COLUMNS = COLUMN_ALLOCATED + 4
};

struct whatif_row {
    char *cells[WHATIF_COLUMNS]; /* owned; NULL: empty */
    int64_t rank, bytes;         /* rows stand in this order, and else as they were added */
    size_t at;
};

struct whatif_page {
    struct whatif_row *rows;
    size_t count, run;  /* run: the row of the run as it was; SIZE_MAX: there is none */
    char **head, **why; /* lines above and below the table; owned */
    size_t head_count, why_count;
};

/* Until the next one is added. */
struct whatif_row *whatif_row(struct whatif_page *p, int64_t rank, int64_t bytes);
/* TEXT is the row's from now on. */
void whatif_cell(struct whatif_row *row, enum whatif_column column, char *text);
/* A line above the table, or below it. */
void whatif_head(struct whatif_page *p, const char *format, ...) __attribute__((format(printf, 2, 3)));
void whatif_why(struct whatif_page *p, const char *format, ...) __attribute__((format(printf, 2, 3)));
void whatif_print(struct whatif_page *p);
void whatif_free(struct whatif_page *p);

#endif
