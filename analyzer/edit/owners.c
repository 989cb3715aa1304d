/*
 * owners.c - see owners.h.
 *
 * ZeroRedundancyOptimizer goes over the parameters from the largest to the smallest, and gives each to the
 * rank that has the fewest elements by then, the first of several.  Whose a state is says its place: the
 * optimizer makes all states of one parameter, then those of the next, and temporaries in that order, too.
 * Parameters of a size are the same to an allocator, so it is enough to count by size.
 */
#include "owners.h"

#include <stdlib.h>

static int by_size(const void *a, const void *b)
{
    const struct owned *x = a, *y = b;
    return (x->size < y->size) - (x->size > y->size);
}

/* The first of SIZE; NULL: there is none. */
static struct owned *find(const struct owners *o, uint64_t size)
{
    size_t low = 0, high = o->n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (o->at[middle].size > size)
            low = middle + 1;
        else
            high = middle;
    }
    return low < o->n && o->at[low].size == size ? &o->at[low] : NULL;
}

static size_t count(const struct owners *o, const struct owned *first)
{
    size_t n = 1;
    while (first + n < o->at + o->n && first[n].size == first->size)
        n++;
    return n;
}

/* Ranks beyond one more than there are parameters have none. */
static void give_out(struct owners *o, int64_t ranks)
{
    size_t n = (uint64_t)ranks < o->n + 1 ? (size_t)ranks : o->n + 1;
    uint64_t *load = xrealloc(NULL, n * sizeof *load);
    for (size_t r = 0; r < n; r++)
        load[r] = 0;
    for (size_t i = 0; i < o->n; i++) {
        size_t least = 0;
        for (size_t r = 1; r < n; r++)
            least = load[r] < load[least] ? r : least;
        o->at[i].rank = (int64_t)least;
        load[least] += o->at[i].size;
    }
    size_t most = 0, least = 0;
    for (size_t r = 1; r < n; r++) {
        most = load[r] >= load[most] ? r : most;
        least = load[r] < load[least] ? r : least;
    }
    o->fullest = (int64_t)most;
    o->emptiest = (int64_t)least;
    free(load);
}

struct owners owners_of(const struct program *p, int64_t ranks)
{
    struct owners o = {.n = 0};
    size_t states = 0;
    for (size_t i = 0; i < p->block_count; i++)
        if (p->blocks[i].kind == KIND_PARAMETER)
            *PUSH(o.at, o.n) = (struct owned){.size = p->blocks[i].size};
    if (o.n)
        qsort(o.at, o.n, sizeof *o.at, by_size);
    for (size_t i = 0; i < p->block_count; i++)
        states += p->blocks[i].kind == KIND_STATE && find(&o, p->blocks[i].size);
    o.states = o.n ? states / o.n : 0;
    if (!o.states || states % o.n)
        o.n = 0;
    else
        give_out(&o, ranks);
    return o;
}

void owners_free(struct owners *o)
{
    free(o->at);
    *o = (struct owners){0};
}

int owners_next(struct owners *o, uint64_t size, enum edit_kind kind, int64_t rank)
{
    struct owned *first = o->n ? find(o, size) : NULL;
    if (!first)
        return -1;
    size_t of_size = count(o, first);
    size_t at = kind == KIND_STATE ? first->seen++ / o->states : first->next++;
    return first[at % of_size].rank == rank;
}
