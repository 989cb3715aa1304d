/*
 * test_linear_cross_entropy_corners.c - corner cases as PyTorch has them, and every error with its code and
 * message.
 */
#include <pthread.h>

#include "lce_kit.h"

static const float *floats(const void *memory)
{
    return memory;
}

static void all_equal(const float *values, size_t count, float want)
{
    for (size_t i = 0; i < count; i++)
        assert_true(values[i] == want);
}

TEST(nothing_counted_is_nan_for_mean_and_zero_for_sum)
{
    for (int tokens = 0; tokens <= 5; tokens += 5)
        for (int reduction = LCE_MEAN; reduction <= LCE_NONE; reduction++) {
            struct kit k;
            kit_defaults(&k, tokens, 8, 16);
            k.problem.reduction = reduction;
            k.problem.wants |= LCE_WANT_GRAD_BIAS;
            k.problem.label_smoothing = 0.1f;
            kit_fill(&k, true, true, false);
            for (int i = 0; i < tokens; i++)
                kit_label(&k, i, -100);
            kit_run(&k, LCE_AUTO, 0);
            if (reduction == LCE_MEAN)
                assert_true(isnan(k.buffers.loss[0]));
            else
                all_equal(k.buffers.loss, k.loss_count, 0);
            all_equal(floats(k.buffers.grad_input), (size_t)tokens * 8, 0);
            all_equal(floats(k.buffers.grad_weight), 16 * 8, 0);
            all_equal(floats(k.buffers.grad_bias), 16, 0);
            kit_free(&k);
        }
}

TEST(large_gaps_between_logits_stay_finite)
{
    struct kit k;
    kit_defaults(&k, 2, 1, 3);
    kit_fill(&k, false, false, false);
    float *x = (float *)(uintptr_t)k.buffers.input, *w = (float *)(uintptr_t)k.buffers.weight;
    x[0] = 1, x[1] = -1;
    w[0] = 0, w[1] = 120, w[2] = 5000;
    kit_label(&k, 0, 0);
    kit_label(&k, 1, 2);
    kit_run(&k, LCE_AUTO, 0);
    assert_true(fabsf(k.buffers.loss[0] - 5000) < 1e-2f);
    for (int i = 0; i < 3; i++)
        assert_true(isfinite(floats(k.buffers.grad_weight)[i]));
    assert_true(fabsf(floats(k.buffers.grad_input)[0] - 2500) < 1e-2f);
    kit_free(&k);
}

TEST(a_label_out_of_range_is_flagged_and_poisons_its_row_only)
{
    static const int64_t bad[] = {16, -1, INT64_MAX, INT64_MIN};
    for (size_t i = 0; i < 4; i++) {
        struct kit k;
        kit_defaults(&k, 3, 8, 16);
        k.problem.reduction = LCE_NONE;
        kit_fill(&k, false, false, false);
        kit_label(&k, 1, bad[i]);
        k.error_flag = 0x100; /* or-ed, not set */
        kit_run(&k, LCE_AUTO, 0);
        assert_int_equal(k.error_flag, 0x100 | LCE_DEVICE_LABEL);
        assert_true(isfinite(k.buffers.loss[0]) && isnan(k.buffers.loss[1]) && isfinite(k.buffers.loss[2]));
        for (int h = 0; h < 8; h++) {
            assert_true(isfinite(floats(k.buffers.grad_input)[h]) &&
                        isfinite(floats(k.buffers.grad_input)[16 + h]));
            assert_true(isnan(floats(k.buffers.grad_input)[8 + h]));
        }
        for (int e = 0; e < 16 * 8; e++)
            assert_true(isfinite(floats(k.buffers.grad_weight)[e]));
        kit_free(&k);
    }
}

