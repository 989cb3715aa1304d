/* ranking.c - see ranking.h: a binary heap. */
#include "ranking.h"

#include <stdbool.h>

struct vs_ranking vs_rankings[VS_RANKINGS];

void vs_rankings_place(struct vs_ranked *room, size_t most)
{
    for (size_t i = 0; i < VS_RANKINGS; i++)
        vs_rankings[i] = (struct vs_ranking){.at = room + i * most};
}

static bool is_before(const struct vs_ranked *a, const struct vs_ranked *b)
{
    if (a->by != b->by)
        return a->by < b->by;
    return a->then != b->then ? a->then < b->then : a->w < b->w;
}

void vs_ranking_add(struct vs_ranking *r, struct vs_ranked it)
{
    size_t i = r->count++;
    for (; i != 0 && is_before(&it, &r->at[(i - 1) / 2]); i = (i - 1) / 2)
        r->at[i] = r->at[(i - 1) / 2];
    r->at[i] = it;
}

struct vs_watched *vs_ranking_take(struct vs_ranking *r)
{
    if (r->count == 0)
        return NULL;
    struct vs_ranked first = r->at[0], last = r->at[--r->count];
    size_t i = 0;
    for (size_t below = 1; below < r->count; i = below, below = 2 * i + 1) {
        below += below + 1 < r->count && is_before(&r->at[below + 1], &r->at[below]);
        if (is_before(&last, &r->at[below]))
            break;
        r->at[i] = r->at[below];
    }
    r->at[i] = last;
    r->at[r->count] = first;
    return first.w;
}
