/*
 * test_edits.c - changes of a program whose every byte is known: what each takes away, adds and moves.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "made.h"
#include "edit/refusal.h"

/* ---- a step with two parameters, w and v; s and t are their states, x and y what Adam makes by lists ----
 */

static const struct known step[] = {
    {'w', KIB(400), KIND_PARAMETER, NOWHERE}, {'v', KIB(100), KIND_PARAMETER, NOWHERE},
    {'a', KIB(1000), KIND_SAVED, UNIT0},      {'c', KIB(2000), KIND_SAVED, UNIT1},
    {'g', KIB(400), KIND_GRADIENT, NODE1},    {'h', KIB(100), KIND_GRADIENT, NODE0},
    {'s', KIB(400), KIND_STATE, FOREACH},     {'t', KIB(100), KIND_STATE, FOREACH},
    {'x', KIB(400), KIND_UPDATE, FOREACH},    {'y', KIB(100), KIND_UPDATE, FOREACH},
    {'k', KIB(32), KIND_OTHER, NOWHERE},      {0}};

#define FIRST  ".+w .+v f+k f+a f+c b+g b-c b+h b-a o+s o+s o+t o+t o+x o+y o-x o-y .-g .-h |"
#define SECOND " f+a f+c b+g b-c b+h b-a o+x o+y o-x o-y .-g .-h |"

static void recorded_peak_is_the_sum_of_what_lives(void **state)
{
    (void)state;
    struct made m;
    make(&m, FIRST SECOND, step);
    uint64_t phases[NAMES];
    assert_int_equal(peak_of(&m.p, phases), KIB(500 + 1000 + 32 + 3000 + 400));
    assert_int_equal(phases[OPTIMIZER], KIB(500 + 1000 + 32 + 500 + 500));
}

static void without_lists_the_optimizer_has_three_of_one_parameter_at_most(void **state)
{
    (void)state;
    struct made m;
    make(&m, FIRST SECOND, step);
    struct peaks p = edited(&m, "foreach=no");
    /* w: root and quotient; v: root and quotient beside w's quotient */
    assert_int_equal(p.phase[OPTIMIZER], KIB(500 + 1000 + 32 + 500 + 800));
    assert_int_equal(p.low, p.high);
}

static void a_fused_optimizer_has_no_temporaries(void **state)
{
    (void)state;
    struct made m;
    make(&m, FIRST SECOND, step);
    assert_int_equal(edited(&m, "optimizer=fused").phase[OPTIMIZER], KIB(500 + 1000 + 32 + 500));
}

static void states_shrink_to_their_bytes_and_scales(void **state)
{
    (void)state;
    struct made m;
    make(&m, FIRST SECOND, step);
    uint64_t others = KIB(500 + 32 + 3000 + 400);
    assert_int_equal(edited(&m, "states=bf16").low, others + KIB(500));
    /* 102400 and 25600 elements, a scale of 4 bytes for each 256 */
    assert_int_equal(edited(&m, "states=8bit").low, others + 2 * (102400 + 2048 + 25600 + 512));
    assert_int_equal(edited(&m, "states=host").low, others);
}

static void in_backward_a_gradient_lives_beside_its_own_update_alone(void **state)
{
    (void)state;
    struct made m;
    make(&m, FIRST SECOND, step);
    struct peaks p = edited(&m, "gradients=in-backward");
    /* g and what updates w, while a lives; c is freed before the next node makes h */
    assert_int_equal(p.phase[BACKWARD], KIB(500 + 1000 + 32 + 3000 + 400));
    /* the optimizer's phase makes nothing any more: what lives is there */
    assert_int_equal(p.phase[OPTIMIZER], KIB(500 + 1000 + 32));
    assert_int_equal(edited(&m, "states=host").phase[OPTIMIZER], KIB(500 + 32 + 500));
    assert_int_equal(p.phase[FORWARD], KIB(500 + 1000 + 32 + 3000));
}

static void kept_gradients_are_there_in_forward_and_freed_again_by_the_opposite(void **state)
{
    (void)state;
    struct made m;
    make(&m, FIRST SECOND SECOND, step);
    struct edit e;
    char *why = NULL;
    assert_true(edit_parse("set_to_none=no", &e, &why));
    struct edit_result r = edit_apply(&m.p, &e);
    assert_null(r.why);
    uint64_t phases[NAMES];
    peak_of(&r.low, phases);
    assert_int_equal(phases[FORWARD], KIB(500 + 1000 + 32 + 500 + 3000));
    assert_int_equal(phases[BACKWARD], KIB(500 + 1000 + 32 + 500 + 3000 + 400));
    edit_free_result(&r);
    assert_refused(&m, "set_to_none=yes", "already");
}

static void accumulation_keeps_gradients_and_makes_no_second_workspace(void **state)
{
    (void)state;
    struct made m;
    make(&m, FIRST SECOND, step);
    struct peaks p = edited(&m, "accumulate=4");
    assert_int_equal(p.phase[FORWARD], KIB(500 + 1000 + 32 + 500 + 3000));
    assert_int_equal(p.phase[BACKWARD], KIB(500 + 1000 + 32 + 500 + 3000 + 400));
    assert_int_equal(p.phase[OPTIMIZER], KIB(500 + 1000 + 32 + 500 + 500));
}

/* i is a batch; where the first step's end is noted when the next forward begins, the second one's is there
 * before it.  c lives until backward's end. */
