/*
 * whatif_page.h - the page of `vramscope whatif`: lines, and among them one table with a row for each
 * allocator and each change of the program.
 *
 * Who answers (whatif_policies.c, whatif_edits.c, whatif_refusal.c) adds rows, whose cells are then the
 * page's; a column that nobody fills is not there.
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
    COLUMN_UNDER, /* from here on under allocators by enum feed_policy */
    WHATIF_COLUMNS = COLUMN_UNDER + 4
};

struct whatif_row {
    int64_t rank, bytes; /* rows stand in this order, and else as they were added */
    size_t at;
    char *cells[WHATIF_COLUMNS]; /* owned; NULL: empty */
};

struct whatif_page {
    struct whatif_row *rows;
    size_t count, run;          /* run: the row of the run as it was; SIZE_MAX: there is none */
    const char *const *headers; /* by column; NULL: those of the table */
    char **lines;               /* owned */
    size_t line_count, above;   /* above: how many stand above the table */
};

/* Until the next one is added. */
struct whatif_row *whatif_row(struct whatif_page *p, int64_t rank, int64_t bytes);
void whatif_say(struct whatif_page *p, const char *format, ...) __attribute__((format(printf, 2, 3)));
void whatif_print(struct whatif_page *p);
void whatif_free(struct whatif_page *p);

#endif
