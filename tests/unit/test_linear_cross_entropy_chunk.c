/*
 * test_linear_cross_entropy_chunk.c - the choice of the chunk: within its bound, no worse than others, never
 * absurd, and what was measured the fastest.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "chunk.h"

static const struct lce_chunk_shape llama = {.tokens = 8192,
                                             .hidden = 4096,
                                             .vocab = 128256,
                                             .element = 2,
                                             .grad_element = 2,
                                             .grad_input = 1,
                                             .processors = 132,
                                             .budget = UINT64_C(1) << 32,
                                             .token = 2 * 128256};

/* Loss and all gradients in bf16 on an H200, every chunk within the same minutes: without scratch for
 * cuBLASLt, and with as much of 32 MiB as it took. */
struct measured {
    int64_t chunk;
    double ms, mib, scratch_ms, scratch_mib;
};

static const struct {
    int64_t tokens, hidden, vocab;
    struct measured sweep[11];
} shapes[] = {
    /* clang-format off */
    {.tokens = 8192, .hidden = 4096, .vocab = 128256, .sweep = {
        {256, 53.32, 62.7, 50.66, 82.7},
        {384, 43.12, 94.0, 42.82, 112.0},
        {512, 37.92, 125.3, 37.91, 141.3},
        {768, 35.57, 187.9, 35.44, 203.9},
        {1024, 34.62, 250.5, 34.65, 250.5},
        {1280, 34.49, 313.2, 34.42, 329.2},
        {1536, 34.15, 375.8, 34.21, 391.8},
        {1792, 34.51, 438.4, 34.52, 438.4},
        {2048, 33.58, 501.0, 33.55, 501.0},
        {3072, 33.01, 751.5, 32.98, 751.5},
        {4096, 32.92, 1002.0, 32.96, 1002.0},
    }},
    {.tokens = 8192, .hidden = 2304, .vocab = 256000, .sweep = {
        {256, 67.35, 125.0, 62.12, 140.8},
        {384, 56.41, 187.5, 51.88, 204.4},
        {512, 57.78, 250.0, 46.64, 281.5},
        {768, 44.68, 375.0, 44.32, 406.5},
        {1024, 41.32, 500.0, 41.18, 500.0},
        {1280, 41.65, 625.0, 41.41, 656.5},
        {1536, 41.47, 750.0, 40.61, 781.5},
        {1792, 39.46, 875.0, 39.60, 893.0},
        {2048, 39.15, 1000.0, 39.11, 1000.0},
        {3072, 39.42, 1500.0, 39.64, 1500.0},
        {4096, 38.72, 2000.0, 38.77, 2000.0},
    }},
    {.tokens = 4096, .hidden = 5120, .vocab = 152064, .sweep = {
        {256, 41.37, 74.3, 36.76, 94.3},
        {384, 32.17, 111.4, 31.78, 131.4},
        {512, 29.13, 148.5, 28.85, 168.5},
        {768, 27.60, 222.8, 27.32, 242.8},
        {1024, 25.68, 297.0, 25.66, 297.0},
        {1280, 27.32, 371.3, 27.03, 391.3},
        {1536, 25.02, 445.5, 25.06, 445.5},
        {1792, 25.84, 519.8, 25.80, 539.8},
        {2048, 24.75, 594.0, 24.76, 594.0},
        {3072, 24.66, 891.0, 24.69, 891.0},
        {4096, 24.44, 1188.0, 24.49, 1188.0},
    }},
    /* clang-format on */
};
enum { SHAPES = sizeof shapes / sizeof *shapes, SIZES = 11 };

static void the_choice_keeps_to_its_bound(void **state)
{
    struct lce_chunk_shape shape = llama;
    for (shape.tokens = 1; shape.tokens < 70000; shape.tokens = shape.tokens * 3 / 2 + 1)
        for (int64_t most = 1; most < 70000; most = most * 3 / 2 + 1) {
            int64_t chunk = lce_chunk_choose(&shape, most);
            assert_in_range(chunk, 1, most < shape.tokens ? most : shape.tokens);
            assert_true(chunk <= 4096 && (chunk % 16 == 0 || chunk == most || chunk == shape.tokens));
        }
}

static void the_choice_is_the_fastest_of_all(void **state)
{
    for (int64_t most = 128; most <= 4096; most += 128) {
        double least = lce_chunk_seconds(&llama, lce_chunk_choose(&llama, most));
        for (int64_t chunk = 128; chunk <= most; chunk *= 2) {
            assert_true(least <= lce_chunk_seconds(&llama, chunk));
            if (chunk > 128 && chunk / 2 * 3 <= most)
                assert_true(least <= lce_chunk_seconds(&llama, chunk / 2 * 3));
        }
    }
}

