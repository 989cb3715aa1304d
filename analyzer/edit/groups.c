/*
 * groups.c - see groups.h.
 *
 * Parameters are made before any module is called, so nothing says which unit each is of.  Its gradient is
 * made where backward goes through the unit, and is as large: the gradients of the step that had most of them
 * are taken for the parameters.  What has none (it is frozen, or shared with another layer) is in no unit's;
 * DDP's buckets and an optimizer's shares have no part of it.
 */
#include "groups.h"

#include <stdlib.h>
#include <string.h>

#define RANKS_MOST 4096 /* beyond that the largest parameter alone says how uneven the ranks are */

static void empty(struct groups *g)
{
    for (size_t i = 0; i < g->n; i++) {
        free(g->at[i].sizes);
        g->at[i] = (struct group){.n = 0};
    }
}

static struct groups none(size_t n)
{
    struct groups g = {.n = n};
    g.at = xrealloc(NULL, n * sizeof *g.at);
    memset(g.at, 0, n * sizeof *g.at);
    return g;
}

static uint64_t bytes_of(const struct groups *g)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < g->n; i++)
        bytes += g->at[i].bytes;
    return bytes;
}

static void add(struct group *g, uint64_t size)
{
    *PUSH(g->sizes, g->n) = size;
    g->bytes += size;
}

/* The better of the two is *BEST then, and NOW is empty. */
static void keep_better(struct groups *best, struct groups *now)
{
    if (bytes_of(now) > bytes_of(best)) {
        struct groups other = *best;
        *best = *now;
        *now = other;
    }
    empty(now);
}

static void add_rest(const struct program *p, struct groups *g, bool high)
{
    uint64_t all = program_most(p, KIND_PARAMETER), known = bytes_of(g), largest = 0;
    if (known >= all)
        return;
    for (size_t i = 0; i < p->block_count; i++)
        if (p->blocks[i].kind == KIND_PARAMETER && p->blocks[i].size > largest)
            largest = p->blocks[i].size;
    uint64_t rest = all - known;
    add(&g->at[g->n - 1], high || rest < 2 * largest ? rest : 2 * largest);
}

struct groups groups_of_gradients(const struct program *p)
{
    size_t n = p->facts->units + (size_t)1;
    struct groups best = none(n), now = none(n);
    for (size_t i = 0; i < p->event_count; i++) {
        const struct trace_moment *e = &p->events[i];
        if (e->what == MOMENT_STEP)
            keep_better(&best, &now);
        if (e->what != MOMENT_BORN || p->blocks[e->block].kind != KIND_GRADIENT)
            continue;
        uint16_t unit = program_stack(p, &p->blocks[e->block])->unit;
        add(&now.at[unit < n - 1 ? unit : n - 1], p->blocks[e->block].size);
    }
    keep_better(&best, &now);
    free(now.at);
    return best;
}

struct groups groups_of(const struct program *p, bool high)
{
    struct groups g = groups_of_gradients(p);
    add_rest(p, &g, high);
    return g;
}

void groups_free(struct groups *g)
{
    empty(g);
    free(g->at);
    *g = (struct groups){.n = 0};
}

double groups_unevenness(const struct groups *g, int64_t n)
{
    struct sizes all = {.n = 0};
    double total = 0, most = 0;
    for (size_t i = 0; i < g->n; i++)
        for (size_t k = 0; k < g->at[i].n; k++)
            *PUSH(all.at, all.n) = g->at[i].sizes[k];
    sizes_sort(&all);
    int64_t ranks = n < RANKS_MOST ? n : RANKS_MOST;
    double *loads = xrealloc(NULL, (size_t)ranks * sizeof *loads);
    memset(loads, 0, (size_t)ranks * sizeof *loads);
    for (size_t i = all.n; i-- > 0;) {
        int64_t least = 0;
        for (int64_t k = 1; k < ranks; k++)
            least = loads[k] < loads[least] ? k : least;
        loads[least] += (double)all.at[i];
        most = loads[least] > most ? loads[least] : most;
        total += (double)all.at[i];
    }
    free(loads);
    free(all.at);
    return total > 0 ? most * (double)n / total : 1;
}
