/*
 * fit.c - fits a law to samples (fit.h).
 *
 * For each set of terms the equations of each choice of as many samples are solved; coefficients that are
 * whole numbers of bytes are preferred.  A solution holds if each recorded size is at least the law's, and
 * above it by no more than that size may be too large by.  Evidence is how many samples it meets beyond its
 * number of terms, which any solution meets.
 */
#include "fit.h"

#include <math.h>
#include <string.h>

#define MET    512.0 /* rounding adds less */
#define SLIP   1.0   /* of arithmetic, bytes */
#define CHOSEN 3     /* terms at most */

double law_term(enum law_term term, int64_t batch, int64_t seq)
{
    double b = (double)batch, s = (double)seq;
    switch (term) {
    case TERM_ONE:
        return 1;
    case TERM_TOKENS:
        return b * s;
    case TERM_SQUARE:
        return b * s * s;
    case TERM_BATCH:
        return b;
    case TERM_LENGTH:
        return s;
    default:
        return s * s;
    }
}

static double bytes_of(const double *of, int64_t batch, int64_t seq)
{
    double sum = 0;
    for (int i = 0; i < TERMS; i++)
        if (of[i] != 0)
            sum += of[i] * law_term(i, batch, seq);
    return sum > 0 ? sum : 0;
}

/* The coefficients that law_bytes takes there. */
static const double *terms_at(const struct law *law, int64_t batch, int64_t seq)
{
    double tokens = law_term(TERM_TOKENS, batch, seq);
    if (tokens >= (double)law->from)
        return law->of;
    if (tokens <= (double)law->upto || bytes_of(law->below, batch, seq) > bytes_of(law->of, batch, seq))
        return law->below;
    return law->of;
}

double law_bytes(const struct law *law, int64_t batch, int64_t seq)
{
    return bytes_of(terms_at(law, batch, seq), batch, seq);
}

double law_bytes_least(const struct law *law, int64_t batch, int64_t seq)
{
    double tokens = law_term(TERM_TOKENS, batch, seq), most = law_bytes(law, batch, seq);
    if (tokens >= (double)law->from || tokens <= (double)law->upto)
        return most;
    double below = bytes_of(law->below, batch, seq), above = bytes_of(law->of, batch, seq);
    return below < above ? below : above;
}

/* Sets of terms, the likeliest first of each number. */
#define T(x) (1 << TERM_##x)
static const uint8_t sets[] = {T(ONE),
                               T(TOKENS),
                               T(SQUARE),
                               T(BATCH),
                               T(LENGTH),
                               T(LENGTH_SQUARE),
                               T(ONE) | T(TOKENS),
                               T(TOKENS) | T(SQUARE),
                               T(TOKENS) | T(BATCH),
                               T(ONE) | T(BATCH),
                               T(ONE) | T(LENGTH),
                               T(ONE) | T(SQUARE),
                               T(BATCH) | T(SQUARE),
                               T(TOKENS) | T(LENGTH),
                               T(SQUARE) | T(LENGTH_SQUARE),
                               T(LENGTH) | T(LENGTH_SQUARE),
                               T(ONE) | T(LENGTH_SQUARE),
                               T(ONE) | T(TOKENS) | T(SQUARE),
                               T(BATCH) | T(TOKENS) | T(SQUARE),
                               T(ONE) | T(TOKENS) | T(BATCH),
                               T(ONE) | T(TOKENS) | T(LENGTH)};
#undef T

struct solution {
    struct law law;
    int evidence, met, terms;
    double over; /* that all samples are above it */
};

/* Gauss with pivots; false: the samples do not tell the terms apart. */
static bool solve(double m[CHOSEN][CHOSEN + 1], int k, double *x)
{
    for (int i = 0; i < k; i++) {
        int best = i;
        for (int r = i + 1; r < k; r++)
            if (fabs(m[r][i]) > fabs(m[best][i]))
                best = r;
        if (fabs(m[best][i]) < 1e-9)
            return false;
        for (int c = 0; c <= k && best != i; c++) {
            double swap = m[i][c];
            m[i][c] = m[best][c];
            m[best][c] = swap;
        }
        for (int r = i + 1; r < k; r++) {
            double times = m[r][i] / m[i][i];
            for (int c = i; c <= k; c++)
                m[r][c] -= times * m[i][c];
        }
    }
    for (int i = k - 1; i >= 0; i--) {
        x[i] = m[i][k];
        for (int c = i + 1; c < k; c++)
            x[i] -= m[i][c] * x[c];
        x[i] /= m[i][i];
    }
    return true;
}