static void accumulation_makes_a_batch_anew_each_time_and_no_parameter(void **state)
{
    (void)state;
    static const struct known plain[] = {
        {'w', KIB(500), KIND_PARAMETER, NOWHERE}, {'i', KIB(200), KIND_OTHER, NOWHERE},
        {'c', KIB(1000), KIND_SAVED, UNIT1},      {'g', KIB(500), KIND_GRADIENT, NODE1},
        {'x', KIB(10), KIND_UPDATE, FOREACH},     {0}};
    struct made m;
    make(&m, ".+w .+i f+c b+g b-c b-i o+x o-x .-g .+i | f+c b+g b-c b-i o+x o-x .-g |", plain);
    struct peaks p = edited(&m, "accumulate=3");
    assert_int_equal(p.phase[BACKWARD],
                     KIB(500 + 500 + 200 + 1000 + 500)); /* the gradient, and the one to be added */
    assert_int_equal(p.low, KIB(500 + 500 + 200 + 1000 + 500));
}

/* T is a checkpoint's copy that was loaded and freed, j what each batch is made of, e an evaluation's. */
static void accumulation_repeats_neither_a_programs_setup_nor_an_evaluation(void **state)
{
    (void)state;
    static const struct known plain[] = {{'w', KIB(500), KIND_PARAMETER, NOWHERE},
                                         {'T', KIB(5000), KIND_OTHER, NOWHERE},
                                         {'i', KIB(200), KIND_OTHER, NOWHERE},
                                         {'j', KIB(300), KIND_OTHER, NOWHERE},
                                         {'a', KIB(100), KIND_SAVED, UNIT1},
                                         {'g', KIB(500), KIND_GRADIENT, NODE1},
                                         {'x', KIB(10), KIND_UPDATE, FOREACH},
                                         {'e', KIB(4000), KIND_OTHER, NOWHERE},
                                         {0}};
    struct made m;
    make(&m, ".+w .+T .-T .+i f+a b+g b-a b-i o+x o-x .-g | .+j .+i .-j f+a b+g b-a b-i o+x o-x .-g |",
         plain);
    struct peaks p = edited(&m, "accumulate=3");
    assert_int_equal(p.phase[NONE], KIB(500 + 5000));
    /* the second step's batches are made beside a gradient */
    make(&m, ".+w f+a b+g b-a o+x o-x .-g | .+j .+i .-j f+a b+g b-a b-i o+x o-x .-g |", plain);
    assert_int_equal(edited(&m, "accumulate=3").phase[NONE], KIB(500 + 500 + 200 + 300));
    make(&m, ".+w f+a b+g b-a o+x o-x .-g | e+e e-e .+i f+a b+g b-a b-i o+x o-x .-g |", plain);
    facts.evaluation = EVALUATION;
    p = edited(&m, "accumulate=3");
    facts.evaluation = EDIT_NO_PHASE;
    assert_int_equal(p.low, KIB(500 + 4000));
}

static void steps_that_accumulate_already_are_refused(void **state)
{
    (void)state;
    struct made m;
    make(&m, ".+w f+a b+g b-a f+a b-a .-g |", step);
    assert_refused(&m, "accumulate=2", "2 forwards and backwards already");
}

/* ---- a loss: l and m are logits, d and e their gradients, W and I the output layer's ---- */

static const struct known losses[] = {
    {'h', MIB(4), KIND_SAVED, UNIT0},    {'l', MIB(64), KIND_LOGITS, HEAD},
    {'m', MIB(64), KIND_LOGITS, LOSS},   {'d', MIB(64), KIND_BACKWARD, LOSS},
    {'e', MIB(64), KIND_BACKWARD, LOSS}, {'W', MIB(16), KIND_GRADIENT, HEAD},
    {'I', MIB(4), KIND_BACKWARD, HEAD},  {'x', MIB(2), KIND_BACKWARD, UNIT0},
    {'w', MIB(16), KIND_PARAMETER, 0},   {0}};

