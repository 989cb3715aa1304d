/*
 * test_linear_cross_entropy_cuda_choice.c - what the CUDA back end multiplies and passes over rows with: the
 * kernel for a row's length and options, our own products or cuBLASLt's, and which of cuBLASLt's proposals.
 */
#define _GNU_SOURCE
#include <math.h>

#include "lce_cuda_kit.h"

/* Rows of any length have a pass with all options that needs a cluster, unless gradients are narrower. */
TEST(all_options_have_a_kernel_for_every_length)
{
    static const struct {
        int64_t vocab;
        int dtype;
        uint32_t flags;
        unsigned int cluster;
    } rows[] = {{1000, LCE_BF16, 0, 1},
                {20000, LCE_BF16, 0, 2},
                {128256, LCE_BF16, 0, 8},
                {270001, LCE_BF16, 0, 8},
                {270001, LCE_F32, 0, 8},
                {128256, LCE_BF16, LCE_F32_LOGITS, 8},
                {256000, LCE_F16, LCE_F32_LOGITS, 8},
                {270001, LCE_F16, LCE_F32_LOGITS, 0}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct lce_problem p = problem_of(64, 8, rows[i].vocab, rows[i].dtype, rows[i].flags);
        struct lce_plan *plan = plan_of(&p, LCE_FAST, 0);
        assert_int_equal(((struct cuda_plan *)plan)->kernels.softmax[CUDA_GENERAL].cluster, rows[i].cluster);
        cuda_plan_destroy(plan);
    }
}

/* Where they are estimated to cost more than 10 % when nothing is ignored, they are not taken unasked. */
TEST(own_products_are_for_long_chunks_and_many_tokens)
{
    static const struct {
        int64_t tokens, hidden, vocab, chunk;
        bool own;
    } rows[] = {{8192, 4096, 128256, 2048, true}, {16384, 3072, 128256, 2048, true},
                {8192, 2304, 256000, 1024, true}, {1000, 3584, 151646, 1000, true},
                {511, 3584, 151646, 511, false},  {600, 1536, 129280, 600, false},
                {65536, 1024, 50304, 4096, true}, {9001, 2880, 201088, 1280, true}};
    library.images[IMAGE_PRODUCT] = (CUlibrary)1;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct lce_problem p = problem_of(rows[i].tokens, rows[i].hidden, rows[i].vocab, LCE_BF16, 0);
        struct lce_plan *plan = plan_of(&p, LCE_FAST, 0);
        if (((struct cuda_plan *)plan)->own != rows[i].own || plan->info.chunk_tokens != rows[i].chunk)
            fail_msg("%d x %d x %d: %s, chunks of %d", (int)p.tokens, (int)p.hidden, (int)p.vocab,
                     rows[i].own ? "cuBLASLt's" : "ours", (int)plan->info.chunk_tokens);
        cuda_plan_destroy(plan);
    }
    library.images[IMAGE_PRODUCT] = NULL;
}

/* With an fp32 dweight that is added to; at V=262144 cuBLASLt's have no room for whole rows by default, and
 * were measured to be 8 to 9 % slower, by slabs. */
TEST(own_products_add_to_a_main_gradient)
{
    static const struct {
        int64_t tokens, hidden, vocab;
        bool own;
    } rows[] = {{8192, 4096, 128256, true}, {4096, 2048, 151646, true}, {8192, 2304, 256000, true},
                {600, 1536, 129280, false}, {1024, 2048, 262144, true}, {2048, 1152, 262144, true},
                {4096, 3840, 262144, true}};
    library.images[IMAGE_PRODUCT] = (CUlibrary)1;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct lce_problem p = problem_of(rows[i].tokens, rows[i].hidden, rows[i].vocab, LCE_BF16, 0);
        p.wants &= ~(uint32_t)LCE_WANT_GRAD_BIAS;
        p.grad_weight_dtype = LCE_F32;
        p.grad_weight_beta = 1;
        struct lce_plan *plan = plan_of(&p, LCE_FAST, 0);
        if (((struct cuda_plan *)plan)->own != rows[i].own)
            fail_msg("%d x %d x %d: %s", (int)p.tokens, (int)p.hidden, (int)p.vocab,
                     rows[i].own ? "cuBLASLt's" : "ours");
        cuda_plan_destroy(plan);
    }
    library.images[IMAGE_PRODUCT] = NULL;
}

