/* test_law_fit.c - laws of size: known ones are found again from few samples, noise of an allocator is told
 * from growth, and what follows none says so. */
#include <math.h>

#include "unit/test.h"
#include "law/fit.h"

#define N(a) (sizeof(a) / sizeof *(a))

static const struct law_point design[] = {{2, 512}, {4, 512}, {2, 1024}, {4, 1536}};

static void sample(struct law_sample *out, const double *of, uint64_t over)
{
    struct law law = {.terms = 0};
    for (int i = 0; i < TERMS; i++)
        law.of[i] = of[i];
    for (size_t i = 0; i < N(design); i++) {
        uint64_t size = (uint64_t)law_bytes(&law, design[i].batch, design[i].seq);
        out[i] = (struct law_sample){design[i], (size + 511) / 512 * 512, over};
    }
}

static void expect(const double *of, uint64_t over, enum law_trust trust)
{
    struct law_sample samples[N(design)];
    sample(samples, of, over);
    struct law law = law_fit(samples, N(samples), NULL, 0);
    assert_int_equal(law.trust, trust);
    for (int i = 0; i < TERMS; i++)
        assert_true(fabs(law.of[i] - of[i]) <= 1e-6 * fabs(of[i]));
}

TEST(test_one_and_two_terms_are_found_again)
{
    static const double laws[][TERMS] = {
        {[TERM_ONE] = 33554432},
        {[TERM_TOKENS] = 8192},
        {[TERM_SQUARE] = 64},
        {[TERM_BATCH] = 51200},
        {[TERM_LENGTH] = 1024},
        {[TERM_LENGTH_SQUARE] = 4},
        {[TERM_ONE] = 1 << 20, [TERM_TOKENS] = 4096},
        {[TERM_TOKENS] = 64000, [TERM_BATCH] = -64000}, /* logits but for the last token */
        {[TERM_TOKENS] = 4096, [TERM_SQUARE] = 32},
    };
    for (size_t i = 0; i < N(laws); i++)
        expect(laws[i], 511, LAW_EXACT);
}

TEST(test_far_away_the_size_is_right_to_the_byte)
{
    struct law_sample samples[N(design)];
    sample(samples, (const double[TERMS]){[TERM_TOKENS] = 12345}, 511);
    struct law law = law_fit(samples, N(samples), NULL, 0);
    assert_true(law_bytes(&law, 64, 131072) == 12345.0 * 64 * 131072);
}

TEST(test_a_block_given_whole_is_no_growth)
{
    struct law_sample samples[N(design)];
    sample(samples, (const double[TERMS]){[TERM_TOKENS] = 8192}, 511 + (1 << 20));
    samples[1].size += 700 << 10; /* the allocator had nothing smaller */
    struct law law = law_fit(samples, N(samples), NULL, 0);
    assert_int_equal(law.trust, LAW_NEAR);
    assert_true(law.of[TERM_TOKENS] == 8192 && law.of[TERM_ONE] == 0);
}

TEST(test_a_law_of_others_is_believed_where_sizes_are_uncertain)
{
    struct law known = {.of = {[TERM_TOKENS] = 6144}, .terms = 1 << TERM_TOKENS, .trust = LAW_EXACT};
    struct law_sample samples[N(design)];
    sample(samples, known.of, 511 + (1 << 20));
    samples[0].size += 37 << 10;
    samples[1].size += 777 << 10;
    samples[2].size += 401 << 10;
    struct law law = law_fit(samples, N(samples), &known, 1);
    assert_true(law.of[TERM_TOKENS] == 6144 && law.of[TERM_ONE] == 0);
}

TEST(test_what_follows_no_law_says_so)
{
    static const uint64_t sizes[] = {8 << 20, 8 << 20, 30 << 20, 17 << 20};
    struct law_sample samples[N(design)];
    for (size_t i = 0; i < N(samples); i++)
        samples[i] = (struct law_sample){design[i], sizes[i], 511};
    assert_int_equal(law_fit(samples, N(samples), NULL, 0).trust, LAW_NONE);
}

TEST(test_sizes_that_tell_two_terms_apart)
{
    enum law_term a, b;
    static const struct law_point same[] = {{1, 1024}, {2, 512}, {4, 256}}; /* always as many tokens */
    assert_false(law_same_terms(design, N(design), &a, &b));
    assert_true(law_same_terms(same, N(same), &a, &b));
    assert_true(a == TERM_ONE && b == TERM_TOKENS);
}

