/*
 * largest.c - searches the largest size that fits (largest.h): for each value of the second axis trials that
 * search.c asks for, as many at a time as there are cores, with what the folder has from before.
 */
#include "largest.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/args.h"
#include "base/shown.h"
#include "base/page.h"
#include "attempt.h"

#define AXES 2

/* ---- axes ---- */

static bool is_number(const char *text, double *x)
{
    char *end;
    *x = strtod(text, &end);
    return end != text && !*end && isfinite(*x);
}

static int check_rises(const struct grid_axis *axis)
{
    double last = -INFINITY, x;
    for (size_t i = 0; i < axis->n; i++) {
        if (!is_number(axis->values[i], &x) || x <= 0 || x <= last)
            return complain("fit: --max %s takes numbers that rise, as 1..256 or 8,16,32, not '%s'",
                            axis->name, shown(axis->values[i]));
        last = x;
    }
    return 0;
}

static int read_axes(struct largest *l, const struct arg_list *max, char *const *command)
{
    struct grid *g = &l->sweep.grid;
    int bad = grid_read(g, "fit: --max", max);
    if (!bad && g->n > AXES)
        bad = complain("fit: --max is given more than twice");
    if (!bad)
        bad = check_rises(&g->axes[0]);
    if (!bad)
        bad = grid_check(g, command);
    if (bad)
        return bad;
    if (g->n > 1) { /* pictures are over the last */
        struct grid_axis searched = g->axes[0];
        g->axes[0] = g->axes[1];
        g->axes[1] = searched;
    }
    const struct grid_axis *a = &g->axes[g->n - 1];
    l->axis = (struct axis){a, strstr(max->values[0], "..") != NULL, strtoll(a->values[0], NULL, 10),
                            (int64_t)a->n};
    if (l->axis.whole)
        l->axis.n = strtoll(a->values[a->n - 1], NULL, 10) - l->axis.first + 1;
    l->n = g->n > 1 ? g->axes[0].n : 1;
    l->rows = xrealloc(NULL, l->n * sizeof *l->rows);
    for (size_t i = 0; i < l->n; i++)
        l->rows[i] = (struct row){g->n > 1 ? g->axes[0].values[i] : NULL, {-1, 0, 0, false}};
    return 0;
}

char *largest_value(const struct largest *l, int64_t at)
{
    return l->axis.whole ? xformat("%" PRId64, l->axis.first + at) : xstrdup(l->axis.of->values[at]);
}

static double size_of(const void *context, int64_t at)
{
    const struct largest *l = context;
    return l->axis.whole ? (double)(l->axis.first + at) : strtod(l->axis.of->values[at], NULL);
}

/* The index of a value; -1: it is in question no more. */
static int64_t index_of(const struct largest *l, const char *value)
{
    char *end;
    for (int64_t i = 0; !l->axis.whole && i < l->axis.n; i++)
        if (!strcmp(l->axis.of->values[i], value))
            return i;
    long long at = strtoll(value, &end, 10) - l->axis.first;
    return l->axis.whole && end != value && !*end && at >= 0 && at < l->axis.n ? at : -1;
}

/* ---- points ---- */

static size_t add_point(struct largest *l, const char *value, const char *other)
{
    struct sweep *s = &l->sweep;
    point_begin(PUSH(s->points, s->n), &s->grid, l->folder,
                (const char *const[]){other ? other : value, value});
    return s->n - 1;
}

/* The value of axis A in NAME, "batch=8,seq=512"; NULL: it has none. The caller frees it. */
static char *value_in(const struct grid *g, const char *name, size_t a)
{
    for (size_t i = 0; i < a && name; i++)
        name = strchr(name, ',') ? strchr(name, ',') + 1 : NULL;
    size_t n = strlen(g->axes[a].name);
    if (!name || strncmp(name, g->axes[a].name, n) != 0 || name[n] != '=')
        return NULL;
    return xformat("%.*s", (int)strcspn(name + n + 1, ","), name + n + 1);
}

