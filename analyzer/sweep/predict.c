/* predict.c - what laws made of the smallest points of a grid of batch and seq say of the others. */
#include "sweep.h"

#include <stdlib.h>
#include <string.h>

#include "law/law.h"

#define FIT_LEAST 3
#define FIT_MOST  5
#define SIZE_MOST (INT64_C(1) << 24) /* laws go no further */

static bool is_size(int64_t x)
{
    return x >= 1 && x <= SIZE_MOST;
}

/* Whether both axes are numbers at point I, which laws have: "auto" is none. */
static bool has_sizes(const struct sweep *s, size_t i)
{
    return is_size(grid_number(&s->grid, s->points[i].values, "batch")) &&
           is_size(grid_number(&s->grid, s->points[i].values, "seq"));
}

static bool tells(const struct sweep *s, const size_t *order, size_t n, const char *axis)
{
    int64_t first = UNKNOWN;
    for (size_t i = 0; i < n; i++) {
        int64_t x = grid_number(&s->grid, s->points[order[i]].values, axis);
        if (first != UNKNOWN && x != first)
            return true;
        first = x;
    }
    for (size_t i = 0; i < s->n; i++) /* the axis has one value: nothing is to be told */
        if (has_sizes(s, i) && grid_number(&s->grid, s->points[i].values, axis) != first)
            return false;
    return true;
}

static int64_t tokens(const struct sweep *s, size_t i)
{
    return grid_number(&s->grid, s->points[i].values, "batch") *
           grid_number(&s->grid, s->points[i].values, "seq");
}

static int by_tokens(const void *a, const void *b, void *context)
{
    int64_t x = tokens(context, *(const size_t *)a), y = tokens(context, *(const size_t *)b);
    return (x > y) - (x < y);
}

/* How many of the points in ORDER, the smallest first, laws are made of; 0: they tell too little. */
static size_t points_for_laws(const struct sweep *s, const size_t *order, size_t n)
{
    for (size_t k = FIT_LEAST; k < n; k++)
        if (tells(s, order, k, "batch") && tells(s, order, k, "seq"))
            return k > FIT_MOST ? k : n - 1 < FIT_MOST ? n - 1 : FIT_MOST;
    return 0;
}

static bool holds_more(const struct rank_figures *a, const struct rank_figures *b)
{
    return a->framework_reserved != b->framework_reserved ? a->framework_reserved > b->framework_reserved
                                                          : a->framework_allocated > b->framework_allocated;
}

/* The recording of rank RANK, UNKNOWN: the one that held most; NULL: there is none with blocks. */
static char *path_of(const struct point *p, int64_t rank)
{
    const struct rank_figures *best = NULL;
    for (size_t i = 0; i < p->n; i++) {
        const struct rank_figures *r = &p->ranks[i];
        if (r->framework_allocated != UNKNOWN && (rank == UNKNOWN || r->rank == rank) &&
            (!best || holds_more(r, best)))
            best = r;
    }
    return best ? best->path : NULL;
}

/* The rank that held most at the largest of the N points in ORDER, and that all have. */
static int64_t rank_of_most(const struct sweep *s, const size_t *order, size_t n)
{
    const struct point *last = &s->points[order[n - 1]];
    const struct rank_figures *best = NULL;
    for (size_t i = 0; i < last->n; i++) {
        const struct rank_figures *r = &last->ranks[i];
        bool everywhere = r->rank != UNKNOWN && r->framework_reserved != UNKNOWN;
        for (size_t k = 0; k < n && everywhere; k++)
            everywhere = path_of(&s->points[order[k]], r->rank) != NULL;
        if (everywhere && (!best || holds_more(r, best)))
            best = r;
    }
    return best ? best->rank : UNKNOWN;
}

/* What laws made of the first USED points in ORDER say of all of which the sizes are known. */
static int forecast(struct sweep *s, const size_t *order, size_t used)
{
    size_t n = 0, *of = xrealloc(NULL, s->n * sizeof *of);
    char **files = xrealloc(NULL, used * sizeof *files);
    struct law_forecast *all = xrealloc(NULL, s->n * sizeof *all);
    for (size_t i = 0; i < used; i++)
        files[i] = path_of(&s->points[order[i]], s->predicted_rank);
    for (size_t i = 0; i < s->n; i++)
        if (has_sizes(s, i)) {
            of[n] = i;
            all[n++] =
                (struct law_forecast){grid_number(&s->grid, s->points[i].values, "batch"),
                                      grid_number(&s->grid, s->points[i].values, "seq"), UNKNOWN, UNKNOWN};
        }
    int bad = law_forecast(files, used, all, n);
    if (!bad) {
        for (size_t i = 0; i < n; i++) {
            s->points[of[i]].predicted_allocated = all[i].allocated;
            s->points[of[i]].predicted_reserved = all[i].reserved;
        }
        for (size_t i = 0; i < used; i++)
            s->points[order[i]].fitted = true;
    }
    free(of);
    free(files);
    free(all);
    return bad;
}

static bool has_axis(const struct sweep *s, const char *name)
{
    for (size_t a = 0; a < s->grid.n; a++)
        if (!strcmp(s->grid.axes[a].name, name))
            return true;
    return false;
}

void predict(struct sweep *s)
{
    size_t n = 0, *order = NULL;
    if (s->grid.n != 2 || !has_axis(s, "batch") || !has_axis(s, "seq")) {
        s->unpredicted = "predictions are made for grids of --grid batch and --grid seq alone";
        return;
    }
    s->unpredicted =
        "too few points ended well with blocks of a framework: predictions need three, of two batches "
        "and two lengths where the grid has them";
    for (size_t i = 0; i < s->n; i++)
        if (has_sizes(s, i) && s->points[i].done && s->points[i].outcome == POINT_OK &&
            path_of(&s->points[i], UNKNOWN))
            *PUSH(order, n) = i;
    if (n)
        qsort_r(order, n, sizeof *order, by_tokens, s);
    size_t used = points_for_laws(s, order, n);
    if (used) {
        s->predicted_rank = rank_of_most(s, order, used);
        s->unpredicted = forecast(s, order, used) ? "the recordings give no laws" : NULL;
    }
    free(order);
}
