/*
 * test_linear_cross_entropy_cuda.c - the host side of the CUDA back end: every kernel asked for is in the
 * library, every product and every row of logits stays inside its buffer, the workspace has not a byte to
 * spare, and refusals become errors.
 */
#define _GNU_SOURCE
#include "lce_cuda_kit.h"

/* Logits, dinput, dweight of each slab; but for the last slab's the logits twice.  A last slab of less than 8
 * classes has none. */
static int64_t products_of(const struct lce_plan *plan)
{
    const int64_t columns = plan->info.slab_columns, last = (plan->problem.vocab - 1) % columns + 1;
    const int64_t slabs = (plan->problem.vocab + columns - 1) / columns;
    return (4 * slabs - 1 - (last < columns && last < 8 ? 3 : 0)) * plan->info.chunks;
}

TEST(every_plan_finds_its_kernels_and_stays_in_its_buffers)
{
    static const int64_t vocabs[] = {1,     7,     4096,   9000,   16000,  28000,  32768,  50257,
                                     65537, 99999, 128256, 152064, 200000, 256000, 262144, 270001};
    for (size_t i = 0; i < sizeof vocabs / sizeof *vocabs; i++)
        for (int dtype = LCE_F32; dtype <= LCE_BF16; dtype++)
            for (uint32_t choice = 0; choice < 16; choice++) {
                struct lce_problem p = problem_of(1000, 24, vocabs[i], dtype, 0);
                p.flags = (choice & 1 ? LCE_F32_LOGITS : 0) | (choice & 2 ? LCE_F32_ACCUMULATE : 0);
                p.proposals = choice & 4 ? 64 << 16 : 0;
                p.max_counted = choice & 8 ? 700 : 0;
                for (int mode = LCE_FAST; mode <= LCE_LEAN; mode++) {
                    seen.ragged = 0;
                    struct lce_plan *plan = plan_of(&p, mode, mode == LCE_FAST ? 384 : 0);
                    if (p.vocab >= 64)
                        assert_int_equal(seen.ragged, 0); /* the tail is not cuBLASLt's */
                    if (run(plan) != LCE_OK)
                        fail_msg("%s", lce_message());
                    assert_ptr_equal(seen.furthest, seen.known[0].begin + plan->info.workspace_size);
                    assert_int_equal(seen.products, products_of(plan));
                    if (choice & 4)
                        assert_int_equal(plan->info.slab_columns, p.vocab < 4096 ? p.vocab : 4096);
                    cuda_plan_destroy(plan);
                }
            }
}

/* On Hopper our products are taken instead of cuBLASLt's where they can solve the problem.  If the caller
 * says that next to no token is ignored, only ours of the logits is, where it may store exponentials. */
TEST(own_products_stay_in_their_buffers_and_are_all_there_is)
{
    static const int64_t vocabs[] = {256, 300, 1003, 50257, 128256, 270001};
    library.images[IMAGE_PRODUCT] = (CUlibrary)1;
    for (size_t i = 0; i < sizeof vocabs / sizeof *vocabs; i++)
        for (int dtype = LCE_F32; dtype <= LCE_BF16; dtype++)
            for (uint32_t choice = 0; choice < 64; choice++) {
                struct lce_problem p = problem_of(1000, choice & 32 ? 72 : 3080, vocabs[i], dtype, 0);
                p.flags = (choice & 1 ? LCE_F32_LOGITS : 0) | (choice & 2 ? LCE_F32_ACCUMULATE : 0);
                p.grad_weight_dtype = choice & 4 ? LCE_F32 : dtype;
                p.proposals = 1 << 14; /* ours even in chunks of 384 */
                p.max_counted = choice & 8 ? 700 : choice & 16 ? 1000 : 0;
                struct lce_plan *plan = plan_of(&p, LCE_FAST, 384);
                const bool own = dtype != LCE_F32 && p.max_counted != 1000;
                if (run(plan) != LCE_OK)
                    fail_msg("%s", lce_message());
                const int exponents = dtype != LCE_F32 && !(choice & 1) ? plan->info.chunks : 0;
                assert_int_equal(seen.own, own ? 3 * plan->info.chunks : exponents);
                assert_int_equal(seen.exponents, exponents);
                assert_int_equal(seen.products, own ? 0 : products_of(plan) - exponents);
                assert_int_equal(plan->info.chunks, p.max_counted == 700 ? 2 : 3);
                assert_ptr_equal(seen.furthest, seen.known[0].begin + plan->info.workspace_size);
                cuda_plan_destroy(plan);
            }
    struct lce_problem odd = problem_of(1000, 76, 1003, LCE_BF16, 0),
                       slabs = problem_of(1000, 64, 9000, LCE_BF16, 0);
    slabs.proposals = 16 << 16;
    const struct lce_problem *const others[] = {&odd, &slabs};
    for (int i = 0; i < 2; i++) {
        struct lce_plan *plan = plan_of(others[i], LCE_FAST, 384);
        assert_int_equal(run(plan), LCE_OK);
        assert_int_equal(seen.own, 0);
        assert_ptr_equal(seen.furthest, seen.known[0].begin + plan->info.workspace_size);
        cuda_plan_destroy(plan);
    }
    library.images[IMAGE_PRODUCT] = NULL;
}

