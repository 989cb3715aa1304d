/*
 * test_ledger.c - the ledger's rules of bytes, one story each: which end belongs to which allocation, what
 * counts and what does not, what others hold and keep; and of ranges, phases and steps.
 */
#include "ledger_story.h"

/* A context with one of everything, beside what others own; and with pools that keep more. */
#define FILL                                                                                                 \
    "context 0x100 ctx=1; module 0x700 ctx=1; alloc 0x1000 100 ctx=1; alloc 0x2000 200 ctx=2;"               \
    "alloc 0x3000 400 in=pool ctx=1; alloc 0x4000 800 in=array ctx=1; alloc 0x5000 50 in=pinned ctx=1;"      \
    "create 7 4096;"
#define FILL_POOLS FILL "alloc 0x6000 600 in=graph ctx=1; pool 5000; graphs 6000;"

/* Physical memory that nothing but one binding into an object holds. */
#define BIND_ALONE(object) "create 7 4096; flush; bind " object " 7 1; release 7;"

static const struct story stories[] = {
    /* ---- totals and pairing ---- */
    {"direct_alloc_counts_and_its_free_gives_back",
     "alloc 0x1000 4M; free 0x1000; rows 2; at 0 direct=4M reserved=4M; "
     "last direct=0 reserved=0 mate=1 size=4M status=0"},
    {"free_of_unknown_address_changes_nothing_and_is_counted",
     "free 0x5000; last mate=0 size=0; unknown_frees 1; mismatches 0"},
    {"unknown_free_that_the_driver_refused_is_no_unknown_free",
     "free 0x5000; failed 0x5000; last mate=1 size=0; unknown_frees 0; failed_frees 1; mismatches 0; "
     "live 0"},
    {"unknown_handle_whose_release_was_refused_is_no_unknown_free",
     "release 77; unknown_frees 1; failed 77; unknown_frees 0; live 0"},
    {"failed_alloc_is_a_row_and_no_bytes",
     "alloc 0 1M status=2; last status=2 reserved=0; live 0; failed_allocations 1"},
    {"failed_free_gives_bytes_and_entry_back",
     "alloc 0x1000 4M; free 0x1000; failed 0x1000; last direct=4M mate=2; amended 2 free_failed; "
     "free 0x1000; last mate=1 direct=0"},
    {"address_handed_out_again_ends_its_old_owner",
     "alloc 0x1000 3M in=pool; alloc 0x1000 5M in=pool; rows 3; at 1 op=free_missed mate=1 direct=0; "
     "last direct=5M; live 1; missed_frees 1"},
    {"pinned_managed_and_registered_stay_outside_the_device",
     "alloc 0x1000 1M in=pinned; alloc 0x2000 2M in=managed; alloc 0x3000 3M in=registered; "
     "last reserved=0 direct=0; pinned 1M; managed 2M; free 0x3000; registered 0; last space=registered"},
    {"free_belongs_to_the_device_of_its_alloc",
     "device 1; alloc 0x1000 1M in=pool; device 2; free 0x1000; last device=1 direct=0"},
    {"arrays_and_graphs_count_and_imports_and_multicast_do_not",
     "alloc 0x1000 100 in=array; alloc 0x2000 200 in=graph; alloc 0x3000 400 in=imported; "
     "object 0x4000 800; flush; direct 300; reserved 300; imported 400; multicast 0; free 0x1000; "
     "free 0x2000; flush; direct 0"},
    {"graph_nodes_and_costs_change_no_total",
     "node 0x1000 4096; context 0x100 ctx=1; limit 16384 -4096; last size=4096 mate=1 stream=16384; "
     "overhead 2 4096; last mate=0; flush; reserved 0"},
    {"import_opened_twice_ends_with_its_second_close",
     "alloc 0x3000 400 in=imported; alloc 0x3000 400 in=imported; last op=phys_retain; imported 400; "
     "free 0x3000; last op=phys_release size=0; failed 0x3000; free 0x3000; imported 400; free 0x3000; "
     "last op=free size=400; imported 0; mismatches 0; unknown_frees 0 -1"},
    /* The driver may give the same handle for it or another. */
    {"import_of_own_memory_is_not_counted_twice",
     "create 7 4096; retain 7 in=imported; retain 9 in=imported; flush; reserved 4096; release 7; flush; "
     "reserved 4096; release 7; flush; reserved 0; release 9; unknown_frees 0"},
    /* ---- pools ---- */
    {"pool_reserves_what_was_sampled_and_never_less_than_lives",
     "alloc 0x1000 10M in=pool; last reserved=10M; pool 32M; last reserved=32M direct=10M; "
     "alloc 0x2000 30M in=pool; last reserved=40M; pool 64M; free 0x1000; free 0x2000; "
     "last reserved=64M direct=0"},
    {"graphs_reserve_the_greater_of_sample_and_living",
     "alloc 0x2000 200 in=graph; graphs 1000; pool 5000; flush; reserved 6000; "
     "alloc 0x3000 2000 in=graph; flush; reserved 7200; direct 2200"},
    /* ---- the framework's totals ---- */
    {"mismatch_is_written_once_per_change_and_every_report_counted",
     "block 0x1000 512; framework +1024; block 0x2000 512; block 0x3000 512; mismatches 1; "
     "mismatch 0 ours=1024 theirs=2048; framework_reports_in_mismatch 2; framework -1024; "
     "unblock 0x3000 512; mismatches 2; mismatch 1 ours=1024 theirs=1024"},
    {"recording_that_began_late_adopts_and_says_so",
     "framework 100M; cached 200M; block 0x1000 1M; last framework=101M reserved=200M; mismatches 2; "
     "mismatch 0 what=late_allocated; unblock 0x999000 50M; last framework=51M; mismatches 2"},
    {"oom_is_a_row_with_the_state_at_that_moment",
     "block 0x1000 1M; give_up 99M; last size=99M framework=1M; out_of_memory 1"},
    {"what_lived_at_the_peak_adds_up_to_it",
     "framework 1000; block 0x1000 700; alloc 0x99000 50 in=pool; block 0x2000 300; unblock 0x1000 700; "
     "free 0x99000; block 0x3000 10; highest 2050"},
    {"what_lived_at_a_peak_adds_up_to_it_where_a_free_failed_around_it",
     "alloc 0x1000 1M in=pool; alloc 0 99M in=pool status=2; free 0x1000; thread 2; "
     "alloc 0x2000 8M in=pool; free 0x2000; thread 1; failed 0x1000 dev=-1; free 0x1000; finish; "
     "highest 8M; lived 2 1M"},
    /* ---- physical memory: it lives until references, mappings and bindings are gone, and counts once ----
     */
    {"physical_memory_lives_until_references_and_mappings_are_gone",
     "create 0x77 2M; map 0x10000000 2M 0x77; release 0x77; flush; last mate=1 size=0 reserved=2M; "
     "unmap 0x10000000 2M; last op=phys_freed mate=1 reserved=0"},
    {"release_after_unmap_frees_and_says_how_much",
     "create 0x77 2M; map 0x10000000 2M 0x77; unmap 0x10000000 2M; release 0x77; flush; "
     "last op=phys_release size=2M reserved=0"},
    {"one_unmap_may_end_several_allocations",
     "create 0x70 2M; map 0x10000000 2M 0x70; release 0x70; create 0x71 2M; map 0x10200000 2M 0x71; "
     "release 0x71; create 0x72 2M; map 0x10400000 2M 0x72; release 0x72; unmap 0x10000000 6M; flush; "
     "rows 13; at 9 op=unmap reserved=6M; at 10 reserved=4M; last reserved=0; live 0"},
    {"two_mappings_of_one_handle_count_once",
     "create 0x77 2M; map 0x10000000 2M 0x77; map 0x20000000 2M 0x77; release 0x77; unmap 0x10000000 2M; "
     "flush; last reserved=2M; unmap 0x20000000 2M; last reserved=0"},
    {"retain_by_address_adds_a_reference",
     "create 0x77 2M; map 0x10000000 2M 0x77; release 0x77; retain 0x88 0x10000000+1M; "
     "unmap 0x10000000 2M; flush; last reserved=2M; release 0x88; last reserved=0 mate=1"},
    {"host_located_memory_has_its_own_curve",
     "create 0x77 2M arg0=0x300000000; last space=host_vmm reserved=0; host_vmm 2M"},
    {"failed_unmap_and_release_take_their_effect_back",
     "create 0x77 2M; map 0x10000000 2M 0x77; release 0x77; unmap 0x10000000 2M; failed 0x10000000; "
     "flush; last reserved=2M; unmap 0x10000000 2M; last reserved=0; create 0x99 2M; release 0x99; "
     "failed 0x99; flush; last reserved=2M"},
    {"failed_unmap_takes_back_the_row_that_ended_the_memory",
     "create 7 4096; flush; map 0x50000 4096 7; release 7; unmap 0x50000 4096; flush; reserved 0; "
     "unamended @phys_freed free_failed; failed 0x50000; amended @phys_freed free_failed; flush; "
     "reserved 4096; unmap 0x50000 4096; unamended @phys_freed free_failed; flush; reserved 0"},
    {"an_unmap_that_failed_brings_back_the_totals_of_every_device",
     "create 0x10 1M; map 0x100000 1M 0x10; release 0x10; create 0x20 1M dev=1; map 0x200000 1M 0x20; "
     "release 0x20; unmap 0x100000 2M dev=-1; failed 0x100000 dev=-1; flush; direct 1M 0; direct 1M 1; "
     "times free_failed 2; at 9 op=free_failed device=0 direct=1M mate=7; "
     "at 10 op=free_failed device=1 direct=1M mate=7; failed_frees 1 -1"},
    {"binding_keeps_physical_memory_alive",
     "alloc 0x900 0 in=array; create 7 4096; flush; bind 0x900 7 1; bind 0x900 7 2; release 7; flush; "
     "reserved 4096; unbind 0x900 1; flush; reserved 4096; unbind 0x900 2; row phys_freed size=4096; "
     "flush; reserved 0; failed 0x900; flush; reserved 4096; free 0x900; flush; reserved 0"},
    {"failed_unbind_takes_back_the_row_that_ended_the_memory",
     "alloc 0x900 0 in=array;" BIND_ALONE("0x900") "unbind 0x900 1; failed 0x900; "
                                                   "amended @phys_freed free_failed; flush; reserved 4096"},
    {"failed_end_of_an_array_gives_its_bindings_back_once",
     "alloc 0x900 0 in=array;" BIND_ALONE(
         "0x900") "free 0x900; flush; reserved 0; failed 0x900; "
                  "amended @phys_freed free_failed; flush; reserved 4096; unbind 0x900 1; flush; reserved 0"},
    {"failed_release_of_a_multicast_object_gives_its_bindings_back",
     "object 0x4000 0;" BIND_ALONE("0x4000") "release 0x4000; flush; reserved 0; failed 0x4000; "
                                             "amended @phys_freed free_failed; flush; reserved 4096"},
    {"failed_destroy_of_a_context_gives_the_bindings_of_its_arrays_back",
     "context 0x100 ctx=1; alloc 0x900 0 in=array ctx=1;" BIND_ALONE(
         "0x900") "destroy 0x100 ctx=1; "
                  "flush; reserved 0; failed 0x100; amended @phys_freed free_failed; "
                  "amended @context_freed free_failed; flush; reserved 4096; unbind 0x900 1; flush; reserved "
                  "0"},
    {"multicast_binds_by_address_too",
     "create 7 4096; flush; map 0x50000 4096 7; release 7; object 0x4000 800; bind 0x4000 0x50000 0; "
     "last mate=1; unmap 0x50000 4096; flush; reserved 4096; release 0x4000; flush; reserved 0"},
    /* Keys are of a device in their upper bits.  One binding lies behind the range, one is another device's.
     */
    {"an_unbind_from_an_endpoint_ends_what_a_device_has_in_its_range",
     "create 1 4096; create 2 4096; create 3 4096; create 4 4096; flush; object 0x4000; "
     "bind 0x4000 1 0x100000000000000; bind 0x4000 2 0x100000000001000; bind 0x4000 3 0x100000000002000; "
     "bind 0x4000 4 0x200000000001000; release 1; release 2; release 3; release 4; flush; reserved 16K; "
     "unbind 0x4000 0x100000000000000 size=8K in=multicast; flush; reserved 8K; failed 0x4000; flush; "
     "reserved 16K; unbind 0x4000 0x100000000000000 size=8K in=multicast; release 0x4000; flush; "
     "reserved 0"},
    /* ---- contexts ---- */
    {"end_of_a_context_ends_what_it_owned",
     FILL "flush; direct 100+200+400+800+4096; destroy 0x100 ctx=1; "
          "row context_destroy size=500 mate=@context_create; flush; direct 200+400+4096; pinned 0; "
          "times context_freed 4; at 9 mate=2; amends 0; failed 0x100; flush; direct 100+200+400+800+4096; "
          "amends 5; "
          "free 0x1000; free 0x4000; flush; direct 200+400+4096; destroy 0x100 ctx=1; "
          "row context_destroy mate=@context_create; free 0x1000; flush; direct 200+400+4096; mismatches 0"},
    {"a_context_whose_end_failed_has_its_memory_at_once",
     "context 0x100 ctx=1; alloc 0x9000 1M ctx=1; destroy 0x100 ctx=1; failed 0x100 dev=-1; flush; "
     "row free_failed device=0 direct=1M; direct 1M"},
    {"pools_that_outlive_a_primary_context_keep_their_memory", FILL_POOLS
     "destroy 0x100 ctx=1 kind=primary; pool 5000; graphs 6000; flush; "
     "direct 200+400+600+4096; reserved 200+5000+6000+4096; graphs 0; flush; direct 200+400+600+4096; "
     "free 0x6000; free 0x3000; flush; direct 200+4096; mismatches 0"},
    {"pools_that_a_primary_context_took_along_end",
     FILL_POOLS "destroy 0x100 ctx=1 kind=primary; pool 0; flush; direct 200+600+4096; graphs 0; flush; "
                "direct 200+4096; reserved 200+4096; pool 7000; flush; reserved 200+4096+7000"},
    {"an_empty_pool_ends_nothing_where_no_context_went",
     FILL_POOLS "destroy 0x100 ctx=1 kind=primary; failed 0x100; pool 0; flush; "
                "direct 100+200+400+600+800+4096"},
    {"green_and_unknown_contexts_end_nothing",
     "alloc 0x1000 100; alloc 0x2000 100 ctx=0xff; destroy 0x100 kind=green; destroy 0x200 ctx=0xff; "
     "flush; direct 200"},
    /* ---- the arena: what it holds and gives counts once, whoever carves its blocks ---- */
    {"a_block_is_direct_and_its_memory_is_what_the_arena_holds",
     "holds 2M; last reserved=2M direct=0; alloc 0x1000 5000 in=arena; alloc 0x9000 1M in=arena; "
     "free 0x9000; flush; row alloc direct=1M+5000 reserved=2M; last direct=5000 size=1M reserved=2M; "
     "holds 0; last reserved=5000; direct 5000"},
    {"driver_memory_beside_the_arena_is_added",
     "alloc 0x100000 3M; free 0x200000; holds 8M; alloc 0x300000 1M in=pool; flush; "
     "last reserved=12M direct=4M"},
    {"a_segment_is_managed_and_reserved_once",
     "holds 20M; cached 20M; alloc 0x1000000 20M in=arena; block 0x1000000 3M; "
     "row alloc managed=1 direct=0; last framework=3M direct=0 reserved=20M; alloc 0x8000 512 in=arena; "
     "unblock 0x1000000 3M; last direct=512 reserved=20M+512; free 0x1000000; last managed=1; "
     "managed_reserved 0; last reserved=20M; mismatches 0"},
    {"a_block_that_is_reported_too_counts_once",
     "holds 4M; alloc 0x1000 1M in=arena; cached 1M; block 0x1000 1M; last framework=1M direct=0; "
     "unblock 0x1000 1M; free 0x1000; last direct=0 reserved=4M; mismatches 0"},
    {"a_later_discovery_moves_a_block_and_no_total_but_direct",
     "holds 4M; alloc 0x1000000 2M in=arena; flush; last direct=2M; cached 2M; block 0x1000000 512; "
     "row reclassify direct=0; last framework=512 reserved=4M; mismatches 0"},
    {"a_framework_s_blocks_may_lie_in_the_arena_themselves",
     "holds 6M; block 0x1000 5M; last framework=5M reserved=6M; unblock 0x1000 5M; "
     "last framework=0 reserved=6M; mismatches 0"},
    {"each_device_has_an_arena_of_its_own",
     "device 1; holds 4M; device 2; holds 6M; last reserved=6M; reserved 4M 1"},
    {"the_arena_s_blocks_end_with_the_context_that_they_were_made_in",
     "holds 4M; alloc 0x1000 1M in=arena ctx=3; flush; destroy 0xc ctx=3 kind=primary; "
     "row context_freed direct=0; holds 0; last reserved=0"},
    /* ---- memory that is away: in allocated, and in no reserved ---- */
    {"what_is_away_is_allocated_and_not_reserved",
     "holds 8M; alloc 0x1000 7M in=arena; flush; holds 2M away=6M; last direct=7M reserved=2M; away bytes=6M "
     "seq=3; "
     "alloc 0x800000 1M in=arena; flush; last direct=8M reserved=2M; alloc 0x900000 1M in=arena; flush; "
     "last direct=9M reserved=3M; reserved 3M; allocated 9M; curve reserved peak=8M"},
    {"what_comes_back_is_reserved_again",
     "holds 8M; alloc 0x1000 8M in=arena; flush; holds 0 away=8M; last direct=8M reserved=0; holds 8M; "
     "last direct=8M reserved=8M; away bytes=0 seq=4; aways 2"},
    {"a_block_that_ends_while_it_is_away_leaves_nothing_below_zero",
     "holds 8M; alloc 0x1000 8M in=arena; flush; holds 0 away=8M; free 0x1000; flush; last direct=0 "
     "reserved=0; "
     "holds 0; last direct=0 reserved=0"},
    {"a_segment_may_be_away_and_what_else_is_held_is_added",
     "alloc 0x100000 3M; free 0x200000; holds 20M; cached 20M; alloc 0x1000000 20M in=arena; "
     "block 0x1000000 20M; holds 5M away=15M; last framework=20M direct=3M reserved=8M; "
     "managed_reserved 20M; mismatches 0"},
    {"what_is_away_has_a_row_where_it_changes", "aways 0; holds 8M; aways 0; holds 6M away=2M; holds 7M "
                                                "away=2M; aways 1; away bytes=2M seq=2; device 1; "
                                                "holds 1M away=2M; aways 2"},
    {"each_block_says_how_many_of_its_bytes_are_away",
     "holds 8M; alloc 0x1000 4M in=arena; alloc 0x800000 4M in=arena; flush; away_block 0x1000 4M; "
     "last mate=2 direct=8M; away_block 0x800000 3M; moved seq=5 alloc_seq=3 bytes=3M out=7M back=0; "
     "away_block 0x800000 3M; moves 2; away_block 0x1000 0; moved seq=7 alloc_seq=2 bytes=0 out=7M back=4M; "
     "free 0x800000; flush; moved seq=8 alloc_seq=3 bytes=0 out=7M back=7M; moves 4"},
    {"the_arena_s_block_is_away_and_no_other_at_its_address",
     "alloc 0x1000 4M in=arena; flush; block 0x1000 1M; away_block 0x1000 4M; "
     "moved alloc_seq=1; away_block 0x2000 4M; last mate=0; moves 1"},
    {"all_the_arena_s_blocks_may_be_away_together",
     "holds 8M; alloc 0x1000 4M in=arena; flush; away_block 0 4M; moved alloc_seq=0 bytes=4M out=4M; "
     "away_block 0 0; moved alloc_seq=0 bytes=0 out=4M back=4M; moves 2"},
    /* ---- ranges and phases; events are 1000 ns apart, the first at 1000 ---- */
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

static void part(struct kit *k, uint32_t sample, uint32_t number)
{
    uint64_t first = 1000 * sample + 4 * number;
    feed(k, (struct vs_event){.op = VS_OP_ARENA_FIGURES,
                              .range = sample,
                              .stack = number,
                              .address = first,
                              .size = first + 1,
                              .arg0 = first + 2,
                              .arg1 = first + 3});
}

TEST(a_sample_of_the_arena_s_figures_is_put_together_of_its_parts_and_no_row, kit_setup, kit_teardown)
{
    KIT;
    for (uint32_t i = 0; i + 1 < VS_FIGURE_PARTS; i++)
        part(k, 1, i);
    for (uint32_t i = 1; i < VS_FIGURE_PARTS; i++)
        part(k, 2, i);
    part(k, 2, VS_FIGURE_PARTS);                          /* of a newer shim */
    assert_int_equal(k->out.arenas.n + k->out.rows.n, 0); /* each lacks a part */
    for (uint32_t i = 0; i < VS_FIGURE_PARTS; i++) {
        part(k, 3, i);
        alloc_in(k, VS_SPACE_POOL, 0x1000 * (i + 1), 1); /* another thread's event */
    }
    assert_int_equal(k->out.arenas.n, 1);
    assert_int_equal(k->out.rows.n, VS_FIGURE_PARTS);
    for (uint64_t i = 0; i < VS_FIGURE_END; i++)
        assert_int_equal(k->out.arenas.at[0].figure[i], 3000 + i);
    assert_int_equal(k->out.arenas.at[0].device, 0);
}

/* cuMemFree waits for the device: other threads may free any number of times before it fails. */
TEST(a_free_that_fails_late_is_taken_back_whatever_others_freed_meanwhile, kit_setup, kit_teardown)
{
    KIT;
    alloc_in(k, VS_SPACE_POOL, 0x1000, MIB);
    uint64_t ring = release(k, 0x1000);
    k->thread = 2;
    for (int i = 0; i < 20000; i++) {
        alloc_in(k, VS_SPACE_POOL, 0x2000, 512);
        release(k, 0x2000);
    }
    for (int i = 0; i < 10000; i++)
        alloc_in(k, VS_SPACE_POOL, 0x10000 + (uint64_t)i * 512, 512);
    for (int i = 0; i < 10000; i++) /* a thread that does nothing but free */
        release(k, 0x10000 + (uint64_t)i * 512);
    k->thread = 1;
    feed(k, (struct vs_event){
                .op = VS_OP_FREE_FAILED, .device = -1, .arg0 = ring, .address = 0x1000, .status = 1});
    assert_int_equal(curve_end(k, 0, VS_CURVE_DIRECT), MIB);
    assert_int_equal(row_of(k, VS_OP_FREE_FAILED)->size, MIB);
}