/* dinput's and dweight's, of each chunk; and where a measurement asks for them. */
TEST(tiles_are_narrow_where_the_last_would_be_empty)
{
    static const struct {
        int64_t hidden;
        int32_t proposals;
        int narrow;
    } rows[] = {{2880, 0, 4}, {4096, 0, 0}, {2880, 0x110, 0}, {4096, 0x220, 4}, {4096, 0x020, 2}};
    library.images[IMAGE_PRODUCT] = (CUlibrary)1;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct lce_problem p = problem_of(4096, rows[i].hidden, 32000, LCE_BF16, 0);
        p.proposals = (uint32_t)rows[i].proposals | 1u << 14;
        struct lce_plan *plan = plan_of(&p, LCE_FAST, 2048);
        assert_int_equal(run(plan), LCE_OK);
        if (seen.narrow != rows[i].narrow)
            fail_msg("H = %d, proposals %#x: %d narrow", (int)p.hidden, (unsigned int)p.proposals,
                     seen.narrow);
        cuda_plan_destroy(plan);
    }
    library.images[IMAGE_PRODUCT] = NULL;
}

/* the whole row is on the chip up to these lengths, and how it lies there */
TEST(rows_of_logits_get_the_kernel_for_their_length)
{
    static const struct {
        int64_t vocab;
        int dtype;
        uint32_t flags;
        const char *kernel;
        unsigned int cluster;
    } rows[] = {
        {128256, LCE_BF16, 0, "lce_softmax_bf16_plain_8", 4},
        {256000, LCE_BF16, 0, "lce_softmax_bf16_plain_8", 8},
        {128256, LCE_BF16, LCE_F32_LOGITS, "lce_softmax_wide_bf16_plain_8", 8},
        {152064, LCE_F16, LCE_F32_LOGITS, "lce_softmax_wide_f16_plain_12", 8},
        {256000, LCE_BF16, LCE_F32_LOGITS, "lce_softmax_wide_bf16_plain_16", 8},
        {270001, LCE_BF16, LCE_F32_LOGITS, "lce_softmax_wide_bf16_loop", 0},
        {270001, LCE_BF16, 0, "lce_softmax_bf16_loop", 0},
        {256000, LCE_F32, LCE_F32_LOGITS, "lce_softmax_f32_plain_16", 8},
        {100, LCE_F16, LCE_F32_LOGITS, "lce_softmax_wide_f16_plain_1", 1},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct lce_problem p = problem_of(64, 8, rows[i].vocab, rows[i].dtype, rows[i].flags);
        struct lce_plan *plan = plan_of(&p, LCE_FAST, 0);
        assert_string_equal(seen.softmax, rows[i].kernel);
        assert_int_equal(((struct cuda_plan *)plan)->kernels.softmax[CUDA_PLAIN].cluster, rows[i].cluster);
        cuda_plan_destroy(plan);
    }
}

/* Of the options only those that need a logit's own class take the pass that has them all. */
TEST(temperatures_and_entropies_keep_the_fast_passes)
{
    static const float some = 0;
    const struct lce_softmax_args plain = {
        .temperature = 0.7f, .to_bits = 2, .z_loss = 1, .grad_output = &some};
    struct lce_softmax_args entropies = plain, weights = plain, a[] = {plain, plain, plain, plain};
    entropies.moments = 1;
    weights.class_weights = &some; /* of which a token has its label's alone */
    assert_int_equal(cuda_kind(&plain), CUDA_PLAIN);
    assert_int_equal(cuda_kind(&weights), CUDA_PLAIN);
    assert_int_equal(cuda_kind(&entropies), CUDA_ENTROPIC);
    a[0].bias = &some, a[1].smoothing = 0.1f, a[2].softcap = 30;
    a[3].to_bits = INFINITY; /* of a temperature so near to 0 that its inverse is no number */
    for (size_t i = 0; i < sizeof a / sizeof *a; i++)
        for (int moments = 0; moments < 2; moments++) {
            a[i].moments = moments;
            assert_int_equal(cuda_kind(&a[i]), CUDA_GENERAL);
        }
}

/* 8.x has neither, whatever its number of multiprocessors; LCE_PORTABLE forces the same. */
TEST(gpus_without_clusters_get_no_cluster_and_no_products_of_ours)
{
    static const int processors[] = {1, 16, 54, 84, 108, 148, 192};
    for (size_t i = 0; i < sizeof processors / sizeof *processors; i++)
        for (int forced = 0; forced < 2; forced++)
            for (int64_t tokens = 1; tokens <= 65536; tokens *= 16) {
                struct lce_problem p = problem_of(tokens, 1024, 50257, LCE_BF16, forced ? LCE_PORTABLE : 0);
                p.proposals = 1 << 14; /* ours, if they can be had */
                library.major = forced ? 9 : 8;
                library.processors = processors[i];
                struct lce_plan *plan = plan_of(&p, LCE_FAST, 0);
                const struct cuda_plan *all = (const struct cuda_plan *)plan;
                assert_false(all->own);
                assert_true(cuda_sliced(all) || (all->kernels.softmax[CUDA_PLAIN].cluster == 0 &&
                                                 all->kernels.softmax[CUDA_GENERAL].cluster == 0));
                assert_in_range(plan->info.chunk_tokens, 1, tokens);
                cuda_plan_destroy(plan);
            }
    library.major = 10;
    library.processors = 132;
}

