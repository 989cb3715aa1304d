/*
 * sweep_picture.c - a sweep over its last axis of numbers.  Each combination of the other axes' values is a
 * curve and a colour; points that ended well are measured, and all have their prediction, dashed.
 */
#include "curves.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/shown.h"

#define GIB ((double)(1 << 30))

enum figure { ALLOCATED, RESERVED, FRAMEWORK, RATE, FIGURES };

static double figure_of(const struct trace_sweep_rank *r, enum figure what)
{
    int64_t n = what == ALLOCATED ? r->allocated : what == RESERVED ? r->reserved : r->framework_reserved;
    if (what == RATE)
        return r->rate;
    return n == UNKNOWN ? NAN : (double)n / GIB;
}

#define NUMBER_MOST 1e30 /* of an axis below: beyond it gnuplot's own arithmetic overflows */

/* Whether WORD is a number, as an axis below needs them. */
static bool is_number(const char *word)
{
    char *end = NULL;
    return word && *word && word[strspn(word, "0123456789.eE+-")] == 0 &&
           fabs(strtod(word, &end)) <= NUMBER_MOST && !*end;
}

/* The axis below: the last one of numbers that has several values; axis_count: none. */
static size_t axis_below(const struct trace_sweep *s)
{
    for (size_t a = s->axis_count; a-- > 0;) {
        bool numbers = true, several = false;
        for (size_t i = 0; i < s->n && numbers; i++) {
            numbers = is_number(s->points[i].values[a]);
            several = several || (numbers && strtod(s->points[i].values[a], NULL) !=
                                                 strtod(s->points[0].values[a], NULL));
        }
        if (numbers && several)
            return a;
    }
    return s->axis_count;
}

/* "batch=2", of the axes but BELOW that the point has. */
static char *combination(const struct trace_sweep *s, size_t point, size_t below)
{
    char *name = xstrdup("");
    for (size_t a = 0; a < s->axis_count; a++) {
        if (a == below || !s->points[point].values[a])
            continue;
        char *longer = xformat("%s%s%s=%s", name, *name ? ", " : "", s->axes[a], s->points[point].values[a]);
        free(name);
        name = longer;
    }
    return name;
}

/* What is drawn, and how many values lie on curves that there was no room for. */
struct drawn {
    struct curves *c;
    char **names;                /* of the combinations, in the order of their first point */
    size_t name_count, left_out; /* values, one a panel */
};

/* The curve NAME of PANEL, which is freed; NULL: there is no room for it. */
static struct curve *curve_of(struct drawn *d, struct curve_panel *panel, char *name, size_t color,
                              bool dashed)
{
    for (size_t i = 0; i < panel->n; i++)
        if (!strcmp(panel->curves[i].name, name)) {
            free(name);
            return &panel->curves[i];
        }
    struct curve *c = curves_add(panel, name, (int)color, dashed);
    d->left_out += !c;
    return c;
}

static size_t color_of(struct drawn *d, const char *name)
{
    size_t i = 0;
    while (i < d->name_count && strcmp(d->names[i], name) != 0)
        i++;
    if (i == d->name_count)
        *PUSH(d->names, d->name_count) = xstrdup(name);
    return i;
}

/* Points come in the order of the grid, in which the numbers below need not rise. */
static void add_point(struct curve *c, struct curve_point p)
{
    if (!c)
        return;
    PUSH(c->points, c->n);
    size_t i = c->n - 1;
    for (; i && c->points[i - 1].x > p.x; i--)
        c->points[i] = c->points[i - 1];
    c->points[i] = p;
}

