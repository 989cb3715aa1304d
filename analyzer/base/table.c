/* table.c - see table.h. */
#include "table.h"

#include <stdlib.h>
#include <string.h>

#include "page.h"
#include "shown.h"

/* Characters that a terminal shows two columns wide, and those that it adds to the one before. */
static const struct {
    int32_t first, last;
    int width;
} widths[] = {{0x300, 0x36f, 0},     {0x1100, 0x115f, 2},   {0x200d, 0x200d, 0},  {0x20d0, 0x20ff, 0},
              {0x2e80, 0x303e, 2},   {0x3041, 0x33ff, 2},   {0x3400, 0x4dbf, 2},  {0x4e00, 0x9fff, 2},
              {0xa000, 0xa4cf, 2},   {0xac00, 0xd7a3, 2},   {0xf900, 0xfaff, 2},  {0xfe00, 0xfe0f, 0},
              {0xfe30, 0xfe6f, 2},   {0xff00, 0xff60, 2},   {0xffe0, 0xffe6, 2},  {0x1f300, 0x1f64f, 2},
              {0x1f680, 0x1f6ff, 2}, {0x1f900, 0x1f9ff, 2}, {0x20000, 0x3fffd, 2}};

static size_t width_of(int32_t code)
{
    for (size_t i = 0; code >= 0x300 && i < sizeof widths / sizeof *widths; i++)
        if (code >= widths[i].first && code <= widths[i].last)
            return (size_t)widths[i].width;
    return 1;
}

/* Bytes of the sequence at S that sets a colour, "\033[...m"; 0: there is none. */
static size_t color_sequence(const unsigned char *s)
{
    size_t n = 2;
    if (s[0] != 033 || s[1] != '[')
        return 0;
    while ((s[n] >= '0' && s[n] <= '9') || s[n] == ';')
        n++;
    return s[n] == 'm' ? n + 1 : 0;
}

/* Bytes of the character, or sequence, at S; its *COLUMNS. */
static size_t next_width(const unsigned char *s, size_t *columns)
{
    int32_t code;
    size_t color = color_sequence(s), length = (size_t)shown_next(s, &code);
    *columns = !color && (*s & 0xc0) != 0x80 && *s >= 0x20 ? width_of(code) : 0;
    return color ? color : length;
}

