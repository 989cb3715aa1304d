/* forecast.c - see forecast.h. */
#include "forecast.h"

#include <string.h>

#include "watched.h"

#define NEAR    4u  /* works: uses no further apart are one */
#define PART    16u /* and those that are at most this part of the longest gap apart */
#define ALIKE   8u  /* gaps are alike that differ by no more than this part */
#define LONGEST 4u  /* gaps in a turn */
#define NEARLY  32u /* distances are about the same that differ by no more than this part */
#define LATE    8u  /* or by no more than this one, for the first ones */

uint32_t vs_forecast_longest(const struct vs_forecast *f)
{
    uint32_t most = 0;
    for (uint32_t i = 0; i < f->gaps; i++)
        most = f->gap[i] > most ? f->gap[i] : most;
    return most;
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
    f->foretold = 0;
    for (uint32_t turn = 1; turn <= LONGEST && f->foretold == 0; turn++)
        f->foretold = repeats(f, turn) ? f->gap[turn - 1] : 0;
}

uint64_t vs_forecast_next(const struct vs_forecast *f, uint64_t now, bool *known)
{
    uint64_t next = f->begun + f->foretold, late = now > next ? now - next : 0;
    *known = f->foretold != 0 && late <= f->foretold / ALIKE;
    return !*known ? now - f->last : next > now ? next - now : 0;
}

/* ---- which goes ---- */

/* Blocks wait in `all`, by next use. Those that are used about as late as the last one are taken out of it
 * and ranked by size: the smallest that is enough goes, or else the largest. */
static struct vs_ranking *const all = &vs_rankings[0], *const enough = &vs_rankings[1],
                                *const less = &vs_rankings[2];
static size_t left; /* of `all`, with what was taken: the last of that is the farthest, or else at[0] */
static struct batch {
    const struct vs_served *s;
    uint64_t oldest, now, least; /* next uses in fewer works than LEAST are not ranked */
} batch;

/* AGAIN: all that were not chosen; else those that are used late, as a few are enough as a rule. */
static void rank(bool again)
{
    uint64_t farthest = 0;
    size_t count = 0;
    bool known;
    VS_WATCHED_EACH(w)
    if (w->s == batch.s && !w->parked && w->work < batch.oldest && !w->stored && !(again && w->chosen)) {
        uint64_t next = vs_forecast_next(&w->forecast, batch.now, &known);
        farthest = next > farthest ? next : farthest;
        w->chosen = false;
        all->at[count++] = (struct vs_ranked){~next, ~next, w};
    }
    batch.least = again ? 0 : farthest - farthest / LATE;
    all->count = enough->count = less->count = 0;
    for (size_t i = 0; i < count; i++)
        if (~all->at[i].by >= batch.least)
            vs_ranking_add(all, all->at[i]);
    left = all->count;
}

void vs_forecast_begin(const struct vs_served *s, uint64_t oldest, uint64_t now)
{
    batch = (struct batch){.s = s, .oldest = oldest, .now = now};
    rank(false);
}

static void move(struct vs_ranking *from, struct vs_ranking *to)
{
    uint64_t then = from->at[0].then;
    struct vs_watched *w = vs_ranking_take(from);
    vs_ranking_add(to, (struct vs_ranked){to == less ? ~w->size : w->size, then, w});
}

struct vs_watched *vs_forecast_choose(uint64_t need)
{
    while (left > all->count && all->at[left - 1].w->chosen)
        left--;
    uint64_t farthest = left != 0 ? ~all->at[left > all->count ? left - 1 : 0].by : 0,
             nearest = farthest - farthest / NEARLY;
    if (nearest < batch.least) {
        rank(true);
        return vs_forecast_choose(need);
    }
    while (all->count != 0 && ~all->at[0].by >= nearest)
        move(all, all->at[0].w->size < need ? less : enough);
    while (less->count != 0 && less->at[0].w->size >= need)
        move(less, enough);
    while (enough->count != 0 && enough->at[0].w->size < need)
        move(enough, less);
    struct vs_watched *w = vs_ranking_take(enough->count != 0 ? enough : less);
    if (w != NULL)
        w->chosen = true;
    return w;
}
