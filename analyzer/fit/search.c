/*
 * search.c - chooses the sizes to try next (search.h).
 *
 *      nothing known       the smallest, and some far below the largest: what both need gives a line
 *      two that fit        where a line through them meets the device's memory, and the next size
 *      some misses         a window around that, which grows
 *      a line that failed  what is unknown is cut into equal parts
 */
#include "search.h"

#include <math.h>

#define NEAR 0.8 /* times the largest that fits */
#define FAR  1.5
#define LESS 0.98

struct bracket {
    int64_t low, high; /* what is between them, both excluded, is unknown */
};

/* LEAST: what counts as beyond. */
static struct bracket bracket_of(const struct search *s, int64_t above, enum trial_state least)
{
    struct bracket b = {above, s->n};
    for (size_t i = 0; i < s->count; i++)
        if (s->all[i].state < least && s->all[i].at > b.low)
            b.low = s->all[i].at;
    for (size_t i = 0; i < s->count; i++)
        if (s->all[i].state >= least && s->all[i].at > b.low && s->all[i].at < b.high)
            b.high = s->all[i].at;
    return b;
}

static const struct trial *trial_at(const struct search *s, int64_t at)
{
    for (size_t i = 0; i < s->count; i++)
        if (s->all[i].at == at)
            return &s->all[i];
    return NULL;
}

static bool is_between(const struct search *s, int64_t at)
{
    const struct trial *t = trial_at(s, at);
    return t && t->state == TRIAL_BETWEEN;
}

struct found search_found(const struct search *s)
{
    struct bracket fits = bracket_of(s, -1, TRIAL_BETWEEN);
    struct found f = {.fits = fits.low, .over = fits.high, .refused = fits.high};
    if (is_between(s, f.over))
        f.refused = bracket_of(s, f.over, TRIAL_REFUSED).high;
    for (size_t i = 0; i < s->count; i++)
        f.contradicted =
            f.contradicted ||
            (s->all[i].at < f.fits && (s->all[i].state == TRIAL_BETWEEN || s->all[i].state == TRIAL_REFUSED));
    return f;
}

/* ---- where the largest may be ---- */

/* The largest that fits and of which it is known what it needs, not above SIZE; NULL: there is none. */
static const struct trial *largest_known(const struct search *s, double size)
{
    const struct trial *found = NULL;
    for (size_t i = 0; i < s->count; i++) {
        const struct trial *t = &s->all[i];
        if (t->state == TRIAL_FITS && !isnan(t->need) && s->size(s->context, t->at) <= size &&
            (!found || t->at > found->at))
            found = t;
    }
    return found;
}

/* The size at which a line through two that fit needs all of the room; NAN: they give none.  Neighbours give
 * a bad one: memory is taken in pieces.  Far from both it is a little less: needs rise a little faster than
 * sizes as a rule, as the pieces are cut worse. */
static double size_by_line(const struct search *s)
{
    const struct trial *large = largest_known(s, INFINITY);
    double x = large ? s->size(s->context, large->at) : 0;
    const struct trial *small = largest_known(s, NEAR * x);
    if (!small)
        return s->guess;
    double slope = (large->need - small->need) / (x - s->size(s->context, small->at));
    double size = slope > 0 ? x + (s->room - large->need) / slope : NAN;
    return size > FAR * x ? LESS * size : size;
}

/* The last index whose size is not above SIZE, between the ends of B. */
static int64_t index_of(const struct search *s, double size, struct bracket b)
{
    int64_t low = b.low + 1, high = b.high - 1;
    while (low < high) {
        int64_t middle = low + (high - low + 1) / 2;
        if (s->size(s->context, middle) <= size)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

/* ---- what to try ---- */

/* COUNT indices from FIRST to LAST, both included, spread evenly; of one the middle. */
static size_t spread(int64_t first, int64_t last, size_t count, int64_t *ask)
{
    int64_t n = last - first + 1;
    size_t asked = 0;
    if (n <= (int64_t)count) {
        for (int64_t at = first; at <= last; at++)
            ask[asked++] = at;
        return asked;
    }
    if (count == 1)
        ask[asked++] = first + (n - 1) / 2;
    for (size_t i = 0; count > 1 && i < count; i++)
        ask[asked++] = first + (int64_t)((double)(n - 1) * (double)i / (double)(count - 1));
    return asked;
}

/* Within B, without its ends. */
static size_t spread_inside(struct bracket b, size_t count, int64_t *ask)
{
    int64_t n = b.high - b.low - 1;
    if (n <= (int64_t)count)
        return spread(b.low + 1, b.high - 1, count, ask);
    for (size_t i = 0; i < count; i++)
        ask[i] = b.low + 1 + (int64_t)((double)n * (double)(i + 1) / (double)(count + 1));
    return count;
}

/* The smallest, and others that grow by one factor each, up to where one more would be the largest. */
static size_t begin(const struct search *s, int64_t *ask, size_t most)
{
    struct bracket all = {-1, s->n};
    double first = s->size(s->context, 0), last = s->size(s->context, s->n - 1);
    size_t n = 0, parts = most > 1 ? most : 2;
    for (size_t i = 0; i < parts && n < most; i++) {
        int64_t at = index_of(s, first * pow(last / first, (double)i / (double)parts), all);
        if (!trial_at(s, at) && (!n || at > ask[n - 1]))
            ask[n++] = at;
    }
    return n;
}

/* Sizes beside GUESS: after some rounds of trials with each three times as far. */
static size_t around(const struct search *s, double guess, struct bracket b, int64_t *ask, size_t most)
{
    int64_t at = index_of(s, guess, b), first = at, last = at + 1 < b.high ? at + 1 : at;
    int64_t reach = 1;
    for (size_t i = 4 * most; i <= s->count && (first > b.low || last < b.high); i += most, reach *= 3) {
        first -= reach;
        last += reach;
    }
    while (last - first + 1 < (int64_t)most) {
        first--;
        last++;
    }
    first = first > b.low ? first : b.low + 1;
    last = last < b.high ? last : b.high - 1;
    return spread(first, last, most, ask);
}

size_t search_next(const struct search *s, int64_t *ask, size_t most)
{
    struct bracket b = bracket_of(s, -1, TRIAL_BETWEEN);
    bool first = true;
    if (b.high - b.low == 1 && is_between(s, b.high)) {
        b = bracket_of(s, b.high, TRIAL_REFUSED);
        first = false;
    }
    if (b.high - b.low == 1)
        return 0;
    if (b.high - b.low - 1 <= (int64_t)most)
        return spread(b.low + 1, b.high - 1, most, ask);
    double guess = size_by_line(s);
    bool in_vain = s->count >= 4 * most && s->count / most % 2; /* every other time */
    if (in_vain || (b.high < s->n && guess >= s->size(s->context, b.high)))
        guess = NAN; /* a line that was wrong */
    size_t n = s->count < 2 && isnan(guess) ? begin(s, ask, most) : 0;
    if (n)
        return n;
    return !first || isnan(guess) ? spread_inside(b, most, ask) : around(s, guess, b, ask, most);
}
