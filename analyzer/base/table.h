/*
 * table.h - aligned text tables for a terminal.
 *
 *      table_init(&t, "<", (const char *[]){"PHASE"});
 *      table_cell(&t, "…");        for each column of each row
 *      table_print(&t, stdout, 2);
 *
 * If a table is wider than the page (page.h) texts of more than TABLE_NAME columns are first cut in their
 * middle, as little as is needed; of a place in the code ("train.py:37 > model.py:41 Block.forward") only
 * the function's name is.  Then the columns that table_drops names go, and a line below says which.
 */
#ifndef VS_BASE_TABLE_H
#define VS_BASE_TABLE_H

#include <stdio.h>

#include "base.h"

#define TABLE_COLUMNS 12
#define TABLE_NAME    28

struct table {
    int columns;
    const char *header[TABLE_COLUMNS]; /* all "" = no header line */
    bool right[TABLE_COLUMNS];
    const char *drops; /* see table_drops; NULL: no column goes */
    bool sentences;    /* nothing is cut: on a terminal the last column is broken at blanks (page.h) */
    bool changes;      /* cells with a sign are coloured: growth red, its opposite green */
    char **cells;
    size_t cell_count;
};

/* SHAPE: one character per column, '<' (left-aligned) or '>' (right-aligned). */
void table_init(struct table *t, const char *shape, const char *const *header);
void table_cell(struct table *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* ORDER: one character a column, '-' stays, '1' goes first, then '2' ...; several may have the same.  '0':
 * where nothing but "-" stands in it, before all others, and unsaid. */
void table_drops(struct table *t, const char *order);
void table_rule(struct table *t);          /* a thin horizontal line */
size_t table_needs(const struct table *t); /* columns that it takes where nothing is cut, without an indent */
void table_print(const struct table *t, FILE *out, int indent);
void table_free(struct table *t);

/* Columns on a terminal: control characters and sequences that set a colour take none, wide characters two.
 */
size_t text_width(const char *text);

#endif