size_t text_width(const char *text)
{
    size_t n = 0, columns;
    for (const unsigned char *s = (const unsigned char *)text; *s; n += columns)
        s += next_width(s, &columns);
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
    /* names come from the recorded program; measured as they will be printed */
    *PUSH(t->cells, t->cell_count) = page_ascii() ? page_in_ascii(shown(text)) : xstrdup(shown(text));
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

/* ---- what fits ---- */

static size_t total(const struct table *t, const size_t *width, const bool *gone)
{
    size_t sum = 0;
    for (int i = 0; i < t->columns; i++)
        sum += gone[i] ? 0 : width[i] + (sum ? 2 : 0);
    return sum;
}

/* The widest column of texts becomes narrower, down to TABLE_NAME, until all fit. */
static void narrow(const struct table *t, size_t *width, const bool *gone, size_t room)
{
    for (size_t now; (now = total(t, width, gone)) > room;) {
        int widest = -1;
        for (int i = 0; i < t->columns; i++)
            if (!gone[i] && !t->right[i] && width[i] > TABLE_NAME && (widest < 0 || width[i] > width[widest]))
                widest = i;
        if (widest < 0)
            return;
        size_t excess = now - room, most = width[widest] - TABLE_NAME;
        width[widest] -= excess < most ? excess : most;
    }
}

/* Whether nothing but "-" stands in column I. */
static bool is_empty(const struct table *t, int i)
{
    for (size_t at = (size_t)i; at < t->cell_count; at += (size_t)t->columns)
        if (t->cells[at] && *t->cells[at] && strcmp(t->cells[at], "-") != 0)
            return false;
    return true;
}

static void drop(const struct table *t, const size_t *width, bool *gone, size_t room)
{
    for (int i = 0; t->drops && i < t->columns; i++)
        gone[i] = t->drops[i] == '0' && is_empty(t, i);
    for (char step = '1'; t->drops && step <= '9' && total(t, width, gone) > room; step++)
        for (int i = 0; i < t->columns; i++)
            gone[i] = gone[i] || t->drops[i] == step;
}

/* First the texts are cut; where that is not enough columns go, and what is left has its room again. */
static void fit(const struct table *t, size_t *width, bool *gone, size_t room)
{
    size_t whole[TABLE_COLUMNS];
    if (t->sentences)
        return;
    memcpy(whole, width, sizeof whole);
    narrow(t, width, gone, room);
    if (total(t, width, gone) <= room || !t->drops)
        return;
    drop(t, width, gone, room);
    memcpy(width, whole, sizeof whole);
    narrow(t, width, gone, room);
}

/* The end of TEXT in at most WIDTH columns. */
static const char *last_columns(const char *text, size_t width)
{
    size_t left = text_width(text), columns;
    for (; *text && left > width; left -= columns)
        text += next_width((const unsigned char *)text, &columns);
    return text;
}

/* Bytes of "model.py:41", or "train.py:37 > model.py:41", where TEXT begins with a place in the code; 0: it
 * does not. */
static size_t place_length(const char *text)
{
    static const char by[] = " > ";
    for (const char *colon = strchr(text, ':'); colon; colon = strchr(colon + 1, ':')) {
        size_t digits = strspn(colon + 1, "0123456789"), n = (size_t)(colon - text) + 1 + digits;
        if (!digits || colon == text || (text[n] != ' ' && text[n]))
            continue;
        bool calls = !strncmp(text + n, by, sizeof by - 1);
        size_t called = calls ? place_length(text + n + sizeof by - 1) : 0;
        return called ? n + sizeof by - 1 + called : n;
    }
    return 0;
}

#define TAIL_LEAST 6 /* columns of a function's name, below which nothing of it is shown */

/* TEXT, a place of LENGTH bytes and the function in it, in at most WIDTH columns: folders go first, then the
 * function's beginning, then the beginning of the file's name. */
static char *cut_place(const char *text, size_t length, size_t width)
{
    const char *calls = memmem(text, length, " > ", 3), *slash = calls ? NULL : memrchr(text, '/', length);
    if (slash && text_width(slash + 1) + 3 <= width)
        return xformat("...%s", last_columns(text, width - 3));
    if (slash) {
        length -= (size_t)(slash + 1 - text);
        text = slash + 1;
    }
    char *place = xformat("%.*s", (int)length, text), *cut;
    size_t taken = text_width(place);
    if (taken > width)
        cut = xformat("...%s", last_columns(place, width - 3));
    else if (taken + 4 + TAIL_LEAST > width)
        cut = xstrdup(place);
    else
        cut = xformat("%s ...%s", place, last_columns(text + length, width - taken - 4));
    free(place);
    return cut;
}

/* TEXT in at most WIDTH columns: its middle is left out, as ends tell more; the caller frees it. */
static char *cut_middle(const char *text, size_t width)
{
    int32_t code;
    size_t n = 0, at = 0, head = (width - 3) / 3, tail = width - 3 - head, whole = text_width(text);
    if (whole <= width || width < 8)
        return xstrdup(text);
    if (place_length(text))
        return cut_place(text, place_length(text), width);
    while (text[at] && n < head) {
        size_t bytes = (size_t)shown_next((const unsigned char *)text + at, &code);
        char *one = xformat("%.*s", (int)bytes, text + at);
        n += text_width(one);
        at += bytes;
        free(one);
    }
    return xformat("%.*s...%s", (int)at, text, last_columns(text + at, tail));
}

/* ---- onto the page ---- */

/* The sequence that colours a change, "+1.2 GiB" or "-3.4 %"; NULL: TEXT is none. */
static const char *color_of(const struct table *t, const char *text)
{
    if (!t->changes || (text[0] != '+' && text[0] != '-') || text[1] < '0' || text[1] > '9' || !page_color())
        return NULL;
    return text[0] == '+' ? "\033[31m" : "\033[32m";
}

static void put_cell(const struct table *t, FILE *out, const char *whole, size_t width, bool right, bool last)
{
    char *text = cut_middle(whole, width);
    size_t pad = width > text_width(text) ? width - text_width(text) : 0;
    const char *color = color_of(t, whole);
    fprintf(out, "%*s%s%s%s%*s", right ? (int)pad : 0, "", color ? color : "", text, color ? "\033[0m" : "",
            right || last ? 0 : (int)pad, "");
    free(text);
}

static void put_line(const struct table *t, FILE *out, int indent, char *const *cells, const size_t *width,
                     const bool *gone)
{
    /* trailing empty cells leave no blanks behind */
    int last = t->columns - 1;
    while (last > 0 && (gone[last] || (cells[last] && !*cells[last])))
        last--;
    fprintf(out, "%*s", indent, "");
    bool first = true;
    for (int i = 0; i <= last; i++) {
        if (gone[i])
            continue;
        if (!first)
            fputs("  ", out);
        first = false;
        if (cells[i]) {
            put_cell(t, out, cells[i], width[i], t->right[i], i == last);
        } else {
            for (size_t k = 0; k < width[i]; k++)
                fputs(page_ascii() ? "-" : "─", out);
        }
    }
    fputc('\n', out);
}

static void put_gone(const struct table *t, FILE *out, int indent, const bool *gone)
{
    bool any = false;
    for (int i = 0; i < t->columns; i++) {
        if (!gone[i] || !*t->header[i] || t->drops[i] == '0')
            continue;
        if (any)
            fprintf(out, ", %s", t->header[i]);
        else
            fprintf(out, "%*s(no room for: %s", indent, "", t->header[i]);
        any = true;
    }
    if (any)
        fputs("; COLUMNS=200 shows it)\n", out);
}

size_t table_needs(const struct table *t)
{
    static const bool none_gone[TABLE_COLUMNS];
    size_t width[TABLE_COLUMNS] = {0};
    measure(t, width);
    return total(t, width, none_gone);
}

void table_drops(struct table *t, const char *order)
{
    t->drops = order;
}

void table_print(const struct table *t, FILE *out, int indent)
{
    size_t width[TABLE_COLUMNS] = {0}, page = page_room();
    bool header = false, gone[TABLE_COLUMNS] = {false};
    for (int i = 0; i < t->columns; i++)
        header = header || *t->header[i];
    measure(t, width);
    wrap_rows(page == PAGE_ENDLESS && !t->sentences);
    fit(t, width, gone, page > (size_t)indent ? page - (size_t)indent : 0);
    if (header)
        put_line(t, out, indent, (char *const *)t->header, width, gone);
    for (size_t i = 0; i + (size_t)t->columns <= t->cell_count; i += (size_t)t->columns)
        put_line(t, out, indent, t->cells + i, width, gone);
    put_gone(t, out, indent, gone);
    wrap_rows(false);
}

void table_free(struct table *t)
{
    for (size_t i = 0; i < t->cell_count; i++)
        free(t->cells[i]);
    free(t->cells);
    t->cells = NULL;
    t->cell_count = 0;
}
