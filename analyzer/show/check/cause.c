/*
 * cause.c - what made a figure: the line, the layer and the role that held the most of it, or that rose the
 * most from one run to another.  Equal layers are taken together ("layers.*").
 *
 * Where more has no line than the greatest line holds, that line is the greatest "of the lines known", and
 * the greatest place is named, too, as the report does.
 */
#include <stdlib.h>
#include <string.h>

#include "analysis/compare.h"
#include "analysis/holders.h"
#include "base/shown.h"
#include "base/units.h"
#include "check.h"
#include "show/report/code.h"
#include "show/report/stack.h"
#include "read/living.h"
#include "trace/roles.h"

#define UNNAMED "" /* in a comparison: all that has no name */

enum part { PART_LINE, PART_LAYER, PART_ROLE, PART_HOLDER };

/* LAYER with a star for each number in it. */
static char *starred(const char *layer)
{
    char *out = xstrdup(layer), *to = out;
    for (const char *from = layer; *from;) {
        size_t n = strcspn(from, "./"), digits = strspn(from, "0123456789");
        if (n && digits == n) {
            *to++ = '*';
        } else {
            memcpy(to, from, n);
            to += n;
        }
        from += n;
        if (*from)
            *to++ = *from++;
    }
    *to = 0;
    return out;
}

static char *name_of(const struct trace_live *l, enum part part)
{
    switch (part) {
    case PART_LINE:
        return l->line ? xstrdup(l->line) : NULL;
    case PART_LAYER:
        return l->layer ? starred(l->layer) : NULL;
    case PART_ROLE:
        return vs_role_named(l->role) != VS_ROLE_UNTOLD ? xstrdup(l->role) : NULL;
    case PART_HOLDER:
        break;
    }
    return l->phase ? xformat("what was made %s%s", strcmp(l->phase, "none") ? "in " : "outside any phase",
                              strcmp(l->phase, "none") ? l->phase : "")
                    : NULL;
}

static void add_all(struct comparison *c, enum compare_side side, const struct trace_live *live, size_t n,
                    enum part part)
{
    for (size_t i = 0; i < n; i++) {
        char *name = name_of(&live[i], part);
        compare_add(c, side, name ? name : UNNAMED, live[i].size);
        free(name);
    }
}

static int64_t rise(const struct compared *row)
{
    int64_t before = row->value[SIDE_A] == UNKNOWN ? 0 : row->value[SIDE_A];
    return (row->value[SIDE_B] == UNKNOWN ? 0 : row->value[SIDE_B]) - before;
}

static struct check_part most_of(const struct trace_live *live, size_t n, const struct trace_live *before,
                                 size_t before_count, enum part part)
{
    struct comparison c = {0};
    struct check_part most = {0};
    add_all(&c, SIDE_A, before, before_count, part);
    add_all(&c, SIDE_B, live, n, part);
    const char *name = NULL;
    for (size_t i = 0; i < c.count; i++)
        if (!strcmp(c.rows[i].name, UNNAMED)) {
            most.unnamed = rise(&c.rows[i]);
        } else if (rise(&c.rows[i]) > most.bytes) {
            most.bytes = rise(&c.rows[i]);
            name = c.rows[i].name;
        }
    most.name = name ? xstrdup(name) : NULL;
    compare_free(&c);
    return most;
}

/* The place of what lived that held the most, whether or not its line is known. */
static void greatest_place(struct check_cause *cause, struct trace *t, const struct trace_live *live,
                           size_t n)
{
    struct comparison places = {0}, codes = {0};
    size_t looked_up = 0;
    for (size_t i = 0; i < n; i++) {
        bool code;
        char *place = report_code_place(t, &live[i], &looked_up, &code);
        if (live[i].line) {
            free(place);
            place = xstrdup(live[i].line);
        }
        compare_add(&places, SIDE_B, place, live[i].size);
        if (code)
            compare_add(&codes, SIDE_B, place, live[i].size);
        free(place);
    }
    const char *name = NULL;
    for (size_t i = 0; i < places.count; i++)
        if (rise(&places.rows[i]) > cause->place.bytes) {
            cause->place.bytes = rise(&places.rows[i]);
            name = places.rows[i].name;
        }
    cause->place.name = name ? xstrdup(name) : NULL;
    cause->place_is_code = name && compare_find(&codes, SIDE_B, name) != UNKNOWN;
    compare_free(&places);
    compare_free(&codes);
}

void check_cause(struct check_cause *cause, struct trace *t, const struct trace_live *live, size_t n,
                 const struct trace_live *before, size_t before_count)
{
    cause->change = before != NULL;
    if (!before)
        greatest_place(cause, t, live, n);
    cause->line = most_of(live, n, before, before_count, PART_LINE);
    cause->layer = most_of(live, n, before, before_count, PART_LAYER);
    cause->role = most_of(live, n, before, before_count, PART_ROLE);
    cause->holder = most_of(live, n, before, before_count, PART_HOLDER);
}

void check_cause_free(struct check_cause *cause)
{
    free(cause->phase);
    free(cause->place.name);
    free(cause->line.name);
    free(cause->layer.name);
    free(cause->role.name);
    free(cause->holder.name);
}

/* ---- in words ---- */

static void add_part(char **words, const char *kind, const char *name, int64_t bytes, bool change)
{
    xappend(words, "%s%s%s%s %s", **words ? ", " : "", kind, *kind ? " " : "", name,
            change ? units_bytes_change(bytes, false).s : units_bytes(bytes, false).s);
}

/* Nothing is called the greatest layer where what has none may be of a greater one. */
static void add_known(char **words, const char *kind, const struct check_part *part, const char *name,
                      bool change)
{
    bool less = part->unnamed > part->bytes;
    char *known = less ? xformat("of the %ss known", kind) : xstrdup(kind);
    add_part(words, known, shown(name), part->bytes, change);
    free(known);
}

/* A greatest place that is no line; the phase alone only beside lines that are known. */
static bool place_leads(const struct check_cause *cause)
{
    return cause->place.name && (!cause->line.name || cause->place.bytes > cause->line.bytes) &&
           (cause->place_is_code || cause->line.name);
}

char *check_cause_words(const struct check_row *r)
{
    const struct check_cause *cause = &r->cause;
    char *words = xstrdup("");
    bool change = cause->change, holder_first = cause->holder.bytes > cause->line.bytes;
    if (place_leads(cause))
        add_part(&words, "", shown(cause->place.name), cause->place.bytes, change);
    if (change && cause->holder.name && holder_first)
        add_part(&words, "", shown(cause->holder.name), cause->holder.bytes, change);
    if (cause->line.name) {
        char *line = line_text(cause->line.name);
        struct check_part part = cause->line;
        part.unnamed = !change && !place_leads(cause) ? 0 : part.unnamed;
        add_known(&words, "line", &part, line, change);
        free(line);
    }
    if (cause->layer.name)
        add_known(&words, "layer", &cause->layer, cause->layer.name, change);
    if (cause->role.name)
        add_known(&words, "role", &cause->role, cause->role.name, change);
    if (cause->holder.name && (!*words || (change && !holder_first)))
        add_part(&words, "", shown(cause->holder.name), cause->holder.bytes, change);
    if (!*words)
        return words;
    char *all = xformat("%s: %s", change ? "what rose most" : "what held most", words);
    free(words);
    return all;
}
