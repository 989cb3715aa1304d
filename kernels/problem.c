/*
 * problem.c - checks every problem and every set of buffers before a back end sees it.
 *
 * Sizes are bounded so that all later arithmetic fits 63 bits: the largest things ever computed are all
 * logits, 16 N V bytes at most, and a matrix, 8 rows stride.
 */
#include <math.h>
#include <string.h>

#include "internal.h"

void lce_problem_init(struct lce_problem *problem)
{
    memset(problem, 0, sizeof *problem);
    problem->size = sizeof *problem;
    problem->wants = LCE_WANT_LOSS | LCE_WANT_GRAD_INPUT | LCE_WANT_GRAD_WEIGHT;
    problem->dtype = LCE_BF16;
    problem->grad_weight_dtype = -1;
    problem->ignore_index = -100;
}

size_t lce_dtype_size(int dtype)
{
    return dtype == LCE_F32 ? 4 : 2;
}

bool lce_wants_gradients(const struct lce_problem *problem)
{
    return problem->wants & (LCE_WANT_GRAD_INPUT | LCE_WANT_GRAD_WEIGHT | LCE_WANT_GRAD_BIAS);
}

bool lce_in_parts(const struct lce_problem *problem)
{
    return problem->parts > 0 || problem->wants & LCE_WANT_PARTIAL;
}

size_t lce_part(size_t *total, size_t count, size_t size)
{
    size_t begin = *total;
    *total += (count * size + 255) / 256 * 256;
    return begin;
}

static int check_types(const struct lce_problem *p)
{
    if (p->dtype < LCE_F32 || p->dtype > LCE_BF16)
        return lce_fail(LCE_BAD_DTYPE, "problem: dtype %d is not supported; use LCE_F32, LCE_F16 or LCE_BF16",
                        p->dtype);
    if (p->label_dtype != LCE_I64 && p->label_dtype != LCE_I32)
        return lce_fail(LCE_BAD_DTYPE, "problem: label_dtype %d is not supported; use LCE_I64 or LCE_I32",
                        p->label_dtype);
    if (p->grad_weight_dtype != -1 && p->grad_weight_dtype != p->dtype && p->grad_weight_dtype != LCE_F32)
        return lce_fail(
            LCE_BAD_DTYPE,
            "problem: grad_weight_dtype %d is not supported; use dtype's (%d), LCE_F32, or -1 for dtype's",
            p->grad_weight_dtype, p->dtype);
    return LCE_OK;
}

static int check_choices(const struct lce_problem *p)
{
    const uint32_t wants = LCE_WANT_LOSS | LCE_WANT_GRAD_INPUT | LCE_WANT_GRAD_WEIGHT | LCE_WANT_GRAD_BIAS |
                           LCE_WANT_ENTROPY | LCE_WANT_PARTIAL;
    if (!p->wants || p->wants & ~wants)
        return lce_fail(LCE_BAD_ARGUMENT, "problem: wants is 0x%x; or together members of enum lce_want",
                        p->wants);
    if (p->wants & LCE_WANT_PARTIAL && p->wants != LCE_WANT_PARTIAL)
        return lce_fail(
            LCE_BAD_ARGUMENT,
            "problem: wants is 0x%x; LCE_WANT_PARTIAL (0x%x) must be alone: the rest is the second "
            "run's, with parts",
            p->wants, (unsigned int)LCE_WANT_PARTIAL);
    if (p->flags & 32)
        return lce_fail(LCE_BAD_ARGUMENT, "problem: flags has LCE_EXCHANGE_AHEAD (0x20), which is gone; use "
                                          "LCE_EXCHANGE alone");
    if (p->flags &
        ~(uint32_t)(LCE_ALLOW_TF32 | LCE_F32_ACCUMULATE | LCE_F32_LOGITS | LCE_PORTABLE | LCE_EXCHANGE))
        return lce_fail(LCE_BAD_ARGUMENT, "problem: flags is 0x%x; or together members of enum lce_flag",
                        p->flags);
    if (p->reduction < LCE_MEAN || p->reduction > LCE_NONE)
        return lce_fail(LCE_BAD_ARGUMENT,
                        "problem: reduction %d is unknown; use LCE_MEAN, LCE_SUM or LCE_NONE", p->reduction);
    if (!(p->label_smoothing >= 0 && p->label_smoothing <= 1))
        return lce_fail(LCE_BAD_ARGUMENT, "problem: label_smoothing is %g; it must lie in 0 .. 1",
                        p->label_smoothing);
    if (!(p->z_loss >= 0) || isinf(p->z_loss))
        return lce_fail(LCE_BAD_ARGUMENT, "problem: z_loss is %g; it must be 0 or more, and finite",
                        p->z_loss);
    if (!(p->softcap >= 0) || isinf(p->softcap))
        return lce_fail(LCE_BAD_ARGUMENT, "problem: softcap is %g; it must be 0 (none) or more, and finite",
                        p->softcap);
    if (!(p->temperature >= 0) || isinf(p->temperature))
        return lce_fail(
            LCE_BAD_ARGUMENT,
            "problem: temperature is %g; it must be above 0, and finite, or 0 for the default of 1",
            p->temperature);
    if (!isfinite(p->grad_weight_beta))
        return lce_fail(LCE_BAD_ARGUMENT, "problem: grad_weight_beta is %g; it must be finite",
                        p->grad_weight_beta);
    return LCE_OK;
}