/* In bf16, with products of ours, or that of the logits beside cuBLASLt's where these find both gradients'
 * rows as the caller has them.  The labels' share of dweight takes three kernels. */
TEST(odds_stay_in_their_buffers_and_are_stored_where_they_fit)
{
    static const int64_t vocabs[] = {256, 300, 1003, 50256, 128256};
    static const uint32_t wants[] = {LCE_WANT_LOSS | LCE_WANT_GRAD_INPUT | LCE_WANT_GRAD_WEIGHT,
                                     LCE_WANT_LOSS | LCE_WANT_GRAD_INPUT,
                                     LCE_WANT_LOSS | LCE_WANT_GRAD_WEIGHT, LCE_WANT_LOSS};
    enum { BOTH = LCE_WANT_GRAD_INPUT | LCE_WANT_GRAD_WEIGHT, BESIDE = 3 << 13, OURS = 1 << 14 };
    library.images[IMAGE_PRODUCT] = (CUlibrary)1;
    for (uint32_t choice = 0; choice < 5 * 4 * 16; choice++) {
        const bool bf16 = choice & 1, ours = choice & 2;
        const int64_t vocab = vocabs[choice / 16 % 5];
        struct lce_problem p = problem_of(1000, 1032, vocab, bf16 ? LCE_BF16 : LCE_F16, 0);
        p.wants = wants[choice / 80];
        p.flags = choice & 4 ? LCE_F32_ACCUMULATE : 0;
        p.grad_weight_dtype = choice & 8 ? LCE_F32 : p.dtype;
        p.proposals = ours ? OURS : BESIDE;
        struct lce_plan *plan = plan_of(&p, LCE_FAST, 384);
        const bool fits = bf16 && p.wants & BOTH && (ours || (vocab % 8 == 0 && (p.wants & BOTH) == BOTH));
        if (run(plan) != LCE_OK)
            fail_msg("%s", lce_message());
        assert_int_equal(seen.odds, fits ? plan->info.chunks : 0);
        assert_int_equal(seen.labels, fits && p.wants & LCE_WANT_GRAD_WEIGHT ? 3 : 0);
        assert_int_equal(seen.exponents, plan->info.chunks);
        const size_t left =
            (size_t)(seen.known[0].begin + plan->info.workspace_size - (const char *)seen.furthest);
        assert_in_range(left, 0, plan->info.gemm_size + 255); /* of the scratch a product may take less */
        cuda_plan_destroy(plan);
    }
    library.images[IMAGE_PRODUCT] = NULL;
}

/* A plan knows of some options that it must have the logits; of a bias and of the entropies' gradient only a
 * run does. */
