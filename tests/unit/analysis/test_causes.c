/* test_causes.c - what made a peak: a figure where it is a cause, and none where it only looks like one. */

#include "unit/test.h"
#include "analysis/savings.h"
#include "trace/journal/journal.h"
#include "read/living.h"
#include "read/stacks.h"
#include "read/steps.h"

enum { NONE, FORWARD, LOGITS, BACKWARD, OPTIMIZER, NAMES };
static const char *const names[NAMES] = {"none", "forward", "logits", "backward", "optimizer"};

#define NEVER INT64_MAX

/* A step from event 100 to 199, its peak of 1000 bytes at 150. */
struct moment {
    struct peak_facts peak;
    struct trace_step_memory step;
    struct savings savings;
    struct growth growth;
};

static struct moment moment_in(const char *phase)
{
    return (struct moment){.peak = {.seq = 150, .bytes = 1000, .phase = phase},
                           .step = {.step = 3, .first_seq = 100, .last_seq = 199},
                           .savings = {.known = true, .peak = 1000, .floor = UNKNOWN},
                           .growth = {.known = true}};
}

static struct causes ask(const struct moment *m)
{
    return causes_of(&m->peak, &m->step, &m->savings, &m->growth, names, NAMES);
}

TEST(logits_are_a_cause_where_the_peak_is_lower_without_them)
{
    struct trace_live live[] = {{.size = 300, .phase = "logits", .line = "model.py:9 loss"},
                                {.size = 250, .phase = "logits", .line = "model.py:7 head", .stack = 1},
                                {.size = 250, .phase = "logits", .line = "model.py:7 head", .stack = 2},
                                {.size = 90, .phase = "logits"},
                                {.size = 500, .phase = "forward", .line = "model.py:3 f"}};
    struct moment m = moment_in("backward");
    m.peak.live = live;
    m.peak.live_count = sizeof live / sizeof *live;
    m.savings.floor = 400;
    m.savings.phases[0] = "logits";
    struct causes c = ask(&m);
    assert_int_equal(c.logits, 890);
    assert_string_equal(c.logits_line, "model.py:7 head");
    assert_true(c.temporaries == 0 && c.left == 0);
    m.savings.floor = 1000; /* as high without them */
    assert_int_equal(ask(&m).logits, 0);
    m.savings.floor = UNKNOWN;
    assert_int_equal(ask(&m).logits, 0);
    m.savings.floor = 400;
    m.savings.phases[0] = "optimizer"; /* the peak is another phase's */
    assert_int_equal(ask(&m).logits, 0);
    m.savings.phases[0] = "logits";
    for (int i = 0; i < 4; i++)
        live[i].size = 12; /* crumbs made no peak */
    assert_int_equal(ask(&m).logits, 0);
}

TEST(temporaries_are_what_this_optimizer_step_makes_and_frees)
{
    struct trace_lifetime l[] = {
        {140, 160, 100, OPTIMIZER, OPTIMIZER, 7}, {141, 161, 50, OPTIMIZER, OPTIMIZER, 0},
        {142, 162, 60, OPTIMIZER, OPTIMIZER, 7},  {143, NEVER, 900, OPTIMIZER, 0, 7}, /* states */
        {120, 145, 800, OPTIMIZER, OPTIMIZER, 7},                                     /* before the peak */
        {151, 170, 700, OPTIMIZER, OPTIMIZER, 7},                                     /* after it */
        {130, 170, 600, BACKWARD, OPTIMIZER, 7},  {144, 190, 500, OPTIMIZER, NONE, 7},
        {90, 170, 400, OPTIMIZER, OPTIMIZER, 7}, /* made by the step before */
    };
    struct moment m = moment_in("optimizer");
    m.step.lifetimes = l;
    m.step.lifetime_count = sizeof l / sizeof *l;
    struct causes c = ask(&m);
    assert_int_equal(c.temporaries, 210);
    assert_int_equal(c.stack_count, 2);
    assert_true(c.stacks[0].stack == 7 && c.stacks[0].bytes == 160);
    assert_true(c.stacks[1].stack == 0 && c.stacks[1].bytes == 50);
    causes_free(&c);
    m.peak.phase = "backward";
    assert_int_equal(ask(&m).temporaries, 0);
    m.peak.phase = NULL;
    assert_int_equal(ask(&m).temporaries, 0);
    m.peak.phase = "optimizer";
    m.step.step = UNKNOWN;
    assert_int_equal(ask(&m).temporaries, 0);
}

TEST(what_backward_left_counts_outside_of_the_optimizer)
{
    struct moment m = moment_in("forward");
    m.peak.left = 300;
    assert_int_equal(ask(&m).left, 300);
    m.peak.phase = "optimizer"; /* which needs gradients, of whatever step */
    assert_int_equal(ask(&m).left, 0);
    m.peak.phase = "backward";
    m.peak.left = UNKNOWN;
    assert_int_equal(ask(&m).left, 0);
    m.peak.left = 49;
    assert_int_equal(ask(&m).left, 0);
    m.peak.left = INT64_MAX; /* of a damaged file */
    assert_int_equal(ask(&m).left, 0);
}

TEST(a_leak_of_backward_is_not_called_kept)
{
    struct growth_group groups[] = {{.phase = BACKWARD, .before = 280}, {.phase = FORWARD, .before = 500}};
    struct moment m = moment_in("forward");
    m.growth.groups = groups;
    m.growth.count = 2;
    m.peak.left = 300;
    assert_int_equal(ask(&m).left, 0);
    groups[0].before = 100;
    assert_int_equal(ask(&m).left, 200);
    groups[0].before = 500;
    assert_int_equal(ask(&m).left, 0);
}

TEST(foreach_is_pytorchs_own)
{
    struct trace_frame f[] = {
        {.kind = VS_FRAME_ADDRESS, .function = "_multi_tensor_adam", .file = "/v/torch/optim/adam.py"},
        {.kind = VS_FRAME_PYTHON, .function = "_single_tensor_adam", .file = "/v/torch/optim/adam.py"},
        {.kind = VS_FRAME_PYTHON, .function = "_multi_tensor_mine", .file = "/home/ada/optim/adam.py"},
        {.kind = VS_FRAME_PYTHON, .function = NULL, .file = "/v/torch/optim/adam.py"},
        {.kind = VS_FRAME_PYTHON, .function = "_multi_tensor_sgd", .file = "/v/torch/optim/sgd.py"},
    };
    assert_int_equal(causes_foreach(f, 4), -1);
    assert_int_equal(causes_foreach(f, 5), 4);
    assert_int_equal(causes_foreach(f, 0), -1);
}
