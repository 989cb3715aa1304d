/*
 * test_residual.c - what the driver uses beyond reserved: taken apart into what was measured, with the rest
 * unexplained, to the byte at each moment.
 */

#include "unit/test.h"
#include "analysis/residual.h"
#include "read/tables.h"

static struct residual without_costs(const struct trace_sample *samples, size_t n)
{
    return residual_of(samples, n, NULL, 0);
}

/* Every moment's parts are its whole. */
static void assert_whole(const struct residual_moment *m)
{
    int64_t sum = m->reserved + m->unexplained + (m->inferred == UNKNOWN ? 0 : m->inferred);
    for (int p = 0; p < RESIDUAL_PARTS; p++)
        sum += m->parts[p];
    assert_true(sum == m->driver_used);
    assert_true(m->reserved + m->residual == m->driver_used);
}

TEST(the_residual_is_what_reserved_leaves_over)
{
    const struct trace_sample samples[] = {
        {10, 0, 600, 1, 5, 100, "nvml_process"},
        {20, 0, 9999, 1, 5, 100, "meminfo"}, /* another question: not mixed in */
        {30, 0, 1700, 9, 2, 1000, "nvml_process"},
        {40, 0, 1600, 3, 2, 1000, "nvml_process"}};
    struct residual r = without_costs(samples, 4);
    assert_true(r.known && !r.whole_device);
    assert_true(r.fullest.driver_used == 1700 && r.fullest.reserved == 1000 && r.fullest.residual == 700);
    assert_true(r.fullest.t == 30 && r.last.t == 40 && r.last.residual == 600);
    assert_true(r.rss == 9 && r.pinned == 5);
    assert_whole(&r.fullest);
    assert_whole(&r.last);
}

TEST(the_process_alone_counts_where_it_was_ever_asked)
{
    const struct trace_sample samples[] = {{10, 0, 900, 1, 5, 100, "meminfo"},
                                           {20, 0, 950, 1, 5, 100, "nvml_device"},
                                           {30, 0, 600, 9, 2, 100, "nvml_process"},
                                           {40, 0, 800, 3, 2, 200, "nvml_process"}};
    struct residual r = without_costs(samples, 4);
    assert_true(!r.whole_device && !strcmp(r.source, "nvml_process"));
    assert_true(r.fullest.t == 40 && r.fullest.residual == 600 && r.rss == 9);
    r = without_costs(samples, 2);
    assert_true(r.whole_device && !strcmp(r.source, "nvml_device"));
}

TEST(without_samples_it_is_unknown_and_other_processes_are_named)
{
    const struct trace_sample whole = {10, 0, 600, UNKNOWN, UNKNOWN, 100, "meminfo"};
    struct residual none = without_costs(NULL, 0);
    assert_false(none.known);
    assert_true(none.fullest.residual == UNKNOWN && none.last.unexplained == UNKNOWN);
    assert_true(none.fullest.parts[PART_CONTEXT] == UNKNOWN);
    assert_true(without_costs(&whole, 1).whole_device);
    assert_non_null(strstr(residual_source("meminfo"), "other processes"));
}

TEST(a_sample_between_a_call_and_its_event_gives_way_to_one_that_has_both)
{
    const struct trace_sample samples[] = {{10, 0, 600, 1, 5, 100, "nvml_process"},
                                           {20, 0, 1600, 1, 5, 100, "nvml_process"},
                                           {30, 0, 1600, 1, 5, 1100, "nvml_process"},
                                           {40, 0, 1600, 1, 5, 900, "nvml_process"}};
    assert_true(without_costs(samples, 4).fullest.t == 30);
}

/* ---- costs ---- */

enum { CTX = 0x1000, OTHER = 0x2000 };
/* clang-format off */
#define CONTEXT(time, address, bytes)    {COST_CONTEXT, time, 0, bytes, address, 0}
#define END(time, address)               {COST_CONTEXT_END, time, 0, 0, address, 0}
#define OVERHEAD(kind, time, bytes, ctx) {COST_##kind, time, 0, bytes, 0x77, ctx}
/* clang-format on */

static const struct trace_sample two[] = {{10, 0, 600, 1, 5, 0, "nvml_process"},
                                          {50, 0, 2000, 1, 5, 1000, "nvml_process"}};

