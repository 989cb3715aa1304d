/*
 * test_linear_cross_entropy.c - the CPU path against the double reference, the reference against finite
 * differences.
 */
#include "lce_kit.h"

struct option_case {
    const char *name;
    float smoothing, z_loss, softcap, beta, temperature;
    bool bias, weights, upstream, invalid;
    bool entropy, above; /* wanted; with an upstream gradient */
    int ignored;         /* every so many-th token */
};

static const struct option_case cases[] = {
    {.name = "plain"},
    {.name = "ignore", .ignored = 3},
    {.name = "bias", .bias = true},
    {.name = "smoothing", .smoothing = 0.1f},
    {.name = "smoothing of everything", .smoothing = 1},
    {.name = "z-loss", .z_loss = 0.01f},
    {.name = "softcap", .softcap = 2},
    {.name = "class weights", .weights = true},
    {.name = "upstream", .upstream = true},
    {.name = "beta", .beta = 0.5f, .bias = true},
    {.name = "smoothing, ignore, weights", .smoothing = 0.3f, .ignored = 4, .weights = true},
    {.name = "label out of range", .invalid = true},
    {.name = "temperature", .temperature = 0.6f},
    {.name = "entropy", .entropy = true, .invalid = true, .ignored = 4},
    {.name = "entropy with a gradient", .entropy = true, .above = true, .temperature = 2},
    {.name = "everything",
     .smoothing = 0.2f,
     .z_loss = 0.05f,
     .softcap = 3,
     .temperature = 1.5f,
     .entropy = true,
     .above = true,
     .beta = -1,
     .bias = true,
     .weights = true,
     .upstream = true,
     .ignored = 5},
};
enum { CASES = sizeof cases / sizeof *cases };

struct shape {
    int tokens, hidden, vocab;
};
/* No size is a multiple of a product's tile; rows of the weight are more than the CPU widens at a time. */
static const struct shape ragged = {13, 9, 67};
/* For the slope of every element: no more than each formula needs. */
static const struct shape tiny = {9, 3, 11};

static void prepare(struct kit *k, const struct shape *s, const struct option_case *c, int dtype,
                    int reduction, int label_dtype)
{
    kit_defaults(k, s->tokens, s->hidden, s->vocab);
    struct lce_problem *p = &k->problem;
    p->dtype = dtype;
    p->reduction = reduction;
    p->label_dtype = label_dtype;
    p->wants |= LCE_WANT_GRAD_BIAS;
    p->label_smoothing = c->smoothing;
    p->z_loss = c->z_loss;
    p->softcap = c->softcap;
    p->grad_weight_beta = c->beta;
    p->temperature = c->temperature;
    p->ignore_index = c->ignored == 5 ? 7 : -100; /* also inside the vocabulary */
    kit_fill(k, c->bias, c->weights, c->upstream);
    if (c->entropy)
        kit_entropy(k, c->above);
    for (int64_t i = 0; c->ignored && i < p->tokens; i += c->ignored)
        kit_label(k, i, p->ignore_index);
    if (c->invalid) {
        kit_label(k, 3, p->vocab);
        kit_label(k, 8, -1);
    }
}

/* what was in dweight and dbias before, beta times */
static void add_before(const struct kit *k, double *want, const void *before, int64_t count)
{
    for (int64_t i = 0; i < count && k->problem.grad_weight_beta != 0; i++)
        want[i] += (double)k->problem.grad_weight_beta * (double)lce_load(before, k->problem.dtype, i);
}

static void compare(struct kit *k, const char *name, int chunk, double tolerance)
{
    const struct lce_problem *p = &k->problem;
    const struct lce_buffers *b = &k->buffers;
    const struct lce_reference *r = &k->reference;
    double distance[] = {
        kit_distance(b->loss, LCE_F32, 1, r->loss, (int64_t)k->loss_count, 1),
        kit_distance(b->grad_input, p->dtype, p->hidden, r->grad_input, p->tokens, p->hidden),
        kit_distance(b->grad_weight, p->dtype, p->hidden, r->grad_weight, p->vocab, p->hidden),
        kit_distance(b->grad_bias, p->dtype, 1, r->grad_bias, p->vocab, 1),
        b->entropy ? kit_distance(b->entropy, LCE_F32, 1, r->entropy, p->tokens, 1) : 0,
    };
    static const double rounded[] = {[LCE_F32] = 1e-5, [LCE_F16] = 2e-4, [LCE_BF16] = 1.5e-3};
    const double loss_tolerance = p->flags & LCE_F32_LOGITS ? 1e-5 : rounded[p->dtype];
    for (int i = 0; i < 5; i++)
        if (!(distance[i] <= (i % 4 == 0 ? loss_tolerance : tolerance)))
            fail_msg("%s, dtype %d, flags %u, reduction %d, chunk %d: output %d differs by %g", name,
                     p->dtype, p->flags, p->reduction, chunk, i, distance[i]);
}

