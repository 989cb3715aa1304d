/*
 * test_ledger.c - the ledger's rules of bytes, one test each: totals, which free belongs to which allocation,
 * pools, the framework's own totals, and what lived at the peak.
 */
#include "ledger_kit.h"

/* ---- totals and pairing ---- */

TEST(direct_alloc_counts_and_its_free_gives_back, kit_setup, kit_teardown)
{
    KIT;
    alloc(k, 0x1000, 4 * MIB);
    release(k, 0x1000);
    assert_int_equal(k->out.rows.n, 2);
    assert_int_equal(k->out.rows.at[0].direct, 4 * MIB);
    assert_int_equal(k->out.rows.at[0].reserved, 4 * MIB);
    assert_int_equal(last(k)->direct, 0);
    assert_int_equal(last(k)->reserved, 0);
    assert_int_equal(last(k)->mate, 1);
    assert_int_equal(last(k)->size, 4 * MIB);
    assert_int_equal(last(k)->status, 0);
}

TEST(free_of_unknown_address_changes_nothing_and_is_counted, kit_setup, kit_teardown)
{
    KIT;
    release(k, 0x5000);
    assert_int_equal(last(k)->mate, 0);
    assert_int_equal(last(k)->size, 0);
    assert_int_equal(count_of(k, 0, VS_COUNT_UNKNOWN_FREE), 1);
    assert_int_equal(k->out.mismatches.n, 0);
}

TEST(unknown_free_that_the_driver_refused_is_no_unknown_free, kit_setup, kit_teardown)
{
    KIT;
    uint64_t seq = release(k, 0x5000);
    feed(k, (struct vs_event){.op = VS_OP_FREE_FAILED, .address = 0x5000, .arg0 = seq, .status = 1});
    assert_int_equal(last(k)->mate, 1);
    assert_int_equal(last(k)->size, 0);
    assert_int_equal(count_of(k, 0, VS_COUNT_UNKNOWN_FREE), 0);
    assert_int_equal(count_of(k, 0, VS_COUNT_FAILED_FREE), 1);
    assert_int_equal(k->out.mismatches.n, 0);
    assert_int_equal(vs_ledger_live_count(k->l), 0);
}

TEST(unknown_handle_whose_release_was_refused_is_no_unknown_free, kit_setup, kit_teardown)
{
    KIT;
    vmm(k, VS_OP_PHYS_RELEASE, 77, 0, 0);
    assert_int_equal(count_of(k, 0, VS_COUNT_UNKNOWN_FREE), 1);
    feed(k, (struct vs_event){.op = VS_OP_FREE_FAILED, .address = 77, .arg0 = k->ring, .status = 1});
    assert_int_equal(count_of(k, 0, VS_COUNT_UNKNOWN_FREE), 0);
    assert_int_equal(vs_ledger_live_count(k->l), 0);
}

TEST(failed_alloc_is_a_row_and_no_bytes, kit_setup, kit_teardown)
{
    KIT;
    feed(k, (struct vs_event){.op = VS_OP_ALLOC, .space = VS_SPACE_DEVICE, .size = MIB, .status = 2});
    assert_int_equal(last(k)->status, 2);
    assert_int_equal(last(k)->reserved, 0);
    assert_int_equal(vs_ledger_live_count(k->l), 0);
    assert_int_equal(count_of(k, 0, VS_COUNT_FAILED_ALLOC), 1);
}

TEST(failed_free_gives_bytes_and_entry_back, kit_setup, kit_teardown)
{
    KIT;
    alloc(k, 0x1000, 4 * MIB);
    uint64_t ring = release(k, 0x1000);
    feed(k, (struct vs_event){.op = VS_OP_FREE_FAILED, .address = 0x1000, .arg0 = ring, .status = 1});
    assert_int_equal(last(k)->direct, 4 * MIB);
    assert_int_equal(last(k)->mate, 2);
    assert_int_equal(k->out.amends.at[0].seq, 2);
    release(k, 0x1000);
    assert_int_equal(last(k)->mate, 1);
    assert_int_equal(last(k)->direct, 0);
}

TEST(address_handed_out_again_ends_its_old_owner, kit_setup, kit_teardown)
{
    KIT;
    alloc_in(k, VS_SPACE_POOL, 0x1000, 3 * MIB);
    alloc_in(k, VS_SPACE_POOL, 0x1000, 5 * MIB);
    assert_int_equal(k->out.rows.n, 3);
    assert_int_equal(k->out.rows.at[1].op, VS_OP_FREE_MISSED);
    assert_int_equal(k->out.rows.at[1].mate, 1);
    assert_int_equal(k->out.rows.at[1].direct, 0);
    assert_int_equal(last(k)->direct, 5 * MIB);
    assert_int_equal(vs_ledger_live_count(k->l), 1);
    assert_int_equal(count_of(k, 0, VS_COUNT_FREE_MISSED), 1);
}

