/* test_estimate.c - the phases of a step are made of the rows that they have, and what is not known has no
 * figure. */

#include "unit/test.h"
#include "estimate/estimate.h"
#include "estimate/formulas.h"

static char why[256];

/* Llama-3.2-1B, with its output layer's weights of its own where UNTIED. */
static struct model llama(bool untied)
{
    return (struct model){.kind = MODEL_LLAMA,
                          .layers = 16,
                          .hidden = 2048,
                          .heads = 32,
                          .kv_heads = 8,
                          .head_dim = 64,
                          .ffn = 8192,
                          .vocab = 128256,
                          .outputs = 128256,
                          .words = true,
                          .tied = !untied,
                          .norms = 2,
                          .layer = 60821504,
                          .embedding = 262668288,
                          .parameters = 1235814400 + (untied ? 262668288 : 0)};
}

static struct setup bf16(void)
{
    return (struct setup){.model = llama(true),
                          .batch = 2,
                          .tokens = 1024,
                          .each = {2, 2, 4, 2},
                          .element = 2,
                          .gpus = 1,
                          .tensor_parallel = 1,
                          .gather = 2};
}

static struct estimate made(const struct setup *s)
{
    struct estimate e;
    assert_int_equal(estimate_make(&e, s, why, sizeof why), 0);
    for (int i = 0; i < ESTIMATE_PHASES; i++) {
        int64_t sum = 0;
        for (int row = 0; row < ESTIMATE_ROWS; row++)
            sum += e.bytes[i][row] == UNKNOWN ? 0 : e.bytes[i][row];
        assert_true(e.total[i] >= sum - ESTIMATE_ROWS && e.total[i] <= sum + ESTIMATE_ROWS);
        assert_true(e.total[e.peak] >= e.total[i]);
    }
    return e;
}

TEST(a_phase_has_what_lives_in_it)
{
    struct setup s = bf16();
    struct estimate e = made(&s);
    int64_t p = s.model.parameters, n = 2048;
    for (int i = 0; i < ESTIMATE_PHASES; i++)
        assert_true(e.bytes[i][ROW_PARAMETERS] == 2 * p && e.bytes[i][ROW_STATES] == 4 * p);
    assert_int_equal(e.bytes[PHASE_FORWARD][ROW_GRADIENTS], 0);
    assert_int_equal(e.bytes[PHASE_FORWARD][ROW_LOGITS], 0);
    assert_int_equal(e.bytes[PHASE_LOGITS][ROW_LOGITS], 10 * n * s.model.vocab);
    assert_int_equal(e.bytes[PHASE_OPTIMIZER][ROW_GRADIENTS], 2 * p);
    assert_int_equal(e.bytes[PHASE_OPTIMIZER][ROW_FOREACH], 2 * p);
    assert_int_equal(e.bytes[PHASE_OPTIMIZER][ROW_ACTIVATIONS], 0);
    assert_true(e.whole && e.bytes[PHASE_FORWARD][ROW_ACTIVATIONS] ==
                               n * (16 * (int64_t)kept_by_layer(&s.model, 2) + 2048 * 8 + 4));
    estimate_free(&e);
}

/* 2 norms of 8 H + 4, attention 2 (2 Q + 2 K) + 4 heads, a gated MLP of 8 F; each in bytes. */
TEST(a_layer_of_llama_keeps_what_was_counted)
{
    struct model m = llama(true);
    assert_true(kept_by_layer(&m, 2) == 2 * (8 * 2048 + 4) + 2 * (2 * 2048 + 2 * 512) + 4 * 32 + 8 * 8192);
    m.kind = MODEL_QWEN3;
    assert_true(kept_by_layer(&m, 2) - kept_by_layer(&(struct model){.kind = MODEL_LLAMA,
                                                                     .hidden = 2048,
                                                                     .heads = 32,
                                                                     .kv_heads = 8,
                                                                     .head_dim = 64,
                                                                     .ffn = 8192,
                                                                     .norms = 2},
                                                     2) ==
                6 * (2048 + 512) + 4 * (32 + 8));
}

/* 8192 tokens in a recording: 1009.06 MiB a layer, and 116 of its weights' copies. */
TEST(under_autocast_a_layer_keeps_its_casts_too)
{
    struct model m = llama(true);
    assert_true(kept_under_autocast(&m) == 129160);
    assert_true(kept_casts(&m) == 116 * 1048576.0);
    struct setup s = bf16();
    s.each = (struct bytes_each){4, 4, 8, 4};
    s.autocast = true;
    struct estimate e = made(&s);
    int64_t n = 2048;
    assert_int_equal(e.bytes[PHASE_FORWARD][ROW_ACTIVATIONS],
                     16 * (n * 129160 + INT64_C(116) * 1048576) + n * (8 * 2048 + 4));
    /* behind the layers the output layer's weight and input are cast */
    assert_int_equal(e.bytes[PHASE_LOGITS][ROW_LOGITS],
                     10 * n * s.model.vocab + 2 * (s.model.embedding + n * 2048));
    estimate_free(&e);
    s.model.kind = MODEL_GPT2;
    assert_int_equal(estimate_make(&e, &s, why, sizeof why), -1);
    assert_non_null(strstr(why, "under autocast is not known"));
}

