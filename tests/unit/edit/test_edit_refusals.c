/* test_edit_refusals.c - which changes make a refused request pass, and by how much the others stay short. */
#include "edit/refusal.h"

#include "made.h"

/* n is the request */
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

TEST(a_request_passes_where_what_a_change_frees_is_enough)
{
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

TEST(a_change_says_by_how_much_a_request_passes_or_stays_short)
{
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

static const struct known pieces[] = {{'x', MIB(60), KIND_FORWARD, UNIT0},
                                      {'a', MIB(30), KIND_SAVED, UNIT0},
                                      {'y', MIB(61), KIND_FORWARD, UNIT1},
                                      {'b', MIB(31), KIND_SAVED, UNIT1},
                                      {'n', MIB(55), KIND_REQUEST, UNIT1},
                                      {'m', MIB(30), KIND_REQUEST, UNIT1},
                                      {0}};

/* Two segments of which the half is free: no piece has room for n, and the device has none for a third. */
TEST(another_allocator_lets_a_request_pass_without_a_change)
{
    struct made m;
    make(&m, "f+x f-x f+a f+y f-y f+b f+n", pieces);
    struct refusal_answer a = {.why = NULL};
    struct torch_settings settings = torch_defaults();
    settings.capacity = MIB(130);
    refusal_ask(&m.p, FEED_NATIVE, &settings, NULL, 0, &a);
    assert_null(a.why);
    assert_int_equal(a.of[FEED_NATIVE].verdict, REFUSAL_SHORT);
    assert_int_equal(a.of[FEED_NATIVE].room, -MIB(47));
    assert_int_equal(a.of[FEED_EXPANDABLE].verdict, REFUSAL_PASSES);
    assert_int_equal(a.of[FEED_ARENA].verdict, REFUSAL_PASSES);
    assert_int_equal(a.of[FEED_LIVE].room, MIB(130 - 30 - 31 - 55));
    char *text = refusal_policy_text(&a, FEED_LIVE, false);
    assert_string_equal(text, "this request would have passed, 14.00 MiB left");
    free(text);
    refusal_free(&a);
}

/* m takes exactly what a left of x's segment: with sizes a little off it does not. */
TEST(what_passes_in_a_hole_of_its_size_passes_by_luck)
{
    struct made m;
    make(&m, "f+x f-x f+a f+m", pieces);
    struct refusal_answer a = {.why = NULL};
    struct torch_settings settings = torch_defaults();
    settings.capacity = MIB(70);
    refusal_ask(&m.p, FEED_NATIVE, &settings, NULL, 0, &a);
    assert_true(a.passes);
    assert_int_equal(a.of[FEED_NATIVE].verdict, REFUSAL_LUCKY);
    assert_int_equal(a.of[FEED_LIVE].verdict, REFUSAL_PASSES);
    refusal_free(&a);
}

/* y's segment goes back when the next request asks for it, x's is a's too. */
TEST(what_is_left_is_what_a_next_request_could_have)
{
    struct made m;
    make(&m, "f+x f-x f+a f+y f-y f+m", pieces);
    struct refusal_answer a = {.why = NULL};
    struct torch_settings settings = torch_defaults();
    settings.capacity = MIB(200);
    refusal_ask(&m.p, FEED_NATIVE, &settings, NULL, 0, &a);
    assert_int_equal(a.of[FEED_NATIVE].room, MIB(200 - 60));
    assert_int_equal(a.of[FEED_LIVE].room, MIB(200 - 60));
    refusal_free(&a);
}

/* n is the logits */
TEST(a_request_that_a_change_does_not_make_is_said_to_be_gone)
{
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

TEST(where_no_change_is_enough_a_pair_is_named)
{
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

TEST(a_request_that_the_replay_does_not_refuse_has_no_advice)
{
    struct made m;
    make(&m, DIED, died);
    struct refusal_answer a = asked(&m, MIB(86));
    assert_non_null(a.why);
    assert_int_equal(a.count, 0);
    refusal_free(&a);
}

TEST(an_end_of_memory_leaves_figures_and_says_which_request_has_no_room)
{
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

/* w and v have gradients g and h; s is w's first state, n a request of the optimizer */
static const struct known stepping[] = {{'w', MIB(20), KIND_PARAMETER, NOWHERE},
                                        {'v', MIB(10), KIND_PARAMETER, NOWHERE},
                                        {'g', MIB(20), KIND_GRADIENT, NODE1},
                                        {'h', MIB(10), KIND_GRADIENT, NODE0},
                                        {'s', MIB(20), KIND_STATE, ADAM},
                                        {'t', MIB(20), KIND_STATE, ADAM},
                                        {'i', MIB(10), KIND_STATE, ADAM},
                                        {'j', MIB(10), KIND_STATE, ADAM},
                                        {'x', MIB(20), KIND_UPDATE, FOREACH},
                                        {'n', MIB(10), KIND_REQUEST, ADAM},
                                        {'m', MIB(10), KIND_REQUEST, FOREACH},
                                        {'k', MIB(5), KIND_REQUEST, NODE0},
                                        {0}};

/* The first step ends with the request, which is a block AS. */
static void make_first(struct made *m, const char *text, enum edit_kind as)
{
    facts.steps = 0;
    facts.cut = true;
    make(m, text, stepping);
    m->blocks[m->p.block_count - 1].as = (uint8_t)as;
}

static struct refusal_answer asked_one(const struct made *m, const char *text, uint64_t capacity)
{
    struct edit e;
    char *why = NULL;
    struct refusal_answer a = {.why = NULL};
    struct torch_settings settings = torch_defaults();
    settings.capacity = capacity;
    assert_true(edit_parse(text, &e, &why));
    refusal_ask(&m->p, FEED_LIVE, &settings, (const struct edit *const[]){&e}, 1, &a);
    return a;
}

static int first_is_over(void **state)
{
    (void)state;
    facts.steps = 2;
    facts.cut = false;
    return 0;
}

static void assert_asked(const struct made *m, const char *text, uint64_t capacity,
                         enum refusal_verdict verdict, bool is_made, int64_t frees)
{
    struct refusal_answer a = asked_one(m, text, capacity);
    assert_null(a.why);
    assert_int_equal(a.count, 1);
    assert_int_equal(a.changes[0].verdict, verdict);
    assert_int_equal(a.changes[0].made, is_made);
    assert_int_equal(a.changes[0].frees, frees);
    refusal_free(&a);
}

TEST(a_request_for_a_state_is_a_state, NULL, first_is_over)
{
    struct made m;
    make_first(&m, ".+w .+v b+g b+h o+s o+t o+n", KIND_STATE);
    /* 110 MiB with the request */
    assert_asked(&m, "states=bf16", MIB(109), REFUSAL_PASSES, true, MIB(25));
    assert_asked(&m, "states=host", MIB(109), REFUSAL_PASSES, false, MIB(40));
    assert_asked(&m, "states=bf16", MIB(80), REFUSAL_SHORT, true, MIB(25));
    make_first(&m, ".+w .+v b+g b+h o+n", KIND_STATE);
    assert_asked(&m, "states=bf16", MIB(69), REFUSAL_PASSES, true, MIB(5));
    struct refusal_answer a = asked_one(&m, "batch=0.5", MIB(69));
    assert_non_null(a.why); /* nothing of it comes with the data */
    refusal_free(&a);
}

TEST(a_request_for_a_temporary_is_a_temporary, NULL, first_is_over)
{
    struct made m;
    make_first(&m, ".+w .+v b+g b+h o+s o+t o+i o+j o+m", KIND_UPDATE);
    /* 130 MiB with the request */
    assert_asked(&m, "optimizer=fused", MIB(129), REFUSAL_PASSES, false, 0);
    make_first(&m, ".+w .+v b+g b+h o+s o+t o+i o+j o+x o+m", KIND_UPDATE);
    /* for the first parameter two were made, of which the second is there still */
    assert_asked(&m, "foreach=no", MIB(149), REFUSAL_SHORT, true, 0);
    assert_asked(&m, "optimizer=fused", MIB(149), REFUSAL_PASSES, false, MIB(20));
}

TEST(in_backward_has_the_states_that_the_first_step_did_not_come_to, NULL, first_is_over)
{
    struct made m;
    /* with both states of both, w and v 30, states 60 */
    make_first(&m, ".+w .+v b+g b+h o+n", KIND_STATE);
    assert_asked(&m, "gradients=in-backward", MIB(69), REFUSAL_SHORT, true, -(int64_t)MIB(20));
    make_first(&m, ".+w .+v b+g b+h o+s o+t o+n", KIND_STATE);
    /* no temporaries of a fused step: 30 + 60 + 10 */
    assert_asked(&m, "gradients=in-backward", MIB(99), REFUSAL_SHORT, true, MIB(20));
    assert_asked(&m, "gradients=in-backward", MIB(109), REFUSAL_MAY_PASS, true, MIB(20));
    make_first(&m, ".+w .+v b+g b+h o+s o+t o+i o+j o+m", KIND_UPDATE);
    /* the update of the first one has two temporaries: 30 + 20 + 40 + 40 */
    assert_asked(&m, "gradients=in-backward", MIB(128), REFUSAL_SHORT, false, MIB(30));
    /* of an optimizer that did not come to its step nobody knows how many states it makes */
    make_first(&m, ".+w .+v b+g b+k", KIND_BACKWARD);
    assert_asked(&m, "gradients=in-backward", MIB(54), REFUSAL_MAY_PASS, true, -(int64_t)MIB(20));
}

/* Of gradients that go earlier the blocks are known, but not to the last piece where they lie. */
TEST(where_no_hundredth_decides_in_backward_passes_or_does_not)
{
    static const struct known kept[] = {
        {'w', MIB(100), KIND_PARAMETER, NOWHERE}, {'s', MIB(100), KIND_STATE, NOWHERE},
        {'g', MIB(100), KIND_GRADIENT, NODE1},    {'a', MIB(50), KIND_SAVED, UNIT0},
        {'n', MIB(30), KIND_REQUEST, UNIT1},      {0}};
    struct made m;
    make(&m, ".+w .+s b+g | f+a f+n", kept); /* 300 MiB while there is a gradient, 380 with the request */
    assert_asked(&m, "gradients=in-backward", MIB(310), REFUSAL_PASSES, true, MIB(100));
    assert_asked(&m, "gradients=in-backward", MIB(302), REFUSAL_MAY_PASS, true, MIB(100));
    assert_asked(&m, "gradients=in-backward", MIB(298), REFUSAL_MAY_PASS, true, MIB(100));
    assert_asked(&m, "gradients=in-backward", MIB(290), REFUSAL_SHORT, true, MIB(100));
}