static int check_sizes(const struct lce_problem *p)
{
    if (p->tokens < 0 || p->hidden < 1 || p->vocab < 1)
        return lce_fail(
            LCE_BAD_ARGUMENT,
            "problem: tokens %lld, hidden %lld, vocab %lld; tokens must be 0 or more, the others 1 or more",
            (long long)p->tokens, (long long)p->hidden, (long long)p->vocab);
    /* products, matrix libraries and kernels count rows and columns in 32 bits */
    const int64_t most = INT32_MAX - 64;
    if (p->tokens > most || p->hidden > most || p->vocab > most)
        return lce_fail(LCE_TOO_LARGE,
                        "problem: tokens %lld, hidden %lld, vocab %lld; each must be at most %lld",
                        (long long)p->tokens, (long long)p->hidden, (long long)p->vocab, (long long)most);
    int64_t all;
    if (__builtin_mul_overflow(p->tokens * 16, p->vocab + 64, &all))
        return lce_fail(LCE_TOO_LARGE, "problem: logits of %lld tokens by %lld do not fit an address",
                        (long long)p->tokens, (long long)p->vocab);
    if (p->max_counted < 0 || p->max_counted > p->tokens)
        return lce_fail(LCE_BAD_ARGUMENT,
                        "problem: max_counted is %lld; it must be 0 (no promise) .. tokens (%lld)",
                        (long long)p->max_counted, (long long)p->tokens);
    return LCE_OK;
}

static int check_parts(struct lce_problem *p)
{
    if (p->vocab_total == 0 && p->vocab_begin == 0)
        p->vocab_total = p->vocab;
    if (p->parts < 0 || (p->parts > 0 && p->wants & LCE_WANT_PARTIAL))
        return lce_fail(
            LCE_BAD_ARGUMENT,
            "problem: parts is %d; it must be 0, or in the second run the number of partial results",
            p->parts);
    if (p->flags & LCE_EXCHANGE && p->parts < 1)
        return lce_fail(LCE_BAD_ARGUMENT,
                        "problem: flags has LCE_EXCHANGE (0x%x) and parts is %d; say over how many ranks",
                        (unsigned int)LCE_EXCHANGE, p->parts);
    if (p->vocab_begin < 0 || p->vocab_begin > p->vocab_total - p->vocab)
        return lce_fail(LCE_BAD_ARGUMENT,
                        "problem: %lld classes from vocab_begin %lld on do not lie within vocab_total %lld",
                        (long long)p->vocab, (long long)p->vocab_begin, (long long)p->vocab_total);
    if (p->vocab_total > INT32_MAX - 64)
        return lce_fail(LCE_TOO_LARGE, "problem: vocab_total is %lld; it must be at most %d",
                        (long long)p->vocab_total, INT32_MAX - 64);
    if (p->vocab_total != p->vocab && !lce_in_parts(p))
        return lce_fail(LCE_BAD_ARGUMENT,
                        "problem: vocab is %lld of vocab_total %lld; want LCE_WANT_PARTIAL alone, or say how "
                        "many parts there are",
                        (long long)p->vocab, (long long)p->vocab_total);
    int64_t bytes;
    if (__builtin_mul_overflow((int64_t)sizeof(struct lce_partial) * p->parts, p->tokens, &bytes))
        return lce_fail(LCE_TOO_LARGE, "problem: %d partial results of %lld tokens do not fit an address",
                        p->parts, (long long)p->tokens);
    return LCE_OK;
}