/* ---- cuBLASLt's proposals ---- */

static int chosen(enum lce_role role)
{
    const struct lce_product product = {.m = 2048,
                                        .n = 128256,
                                        .k = 4096,
                                        .out_stride = 128256,
                                        .a_stride = 4096,
                                        .b_stride = 4096,
                                        .role = role,
                                        .dtype = LCE_BF16,
                                        .out_dtype = LCE_BF16,
                                        .alignment = 16,
                                        .transpose_b = true};
    struct lce_gemm gemm;
    assert_int_equal(lce_gemm_create(&library.blas, NULL, &product, 1 << 20, &gemm), LCE_OK);
    const size_t scratch = gemm.workspace_size;
    const int tile = (int)gemm.algorithm.data[0];
    lce_gemm_destroy(&library.blas, &gemm);
    for (int i = 0; i < 8; i++)
        if ((int)seen.proposals[i].tile == tile && scratch == seen.scratch + (size_t)i * 256)
            return i;
    return -1;
}

static uint64_t tile_of_logits(int major, int dtype)
{
    struct lce_problem p = problem_of(8192, 4096, 128256, dtype, 0);
    library.major = major;
    struct lce_plan *plan = plan_of(&p, LCE_FAST, 0);
    const struct cuda_products *products = ((struct cuda_plan *)plan)->products[0];
    const uint64_t tile = products[0].logits.algorithm.data[0];
    assert_int_equal(products[0].dinput.algorithm.data[0], CUBLASLT_MATMUL_TILE_320x128);
    cuda_plan_destroy(plan);
    library.major = 10;
    return tile;
}

TEST(plans_choose_among_proposals_only_where_that_was_measured)
{
    memset(&seen, 0, sizeof seen);
    seen.proposals[0] = (struct proposal){CUBLASLT_MATMUL_TILE_320x128, 49};
    seen.proposals[1] = (struct proposal){CUBLASLT_MATMUL_TILE_144x128, 108};
    assert_int_equal(tile_of_logits(9, LCE_BF16), CUBLASLT_MATMUL_TILE_144x128);
    assert_int_equal(tile_of_logits(9, LCE_F16), CUBLASLT_MATMUL_TILE_144x128);
    assert_int_equal(tile_of_logits(9, LCE_F32), CUBLASLT_MATMUL_TILE_320x128);
    assert_int_equal(tile_of_logits(10, LCE_BF16), CUBLASLT_MATMUL_TILE_320x128);
}

TEST(of_cublaslts_proposals_that_is_taken_whose_tiles_are_written_beside_the_arithmetic)
{
    memset(&seen, 0, sizeof seen);
    const struct proposal as_on_an_h200[8] = {
        {CUBLASLT_MATMUL_TILE_320x128, 49}, {CUBLASLT_MATMUL_TILE_256x128, 61},
        {CUBLASLT_MATMUL_TILE_128x256, 61}, {CUBLASLT_MATMUL_TILE_128x160, 81},
        {CUBLASLT_MATMUL_TILE_176x128, 88}, {CUBLASLT_MATMUL_TILE_168x128, 93},
        {CUBLASLT_MATMUL_TILE_144x128, 5}, /* few rounds: the last may be all but empty */
        {CUBLASLT_MATMUL_TILE_192x128, 81}};
    memcpy(seen.proposals, as_on_an_h200, sizeof as_on_an_h200);
    assert_int_equal(chosen(LCE_LOGITS), 5);
    assert_int_equal(chosen(LCE_DWEIGHT), 3);
    assert_int_equal(chosen(LCE_ANY), 0);
    seen.proposals[6].rounds = 108;
    assert_int_equal(chosen(LCE_LOGITS), 6);
    seen.proposals[1].tile = 0; /* the only one */
    assert_int_equal(chosen(LCE_LOGITS), 0);
    assert_int_equal(chosen(LCE_DWEIGHT), 0);
}

int main(void)
{
    return run_all_tests(read_images, drop_images);
}
