/*
 * test_ranges.c - ranges of one thread: how they nest, whose names a phase, what an unbalanced or too deep
 * one changes, and names (ranges.c, names.c).
 */
#include <stdio.h>

#include "ranges_kit.h"

/* ---- nesting and precedence ---- */

TEST(a_push_and_pop_are_two_events_with_one_id, setup)
{
    uint32_t id = vs_range_push("logits", NULL, MARKER);

    assert_int_equal(vs_range_current(), id);
    assert_int_equal(vs_range_pop(NULL, MARKER), 0);
    assert_int_equal(logged, 2);
    assert_int_equal(log_[0].op, VS_OP_RANGE_PUSH);
    assert_string_equal(name_of(&log_[0]), "logits");
    assert_int_equal(log_[0].arg1, VS_SOURCE_MARKER | VS_RANGE_NAMES_PHASE);
    assert_int_equal(log_[1].op, VS_OP_RANGE_POP);
    assert_int_equal(log_[1].range, id);
    assert_int_equal(log_[0].range, id);
    assert_int_equal(vs_range_current(), 0);
}

TEST(a_nested_range_knows_its_parent_and_gives_way_to_it, setup)
{
    uint32_t outer = vs_range_push("a", NULL, MARKER), inner = vs_range_push("b", NULL, MARKER);

    assert_int_equal(log_[1].arg0, outer);
    assert_int_equal(vs_range_current(), inner);
    assert_int_equal(vs_range_pop(NULL, MARKER), 1);
    assert_int_equal(vs_range_current(), outer);
    assert_int_equal(vs_range_pop(NULL, MARKER), 0);
}

TEST(markers_win_over_nvtx_and_nvtx_over_automatic, setup)
{
    uint32_t marker = vs_range_push("mine", NULL, MARKER);
    uint32_t nvtx = vs_range_push("forward", NULL, NVTX), automatic = vs_range_push("forward", NULL, AUTO);

    assert_int_equal(vs_range_current(), marker);
    vs_range_pop(NULL, MARKER);
    assert_int_equal(vs_range_current(), nvtx);
    vs_range_pop(NULL, NVTX);
    assert_int_equal(vs_range_current(), automatic);
    vs_range_pop(NULL, AUTO);
    assert_int_equal(vs_range_current(), 0);
}

TEST(other_nvtx_ranges_name_no_phase, setup)
{
    uint32_t phase = vs_range_push("backward", NULL, NVTX);
    uint32_t other = vs_range_push("ncclAllReduce", "NCCL", NVTX);

    assert_int_not_equal(other, 0);
    assert_int_equal(vs_range_current(), phase);
    assert_int_equal(log_[1].arg1, VS_SOURCE_NVTX);
    assert_string_equal(strings[log_[1].size], "NCCL");
    vs_range_pop("NCCL", NVTX);
    vs_range_pop(NULL, NVTX);
}

TEST(a_name_in_other_case_names_the_phase_in_lower_case, setup)
{
    vs_range_push("Forward", NULL, NVTX);
    assert_int_equal(log_[0].arg1, VS_SOURCE_NVTX | VS_RANGE_NAMES_PHASE);
    assert_string_equal(name_of(&log_[0]), "Forward");
    assert_string_equal(strings[log_[0].stack], "forward");
    vs_range_pop(NULL, NVTX);
    vs_range_push("forwards", NULL, NVTX);
    assert_int_equal(log_[2].arg1, VS_SOURCE_NVTX);
    vs_range_pop(NULL, NVTX);
}

TEST(domains_interleave, setup)
{
    uint32_t a = vs_range_push("forward", "A", NVTX), b = vs_range_push("backward", "B", NVTX);

    assert_int_equal(vs_range_pop("A", NVTX), 0);
    assert_int_equal(log_[2].range, a);
    assert_int_equal(vs_range_current(), b);
    assert_int_equal(vs_range_pop("A", NVTX), -1);
    assert_int_equal(vs_range_pop("B", NVTX), 0);
    assert_int_equal(log_[3].range, b);
    assert_int_equal(logged, 4);
}