/* Whichever way activations are counted, the weights' copies are among them. */
TEST(the_papers_formula_lacks_no_casts_under_autocast)
{
    struct setup s = bf16();
    s.scores = true;
    struct estimate e = made(&s);
    int64_t plain = e.bytes[PHASE_FORWARD][ROW_ACTIVATIONS], logits = e.bytes[PHASE_LOGITS][ROW_LOGITS];
    estimate_free(&e);
    s.autocast = true;
    e = made(&s);
    assert_int_equal(e.bytes[PHASE_FORWARD][ROW_ACTIVATIONS], plain + 16 * (INT64_C(116) << 20));
    assert_int_equal(e.bytes[PHASE_LOGITS][ROW_LOGITS],
                     logits + 2 * (s.model.embedding + INT64_C(2048) * 2048));
    assert_non_null(strstr(e.from[ROW_ACTIVATIONS], "autocast's copies of weights"));
    estimate_free(&e);
    s.scores = false;
    s.model.kind = MODEL_UNKNOWN;
    s.model.embedding = s.model.layer = UNKNOWN;
    e = made(&s);
    assert_int_equal(e.bytes[PHASE_FORWARD][ROW_ACTIVATIONS],
                     16 * INT64_C(34) * 2048 * 2048 + 2 * s.model.parameters);
    assert_non_null(strstr(e.from[ROW_ACTIVATIONS], "2 bytes a parameter"));
    estimate_free(&e);
    s = bf16();
    s.autocast = true;
    s.recompute = RECOMPUTE_FULL;
    e = made(&s);
    assert_non_null(strstr(e.from[ROW_ACTIVATIONS], "the input of each layer, 4 bytes"));
    estimate_free(&e);
}

/* What ZeRO 3 gathers in 16 bits autocast does not copy; of fp32 it does. */
TEST(what_is_gathered_in_16_bits_is_cast_no_more)
{
    struct setup s = bf16();
    s.each = (struct bytes_each){4, 4, 8, 4};
    s.autocast = true;
    s.stage = 3;
    s.gpus = 8;
    s.gather = 4;
    struct estimate copied = made(&s);
    s.gather = 2;
    struct estimate e = made(&s);
    int64_t input = INT64_C(2048) * 2048;
    assert_int_equal(copied.bytes[PHASE_FORWARD][ROW_ACTIVATIONS] - e.bytes[PHASE_FORWARD][ROW_ACTIVATIONS],
                     16 * (INT64_C(116) << 20));
    assert_int_equal(e.bytes[PHASE_LOGITS][ROW_LOGITS], 10 * INT64_C(2048) * s.model.vocab + 2 * input);
    assert_null(strstr(e.from[ROW_ACTIVATIONS], "copies"));
    assert_null(strstr(e.from[ROW_LOGITS], "weight"));
    estimate_free(&e);
    estimate_free(&copied);
}

/* A bare model has no logits, labels are as good as none, and neither has a gradient of an output layer. */
TEST(without_an_output_layer_there_are_no_logits)
{
    struct setup s = bf16();
    s.model.words = s.model.tied = false;
    s.model.outputs = 0;
    struct estimate e = made(&s);
    assert_true(e.whole && !e.from[ROW_LOGITS] && !e.from[ROW_LOGITS_GRADIENTS]);
    for (int i = 0; i < ESTIMATE_PHASES; i++)
        assert_int_equal(e.bytes[i][ROW_LOGITS] + e.bytes[i][ROW_LOGITS_GRADIENTS], 0);
    estimate_free(&e);
    s.model.outputs = 3;
    e = made(&s);
    assert_int_equal(e.bytes[PHASE_LOGITS][ROW_LOGITS], 2 * 3 * 2048);
    assert_int_equal(e.bytes[PHASE_BACKWARD][ROW_LOGITS], 0);
    estimate_free(&e);
}

