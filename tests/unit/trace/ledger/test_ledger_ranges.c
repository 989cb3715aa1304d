/*
 * test_ledger_ranges.c - ranges and phases in the ledger: the peak of each range, the time of each phase, and
 * what holds where a pop was lost or never came.
 */
#include "ledger_kit.h"

TEST(nested_ranges_have_their_own_peaks, kit_setup, kit_teardown)
{
    KIT;
    block(k, 0x1000, 10);
    push(k, 1, 1, 0);
    block(k, 0x2000, 90); /* 100 */
    push(k, 2, 2, 1);
    unblock(k, 0x2000, 90);
    block(k, 0x3000, 200); /* 210 */
    pop(k, 2);
    unblock(k, 0x3000, 200);
    push(k, 3, 2, 1);
    pop(k, 3);
    pop(k, 1);
    block(k, 0x4000, 1000);
    assert_int_equal(peak_of(k, 2, 0)->allocated, 210);
    assert_int_equal(peak_of(k, 3, 0)->allocated, 10); /* the value at push */
    assert_int_equal(peak_of(k, 1, 0)->allocated, 210);
    assert_int_equal(stat_of(k, 0, 2)->allocated, 210);
    assert_int_equal(stat_of(k, 0, 2)->ranges, 2);
    assert_int_equal(stat_of(k, 0, 1)->allocated, 210);
    assert_int_equal(stat_of(k, 0, 0)->allocated, 1010);
}

TEST(value_at_push_is_a_peak_when_memory_only_falls, kit_setup, kit_teardown)
{
    KIT;
    block(k, 0x1000, 500);
    push(k, 1, 1, 0);
    unblock(k, 0x1000, 500);
    pop(k, 1);
    assert_int_equal(peak_of(k, 1, 0)->allocated, 500);
}

TEST(any_threads_allocations_count_into_an_open_range, kit_setup, kit_teardown)
{
    KIT;
    push(k, 1, 1, 0);
    k->thread = 2;
    push(k, 2, 2, 0);
    block(k, 0x1000, 700);
    unblock(k, 0x1000, 700);
    pop(k, 2);
    k->thread = 1;
    pop(k, 1);
    assert_int_equal(peak_of(k, 1, 0)->allocated, 700);
    assert_int_equal(peak_of(k, 2, 0)->allocated, 700);
}

TEST(two_devices_have_their_own_range_peaks, kit_setup, kit_teardown)
{
    KIT;
    push(k, 1, 1, 0);
    block(k, 0x1000, 700);
    k->device = 1;
    k->framework = 0;
    block(k, 0x2000, 300);
    k->device = 0;
    pop(k, 1);
    assert_int_equal(peak_of(k, 1, 0)->allocated, 700);
    assert_int_equal(peak_of(k, 1, 1)->allocated, 300);
}

TEST(nested_ranges_of_one_phase_are_timed_once, kit_setup, kit_teardown)
{
    KIT;
    block(k, 0x1000, 1);
    push(k, 1, 3, 0);
    push(k, 2, 3, 1);
    pop(k, 2);
    pop(k, 1);
    assert_int_equal(stat_of(k, 0, 3)->ranges, 2);
    assert_int_equal(stat_of(k, 0, 3)->ns, 3000);
}

TEST(autograd_thread_without_a_range_is_backward, kit_setup, kit_teardown)
{
    KIT;
    k->thread = 9;
    block(k, 0x1000, 700);
    assert_int_equal(last(k)->phase, VS_PHASE_BACKWARD);
    push(k, 1, VS_PHASE_LOGITS, 0);
    k->range = 1;
    block(k, 0x2000, 700);
    assert_int_equal(last(k)->phase, VS_PHASE_LOGITS);
    assert_int_equal(stat_of(k, 0, VS_PHASE_BACKWARD)->ns, -1);
}

TEST(event_of_a_range_just_popped_keeps_its_phase, kit_setup, kit_teardown)
{
    KIT;
    push(k, 1, 2, 0);
    pop(k, 1);
    k->range = 1;
    block(k, 0x1000, 700);
    assert_int_equal(last(k)->phase, 2);
}

TEST(range_that_names_no_phase_gives_none, kit_setup, kit_teardown)
{
    KIT;
    feed(k, (struct vs_event){
                .op = VS_OP_RANGE_PUSH, .range = 4, .address = 77, .size = 5, .arg1 = VS_SOURCE_NVTX});
    k->range = 4;
    block(k, 0x1000, 700);
    k->range = 0;
    assert_int_equal(last(k)->phase, VS_PHASE_NONE);
    pop(k, 4);
    assert_int_equal(range_of(k, 4)->name, 77);
    assert_int_equal(range_of(k, 4)->domain, 5);
    assert_int_equal(peak_of(k, 4, 0)->allocated, 700);
}

TEST(lost_pop_does_not_keep_a_range_open_for_ever, kit_setup, kit_teardown)
{
    KIT;
    block(k, 0x1, 1);
    push(k, 1, 1, 0); /* its pop is lost */
    push(k, 2, 2, 0);
    block(k, 0x1000, 700);
    pop(k, 2);
    assert_int_equal(range_of(k, 1)->t_pop, -1);
    assert_int_equal(peak_of(k, 1, 0)->allocated, 1);
    assert_int_equal(count_of(k, -1, VS_COUNT_LOST_POP), 1);
}

TEST(ranges_open_at_the_end_are_written_as_open, kit_setup, kit_teardown)
{
    KIT;
    push(k, 1, 1, 0);
    block(k, 0x1000, 700);
    vs_ledger_finish(k->l, &k->out);
    assert_int_equal(range_of(k, 1)->t_pop, -1);
    assert_int_equal(peak_of(k, 1, 0)->allocated, 700);
    assert_int_equal(stat_of(k, 0, 1)->allocated, 700);
}

TEST(range_may_name_another_phase_than_its_own_name, kit_setup, kit_teardown)
{
    KIT;
    feed(k, (struct vs_event){.op = VS_OP_RANGE_PUSH,
                              .range = 4,
                              .address = 77,
                              .stack = 2,
                              .arg1 = VS_SOURCE_NVTX | VS_RANGE_NAMES_PHASE});
    pop(k, 4);
    assert_int_equal(range_of(k, 4)->phase, 2);
    assert_int_equal(range_of(k, 4)->name, 77);
}
