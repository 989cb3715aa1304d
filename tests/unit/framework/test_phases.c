/*
 * test_phases.c - which automatic phases are open after what the hooks report, and where steps end: what
 * whole programs (torch_phases.py, fake_torch_phases.py) cannot reach.
 */

#include "unit/test.h"
#include "framework/phases.h"

int vramscope_auto_phase(unsigned op, uint64_t argument);
uint32_t *vramscope_auto_phases(void);

enum { SWITCH = 0, CLOSE = 1, SUSPEND = 9, RESUME = 10, KEEP_OPTIMIZERS = 11, OPTIMIZER_MADE = 12 };

#define p (&vs_phases)

static int setup(void **unused)
{
    vramscope_auto_phase(SWITCH, 1);
    vramscope_auto_phase(CLOSE, 0);
    *p = (struct vs_phases){0};
    vs_steps_forget();
    return 0;
}

/* The open phases by their first letters. */
static const char *open_phases(void)
{
    static char text[VS_PHASES_DEEP + 1];
    memset(text, 0, sizeof text);
    for (uint32_t i = 0; i < p->count && i < VS_PHASES_DEEP; i++)
        text[i] = "?FLBOE"[p->name[i]];
    return text;
}

TEST(a_step_goes_through_its_phases, setup)
{
    for (int step = 0; step < 3; step++) {
        vs_phases_begin_call(p, VS_FORWARD, true, 100);
        assert_string_equal(open_phases(), "F");
        vs_phases_begin_head(p, true);
        assert_string_equal(open_phases(), "L");
        vs_phases_end_call(p, false);
        assert_string_equal(open_phases(), "L"); /* until backward */
        assert_true(p->owing && p->logits_seen && p->classes == 100);
        vs_phases_begin_backward(p);
        assert_string_equal(open_phases(), "B");
        vs_phases_end_backward(p);
        assert_string_equal(open_phases(), "");
        assert_true(!p->owing && !p->logits_seen && !p->classes);
        vs_phases_begin_optimizer(p, 0x1000);
        assert_string_equal(open_phases(), "O");
        assert_true(vs_phases_end_optimizer(p, 0x1000));
        assert_true(vs_steps_due() && vs_steps_end_at_forward());
    }
    assert_false(vs_phases_end_optimizer(p, 0x1000));
}

TEST(logits_go_on_behind_a_model_without_gradients_and_end_with_a_failed_call, setup)
{
    vs_phases_begin_call(p, VS_FORWARD, true, 0);
    vs_phases_begin_head(p, true);
    vs_phases_end_call(p, false);
    vs_phases_begin_call(p, VS_FORWARD, false, 0);
    assert_string_equal(open_phases(), "F");
    vs_phases_end_call(p, false);
    assert_string_equal(open_phases(), "L");
    vs_phases_begin_call(p, VS_FORWARD, true, 0);
    vs_phases_begin_head(p, true);
    vs_phases_end_call(p, true);
    assert_string_equal(open_phases(), "");
}

TEST(ranges_deeper_than_names_are_kept_are_closed_like_others, setup)
{
    for (uint32_t i = 0; i < 3 * VS_PHASES_DEEP; i++)
        vs_phases_begin_optimizer(p, 0x1000 + 16 * i);
    assert_int_equal(p->count, 3 * VS_PHASES_DEEP);
    assert_int_equal(p->optimizers, VS_PHASES_DEEP);
    vramscope_auto_phase(KEEP_OPTIMIZERS, 2);
    assert_string_equal(open_phases(), "OO");
    assert_int_equal(vramscope_auto_phase(SUSPEND, 0), 1);
    vs_phases_begin_backward(p);
    assert_string_equal(open_phases(), "OB");
    assert_int_equal(vramscope_auto_phase(SUSPEND, 0), -1);
    vramscope_auto_phase(RESUME, 1);
    assert_string_equal(open_phases(), "OO");
    vramscope_auto_phase(CLOSE, 0);
    assert_true(p->count == 0 && p->optimizers == 0);
}

TEST(what_an_interrupted_hook_left_open_ends_with_the_next_phase, setup)
{
    vs_phases_begin_call(p, VS_FORWARD, true, 0);
    p->inside = 0; /* the hook's end took note, and came no further */
    vs_phases_begin_optimizer(p, 0x1000);
    assert_string_equal(open_phases(), "O");
    vs_phases_begin_call(p, VS_FORWARD, true, 0); /* in a closure */
    assert_string_equal(open_phases(), "OF");
    p->inside = 0;
    vs_phases_begin_backward(p);
    assert_string_equal(open_phases(), "OB");
}

TEST(two_optimizers_make_one_step_and_their_order_is_learnt, setup)
{
    uintptr_t one = 0x20000, two = 0x30000;
    vramscope_auto_phase(OPTIMIZER_MADE, one);
    vramscope_auto_phase(OPTIMIZER_MADE, two);
    for (int step = 0; step < 3; step++) {
        vs_steps_stepped(one);
        assert_false(vs_steps_end_at_forward()); /* the other one comes: it was made, later it followed */
        assert_false(vs_steps_end_at_optimizer(two));
        vs_steps_stepped(two);
        if (step > 0)
            assert_true(vs_steps_end_at_forward());
        assert_true(vs_steps_end_at_optimizer(one));
        vs_steps_forget();
        assert_false(vs_steps_due());
    }
}

TEST(an_optimizer_that_is_gone_is_not_waited_for, setup)
{
    vs_steps_made(0x40000);
    vs_steps_made(0x50000);
    vs_steps_stepped(0x50000);
    assert_false(vs_steps_end_at_forward());
    vs_steps_gone(0x40000);
    assert_true(vs_steps_end_at_forward());
}

TEST(optimizers_without_end_are_forgotten_together, setup)
{
    for (uintptr_t i = 1; i < 100000; i++)
        vs_steps_stepped(0x100000 + 48 * i);
    uint32_t before = vs_steps_count();
    vs_steps_forget();
    for (int step = 0; step < 3; step++) {
        vs_steps_stepped(0x60000);
        if (step > 0)
            assert_true(vs_steps_end_at_forward());
        vs_steps_forget();
    }
    assert_int_equal(vs_steps_count(), before + 3);
}