TEST(an_ignored_token_with_a_label_out_of_range_is_only_ignored)
{
    struct kit k;
    kit_defaults(&k, 2, 8, 16);
    k.problem.ignore_index = 99;
    kit_fill(&k, false, false, false);
    kit_label(&k, 1, 99);
    kit_run(&k, LCE_AUTO, 0);
    assert_int_equal(k.error_flag, 0);
    assert_true(isfinite(k.buffers.loss[0]));
    kit_free(&k);
}

TEST(more_counted_tokens_than_promised_are_flagged)
{
    struct kit k;
    kit_defaults(&k, 4, 8, 16);
    k.problem.max_counted = 2;
    k.problem.reduction = LCE_NONE;
    kit_fill(&k, false, false, false);
    kit_label(&k, 0, -100);
    kit_run(&k, LCE_AUTO, 0);
    assert_int_equal(k.error_flag, LCE_DEVICE_TOO_MANY);
    assert_true(k.buffers.loss[0] == 0 && isfinite(k.buffers.loss[1]) && isfinite(k.buffers.loss[2]));
    assert_true(isnan(k.buffers.loss[3]) && isnan(floats(k.buffers.grad_input)[3 * 8]));
    kit_free(&k);
}

TEST(rows_with_a_stride_leave_what_is_between_them)
{
    struct kit k;
    kit_defaults(&k, 5, 6, 9);
    k.problem.input_stride = 8;
    k.problem.weight_stride = 7;
    k.problem.grad_input_stride = 10;
    k.problem.grad_weight_stride = 11;
    kit_fill(&k, false, false, false);
    assert_int_equal(lce_reference_run(&k.problem, &k.buffers, &k.reference), LCE_OK);
    kit_run(&k, LCE_LEAN, 2);
    assert_true(kit_distance(k.buffers.grad_input, LCE_F32, 10, k.reference.grad_input, 5, 6) < 2e-6);
    assert_true(kit_distance(k.buffers.grad_weight, LCE_F32, 11, k.reference.grad_weight, 9, 6) < 2e-6);
    for (int r = 0; r < 5; r++)
        for (int c = 6; c < 10; c++)
            assert_true(isnan(floats(k.buffers.grad_input)[r * 10 + c]));
    for (int r = 0; r < 9; r++)
        for (int c = 6; c < 11; c++)
            assert_true(isnan(floats(k.buffers.grad_weight)[r * 11 + c]));
    kit_free(&k);
}

/* 16-bit dweight over many chunks: rounded once with LCE_F32_ACCUMULATE; an fp32 dweight needs none */
TEST(dweight_over_chunks_is_rounded_once_where_asked)
{
    double distance[3];
    for (int i = 0; i < 3; i++) {
        struct kit k;
        kit_defaults(&k, 512, 8, 4);
        k.problem.dtype = LCE_BF16;
        k.problem.grad_weight_dtype = i == 2 ? LCE_F32 : -1;
        k.problem.flags = LCE_F32_LOGITS | (i == 1 ? LCE_F32_ACCUMULATE : 0); /* dweight's rounding alone */
        kit_fill(&k, false, false, false);
        assert_int_equal(lce_reference_run(&k.problem, &k.buffers, &k.reference), LCE_OK);
        kit_run(&k, LCE_FAST, 4);
        distance[i] = kit_distance(k.buffers.grad_weight, i == 2 ? LCE_F32 : LCE_BF16, 8,
                                   k.reference.grad_weight, 4, 8);
        kit_free(&k);
    }
    assert_true(distance[0] > 2e-3); /* else this test proves nothing */
    assert_true(distance[1] < 2.5e-3);
    assert_true(distance[2] < 1e-5);
}

