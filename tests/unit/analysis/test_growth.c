/* test_growth.c - what grows from step to step, and what only seems to: lives whose every step is known. */

#include "unit/test.h"
#include "analysis/growth.h"
#include "read/steps.h"

#define STEPS 40
#define MIB   (INT64_C(1) << 20)

enum { FORWARD = 1, BACKWARD = 3 };

struct job {
    struct growth_window window;
    struct trace_birth births[4 * STEPS];
    size_t n;
    int64_t ends[STEPS]; /* allocated at the end of each step */
};

static struct job job_of(void)
{
    struct job j = {.n = 0};
    assert_true(growth_window(STEPS, &j.window));
    for (size_t i = 0; i < STEPS; i++)
        j.ends[i] = 1000 * MIB;
    return j;
}

/* What STEP makes and keeps. */
static void keep(struct job *j, int64_t step, int64_t size, int64_t phase, int64_t stack)
{
    j->births[j->n++] = (struct trace_birth){step, size, phase, stack, 20, 0};
    for (int64_t i = step; i < STEPS; i++)
        j->ends[i] += size;
}

static struct growth judge(struct job *j, size_t peak_step)
{
    int64_t base[GROWTH_QUARTERS + 1];
    for (size_t i = 0; i <= GROWTH_QUARTERS; i++)
        base[i] = j->ends[j->window.end[i]];
    return growth_of(&j->window, j->births, j->n, base, peak_step);
}

static void expect_none(struct job *j)
{
    struct growth g = judge(j, SIZE_MAX);
    assert_true(g.known && g.count == 0 && g.bytes == 0 && g.before == 0);
    growth_free(&g);
}

TEST(windows_leave_the_warm_up_out_and_end_with_the_last_step)
{
    struct growth_window w;
    assert_false(growth_window(0, &w));
    assert_false(growth_window(10, &w));
    for (size_t n = 11; n < 3000; n++) {
        assert_true(growth_window(n, &w));
        assert_int_equal(w.end[0], (n / 8 > 3 ? n / 8 : 3) - 1);
        assert_int_equal(w.end[GROWTH_QUARTERS], n - 1);
        for (int i = 0; i < GROWTH_QUARTERS; i++)
            assert_true(w.end[i + 1] >= w.end[i] + 2);
    }
}

TEST(a_leak_is_told_by_phase_size_and_stack)
{
    struct job j = job_of();
    for (int i = 0; i < STEPS; i++) {
        keep(&j, i, MIB, FORWARD, 7);
        keep(&j, i, 4096, BACKWARD, 0);
    }
    struct growth g = judge(&j, 30);
    assert_int_equal(g.count, 2);
    assert_int_equal(g.steps, 35);
    assert_int_equal(g.bytes, 35 * (MIB + 4096));
    assert_int_equal(g.before, 29 * (MIB + 4096)); /* of steps 1 to 29, by index */
    assert_true(g.groups[0].phase == FORWARD && g.groups[0].stack == 7 && g.groups[0].bytes == 35 * MIB);
    assert_true(g.groups[1].phase == BACKWARD && g.groups[1].count == 35 &&
                g.groups[1].greatest_size == 4096);
    growth_free(&g);
}

static int64_t since(struct job *j)
{
    struct growth g = judge(j, SIZE_MAX);
    assert_int_equal(g.count, 1);
    int64_t step = g.groups[0].since;
    growth_free(&g);
    return step;
}

TEST(a_leak_is_as_old_as_its_steady_part)
{
    struct job all = job_of(), late = job_of(), second = job_of(), thirds = job_of(), paused = job_of();
    for (int i = 0; i < STEPS; i++) {
        keep(&all, i, MIB, FORWARD, 7);
        if (i >= 3)
            keep(&late, i, MIB, FORWARD, 7);
        if (i >= 1)
            keep(&second, i, MIB, FORWARD, 7);
        if (i % 3 == 1)
            keep(&thirds, i, MIB, FORWARD, 7);
        if (i == 0 || i >= 4)
            keep(&paused, i, MIB, FORWARD, 7);
    }
    for (int i = 0; i < 50; i++) /* the states that the first step makes, as large and from there as well */
        keep(&second, 0, MIB, FORWARD, 7);
    assert_int_equal(since(&all), 0);
    assert_int_equal(since(&late), 3);
    assert_int_equal(since(&second), 1);
    assert_int_equal(since(&thirds), 1);
    assert_int_equal(since(&paused), 4);
}

