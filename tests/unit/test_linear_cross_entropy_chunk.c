/*
 * test_linear_cross_entropy_chunk.c - the choice of the chunk: within its bound, no worse than others, never
 * absurd.
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
                                             .processors = 132};

static void the_choice_keeps_to_its_bound(void **state)
{
    struct lce_chunk_shape shape = llama;
    for (shape.tokens = 1; shape.tokens < 70000; shape.tokens = shape.tokens * 3 / 2 + 1)
        for (int64_t most = 1; most < 70000; most = most * 3 / 2 + 1) {
            int64_t chunk = lce_chunk_choose(&shape, most);
            assert_in_range(chunk, 1, most < shape.tokens ? most : shape.tokens);
            assert_true(chunk <= 16384 && (chunk % 128 == 0 || chunk == most || chunk == shape.tokens));
        }
}

static void the_choice_is_the_fastest_of_all(void **state)
{
    for (int64_t most = 128; most <= 8192; most += 128) {
        double least = lce_chunk_seconds(&llama, lce_chunk_choose(&llama, most));
        for (int64_t chunk = 128; chunk <= most; chunk += 128)
            assert_true(least <= lce_chunk_seconds(&llama, chunk));
    }
}

/* dinput's tiles fill the GPU at 1024 and 2048 rows, not between */
static void whole_rounds_of_tiles_win(void **state)
{
    assert_int_equal(lce_chunk_choose(&llama, 2047), 1024);
    assert_int_equal(lce_chunk_choose(&llama, 2100), 2048);
    assert_true(lce_chunk_seconds(&llama, 1664) > lce_chunk_seconds(&llama, 2048) * 1.02);
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
        cmocka_unit_test(whole_rounds_of_tiles_win),
        cmocka_unit_test(small_chunks_cost_what_dweight_moves),
        cmocka_unit_test(nothing_to_do_is_a_chunk_of_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
