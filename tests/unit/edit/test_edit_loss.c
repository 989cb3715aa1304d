/* test_edit_loss.c - loss=fused: which blocks are logits and their gradients, and what stands in their place.
 */
#include "made.h"

/* l and m are logits, d and e their gradients, W and I the output layer's */
static const struct known losses[] = {
    {'h', MIB(4), KIND_SAVED, UNIT0},    {'l', MIB(64), KIND_LOGITS, HEAD},
    {'m', MIB(64), KIND_LOGITS, LOSS},   {'d', MIB(64), KIND_BACKWARD, LOSS},
    {'e', MIB(64), KIND_BACKWARD, LOSS}, {'W', MIB(16), KIND_GRADIENT, HEAD},
    {'I', MIB(4), KIND_BACKWARD, HEAD},  {'x', MIB(2), KIND_BACKWARD, UNIT0},
    {'w', MIB(16), KIND_PARAMETER, 0},   {0}};

TEST(a_fused_loss_has_no_logits_and_makes_its_gradients_in_logits)
{
    struct made m;
    make(&m, ".+w f+h l+l l+m l-l b+d b+e b-d b-m b+W b+I b-e b+x b-h b-I b-x .-W |", losses);
    assert_int_equal(peak_of(&m.p, NULL), MIB(16 + 4 + 3 * 64));
    struct peaks p = edited(&m, "loss=fused");
    /* 64 x 4 / 16 MiB of 4 B elements: 2048 tokens, one chunk at the most */
    assert_int_equal(p.high, MIB(16 + 4 + 16 + 4 + 64 + 4));
    /* of 2 B elements: 2896 tokens, chunks of 1024 at the least */
    assert_in_range(p.low, MIB(16 + 4 + 16 + 4 + 22), MIB(16 + 4 + 16 + 4 + 23));
    assert_int_equal(p.phase[BACKWARD], MIB(16 + 4 + 16 + 4 + 2));
}

/* s: cuBLAS makes its workspace for backward's thread where backward multiplies first, between W and I. */
TEST(a_workspace_of_the_first_backward_is_no_gradient_of_the_output_layer)
{
    struct made m;
    struct known with[sizeof losses / sizeof *losses + 1];
    memcpy(with, losses, sizeof losses);
    with[sizeof losses / sizeof *losses - 1] = (struct known){'s', MIB(32), KIND_OTHER, HEAD};
    with[sizeof losses / sizeof *losses] = (struct known){0};
    make(&m, ".+w f+h l+l l+m l-l b+d b+e b-d b-m b+W b+s b+I b-e b+x b-h b-I b-x .-W |", with);
    assert_int_equal(edited(&m, "loss=fused").high, MIB(16 + 4 + 16 + 4 + 64 + 4));
    static const struct element raw[] = {{'s', .raw = true}, {0}};
    with[sizeof losses / sizeof *losses - 1].kind = KIND_BACKWARD;
    with[sizeof losses / sizeof *losses - 1].size = MIB(30); /* as large as the user says */
    elements = raw;
    make(&m, ".+w f+h l+l l+m l-l b+d b+e b-d b-m b+W b+s b+I b-e b+x b-h b-I b-x b-s .-W |", with);
    elements = NULL;
    facts.asked = (struct asked_table){.at = asked_for, .n = sizeof asked_for / sizeof *asked_for};
    uint64_t high = edited(&m, "loss=fused").high;
    facts.asked = (struct asked_table){.n = 0};
    assert_int_equal(high, MIB(16 + 4 + 16 + 4 + 64 + 4));
}

