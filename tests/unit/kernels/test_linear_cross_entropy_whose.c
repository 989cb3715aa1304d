/*
 * test_linear_cross_entropy_whose.c - whose products are taken: the estimates of ours, of our logits beside
 * cuBLASLt's gradients, and of cuBLASLt's, fitted at every other of the first forty shapes of
 * tests/data/cross_entropy_whose.tsv, rounded in view of those forty, and held against each half; and that of
 * the first two the plan takes one that was measured to be fast, at the other eleven shapes too.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <math.h>
#include <cmocka.h>

#include "chunk.h"

static const double price = 1.035; /* own_pays in plan.c */

enum { OURS, BESIDE, THEIRS, WAYS, FITTED = 80, MOST = 120 };
static const char *const way_names[WAYS] = {"ours", "beside", "cuBLASLt"};

struct shape { /* and its ways */
    long n, h, v;
    char dweight[8];
    long chunk[WAYS];
    double mib[WAYS], ms[WAYS], estimate[WAYS];
};

static struct shape shapes[MOST];
static int count;

static struct lce_chunk_shape shape_of(const struct shape *p, int way)
{
    const bool wide = !strcmp(p->dweight, "fp32");
    return (struct lce_chunk_shape){.tokens = p->n,
                                    .hidden = p->h,
                                    .vocab = p->v,
                                    .element = 2,
                                    .grad_element = wide ? 4 : 2,
                                    .grad_input = 1,
                                    .processors = 132,
                                    .tail = p->v % 8 > 0,
                                    .adds = wide,
                                    .exponents = way != THEIRS};
}

static void estimate(struct shape *p)
{
    for (int way = 0; way < WAYS; way++) {
        const struct lce_chunk_shape s = shape_of(p, way);
        p->estimate[way] =
            1e3 * (way == OURS ? lce_own_seconds(&s, p->chunk[way]) : lce_their_seconds(&s, p->chunk[way]));
    }
}

/* A shape's rows follow one another, in the order of the ways. */
static int read_shapes(void **state)
{
    char line[200], products[16];
    FILE *file = fopen(LCE_SWEEP, "r");
    struct shape p = {0};
    int way = 0;
    while (file && fgets(line, sizeof line, file) && count < MOST) {
        if (sscanf(line, "%ld %ld %ld %15s %7s %ld %lf %lf", &p.n, &p.h, &p.v, products, p.dweight,
                   &p.chunk[way], &p.mib[way], &p.ms[way]) != 8)
            continue; /* a comment, the head */
        if (strcmp(products, way_names[way]))
            return -1;
        way = (way + 1) % WAYS;
        if (way)
            continue;
        estimate(&p);
        shapes[count++] = p;
    }
    return file ? fclose(file) : -1;
}

/* Whether a way has no room for a chunk's whole rows, which these estimates are of: then it stores logits in
 * slabs, and no exponentials. */
static bool in_slabs(const struct shape *p, int way)
{
    return (double)(p->chunk[way] * p->v * 2) > 1.01 * p->mib[way] * 1048576;
}

/* Shorter calls were held up by the launches of the host that the sweep had. */
static bool judged(const struct shape *p, int way)
{
    return p->ms[way] >= 2 && !in_slabs(p, way);
}

/* Root mean square of how far the estimated ratio of ours to WAY is off, of every other shape. */
static double off(int half, int way, double *worst)
{
    double squares = 0;
    int number = 0;
    *worst = 0;
    for (int i = 0; i < FITTED; i++) {
        const struct shape *p = &shapes[i];
        if (i / 2 % 2 != half || !judged(p, way) || !judged(p, OURS))
            continue;
        const double far = log(p->estimate[OURS] / p->estimate[way]) - log(p->ms[OURS] / p->ms[way]);
        *worst = fabs(far) > *worst ? fabs(far) : *worst;
        squares += far * far;
        number++;
    }
    assert_in_range(number, 27, 40);
    return sqrt(squares / number);
}

static void the_ratio_is_met_at_shapes_that_it_was_not_fitted_to(void **state)
{
    for (int way = BESIDE; way <= THEIRS; way++) {
        double worst;
        const double fitted = off(0, way, &worst);
        assert_true(fitted < 0.03 && worst < 0.085);
        const double others = off(1, way, &worst);
        assert_true(others < 0.025 && worst < 0.07);
    }
}