TEST(measured_costs_have_rows_and_the_rest_is_unexplained)
{
    const struct trace_cost costs[] = {
        CONTEXT(1, CTX, 500),
        OVERHEAD(CODE, 2, 92, CTX),
        OVERHEAD(STREAM, 3, 40, CTX),
        OVERHEAD(STREAM, 4, 30, CTX),
        OVERHEAD(GRAPH, 5, 7, CTX),
        OVERHEAD(PEER, 6, 3, CTX),
        {COST_LIMIT, 20, 0, 200, 2, CTX},
        {COST_MODULE, 30, 0, 16, 0x55, CTX},
        OVERHEAD(CODE, 60, 9999, CTX), /* after the last sample */
    };
    struct residual r = residual_of(two, 2, costs, sizeof costs / sizeof *costs);
    const int64_t *p = r.last.parts;
    assert_true(p[PART_CONTEXT] == 500 && p[PART_CODE] == 92 + 16 && p[PART_STREAM] == 70);
    assert_true(p[PART_GRAPH] == 7 && p[PART_PEER] == 3 && p[PART_LIMIT] == 200);
    assert_true(r.last.unexplained == 1000 - 888 && r.last.inferred == UNKNOWN && r.unmeasured == 0);
    assert_whole(&r.last);
    assert_whole(&r.fullest);
}

TEST(a_context_takes_with_it_what_was_measured_in_it)
{
    const struct trace_cost costs[] = {
        CONTEXT(1, CTX, 500),
        CONTEXT(2, OTHER, 400),
        OVERHEAD(CODE, 3, 92, CTX),
        OVERHEAD(CODE, 4, 60, OTHER),
        OVERHEAD(CODE, 5, 5, 0), /* of no known context: stays */
        END(6, CTX),
        CONTEXT(7, CTX, 300), /* the handle again */
        OVERHEAD(STREAM, 8, 20, CTX),
    };
    struct residual r = residual_of(two, 2, costs, sizeof costs / sizeof *costs);
    assert_true(r.last.parts[PART_CONTEXT] == 700 && r.last.parts[PART_CODE] == 65);
    assert_true(r.last.parts[PART_STREAM] == 20);
    assert_whole(&r.last);
}

TEST(a_module_that_is_unloaded_counts_no_more)
{
    const struct trace_cost costs[] = {
        CONTEXT(1, CTX, 500),
        {COST_MODULE, 2, 0, 16, 0x55, CTX},
        {COST_MODULE, 3, 0, 32, 0x56, CTX},
        {COST_MODULE_END, 4, 0, 0, 0x55, CTX},
    };
    assert_true(residual_of(two, 2, costs, 4).last.parts[PART_CODE] == 32);
}

TEST(what_nobody_could_measure_is_said_and_never_guessed)
{
    const struct trace_cost costs[] = {CONTEXT(1, CTX, 500), OVERHEAD(CODE, 20, UNKNOWN, CTX)};
    struct residual r = residual_of(two, 2, costs, 2);
    assert_true(r.unmeasured == 1 && r.last.parts[PART_CODE] == 0 && r.last.unexplained == 500);
}

TEST(a_context_that_was_not_measured_is_inferred_from_the_first_sample)
{
    const struct trace_cost costs[] = {CONTEXT(1, CTX, UNKNOWN), OVERHEAD(CODE, 5, 92, CTX),
                                       OVERHEAD(CODE, 20, 100, CTX)};
    struct residual r = residual_of(two, 2, costs, 3), old = without_costs(two, 2);
    assert_true(r.unmeasured == 0);
    assert_true(r.last.inferred == 600 - 92 && r.last.parts[PART_CODE] == 192);
    assert_true(r.last.unexplained == 1000 - 508 - 192);
    assert_true(old.last.inferred == 600 && old.last.unexplained == 400); /* no such events at all */
    assert_whole(&r.last);
    assert_whole(&old.last);
}

TEST(a_driver_that_gave_back_unseen_leaves_a_negative_rest)
{
    const struct trace_cost costs[] = {CONTEXT(1, CTX, 500), OVERHEAD(CODE, 20, 800, CTX)};
    struct residual r = residual_of(two, 2, costs, 2);
    assert_true(r.last.unexplained == -300);
    assert_whole(&r.last);
}

/* NVML lists the process no more: whatever the first sample showed is gone. */
TEST(nothing_is_inferred_where_the_driver_uses_nothing_any_more)
{
    static const struct trace_sample samples[] = {{10, 0, 600, 1, 5, 0, "nvml_process"},
                                                  {50, 0, 0, 1, 5, 0, "nvml_process"}};
    const struct trace_cost costs[] = {CONTEXT(1, CTX, 500), END(40, CTX)};
    struct residual r = residual_of(samples, 2, costs, 2), old = without_costs(samples, 2);
    assert_true(r.last.inferred == UNKNOWN && r.last.unexplained == 0 && r.last.residual == 0);
    assert_true(r.fullest.inferred == UNKNOWN && r.fullest.unexplained == 100);
    assert_true(old.last.inferred == UNKNOWN && old.last.unexplained == 0);
    assert_true(old.fullest.inferred == 600 && old.fullest.unexplained == 0);
}

TEST(a_cost_may_be_negative)
{
    const struct trace_cost costs[] = {
        CONTEXT(1, CTX, 500), {COST_LIMIT, 20, 0, 200, 2, CTX}, {COST_LIMIT, 21, 0, -150, 2, CTX}};
    assert_true(residual_of(two, 2, costs, 3).last.parts[PART_LIMIT] == 50);
}