TEST(what_a_warm_up_made_at_another_rate_is_no_part_of_it)
{
    struct job j = job_of();
    for (int i = 0; i < STEPS; i++)
        for (int k = 0; k < (i < 4 ? 9 : 1); k++)
            keep(&j, i, MIB, FORWARD, 7);
    assert_true(since(&j) >= 4);
}

TEST(sizes_that_change_with_the_batch_are_one_group)
{
    struct job j = job_of();
    for (int i = 0; i < STEPS; i++)
        keep(&j, i, (1 + i * 7 % 5) * MIB, FORWARD, 0);
    struct growth g = judge(&j, SIZE_MAX);
    assert_int_equal(g.count, 1);
    assert_true(g.groups[0].least_size == MIB && g.groups[0].greatest_size == 5 * MIB && g.before == 0);
    growth_free(&g);
}

TEST(every_other_step_is_steady_enough)
{
    struct job j = job_of();
    for (int i = 0; i < STEPS; i += 3)
        keep(&j, i, MIB, FORWARD, 0);
    struct growth g = judge(&j, SIZE_MAX);
    assert_int_equal(g.count, 1);
    growth_free(&g);
}

TEST(states_of_the_first_step_do_not_grow)
{
    struct job j = job_of();
    for (int i = 0; i < 100; i++)
        keep(&j, 0, MIB, 4, 0);
    expect_none(&j);
}

TEST(a_cache_that_stops_does_not_grow)
{
    struct job j = job_of();
    for (int i = 0; i < 30; i++)
        keep(&j, i, MIB, FORWARD, 0);
    expect_none(&j);
}

TEST(a_cache_that_misses_ever_less_does_not_grow)
{
    static const int misses[] = {3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 16, 18, 20, 23, 26, 30, 35, 39};
    struct job j = job_of();
    for (size_t i = 0; i < sizeof misses / sizeof *misses; i++)
        keep(&j, misses[i], MIB, FORWARD, 0);
    expect_none(&j);
}

TEST(what_was_cleared_on_the_way_does_not_grow)
{
    struct job j = job_of();
    for (int i = 0; i < STEPS; i++)
        j.ends[i] += i % 10 * MIB;
    for (int i = 30; i < STEPS; i++)
        j.births[j.n++] = (struct trace_birth){i, MIB, FORWARD, 0, 20, 0};
    expect_none(&j);
}

TEST(what_is_replaced_in_turn_does_not_grow)
{
    struct job j = job_of();
    for (int i = 0; i < STEPS; i++) /* as young as a leak, but allocated stays what it was */
        j.births[j.n++] = (struct trace_birth){i, MIB, FORWARD, 0, 20, 0};
    expect_none(&j);
}

TEST(a_large_free_in_the_middle_hides_no_leak)
{
    struct job j = job_of();
    for (int i = 0; i < STEPS; i++)
        keep(&j, i, MIB, FORWARD, 0);
    for (int i = 20; i < STEPS; i++)
        j.ends[i] -= 500 * MIB;
    struct growth g = judge(&j, SIZE_MAX);
    assert_int_equal(g.count, 1);
    growth_free(&g);
}

TEST(the_grain_of_allocators_is_no_growth)
{
    struct job j = job_of();
    for (int i = 0; i < STEPS; i++)
        keep(&j, i, 512, FORWARD, 0);
    expect_none(&j);
}

TEST(the_numbers_of_a_damaged_file_do_no_harm)
{
    struct job j = job_of();
    for (int i = 0; i < STEPS; i++)
        j.births[j.n++] = (struct trace_birth){i - 5, INT64_C(1) << 60, FORWARD, -3, 99, 77};
    for (int i = 0; i < STEPS; i++)
        j.ends[i] = i % 2 ? INT64_MAX : -INT64_MAX;
    struct growth g = judge(&j, 2);
    growth_free(&g);
}
