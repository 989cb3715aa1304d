/* test_edit_optimizer.c - changes of what lives beside the parameters: of optimizers, gradients and shares.
 */
#include "made.h"

TEST(without_lists_the_optimizer_has_three_of_one_parameter_at_most)
{
    struct made m;
    make(&m, FIRST SECOND, step);
    struct peaks p = edited(&m, "foreach=no");
    /* w: root and quotient; v: root and quotient beside w's quotient */
    assert_int_equal(p.phase[OPTIMIZER], KIB(500 + 1000 + 32 + 500 + 800));
    assert_int_equal(p.low, p.high);
}

TEST(a_fused_optimizer_has_no_temporaries)
{
    struct made m;
    make(&m, FIRST SECOND, step);
    assert_int_equal(edited(&m, "optimizer=fused").phase[OPTIMIZER], KIB(500 + 1000 + 32 + 500));
}

TEST(states_shrink_to_their_bytes_and_scales)
{
    struct made m;
    make(&m, FIRST SECOND, step);
    uint64_t others = KIB(500 + 32 + 3000 + 400);
    assert_int_equal(edited(&m, "states=bf16").low, others + KIB(500));
    /* 102400 and 25600 elements, a scale of 4 bytes for each 256 */
    assert_int_equal(edited(&m, "states=8bit").low, others + 2 * (102400 + 2048 + 25600 + 512));
    assert_int_equal(edited(&m, "states=host").low, others);
}