static void one_case(const struct option_case *c, int dtype, uint32_t flags, int reduction, int chunk)
{
    static const double tolerance[] = {[LCE_F32] = 2e-6, [LCE_F16] = 1.5e-3, [LCE_BF16] = 1.2e-2};
    struct kit k;
    prepare(&k, &ragged, c, dtype, reduction, chunk % 2 ? LCE_I32 : LCE_I64);
    k.problem.flags = flags;
    const int64_t count = k.problem.vocab * k.problem.hidden;
    if (c->beta != 0)
        for (int64_t i = 0; i < count; i++) {
            lce_store(k.buffers.grad_weight, dtype, i, (float)(i % 13) * 0.01f);
            if (i < k.problem.vocab)
                lce_store(k.buffers.grad_bias, dtype, i, (float)(i % 7) * 0.01f);
        }
    assert_int_equal(lce_reference_run(&k.problem, &k.buffers, &k.reference), LCE_OK);
    add_before(&k, k.reference.grad_weight, k.buffers.grad_weight, count);
    add_before(&k, k.reference.grad_bias, k.buffers.grad_bias, k.problem.vocab);
    kit_run(&k, LCE_FAST, chunk);
    assert_int_equal(k.error_flag, c->invalid ? LCE_DEVICE_LABEL : 0);
    compare(&k, c->name, chunk, tolerance[dtype]);
    kit_free(&k);
}

TEST(every_option_in_every_type_is_the_reference)
{
    const int chunks[] = {1, 4, 8, ragged.tokens};
    for (int i = 0; i < CASES; i++)
        for (int dtype = LCE_F32; dtype <= LCE_BF16; dtype++)
            for (int reduction = LCE_MEAN; reduction <= LCE_NONE; reduction++)
                for (size_t c = dtype == LCE_F32 ? 0 : 3; c < 4;
                     c++) /* 16-bit dweight is rounded once per chunk */
                    for (uint32_t flags = 0; flags <= LCE_F32_LOGITS; flags += LCE_F32_LOGITS)
                        one_case(&cases[i], dtype, flags, reduction, chunks[c]);
}

/* Tokens near the label's row of the weight, so that its logit stands out by about 12: as in a trained model.
 */
static void peak(struct kit *k)
{
    const struct lce_problem *p = &k->problem;
    double squares = (double)p->hidden / 3; /* of a row of numbers in -1 .. 1 */
    for (int64_t i = 0; i < p->tokens; i++)
        for (int64_t h = 0; h < p->hidden; h++) {
            float row = lce_load(k->buffers.weight, p->dtype, i % p->vocab * p->hidden + h);
            lce_store((void *)(uintptr_t)k->buffers.input, p->dtype, i * p->hidden + h,
                      (float)(0.1 * kit_random(k) + (double)row * 12 / squares));
            kit_label(k, i, i % p->vocab);
        }
}

TEST(a_peaked_softmax_in_bf16_is_right_to_half_a_percent_with_fp32_logits_only)
{
    for (uint32_t flags = 0; flags <= LCE_F32_LOGITS; flags += LCE_F32_LOGITS) {
        struct kit k;
        kit_defaults(&k, 64, 96, 777);
        k.problem.dtype = LCE_BF16;
        k.problem.flags = flags;
        kit_fill(&k, false, false, false);
        peak(&k);
        assert_int_equal(lce_reference_run(&k.problem, &k.buffers, &k.reference), LCE_OK);
        kit_run(&k, LCE_FAST, 64);
        double dinput = kit_distance(k.buffers.grad_input, LCE_BF16, 96, k.reference.grad_input, 64, 96),
               dweight = kit_distance(k.buffers.grad_weight, LCE_BF16, 96, k.reference.grad_weight, 777, 96);
        if (flags ? !(dinput < 2.5e-3 && dweight < 2.5e-3) : !(dinput > 5e-3 && dweight > 5e-3))
            fail_msg("flags %u: dinput is off by %g, dweight by %g", flags, dinput, dweight);
        kit_free(&k);
    }
}

