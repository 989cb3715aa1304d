/* table.c - see table.h. */
#include "table.h"

#include <stdlib.h>
#include <string.h>

#include "shown.h"

size_t text_width(const char *text)
{
    size_t n = 0;
    for (const unsigned char *s = (const unsigned char *)text; *s; s++)
        if ((*s & 0xc0) != 0x80 && *s >= 0x20)
            n++;
    return n;
}

void table_init(struct table *t, const char *shape, const char *const *header)
{
    *t = (struct table){.columns = (int)strlen(shape)};
    for (int i = 0; i < t->columns; i++) {
        t->right[i] = shape[i] == '>';
        t->header[i] = header ? header[i] : "";
    }
}

void table_cell(struct table *t, const char *format, ...)
{
    va_list list;
    char *text = NULL;
    va_start(list, format);
    if (vasprintf(&text, format, list) < 0)
        text = xstrdup("");
    va_end(list);
    *PUSH(t->cells, t->cell_count) = xstrdup(shown(text)); /* names come from the recorded program */
    free(text);
}

void table_rule(struct table *t)
{
    for (int i = 0; i < t->columns; i++)
        *PUSH(t->cells, t->cell_count) = NULL;
}

static void measure(const struct table *t, size_t *width)
{
    for (int i = 0; i < t->columns; i++)
        width[i] = text_width(t->header[i]);
    for (size_t i = 0; i < t->cell_count; i++) {
        size_t w = t->cells[i] ? text_width(t->cells[i]) : 0;
        if (w > width[i % (size_t)t->columns])
            width[i % (size_t)t->columns] = w;
    }
}

static void put_cell(FILE *out, const char *text, size_t width, bool right, bool last)
{
    size_t pad = width - text_width(text);
    fprintf(out, "%*s%s%*s", right ? (int)pad : 0, "", text, right || last ? 0 : (int)pad, "");
}

static void put_line(const struct table *t, FILE *out, int indent, char *const *cells, const size_t *width)
{
    /* trailing empty cells leave no blanks behind */
    int last = t->columns - 1;
    while (last > 0 && cells[last] && !*cells[last])
        last--;
    fprintf(out, "%*s", indent, "");
    for (int i = 0; i <= last; i++) {
        if (i)
            fputs("  ", out);
        if (cells[i]) {
            put_cell(out, cells[i], width[i], t->right[i], i == last);
        } else {
            for (size_t k = 0; k < width[i]; k++)
                fputs("─", out);
        }
    }
    fputc('\n', out);
}

void table_print(const struct table *t, FILE *out, int indent)
{
    size_t width[TABLE_COLUMNS];
    bool header = false;
    for (int i = 0; i < t->columns; i++)
        header = header || *t->header[i];
    measure(t, width);
    if (header)
        put_line(t, out, indent, (char *const *)t->header, width);
    for (size_t i = 0; i + (size_t)t->columns <= t->cell_count; i += (size_t)t->columns)
        put_line(t, out, indent, t->cells + i, width);
}

void table_free(struct table *t)
{
    for (size_t i = 0; i < t->cell_count; i++)
        free(t->cells[i]);
    free(t->cells);
    t->cells = NULL;
    t->cell_count = 0;
}
