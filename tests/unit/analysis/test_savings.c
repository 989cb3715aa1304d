/* test_savings.c - what lowering a phase would save: the floors of steps whose every byte is known. */

#include "unit/test.h"
#include "analysis/savings.h"
#include "read/steps.h"

enum { NONE, FORWARD, LOGITS, BACKWARD, OPTIMIZER, NAMES };
static const char *const names[NAMES] = {"none", "forward", "logits", "backward", "optimizer"};

#define NEVER INT64_MAX

/* The step's events follow from the lifetimes: one event a change, at its sequence number. */
struct step {
    struct trace_step_memory m;
    struct trace_step_point points[64];
};

static int by_seq(const void *a, const void *b)
{
    const struct trace_step_point *x = a, *y = b;
    return x->seq < y->seq ? -1 : x->seq > y->seq;
}

static void add_event(struct step *s, int64_t seq, int64_t bytes, int phase)
{
    if (seq >= s->m.first_seq && seq <= s->m.last_seq)
        s->points[s->m.point_count++] = (struct trace_step_point){seq, bytes, phase};
}

/* Step 2, events 100 to 199; WEIGHTS stay and stand in no lifetime, as in a file. */
static int64_t build(struct step *s, struct trace_lifetime *lifetimes, size_t n, int64_t weights)
{
    int64_t now, peak;
    *s = (struct step){.m = {.step = 2, .first_seq = 100, .last_seq = 199, .before = weights}};
    s->m.points = s->points;
    s->m.lifetimes = lifetimes;
    s->m.lifetime_count = n;
    for (size_t i = 0; i < n; i++) {
        s->m.before += lifetimes[i].made_seq < 100 ? lifetimes[i].bytes : 0;
        add_event(s, lifetimes[i].made_seq, lifetimes[i].bytes, lifetimes[i].made_in);
        add_event(s, lifetimes[i].freed_seq, -lifetimes[i].bytes, lifetimes[i].freed_in);
    }
    qsort(s->points, s->m.point_count, sizeof *s->points, by_seq);
    now = peak = s->m.before;
    for (size_t i = 0; i < s->m.point_count; i++) {
        now = s->points[i].allocated += now;
        peak = now > peak ? now : peak;
    }
    return peak;
}

static struct savings ask(struct step *s, struct trace_lifetime *lifetimes, size_t n, const char *phase)
{
    int64_t peak = build(s, lifetimes, n, 1000);
    return savings_of(&s->m, peak, phase, names, NAMES, UNKNOWN);
}
#define ASK(s, lifetimes, phase) ask(&(s), lifetimes, sizeof(lifetimes) / sizeof *(lifetimes), phase)

TEST(the_gradient_of_the_logits_goes_with_them)
{
    struct step s;
    struct trace_lifetime l[] = {
        {110, 170, 50, FORWARD, BACKWARD, 0},   /* activations */
        {120, 150, 300, LOGITS, BACKWARD, 0},   /* log probabilities */
        {140, 160, 300, BACKWARD, BACKWARD, 0}, /* their gradient */
        {145, 190, 20, BACKWARD, OPTIMIZER, 0}, /* a weight's gradient */
    };
    struct savings a = ASK(s, l, "backward");
    assert_true(a.known && a.step == 2 && a.peak == 1670 && a.static_bytes == 1000);
    assert_string_equal(a.phases[0], "logits");
    assert_string_equal(a.phases[1], "backward");
    assert_true(a.floor == 1070);
    assert_string_equal(a.floor_phase, "backward");
}

TEST(logits_that_the_program_kept_from_the_step_before_go_too)
{
    struct step s;
    struct trace_lifetime l[] = {
        {80, 125, 300, LOGITS, NONE, 0}, /* rebound only after the next forward */
        {110, 170, 50, FORWARD, BACKWARD, 0},
        {120, NEVER, 300, LOGITS, 0, 0},
        {140, 160, 10, BACKWARD, BACKWARD, 0},
    };
    struct savings a = ASK(s, l, "logits");
    assert_true(a.known && a.peak == 1650 && a.static_bytes == 1000 && a.floor == 1050);
}

TEST(what_outlives_backward_stays)
{
    struct step s;
    struct trace_lifetime l[] = {
        {110, 150, 10, FORWARD, BACKWARD, 0},
        {140, 149, 40, BACKWARD, BACKWARD, 0},
        {141, NEVER, 200, BACKWARD, 0, 0}, /* a gradient that the next step frees */
    };
    struct savings a = ASK(s, l, "backward");
    assert_true(a.known && a.peak == 1250 && a.floor == 1210);
    assert_string_equal(a.phases[0], "backward");
    assert_null(a.phases[1]); /* no logits in this step: nothing is said of them */
}

