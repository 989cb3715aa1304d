/* counts.c - how many blocks of a size there are of a kind (roles.h). */
#include "roles.h"

#include <stdlib.h>
#include <string.h>

#include "base/base.h"

#define FACTOR_MOST 4 /* states of a parameter */
#define SIZES_LEAST 2 /* one alone may be a workspace that is as large as something else */

struct count *counts_of(struct counts *c, const struct life *x)
{
    uint64_t key = x->size ^ (uint64_t)x->device << 58;
    uint32_t at = vs_table_get(&c->index, key);
    if (at == VS_TABLE_NONE) {
        at = (uint32_t)c->n;
        *PUSH(c->at, c->n) = (struct count){.size = x->size};
        if (vs_table_put(&c->index, key, at) < 0)
            exit(complain("out of memory"));
    }
    return &c->at[at];
}

void counts_free(struct counts *c)
{
    free(c->at);
    vs_table_free(&c->index);
    *c = (struct counts){0};
}

/* ---- gradients ---- */

static bool is_gradient(const struct life *x)
{
    return x->rule && vs_role_number(x->rule) == VS_ROLE_GRADIENT;
}

static int by_death(const void *a, const void *b)
{
    const struct life *x = *(const struct life *const *)a, *y = *(const struct life *const *)b;
    return (x->died > y->died) - (x->died < y->died);
}

void counts_gradients(struct counts *c, const struct lives *l)
{
    const struct life **dying = NULL;
    size_t n = 0, next = 0;
    for (size_t i = 0; i < l->n; i++)
        if (is_gradient(&l->at[i]))
            *PUSH(dying, n) = &l->at[i];
    if (n)
        qsort(dying, n, sizeof *dying, by_death);
    for (size_t i = 0; i < l->n; i++) { /* in the order of births */
        const struct life *x = &l->at[i];
        if (!is_gradient(x))
            continue;
        for (; next < n && dying[next]->died < x->born; next++)
            counts_of(c, dying[next])->now--;
        struct count *count = counts_of(c, x);
        if (++count->now > count->gradients)
            count->gradients = count->now;
    }
    free(dying);
}

/* ---- what stays ---- */

bool counts_are_gradients(const struct count *c, uint32_t factor)
{
    return c->kept && c->built == c->kept && c->states == factor * c->kept && (factor || c->later);
}

uint32_t counts_factor(const struct counts *c)
{
    uint64_t all = 0, agree[FACTOR_MOST + 1] = {0};
    uint32_t sizes[FACTOR_MOST + 1] = {0}, best = UINT32_MAX;
    for (size_t i = 0; i < c->n; i++) {
        all += c->at[i].kept;
        for (uint32_t k = 0; k <= FACTOR_MOST; k++) {
            bool agrees = counts_are_gradients(&c->at[i], k);
            agree[k] += agrees ? c->at[i].kept : 0;
            sizes[k] += agrees;
        }
    }
    for (uint32_t k = 0; k <= FACTOR_MOST; k++)
        if (agree[k] * 2 > all && sizes[k] >= SIZES_LEAST)
            best = k;
    return best;
}