TEST(pinned_managed_and_registered_stay_outside_the_device, kit_setup, kit_teardown)
{
    KIT;
    alloc_in(k, VS_SPACE_PINNED, 0x1000, MIB);
    alloc_in(k, VS_SPACE_MANAGED, 0x2000, 2 * MIB);
    alloc_in(k, VS_SPACE_REGISTERED, 0x3000, 3 * MIB);
    assert_int_equal(last(k)->reserved, 0);
    assert_int_equal(last(k)->direct, 0);
    assert_int_equal(curve_end(k, -1, VS_CURVE_END + VS_SPACE_PINNED), MIB);
    assert_int_equal(curve_end(k, -1, VS_CURVE_END + VS_SPACE_MANAGED), 2 * MIB);
    release(k, 0x3000);
    assert_int_equal(curve_end(k, -1, VS_CURVE_END + VS_SPACE_REGISTERED), 0);
    assert_int_equal(last(k)->space, VS_SPACE_REGISTERED);
}

TEST(free_belongs_to_the_device_of_its_alloc, kit_setup, kit_teardown)
{
    KIT;
    k->device = 1;
    alloc_in(k, VS_SPACE_POOL, 0x1000, MIB);
    k->device = 2;
    release(k, 0x1000);
    assert_int_equal(last(k)->device, 1);
    assert_int_equal(last(k)->direct, 0);
}

/* ---- pools ---- */

TEST(pool_reserves_what_was_sampled_and_never_less_than_lives, kit_setup, kit_teardown)
{
    KIT;
    alloc_in(k, VS_SPACE_POOL, 0x1000, 10 * MIB);
    assert_int_equal(last(k)->reserved, 10 * MIB); /* no sample yet: rises with it */
    vmm(k, VS_OP_POOL_RESERVED, 0xabc, 32 * MIB, 10 * MIB);
    assert_int_equal(last(k)->reserved, 32 * MIB);
    assert_int_equal(last(k)->direct, 10 * MIB);
    alloc_in(k, VS_SPACE_POOL, 0x2000, 30 * MIB);
    assert_int_equal(last(k)->reserved, 40 * MIB);
    vmm(k, VS_OP_POOL_RESERVED, 0xabc, 64 * MIB, 40 * MIB);
    release(k, 0x1000);
    release(k, 0x2000);
    assert_int_equal(last(k)->reserved, 64 * MIB); /* pools keep it */
    assert_int_equal(last(k)->direct, 0);
}

/* ---- the framework's totals ---- */

TEST(mismatch_is_written_once_per_change_and_every_report_counted, kit_setup, kit_teardown)
{
    KIT;
    k->framework = 0;
    block(k, 0x1000, 512);
    k->framework += 1024; /* the framework knows of a block that we do not */
    block(k, 0x2000, 512);
    block(k, 0x3000, 512);
    assert_int_equal(k->out.mismatches.n, 1);
    assert_int_equal(k->out.mismatches.at[0].ours, 1024);
    assert_int_equal(k->out.mismatches.at[0].theirs, 2048);
    assert_int_equal(count_of(k, 0, VS_COUNT_MISMATCHED), 2);
    k->framework -= 1024;
    unblock(k, 0x3000, 512);
    assert_int_equal(k->out.mismatches.n, 2);
    assert_int_equal(k->out.mismatches.at[1].ours, k->out.mismatches.at[1].theirs);
}

TEST(recording_that_began_late_adopts_and_says_so, kit_setup, kit_teardown)
{
    KIT;
    k->framework = 100 * MIB;
    k->reserved = 200 * MIB;
    block(k, 0x1000, MIB);
    assert_int_equal(last(k)->framework, 101 * MIB);
    assert_int_equal(last(k)->reserved, 200 * MIB);
    assert_int_equal(k->out.mismatches.n, 2);
    assert_int_equal(k->out.mismatches.at[0].what, VS_MISMATCH_LATE_ALLOCATED);
    unblock(k, 0x999000, 50 * MIB); /* one of the blocks from before */
    assert_int_equal(last(k)->framework, 51 * MIB);
    assert_int_equal(k->out.mismatches.n, 2);
}

TEST(oom_is_a_row_with_the_state_at_that_moment, kit_setup, kit_teardown)
{
    KIT;
    block(k, 0x1000, MIB);
    feed(k, (struct vs_event){.op = VS_OP_BLOCK_OOM, .size = 99 * MIB, .arg0 = MIB, .arg1 = 0});
    assert_int_equal(last(k)->size, 99 * MIB);
    assert_int_equal(last(k)->framework, MIB);
    assert_int_equal(count_of(k, 0, VS_COUNT_OOM), 1);
}

/* ---- what lived at the peak ---- */

static void sum_at_peak(void *context, const struct vs_alloc *a)
{
    *(uint64_t *)context += a->size;
}

TEST(what_lived_at_the_peak_adds_up_to_it, kit_setup, kit_teardown)
{
    KIT;
    uint64_t sum = 0;
    k->framework = 1000; /* before the recording */
    block(k, 0x1000, 700);
    alloc_in(k, VS_SPACE_POOL, 0x99000, 50);
    block(k, 0x2000, 300);
    unblock(k, 0x1000, 700);
    release(k, 0x99000);
    block(k, 0x3000, 10);
    struct vs_peak_info info;
    assert_int_equal(vs_ledger_peaks(k->l, &info, 1), 1);
    vs_ledger_each_at_peak(k->l, 0, sum_at_peak, &sum);
    assert_int_equal(info.bytes, 2050);
    assert_int_equal(sum, 2050);
}
