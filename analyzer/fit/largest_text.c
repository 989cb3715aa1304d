/* largest_text.c - the largest size that fits, for people and for programs. */
#include <stdlib.h>
#include <string.h>

#include "base/args.h"
#include "base/json.h"
#include "base/shown.h"
#include "base/table.h"
#include "base/units.h"
#include "base/page.h"
#include "largest.h"
#include "reply.h"

#define STOPS 64 /* of the smallest sizes, that are said */

/* ---- the end of a row ---- */

static const struct point *over_of(const struct largest *l, const struct row *r)
{
    return largest_point(l, r, r->found.over);
}

static bool is_stop(const struct point *p)
{
    return p && (p->outcome == POINT_CRASH || p->outcome == POINT_HANG || p->outcome == POINT_UNKNOWN);
}

static char *why(const struct point *p)
{
    char *status = p->outcome == POINT_HANG ? xstrdup("it had not ended after an hour") : point_status(p);
    char *text = p->dry.last_line ? xformat("%s: %s", status, shown(p->dry.last_line)) : xstrdup(status);
    free(status);
    return text;
}

/* "at 25 the program failed by itself, it ended with status 1: ..."; the caller frees it. */
static char *stop_words(const struct largest *l, const struct point *p)
{
    char *reason = why(p);
    char *text =
        xformat("at %s %s, %s", largest_at(l, p),
                p->outcome == POINT_UNKNOWN ? "nobody can tell" : "the program failed by itself", reason);
    free(reason);
    return text;
}

/* The first that certainly does not fit; NULL: none was found. */
static const struct point *refused_of(const struct largest *l, const struct row *r)
{
    const struct point *p = largest_point(l, r, r->found.refused);
    return p && p->outcome == POINT_OOM ? p : NULL;
}

static char *between_words(const struct largest *l, const struct row *r)
{
    const struct point *refused = refused_of(l, r);
    return xformat("of %s it can't be told, as not all is known exactly%s%s%s", largest_at(l, over_of(l, r)),
                   refused ? "; " : "", refused ? largest_at(l, refused) : "", refused ? " does not" : "");
}

/* What is said of the sizes beyond the largest; the caller frees it. */
static char *over_words(const struct largest *l, const struct row *r)
{
    const struct point *p = over_of(l, r);
    if (!p)
        return xstrdup("it is the largest that was asked for");
    if (is_stop(p))
        return stop_words(l, p);
    if (p->outcome == POINT_BETWEEN)
        return between_words(l, r);
    return xformat(r->found.fits < 0 ? "%s, the smallest, does not" : "%s does not; both were run",
                   largest_at(l, p));
}

int largest_status(const struct largest *l)
{
    int stopped = EXIT_GOOD;
    bool fits = false;
    for (size_t i = 0; i < l->n; i++) {
        const struct point *p = over_of(l, &l->rows[i]);
        bool some = l->rows[i].found.fits >= 0;
        fits = fits || some;
        if (is_stop(p) && p->outcome != POINT_UNKNOWN)
            stopped = EXIT_USAGE;
        else if ((is_stop(p) || (p && p->outcome == POINT_BETWEEN && !some)) && !stopped)
            stopped = EXIT_INCOMPLETE;
    }
    return stopped ? stopped : fits ? EXIT_GOOD : EXIT_CHECK;
}

/* ---- for people ---- */

static void print_one(const struct largest *l, FILE *out)
{
    const struct row *r = &l->rows[0];
    const struct point *p = largest_point(l, r, r->found.fits);
    char *device = device_words(l->setup), *over = over_words(l, r);
    if (p && p->dry.left != UNKNOWN)
        wrap_print(out, 0, 2, "largest %s that fits %s: %s, with %s to spare", l->axis.of->name, device,
                   largest_at(l, p), units_bytes(p->dry.left, false).s);
    else if (p)
        wrap_print(out, 0, 2, "largest %s that fits %s: %s", l->axis.of->name, device, largest_at(l, p));
    else
        wrap_print(out, 0, 2, "%s %s fits %s",
                   over_of(l, r)->outcome == POINT_OOM ? "no" : "it is not known which", l->axis.of->name,
                   device);
    wrap_print(out, 2, 4, "%s", over);
    free(over);
    free(device);
}

static void print_rows(const struct largest *l, FILE *out)
{
    char *device = device_words(l->setup), *largest = xformat("LARGEST %s", l->axis.of->name);
    const char *const header[] = {l->sweep.grid.axes[0].name, largest, "LEFT", ""};
    struct table t;
    wrap_print(out, 0, 2, "largest %s for each %s that fits %s", l->axis.of->name, l->sweep.grid.axes[0].name,
               device);
    fputc('\n', out);
    table_init(&t, ">>><", header);
    t.sentences = true;
    for (size_t i = 0; i < l->n; i++) {
        const struct row *r = &l->rows[i];
        const struct point *p = largest_point(l, r, r->found.fits);
        char *over = over_words(l, r);
        table_cell(&t, "%s", r->value);
        table_cell(&t, "%s", p ? largest_at(l, p) : "none");
        table_cell(&t, "%s", p && p->dry.left != UNKNOWN ? units_bytes(p->dry.left, false).s : "-");
        table_cell(&t, "%s", over);
        free(over);
    }
    table_print(&t, out, 2);
    table_free(&t);
    free(largest);
    free(device);
}