TEST(exponentials_are_stored_where_no_option_needs_the_logits)
{
    static const struct {
        int64_t vocab;
        uint32_t wants, flags, proposals;
        float softcap, smoothing, temperature, z_loss;
        bool bias, entropies, plan, run;
    } rows[] = {{.vocab = 50257, .plan = true, .run = true},
                {.vocab = 50257, .plan = true, .run = true, .temperature = 0.7f, .z_loss = 0.1f},
                {.vocab = 50257, .plan = true, .bias = true},
                {.vocab = 50257, .plan = true, .entropies = true},
                {.vocab = 50257, .wants = LCE_WANT_ENTROPY},
                {.vocab = 50257, .flags = LCE_F32_LOGITS},
                {.vocab = 50257, .proposals = 1 << 12},
                {.vocab = 50257, .softcap = 30},
                {.vocab = 50257, .smoothing = 0.1f},
                {.vocab = 786432, .plan = true, .run = true},
                {.vocab = 786433}};
    library.images[IMAGE_PRODUCT] = (CUlibrary)1;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct lce_problem p = problem_of(1000, 64, rows[i].vocab, LCE_BF16, rows[i].flags);
        p.wants |= rows[i].wants;
        p.proposals = rows[i].proposals | 1 << 14;
        p.softcap = rows[i].softcap, p.label_smoothing = rows[i].smoothing, p.z_loss = rows[i].z_loss;
        p.temperature = rows[i].temperature > 0 ? rows[i].temperature : 1;
        struct lce_plan *base = plan_of(&p, LCE_FAST, 384);
        const struct cuda_plan *plan = (const struct cuda_plan *)base;
        struct lce_buffers b = {.workspace = (void *)16,
                                .grad_input = (void *)16,
                                .grad_weight = (void *)16,
                                .bias = rows[i].bias ? (void *)16 : NULL,
                                .grad_entropy = rows[i].entropies ? (void *)16 : NULL};
        const struct cuda_run r = {.plan = plan, .buffers = &b};
        assert_true(plan->own);
        assert_int_equal(plan->exponents, rows[i].plan);
        assert_int_equal(cuda_takes_exponents(&r), rows[i].run);
        cuda_plan_destroy(base);
    }
    library.images[IMAGE_PRODUCT] = NULL;
}

static void refused(const struct lce_problem *p)
{
    struct lce_plan *plan = plan_of(p, LCE_FAST, 40);
    assert_int_equal(run(plan), LCE_OK);
    const int launches = seen.launches, products = seen.products;
    for (seen.refuse_launch = 1; seen.refuse_launch <= launches; seen.refuse_launch++) {
        assert_int_equal(run(plan), LCE_DEVICE_ERROR);
        assert_int_equal(seen.launches, seen.refuse_launch); /* nothing comes after */
        assert_non_null(strstr(lce_message(), "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES"));
    }
    seen.refuse_launch = 0;
    for (seen.refuse_product = 1; seen.refuse_product <= products; seen.refuse_product++) {
        assert_int_equal(run(plan), LCE_GEMM_ERROR);
        assert_non_null(strstr(lce_message(), "CUBLAS_STATUS_NOT_SUPPORTED"));
    }
    seen.refuse_product = 0;
    seen.current = (CUcontext)8;
    assert_int_equal(run(plan), LCE_DEVICE_ERROR);
    assert_int_equal(seen.launches + seen.products, 0);
    assert_non_null(strstr(lce_message(), "context"));
    cuda_plan_destroy(plan);
}

TEST(what_the_driver_or_cublaslt_refuses_is_an_error_with_its_name)
{
    struct lce_problem p = problem_of(100, 8, 500, LCE_BF16, 0);
    for (p.proposals = 0; p.proposals <= 2 << 16; p.proposals += 2 << 16)
        refused(&p);
    p.proposals = 0;
    struct lce_plan *plan;
    seen.no_algorithm = 1;
    assert_int_equal(cuda_plan_create(&library.base, &p, LCE_FAST, 0, &plan), LCE_GEMM_ERROR);
    seen.no_algorithm = 0;
}

int main(void)
{
    return run_all_tests(read_images, drop_images);
}