static void a_fused_loss_has_no_logits_and_makes_its_gradients_in_logits(void **state)
{
    (void)state;
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
static void a_workspace_of_the_first_backward_is_no_gradient_of_the_output_layer(void **state)
{
    (void)state;
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
static void under_autocast_the_fused_loss_may_make_its_gradient_in_fp32(void **state)
{
    (void)state;
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

static void a_change_of_nothing_is_refused(void **state)
{
    (void)state;
    struct made m;
    make(&m, FIRST SECOND, step);
    assert_refused(&m, "batch=1", "stay as they are");
    static const struct known fused[] = {{'h', MIB(4), KIND_SAVED, UNIT0},
                                         {'l', MIB(16), KIND_LOGITS, HEAD},
                                         {'W', MIB(16), KIND_GRADIENT, HEAD},
                                         {0}};
    make(&m, "f+h l+l l+W l-l b-h .-W |", fused);
    assert_refused(&m, "loss=fused", "fused already");
}

static void changes_that_contradict_each_other_are_named(void **state)
{
    (void)state;
    static const char *const bad[][2] = {{"states=8bit", "states=host"},
                                         {"loss=fused", "loss=fused"},
                                         {"types=bf16", "states=bf16"},
                                         {"accumulate=2", "gradients=in-backward"},
                                         {"gradients=in-backward", "set_to_none=no"}};
    static const char *const good[][2] = {
        {"batch=2", "batch=2"}, {"states=host", "loss=fused"}, {"gradients=in-backward", "set_to_none=yes"}};
    struct edit e[2];
    char *why = NULL;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_true(edit_parse(bad[i][0], &e[0], &why) && edit_parse(bad[i][1], &e[1], &why));
        why = edit_contradiction(e, 2);
        assert_non_null(why);
        assert_non_null(strstr(why, bad[i][0]));
        free(why);
    }
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_true(edit_parse(good[i][0], &e[0], &why) && edit_parse(good[i][1], &e[1], &why));
        assert_null(edit_contradiction(e, 2));
    }
}

static void of_several_changes_each_says_what_it_costs(void **state)
{
    (void)state;
    struct made m;
    struct edit e[2];
    char *why = NULL;
    make(&m, FIRST SECOND, step);
    assert_true(edit_parse("batch=0.5", &e[0], &why) && edit_parse("optimizer=fused", &e[1], &why));
    const struct edit *both[] = {&e[0], &e[1]};
    struct edit_result r = edit_apply_all(&m.p, both, 2);
    assert_null(r.why);
    assert_string_equal(r.costs, "fewer samples a step; a faster step of the optimizer");
    edit_free_result(&r);
}

#define PASS " f+h l+l l+m l-l l-m f-h"

static void a_fused_loss_invents_no_gradients_where_no_backward_follows(void **state)
{
    (void)state;
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
static void tokens_of_a_loss_are_known_by_the_logits_shape(void **state)
{
    (void)state;
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

static void a_pass_that_a_refusal_cut_off_has_the_gradients_that_would_have_come(void **state)
{
    (void)state;
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

static void without_logits_nothing_is_fused(void **state)
{
    (void)state;
    struct made m;
    make(&m, FIRST SECOND, step);
    assert_refused(&m, "loss=fused", "logits");
}

/* ---- two units: i is the input, p q r unit 0's with r its output, P Q R unit 1's ---- */

static const struct known units[] = {{'i', MIB(1), KIND_SAVED, NOWHERE},
                                     {'p', MIB(10), KIND_SAVED, UNIT0},
                                     {'q', MIB(3), KIND_FORWARD, UNIT0},
                                     {'r', MIB(1), KIND_SAVED, UNIT0},
                                     {'P', MIB(10), KIND_SAVED, UNIT1},
                                     {'R', MIB(1), KIND_SAVED, UNIT1},
                                     {'y', MIB(1), KIND_BACKWARD, UNIT1},
                                     {'z', MIB(1), KIND_BACKWARD, UNIT0},
                                     {0}};
#define UNITS "f+i f+p f+q f-q f+r f+P f+R b-R b+y b-P b-r b+z b-y b-p b-i b-z |"

static void checkpointed_units_keep_their_input_and_are_made_again_one_by_one(void **state)
{
    (void)state;
    struct made m;
    make(&m, UNITS UNITS, units);
    assert_int_equal(peak_of(&m.p, NULL), MIB(1 + 10 + 1 + 10 + 1));
    struct peaks p = edited(&m, "checkpoint=1");
    /* unit 0 again: up to p beside i and r's successor y, or its temporary as well; unit 1 again: i, r, P, y
     */
    assert_int_equal(p.phase[FORWARD], MIB(1 + 10 + 3));
    assert_int_equal(p.phase[BACKWARD], MIB(1 + 10 + 1 + 1));
    assert_int_equal(p.high_backward, MIB(1 + 10 + 3 + 1));
    /* every second unit, from the first: unit 1 is as it was */
    p = edited(&m, "checkpoint=2");
    assert_int_equal(p.phase[FORWARD], MIB(1 + 10 + 3));
    assert_int_equal(p.high_backward, MIB(1 + 10 + 3 + 1));
}

static void an_output_that_its_unit_saves_is_kept_and_made_again(void **state)
{
    (void)state;
    static const struct known relu[] = {{'i', MIB(1), KIND_SAVED, NOWHERE},
                                        {'p', MIB(10), KIND_SAVED, UNIT0},
                                        {'r', MIB(4), KIND_SAVED, UNIT0},
                                        {'R', MIB(4), KIND_SAVED, UNIT1},
                                        {'y', MIB(1), KIND_BACKWARD, UNIT1},
                                        {'z', MIB(1), KIND_BACKWARD, UNIT0},
                                        {0}};
    struct made m;
    make(&m, "f+i f+p f+r f+R b+y b-R b+z b-y b-r b-p b-i b-z |", relu);
    struct peaks p = edited(&m, "checkpoint=1");
    assert_int_equal(p.phase[FORWARD], MIB(1 + 10 + 4));
    /* unit 1 again beside i, r and R; unit 0 again: i, p, r, y */
    assert_int_equal(p.phase[BACKWARD], MIB(1 + 10 + 4 + 1 + 1));
}

static void an_output_that_nobody_saves_is_a_temporary_and_not_the_first_that_backward_frees(void **state)
{
    (void)state;
    /* unit 0 gives t, of which x is made, and saves p and q; unit 1 saves x */
    static const struct known up[] = {{'i', MIB(1), KIND_SAVED, NOWHERE},
                                      {'p', MIB(10), KIND_SAVED, UNIT0},
                                      {'q', MIB(4), KIND_SAVED, UNIT0},
                                      {'t', MIB(2), KIND_FORWARD, UNIT0},
                                      {'x', MIB(8), KIND_SAVED, NOWHERE},
                                      {'P', MIB(16), KIND_SAVED, UNIT1},
                                      {'y', MIB(1), KIND_BACKWARD, UNIT1},
                                      {'z', MIB(1), KIND_BACKWARD, UNIT0},
                                      {0}};
    struct made m;
    make(&m, "f+i f+p f+q f+t f+x f-t f+P b+y b-P b-x b+z b-y b-q b-p b-i b-z |", up);
    struct peaks p = edited(&m, "checkpoint=1");
    assert_int_equal(p.phase[FORWARD], MIB(1 + 8 + 16)); /* behind unit 0 neither p nor q is there */
    assert_int_equal(p.phase[BACKWARD], MIB(1 + 8 + 16 + 1));
    /* where t is gone by then, q was the output */
    make(&m, "f+i f+p f+q f+t f-t f+x f+P b+y b-P b-x b+z b-y b-q b-p b-i b-z |", up);
    assert_int_equal(edited(&m, "checkpoint=1").phase[FORWARD], MIB(1 + 4 + 8 + 16));
}

static void
what_a_call_made_is_gone_at_the_latest_with_its_unit_and_at_the_earliest_with_the_next_call(void **state)
{
    (void)state;
    /* of unit 0 three calls: p and its mask r by one, q by the next, s by a third */
    static const struct known calls[] = {{'i', MIB(1), KIND_SAVED, NOWHERE},
                                         {'p', MIB(10), KIND_SAVED, UNIT0},
                                         {'r', MIB(2), KIND_SAVED, UNIT0},
                                         {'q', MIB(10), KIND_SAVED, NODE0},
                                         {'s', MIB(10), KIND_SAVED, NORM},
                                         {'R', MIB(1), KIND_SAVED, UNIT1},
                                         {'y', MIB(1), KIND_BACKWARD, UNIT1},
                                         {'z', MIB(1), KIND_BACKWARD, UNIT0},
                                         {0}};
    struct made m;
    make(&m, "f+i f+p f+r f+q f+s f+R b+y b-R b+z b-s b-q b-r b-p b-i b-y b-z |", calls);
    struct peaks p = edited(&m, "checkpoint=1");
    assert_int_equal(p.phase[FORWARD], MIB(1 + 10 + 10)); /* q, and then s, beside what it was made of */
    assert_int_equal(p.high_forward, MIB(1 + 10 + 2 + 10 + 10));
}

static void
what_is_made_again_may_go_before_its_node_ends_and_the_second_forward_with_what_is_saved_last(void **state)
{
    (void)state;
    /* unit 0 saves p, then makes the temporary t of its output; backward's node makes y and then z of p */
    static const struct known node[] = {
        {'i', MIB(1), KIND_SAVED, NOWHERE},  {'p', MIB(10), KIND_SAVED, UNIT0},
        {'t', MIB(30), KIND_FORWARD, UNIT0}, {'x', MIB(1), KIND_SAVED, UNIT1},
        {'w', MIB(1), KIND_BACKWARD, UNIT1}, {'y', MIB(2), KIND_BACKWARD, UNIT0},
        {'z', MIB(4), KIND_BACKWARD, UNIT0}, {0}};
    struct made m;
    make(&m, "f+i f+p f+t f-t f+x b+w b-x b+y b+z b-p b-w b-z b-y b-i |", node);
    struct peaks p = edited(&m, "checkpoint=1");
    assert_int_equal(p.phase[BACKWARD], MIB(1 + 1 + 10 + 2)); /* i, w, p and y: t is not made again */
    assert_int_equal(p.high_backward, MIB(1 + 1 + 10 + 30));
    /* a convolution has p as long as it runs */
    struct edit_stack was = stacks[UNIT0];
    stacks[UNIT0].convolves = true;
    p = edited(&m, "checkpoint=1");
    stacks[UNIT0] = was;
    assert_int_equal(p.phase[BACKWARD], MIB(1 + 1 + 10 + 2 + 4));
}

static void without_layers_checkpointing_is_refused_with_what_is_missing(void **state)
{
    (void)state;
    struct edit_facts none = facts;
    struct made m;
    none.units = 0;
    none.layers = false;
    make(&m, FIRST, step);
    m.p.facts = &none;
    assert_refused(&m, "checkpoint=1", "no layers");
    none.forward = none.backward = none.optimizer = EDIT_NO_PHASE;
    assert_refused(&m, "foreach=no", "no phases");
}

/* ---- a run that ended in a refusal: n is the request ---- */

static const struct known died[] = {{'w', MIB(8), KIND_PARAMETER, NOWHERE},
                                    {'s', MIB(16), KIND_STATE, FOREACH},
                                    {'a', MIB(20), KIND_SAVED, UNIT0},
                                    {'b', MIB(2), KIND_SAVED, UNIT0},
                                    {'c', MIB(20), KIND_SAVED, UNIT1},
                                    {'n', MIB(20), KIND_REQUEST, UNIT1},
                                    {0}};
#define DIED ".+w o+s | f+a f+b f+c f+n"

static const struct refusal_change *change(const struct refusal_answer *a, const char *name)
{
    for (size_t i = 0; i < a->count; i++)
        if (!strcmp(a->changes[i].name, name))
            return &a->changes[i];
    return NULL;
}

static struct refusal_answer asked(const struct made *m, uint64_t capacity)
{
    struct refusal_answer a = {.why = NULL};
    struct torch_settings settings = torch_defaults();
    settings.capacity = capacity;
    refusal_ask(&m->p, FEED_LIVE, &settings, NULL, 0, &a);
    return a;
}

static void a_request_passes_where_what_a_change_frees_is_enough(void **state)
{
    (void)state;
    struct made m;
    make(&m, DIED, died);
    /* 86 MiB with the request; without the states 70 */
    struct refusal_answer a = asked(&m, MIB(72));
    assert_null(a.why);
    assert_non_null(change(&a, "states=host"));
    assert_int_equal(change(&a, "states=host")->frees, MIB(16));
    assert_int_equal(change(&a, "states=host")->verdict, REFUSAL_PASSES);
    assert_int_equal(change(&a, "states=bf16")->verdict, REFUSAL_SHORT);
    /* unit 0 keeps b, its output */
    assert_int_equal(change(&a, "checkpoint=1")->frees, MIB(20));
    assert_null(change(&a, "foreach=no"));
    assert_null(change(&a, "types=bf16")); /* nobody knows how many bytes an element has */
    refusal_free(&a);
}

static void assert_says(const struct refusal_answer *a, const char *name, const char *text)
{
    assert_non_null(change(a, name));
    char *said = refusal_text(a, change(a, name), false);
    assert_string_equal(said, text);
    free(said);
}

static void a_change_says_by_how_much_a_request_passes_or_stays_short(void **state)
{
    (void)state;
    struct made m;
    make(&m, DIED, died);
    struct refusal_answer a = asked(&m, MIB(72));
    assert_int_equal(a.missing, MIB(14));
    assert_int_equal(change(&a, "states=host")->room, MIB(2));
    assert_int_equal(change(&a, "states=bf16")->room, -MIB(6));
    refusal_free(&a);
    static const struct refusal_answer was = {.missing = 10 << 20};
    struct refusal_change c = {.name = (char[]){"x"},
                               .made = true,
                               .frees = 12 << 20,
                               .room = 2 << 20,
                               .pieces = 5 << 20,
                               .held = true};
    struct refusal_answer one = was;
    one.changes = &c;
    one.count = 1;
    assert_says(&one, "x", "x frees 12.00 MiB: this request would have passed, 2.00 MiB left");
    c.frees = 0;
    assert_says(&one, "x",
                "x frees 0 B: this request would have passed, 2.00 MiB left, as 5.00 MiB less lies unused in "
                "pieces");
    c.pieces = 0;
    assert_says(&one, "x",
                "x frees 0 B: this request would have passed, 2.00 MiB left, in a piece that is free then");
    c.verdict = REFUSAL_SHORT;
    c.frees = -(3 << 20);
    c.room = -(13 << 20);
    assert_says(&one, "x", "x needs 3.00 MiB more: not enough alone, short by 13.00 MiB");
    c.earlier = true;
    assert_says(&one, "x", "x needs 3.00 MiB more: not enough alone, another request before it has no room");
}

/* n is the logits */
static void a_request_that_a_change_does_not_make_is_said_to_be_gone(void **state)
{
    (void)state;
    struct known logits[sizeof died / sizeof *died];
    memcpy(logits, died, sizeof died);
    for (struct known *k = logits; k->name; k++)
        if (k->name == 'n')
            *k = (struct known){'n', MIB(64), KIND_REQUEST, HEAD};
    struct made m;
    make(&m, ".+w o+s | f+a f+b f+c l+n", logits);
    struct refusal_answer a = asked(&m, MIB(129));
    const struct refusal_change *c = change(&a, "loss=fused");
    assert_non_null(c);
    assert_false(c->made);
    assert_string_equal(refusal_says(c), "this request would not be made");
    assert_true(c->frees <= 0); /* the request itself is nothing that lived */
    assert_true(change(&a, "states=host")->made);
    refusal_free(&a);
}

static void where_no_change_is_enough_a_pair_is_named(void **state)
{
    (void)state;
    struct made m;
    make(&m, DIED, died);
    /* at most 20 MiB by one change */
    struct refusal_answer a = asked(&m, MIB(48));
    assert_null(a.why);
    assert_true(a.count > 1);
    assert_int_equal(a.changes[0].verdict, REFUSAL_PASSES);
    assert_non_null(strchr(a.changes[0].name, ' '));
    assert_int_equal(change(&a, "states=host")->verdict, REFUSAL_SHORT);
    refusal_free(&a);
}

static void a_request_that_the_replay_does_not_refuse_has_no_advice(void **state)
{
    (void)state;
    struct made m;
    make(&m, DIED, died);
    struct refusal_answer a = asked(&m, MIB(86));
    assert_non_null(a.why);
    assert_int_equal(a.count, 0);
    refusal_free(&a);
}

/* ---- an end of memory ---- */

static void an_end_of_memory_leaves_figures_and_says_which_request_has_no_room(void **state)
{
    (void)state;
    static const bool wanted[FEED_POLICIES] = {[FEED_LIVE] = true, [FEED_ARENA] = true};
    struct torch_settings settings = torch_defaults();
    struct made m;
    make(&m, DIED, died);
    struct answer a = answer_of(&m.p, &settings, wanted);
    settings.capacity = MIB(66);
    answer_fit(&a, &m.p, &settings);
    for (int p = 0; p < FEED_POLICIES; p++) {
        if (!wanted[p])
            continue;
        assert_true(a.of[p].ran_out);
        assert_int_equal(a.of[p].out_size, MIB(20));
        assert_int_equal(a.of[p].out_phase, FORWARD);
        assert_int_equal(a.of[p].peak.allocated, MIB(86));
    }
    answer_free(&a);
    /* less than the arena's smallest piece is nothing, not everything */
    settings.capacity = UINT64_MAX;
    a = answer_of(&m.p, &settings, wanted);
    settings.capacity = 1;
    answer_fit(&a, &m.p, &settings);
    assert_true(a.of[FEED_LIVE].ran_out && a.of[FEED_ARENA].ran_out);
    settings.capacity = MIB(200);
    answer_free(&a);
    a = answer_of(&m.p, &settings, wanted);
    answer_fit(&a, &m.p, &settings);
    assert_false(a.of[FEED_LIVE].ran_out || a.of[FEED_ARENA].ran_out);
    answer_free(&a);
}

/* ---- sizes ---- */

static void a_batch_scales_what_is_made_of_data_and_nothing_else(void **state)
{
    (void)state;
    struct made m;
    make(&m, FIRST SECOND, step);
    struct peaks p = edited(&m, "batch=2");
    assert_int_equal(p.low, KIB(500 + 1000 + 32 + 6000 + 400));
    /* k, which forward makes once and which stays, may be a cache */
    assert_int_equal(p.high, KIB(500 + 1000 + 64 + 6000 + 400));
    assert_int_equal(edited(&m, "batch=0.5").high, KIB(500 + 1000 + 32 + 1500 + 400));
}

static void what_no_machine_holds_is_refused_at_either_end(void **state)
{
    (void)state;
    static const struct known large[] = {{'w', MIB(8), KIND_PARAMETER, NOWHERE},
                                         {'a', MIB(1) << 19, KIND_SAVED, UNIT0},
                                         {'o', MIB(1) << 20, KIND_OTHER, UNIT1},
                                         {0}};
    struct made m;
    make(&m, ".+w f+a b-a | f+a b-a |", large);
    assert_int_equal(edited(&m, "batch=1024").high, MIB(8) + (MIB(1) << 29));
    make(&m, ".+w f+a f+a b-a b-a |", large);
    assert_refused(&m, "batch=1024", "1 PiB");
    make(&m, ".+w f+o | .-o |", large); /* at the high end alone */
    assert_refused(&m, "batch=1024", "1 PiB");
}

/* o is the output, which lives until the next one is there; c is cuBLAS's workspace. */
static void an_output_that_outlives_its_step_may_grow_with_the_data(void **state)
{
    (void)state;
    static const struct known kept[] = {{'w', MIB(8), KIND_PARAMETER, NOWHERE},
                                        {'o', MIB(20), KIND_OTHER, UNIT1},
                                        {'c', MIB(32), KIND_OTHER, UNIT0},
                                        {0}};
    struct made m;
    make(&m, ".+w f+c f+o | f+o .-o | f+o .-o |", kept);
    struct peaks p = edited(&m, "batch=2");
    assert_int_equal(p.low, MIB(8 + 32 + 2 * 20));
    assert_int_equal(p.high, MIB(8 + 32 + 4 * 20));
    p = edited(&m, "batch=0.5");
    assert_int_equal(p.low, MIB(8 + 32 + 20));
    assert_int_equal(p.high, MIB(8 + 32 + 2 * 20));
    p = edited(&m, "types=bf16");
    assert_in_range(p.low, MIB(4 + 32 + 20), MIB(4 + 32 + 21));
    assert_in_range(p.high, MIB(4 + 32 + 40), MIB(4 + 32 + 42));
}

/* w and v are parameters, c and d copies of them in 16 bits; u is twice p, both of a norm. */
static const struct known wide[] = {
    {'w', MIB(8), KIND_PARAMETER, NOWHERE}, {'v', MIB(6), KIND_PARAMETER, NOWHERE},
    {'c', MIB(4), KIND_SAVED, UNIT0},       {'d', MIB(3), KIND_SAVED, UNIT1},
    {'p', MIB(1), KIND_SAVED, NORM},        {'u', MIB(2), KIND_SAVED, NORM},
    {'q', MIB(2), KIND_SAVED, UNIT1},       {0}};

static void what_has_two_bytes_an_element_is_not_halved_again(void **state)
{
    (void)state;
    struct made m;
    make(&m, ".+w .+v f+c f+d f+q b-q b-d b-c |", wide); /* autocast */
    assert_refused(&m, "types=bf16", "element types are not known");
    make(&m, ".+w .+v f+u f+p f+q b-q b-p b-u |", wide); /* a norm copies to fp32 */
    assert_refused(&m, "types=bf16", "element types are not known");
    make(&m, ".+w .+v f+u f+u f+q b-q b-u b-u |", wide); /* and where its input is that already */
    assert_in_range(edited(&m, "types=bf16").low, MIB(9), MIB(11));
}

static void zero_1_shares_states_and_has_buckets_of_all_gradients(void **state)
{
    (void)state;
    struct made m;
    make(&m, FIRST SECOND, step);
    struct peaks p = edited(&m, "zero=1:4");
    /* of two parameters, 400 and 100, a rank of four has the larger one's states */
    assert_int_equal(p.low, KIB(500 + 500 + 800 + 32 + 3000 + 400));
    assert_int_equal(p.high, p.low + KIB(500)); /* the first bucket may be there in the second step, too */
    assert_int_equal(p.phase[OPTIMIZER], KIB(500 + 500 + 800 + 32 + 400)); /* gradients are in the buckets */
}

static void zero_1s_other_rank_has_the_states_of_other_parameters(void **state)
{
    (void)state;
    struct made m;
    struct edit e;
    char *why = NULL;
    static const uint64_t states[] = {200, 0}; /* two ranks: those of the smaller one; of more, none */
    make(&m, FIRST SECOND, step);
    for (int i = 0; i < 2; i++) {
        assert_true(edit_parse(i ? "zero=1:3" : "zero=1:2", &e, &why));
        assert_true(edit_has_other(&e));
        e.other = true;
        struct edit_result r = edit_apply(&m.p, &e);
        assert_null(r.why);
        check_whole(&r.low);
        assert_int_equal(peak_of(&r.low, NULL), KIB(500 + 500 + states[i] + 32 + 3000 + 400));
        edit_free_result(&r);
    }
    assert_true(edit_parse("zero=2:2", &e, &why));
    assert_false(edit_has_other(&e));
}

/* Four gradients: a bucket of all at first, then the one that passes 1 MiB, two that pass 25, and the rest.
 */
static void zero_1_makes_its_buckets_anew_for_the_second_step(void **state)
{
    (void)state;
    static const struct known large[] = {{'w', MIB(16), KIND_PARAMETER, NOWHERE},
                                         {'a', MIB(1), KIND_SAVED, UNIT0},
                                         {'g', MIB(16), KIND_GRADIENT, NODE0},
                                         {'s', MIB(16), KIND_STATE, FOREACH},
                                         {0}};
    struct made m;
    struct edit e;
    char *why = NULL;
    make(&m, ".+w .+w .+w .+w f+a b-a b+g b+g b+g b+g o+s o+s o+s o+s .-g .-g .-g .-g | f+a b-a |", large);
    assert_true(edit_parse("zero=1:2", &e, &why));
    struct edit_result r = edit_apply(&m.p, &e);
    uint64_t buckets[8];
    size_t n = 0;
    for (size_t i = 0; i < r.low.block_count && n < 8; i++)
        if (r.low.blocks[i].kind == KIND_OTHER)
            buckets[n++] = r.low.blocks[i].size;
    assert_int_equal(n, 4);
    assert_int_equal(buckets[0], MIB(64));
    assert_int_equal(buckets[1], MIB(16));
    assert_int_equal(buckets[2], MIB(32));
    assert_int_equal(buckets[3], MIB(16));
    edit_free_result(&r);
}

static void zero_2_and_3_gather_a_unit_and_leave_shares(void **state)
{
    (void)state;
    struct made m;
    make(&m, FIRST SECOND, step);
    struct peaks p = edited(&m, "zero=2:4");
    /* backward begins: everything is whole beside its share, and the first gradient too */
    assert_int_equal(p.low, KIB(125 + 500 + 250 + 32 + 3000 + 400));
    assert_int_equal(p.phase[OPTIMIZER], KIB(125 + 250 + 32 + 125 + 125));
    p = edited(&m, "zero=3:4");
    /* unit 1 is whole, and what is fetched of unit 0 in its buffer */
    assert_int_equal(p.low, KIB(125 + 400 + 100 + 250 + 32 + 3000 + 400));
    assert_int_equal(p.phase[OPTIMIZER], KIB(125 + 250 + 32 + 125 + 125));
    assert_int_equal(p.phase[FORWARD], KIB(125 + 400 + 400 + 250 + 32 + 3000)); /* unit 1, and its buffer */
}

/* What such a one holds in buckets, shares and gathers is in it already. */
static void of_one_rank_of_several_no_zero_is_told(void **state)
{
    (void)state;
    struct made m;
    make(&m, FIRST SECOND, step);
    facts.ranks = 2;
    assert_refused(&m, "zero=1:4", "one of 2 ranks already");
    assert_refused(&m, "zero=3:4", "one of 2 ranks already");
    facts.ranks = 1;
}

/* Only what has a gradient has a bucket, and a rank's states are those of such parameters. */
static void of_frozen_parameters_zero_1_has_no_buckets(void **state)
{
    (void)state;
    static const struct known frozen[] = {{'v', KIB(8000), KIND_PARAMETER, NOWHERE},
                                          {'w', KIB(64), KIND_PARAMETER, NOWHERE},
                                          {'u', KIB(64), KIND_PARAMETER, NOWHERE},
                                          {'a', KIB(100), KIND_SAVED, UNIT0},
                                          {'g', KIB(64), KIND_GRADIENT, NODE0},
                                          {'s', KIB(64), KIND_STATE, FOREACH},
                                          {0}};
    struct made m;
    make(&m, ".+v .+w .+u f+a b+g b+g b-a o+s o+s .-g .-g | f+a b+g b+g b-a .-g .-g |", frozen);
    struct peaks p = edited(&m, "zero=1:2");
    assert_int_equal(p.low, KIB(8128 + 128 + 64 + 100 + 128));
    assert_int_equal(p.high, KIB(8128 + 128 + 64 + 100 + 128 + 128)); /* with the first bucket kept */
}

/* v is frozen: no gradient says which unit it is of. */
static void of_frozen_parameters_zero_3_gathers_all_at_the_high_end_alone(void **state)
{
    (void)state;
    static const struct known frozen[] = {
        {'w', KIB(64), KIND_PARAMETER, NOWHERE},   {'v', KIB(800), KIND_PARAMETER, NOWHERE},
        {'u', KIB(1000), KIND_PARAMETER, NOWHERE}, {'t', KIB(900), KIND_PARAMETER, NOWHERE},
        {'a', KIB(100), KIND_SAVED, UNIT0},        {'g', KIB(64), KIND_GRADIENT, NODE0},
        {'s', KIB(64), KIND_STATE, FOREACH},       {0}};
    struct made m;
    make(&m, ".+w .+v .+u .+t f+a b+g b-a o+s .-g | f+a b+g b-a .-g |", frozen);
    struct peaks p = edited(&m, "zero=3:2");
    uint64_t shares = (2764 + 64) / 2;
    assert_in_range(p.low, KIB(shares + 2000 + 100), KIB(shares + 2 * 2000 + 100 + 4 * 64));
    assert_true(p.high >= KIB(shares + 2700 + 100));
}

static void words_that_are_no_edit_are_named(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "foreach",  "foreach=yes", "states=4bit",  "batch=0", "batch=nan", "checkpoint=0",
        "zero=4:8", "zero=1:1",    "accumulate=1", "",        "=",         "sequence=1e9",
        "zero=:",   "zero="};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct edit e;
        char *why = NULL;
        assert_false(edit_parse(bad[i], &e, &why));
        assert_non_null(why);
        free(why);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(recorded_peak_is_the_sum_of_what_lives),
        cmocka_unit_test(without_lists_the_optimizer_has_three_of_one_parameter_at_most),
        cmocka_unit_test(a_fused_optimizer_has_no_temporaries),
        cmocka_unit_test(states_shrink_to_their_bytes_and_scales),
        cmocka_unit_test(in_backward_a_gradient_lives_beside_its_own_update_alone),
        cmocka_unit_test(kept_gradients_are_there_in_forward_and_freed_again_by_the_opposite),
        cmocka_unit_test(accumulation_keeps_gradients_and_makes_no_second_workspace),
        cmocka_unit_test(accumulation_makes_a_batch_anew_each_time_and_no_parameter),
        cmocka_unit_test(accumulation_repeats_neither_a_programs_setup_nor_an_evaluation),
        cmocka_unit_test(steps_that_accumulate_already_are_refused),
        cmocka_unit_test(a_fused_loss_has_no_logits_and_makes_its_gradients_in_logits),
        cmocka_unit_test(a_workspace_of_the_first_backward_is_no_gradient_of_the_output_layer),
        cmocka_unit_test(under_autocast_the_fused_loss_may_make_its_gradient_in_fp32),
        cmocka_unit_test(a_change_of_nothing_is_refused),
        cmocka_unit_test(changes_that_contradict_each_other_are_named),
        cmocka_unit_test(of_several_changes_each_says_what_it_costs),
        cmocka_unit_test(a_fused_loss_invents_no_gradients_where_no_backward_follows),
        cmocka_unit_test(tokens_of_a_loss_are_known_by_the_logits_shape),
        cmocka_unit_test(a_pass_that_a_refusal_cut_off_has_the_gradients_that_would_have_come),
        cmocka_unit_test(without_logits_nothing_is_fused),
        cmocka_unit_test(checkpointed_units_keep_their_input_and_are_made_again_one_by_one),
        cmocka_unit_test(an_output_that_its_unit_saves_is_kept_and_made_again),
        cmocka_unit_test(an_output_that_nobody_saves_is_a_temporary_and_not_the_first_that_backward_frees),
        cmocka_unit_test(
            what_a_call_made_is_gone_at_the_latest_with_its_unit_and_at_the_earliest_with_the_next_call),
        cmocka_unit_test(
            what_is_made_again_may_go_before_its_node_ends_and_the_second_forward_with_what_is_saved_last),
        cmocka_unit_test(without_layers_checkpointing_is_refused_with_what_is_missing),
        cmocka_unit_test(a_request_passes_where_what_a_change_frees_is_enough),
        cmocka_unit_test(a_change_says_by_how_much_a_request_passes_or_stays_short),
        cmocka_unit_test(a_request_that_a_change_does_not_make_is_said_to_be_gone),
        cmocka_unit_test(where_no_change_is_enough_a_pair_is_named),
        cmocka_unit_test(a_request_that_the_replay_does_not_refuse_has_no_advice),
        cmocka_unit_test(an_end_of_memory_leaves_figures_and_says_which_request_has_no_room),
        cmocka_unit_test(a_batch_scales_what_is_made_of_data_and_nothing_else),
        cmocka_unit_test(what_no_machine_holds_is_refused_at_either_end),
        cmocka_unit_test(an_output_that_outlives_its_step_may_grow_with_the_data),
        cmocka_unit_test(what_has_two_bytes_an_element_is_not_halved_again),
        cmocka_unit_test(zero_1_shares_states_and_has_buckets_of_all_gradients),
        cmocka_unit_test(zero_1s_other_rank_has_the_states_of_other_parameters),
        cmocka_unit_test(zero_1_makes_its_buckets_anew_for_the_second_step),
        cmocka_unit_test(zero_2_and_3_gather_a_unit_and_leave_shares),
        cmocka_unit_test(of_one_rank_of_several_no_zero_is_told),
        cmocka_unit_test(of_frozen_parameters_zero_1_has_no_buckets),
        cmocka_unit_test(of_frozen_parameters_zero_3_gathers_all_at_the_high_end_alone),
        cmocka_unit_test(words_that_are_no_edit_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
