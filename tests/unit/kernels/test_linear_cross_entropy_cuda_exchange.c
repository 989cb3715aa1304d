/*
 * test_linear_cross_entropy_cuda_exchange.c - a rank's part of the vocabulary on the CUDA back end: when the
 * caller is asked to exchange rows' sums, and that all ranks exchange the same rows.
 */
#define _GNU_SOURCE
#include "lce_cuda_kit.h"

static struct lce_problem exchanging(struct lce_problem p)
{
    p.flags |= LCE_EXCHANGE;
    p.parts = 2;
    return p;
}

/* Three products a chunk, and the exchange of each in its middle. */
TEST(an_exchange_is_in_the_middle_of_a_chunk)
{
    static const struct {
        int64_t chunk, counted;
        const char *asked;
    } rows[] = {{300, 0, "1S1F3I4S4F6I7S7F9I10S10F12I"}, /* 4 chunks of 1000 tokens */
                {1000, 0, "1S1F3I"},
                {300, 500, "1S1F4S4F6I"}}; /* dinput of compacted rows is complete at the end only */
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (int dtype = LCE_F32; dtype <= LCE_BF16; dtype++)
            for (uint32_t flags = 0; flags <= LCE_F32_LOGITS; flags += LCE_F32_LOGITS) {
                struct lce_problem p = exchanging(problem_of(1000, 24, 9000, dtype, flags));
                p.max_counted = rows[i].counted;
                struct lce_plan *plan = plan_of(&p, LCE_FAST, rows[i].chunk);
                assert_int_equal(plan->info.logits_size, rows[i].chunk * 9024 * (dtype && !flags ? 2 : 4));
                assert_int_equal(run(plan), LCE_OK);
                assert_string_equal(seen.asked, rows[i].asked);
                assert_ptr_equal(seen.furthest, seen.known[0].begin + plan->info.workspace_size);
                seen.refuse_exchange = -3;
                assert_int_equal(run(plan), LCE_EXCHANGE_FAILED);
                assert_non_null(strstr(lce_message(), "returned -3 for LCE_EXCHANGE_START"));
                seen.refuse_exchange = 0;
                cuda_plan_destroy(plan);
            }
}

/* Rows that are exchanged are of the same tokens on all ranks: they are compacted on each rank or on none,
 * whatever its part, device and strides.  Our products are for the ranks that can use them. */
TEST(ranks_exchange_the_same_rows_whosever_products_they_take)
{
    static const struct {
        int64_t vocab, stride, hidden, counted;
        int dtype;
        bool hopper, compacts, own;
    } rows[] = {{9000, 64, 64, 0, LCE_BF16, true, true, true},
                {9000, 64, 64, 0, LCE_BF16, false, true, false},
                {130, 64, 64, 0, LCE_BF16, true, true, false},
                {9000, 65, 64, 0, LCE_BF16, true, true, false},
                {9000, 72, 72, 0, LCE_F16, true, true, true},
                {9000, 64, 64, 1000, LCE_BF16, true, false, false},
                {9000, 64, 64, 1000, LCE_BF16, false, false, false},
                {9000, 64, 64, 0, LCE_F32, true, false, false},
                {9000, 24, 24, 0, LCE_BF16, true, false, false},
                {9000, 76, 76, 0, LCE_BF16, true, false, false}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct lce_problem p = exchanging(problem_of(1000, rows[i].hidden, rows[i].vocab, rows[i].dtype, 0));
        p.weight_stride = rows[i].stride;
        p.max_counted = rows[i].counted;
        p.proposals = 1 << 14; /* ours, where they can be had */
        library.images[IMAGE_PRODUCT] = rows[i].hopper ? (CUlibrary)1 : NULL;
        struct lce_plan *plan = plan_of(&p, LCE_FAST, 300);
        assert_int_equal(((struct cuda_plan *)plan)->compacts, rows[i].compacts);
        assert_int_equal(((struct cuda_plan *)plan)->own, rows[i].own);
        assert_int_equal(((struct cuda_plan *)plan)->rows, 1000);
        if (rows[i].stride != rows[i].hidden) { /* the buffers here have dense rows */
            cuda_plan_destroy(plan);
            continue;
        }
        if (run(plan) != LCE_OK)
            fail_msg("%s", lce_message());
        assert_int_equal(seen.own, rows[i].own ? 3 * plan->info.chunks : 0);
        assert_int_equal(seen.products, rows[i].own ? 0 : 3 * plan->info.chunks);
        assert_ptr_equal(seen.furthest, seen.known[0].begin + plan->info.workspace_size);
        cuda_plan_destroy(plan);
    }
    library.images[IMAGE_PRODUCT] = NULL;
}

TEST(logits_of_exchanged_chunks_keep_to_the_modes_bytes)
{
    static const uint64_t mib = 1 << 20;
    for (int dtype = LCE_F32; dtype <= LCE_BF16; dtype++)
        for (int mode = LCE_FAST; mode <= LCE_LEAN; mode++) {
            struct lce_problem p = exchanging(problem_of(4000, 1024, 64128, dtype, 0));
            struct lce_plan *plan = plan_of(&p, mode, 0);
            assert_true(plan->info.workspace_size <= (mode == LCE_LEAN ? 128 : 512) * mib);
            assert_int_equal(plan->info.slab_columns, 64128);
            assert_in_range(plan->info.chunk_tokens, 128, 2048);
            cuda_plan_destroy(plan);
        }
}

int main(void)
{
    return run_all_tests(read_images, drop_images);
}