static bool is_row(const struct largest *l, const char *value)
{
    for (size_t i = 0; i < l->n; i++)
        if (!value || (l->rows[i].value && !strcmp(l->rows[i].value, value)))
            return true;
    return false;
}

/* Those that say something; a program that failed by itself may do better today. */
static void take_old(struct largest *l, const char *name)
{
    const struct grid *g = &l->sweep.grid;
    char *value = value_in(g, name, g->n - 1), *other = g->n > 1 ? value_in(g, name, 0) : NULL;
    if (value && index_of(l, value) >= 0 && (g->n == 1 || other) && is_row(l, other)) {
        size_t at = add_point(l, value, other);
        struct point *p = &l->sweep.points[at];
        if (strcmp(p->name, name) != 0 || !p->done ||
            (p->outcome != POINT_OK && p->outcome != POINT_OOM && p->outcome != POINT_BETWEEN)) {
            point_free(p);
            l->sweep.n--;
        }
    }
    free(value);
    free(other);
}

static void load(struct largest *l)
{
    DIR *folder = opendir(l->folder);
    for (struct dirent *e; folder && (e = readdir(folder));)
        take_old(l, e->d_name);
    if (folder)
        closedir(folder);
}

const char *largest_at(const struct largest *l, const struct point *p)
{
    return p->values[l->sweep.grid.n - 1];
}

static bool is_of(const struct point *p, const struct row *r)
{
    return !r->value || !strcmp(p->values[0], r->value);
}

const struct point *largest_point(const struct largest *l, const struct row *r, int64_t at)
{
    for (size_t i = 0; i < l->sweep.n; i++)
        if (is_of(&l->sweep.points[i], r) && index_of(l, largest_at(l, &l->sweep.points[i])) == at)
            return &l->sweep.points[i];
    return NULL;
}

static int by_size(const void *a, const void *b, void *context)
{
    const struct largest *l = context;
    const struct point *x = a, *y = b;
    size_t rows[2] = {0, 0};
    for (size_t i = 0; i < l->n; i++) {
        rows[0] = is_of(x, &l->rows[i]) ? i : rows[0];
        rows[1] = is_of(y, &l->rows[i]) ? i : rows[1];
    }
    if (rows[0] != rows[1])
        return rows[0] < rows[1] ? -1 : 1;
    int64_t i = index_of(l, largest_at(l, x)), k = index_of(l, largest_at(l, y));
    return (i > k) - (i < k);
}

/* ---- the search of a row ---- */

/* Of the device. */
static double need_of(const struct dry_answer *d)
{
    bool known = d->there && d->at_peak[1] != UNKNOWN && d->beside != UNKNOWN;
    return known ? (double)d->at_peak[1] + (double)d->beside : NAN;
}

static struct trial trial_of(const struct largest *l, const struct point *p)
{
    static const enum trial_state states[OUTCOMES] = {TRIAL_FITS,    TRIAL_REFUSED, TRIAL_STOPPED,
                                                      TRIAL_STOPPED, TRIAL_BETWEEN, TRIAL_STOPPED};
    return (struct trial){index_of(l, largest_at(l, p)), states[p->outcome], need_of(&p->dry)};
}

static double room(const struct largest *l)
{
    for (size_t i = 0; i < l->sweep.n; i++)
        if (l->sweep.points[i].dry.there && l->sweep.points[i].dry.device != UNKNOWN)
            return (double)l->sweep.points[i].dry.device;
    return NAN;
}

/* The trials of row R so far; the caller frees them. */
static struct trial *trials(const struct largest *l, const struct row *r, size_t *n)
{
    struct trial *all = NULL;
    *n = 0;
    for (size_t i = 0; i < l->sweep.n; i++)
        if (is_of(&l->sweep.points[i], r) && l->sweep.points[i].done)
            *PUSH(all, *n) = trial_of(l, &l->sweep.points[i]);
    return all;
}

/* Twice the length, half the batch: what row R may have, by the one before it; NAN. */
static double guess_of(const struct largest *l, const struct row *r)
{
    double x, y;
    const struct row *before = r - 1;
    if (r == l->rows || before->found.fits < 0)
        return NAN;
    double size = size_of(l, before->found.fits);
    return is_number(before->value, &x) && is_number(r->value, &y) && y > 0 ? (size + 0.5) * x / y : size;
}