TEST(loss_and_gradients_of_two_calls_are_those_of_one)
{
    struct kit one, two;
    for (int i = 0; i < 2; i++) {
        struct kit *k = i ? &two : &one;
        kit_defaults(k, 9, 8, 16);
        kit_fill(k, false, false, false);
    }
    kit_run(&one, LCE_AUTO, 3);
    two.problem.wants = LCE_WANT_LOSS;
    kit_run(&two, LCE_AUTO, 3);
    for (size_t i = 0; i < 9 * 8; i++)
        assert_true(isnan(floats(two.buffers.grad_input)[i])); /* untouched */
    two.problem.wants = LCE_WANT_GRAD_INPUT | LCE_WANT_GRAD_WEIGHT;
    kit_run(&two, LCE_AUTO, 3);
    assert_memory_equal(one.buffers.loss, two.buffers.loss, 4);
    assert_memory_equal(one.buffers.grad_input, two.buffers.grad_input, one.grad_input_bytes);
    assert_memory_equal(one.buffers.grad_weight, two.buffers.grad_weight, one.grad_weight_bytes);
    kit_free(&one);
    kit_free(&two);
}

/* ---- two threads, one plan ---- */

struct user {
    const struct lce_plan *plan;
    struct lce_buffers buffers;
    int status;
};

static void *use(void *memory)
{
    struct user *user = memory;
    for (int i = 0; i < 20 && !user->status; i++)
        user->status = lce_run(user->plan, &user->buffers, NULL);
    return NULL;
}

TEST(threads_share_a_plan_and_need_two_workspaces_only)
{
    struct lce *library;
    struct lce_plan *plan;
    struct kit k;
    struct user users[2];
    pthread_t threads[2];
    kit_defaults(&k, 40, 12, 60);
    kit_fill(&k, false, false, false);
    assert_int_equal(lce_open(LCE_CPU, &library), LCE_OK);
    assert_int_equal(lce_plan_create_chunk(library, &k.problem, LCE_FAST, 16, 0, &plan), LCE_OK);
    const size_t size = lce_plan_info(plan)->workspace_size;
    for (int i = 0; i < 2; i++) {
        users[i] = (struct user){.plan = plan, .buffers = k.buffers};
        struct lce_buffers *b = &users[i].buffers;
        b->workspace = kit_memory(size);
        b->workspace_size = size;
        b->error_flag = NULL;
        b->loss = kit_memory(4);
        b->grad_input = kit_memory(k.grad_input_bytes);
        b->grad_weight = kit_memory(k.grad_weight_bytes);
        assert_int_equal(pthread_create(&threads[i], NULL, use, &users[i]), 0);
    }
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    const struct lce_buffers *a = &users[0].buffers, *b = &users[1].buffers;
    assert_true(users[0].status == LCE_OK && users[1].status == LCE_OK && isfinite(*a->loss));
    assert_memory_equal(a->loss, b->loss, 4);
    assert_memory_equal(a->grad_input, b->grad_input, k.grad_input_bytes);
    assert_memory_equal(a->grad_weight, b->grad_weight, k.grad_weight_bytes);
    for (int i = 0; i < 2; i++) {
        free(users[i].buffers.workspace);
        free(users[i].buffers.loss);
        free(users[i].buffers.grad_input);
        free(users[i].buffers.grad_weight);
    }
    lce_plan_destroy(plan);
    kit_free(&k);
}

/* ---- errors: each its code, and a line that names the thing ---- */

static void refused(const char *what, int want, const char *word, void (*change)(struct kit *))
{
    struct kit k;
    struct lce *library;
    struct lce_plan *plan = NULL;
    kit_defaults(&k, 4, 8, 16);
    kit_fill(&k, false, false, false);
    assert_int_equal(lce_open(LCE_CPU, &library), LCE_OK);
    struct kit changed = k;
    change(&changed);
    int status = lce_plan_create(library, &changed.problem, LCE_AUTO, 0, &plan);
    if (status == LCE_OK) {
        size_t size = lce_plan_info(plan)->workspace_size;
        char *memory = kit_memory(size + 64);
        k.buffers.workspace = memory;
        if (changed.buffers.workspace_size != 1)
            changed.buffers.workspace_size = size;
        else
            changed.buffers.workspace_size = size - 1;
        changed.buffers.workspace = memory + (uintptr_t)changed.buffers.workspace;
        status = lce_run(plan, &changed.buffers, NULL);
    }
    if (status != want || !strstr(lce_message(), word))
        fail_msg("%s: status %d (%s), wanted %d; message: %s", what, status, lce_status_name(status), want,
                 lce_message());
    lce_plan_destroy(plan);
    kit_free(&k);
}