/* A mixture of experts by flags: 12 L h^2 are a twelfth of it. */
TEST(sizes_that_are_not_dense_have_no_activations)
{
    struct setup s = bf16();
    s.model = model_none();
    s.model.layers = 4;
    s.model.hidden = 2048;
    s.model.heads = 32;
    s.model.vocab = s.model.outputs = 32000;
    s.model.embedding = INT64_C(32000) * 2048;
    s.model.parameters = INT64_C(2624600000);
    struct estimate e = made(&s);
    assert_true(e.bytes[PHASE_FORWARD][ROW_ACTIVATIONS] == UNKNOWN && !e.whole && e.least[PHASE_FORWARD]);
    assert_non_null(strstr(e.from[ROW_ACTIVATIONS], "mixture of experts"));
    estimate_free(&e);
    s.model.hidden = 3072; /* Gemma-7b, the widest of those that are dense */
    s.model.layers = 28;
    s.model.vocab = s.model.outputs = 256000;
    s.model.embedding = INT64_C(256000) * 3072;
    s.model.parameters = INT64_C(8537680896);
    e = made(&s);
    assert_true(e.whole && e.bytes[PHASE_FORWARD][ROW_ACTIVATIONS] != UNKNOWN);
    estimate_free(&e);
}

TEST(backward_is_the_highest_of_its_moments)
{
    struct setup s = bf16();
    s.tokens = 4096; /* the loss */
    struct estimate e = made(&s);
    assert_int_equal(e.bytes[PHASE_BACKWARD][ROW_LOGITS], 4 * INT64_C(8192) * s.model.vocab);
    assert_int_equal(e.bytes[PHASE_BACKWARD][ROW_LOGITS_GRADIENTS], 8 * INT64_C(8192) * s.model.vocab);
    assert_int_equal(e.bytes[PHASE_BACKWARD][ROW_GRADIENTS], 0);
    estimate_free(&e);
    s.tokens = 1; /* its end: all gradients */
    e = made(&s);
    assert_int_equal(e.bytes[PHASE_BACKWARD][ROW_LOGITS], 0);
    assert_int_equal(e.bytes[PHASE_BACKWARD][ROW_GRADIENTS], 2 * s.model.parameters);
    assert_int_equal(e.peak, PHASE_OPTIMIZER);
    estimate_free(&e);
    s.keep_gradients = true;
    e = made(&s);
    assert_int_equal(e.bytes[PHASE_FORWARD][ROW_GRADIENTS], 2 * s.model.parameters);
    estimate_free(&e);
}

TEST(recompute_keeps_a_layers_input)
{
    struct setup s = bf16();
    s.recompute = RECOMPUTE_FULL;
    s.model.kind = MODEL_UNKNOWN;
    struct estimate e = made(&s);
    assert_int_equal(e.bytes[PHASE_FORWARD][ROW_ACTIVATIONS], INT64_C(2) * 2048 * 2048 * 16);
    assert_non_null(strstr(e.from[ROW_ACTIVATIONS], "input of each layer"));
    estimate_free(&e);
}

TEST(sharded_and_offloaded)
{
    struct setup s = bf16();
    s.stage = 3;
    s.gpus = 8;
    s.gather = 4;
    struct estimate e = made(&s);
    assert_int_equal(e.bytes[PHASE_FORWARD][ROW_PARAMETERS], 2 * s.model.parameters / 8);
    assert_int_equal(e.bytes[PHASE_FORWARD][ROW_GATHERED], 4 * s.model.embedding);
    assert_int_equal(e.bytes[PHASE_OPTIMIZER][ROW_GATHERED], 0);
    estimate_free(&e);
    s.offload = OFFLOAD_OPTIMIZER;
    e = made(&s);
    assert_int_equal(e.bytes[PHASE_OPTIMIZER][ROW_STATES] + e.bytes[PHASE_OPTIMIZER][ROW_GRADIENTS] +
                         e.bytes[PHASE_OPTIMIZER][ROW_FOREACH],
                     0);
    assert_string_equal(e.from[ROW_STATES], "on the host");
    estimate_free(&e);
}

TEST(without_a_size_there_is_no_figure)
{
    struct setup s = bf16();
    s.tokens = UNKNOWN;
    struct estimate e = made(&s);
    assert_false(e.whole);
    assert_true(e.bytes[PHASE_FORWARD][ROW_ACTIVATIONS] == UNKNOWN &&
                e.bytes[PHASE_LOGITS][ROW_LOGITS] == UNKNOWN);
    assert_int_equal(e.total[PHASE_OPTIMIZER], 10 * s.model.parameters);
    estimate_free(&e);
    s.model = model_none();
    assert_int_equal(estimate_make(&e, &s, why, sizeof why), -1);
    assert_non_null(strstr(why, "--params"));
    s = bf16();
    s.batch = s.tokens = INT64_C(1) << 40;
    assert_int_equal(estimate_make(&e, &s, why, sizeof why), -1);
    assert_non_null(strstr(why, "4 PiB"));
}

TEST(a_fused_loss_has_a_chunk_and_no_more)
{
    struct setup s = bf16();
    s.fused_loss = true;
    s.chunk = 1024;
    struct estimate e = made(&s);
    assert_int_equal(e.bytes[PHASE_LOGITS][ROW_LOGITS], INT64_C(2) * 1024 * s.model.vocab);
    assert_int_equal(e.bytes[PHASE_BACKWARD][ROW_LOGITS], 0);
    estimate_free(&e);
}