TEST(in_backward_a_gradient_lives_beside_its_own_update_alone)
{
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

/* d is added to g, which stays, in each step but the first. */
TEST(kept_gradients_are_freed_with_their_step_and_those_added_to_them_are_gradients)
{
    static const struct known kept[] = {{'w', KIB(400), KIND_PARAMETER, NOWHERE},
                                        {'a', KIB(1000), KIND_SAVED, UNIT0},
                                        {'g', KIB(400), KIND_GRADIENT, NODE1},
                                        {'d', KIB(400), KIND_BACKWARD, NODE1},
                                        {0}};
    struct made m;
    make(&m, ".+w f+a b+g b-a | f+a b+d b-d b-a | f+a b+d b-d b-a |", kept);
    struct peaks p = edited(&m, "set_to_none=yes");
    assert_int_equal(p.phase[FORWARD], KIB(400 + 1000)); /* g was there, too */
    assert_int_equal(p.phase[BACKWARD], KIB(400 + 1000 + 400));
    make(&m, FIRST SECOND SECOND, step);
    assert_refused(&m, "set_to_none=yes", "freed after each step already");
}

TEST(accumulation_keeps_gradients_and_makes_no_second_workspace)
{
    struct made m;
    make(&m, FIRST SECOND, step);
    struct peaks p = edited(&m, "accumulate=4");
    assert_int_equal(p.phase[FORWARD], KIB(500 + 1000 + 32 + 500 + 3000));
    assert_int_equal(p.phase[BACKWARD], KIB(500 + 1000 + 32 + 500 + 3000 + 400));
    assert_int_equal(p.phase[OPTIMIZER], KIB(500 + 1000 + 32 + 500 + 500));
}

/* i is a batch; where the first step's end is noted when the next forward begins, the second one's is there
 * before it.  c lives until backward's end. */
TEST(accumulation_makes_a_batch_anew_each_time_and_no_parameter)
{
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
TEST(accumulation_repeats_neither_a_programs_setup_nor_an_evaluation)
{
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

TEST(steps_that_accumulate_already_are_refused)
{
    struct made m;
    make(&m, ".+w f+a b+g b-a f+a b-a .-g |", step);
    assert_refused(&m, "accumulate=2", "2 forwards and backwards already");
}

/* ---- ZeRO ---- */

TEST(zero_1_has_the_states_of_the_rank_with_the_fewest_or_the_most)
{
    struct made m;
    make(&m, FIRST SECOND, step);
    struct peaks p = edited(&m, "zero=1:4");
    /* of two parameters, 400 and 100, one of four ranks has the larger one's states and another one none;
     * gradients are in a bucket, or beside that and the first one */
    assert_int_equal(p.low, KIB(500 + 500 + 32 + 3000));
    assert_int_equal(p.high, KIB(500 + 2 * 500 + 800 + 32 + 3000 + 400));
    p = edited(&m, "zero=1:2");
    assert_int_equal(p.low, KIB(500 + 500 + 200 + 32 + 3000));
}

TEST(zero_2_and_3_gather_a_unit_and_leave_shares)
{
    struct made m;
    make(&m, FIRST SECOND, step);
    struct peaks p = edited(&m, "zero=2:4");
    /* backward begins: everything is whole beside its share, and the first gradient is one */
    assert_int_equal(p.low, KIB(125 + 500 + 250 + 32 + 3000 + 100));
    assert_int_equal(p.high, p.low + 4 * KIB(400)); /* four units are in flight */
    assert_int_equal(p.phase[OPTIMIZER], KIB(125 + 250 + 32 + 125 + 125));
    p = edited(&m, "zero=3:4");
    assert_int_equal(p.low, KIB(125 + 400 + 250 + 32 + 3000 + 100)); /* unit 1 is whole */
    assert_int_equal(p.phase[OPTIMIZER], KIB(125 + 250 + 32 + 125 + 125));
    assert_int_equal(p.phase[FORWARD], KIB(125 + 400 + 250 + 32 + 3000));
}

/* What such a one holds in buckets, shares and gathers is in it already. */
TEST(of_one_rank_of_several_no_zero_is_told)
{
    struct made m;
    make(&m, FIRST SECOND, step);
    facts.ranks = 2;
    assert_refused(&m, "zero=1:4", "one of 2 ranks already");
    assert_refused(&m, "zero=3:4", "one of 2 ranks already");
    facts.ranks = 1;
}

/* Only what has a gradient has a bucket, and a rank's states are those of such parameters. */
TEST(of_frozen_parameters_zero_1_has_no_buckets)
{
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
    assert_int_equal(p.low, KIB(8128 + 128 + 64 + 100));
    assert_int_equal(p.high, KIB(8128 + 2 * 128 + 64 + 100 + 128));
}

/* v is frozen: no gradient says which unit it is of. */
TEST(of_frozen_parameters_zero_3_gathers_all_at_the_high_end_alone)
{
    static const struct known frozen[] = {
        {'w', KIB(64), KIND_PARAMETER, NOWHERE},   {'v', KIB(800), KIND_PARAMETER, NOWHERE},
        {'u', KIB(1000), KIND_PARAMETER, NOWHERE}, {'t', KIB(900), KIND_PARAMETER, NOWHERE},
        {'a', KIB(100), KIND_SAVED, UNIT0},        {'g', KIB(64), KIND_GRADIENT, NODE0},
        {'s', KIB(64), KIND_STATE, FOREACH},       {0}};
    struct made m;
    make(&m, ".+w .+v .+u .+t f+a b+g b-a o+s .-g | f+a b+g b-a .-g |", frozen);
    struct peaks p = edited(&m, "zero=3:2");
    uint64_t shares = (2764 + 64) / 2;
    assert_int_equal(p.low, KIB(shares + 64 + 100 + 32));
    assert_int_equal(p.high, KIB(shares + 64 + 2700 + 100 + 32 + 4 * 64));
}

/* state = b * state + ...: s goes when n is there, and the other way round in the next step. */
TEST(states_that_each_step_makes_anew_are_refused_in_backward)
{
    static const struct known anew[] = {
        {'w', KIB(400), KIND_PARAMETER, NOWHERE}, {'a', KIB(1000), KIND_SAVED, UNIT0},
        {'g', KIB(400), KIND_GRADIENT, NODE1},    {'s', KIB(400), KIND_STATE, NOWHERE},
        {'n', KIB(400), KIND_STATE, NOWHERE},     {0}};
    struct made m;
    make(&m, ".+w .+s f+a b+g b-a o+n o-s .-g | f+a b+g b-a o+s o-n .-g |", anew);
    assert_refused(&m, "gradients=in-backward", "makes its states anew at each step: vramscope fit");
}
