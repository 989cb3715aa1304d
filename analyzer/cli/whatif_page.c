/* whatif_page.c - see whatif.h. */
#include "whatif.h"

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
    [COLUMN_UNDER] = {"ALLOCATED", '>', '4', '3'},
    [COLUMN_UNDER + 1] = {"NATIVE", '>', '3', '3'},
    [COLUMN_UNDER + 2] = {"EXPANDABLE", '>', '2', '2'},
    [COLUMN_UNDER + 3] = {"ARENA", '>', '1', '1'},
};

void whatif_say(struct whatif_page *p, const char *format, ...)
{
    va_list list;
    char *text;
    va_start(list, format);
    *PUSH(p->lines, p->line_count) = vasprintf(&text, format, list) < 0 ? xstrdup("") : text;
    va_end(list);
}

struct whatif_row *whatif_row(struct whatif_page *p, int64_t rank, int64_t bytes)
{
    struct whatif_row *row = PUSH(p->rows, p->count);
    *row = (struct whatif_row){.rank = rank, .bytes = bytes, .at = p->count};
    return row;
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
        header[n] = p->headers ? p->headers[c] : columns[c].header;
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
    for (size_t i = 0; i < p->above; i++)
        puts(p->lines[i]);
    if (p->count) {
        qsort(p->rows, p->count, sizeof *p->rows, by_order);
        print_table(p);
    }
    for (size_t i = p->above; i < p->line_count; i++)
        puts(p->lines[i]);
}

void whatif_free(struct whatif_page *p)
{
    for (size_t i = 0; i < p->count; i++)
        for (int c = 0; c < WHATIF_COLUMNS; c++)
            free(p->rows[i].cells[c]);
    for (size_t i = 0; i < p->line_count; i++)
        free(p->lines[i]);
    free(p->rows);
    free(p->lines);
}