TEST(test_what_follows_no_law_lies_within_what_was_recorded_of_its_line)
{
    const uint64_t sizes[] = {1 << 20, 9 << 20, 2 << 20, 5 << 20};
    struct law_sample samples[N(design)];
    for (size_t i = 0; i < N(design); i++)
        samples[i] = (struct law_sample){design[i], sizes[i], 511};
    struct law law = law_fit(samples, N(samples), NULL, 0);
    assert_int_equal(law.trust, LAW_NONE);
    assert_true(law.least < 1 && law.most > 1);
    for (size_t i = 0; i < N(design); i++) {
        double line = law_bytes(&law, design[i].batch, design[i].seq);
        assert_true(law.least * line <= (double)sizes[i] + 1 && (double)sizes[i] <= law.most * line + 1);
    }
    law = law_fit(samples, 1, NULL, 0); /* of one run alone: elsewhere it may not be */
    assert_true(law.trust == LAW_NONE && law.least == 0 && law.most == 1);
}

/* As an embedding's gradient: a buffer of the vocabulary for few tokens, a list of them for many. */
static const struct law_point many[] = {{2, 512},  {2, 1024}, {4, 512}, {2, 1536},
                                        {2, 2048}, {4, 1024}, {4, 1536}};

static void switching(struct law_sample *out, size_t n, int64_t upto)
{
    for (size_t i = 0; i < n; i++) {
        uint64_t tokens = (uint64_t)(many[i].batch * many[i].seq);
        out[i] = (struct law_sample){many[i], tokens <= (uint64_t)upto ? 154389504 : 8 * tokens, 511};
    }
}

TEST(test_code_that_switches_with_size_has_a_law_on_either_side)
{
    struct law_sample samples[N(many)];
    switching(samples, N(many), 3072);
    struct law law = law_fit(samples, N(many), NULL, 0);
    assert_int_equal(law.trust, LAW_EXACT);
    assert_int_equal(law.upto, 3072);
    assert_int_equal(law.from, 4096);
    assert_true(law_bytes(&law, 1, 16) == 154389504 && law_bytes(&law, 8, 8192) == 8.0 * 8 * 8192);
    assert_true(law_bytes(&law, 1, 3500) == 154389504 &&
                law_bytes_least(&law, 1, 3500) == 8.0 * 3500); /* not known */
    assert_true(law_bytes_least(&law, 1, 4096) == 8.0 * 4096 && law_bytes_least(&law, 1, 3072) == 154389504);
    assert_true(law.of[TERM_TOKENS] == 8 && law.below[TERM_ONE] == 154389504);
}

TEST(test_few_samples_or_a_side_without_a_law_are_no_switch)
{
    struct law_sample samples[N(many)];
    switching(samples, N(many), 3072);
    assert_int_equal(law_fit(samples + 2, 4, NULL, 0).from, 0); /* two and two: any four sizes could */
    samples[1].size += 4096;
    struct law law = law_fit(samples, N(many), NULL, 0);
    assert_int_equal(law.from, 0);
    assert_int_equal(law.trust, LAW_NONE);
    switching(samples, N(many), 9000); /* it never switches */
    assert_int_equal(law_fit(samples, N(many), NULL, 0).from, 0);
}

/* Two runs of one batch: a constant, or bytes a sequence?  At another batch these are far apart. */
TEST(test_a_side_that_two_laws_fit_is_no_switch)
{
    static const struct law_point at[] = {{2, 512}, {2, 1024}, {2, 2048}, {4, 1536}, {4, 2048}};
    struct law_sample samples[N(at)];
    for (size_t i = 0; i < N(at); i++)
        samples[i] =
            (struct law_sample){at[i], i < 2 ? 154389504 : 8 * (uint64_t)(at[i].batch * at[i].seq), 511};
    struct law law = law_fit(samples, N(at), NULL, 0);
    assert_int_equal(law.from, 0);
    assert_int_equal(law.trust, LAW_NONE);
    samples[1].at = (struct law_point){1, 1536}; /* that tells them apart */
    assert_int_equal(law_fit(samples, N(at), NULL, 0).upto, 1536);
}