static int refuses(void *context, int step, int64_t first, int64_t count, void *stream)
{
    return 7;
}

static void exchanging(struct kit *k)
{
    k->problem.flags = LCE_EXCHANGE;
    k->problem.parts = 1;
    k->buffers.partial = k->buffers.grad_input; /* room for all, if not for long */
    k->buffers.partials = k->buffers.grad_weight;
    k->buffers.exchange = refuses;
}

#define CHANGE(name, ...)                                                                                    \
    static void name(struct kit *k)                                                                          \
    {                                                                                                        \
        __VA_ARGS__;                                                                                         \
    }
#define PROBLEMS(X)                                                                                          \
    X(no_init, LCE_BAD_ARGUMENT, "lce_problem_init", k->problem.size = 0)                                    \
    X(dtype, LCE_BAD_DTYPE, "dtype 3", k->problem.dtype = 3)                                                 \
    X(label_dtype, LCE_BAD_DTYPE, "label_dtype", k->problem.label_dtype = 2)                                 \
    X(weight_dtype, LCE_BAD_DTYPE, "grad_weight_dtype", k->problem.grad_weight_dtype = LCE_F16)              \
    X(wants_nothing, LCE_BAD_ARGUMENT, "wants", k->problem.wants = 0)                                        \
    X(wants_more, LCE_BAD_ARGUMENT, "wants", k->problem.wants = 64)                                          \
    X(flags, LCE_BAD_ARGUMENT, "flags", k->problem.flags = 64)                                               \
    X(exchange_alone, LCE_BAD_ARGUMENT, "LCE_EXCHANGE", k->problem.flags = LCE_EXCHANGE)                     \
    X(ahead_of_nothing, LCE_BAD_ARGUMENT, "which is gone", k->problem.flags = 32)                            \
    X(no_exchange, LCE_BAD_ARGUMENT, "exchange", exchanging(k), k->buffers.exchange = NULL)                  \
    X(no_room_for_partials, LCE_BAD_ARGUMENT, "partials", exchanging(k), k->buffers.partials = NULL)         \
    X(refused_exchange, LCE_EXCHANGE_FAILED, "returned 7 for LCE_EXCHANGE_START of 4 rows from 0 on",        \
      exchanging(k))                                                                                         \
    X(reduction, LCE_BAD_ARGUMENT, "reduction", k->problem.reduction = 3)                                    \
    X(smoothing, LCE_BAD_ARGUMENT, "label_smoothing", k->problem.label_smoothing = 1.5f)                     \
    X(smoothing_nan, LCE_BAD_ARGUMENT, "label_smoothing", k->problem.label_smoothing = NAN)                  \
    X(z_loss, LCE_BAD_ARGUMENT, "z_loss", k->problem.z_loss = -1)                                            \
    X(softcap, LCE_BAD_ARGUMENT, "softcap", k->problem.softcap = -1)                                         \
    X(temperature, LCE_BAD_ARGUMENT, "temperature", k->problem.temperature = -1)                             \
    X(partial, LCE_BAD_ARGUMENT, "alone", k->problem.wants = LCE_WANT_PARTIAL | LCE_WANT_LOSS)               \
    X(no_entropy, LCE_BAD_ARGUMENT, "entropy", k->problem.wants = LCE_WANT_ENTROPY)                          \
    X(no_partial, LCE_BAD_ARGUMENT, "partial", k->problem.wants = LCE_WANT_PARTIAL)                          \
    X(no_partials, LCE_BAD_ARGUMENT, "partials", k->problem.parts = 2)                                       \
    X(parts, LCE_BAD_ARGUMENT, "parts", k->problem.parts = -1)                                               \
    X(classes, LCE_BAD_ARGUMENT, "vocab_total", k->problem.vocab_begin = 1)                                  \
    X(part_of, LCE_BAD_ARGUMENT, "vocab_total", k->problem.vocab_total = 1000)                               \
    X(huge_total, LCE_TOO_LARGE, "vocab_total",                                                              \
      (k->problem.vocab_total = INT64_C(1) << 31, k->problem.parts = 2))                                     \
    X(beta, LCE_BAD_ARGUMENT, "grad_weight_beta", k->problem.grad_weight_beta = INFINITY)                    \
    X(negative_tokens, LCE_BAD_ARGUMENT, "tokens -1", k->problem.tokens = -1)                                \
    X(no_hidden, LCE_BAD_ARGUMENT, "hidden 0", k->problem.hidden = 0)                                        \
    X(no_vocab, LCE_BAD_ARGUMENT, "vocab 0", k->problem.vocab = 0)                                           \
    X(huge_vocab, LCE_TOO_LARGE, "vocab", k->problem.vocab = INT64_C(1) << 31)                               \
    X(huge_logits, LCE_TOO_LARGE, "logits",                                                                  \
      (k->problem.tokens = INT32_MAX - 64, k->problem.vocab = INT32_MAX - 64))                               \
    X(huge_stride, LCE_TOO_LARGE, "weight_stride", k->problem.weight_stride = INT64_C(1) << 60)              \
    X(short_stride, LCE_BAD_ARGUMENT, "input_stride", k->problem.input_stride = 7)                           \
    X(max_counted, LCE_BAD_ARGUMENT, "max_counted", k->problem.max_counted = 5)                              \
    X(no_input, LCE_BAD_ARGUMENT, "input", k->buffers.input = NULL)                                          \
    X(no_labels, LCE_BAD_ARGUMENT, "labels", k->buffers.labels = NULL)                                       \
    X(no_loss, LCE_BAD_ARGUMENT, "loss", k->buffers.loss = NULL)                                             \
    X(no_grad_weight, LCE_BAD_ARGUMENT, "grad_weight", k->buffers.grad_weight = NULL)                        \
    X(input_at_8, LCE_MISALIGNED, "input", k->buffers.input = (const char *)k->buffers.input + 8)            \
    X(weight_at_4, LCE_MISALIGNED, "weight", k->buffers.weight = (const char *)k->buffers.weight + 4)        \
    X(labels_at_4, LCE_MISALIGNED, "labels", k->buffers.labels = (const char *)k->buffers.labels + 4)        \
    X(loss_at_2, LCE_MISALIGNED, "loss",                                                                     \
      k->buffers.loss = (float *)(uintptr_t)((char *)k->buffers.loss + 2))                                   \
    X(workspace_at_8, LCE_MISALIGNED, "workspace", k->buffers.workspace = (void *)8)                         \
    X(workspace_small, LCE_WORKSPACE_TOO_SMALL, "workspace_size", k->buffers.workspace_size = 1)

