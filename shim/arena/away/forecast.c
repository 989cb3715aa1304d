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

static bool may_go(const struct vs_watched *w, const struct vs_served *s, uint64_t oldest, uint32_t tries)
{
    return w->address != 0 && w->s == s && !w->parked && w->work < oldest && w->tries != tries;
}

/* Whether the first, of SIZE bytes, fits NEED better than the second: the smallest that is enough, else the
 * largest. */
static bool fits_better(uint64_t size, uint64_t than, uint64_t need)
{
    if ((size >= need) != (than >= need))
        return size >= need;
    return size >= need ? size < than : size > than;
}

struct vs_watched *vs_forecast_choose(struct vs_watched *first, size_t count, const struct vs_served *s,
                                      uint64_t need, uint64_t oldest, uint64_t now, uint32_t tries)
{
    struct vs_watched *best = NULL, *end = first + count;
    uint64_t farthest = 0;
    bool known;
    for (struct vs_watched *w = first; w < end; w++)
        if (may_go(w, s, oldest, tries)) {
            w->next = vs_forecast_next(&w->forecast, now, &known);
            farthest = w->next > farthest ? w->next : farthest;
        }
    for (struct vs_watched *w = first; w < end; w++) {
        if (!may_go(w, s, oldest, tries) || w->next < farthest - farthest / NEARLY)
            continue;
        if (best == NULL || fits_better(w->size, best->size, need) ||
            (w->size == best->size && w->next > best->next))
            best = w;
    }
    return best;
}