static char *state_of(const struct largest *l, const struct row *r)
{
    char *fits = r->found.fits < 0 ? NULL : largest_value(l, r->found.fits),
         *over = r->found.over >= l->axis.n ? NULL : largest_value(l, r->found.over);
    char *text =
        xformat("%s%s%s%s%s%s%s%s%s", r->value ? l->sweep.grid.axes[0].name : "", r->value ? "=" : "",
                r->value ? r->value : "", r->value ? ": " : "", l->axis.of->name, fits ? " fits " : "",
                fits ? fits : "", over ? " not " : "", over ? over : "");
    free(fits);
    free(over);
    return text;
}

static int try_all(struct largest *l, const struct row *r, const int64_t *ask, size_t n)
{
    size_t *which = xrealloc(NULL, n * sizeof *which);
    for (size_t i = 0; i < n; i++) {
        char *value = largest_value(l, ask[i]);
        which[i] = add_point(l, value, r->value);
        free(value);
    }
    char *state = state_of(l, r);
    l->work.state = state;
    int status = work_run(&l->work, which, n);
    l->work.state = NULL;
    free(state);
    free(which);
    return status;
}

static int search_row(struct largest *l, struct row *r)
{
    size_t cores = l->work.jobs, n;
    int64_t *ask = xrealloc(NULL, cores * sizeof *ask);
    int status = 0;
    do {
        struct search s = {
            .n = l->axis.n, .size = size_of, .context = l, .room = room(l), .guess = guess_of(l, r)};
        struct trial *all = trials(l, r, &s.count);
        s.all = all;
        r->found = search_found(&s);
        n = search_next(&s, ask, cores);
        free(all);
        status = n ? try_all(l, r, ask, n) : 0;
    } while (n && !status);
    free(ask);
    return status;
}

/* ---- all ---- */

static int answer(struct largest *l, const struct largest_options *o)
{
    if (l->sweep.n)
        qsort_r(l->sweep.points, l->sweep.n, sizeof *l->sweep.points, by_size, l);
    if (l->json) {
        largest_json(l, stdout);
    } else {
        wrap_page_begin(false);
        largest_text(l, stdout);
        wrap_page_end();
    }
    int bad = o->output ? database_all(&l->sweep, l->folder, NULL) : 0;
    return bad ? bad : largest_status(l);
}

static int search_all(struct largest *l, const struct largest_options *o)
{
    int status = database_check("fit", l->folder);
    if (!status)
        status = claim_folder("fit", l->folder, l->work.own, l->work.command);
    if (status)
        return status;
    load(l);
    for (size_t i = 0; i < l->n && !status; i++)
        status = search_row(l, &l->rows[i]);
    if (status == 1)
        return complain("fit: interrupted%s", o->output ? ": the same command goes on where it was" : "");
    return status ? status : answer(l, o);
}

static void forget(struct largest *l)
{
    for (size_t i = 0; i < l->sweep.n; i++)
        point_free(&l->sweep.points[i]);
    free(l->sweep.points);
    grid_free(&l->sweep.grid);
    words_free((char **)l->work.own);
    free(l->rows);
}

int largest_find(const struct attempt_setup *s, const struct largest_options *o)
{
    struct folder scratch = {NULL, NULL};
    struct largest l = {
        .setup = s, .sweep = {.who = "fit", .dry = true, .predicted_rank = UNKNOWN}, .json = o->json};
    l.work = (struct work){.sweep = &l.sweep,
                           .own = dry_words(o->dry),
                           .command = s->command,
                           .limit = INT64_C(3600000000000),
                           .quiet = true,
                           .jobs = o->jobs ? (size_t)o->jobs : work_cores()};
    int status = read_axes(&l, o->max, s->command);
    if (!status && !o->output)
        status = folder_make(&scratch, NULL);
    l.folder = o->output ? o->output : scratch.path;
    if (!status)
        status = search_all(&l, o);
    folder_remove(&scratch);
    forget(&l);
    return status;
}
