/*
 * cause.c - what made a figure: the line, the layer and the role that held the most of it, or that rose the
 * most from one run to another.
 *
 * Equal layers are taken together, as they stand in reports: "layers.3" and "layers.4" are "layers.*".
 */
#include <stdlib.h>
#include <string.h>

#include "analysis/compare.h"
#include "analysis/holders.h"
#include "base/shown.h"
#include "base/units.h"
#include "check.h"
#include "show/report/frames.h"

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
        return l->role && strcmp(l->role, "unknown") != 0 ? xstrdup(l->role) : NULL;
    case PART_HOLDER:
        break;
    }
    return l->phase ? xformat("what was born %s%s", strcmp(l->phase, "none") ? "in " : "outside any phase",
                              strcmp(l->phase, "none") ? l->phase : "")
                    : NULL;
}

static void add_all(struct comparison *c, enum compare_side side, const struct trace_live *live, size_t n,
                    enum part part)
{
    for (size_t i = 0; i < n; i++) {
        char *name = name_of(&live[i], part);
        if (name)
            compare_add(c, side, name, live[i].size);
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
        if (rise(&c.rows[i]) > most.bytes) {
            most.bytes = rise(&c.rows[i]);
            name = c.rows[i].name;
        }
    most.name = name ? xstrdup(name) : NULL;
    compare_free(&c);
    return most;
}

void check_cause(struct check_cause *cause, const struct trace_live *live, size_t n,
                 const struct trace_live *before, size_t before_count)
{
    cause->change = before != NULL;
    cause->line = most_of(live, n, before, before_count, PART_LINE);
    cause->layer = most_of(live, n, before, before_count, PART_LAYER);
    cause->role = most_of(live, n, before, before_count, PART_ROLE);
    cause->holder = most_of(live, n, before, before_count, PART_HOLDER);
}

void check_cause_free(struct check_cause *cause)
{
    free(cause->phase);
    free(cause->line.name);
    free(cause->layer.name);
    free(cause->role.name);
    free(cause->holder.name);
}

/* ---- in words ---- */

static void add_part(char **words, const char *kind, const char *name, int64_t bytes, bool change)
{
    char *longer = xformat("%s%s%s%s %s", *words, **words ? ", " : "", kind, name,
                           change ? units_bytes_change(bytes, false).s : units_bytes(bytes, false).s);
    free(*words);
    *words = longer;
}

char *check_cause_words(const struct check_row *r)
{
    const struct check_cause *cause = &r->cause;
    char *words = xstrdup("");
    bool change = cause->change;
    if (cause->line.name) {
        char *line = line_text(cause->line.name);
        add_part(&words, "line ", shown(line), cause->line.bytes, change);
        free(line);
    }
    if (cause->layer.name)
        add_part(&words, "layer ", shown(cause->layer.name), cause->layer.bytes, change);
    if (cause->role.name)
        add_part(&words, "role ", shown(cause->role.name), cause->role.bytes, change);
    if (cause->holder.name && (!*words || change))
        add_part(&words, "", shown(cause->holder.name), cause->holder.bytes, change);
    if (!*words)
        return words;
    char *all = xformat("%s: %s", change ? "what rose most" : "what held most", words);
    free(words);
    return all;
}
