/* parts.c - see parts.h. */
#include "parts.h"

#include <stdlib.h>
#include <string.h>

#include "analysis/holders.h"
#include "analysis/layers.h"
#include "base/page.h"
#include "base/shown.h"
#include "base/table.h"
#include "base/units.h"
#include "trace/roles.h"
#include "stack.h"

#define B(n)       units_bytes(n, exact).s
#define ROWS       5  /* on the first screen */
#define LAYER_ROOM 34 /* columns of a page of 80 */

/* ---- one moment ---- */

/* The end of a long path tells more than its beginning. */
static char *end_of(const char *text, size_t room)
{
    char *all = xstrdup(shown(text));
    size_t width = text_width(all), skip = 0;
    if (width <= room)
        return all;
    for (size_t left = width - (room - 3); all[skip] && left > 0; left--)
        do
            skip++;
        while ((all[skip] & 0xc0) == 0x80);
    char *cut = xformat("...%s", all + skip);
    free(all);
    return cut;
}

static char *layer_text(const struct part *p)
{
    if (!p->layer)
        return xstrdup("no layer");
    size_t room = page_room() > PAGE_COLUMNS ? page_room() - PAGE_COLUMNS + LAYER_ROOM : LAYER_ROOM;
    char *name = end_of(p->layer, room - (p->layers > 1 ? 6 : 0));
    if (p->layers <= 1)
        return name;
    char *text = xformat("%s x%lld", name, (long long)p->layers);
    free(name);
    return text;
}

static void part_row(struct table *table, int64_t bytes, int64_t whole, const char *what, const char *layer,
                     bool exact)
{
    table_cell(table, "%s", B(bytes));
    table_cell(table, "%s", units_share(bytes, whole).s);
    table_cell(table, "%s", what);
    table_cell(table, "%s", layer);
}

static const char *header_of(bool roles, bool layers)
{
    return !layers ? "held by role" : roles ? "held by role and layer" : "held by layer";
}

void report_parts_text(const struct trace_live *live, size_t n, int64_t whole, FILE *out, bool exact)
{
    bool roles = parts_have_roles(live, n), layers = parts_have_layers(live, n);
    struct table table;
    size_t count;
    int64_t told = 0;
    if (!roles && !layers)
        return;
    struct part *parts = parts_of(live, n, &count);
    bool all = count < ROWS || (count == ROWS && holders_total(live, n) == whole);
    size_t rows = all ? count : ROWS - 1;
    table_init(&table, ">><<", NULL);
    for (size_t i = 0; i < rows; i++) {
        char *layer = layers ? layer_text(&parts[i]) : xstrdup("");
        part_row(&table, parts[i].bytes, whole, parts[i].what, layer, exact);
        told += parts[i].bytes;
        free(layer);
    }
    if (rows < count) {
        char *more = xformat("%zu more", count - rows);
        part_row(&table, whole - told, whole, more, "", exact);
        free(more);
    } else if (told != whole) {
        part_row(&table, whole - told, whole, "not in the file", "", exact);
    }
    fprintf(out, "    %s\n", header_of(roles, layers));
    table_print(&table, out, 6);
    table_free(&table);
    parts_free(parts, count);
}

void report_parts_json(const struct trace_live *live, size_t n, struct json *j)
{
    size_t count;
    struct part *parts = parts_of(live, n, &count);
    json_begin(j, "parts", '[');
    for (size_t i = 0; i < count; i++) {
        json_begin(j, NULL, '{');
        json_text(j, "what", parts[i].what);
        json_text(j, "old_what", vs_role_before(parts[i].what));
        json_text(j, "layer", parts[i].layer);
        json_int(j, "layers", parts[i].layers);
        json_int(j, "size_bytes", parts[i].bytes);
        json_int(j, "allocations", parts[i].count);
        json_end(j);
    }
    json_end(j);
    parts_free(parts, count);
}

/* ---- two ---- */