/* How many samples LAW meets; -1: one is below it, or too far above.  *SUM: by how much all are above. */
static int meets(const struct law *law, const struct law_sample *samples, size_t n, double *sum)
{
    int met = 0;
    *sum = 0;
    for (size_t i = 0; i < n; i++) {
        double over = (double)samples[i].size - law_bytes(law, samples[i].at.batch, samples[i].at.seq);
        if (over < -SLIP || over > (double)samples[i].over + SLIP)
            return -1;
        met += over < MET;
        *sum += over;
    }
    return met;
}

static int terms_of(uint8_t set, enum law_term *out)
{
    int k = 0;
    for (int i = 0; i < TERMS; i++)
        if (set >> i & 1)
            out[k++] = (enum law_term)i;
    return k;
}

/* The solution through the samples of CHOICE. */
static bool through(uint8_t set, const struct law_sample *samples, const size_t *choice, struct law *law)
{
    enum law_term terms[TERMS];
    double m[CHOSEN][CHOSEN + 1], x[CHOSEN];
    int k = terms_of(set, terms);
    for (int r = 0; r < k; r++) {
        const struct law_sample *s = &samples[choice[r]];
        for (int c = 0; c < k; c++)
            m[r][c] = law_term(terms[c], s->at.batch, s->at.seq);
        m[r][k] = (double)s->size;
    }
    if (!solve(m, k, x))
        return false;
    *law = (struct law){.terms = set};
    for (int i = 0; i < k; i++)
        law->of[terms[i]] = x[i];
    return true;
}

/* More evidence is better; then fewer terms; then less that the recorded sizes are too large by. */
static bool better(const struct solution *a, const struct solution *b)
{
    if (a->evidence != b->evidence)
        return a->evidence > b->evidence;
    return a->terms != b->terms ? a->terms < b->terms : a->over < b->over - SLIP;
}

static void consider(struct solution *best, const struct law *law, int k, const struct law_sample *samples,
                     size_t n)
{
    struct solution s = {.law = *law, .terms = k};
    s.met = meets(law, samples, n, &s.over);
    s.evidence = s.met - k;
    if (s.met >= 1 && better(&s, best))
        *best = s;
}

/* LAW with whole coefficients first: of two that hold with the same evidence the first is kept. */
static void consider_both(struct solution *best, const struct law *law, int k,
                          const struct law_sample *samples, size_t n)
{
    struct law whole = *law, below = *law;
    for (int i = 0; i < TERMS; i++) {
        whole.of[i] = round(law->of[i]);
        below.of[i] = floor(law->of[i]);
    }
    consider(best, &whole, k, samples, n);
    consider(best, &below, k, samples, n);
    consider(best, law, k, samples, n);
}

/* Every choice of K of N samples. */
static void try_set(struct solution *best, uint8_t set, int k, const struct law_sample *samples, size_t n)
{
    size_t choice[CHOSEN] = {0, 1, 2};
    struct law law;
    for (;;) {
        if (through(set, samples, choice, &law))
            consider_both(best, &law, k, samples, n);
        int i = k - 1;
        while (i >= 0 && choice[i] == n - (size_t)(k - i))
            i--;
        if (i < 0)
            return;
        choice[i]++;
        for (int j = i + 1; j < k; j++)
            choice[j] = choice[j - 1] + 1;
    }
}

/* size = a + b TERM by least squares, neither below 0; larger runs count more, by the square of TERM.  Gives
 * the squares that are left. */
static double nearest_line(const struct law_sample *samples, size_t n, enum law_term term, struct law *law)
{
    double w = 0, x = 0, y = 0, xx = 0, xy = 0, left = 0;
    for (size_t i = 0; i < n; i++) {
        double t = law_term(term, samples[i].at.batch, samples[i].at.seq), size = (double)samples[i].size;
        double weight = t * t;
        w += weight;
        x += weight * t;
        y += weight * size;
        xx += weight * t * t;
        xy += weight * t * size;
    }
    double d = w * xx - x * x, b = d > 1e-9 * w * xx ? (w * xy - x * y) / d : xy / xx, a = (y - b * x) / w;
    if (b < 0) {
        b = 0;
        a = y / w;
    } else if (a < 0) {
        a = 0;
        b = xy / xx;
    }
    *law = (struct law){.terms = (uint8_t)(1 << TERM_ONE | 1 << term), .trust = LAW_NONE};
    law->of[TERM_ONE] = a;
    law->of[term] = b;
    for (size_t i = 0; i < n; i++) {
        double t = law_term(term, samples[i].at.batch, samples[i].at.seq);
        double off = (double)samples[i].size - a - b * t;
        left += off * off * t * t / w;
    }
    return left;
}

/* What comes nearest: a constant and the tokens, or a constant and batch times length squared; of a single
 * sample its share of the tokens. */