TEST(an_unbalanced_pop_changes_nothing, setup)
{
    uint32_t id = vs_range_push("forward", NULL, NVTX);

    assert_int_equal(vs_range_pop(NULL, MARKER), -1);
    assert_int_equal(vs_range_pop("nobody", NVTX), -1);
    assert_int_equal(vs_range_current(), id);
    assert_int_equal(logged, 1);
    vs_range_pop(NULL, NVTX);
    assert_int_equal(vs_range_pop(NULL, NVTX), -1);
    assert_int_equal(logged, 2);
}

TEST(ranges_beyond_the_depth_are_counted_and_balanced, setup)
{
    uint32_t ids[100];

    for (int i = 0; i < 100; i++)
        ids[i] = vs_range_push("deep", NULL, MARKER);
    assert_int_not_equal(ids[63], 0);
    assert_int_equal(ids[64], 0);
    assert_int_equal(vs_range_current(), ids[63]);
    for (int i = 99; i >= 0; i--)
        assert_int_equal(vs_range_pop(NULL, MARKER), i);
    assert_int_equal(vs_range_pop(NULL, MARKER), -1);
    assert_int_equal(logged, 128);
}

TEST(overflow_of_one_domain_leaves_the_others_alone, setup)
{
    vs_range_push("forward", "outer", NVTX);
    for (int i = 0; i < 70; i++)
        vs_range_push("x", NULL, MARKER);
    assert_int_equal(vs_range_pop("outer", NVTX), 0); /* frees a place while markers are counted */
    assert_int_equal(vs_range_push("y", NULL, MARKER), 0);
    for (int i = 70; i >= 0; i--)
        assert_int_equal(vs_range_pop(NULL, MARKER), i);
    assert_int_equal(vs_range_current(), 0);
}

TEST(start_and_end_cross_threads_and_name_no_phase, setup)
{
    struct vs_range_names names = {.text = "forward", .length = 7, .name = vs_name_intern("forward", 7)};
    uint32_t id = vs_range_start(&names, NVTX);

    assert_int_not_equal(id, 0);
    assert_int_equal(log_[0].arg1, VS_SOURCE_NVTX | VS_RANGE_CROSS_THREAD);
    assert_int_equal(vs_range_current(), 0);
    vs_range_end(id);
    assert_int_equal(log_[1].op, VS_OP_RANGE_POP);
    assert_int_equal(log_[1].range, id);
    vs_range_end(0);
    vs_range_end(UINT32_MAX);
    assert_int_equal(logged, 2);
    started = false;
    id = vs_range_start(&names, NVTX);
    vs_range_end(id);
    started = true;
    vs_range_current();
    assert_int_equal(logged, 2);
}

/* ---- names ---- */

TEST(a_full_table_of_names_still_records, setup)
{
    char name[32];

    for (int i = 0; i < 9000; i++) {
        snprintf(name, sizeof(name), "n%d", i);
        vs_name_intern(name, strlen(name));
    }
    assert_null(vs_name_intern("never seen before", 17));
    vs_range_push("never seen before", NULL, MARKER);
    assert_string_equal(name_of(&log_[0]), "never seen before");
    vs_range_push("backward", NULL, NVTX);
    assert_int_equal(log_[1].arg1, VS_SOURCE_NVTX | VS_RANGE_NAMES_PHASE);
    vs_range_pop(NULL, NVTX);
    vs_range_pop(NULL, MARKER);
    started = false;
    vs_range_push("unseen too", NULL, MARKER);
    started = true;
    vs_range_current();
    assert_string_equal(name_of(&log_[4]), "unseen too");
    vs_range_pop(NULL, MARKER);
}

int main(void)
{
    vs_ranges_init();
    return run_all_tests(NULL, NULL);
}
