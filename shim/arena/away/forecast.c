/* forecast.c - see forecast.h. */
#include "forecast.h"

#include <string.h>

#include "watched.h"

#define NEAR    4u  /* works: uses no further apart are one */
#define PART    16u /* and those that are at most this part of the longest gap apart */
#define ALIKE   8u  /* gaps are alike that differ by no more than this part */
#define LONGEST 4u  /* gaps in a turn */
#define NEARLY  32u /* distances are about the same that differ by no more than this part */

uint32_t vs_forecast_longest(const struct vs_forecast *f)
{
    uint32_t most = 0;
    for (uint32_t i = 0; i < f->gaps; i++)
        most = f->gap[i] > most ? f->gap[i] : most;
    return most;
}

void vs_forecast_used(struct vs_forecast *f, uint64_t now)
{
    uint64_t since = now - f->last, gap = now - f->begun;
    if (now < f->last)
        return; /* another thread's work is later, and was looked at before */
    f->last = now;
    if (since <= NEAR || since <= vs_forecast_longest(f) / PART)
        return;
    f->begun = now;
    memmove(f->gap + 1, f->gap, (VS_FORECAST_GAPS - 1) * sizeof *f->gap);
    f->gap[0] = gap < UINT32_MAX ? (uint32_t)gap : UINT32_MAX;
    f->gaps += f->gaps < VS_FORECAST_GAPS;
}

static bool alike(uint32_t a, uint32_t b)
{
    uint32_t more = a > b ? a : b, less = a > b ? b : a;
    return more - less <= more / ALIKE;
}

/* Whether the gaps repeat after so many; those of one whole turn at the most are held against the one before.
 */
static bool repeats(const struct vs_forecast *f, uint32_t turn)
{
    bool all = f->gaps > turn;
    for (uint32_t i = 0; all && i < turn && i + turn < f->gaps; i++)
        all = alike(f->gap[i], f->gap[i + turn]);
    return all;
}

uint64_t vs_forecast_next(const struct vs_forecast *f, uint64_t now, bool *known)
{
    uint32_t turn = 1;
    while (turn <= LONGEST && !repeats(f, turn))
        turn++;
    uint64_t next = turn <= LONGEST ? f->begun + f->gap[turn - 1] : 0;
    uint64_t late = now > next ? now - next : 0;
    *known = turn <= LONGEST && late <= f->gap[turn - 1] / ALIKE;
    return !*known ? now - f->last : next > now ? next - now : 0;
}

/* ---- which goes ---- */

/* By next use; and those that are used about as late as the last one, by size: the smallest that is enough
 * goes, or else the largest. */
static struct vs_ranking *const all = &vs_rankings[0], *const enough = &vs_rankings[1],
                                *const less = &vs_rankings[2];
static size_t left; /* of `all`, with those that were taken: behind them all were chosen */

void vs_forecast_begin(const struct vs_served *s, uint64_t oldest, uint64_t now)
{
    bool known;
    all->count = enough->count = less->count = 0;
    VS_WATCHED_EACH(w)
    if (w->s == s && !w->parked && w->work < oldest) {
        uint64_t latest_first = ~vs_forecast_next(&w->forecast, now, &known);
        w->chosen = false;
        vs_ranking_add(all, latest_first, latest_first, w);
    }
    left = all->count;
}

static void move(struct vs_ranking *from, struct vs_ranking *to)
{
    uint64_t then = from->at[0].then;
    struct vs_watched *w = vs_ranking_take(from);
    vs_ranking_add(to, to == less ? ~w->size : w->size, then, w);
}

struct vs_watched *vs_forecast_choose(uint64_t need)
{
    while (left > all->count && all->at[left - 1].w->chosen)
        left--;
    if (left == 0)
        return NULL;
    uint64_t farthest = ~all->at[left > all->count ? left - 1 : 0].by;
    while (all->count != 0 && ~all->at[0].by >= farthest - farthest / NEARLY)
        move(all, all->at[0].w->size < need ? less : enough);
    while (less->count != 0 && less->at[0].w->size >= need)
        move(less, enough);
    while (enough->count != 0 && enough->at[0].w->size < need)
        move(enough, less);
    struct vs_watched *w = vs_ranking_take(enough->count != 0 ? enough : less);
    w->chosen = true;
    return w;
}
