/* forecast.c - see forecast.h. */
#include "forecast.h"

#include <string.h>

#define NEAR    4u  /* works: uses no further apart are one */
#define PART    16u /* and those that are at most this part of the longest gap apart */
#define ALIKE   8u  /* gaps are alike that differ by no more than this part */
#define LONGEST 4u  /* gaps in a turn */

static uint32_t longest(const struct vs_forecast *f)
{
    uint32_t most = 0;
    for (uint32_t i = 0; i < f->gaps; i++)
        most = f->gap[i] > most ? f->gap[i] : most;
    return most;
}

void vs_forecast_used(struct vs_forecast *f, uint64_t now)
{
    uint64_t since = now - f->last, gap = now - f->begun;
    f->last = now;
    if (since <= NEAR || since <= longest(f) / PART)
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
