/*
 * test_fit_search.c - the search for the largest size that fits, over programs whose need is known: its end
 * is right, no size is tried twice, and it takes fewer rounds than halving where needs are lines.
 */
#include <math.h>

#include "unit/test.h"
#include "fit/search.h"

#define GB 1e9
enum { MOST = 4096 };

struct program { /* need at size x: base, or more: a + b x + c x^2 */
    double base, a, b, c;
    double room;
    int64_t n, step;     /* sizes step, 2 step, ... n step */
    double between;      /* bytes that are not known, on either side */
    int64_t fails_below; /* at sizes below it the program fails by itself */
    int64_t fails_from;  /* likewise; 0: never */
    double piece;        /* that memory is taken in; 0: as it is needed */
};

static double size_of(const void *context, int64_t at)
{
    return (double)((at + 1) * ((const struct program *)context)->step);
}

static double need(const struct program *p, int64_t at)
{
    double x = size_of(p, at), line = p->a + p->b * x + p->c * x * x;
    double bytes = line > p->base ? line : p->base;
    return p->piece > 0 ? ceil(bytes / p->piece) * p->piece : bytes;
}

static enum trial_state state_of(const struct program *p, int64_t at)
{
    double x = size_of(p, at);
    if (x < (double)p->fails_below || (p->fails_from && x >= (double)p->fails_from))
        return TRIAL_STOPPED;
    return need(p, at) + p->between <= p->room   ? TRIAL_FITS
           : need(p, at) - p->between <= p->room ? TRIAL_BETWEEN
                                                 : TRIAL_REFUSED;
}

struct course {
    struct trial all[MOST];
    size_t n, rounds;
};

/* Tries what the search asks for, CORES at a time, until it asks for nothing. */
static struct found follow(const struct program *p, size_t cores, double guess, struct course *c)
{
    struct search s = {p->n, size_of, p, p->room, guess, c->all, 0};
    int64_t ask[64];
    size_t n;
    for (c->n = c->rounds = 0; (n = search_next(&s, ask, cores)); c->rounds++) {
        assert_true(n <= cores);
        for (size_t i = 0; i < n; i++) {
            assert_in_range(ask[i], 0, p->n - 1);
            for (size_t k = 0; k < c->n; k++)
                assert_int_not_equal(c->all[k].at, ask[i]);
            enum trial_state state = state_of(p, ask[i]);
            assert_true(c->n < MOST);
            c->all[c->n++] = (struct trial){ask[i], state, state == TRIAL_FITS ? need(p, ask[i]) : NAN};
        }
        s.count = c->n;
    }
    return search_found(&s);
}

static bool tried(const struct course *c, int64_t at, enum trial_state state)
{
    for (size_t i = 0; i < c->n; i++)
        if (c->all[i].at == at)
            return c->all[i].state == state;
    return false;
}

/* What trying every size says. */
static void check_end(const struct program *p, const struct course *c, struct found f)
{
    int64_t fits = -1, refused = p->n;
    for (int64_t at = 0; at < p->n && state_of(p, at) == TRIAL_FITS; at++)
        fits = at;
    for (int64_t at = p->n - 1; at > fits && state_of(p, at) >= TRIAL_REFUSED; at--)
        refused = at;
    assert_int_equal(f.fits, fits);
    assert_int_equal(f.refused, refused);
    assert_int_equal(f.over, fits + 1);
    assert_true(fits < 0 || tried(c, fits, TRIAL_FITS));
    assert_true(f.over == p->n || !tried(c, f.over, TRIAL_FITS));
    assert_true(refused == p->n || tried(c, refused, state_of(p, refused)));
    assert_false(f.contradicted);
}

static double any(double least, double most)
{
    return least + (most - least) * (double)random() / (double)RAND_MAX;
}

TEST(ends_at_the_largest)
{
    static struct course c;
    static const size_t cores[] = {1, 2, 3, 8, 64};
    srandom(1);
    for (int i = 0; i < 4000; i++) {
        struct program p = {any(0, 60) * GB,
                            any(0, 40) * GB,
                            any(0, 3) * GB,
                            i % 3 ? 0 : any(0, 0.1) * GB,
                            any(1, 80) * GB,
                            1 + random() % 300,
                            1 + random() % 8,
                            i % 4 ? 0 : any(0, 5) * GB,
                            0,
                            i % 7 ? 0 : 1 + random() % 300,
                            i % 2 ? 0 : any(0, 1) * GB};
        double guess = i % 5 ? NAN : any(0, 400);
        for (size_t k = 0; k < 5; k++)
            check_end(&p, &c, follow(&p, cores[k], guess, &c));
    }
}

/* Rounds on two cores, of 256 sizes: on average, and *MOST. */
static double rounds_of(double base, double square, double piece, size_t *most)
{
    static struct course c;
    size_t rounds = 0;
    *most = 0;
    srandom(2);
    for (int i = 0; i < 1000; i++) {
        struct program p = {.base = any(0, base) * GB,
                            .a = any(2, 20) * GB,
                            .b = any(0.1, 2) * GB,
                            .c = any(0, square) * GB,
                            .room = 40 * GB,
                            .n = 256,
                            .step = 1,
                            .piece = piece * GB};
        check_end(&p, &c, follow(&p, 2, NAN, &c));
        rounds += c.rounds;
        *most = c.rounds > *most ? c.rounds : *most;
    }
    return (double)rounds / 1000;
}

/* Cutting in three takes five rounds, and a sixth in which both ends are tried. */
TEST(lines_take_few_rounds)
{
    size_t most;
    double straight = rounds_of(0, 0, 0, &most);
    printf("%.2f rounds, %zu at most\n", straight, most);
    assert_true(straight < 3 && most <= 4);
    double bent = rounds_of(30, 0, 0, &most); /* another peak at small sizes */
    printf("%.2f rounds, %zu at most\n", bent, most);
    assert_true(bent < 5 && most <= 10);
    double curved = rounds_of(30, 0.05, 0.5, &most);
    printf("%.2f rounds, %zu at most\n", curved, most);
    assert_true(curved < 6 && most <= 10);
}

TEST(a_good_guess_takes_one_round)
{
    static struct course c;
    struct program p = {0, 5 * GB, 1 * GB, 0, 40.5 * GB, 256, 1, 0, 0, 0, 0};
    check_end(&p, &c, follow(&p, 2, 35.2, &c));
    assert_int_equal(c.rounds, 1);
}

TEST(a_program_that_fails_at_small_sizes_has_a_largest)
{
    static struct course c;
    struct program p = {0, 5 * GB, 1 * GB, 0, 40.5 * GB, 256, 1, 0, 2, 0, 0}; /* as batch norm at batch 1 */
    struct found f = follow(&p, 2, NAN, &c);
    assert_int_equal(f.fits, 34);
    assert_true(tried(&c, 35, TRIAL_REFUSED) && !f.contradicted);
}

TEST(what_contradicts_itself_is_said)
{
    struct trial all[] = {{2, TRIAL_REFUSED, NAN}, {5, TRIAL_FITS, GB}, {6, TRIAL_REFUSED, NAN}};
    struct program p = {.n = 10, .step = 1};
    struct search s = {10, size_of, &p, 2 * GB, NAN, all, 3};
    int64_t ask[2];
    assert_int_equal(search_next(&s, ask, 2), 0);
    struct found f = search_found(&s);
    assert_int_equal(f.fits, 5);
    assert_int_equal(f.over, 6);
    assert_true(f.contradicted);
}