#define X(name, status, word, ...) CHANGE(change_##name, __VA_ARGS__)
PROBLEMS(X)
#undef X

TEST(every_mistake_has_its_code_and_names_the_field)
{
#define X(name, status, word, ...) refused(#name, status, word, change_##name);
    PROBLEMS(X)
#undef X
}

TEST(plans_refuse_what_is_not_there)
{
    struct lce *library = NULL;
    struct lce_plan *plan;
    struct lce_problem problem;
    lce_problem_init(&problem);
    problem.tokens = problem.hidden = problem.vocab = 16;
    assert_int_equal(lce_open(7, &library), LCE_BAD_ARGUMENT);
    assert_non_null(strstr(lce_message(), "back end 7"));
    assert_int_equal(lce_open(LCE_CPU, NULL), LCE_BAD_ARGUMENT);
    assert_int_equal(lce_open(LCE_CPU, &library), LCE_OK);
    assert_int_equal(lce_plan_create(library, &problem, 9, 0, &plan), LCE_BAD_ARGUMENT);
    assert_int_equal(lce_plan_create(library, &problem, 3, 0, &plan), LCE_BAD_ARGUMENT);
    assert_non_null(strstr(lce_message(), "LCE_NAIVE, which is gone; use LCE_FAST"));
    assert_int_equal(lce_plan_create(library, NULL, LCE_AUTO, 0, &plan), LCE_BAD_ARGUMENT);
    assert_int_equal(lce_plan_create_chunk(library, &problem, LCE_AUTO, -1, 0, &plan), LCE_BAD_ARGUMENT);
    assert_int_equal(lce_plan_create(library, &problem, LCE_AUTO, 100, &plan), LCE_BUDGET_TOO_SMALL);
    assert_non_null(strstr(lce_message(), "needs"));
    assert_int_equal(lce_run(NULL, NULL, NULL), LCE_BAD_ARGUMENT);
    assert_int_equal(lce_reference_run(NULL, NULL, NULL), LCE_BAD_ARGUMENT);
    assert_null(lce_plan_info(NULL));
    lce_plan_destroy(NULL);
    lce_close(NULL);
}