static bool has_any(const struct lived *l, enum moved_by by)
{
    if (by == MOVED_ROLE)
        return parts_have_roles(l->live, l->n);
    if (by == MOVED_LAYER)
        return parts_have_layers(l->live, l->n);
    for (size_t i = 0; i < l->n; i++)
        if (l->live[i].line)
            return true;
    return false;
}

/* *NAMED: it is called by what was asked for, and not by its lack. */
static char *name_of(const struct trace_live *l, enum moved_by by, bool *named)
{
    if (by == MOVED_ROLE) {
        *named = true;
        return part_what(l);
    }
    char *name = by == MOVED_LAYER ? part_layer(part_layer_of(l), NULL) : l->line ? line_text(l->line) : NULL;
    *named = name != NULL;
    return name ? name : xstrdup(by == MOVED_LAYER ? "no layer" : "no Python line");
}

static void add(struct comparison *c, enum compare_side side, const struct lived *l, enum moved_by by,
                bool only_named)
{
    for (size_t i = 0; i < l->n; i++) {
        bool named;
        char *name = name_of(&l->live[i], by, &named);
        if (named || !only_named)
            compare_add(c, side, name, l->live[i].size);
        free(name);
    }
}

static struct comparison compare(const struct lived *a, const struct lived *b, enum moved_by by,
                                 bool only_named)
{
    struct comparison c = {0};
    add(&c, SIDE_A, a, by, only_named);
    add(&c, SIDE_B, b, by, only_named);
    compare_sort(&c);
    return c;
}

struct comparison moved_of(const struct lived *a, const struct lived *b, enum moved_by by)
{
    bool any = has_any(a, by), other = has_any(b, by);
    if (by == MOVED_ROLE ? !any || !other : !any && !other)
        return (struct comparison){0};
    return compare(a, b, by, false);
}

static int64_t change_of(const struct compared *row)
{
    int64_t a = row->value[SIDE_A], b = row->value[SIDE_B];
    return compare_change(a == UNKNOWN ? 0 : a, b == UNKNOWN ? 0 : b);
}

/* The first row that moved that way: they come with the greatest change first. */
static const struct compared *first_moved(const struct comparison *c, bool grew)
{
    for (size_t i = 0; i < c->count; i++) {
        int64_t by = change_of(&c->rows[i]);
        if (grew ? by > 0 : by < 0)
            return &c->rows[i];
    }
    return NULL;
}

/* Without roles the phases of birth answer; but roles of the one and phases of the other say nothing. */
static bool both_answer(const struct lived *a, const struct lived *b, enum moved_by by)
{
    return by == MOVED_ROLE ? has_any(a, by) == has_any(b, by) : has_any(a, by) && has_any(b, by);
}

char *moved_most(const struct lived *a, const struct lived *b, enum moved_by by, bool grew, int64_t *bytes)
{
    if (!both_answer(a, b, by))
        return NULL;
    struct comparison c = compare(a, b, by, true);
    const struct compared *most = first_moved(&c, grew);
    char *name = most ? xstrdup(most->name) : NULL;
    *bytes = most ? change_of(most) : 0;
    compare_free(&c);
    return name;
}

char *moved_words(const struct lived *a, const struct lived *b, bool grew, bool exact)
{
    static const char *const before[] = {[MOVED_ROLE] = "", [MOVED_LAYER] = "in ", [MOVED_LINE] = "by "};
    char *words = NULL;
    for (int by = MOVED_ROLE; by <= MOVED_LINE; by++) {
        int64_t bytes;
        char *name = moved_most(a, b, (enum moved_by)by, grew, &bytes);
        if (!name)
            continue;
        char *longer = xformat("%s%s%s%s, %s", words ? words : "", words ? "; " : "", before[by], shown(name),
                               units_bytes_change(bytes, exact).s);
        free(words);
        free(name);
        words = longer;
    }
    return words;
}