TEST(an_optimizers_temporaries_are_its_own)
{
    struct step s;
    struct trace_lifetime l[] = {
        {110, 150, 100, FORWARD, BACKWARD, 0},
        {120, 140, 30, LOGITS, BACKWARD, 0},
        {180, 185, 500, OPTIMIZER, OPTIMIZER, 0},
        {181, NEVER, 5, OPTIMIZER, 0, 0}, /* a state: made in it, and stays */
    };
    struct savings a = ASK(s, l, "optimizer");
    assert_true(a.known && a.peak == 1505 && a.floor == 1130);
    assert_string_equal(a.phases[0], "optimizer");
    assert_string_equal(a.floor_phase, "logits");
}

TEST(states_that_the_peaks_step_made_are_beside_static_memory)
{
    struct step s;
    struct trace_lifetime l[] = {
        {110, 150, 100, FORWARD, BACKWARD, 0},    {140, NEVER, 60, BACKWARD, 0, 0}, /* a gradient */
        {180, NEVER, 40, OPTIMIZER, 0, 0},                                          /* states */
        {181, 188, 500, OPTIMIZER, OPTIMIZER, 0}, {189, NEVER, 7, OPTIMIZER, 0, 0}, /* after the peak */
        {182, 183, 1, FORWARD, OPTIMIZER, 0},
    };
    struct savings a = ASK(s, l, "optimizer");
    assert_true(a.known && a.peak == 1601 && a.static_bytes == 1000 && a.states_bytes == 40);
    s.m.work_seq = 190; /* the run's last step: what its end gives back was there for good */
    l[2].freed_seq = 195;
    assert_true(savings_of(&s.m, a.peak, "optimizer", names, NAMES, UNKNOWN).states_bytes == 40);
    assert_true(savings_of(&s.m, a.peak, "optimizer", names, 2, UNKNOWN).states_bytes ==
                0); /* no such phase */
}

TEST(memory_that_the_step_found_and_freed_is_not_static)
{
    struct step s;
    struct trace_lifetime l[] = {
        {90, 105, 70, BACKWARD, NONE, 0}, /* the last step's gradients */
        {110, 150, 100, FORWARD, BACKWARD, 0},
    };
    struct savings a = ASK(s, l, "forward");
    assert_true(a.known && a.static_bytes == 1000);
    assert_true(a.floor == a.peak &&
                a.peak == 1100); /* activations are freed by another phase: not its own */
}

TEST(logits_that_no_phase_tells_leave_no_bound)
{
    struct step s;
    struct trace_lifetime hidden[] = {{110, 150, 100, FORWARD, BACKWARD, 0},
                                      {140, 149, 40, BACKWARD, BACKWARD, 0}};
    struct trace_lifetime told[] = {{110, 150, 100, FORWARD, BACKWARD, 0},
                                    {120, 140, 30, LOGITS, BACKWARD, 0}};
    struct trace_lifetime other[] = {{110, 150, 100, FORWARD, BACKWARD, 0},
                                     {180, 185, 500, OPTIMIZER, OPTIMIZER, 0}};

    struct savings a = ASK(s, hidden, "backward");
    assert_true(a.floor == 1100 && a.uncalled_classes == UNKNOWN);
    a = savings_of(&s.m, a.peak, "backward", names, NAMES, 50304);
    assert_true(a.known && a.static_bytes == 1000 && a.floor == UNKNOWN && a.uncalled_classes == 50304);
    a = ASK(s, told, "logits"); /* the output layer of another model, or another step's */
    a = savings_of(&s.m, a.peak, "logits", names, NAMES, 50304);
    assert_true(a.floor != UNKNOWN && a.uncalled_classes == UNKNOWN);
    a = ASK(s, other, "optimizer");
    a = savings_of(&s.m, a.peak, "optimizer", names, NAMES, 50304);
    assert_true(a.floor != UNKNOWN && a.uncalled_classes == UNKNOWN);
}

TEST(nothing_is_said_where_nothing_is_known)
{
    struct step s;
    struct trace_lifetime kept[] = {{110, NEVER, 100, FORWARD, 0, 0}};
    struct trace_lifetime good[] = {{110, 150, 100, FORWARD, BACKWARD, 0},
                                    {120, 130, 5, FORWARD, FORWARD, 0}};
    assert_false(ASK(s, kept, "forward").known); /* a pool that grows: what is in it, nobody tells */
    assert_true(ASK(s, good, "forward").known);
    s.m.step = UNKNOWN;
    assert_false(savings_of(&s.m, 1105, "forward", names, NAMES, UNKNOWN).known);
    /* a block that was never seen made is freed: the bytes are missing in the lifetimes */
    assert_true(ASK(s, good, "forward").known);
    s.m.points[s.m.point_count - 1].allocated = 900;
    assert_false(savings_of(&s.m, 1105, "forward", names, NAMES, UNKNOWN).known);
    /* outside any phase there is no phase to do without, but what stays is known */
    struct savings outside = ASK(s, good, "none");
    assert_true(outside.known && outside.static_bytes == 1000 && outside.floor == UNKNOWN);
    assert_true(ASK(s, good, NULL).floor == UNKNOWN);
}