/* the loss as one number: for none, weighed with the upstream gradients; and so the entropies */
static double total(struct kit *k)
{
    struct lce_reference out = {.loss = k->reference.loss, .entropy = k->reference.entropy};
    assert_int_equal(lce_reference_run(&k->problem, &k->buffers, &out), LCE_OK);
    double sum = 0;
    for (size_t i = 0; i < k->loss_count; i++)
        sum += out.loss[i] * (k->buffers.grad_output ? (double)k->buffers.grad_output[i] : 1);
    for (int64_t i = 0; k->buffers.grad_entropy && i < k->problem.tokens; i++)
        sum += out.entropy[i] * (double)k->buffers.grad_entropy[i];
    return sum;
}

/* d total / d element, by a step to either side that is exact in fp32 */
static double slope(struct kit *k, const void *matrix, int64_t index)
{
    float *element = (float *)(uintptr_t)matrix + index, middle = *element, step = 0x1p-9f;
    *element = middle + step;
    double up = total(k), high = (double)*element;
    *element = middle - step;
    double down = total(k), low = (double)*element;
    *element = middle;
    return (up - down) / (high - low);
}

static void slopes(struct kit *k, const char *name, const void *matrix, const double *gradient, int64_t count)
{
    double size = 0;
    for (int64_t i = 0; i < count; i++)
        size = fmax(size, fabs(gradient[i]));
    for (int64_t i = 0; i < count; i++) {
        double want = slope(k, matrix, i);
        if (fabs(want - gradient[i]) > 2e-5 * size + 1e-9)
            fail_msg("%s: element %d has gradient %g, slope %g", name, (int)i, gradient[i], want);
    }
}

TEST(the_reference_gradients_are_the_slopes_of_its_loss)
{
    for (int i = 0; i < CASES; i++)
        for (int reduction = LCE_MEAN; reduction <= LCE_NONE && !cases[i].invalid; reduction++) {
            struct kit k;
            prepare(&k, &tiny, &cases[i], LCE_F32, reduction, LCE_I64);
            assert_int_equal(lce_reference_run(&k.problem, &k.buffers, &k.reference), LCE_OK);
            slopes(&k, cases[i].name, k.buffers.input, k.reference.grad_input,
                   k.problem.tokens * k.problem.hidden);
            slopes(&k, cases[i].name, k.buffers.weight, k.reference.grad_weight,
                   k.problem.vocab * k.problem.hidden);
            if (k.buffers.bias)
                slopes(&k, cases[i].name, k.buffers.bias, k.reference.grad_bias, k.problem.vocab);
            kit_free(&k);
        }
}

TEST(the_plain_loss_of_a_known_case)
{
    struct kit k; /* logits 0 and log 3: probabilities 1/4 and 3/4 */
    kit_defaults(&k, 1, 1, 2);
    kit_fill(&k, false, false, false);
    kit_entropy(&k, false);
    ((float *)(uintptr_t)k.buffers.input)[0] = 1;
    ((float *)(uintptr_t)k.buffers.weight)[0] = 0;
    ((float *)(uintptr_t)k.buffers.weight)[1] = 1.0986122887f;
    kit_label(&k, 0, 0);
    assert_int_equal(lce_reference_run(&k.problem, &k.buffers, &k.reference), LCE_OK);
    assert_true(fabs(k.reference.loss[0] - log(4)) < 1e-7);
    assert_true(fabs(k.reference.entropy[0] - (log(4) - 0.75 * log(3))) < 1e-7);
    assert_true(fabs(k.reference.grad_weight[0] + 0.75) < 1e-7 &&
                fabs(k.reference.grad_weight[1] - 0.75) < 1e-7);
    assert_true(fabs(k.reference.grad_input[0] - 0.75 * 1.0986122887) < 1e-7);
    kit_free(&k);
}
