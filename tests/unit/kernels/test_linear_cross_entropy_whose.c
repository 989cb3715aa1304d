/*
 * test_linear_cross_entropy_whose.c - whose products are taken: the estimates of ours and of cuBLASLt's,
 * fitted at every other shape of tests/data/cross_entropy_whose.tsv, rounded in view of all, and held against
 * each half; and that of the two the plan takes the one that was measured to be fast.
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

static const double price = 1.05; /* own_pays in plan.c */

struct pair { /* a shape's two ways */
    long n, h, v;
    char dweight[8];
    long chunk[2]; /* ours, cuBLASLt's */
    double mib[2], ms[2], estimate[2];
};
enum { OURS, THEIRS, MOST = 100 };

static struct pair pairs[MOST];
static int count;

static struct lce_chunk_shape shape_of(const struct pair *p)
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
                                    .adds = wide};
}

static int read_pairs(void **state)
{
    char line[200], products[16];
    FILE *file = fopen(LCE_SWEEP, "r");
    struct pair p = {0};
    double mib;
    while (file && fgets(line, sizeof line, file) && count < MOST) {
        long chunk;
        double ms;
        if (sscanf(line, "%ld %ld %ld %15s %7s %ld %lf %lf", &p.n, &p.h, &p.v, products, p.dweight, &chunk,
                   &mib, &ms) != 8)
            continue; /* a comment, the head */
        const int which = products[0] == 'o' ? OURS : THEIRS;
        p.chunk[which] = chunk, p.mib[which] = mib, p.ms[which] = ms;
        if (which == OURS)
            continue;
        const struct lce_chunk_shape s = shape_of(&p);
        p.estimate[OURS] = 1e3 * lce_own_seconds(&s, p.chunk[OURS]);
        p.estimate[THEIRS] = 1e3 * lce_their_seconds(&s, p.chunk[THEIRS]);
        pairs[count++] = p;
    }
    return file ? fclose(file) : -1;
}

/* Whether cuBLASLt's way has no room for a chunk's whole rows, which these estimates are of. */
static bool in_slabs(const struct pair *p)
{
    return (double)(p->chunk[THEIRS] * p->v * 2) > 1.01 * p->mib[THEIRS] * 1048576;
}

/* Root mean square of how far the estimated ratio of ours to cuBLASLt's is off, of every other shape. */
static double off(int half, double *worst)
{
    double squares = 0;
    int judged = 0;
    *worst = 0;
    for (int i = 0; i < count; i++) {
        const struct pair *p = &pairs[i];
        if (i / 2 % 2 != half || in_slabs(p))
            continue;
        const double far = log(p->estimate[OURS] / p->estimate[THEIRS]) - log(p->ms[OURS] / p->ms[THEIRS]);
        *worst = fabs(far) > *worst ? fabs(far) : *worst;
        squares += far * far;
        judged++;
    }
    assert_in_range(judged, 34, 40);
    return sqrt(squares / judged);
}

static void the_ratio_is_met_at_shapes_that_it_was_not_fitted_to(void **state)
{
    double worst;
    const double fitted = off(0, &worst);
    assert_true(fitted < 0.03 && worst < 0.085);
    const double others = off(1, &worst);
    assert_true(others < 0.025 && worst < 0.07);
}

/* Milliseconds are those of calls that the host's launches do not hold up, which took a millisecond and more.
 */
static void each_way_is_met(void **state)
{
    for (int i = 0; i < count; i++)
        for (int way = 0; way < 2; way++) {
            const struct pair *p = &pairs[i];
            const double ratio = p->estimate[way] / p->ms[way];
            if (p->ms[way] < 1 || (way == THEIRS && in_slabs(p)))
                continue;
            if (ratio < 0.93 || ratio > 1.08)
                fail_msg("%ld x %ld x %ld %s, %s: %.3f ms estimated, %.3f measured", p->n, p->h, p->v,
                         p->dweight, way ? "cuBLASLt's" : "ours", p->estimate[way], p->ms[way]);
        }
}

/* Never by more than 5 % but at one of 77, by 5.6 %; and where ours were measured to cost no more than the
 * price, they are taken but at five. */
static void what_is_taken_is_at_most_5_percent_slower_than_the_other(void **state)
{
    int slow = 0, missed = 0;
    for (int i = 0; i < count; i++) {
        const struct pair *p = &pairs[i];
        const bool ours = p->estimate[OURS] <= price * p->estimate[THEIRS];
        const double ratio = p->ms[OURS] / p->ms[THEIRS], lost = ours ? ratio : 1 / ratio;
        if (in_slabs(p))
            continue;
        if (lost > 1.06)
            fail_msg("%ld x %ld x %ld %s: %s, which took %.3f times the other", p->n, p->h, p->v, p->dweight,
                     ours ? "ours" : "cuBLASLt's", lost);
        slow += lost > 1.05;
        missed += !ours && ratio <= price;
    }
    assert_in_range(slow, 0, 1); /* 2048 x 5120 x 202048, fp32 */
    assert_in_range(missed, 0, 5);
}

/* 257 tokens take ours as long as 512; a split tile's ends are seen; what is not wanted costs nothing. */
static void ours_take_whole_tiles(void **state)
{
    struct lce_chunk_shape s = shape_of(&pairs[0]);
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
    struct lce_chunk_shape s = shape_of(&pairs[0]);
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
    return cmocka_run_group_tests(tests, read_pairs, NULL);
}
