/*
 * table.h - aligned text tables for a terminal.
 *
 *      struct table t;
 *      table_init(&t, "PHASE", "<");
 *      table_row(&t);              for each row, and in it
 *      table_cell(&t, "…");        for each column
 *      table_print(&t, stdout, 2);
 *      table_free(&t);
 *
 * Columns are as wide as their widest cell, counted in characters as a terminal shows them.
 */
#ifndef VS_BASE_TABLE_H
#define VS_BASE_TABLE_H

#include <stdio.h>

#include "base.h"

#define TABLE_COLUMNS 12

struct table {
    int columns;
    const char *header[TABLE_COLUMNS]; /* all "" = no header line */
    bool right[TABLE_COLUMNS];
    char **cells;
    size_t cell_count;
};

/* SHAPE: one character per column, '<' (left-aligned) or '>' (right-aligned). */
void table_init(struct table *t, const char *shape, const char *const *header);
void table_cell(struct table *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
void table_rule(struct table *t); /* a thin horizontal line */
void table_print(const struct table *t, FILE *out, int indent);
void table_free(struct table *t);

size_t text_width(const char *text); /* columns on a terminal; code points, control characters as 0 */

#endif