/* The budget is a ceiling: fast's plan if that fits, else lean's, which is the least. */
TEST(a_budget_takes_the_plan_that_fits_or_is_refused_with_leans_bytes)
{
    struct lce *library;
    struct lce_plan *plan;
    struct lce_problem problem;
    char needs[64];
    uint64_t sizes[LCE_LEAN + 1] = {0};
    lce_problem_init(&problem);
    problem.tokens = 32768;
    problem.hidden = 40;
    problem.vocab = 1000;
    assert_int_equal(lce_open(LCE_CPU, &library), LCE_OK);
    for (int mode = LCE_AUTO; mode <= LCE_LEAN; mode++) {
        assert_int_equal(lce_plan_create(library, &problem, mode, 0, &plan), LCE_OK);
        assert_int_equal(lce_plan_info(plan)->mode, mode == LCE_LEAN ? LCE_LEAN : LCE_FAST);
        sizes[mode] = lce_plan_info(plan)->workspace_size;
        lce_plan_destroy(plan);
    }
    const uint64_t fast = sizes[LCE_FAST], lean = sizes[LCE_LEAN];
    assert_true(sizes[LCE_AUTO] == fast && lean < fast);
    snprintf(needs, sizeof needs, "LCE_LEAN needs %llu", (unsigned long long)lean);
    for (int mode = LCE_AUTO; mode <= LCE_LEAN; mode++)
        for (uint64_t budget = lean - 1; budget <= fast;
             budget += budget < lean ? 1 : (fast - lean + 1) / 2) {
            const int status = lce_plan_create(library, &problem, mode, budget, &plan);
            assert_int_equal(status, budget < lean ? LCE_BUDGET_TOO_SMALL : LCE_OK);
            if (status == LCE_OK) {
                const bool whole = mode != LCE_LEAN && budget == fast;
                assert_int_equal(lce_plan_info(plan)->mode, whole ? LCE_FAST : LCE_LEAN);
                assert_true(lce_plan_info(plan)->workspace_size == (whole ? fast : lean));
                lce_plan_destroy(plan);
            } else {
                assert_non_null(strstr(lce_message(), needs));
                assert_null(plan);
            }
        }
}