static int check_stride(const char *name, int64_t *stride, int64_t rows, int64_t hidden)
{
    if (*stride == 0)
        *stride = hidden;
    if (*stride < hidden)
        return lce_fail(LCE_BAD_ARGUMENT, "problem: %s is %lld, less than a row (hidden = %lld)", name,
                        (long long)*stride, (long long)hidden);
    int64_t bytes;
    if (__builtin_mul_overflow(*stride, rows > 0 ? rows : 1, &bytes) ||
        __builtin_mul_overflow(bytes, 8, &bytes))
        return lce_fail(LCE_TOO_LARGE, "problem: %lld rows of %s %lld do not fit an address", (long long)rows,
                        name, (long long)*stride);
    return LCE_OK;
}

int lce_problem_check(const struct lce_problem *problem, struct lce_problem *complete)
{
    if (problem->size != sizeof *problem)
        return lce_fail(LCE_BAD_ARGUMENT,
                        "problem: size is %u, not %zu; call lce_problem_init first (same header?)",
                        problem->size, sizeof *problem);
    struct lce_problem *p = complete;
    *p = *problem;
    int status = check_types(p);
    if (!status)
        status = check_choices(p);
    if (!status)
        status = check_sizes(p);
    if (!status)
        status = check_parts(p);
    if (!status)
        status = check_stride("input_stride", &p->input_stride, p->tokens, p->hidden);
    if (!status)
        status = check_stride("weight_stride", &p->weight_stride, p->vocab, p->hidden);
    if (!status)
        status = check_stride("grad_input_stride", &p->grad_input_stride, p->tokens, p->hidden);
    if (!status)
        status = check_stride("grad_weight_stride", &p->grad_weight_stride, p->vocab, p->hidden);
    if (p->grad_weight_dtype == -1)
        p->grad_weight_dtype = p->dtype;
    if (p->temperature == 0)
        p->temperature = 1;
    return status;
}

static int check_address(const char *name, const void *address, size_t alignment, bool needed)
{
    if (needed && !address)
        return lce_fail(LCE_BAD_ARGUMENT, "buffers: %s is NULL, and the problem needs it", name);
    if ((uintptr_t)address % alignment)
        return lce_fail(LCE_MISALIGNED, "buffers: %s is at %p; it must be aligned to %zu bytes", name,
                        address, alignment);
    return LCE_OK;
}

int lce_buffers_check(const struct lce_plan *plan, const struct lce_buffers *b)
{
    const struct lce_problem *p = &plan->problem;
    const bool tokens = p->tokens > 0, exchanged = p->flags & LCE_EXCHANGE;
    const size_t label = p->label_dtype == LCE_I64 ? 8 : 4;
    const struct {
        const char *name;
        const void *address;
        size_t alignment;
        bool needed;
    } rows[] = {
        {"input", b->input, 16, tokens},
        {"weight", b->weight, 16, true},
        {"bias", b->bias, 16, false},
        {"labels", b->labels, label, tokens},
        {"class_weights", b->class_weights, 4, false},
        {"grad_output", b->grad_output, 4, false},
        {"loss", b->loss, 4, p->wants & LCE_WANT_LOSS && (tokens || p->reduction != LCE_NONE)},
        {"grad_input", b->grad_input, 16, p->wants & LCE_WANT_GRAD_INPUT && tokens},
        {"grad_weight", b->grad_weight, 16, p->wants & LCE_WANT_GRAD_WEIGHT},
        {"grad_bias", b->grad_bias, 16, p->wants & LCE_WANT_GRAD_BIAS},
        {"error_flag", b->error_flag, 4, false},
        {"entropy", b->entropy, 4, p->wants & LCE_WANT_ENTROPY && tokens},
        {"grad_entropy", b->grad_entropy, 4, false},
        {"partial", b->partial, 4, (p->wants & LCE_WANT_PARTIAL || exchanged) && tokens},
        {"partials", b->partials, 4, p->parts > 0 && tokens},
        {"exchange", exchanged ? (const void *)(uintptr_t)b->exchange : NULL, 1, exchanged},
        {"workspace", b->workspace, plan->library->operations->workspace_alignment,
         plan->info.workspace_size > 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int status = check_address(rows[i].name, rows[i].address, rows[i].alignment, rows[i].needed);
        if (status)
            return status;
    }
    if (b->workspace_size < plan->info.workspace_size)
        return lce_fail(LCE_WORKSPACE_TOO_SMALL, "buffers: workspace_size is %zu; this plan needs %llu bytes",
                        b->workspace_size, (unsigned long long)plan->info.workspace_size);
    return LCE_OK;
}
