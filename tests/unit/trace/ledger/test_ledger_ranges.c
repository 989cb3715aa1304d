/*
 * test_ledger_ranges.c - ranges, phases and steps in the ledger, also where a pop was lost or never came.
 *
 * Events are 1000 ns apart, the first at 1000.
 */
#include "ledger_story.h"

static const struct story stories[] = {
    {"nested_ranges_have_their_own_peaks",
     "block 0x1000 10; push 1 1 0; block 0x2000 90; push 2 2 1; unblock 0x2000 90; block 0x3000 200; "
     "pop 2; unblock 0x3000 200; push 3 2 1; pop 3; pop 1; block 0x4000 1000; peak 2 allocated=210; "
     "peak 3 allocated=10; peak 1 allocated=210; phase 2 allocated=210 ranges=2; phase 1 allocated=210; "
     "phase 0 allocated=1010"},
    {"value_at_push_is_a_peak_when_memory_only_falls",
     "block 0x1000 500; push 1 1 0; unblock 0x1000 500; pop 1; peak 1 allocated=500"},
    {"any_threads_allocations_count_into_an_open_range",
     "push 1 1 0; thread 2; push 2 2 0; block 0x1000 700; unblock 0x1000 700; pop 2; thread 1; pop 1; "
     "peak 1 allocated=700; peak 2 allocated=700"},
    {"two_devices_have_their_own_range_peaks",
     "push 1 1 0; block 0x1000 700; device 1; framework 0; block 0x2000 300; device 0; pop 1; "
     "peak 1 allocated=700; peak 1/1 allocated=300"},
    {"nested_ranges_of_one_phase_are_timed_once",
     "block 0x1000 1; push 1 3 0; push 2 3 1; pop 2; pop 1; phase 3 ranges=2 ns=3000"},
    {"autograd_thread_without_a_range_is_backward",
     "thread 9; block 0x1000 700; last phase=backward; push 1 logits 0; within 1; block 0x2000 700; "
     "last phase=logits; phase backward ns=-1"},
    {"event_of_a_range_just_popped_keeps_its_phase",
     "push 1 2 0; pop 1; within 1; block 0x1000 700; last phase=2"},
    {"range_that_names_no_phase_gives_none",
     "nvtx 4 77 size=5; within 4; block 0x1000 700; within 0; last phase=none; pop 4; "
     "range 4 name=77 domain=5; peak 4 allocated=700"},
    {"range_may_name_another_phase_than_its_own_name",
     "nvtx 4 77 stack=2 arg1=0x10; pop 4; range 4 phase=2 name=77"},
    /* 1 and 3 are a marker's and a library's, popped crosswise: 4 is a second forward within the first. */
    {"a_range_is_outermost_only_where_none_of_its_phase_is_open_on_the_thread",
     "push 1 forward 0; push 2 logits 1; push 3 optimizer 2; pop 2; push 4 forward 3; pop 4; pop 3; "
     "pop 1; range 1 flags=1; range 2 flags=1; range 3 flags=1; range 4 flags=0; "
     "alloc 0x1000 512 in=pool; push 5 forward 0; pop 5; phase forward ns=8000"},
    /* The peak is another thread's, while the range is open; the phase's own event sees it later. */
    {"a_phase_s_peak_is_dated_when_it_was_first_reached_whoever_saw_it",
     "alloc 0x1000 1M in=pool; push 1 forward 0; within 1; alloc 0x2000 1 in=pool; free 0x2000; "
     "free 0x1000; within 0; alloc 0x3000 2M in=pool; within 1; alloc 0x4000 0 in=pool; pop 1; "
     "phase forward allocated=2M t_allocated=6000"},
    /* ---- pops that were lost or never came ---- */
    {"lost_pop_does_not_keep_a_range_open_for_ever",
     "block 0x1 1; push 1 1 0; push 2 2 0; block 0x1000 700; pop 2; range 1 t_pop=-1; peak 1 allocated=1; "
     "lost_range_pops 1 -1"},
    {"a_range_whose_pop_was_lost_has_no_time",
     "push 1 forward 0; alloc 0x1000 1M; push 2 backward 0; alloc 0x2000 1M; finish; "
     "phase forward ns=0 open_ns=0; phase backward open_ns=1000; range 1 flags=1+4; range 2 flags=1"},
    {"ranges_open_at_the_end_are_written_as_open",
     "push 1 1 0; block 0x1000 700; finish; range 1 t_pop=-1; peak 1 allocated=700; "
     "phase 1 allocated=700"},
    {"a_range_that_is_open_at_the_end_keeps_its_time",
     "push 1 backward 0; pop 1; push 2 backward 0; alloc 0x1000 1M; finish; "
     "phase backward ns=1000 open_ns=1000"},
    {"an_open_range_has_its_time_so_far_and_one_within_its_own_phase_none",
     "push 1 forward 0; push 2 forward 1; alloc 0x1000 1M; flush; phase forward ns=0 open_ns=2000; pop 2; "
     "phase forward ns=0 open_ns=3000; pop 1; phase forward ns=4000 open_ns=0"},
    /* ---- steps ---- */
    {"steps_are_numbered_in_the_ring_s_order_with_those_that_have_no_event",
     "step 0; steps 1; step 3; steps 5; step 0; steps 6; push 1 forward 0; range 1 step=7"},
};
TELL(stories)