TEST(sizes_beyond_two_gigabytes_are_exact)
{
    struct lce *library;
    struct lce_plan *plan;
    struct lce_problem problem;
    lce_problem_init(&problem);
    problem.tokens = 32768;
    problem.hidden = 4096;
    problem.vocab = 256000; /* 8.4e9 logits */
    assert_int_equal(lce_open(LCE_CPU, &library), LCE_OK);
    for (int64_t chunk = 0; chunk <= 32768; chunk += 4096) {
        assert_int_equal(lce_plan_create_chunk(library, &problem, LCE_AUTO, chunk, 0, &plan), LCE_OK);
        const struct lce_plan_info *info = lce_plan_info(plan);
        assert_true(chunk ? info->chunk_tokens == chunk : info->workspace_size <= 64 << 20);
        assert_true(info->logits_size == (uint64_t)info->chunk_tokens * 256000 * 4);
        assert_true(info->workspace_size > info->logits_size);
        assert_true(info->slab_columns == 256000);
        assert_true(info->chunks == (32768 + info->chunk_tokens - 1) / info->chunk_tokens);
        lce_plan_destroy(plan);
    }
}

TEST(a_gradient_is_scaled_unless_what_is_asked_cannot_be)
{
    struct lce *library;
    _Alignas(16) float numbers[5] = {1, -2, 3, INFINITY, 0.5f};
    const float half = 0.5f, one = 1, want[5] = {0.5f, -1, 1.5f, INFINITY, 0.25f};
    assert_int_equal(lce_open(LCE_CPU, &library), LCE_OK);
    assert_int_equal(lce_scale(library, numbers, 5, LCE_F32, &half, NULL), LCE_OK);
    assert_memory_equal(numbers, want, sizeof want);
    assert_int_equal(lce_scale(library, numbers, 5, LCE_F32, &one, NULL), LCE_OK);
    assert_int_equal(lce_scale(library, numbers, 0, LCE_F32, &half, NULL), LCE_OK);
    assert_int_equal(lce_scale(library, NULL, 0, LCE_F32, &half, NULL), LCE_OK); /* an empty tensor */
    assert_memory_equal(numbers, want, sizeof want);
    assert_int_equal(lce_scale(NULL, numbers, 5, LCE_F32, &half, NULL), LCE_BAD_ARGUMENT);
    assert_int_equal(lce_scale(library, NULL, 5, LCE_F32, &half, NULL), LCE_BAD_ARGUMENT);
    assert_int_equal(lce_scale(library, numbers, 5, LCE_F32, NULL, NULL), LCE_BAD_ARGUMENT);
    assert_int_equal(lce_scale(library, numbers, 5, 3, &half, NULL), LCE_BAD_DTYPE);
    assert_int_equal(lce_scale(library, numbers + 1, 4, LCE_F32, &half, NULL), LCE_MISALIGNED);
    assert_int_equal(lce_scale(library, numbers, UINT64_MAX, LCE_F32, &half, NULL), LCE_TOO_LARGE);
    assert_memory_equal(numbers, want, sizeof want);
    lce_close(library);
}

TEST(halves_round_to_nearest_even)
{
    for (uint32_t half = 0; half < 65536; half++) {
        float bf16 = lce_from_bf16((uint16_t)half), f16 = lce_from_f16((uint16_t)half);
        if (!isnan(bf16))
            assert_int_equal(lce_to_bf16(bf16), half);
        if (!isnan(f16))
            assert_int_equal(lce_to_f16(f16), half);
    }
    assert_true(isnan(lce_from_bf16(lce_to_bf16(NAN))) && isnan(lce_from_f16(lce_to_f16(NAN))));
    assert_int_equal(lce_to_f16(65519.0f), 0x7bff);
    assert_int_equal(lce_to_f16(65520.0f), 0x7c00);
    assert_int_equal(lce_to_f16(1 + 0x1p-11f), 0x3c00);
    assert_int_equal(lce_to_f16(1 + 3 * 0x1p-11f), 0x3c02);
    assert_int_equal(lce_to_f16(0x1p-25f), 0);
    assert_int_equal(lce_to_f16(3 * 0x1p-25f), 2);
    assert_int_equal(lce_to_bf16(1 + 0x1p-8f), 0x3f80);
    assert_int_equal(lce_to_bf16(1 + 3 * 0x1p-8f), 0x3f82);
}
