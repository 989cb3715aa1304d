/* test_edits.c - changes of a program whose every byte is known: what cannot be asked for, and what each
 * costs. */
#include "made.h"

TEST(recorded_peak_is_the_sum_of_what_lives)
{
    struct made m;
    make(&m, FIRST SECOND, step);
    uint64_t phases[NAMES];
    assert_int_equal(peak_of(&m.p, phases), KIB(500 + 1000 + 32 + 3000 + 400));
    assert_int_equal(phases[OPTIMIZER], KIB(500 + 1000 + 32 + 500 + 500));
}

TEST(a_change_of_nothing_is_refused)
{
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

TEST(changes_that_contradict_each_other_are_named)
{
    static const char *const bad[][2] = {{"states=8bit", "states=host"},
                                         {"loss=fused", "loss=fused"},
                                         {"types=bf16", "states=bf16"},
                                         {"accumulate=2", "gradients=in-backward"}};
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

TEST(of_several_changes_each_says_what_it_costs)
{
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

TEST(words_that_are_no_edit_are_named)
{
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

/* ---- steps ---- */

/* Of several passes without an end between them it is not known what lives over one. */
TEST(a_recording_without_steps_is_refused)
{
    static const char *const all[] = {"batch=2",      "foreach=no",           "optimizer=fused",
                                      "states=host",  "states=8bit",          "zero=1:8",
                                      "checkpoint=1", "gradients=in-backward"};
    struct made m;
    struct edit_facts none = facts, refused;
    none.steps = 0;
    refused = none;
    refused.cut = true;
    make(&m, ".+w .+v f+a f+c b-c b+g b-a b+h o+s o+t .-g .-h f+a f+c b-c b+g b-a b+h", step);
    m.p.facts = &none;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        assert_refused(&m, all[i], "no steps");
    m.p.facts = &refused; /* up to the request all is known that is asked */
    assert_true(edited(&m, "batch=2").low > 0);
    make(&m, ".+w .+v f+a f+c b-c b+g b-a b+h o+s o+t", step);
    m.p.facts = &none; /* the one step that there is needs no end */
    assert_true(edited(&m, "states=host").low > 0);
    make(&m, ".+w .+v f+a f-a f+a f-a", step);
    m.p.facts = &none; /* forwards alone */
    assert_refused(&m, "batch=2", "no steps");
}

/* ---- sizes ---- */

TEST(a_batch_scales_what_is_made_of_data_and_nothing_else)
{
    struct made m;
    make(&m, FIRST SECOND, step);
    struct peaks p = edited(&m, "batch=2");
    assert_int_equal(p.low, KIB(500 + 1000 + 32 + 6000 + 400));
    /* k, which forward makes once and which stays, may be a cache */
    assert_int_equal(p.high, KIB(500 + 1000 + 64 + 6000 + 400));
    assert_int_equal(edited(&m, "batch=0.5").high, KIB(500 + 1000 + 32 + 1500 + 400));
}

TEST(what_no_machine_holds_is_refused_at_either_end)
{
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
TEST(an_output_that_outlives_its_step_may_grow_with_the_data)
{
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
}

TEST(a_value_that_no_edit_has_is_answered_with_those_that_it_has)
{
    static const char *const said[][2] = {
        {"foreach=0", "foreach has one value, 'no'"},
        {"loss=chunked", "loss has one value, 'fused'"},
        {"states=4bit", "states takes bf16, 8bit or host"},
        {"batch=0", "batch takes a factor such as 2 or 0.5"},
        {"set_to_none=no", "set_to_none has one value, 'yes'"},
        {"types=bf16,loss=half", "types takes bf16, with ,loss=fp32 or ,loss=bf16 or without"}};
    for (size_t i = 0; i < sizeof said / sizeof *said; i++) {
        struct edit e;
        char *why = NULL;
        assert_false(edit_parse(said[i][0], &e, &why));
        assert_string_equal(why, said[i][1]);
        free(why);
    }
}