/* c is a copy of w in 16 bits, V the gradient of that. */
TEST(under_autocast_the_fused_loss_may_make_its_gradient_in_fp32)
{
    static const struct known cast[] = {{'h', MIB(4), KIND_SAVED, UNIT0},
                                        {'l', MIB(64), KIND_LOGITS, HEAD},
                                        {'d', MIB(64), KIND_BACKWARD, LOSS},
                                        {'V', MIB(8), KIND_BACKWARD, HEAD},
                                        {'I', MIB(4), KIND_BACKWARD, HEAD},
                                        {'W', MIB(16), KIND_GRADIENT, LOSS},
                                        {'w', MIB(16), KIND_PARAMETER, 0},
                                        {'c', MIB(8), KIND_SAVED, HEAD},
                                        {0}};
    struct made m;
    make(&m, ".+w f+h f+c l+l b+d b+V b+I b-d b-l b-c b+W b-V b-I b-h .-W |", cast);
    struct peaks p = edited(&m, "loss=fused");
    /* both V, which a fused one has in 16 or 32 bits; 2896 tokens of 4 bytes: a chunk of 2048 */
    assert_in_range(p.high, MIB(16 + 4 + 8 + 16 + 4 + 45 + 4), MIB(16 + 4 + 8 + 16 + 4 + 64 + 4));
    assert_in_range(p.low, MIB(16 + 4 + 8 + 8 + 4 + 16), MIB(16 + 4 + 8 + 8 + 4 + 32));
}

#define PASS " f+h l+l l+m l-l l-m f-h"

TEST(a_fused_loss_invents_no_gradients_where_no_backward_follows)
{
    struct made m;
    make(&m, ".+w" PASS PASS PASS " |", losses);
    struct peaks p = edited(&m, "loss=fused");
    assert_int_equal(p.high, MIB(16 + 4 + 64 + 4));
    assert_in_range(p.low, MIB(16 + 4 + 22), MIB(16 + 4 + 23));
    /* the output layer is frozen: backward makes its input's gradient alone */
    make(&m, ".+w f+h l+l b+I b-l b-h b-I | f+h l+l b+I b-l b-h b-I | f+h l+l b+I b-l b-h b-I |", losses);
    p = edited(&m, "loss=fused");
    assert_in_range(p.high, MIB(16 + 4 + 4), MIB(16 + 4 + 4 + 64 + 4));
    assert_in_range(p.low, MIB(16 + 4 + 4 + 22), MIB(16 + 4 + 4 + 23)); /* a chunk of 1024 tokens */
}

/* The logits' last extent is the vocabulary: 64 MiB of 4 bytes in rows of 4096 are 4096 tokens. */
TEST(tokens_of_a_loss_are_known_by_the_logits_shape)
{
    static const struct element shaped[] = {{'l', .type = ELEMENT_FLOAT32, .shape = 1}, {0}};
    struct made m;
    elements = shaped;
    make(&m, ".+w f+h l+l b+I b-l b-h b-I |", losses);
    elements = NULL;
    asked_for['l'].inner[0] = 4096;
    facts.asked = (struct asked_table){.at = asked_for, .n = sizeof asked_for / sizeof *asked_for};
    struct peaks p = edited(&m, "loss=fused");
    facts.asked = (struct asked_table){.n = 0};
    assert_int_equal(p.low, MIB(16 + 4 + 4 + 16));
    assert_int_equal(p.high, MIB(16 + 4 + 4 + 32 + 4));
}

TEST(a_pass_that_a_refusal_cut_off_has_the_gradients_that_would_have_come)
{
    struct known refused[] = {{'w', MIB(16), KIND_PARAMETER, 0},
                              {'h', MIB(4), KIND_SAVED, UNIT0},
                              {'l', MIB(64), KIND_LOGITS, HEAD},
                              {'n', MIB(64), KIND_REQUEST, LOSS},
                              {0}};
    struct made m;
    make(&m, ".+w f+h l+l l+n", refused);
    assert_int_equal(edited(&m, "loss=fused").high, MIB(16 + 4 + 16 + 4 + 64 + 4));
    /* an earlier pass, and the forward behind it was refused */
    make(&m, ".+w f+h l+l l-l f-h f+h f+n", refused);
    assert_int_equal(edited(&m, "loss=fused").high, MIB(16 + 4 + 64 + 4));
}

TEST(without_logits_nothing_is_fused)
{
    struct made m;
    make(&m, FIRST SECOND, step);
    assert_refused(&m, "loss=fused", "logits");
}
