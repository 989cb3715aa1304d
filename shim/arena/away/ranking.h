/*
 * ranking.h - watched blocks by a number, the least first: who wants a few of many takes them one by one, and
 * the others are never sorted.
 *
 * The caller holds the lock of back.h until it has all it wants; others use the same rankings then.
 */
#ifndef VS_ARENA_AWAY_RANKING_H
#define VS_ARENA_AWAY_RANKING_H

#include <stddef.h>
#include <stdint.h>

struct vs_watched;

struct vs_ranked {
    uint64_t by, then; /* THEN decides between equals, then their places in the table */
    struct vs_watched *w;
};
struct vs_ranking {
    struct vs_ranked *at; /* the first is at[0]; what was taken lies behind the rest, the latest ahead */
    size_t count;
};
#define VS_RANKINGS 3u
extern struct vs_ranking vs_rankings[VS_RANKINGS];

/* They are in ROOM from now on, of MOST blocks each. */
void vs_rankings_place(struct vs_ranked *room, size_t most);

static inline struct vs_ranking *vs_ranking_begin(void)
{
    vs_rankings[0].count = 0;
    return &vs_rankings[0];
}
void vs_ranking_add(struct vs_ranking *r, struct vs_ranked it);
/* NULL: none is left. */
struct vs_watched *vs_ranking_take(struct vs_ranking *r);

#endif