/* Smaller ones at which the program failed. */
static void print_stops(const struct largest *l, FILE *out)
{
    for (size_t i = 0; i < l->n; i++)
        for (int64_t at = 0; at < l->rows[i].found.fits && at < STOPS; at++) {
            const struct point *p = largest_point(l, &l->rows[i], at);
            char *text = is_stop(p) ? stop_words(l, p) : NULL;
            if (text)
                wrap_print(out, 2, 4, "%s%s%s", l->rows[i].value ? l->rows[i].value : "",
                           l->rows[i].value ? ": " : "", text);
            free(text);
        }
}

static void print_assumption(const struct largest *l, FILE *out)
{
    bool contradicted = false;
    for (size_t i = 0; i < l->n; i++)
        contradicted = contradicted || l->rows[i].found.contradicted;
    if (contradicted)
        wrap_print(
            out, 2, 4,
            "a smaller one than the largest does not fit: so larger ones that were not run may fit, too");
    else
        wrap_print(out, 2, 4, "what fits is taken to fit at every smaller size: not all were run");
}

void largest_text(const struct largest *l, FILE *out)
{
    if (l->sweep.grid.n > 1)
        print_rows(l, out);
    else
        print_one(l, out);
    print_assumption(l, out);
    print_stops(l, out);
    if (l->work.runs < l->sweep.n)
        wrap_print(out, 2, 4, "%s, of which %zu were run now", units_count((int64_t)l->sweep.n, "point").s,
                   l->work.runs);
    fputc('\n', out);
    show_dry_table(&l->sweep, out);
}

/* ---- for programs ---- */

static void write_value(const struct largest *l, const char *name, int64_t at, struct json *j)
{
    char *value = at >= 0 && at < l->axis.n ? largest_value(l, at) : NULL;
    json_text(j, name, value);
    free(value);
}

static void write_row(const struct largest *l, const struct row *r, struct json *j)
{
    const struct point *p = over_of(l, r);
    char *reason = is_stop(p) ? why(p) : NULL;
    json_begin(j, NULL, '{');
    json_text(j, "at", r->value);
    write_value(l, "largest", r->found.fits, j);
    write_value(l, "next", r->found.over, j);
    json_text(j, "next_outcome", p ? outcome_names[p->outcome] : NULL);
    json_text(j, "next_why", reason);
    json_text(j, "refused", refused_of(l, r) ? largest_at(l, refused_of(l, r)) : NULL);
    json_bool(j, "contradicted", r->found.contradicted);
    json_end(j);
    free(reason);
}

static void write_point(const struct largest *l, const struct point *p, struct json *j)
{
    bool told = p->dry.there;
    json_begin(j, NULL, '{');
    json_text(j, "point", p->name);
    json_begin(j, "values", '[');
    for (size_t a = 0; a < l->sweep.grid.n; a++) {
        json_begin(j, NULL, '{');
        json_text(j, "name", l->sweep.grid.axes[a].name);
        json_text(j, "value", p->values[a]);
        json_end(j);
    }
    json_end(j);
    json_text(j, "outcome", outcome_names[p->outcome]);
    json_text(j, "why", told ? p->dry.why : NULL);
    json_bool(j, "exact", told && p->dry.exact);
    json_int(j, "allocated_bytes", told ? p->dry.at_peak[0] : UNKNOWN);
    json_int(j, "reserved_bytes", told ? p->dry.at_peak[1] : UNKNOWN);
    json_int(j, "beside_bytes", told ? p->dry.beside : UNKNOWN);
    json_int(j, "left_bytes", told ? p->dry.left : UNKNOWN);
    json_text(j, "folder", p->folder);
    json_end(j);
}

void largest_json(const struct largest *l, FILE *out)
{
    struct json j;
    json_document(&j, out);
    json_bool(&j, "dry", true);
    json_text(&j, "gpu", l->setup->card->key);
    json_text(&j, "searched", l->axis.of->name);
    json_text(&j, "for_each", l->sweep.grid.n > 1 ? l->sweep.grid.axes[0].name : NULL);
    json_begin(&j, "largest", '[');
    for (size_t i = 0; i < l->n; i++)
        write_row(l, &l->rows[i], &j);
    json_end(&j);
    json_int(&j, "points_run", (int64_t)l->work.runs);
    json_begin(&j, "points", '[');
    for (size_t i = 0; i < l->sweep.n; i++)
        write_point(l, &l->sweep.points[i], &j);
    json_close(&j);
}