static struct law guess(const struct law_sample *samples, size_t n)
{
    struct law tokens, square;
    double by_tokens = nearest_line(samples, n, TERM_TOKENS, &tokens);
    struct law law = nearest_line(samples, n, TERM_SQUARE, &square) < by_tokens * 0.99 ? square : tokens;
    law.least = n > 1 ? 1 : 0; /* in one run alone: it may not be there at all */
    law.most = 1;
    for (size_t i = 0; i < n; i++) {
        double line = law_bytes(&law, samples[i].at.batch, samples[i].at.seq);
        double share = line > 0 ? (double)samples[i].size / line : 1;
        law.least = share < law.least ? share : law.least;
        law.most = share > law.most ? share : law.most;
    }
    return law;
}

/* ---- switches ---- */

#define SIDE_LEAST   2 /* samples on either side */
#define SWITCH_LEAST 5 /* in all: three more than the two sides have terms */

static int64_t tokens_of(const struct law_sample *s)
{
    return s->at.batch * s->at.seq;
}

/* The law of a single term that all N samples have; false: none, or several, which differ elsewhere. */
static bool one_term(const struct law_sample *samples, size_t n, struct solution *out)
{
    int found = 0;
    for (size_t i = 0; i < sizeof sets; i++) {
        struct solution s = {.evidence = -1};
        if (__builtin_popcount(sets[i]) == 1)
            try_set(&s, sets[i], 1, samples, n);
        if (s.evidence < 0 || (size_t)s.met < n)
            continue;
        *out = s;
        found++;
    }
    return found == 1;
}

/* Code that takes another way from some number of tokens on, as a kernel for many rows: each side a law of a
 * single term, which all of its samples have. */
static bool find_switch(const struct law_sample *samples, size_t n, struct law *law)
{
    struct law_sample sorted[LAW_SAMPLES_MOST];
    double over = INFINITY;
    if (n < SWITCH_LEAST || n > LAW_SAMPLES_MOST)
        return false;
    for (size_t i = 0; i < n; i++) {
        size_t at = i;
        for (; at && tokens_of(&sorted[at - 1]) > tokens_of(&samples[i]); at--)
            sorted[at] = sorted[at - 1];
        sorted[at] = samples[i];
    }
    for (size_t k = SIDE_LEAST; k + SIDE_LEAST <= n; k++) {
        struct solution below, above;
        int64_t upto = tokens_of(&sorted[k - 1]), from = tokens_of(&sorted[k]);
        if (upto == from || !one_term(sorted, k, &below) || !one_term(sorted + k, n - k, &above) ||
            below.over + above.over >= over)
            continue;
        over = below.over + above.over;
        *law = above.law;
        memcpy(law->below, below.law.of, sizeof law->below);
        law->upto = upto;
        law->from = from;
        law->trust = LAW_EXACT;
    }
    return !isinf(over);
}

struct law law_fit(const struct law_sample *samples, size_t n, const struct law *known, size_t known_count)
{
    struct solution best = {.evidence = -1};
    for (size_t i = 0; i < sizeof sets; i++) {
        int k = __builtin_popcount(sets[i]);
        if ((size_t)k < n)
            try_set(&best, sets[i], k, samples, n);
    }
    bool certain = best.evidence > 0 && (size_t)best.met == n;
    for (size_t i = 0; i < known_count && !certain; i++) {
        struct solution s = {.law = known[i], .evidence = (int)n};
        s.met = meets(&known[i], samples, n, &s.over);
        if (s.met > best.evidence && s.met >= 1) {
            best = s;
            break;
        }
    }
    struct law switched;
    if (best.evidence < 0)
        return find_switch(samples, n, &switched) ? switched : guess(samples, n);
    best.law.trust = (size_t)best.met == n ? LAW_EXACT : LAW_NEAR;
    return best.law;
}

bool law_same_terms(const struct law_point *points, size_t n, enum law_term *a, enum law_term *b)
{
    static const enum law_term tried[] = {TERM_ONE, TERM_TOKENS, TERM_SQUARE, TERM_BATCH, TERM_LENGTH};
    for (size_t i = 0; i < sizeof tried / sizeof *tried; i++)
        for (size_t j = i + 1; j < sizeof tried / sizeof *tried; j++) {
            bool same = true;
            double first = law_term(tried[i], points[0].batch, points[0].seq) /
                           law_term(tried[j], points[0].batch, points[0].seq);
            for (size_t p = 1; p < n && same; p++) {
                double here = law_term(tried[i], points[p].batch, points[p].seq) /
                              law_term(tried[j], points[p].batch, points[p].seq);
                same = fabs(here - first) < 1e-9 * first;
            }
            if (same) {
                *a = tried[i];
                *b = tried[j];
                return true;
            }
        }
    return false;
}