static void each_way_is_met(void **state)
{
    for (int i = 0; i < count; i++)
        for (int way = 0; way < WAYS; way++) {
            const struct shape *p = &shapes[i];
            const double ratio = p->estimate[way] / p->ms[way];
            if (judged(p, way) && (ratio < 0.93 || ratio > 1.08))
                fail_msg("%ld x %ld x %ld %s, %s: %.3f ms estimated, %.3f measured", p->n, p->h, p->v,
                         p->dweight, way_names[way], p->estimate[way], p->ms[way]);
        }
}

/* At 98, the eleven shapes included.  Ours were measured to cost no more than the price at 13 where they are
 * not taken: an estimate is off by 2 % in the root mean square, and many are that near to the price. */
static void what_is_taken_is_at_most_5_percent_slower_than_the_other(void **state)
{
    int missed = 0, number = 0;
    for (int i = 0; i < count; i++) {
        const struct shape *p = &shapes[i];
        const bool ours = p->estimate[OURS] <= price * p->estimate[BESIDE];
        const double ratio = p->ms[OURS] / p->ms[BESIDE], lost = ours ? ratio : 1 / ratio;
        if (in_slabs(p, BESIDE))
            continue;
        if (lost > 1.05)
            fail_msg("%ld x %ld x %ld %s: %s, which took %.3f times the other", p->n, p->h, p->v, p->dweight,
                     way_names[ours ? OURS : BESIDE], lost);
        missed += !ours && ratio <= price;
        number++;
    }
    assert_int_equal(number, 98);
    assert_in_range(missed, 0, 13);
}

/* 257 tokens take ours as long as 512; a split tile's ends are seen; what is not wanted costs nothing. */
static void ours_take_whole_tiles(void **state)
{
    struct lce_chunk_shape s = shape_of(&shapes[0], THEIRS);
    s.tokens = 4096, s.hidden = 4096, s.vocab = 128256;
    s.grad_element = s.grad_input = 0;
    struct lce_chunk_shape few = s, more = s;
    few.tokens = 257, more.tokens = 512;
    assert_true(lce_own_seconds(&few, 257) > 0.9 * lce_own_seconds(&more, 512));
    assert_true(lce_their_seconds(&few, 257) < 0.66 * lce_their_seconds(&more, 512));
    const double logits = lce_own_seconds(&s, 2048);
    s.grad_input = 1;
    assert_true(lce_own_seconds(&s, 2048) > 1.7 * logits);
}

/* With 32 tiles for 66 clusters the room for 128 parts makes two clusters take 32 ends; that for 64 does not.
 */
static void the_room_for_parts_is_what_is_worth_it(void **state)
{
    assert_int_equal(lce_split_room(132, 2048, 1024, 50304), 64);
    assert_int_equal(lce_split_room(132, 1024, 2048, 128256), 64);
    assert_int_equal(lce_split_room(132, 1024, 3072, 128256), 96);
    assert_int_equal(lce_split_room(132, 1024, 4096, 128256), 0); /* 64 tiles */
    struct lce_chunk_shape s = shape_of(&shapes[0], THEIRS);
    s.tokens = 2048, s.hidden = 1024, s.vocab = 50304;
    const double all = lce_own_seconds(&s, 2048);
    s.room = 64;
    assert_true(lce_own_seconds(&s, 2048) < all - 100e-6);
    for (int64_t n = 1; n < 3000; n += 61)
        for (int64_t h = 64; h <= 8192; h *= 2) {
            s.tokens = n, s.hidden = h;
            s.room = 0;
            const double most = lce_own_seconds(&s, n);
            s.room = 1 + lce_split_room(132, n, h, s.vocab);
            assert_true(lce_own_seconds(&s, n) <= most);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_ratio_is_met_at_shapes_that_it_was_not_fitted_to),
        cmocka_unit_test(each_way_is_met),
        cmocka_unit_test(what_is_taken_is_at_most_5_percent_slower_than_the_other),
        cmocka_unit_test(ours_take_whole_tiles),
        cmocka_unit_test(the_room_for_parts_is_what_is_worth_it),
    };
    return cmocka_run_group_tests(tests, read_shapes, NULL);
}
