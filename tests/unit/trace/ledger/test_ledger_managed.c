/*
 * test_ledger_managed.c - whether an allocation is managed (made by a caching allocator to carve blocks from)
 * or direct, and what holds of it where ends or reports were lost.
 */
#include "ledger_story.h"

#define SEGMENT "alloc 0x100000 8M; cached 8M; block 0x100000 1M;" /* managed, as its first block says */

static const struct story stories[] = {
    /* ---- what is reported next, and age ---- */
    {"first_segment_is_managed_from_birth",
     "alloc 0x100000 20M; rows 0; cached 20M; block 0x100000 1M; rows 2; "
     "at 0 managed=1 direct=0 reserved=20M; last framework=1M; mismatches 0; managed_reserved 20M"},
    {"threads_next_report_elsewhere_means_direct",
     "alloc 0x100000 20M; cached 20M; block 0x100000 1M; alloc 0x9000000 8M; block 0x100000+1M 1M; "
     "row alloc managed=0 direct=8M; mismatches 0"},
    {"other_threads_report_decides_nothing_but_its_own",
     "alloc 0x100000 20M; thread 2; block 0x700000000 1M; rows 0; held 2; thread 1; "
     "unblock 0x700000000 1M; rows 3; at 0 managed=0"},
    {"rows_stay_in_order_behind_a_provisional_one",
     "alloc 0x100000 20M; thread 3; alloc 0x1 5 in=pinned; thread 1; block 0x100000 1M; at 0 op=alloc; "
     "at 1 space=pinned; at 2 op=block_alloc; taken 3"},
    {"age_decides_for_direct",
     "alloc 0x100000 1M; later 60; thread 2; alloc 0x1 5 in=pinned; rows 2; at 0 managed=0"},
    {"flush_decides_for_direct", "alloc 0x100000 1M; flush; last direct=1M; held 0"},
    {"late_discovery_is_a_row_and_moves_the_bytes",
     "alloc 0x100000 20M; flush; cached 20M; block 0x100000+1M 1M; "
     "row reclassify mate=1 size=20M direct=0 reserved=20M; last seq=3; amended 1 reclassify; "
     "at 0 direct=20M; mismatches 0"},
    /* Two segments before the first report: one looked as if it were from before the recording. */
    {"memory_that_is_known_as_managed_late_is_not_counted_beside_the_framework_s_own_figure",
     "alloc 0x100000 1M; alloc 0x200000 1M; cached 2M; block 0x200000 512; managed_reserved 2M; "
     "block 0x100000 512; row reclassify reserved=2M; managed_reserved 2M; reserved 2M"},
    /* ---- whose code asked, and pieces that never came to hold a block ---- */
    {"what_a_caching_allocators_code_asks_for_is_managed_at_once",
     "create 0x70 20M by=carver arg1=7; create 0x71 20M by=carver arg1=7; "
     "create 0x72 20M by=carver arg1=7; alloc 0x1000 1M by=carver arg1=7; held 0; rows 4; "
     "last managed=1 direct=0 reserved=61M api=7"},
    /* Neither allocated nor nothing: held, and its use unknown; what is known beside it stays so. */
    {"what_a_librarys_pool_asks_for_is_reserved_and_nothing_else",
     "alloc 0x1000000 512M by=pool arg1=7; last managed=2 direct=0 reserved=512M; "
     "curve allocated peak=unknown known=0; phase none allocated=unknown; free 0x1000000; "
     "last reserved=0; unknown_use 0"},
    {"arenas_block_of_a_pool_is_reserved_once",
     "holds 4M; alloc 0x1000000 3M in=arena by=pool; last reserved=4M direct=0"},
    {"known_piece_does_not_pass_what_is_held_before_it",
     "alloc 0x9000000 8M; create 0x70 20M by=carver; rows 0; flush; at 0 direct=8M; "
     "last managed=1 direct=8M"},
    /* 0x90 is of another size: the thread's own. */
    {"pieces_given_back_before_an_out_of_memory_are_the_frameworks",
     "block 0x7000 0; create 0x70 20M; create 0x71 20M; create 0x72 20M; create 0x90 1M; "
     "create 0 20M status=2; release 0x70; release 0x71; release 0x72; release 0x90; give_up 100M; "
     "at 1 direct=0; at 2 direct=0; at 3 direct=0; at 4 direct=1M; "
     "row phys_create direct=1M reserved=61M; at 8 direct=1M; last direct=0"},
    {"pieces_given_back_without_a_refusal_are_direct",
     "block 0x7000 0; create 0x70 20M; release 0x70; give_up 100M; row phys_create direct=20M"},
    {"pieces_of_a_first_try_go_with_those_of_the_second",
     "block 0x7000 0; reserve 0x200000000 1G; create 0x70 20M; create 0 20M status=2; release 0x70; "
     "create 0x70 20M; create 0x71 20M; map 0x200000000 20M 0x70; map 0x200000000+20M 20M 0x71; "
     "cached 40M; block 0x200000000 30M; every direct=0; last reserved=40M; mismatches 0"},
    {"pieces_do_not_age_while_their_thread_goes_on",
     "block 0x7000 0; reserve 0x200000000 1G; create 0x70 20M; later 20; create 0x71 20M; later 20; "
     "create 0x72 20M; later 20; create 0x73 20M; later 20; create 0x74 20M; held 5; later 60; "
     "alloc 0x100 1 in=pinned; held 0"},
    {"known_piece_tells_of_its_whole_reservation",
     "reserve 0x200000000 1G; create 0x70 2M; map 0x200000000 2M 0x70; flush; last direct=2M; "
     "create 0x71 20M by=carver; map 0x200000000+20M 20M 0x71; last direct=0 reserved=22M; "
     "row reclassify mate=2"},
    /* What PyTorch's expandable segments do: reserve, create, map, set access, report a block. */
    {"expandable_segment_is_managed_from_birth",
     "reserve 0x200000000 1G; create 0x70 20M; create 0x71 20M; create 0x72 20M; "
     "map 0x200000000 20M 0x70; map 0x200000000+20M 20M 0x71; map 0x200000000+40M 20M 0x72; "
     "access 0x200000000 60M 1; cached 60M; block 0x200000000 50M; every direct=0; at 1 managed=1; "
     "at 2 managed=1; at 3 managed=1; last reserved=60M; mismatches 0; unblock 0x200000000 50M; "
     "unmap 0x200000000 20M; release 0x70; unmap 0x200000000+20M 20M; release 0x71; "
     "unmap 0x200000000+40M 20M; release 0x72; last reserved=0; managed_reserved 0"},
    {"mapping_into_a_frameworks_reservation_reclassifies",
     "reserve 0x200000000 1G; create 0x70 2M; map 0x200000000 2M 0x70; cached 2M; block 0x200000000 1M; "
     "create 0x71 2M; flush; last direct=2M; map 0x200000000+2M 2M 0x71; last direct=0; "
     "row reclassify size=2M"},
    /* ---- memory that is gone is not what a later block lies in ---- */
    {"a_block_where_a_destroyed_context_s_memory_was_does_not_claim_it",
     "context 0x100 ctx=1; alloc 0x40000000 1G ctx=1; destroy 0x100 ctx=1; alloc 0x40000000 1M; "
     "cached 1M; block 0x40000000 512; direct 0; managed_reserved 1M; highest 1G"},
    {"a_block_where_memory_was_unmapped_does_not_claim_it",
     "reserve 0x40000000 64M; create 0x10 32M; map 0x40000000 32M 0x10; release 0x10; "
     "unmap 0x40000000 32M; unreserve 0x40000000 64M; alloc 0x40000000 1M; cached 1M; "
     "block 0x40000000 512; highest 32M; framework_reports_in_mismatch 0"},
    {"memory_that_is_mapped_elsewhere_later_is_claimed_there",
     "create 0x10 2M; map 0x40000000 2M 0x10; unmap 0x40000000 2M; map 0x80000000 2M 0x10; release 0x10; "
     "cached 2M; block 0x80000000 512; highest 512; managed_reserved 2M"},
    /* ---- where reports were lost ---- */
    {"a_segment_whose_report_may_be_lost_is_not_counted_as_direct",
     SEGMENT "alloc 0x9000000 20M; lose; framework +1M; cached 28M; block 0x200000 1M; flush; direct 0; "
             "managed_reserved 28M; alloc 0xa000000 3M; flush; direct 3M"},
    {"without_a_framework_losses_make_nothing_managed",
     "alloc 0x9000000 20M; lose; free 0x8000000; flush; direct 20M"},
    /* ---- where ends were lost: from where to where totals are upper bounds ---- */
    {"nothing_is_in_doubt_where_only_beginnings_were_lost",
     SEGMENT "lose; framework +1M; block 0x300000 1M; finish; certain allocated"},
    /* 0x2000 is handed out again: it had been freed. */
    {"direct_memory_is_in_doubt_until_none_is_alive",
     "alloc 0x1000 100; alloc 0x2000 100; flush; lose_ends; alloc 0x3000 50; flush; "
     "doubt allocated from=3 to=0; doubt reserved from=3; free 0x1000; free 0x3000; doubt allocated to=0; "
     "alloc 0x2000 10; free 0x2000; flush; doubt allocated to=@free_missed; "
     "doubt reserved to=@free_missed"},
    /* The free of 0x200000 was lost; the other figure is right. */
    {"a_report_that_equals_ours_ends_the_doubt_of_a_framework",
     SEGMENT "block 0x200000 1M; lose_ends; framework -1M; block 0x300000 1M; "
             "doubt allocated from=@block_alloc to=0; doubt reserved to=@block_alloc; block 0x200000 1M; "
             "doubt allocated to=@block_alloc"},
    /* One block was freed and another made, both lost, and the sum is the same; then that one is freed. */
    {"a_report_of_less_than_ours_brings_the_doubt_back",
     SEGMENT "block 0x200000 1M; lose_ends; block 0x300000 1M; doubt allocated to=@block_alloc; "
             "framework -1M; block 0x400000 1M; doubt allocated from=@block_alloc to=0"},
    {"direct_memory_stays_in_doubt_whatever_a_framework_reports",
     SEGMENT "alloc 0x9000000 1M; flush; lose_ends; block 0x200000 1M; doubt allocated to=0; "
             "doubt reserved to=0; free 0x9000000; doubt allocated to=@free"},
    {"nothing_is_shown_right_before_the_last_end_that_was_lost",
     SEGMENT "lose_ends 2; block 0x200000 1M; block 0x300000 1M; doubt allocated to=0; block 0x400000 1M; "
             "doubt allocated to=@block_alloc"},
    {"ends_that_were_lost_last_of_all_put_the_end_in_doubt",
     "alloc 0x1000 100; flush; lose_ends; finish; doubt allocated from=2 to=0"},
    {"an_empty_device_has_nothing_in_doubt",
     "alloc 0x1000 100; free 0x1000; lose_ends; alloc 0x1000 100; finish; certain allocated"},
};
TELL(stories)

TEST(without_a_framework_look_ahead_is_short, kit_setup, kit_teardown)
{
    KIT;
    alloc(k, 0x100000, MIB);
    for (int i = 0; i < 1030; i++)
        alloc_in(k, VS_SPACE_PINNED, 0x1000 + (uint64_t)i, 5);
    assert_true(k->out.rows.n > 1000);
    assert_int_equal(k->out.rows.at[0].direct, MIB);
}
