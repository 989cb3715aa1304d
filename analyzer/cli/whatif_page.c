/* whatif_page.c - see whatif_page.h. */
#include "whatif_page.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/table.h"

_Static_assert(WHATIF_COLUMNS <= TABLE_COLUMNS, "a table has room for all");

static const struct {
    const char *header;
    char shape, drop; /* what goes where the page is narrow: other allocators first */
    char refused;     /* likewise where the question is whether a request passes */
} columns[WHATIF_COLUMNS] = {
    [COLUMN_WHAT] = {"ALLOCATOR OR CHANGE", '<', '-', '-'},
    [COLUMN_REQUEST] = {"REQUEST", '<', '-', '-'},
    [COLUMN_LEFT] = {"LEFT", '>', '-', '-'},
    [COLUMN_FREES] = {"FREES", '>', '-', '6'},
    [COLUMN_RESERVED] = {"RESERVED", '>', '-', '5'},
    [COLUMN_DIFFERENCE] = {"DIFFERENCE", '>', '-', '4'},
    [COLUMN_FITS] = {"FITS", '<', '-', '-'},
    [COLUMN_COSTS] = {"COSTS", '<', '5', '7'},
    [COLUMN_ALLOCATED] = {"ALLOCATED", '>', '4', '3'},
    [COLUMN_ALLOCATED + 1] = {"NATIVE", '>', '3', '3'},
    [COLUMN_ALLOCATED + 2] = {"EXPANDABLE", '>', '2', '2'},
    [COLUMN_ALLOCATED + 3] = {"ARENA", '>', '1', '1'},
};

static void say(char ***lines, size_t *n, const char *format, va_list list)
{
    char *text;
    *PUSH(*lines, *n) = vasprintf(&text, format, list) < 0 ? xstrdup("") : text;
}

void whatif_head(struct whatif_page *p, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    say(&p->head, &p->head_count, format, list);
    va_end(list);
}

void whatif_why(struct whatif_page *p, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    say(&p->why, &p->why_count, format, list);
    va_end(list);
}

struct whatif_row *whatif_row(struct whatif_page *p, int64_t rank, int64_t bytes)
{
    struct whatif_row *row = PUSH(p->rows, p->count);
    *row = (struct whatif_row){.rank = rank, .bytes = bytes, .at = p->count};
    return row;
}

void whatif_cell(struct whatif_row *row, enum whatif_column column, char *text)
{
    row->cells[column] = text;
}

static int by_order(const void *a, const void *b)
{
    const struct whatif_row *x = a, *y = b;
    if (x->rank != y->rank)
        return x->rank < y->rank ? -1 : 1;
    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? -1 : 1;
    return x->at < y->at ? -1 : 1;
}

static bool is_filled(const struct whatif_page *p, int column)
{
    for (size_t i = 0; i < p->count; i++)
        if (p->rows[i].cells[column])
            return true;
    return false;
}

static void print_table(struct whatif_page *p)
{
    const char *header[WHATIF_COLUMNS];
    char shape[WHATIF_COLUMNS + 1], drops[WHATIF_COLUMNS + 1];
    int of[WHATIF_COLUMNS], n = 0;
    bool refused = is_filled(p, COLUMN_REQUEST);
    struct table table;
    for (int c = 0; c < WHATIF_COLUMNS; c++) {
        if (!is_filled(p, c))
            continue;
        header[n] = columns[c].header;
        shape[n] = columns[c].shape;
        drops[n] = refused ? columns[c].refused : columns[c].drop;
        of[n++] = c;
    }
    shape[n] = drops[n] = '\0';
    table_init(&table, shape, header);
    table_drops(&table, drops);
    for (size_t i = 0; i < p->count; i++)
        for (int c = 0; c < n; c++)
            table_cell(&table, "%s", p->rows[i].cells[of[c]] ? p->rows[i].cells[of[c]] : "");
    table_print(&table, stdout, 2);
    table_free(&table);
}

void whatif_print(struct whatif_page *p)
{
    for (size_t i = 0; i < p->head_count; i++)
        puts(p->head[i]);
    if (p->count) {
        qsort(p->rows, p->count, sizeof *p->rows, by_order);
        print_table(p);
    }
    for (size_t i = 0; i < p->why_count; i++)
        puts(p->why[i]);
}

static void free_lines(char **lines, size_t n)
{
    for (size_t i = 0; i < n; i++)
        free(lines[i]);
    free(lines);
}

void whatif_free(struct whatif_page *p)
{
    for (size_t i = 0; i < p->count; i++)
        for (int c = 0; c < WHATIF_COLUMNS; c++)
            free(p->rows[i].cells[c]);
    free(p->rows);
    free_lines(p->head, p->head_count);
    free_lines(p->why, p->why_count);
    *p = (struct whatif_page){.rows = NULL};
}