static void add_measured(struct drawn *d, const struct trace_sweep_point *p, double x, const char *name,
                         enum figure what)
{
    struct curve_point at = {x, INFINITY, 0, -INFINITY};
    size_t n = 0;
    for (size_t r = 0; r < p->rank_count; r++) {
        double y = figure_of(&p->ranks[r], what);
        if (isnan(y))
            continue;
        at.least = y < at.least ? y : at.least;
        at.greatest = y > at.greatest ? y : at.greatest;
        at.mean += y;
        n++;
    }
    if (!n || !p->outcome || strcmp(p->outcome, "ok") != 0)
        return;
    at.mean /= (double)n;
    add_point(curve_of(d, &d->c->panels[what], xstrdup(*name ? name : "measured"), color_of(d, name), false),
              at);
}

static void add_predicted(struct drawn *d, const struct trace_sweep_point *p, double x, const char *name)
{
    if (p->predicted == UNKNOWN)
        return;
    double y = (double)p->predicted / GIB;
    char *both = xformat("%s%spredicted", name, *name ? ", " : "");
    add_point(curve_of(d, &d->c->panels[FRAMEWORK], both, color_of(d, name), true),
              (struct curve_point){x, y, y, y});
}

static void add_all(struct drawn *d, const struct trace_sweep *s, size_t below)
{
    for (size_t i = 0; i < s->n; i++) {
        char *name = combination(s, i, below);
        double x = strtod(s->points[i].values[below], NULL);
        for (int what = 0; what < FIGURES; what++)
            add_measured(d, &s->points[i], x, name, (enum figure)what);
        add_predicted(d, &s->points[i], x, name);
        free(name);
    }
}

/* A panel without a curve is none. */
static void drop_empty(struct curves *c)
{
    size_t kept = 0;
    for (size_t i = 0; i < c->n; i++)
        if (c->panels[i].n)
            c->panels[kept++] = c->panels[i];
    c->n = kept;
}

static size_t count_missing(const struct trace_sweep *s)
{
    size_t missing = 0;
    for (size_t i = 0; i < s->n; i++)
        missing += trace_sweep_point_missing(&s->points[i]);
    return missing;
}

/* A picture is looked at by itself: its title says what it lacks.  The caller frees it. */
static char *title_of(const struct sweep_picture *how, size_t missing, size_t points)
{
    const char *title = how->title ? how->title : "least, mean and most over the ranks";
    if (!missing)
        return xstrdup(title);
    return xformat("INCOMPLETE, of %zu of %zu points not every process was recorded: %s", missing, points,
                   title);
}

int sweep_picture_draw(const struct trace_sweep *s, const struct sweep_picture *how)
{
    size_t below = axis_below(s), missing = count_missing(s);
    if (below == s->axis_count)
        return complain(
            "plot: a picture of a sweep needs an axis of two numbers or more, which every point has "
            "(plot FILE#N draws one recording)");
    struct drawn d = {.c = xrealloc(NULL, sizeof *d.c)};
    *d.c = (struct curves){.title = title_of(how, missing, s->n),
                           .x = s->axes[below],
                           .size = {how->size[0], how->size[1]},
                           .n = FIGURES};
    d.c->panels[ALLOCATED] = (struct curve_panel){.title = "allocated", .unit = "GiB"};
    d.c->panels[RESERVED] = (struct curve_panel){.title = "reserved", .unit = "GiB"};
    d.c->panels[FRAMEWORK] =
        (struct curve_panel){.title = "reserved by the framework's allocator", .unit = "GiB"};
    d.c->panels[RATE] = (struct curve_panel){.title = "iterations", .unit = "steps a second"};
    add_all(&d, s, below);
    drop_empty(d.c);
    int status = d.c->n ? curves_draw(d.c, how->path, how->format)
                        : complain("plot: no point that ended well has figures to draw: the log in each "
                                   "point's folder says why");
    if (!status && missing)
        complain("plot: of %zu of %zu points not every process was recorded", missing, s->n);
    if (!status && d.left_out)
        complain("plot: %zu values are left out: a panel has room for %d curves", d.left_out, CURVES_MOST);
    for (size_t i = 0; i < d.name_count; i++)
        free(d.names[i]);
    free(d.names);
    curves_free(d.c);
    free(d.c);
    return status;
}