/* As plan.c asks, which keeps a 64th for cuBLASLt; the rest of the workspace is tens of KiB. */
static int64_t choice(int shape, double budget)
{
    const double mib = 1 << 20, token = 2.0 * (double)shapes[shape].vocab;
    struct lce_chunk_shape s = llama;
    s.tokens = shapes[shape].tokens;
    s.hidden = shapes[shape].hidden;
    s.vocab = shapes[shape].vocab;
    s.token = 2 * (uint64_t)s.vocab;
    s.budget = (uint64_t)((budget - 0.1) * mib);
    return lce_chunk_choose(&s, (int64_t)((budget * 63 / 64 - 0.1) * mib / token));
}

/* Milliseconds of the faster measurement that fits into BUDGET MiB; 0 where none does. */
static double fastest(const struct measured *m, double budget)
{
    if (m->mib > budget)
        return 0;
    return m->scratch_mib <= budget && m->scratch_ms < m->ms ? m->scratch_ms : m->ms;
}

static void the_choice_is_within_1_percent_of_the_fastest_that_was_measured(void **state)
{
    int judged = 0;
    for (int i = 0; i < SHAPES; i++)
        for (double budget = 64; budget <= 2048; budget *= 2) {
            const int64_t chunk = choice(i, budget);
            double best = 1e30, chosen = 0;
            for (int j = 0; j < SIZES; j++) {
                const double ms = fastest(&shapes[i].sweep[j], budget);
                best = ms > 0 && ms < best ? ms : best;
                chosen = shapes[i].sweep[j].chunk == chunk ? ms : chosen;
            }
            if (best == 1e30)
                continue; /* nothing so small was measured */
            if (!(chosen > 0 && chosen <= 1.01 * best))
                fail_msg("H = %d, %.0f MiB: chunk %d takes %.2f ms, the best %.2f", (int)shapes[i].hidden,
                         budget, (int)chunk, chosen, best);
            judged++;
        }
    assert_int_equal(judged, 16);
}

/* Where it is granted it is worth more than 3 %, where it is not less than 2.1 %. */
static void scratch_is_granted_where_it_was_measured_to_gain(void **state)
{
    int granted = 0;
    for (int i = 0; i < SHAPES; i++)
        for (int j = 0; j < SIZES; j++) {
            const struct measured *m = &shapes[i].sweep[j];
            const bool worth = lce_worth_splitting(m->chunk, shapes[i].hidden, 132);
            assert_true(worth ? m->scratch_ms < 0.97 * m->ms : m->scratch_ms > 0.979 * m->ms);
            granted += worth;
        }
    assert_int_equal(granted, 5);
}

static void the_defaults_of_the_llama_shape_stay(void **state)
{
    assert_int_equal(choice(0, 512), 2048);
    assert_int_equal(choice(0, 128), 512);
}

/* 61 MiB have room for 245 tokens, and not for 256 */
static void below_256_most_of_the_budget_is_used(void **state)
{
    assert_in_range(choice(0, 61), 208, 245);
    assert_in_range(choice(0, 48), 160, 193);
}

/* with splitting it is the fastest at 256 MiB, but there is no room for the partial sums */
static void a_chunk_whose_scratch_does_not_fit_is_not_taken_for_its_speed(void **state)
{
    assert_int_equal(choice(1, 256), 384);
    struct lce_chunk_shape s = llama;
    s.hidden = 2304;
    s.vocab = 256000;
    s.token = 2 * 256000;
    s.budget = 250 * UINT64_C(1048576) + 6 * 1048576;
    assert_true(lce_chunk_seconds(&s, 512) > lce_chunk_seconds(&s, 384));
    s.budget += 26 * UINT64_C(1048576);
    assert_true(lce_chunk_seconds(&s, 512) < lce_chunk_seconds(&s, 384));
}

static void small_chunks_cost_what_dweight_moves(void **state)
{
    struct lce_chunk_shape none = llama;
    none.grad_element = 0;
    double with = lce_chunk_seconds(&llama, 128) - lce_chunk_seconds(&none, 128);
    assert_true(with > 0.99 * 64 * 2.0 * 128256 * 4096 * 2 / 4e12); /* 64 chunks, read and written */
}

static void nothing_to_do_is_a_chunk_of_one(void **state)
{
    struct lce_chunk_shape none = llama;
    none.tokens = 0;
    assert_int_equal(lce_chunk_choose(&none, 100), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_choice_keeps_to_its_bound),
        cmocka_unit_test(the_choice_is_the_fastest_of_all),
        cmocka_unit_test(the_choice_is_within_1_percent_of_the_fastest_that_was_measured),
        cmocka_unit_test(scratch_is_granted_where_it_was_measured_to_gain),
        cmocka_unit_test(the_defaults_of_the_llama_shape_stay),
        cmocka_unit_test(below_256_most_of_the_budget_is_used),
        cmocka_unit_test(a_chunk_whose_scratch_does_not_fit_is_not_taken_for_its_speed),
        cmocka_unit_test(small_chunks_cost_what_dweight_moves),
        cmocka_unit_test(nothing_to_do_is_a_chunk_of_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
