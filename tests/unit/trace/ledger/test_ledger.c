/* test_ledger.c - the ledger's rules, one test each: totals, pairing, classification, ranges. */
#include "ledger_kit.h"

#define KIT struct kit *k = *state

/* ---- totals and pairing ---- */

static void direct_alloc_counts_and_its_free_gives_back(void **state)
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

static void free_of_unknown_address_changes_nothing_and_is_counted(void **state)
{
    KIT;
    release(k, 0x5000);
    assert_int_equal(last(k)->mate, 0);
    assert_int_equal(last(k)->size, 0);
    assert_int_equal(count_of(k, 0, VS_COUNT_UNKNOWN_FREE), 1);
    assert_int_equal(k->out.mismatches.n, 0);
}

static void unknown_free_that_the_driver_refused_is_no_unknown_free(void **state)
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

static void unknown_handle_whose_release_was_refused_is_no_unknown_free(void **state)
{
    KIT;
    vmm(k, VS_OP_PHYS_RELEASE, 77, 0, 0);
    assert_int_equal(count_of(k, 0, VS_COUNT_UNKNOWN_FREE), 1);
    feed(k, (struct vs_event){.op = VS_OP_FREE_FAILED, .address = 77, .arg0 = k->ring, .status = 1});
    assert_int_equal(count_of(k, 0, VS_COUNT_UNKNOWN_FREE), 0);
    assert_int_equal(vs_ledger_live_count(k->l), 0);
}

static void failed_alloc_is_a_row_and_no_bytes(void **state)
{
    KIT;
    feed(k, (struct vs_event){.op = VS_OP_ALLOC, .space = VS_SPACE_DEVICE, .size = MIB, .status = 2});
    assert_int_equal(last(k)->status, 2);
    assert_int_equal(last(k)->reserved, 0);
    assert_int_equal(vs_ledger_live_count(k->l), 0);
    assert_int_equal(count_of(k, 0, VS_COUNT_FAILED_ALLOC), 1);
}

static void failed_free_gives_bytes_and_entry_back(void **state)
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

static void address_handed_out_again_ends_its_old_owner(void **state)
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

static void pinned_managed_and_registered_stay_outside_the_device(void **state)
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

static void free_belongs_to_the_device_of_its_alloc(void **state)
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

static void pool_reserves_what_was_sampled_and_never_less_than_lives(void **state)
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

/* ---- classification ---- */

static void first_segment_is_managed_from_birth(void **state)
{
    KIT;
    alloc(k, 0x100000, 20 * MIB);
    assert_int_equal(k->out.rows.n, 0); /* held back */
    k->reserved = 20 * MIB;
    block(k, 0x100000, MIB);
    assert_int_equal(k->out.rows.n, 2);
    assert_int_equal(k->out.rows.at[0].managed, 1);
    assert_int_equal(k->out.rows.at[0].direct, 0);
    assert_int_equal(k->out.rows.at[0].reserved, 20 * MIB);
    assert_int_equal(last(k)->framework, MIB);
    assert_int_equal(k->out.mismatches.n, 0);
    assert_int_equal(curve_end(k, 0, VS_CURVE_MANAGED), 20 * MIB);
}

static void threads_next_report_elsewhere_means_direct(void **state)
{
    KIT;
    alloc(k, 0x100000, 20 * MIB);
    k->reserved = 20 * MIB;
    block(k, 0x100000, MIB);
    alloc(k, 0x9000000, 8 * MIB); /* cuBLAS's workspace */
    block(k, 0x100000 + MIB, MIB);
    assert_int_equal(row_of(k, VS_OP_ALLOC)->managed, 0);
    assert_int_equal(row_of(k, VS_OP_ALLOC)->direct, 8 * MIB);
    assert_int_equal(k->out.mismatches.n, 0);
}

static void other_threads_report_decides_nothing_but_its_own(void **state)
{
    KIT;
    alloc(k, 0x100000, 20 * MIB); /* thread 1 */
    k->thread = 2;
    block(k, 0x700000000, MIB);
    assert_int_equal(k->out.rows.n, 0);
    assert_int_equal(vs_ledger_held(k->l), 2);
    k->thread = 1;
    unblock(k, 0x700000000, MIB);
    assert_int_equal(k->out.rows.n, 3);
    assert_int_equal(k->out.rows.at[0].managed, 0);
}

static void rows_stay_in_order_behind_a_provisional_one(void **state)
{
    KIT;
    alloc(k, 0x100000, 20 * MIB);
    k->thread = 3;
    alloc_in(k, VS_SPACE_PINNED, 0x1, 5);
    k->thread = 1;
    block(k, 0x100000, MIB);
    assert_int_equal(k->out.rows.at[0].op, VS_OP_ALLOC);
    assert_int_equal(k->out.rows.at[1].space, VS_SPACE_PINNED);
    assert_int_equal(k->out.rows.at[2].op, VS_OP_BLOCK_ALLOC);
    assert_int_equal(vs_ledger_ring_seq(k->l), 3);
}

static void age_decides_for_direct(void **state)
{
    KIT;
    alloc(k, 0x100000, MIB);
    k->t += 60000000;
    k->thread = 2;
    alloc_in(k, VS_SPACE_PINNED, 0x1, 5);
    assert_int_equal(k->out.rows.n, 2);
    assert_int_equal(k->out.rows.at[0].managed, 0);
}

static void without_a_framework_look_ahead_is_short(void **state)
{
    KIT;
    alloc(k, 0x100000, MIB);
    for (int i = 0; i < 1030; i++)
        alloc_in(k, VS_SPACE_PINNED, 0x1000 + (uint64_t)i, 5);
    assert_true(k->out.rows.n > 1000);
    assert_int_equal(k->out.rows.at[0].direct, MIB);
}

static void flush_decides_for_direct(void **state)
{
    KIT;
    alloc(k, 0x100000, MIB);
    vs_ledger_flush(k->l, &k->out);
    assert_int_equal(last(k)->direct, MIB);
    assert_int_equal(vs_ledger_held(k->l), 0);
}

static void late_discovery_is_a_row_and_moves_the_bytes(void **state)
{
    KIT;
    alloc(k, 0x100000, 20 * MIB);
    vs_ledger_flush(k->l, &k->out);
    k->reserved = 20 * MIB;
    block(k, 0x100000 + MIB, MIB);
    struct vs_row *r = row_of(k, VS_OP_RECLASSIFY);
    assert_int_equal(r->mate, 1);
    assert_int_equal(r->size, 20 * MIB);
    assert_int_equal(r->direct, 0);
    assert_int_equal(r->reserved, 20 * MIB);
    assert_int_equal(last(k)->seq, 3);
    assert_int_equal(k->out.amends.at[0].seq, 1);
    assert_int_equal(k->out.rows.at[0].direct, 20 * MIB); /* the past stays */
    assert_int_equal(k->out.mismatches.n, 0);
}

/* ---- the framework's totals ---- */

static void mismatch_is_written_once_per_change_and_every_report_counted(void **state)
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

static void recording_that_began_late_adopts_and_says_so(void **state)
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

static void oom_is_a_row_with_the_state_at_that_moment(void **state)
{
    KIT;
    block(k, 0x1000, MIB);
    feed(k, (struct vs_event){.op = VS_OP_BLOCK_OOM, .size = 99 * MIB, .arg0 = MIB, .arg1 = 0});
    assert_int_equal(last(k)->size, 99 * MIB);
    assert_int_equal(last(k)->framework, MIB);
    assert_int_equal(count_of(k, 0, VS_COUNT_OOM), 1);
}

/* ---- virtual memory ---- */

static void physical_memory_lives_until_references_and_mappings_are_gone(void **state)
{
    KIT;
    create(k, 0x77, 2 * MIB);
    vmm(k, VS_OP_MAP, 0x10000000, 2 * MIB, 0x77);
    vmm(k, VS_OP_PHYS_RELEASE, 0x77, 0, 0);
    vs_ledger_flush(k->l, &k->out);
    assert_int_equal(last(k)->mate, 1);
    assert_int_equal(last(k)->size, 0);
    assert_int_equal(last(k)->reserved, 2 * MIB);
    vmm(k, VS_OP_UNMAP, 0x10000000, 2 * MIB, 0);
    assert_int_equal(last(k)->op, VS_OP_PHYS_FREED);
    assert_int_equal(last(k)->mate, 1);
    assert_int_equal(last(k)->reserved, 0);
}

static void release_after_unmap_frees_and_says_how_much(void **state)
{
    KIT;
    create(k, 0x77, 2 * MIB);
    vmm(k, VS_OP_MAP, 0x10000000, 2 * MIB, 0x77);
    vmm(k, VS_OP_UNMAP, 0x10000000, 2 * MIB, 0);
    vmm(k, VS_OP_PHYS_RELEASE, 0x77, 0, 0);
    vs_ledger_flush(k->l, &k->out);
    assert_int_equal(last(k)->op, VS_OP_PHYS_RELEASE);
    assert_int_equal(last(k)->size, 2 * MIB);
    assert_int_equal(last(k)->reserved, 0);
}

static void one_unmap_may_end_several_allocations(void **state)
{
    KIT;
    for (uint64_t i = 0; i < 3; i++) {
        create(k, 0x70 + i, 2 * MIB);
        vmm(k, VS_OP_MAP, 0x10000000 + i * 2 * MIB, 2 * MIB, 0x70 + i);
        vmm(k, VS_OP_PHYS_RELEASE, 0x70 + i, 0, 0);
    }
    vmm(k, VS_OP_UNMAP, 0x10000000, 6 * MIB, 0);
    vs_ledger_flush(k->l, &k->out);
    size_t n = k->out.rows.n;
    assert_int_equal(k->out.rows.at[n - 4].op, VS_OP_UNMAP);
    assert_int_equal(k->out.rows.at[n - 4].reserved, 6 * MIB);
    assert_int_equal(k->out.rows.at[n - 3].reserved, 4 * MIB);
    assert_int_equal(last(k)->reserved, 0);
    assert_int_equal(vs_ledger_live_count(k->l), 0);
}

static void two_mappings_of_one_handle_count_once(void **state)
{
    KIT;
    create(k, 0x77, 2 * MIB);
    vmm(k, VS_OP_MAP, 0x10000000, 2 * MIB, 0x77);
    vmm(k, VS_OP_MAP, 0x20000000, 2 * MIB, 0x77);
    vmm(k, VS_OP_PHYS_RELEASE, 0x77, 0, 0);
    vmm(k, VS_OP_UNMAP, 0x10000000, 2 * MIB, 0);
    vs_ledger_flush(k->l, &k->out);
    assert_int_equal(last(k)->reserved, 2 * MIB);
    vmm(k, VS_OP_UNMAP, 0x20000000, 2 * MIB, 0);
    assert_int_equal(last(k)->reserved, 0);
}

static void retain_by_address_adds_a_reference(void **state)
{
    KIT;
    create(k, 0x77, 2 * MIB);
    vmm(k, VS_OP_MAP, 0x10000000, 2 * MIB, 0x77);
    vmm(k, VS_OP_PHYS_RELEASE, 0x77, 0, 0);
    vmm(k, VS_OP_PHYS_RETAIN, 0x88, 0, 0x10000000 + MIB);
    vmm(k, VS_OP_UNMAP, 0x10000000, 2 * MIB, 0);
    vs_ledger_flush(k->l, &k->out);
    assert_int_equal(last(k)->reserved, 2 * MIB);
    vmm(k, VS_OP_PHYS_RELEASE, 0x88, 0, 0);
    assert_int_equal(last(k)->reserved, 0);
    assert_int_equal(last(k)->mate, 1);
}

static void host_located_memory_has_its_own_curve(void **state)
{
    KIT;
    vmm(k, VS_OP_PHYS_CREATE, 0x77, 2 * MIB, 3ull << 32);
    assert_int_equal(last(k)->space, VS_SPACE_HOST_VMM);
    assert_int_equal(last(k)->reserved, 0);
    assert_int_equal(curve_end(k, -1, VS_CURVE_END + VS_SPACE_HOST_VMM), 2 * MIB);
}

static void failed_unmap_and_release_take_their_effect_back(void **state)
{
    KIT;
    create(k, 0x77, 2 * MIB);
    vmm(k, VS_OP_MAP, 0x10000000, 2 * MIB, 0x77);
    vmm(k, VS_OP_PHYS_RELEASE, 0x77, 0, 0);
    vmm(k, VS_OP_UNMAP, 0x10000000, 2 * MIB, 0);
    vmm(k, VS_OP_FREE_FAILED, 0x10000000, 0, k->ring);
    vs_ledger_flush(k->l, &k->out);
    assert_int_equal(last(k)->reserved, 2 * MIB);
    vmm(k, VS_OP_UNMAP, 0x10000000, 2 * MIB, 0);
    assert_int_equal(last(k)->reserved, 0);
    create(k, 0x99, 2 * MIB);
    vmm(k, VS_OP_PHYS_RELEASE, 0x99, 0, 0);
    vmm(k, VS_OP_FREE_FAILED, 0x99, 0, k->ring);
    vs_ledger_flush(k->l, &k->out);
    assert_int_equal(last(k)->reserved, 2 * MIB);
}

/* What PyTorch's expandable segments do: reserve, create, map, set access, report a block. */
static void expandable_segment_is_managed_from_birth(void **state)
{
    KIT;
    vmm(k, VS_OP_VA_RESERVE, 0x200000000, 1024 * MIB, 0);
    for (uint64_t i = 0; i < 3; i++)
        create(k, 0x70 + i, 20 * MIB);
    for (uint64_t i = 0; i < 3; i++)
        vmm(k, VS_OP_MAP, 0x200000000 + i * 20 * MIB, 20 * MIB, 0x70 + i);
    vmm(k, VS_OP_SET_ACCESS, 0x200000000, 60 * MIB, 1);
    k->reserved = 60 * MIB;
    block(k, 0x200000000, 50 * MIB);
    for (size_t i = 0; i < k->out.rows.n; i++) {
        assert_int_equal(k->out.rows.at[i].direct, 0);
        if (k->out.rows.at[i].op == VS_OP_PHYS_CREATE)
            assert_int_equal(k->out.rows.at[i].managed, 1);
    }
    assert_int_equal(last(k)->reserved, 60 * MIB);
    assert_int_equal(k->out.mismatches.n, 0);
    unblock(k, 0x200000000, 50 * MIB);
    for (uint64_t i = 0; i < 3; i++) {
        vmm(k, VS_OP_UNMAP, 0x200000000 + i * 20 * MIB, 20 * MIB, 0);
        vmm(k, VS_OP_PHYS_RELEASE, 0x70 + i, 0, 0);
    }
    assert_int_equal(last(k)->reserved, 0);
    assert_int_equal(curve_end(k, 0, VS_CURVE_MANAGED), 0);
}

static void mapping_into_a_frameworks_reservation_reclassifies(void **state)
{
    KIT;
    vmm(k, VS_OP_VA_RESERVE, 0x200000000, 1024 * MIB, 0);
    create(k, 0x70, 2 * MIB);
    vmm(k, VS_OP_MAP, 0x200000000, 2 * MIB, 0x70);
    k->reserved = 2 * MIB;
    block(k, 0x200000000, MIB);
    create(k, 0x71, 2 * MIB);
    vs_ledger_flush(k->l, &k->out);
    assert_int_equal(last(k)->direct, 2 * MIB);
    vmm(k, VS_OP_MAP, 0x200000000 + 2 * MIB, 2 * MIB, 0x71);
    assert_int_equal(last(k)->direct, 0);
    assert_int_equal(row_of(k, VS_OP_RECLASSIFY)->size, 2 * MIB);
}

/* ---- whose code asked, and pieces that never came to hold a block ---- */

static void piece(struct kit *k, uint64_t handle, enum vs_caller caller, uint16_t status)
{
    feed(k, (struct vs_event){.op = VS_OP_PHYS_CREATE,
                              .address = handle,
                              .size = 20 * MIB,
                              .arg0 = 1ull << 32,
                              .arg1 = 7 | VS_CALLED_BY(caller),
                              .status = status});
}

static void give_up(struct kit *k, uint64_t size)
{
    feed(k,
         (struct vs_event){.op = VS_OP_BLOCK_OOM, .size = size, .arg0 = k->framework, .arg1 = k->reserved});
}

static void what_a_caching_allocators_code_asks_for_is_managed_at_once(void **state)
{
    KIT;
    for (uint64_t i = 0; i < 3; i++)
        piece(k, 0x70 + i, VS_CALLER_CARVER, 0);
    feed(k, (struct vs_event){.op = VS_OP_ALLOC,
                              .space = VS_SPACE_DEVICE,
                              .address = 0x1000,
                              .size = MIB,
                              .arg1 = 7 | VS_CALLED_BY(VS_CALLER_CARVER)});
    assert_int_equal(vs_ledger_held(k->l), 0);
    assert_int_equal(k->out.rows.n, 4);
    assert_int_equal(last(k)->managed, 1);
    assert_int_equal(last(k)->direct, 0);
    assert_int_equal(last(k)->reserved, 61 * MIB);
    assert_int_equal(last(k)->api, 7);
}

/* Neither allocated nor nothing: held, and its use unknown; what is known beside it stays so. */
static void what_a_librarys_pool_asks_for_is_reserved_and_nothing_else(void **state)
{
    KIT;
    struct vs_event e = {.op = VS_OP_ALLOC,
                         .space = VS_SPACE_DEVICE,
                         .address = 0x1000000,
                         .size = 512 * MIB,
                         .arg1 = 7 | VS_CALLED_BY(VS_CALLER_POOL)};
    feed(k, e);
    assert_int_equal(last(k)->managed, VS_UNKNOWN_USE);
    assert_int_equal(last(k)->direct, 0);
    assert_int_equal(last(k)->reserved, 512 * MIB);
    end_batch(k);
    for (size_t i = 0; i < k->out.peaks.n; i++)
        if (k->out.peaks.at[i].curve == VS_CURVE_ALLOCATED)
            assert_true(k->out.peaks.at[i].peak == VS_BYTES_UNKNOWN && k->out.peaks.at[i].known == 0);
    assert_true(stat_of(k, 0, 0)->allocated == VS_BYTES_UNKNOWN);
    release(k, 0x1000000);
    assert_int_equal(last(k)->reserved, 0);
    assert_int_equal(curve_end(k, 0, VS_CURVE_UNKNOWN_USE), 0);
}

static void arenas_block_of_a_pool_is_reserved_once(void **state)
{
    KIT;
    feed(k, (struct vs_event){.op = VS_OP_ARENA_RESERVED, .size = 4 * MIB});
    feed(k, (struct vs_event){.op = VS_OP_ALLOC,
                              .space = VS_SPACE_ARENA,
                              .address = 0x1000000,
                              .size = 3 * MIB,
                              .arg1 = VS_CALLED_BY(VS_CALLER_POOL)});
    assert_int_equal(last(k)->reserved, 4 * MIB);
    assert_int_equal(last(k)->direct, 0);
}

static void known_piece_does_not_pass_what_is_held_before_it(void **state)
{
    KIT;
    alloc(k, 0x9000000, 8 * MIB);
    piece(k, 0x70, VS_CALLER_CARVER, 0);
    assert_int_equal(k->out.rows.n, 0);
    vs_ledger_flush(k->l, &k->out);
    assert_int_equal(k->out.rows.at[0].direct, 8 * MIB);
    assert_int_equal(last(k)->managed, 1);
    assert_int_equal(last(k)->direct, 8 * MIB);
}

static void pieces_given_back_before_an_out_of_memory_are_the_frameworks(void **state)
{
    KIT;
    block(k, 0x7000, 0);
    for (uint64_t i = 0; i < 3; i++)
        piece(k, 0x70 + i, VS_CALLER_UNKNOWN, 0);
    create(k, 0x90, MIB); /* another size: the thread's own */
    piece(k, 0, VS_CALLER_UNKNOWN, 2);
    for (uint64_t i = 0; i < 3; i++)
        vmm(k, VS_OP_PHYS_RELEASE, 0x70 + i, 0, 0);
    vmm(k, VS_OP_PHYS_RELEASE, 0x90, 0, 0);
    give_up(k, 100 * MIB);
    for (size_t i = 0; i < k->out.rows.n; i++)
        assert_true(k->out.rows.at[i].direct <= MIB);
    assert_int_equal(row_of(k, VS_OP_PHYS_CREATE)->direct, MIB);
    assert_int_equal(row_of(k, VS_OP_PHYS_CREATE)->reserved, 61 * MIB);
}

static void pieces_given_back_without_a_refusal_are_direct(void **state)
{
    KIT;
    block(k, 0x7000, 0);
    piece(k, 0x70, VS_CALLER_UNKNOWN, 0);
    vmm(k, VS_OP_PHYS_RELEASE, 0x70, 0, 0);
    give_up(k, 100 * MIB);
    assert_int_equal(row_of(k, VS_OP_PHYS_CREATE)->direct, 20 * MIB);
}

static void pieces_of_a_first_try_go_with_those_of_the_second(void **state)
{
    KIT;
    block(k, 0x7000, 0);
    vmm(k, VS_OP_VA_RESERVE, 0x200000000, 1024 * MIB, 0);
    piece(k, 0x70, VS_CALLER_UNKNOWN, 0);
    piece(k, 0, VS_CALLER_UNKNOWN, 2);
    vmm(k, VS_OP_PHYS_RELEASE, 0x70, 0, 0);
    for (uint64_t i = 0; i < 2; i++)
        piece(k, 0x70 + i, VS_CALLER_UNKNOWN, 0); /* the same handle again */
    for (uint64_t i = 0; i < 2; i++)
        vmm(k, VS_OP_MAP, 0x200000000 + i * 20 * MIB, 20 * MIB, 0x70 + i);
    k->reserved = 40 * MIB;
    block(k, 0x200000000, 30 * MIB);
    for (size_t i = 0; i < k->out.rows.n; i++)
        assert_int_equal(k->out.rows.at[i].direct, 0);
    assert_int_equal(last(k)->reserved, 40 * MIB);
    assert_int_equal(k->out.mismatches.n, 0);
}

static void pieces_do_not_age_while_their_thread_goes_on(void **state)
{
    KIT;
    block(k, 0x7000, 0);
    vmm(k, VS_OP_VA_RESERVE, 0x200000000, 1024 * MIB, 0);
    for (uint64_t i = 0; i < 10; i++, k->t += 20000000)
        piece(k, 0x70 + i, VS_CALLER_UNKNOWN, 0);
    assert_int_equal(vs_ledger_held(k->l), 10);
    k->t += 60000000;
    alloc_in(k, VS_SPACE_PINNED, 0x100, 1);
    assert_int_equal(vs_ledger_held(k->l), 0);
}

static void known_piece_tells_of_its_whole_reservation(void **state)
{
    KIT;
    vmm(k, VS_OP_VA_RESERVE, 0x200000000, 1024 * MIB, 0);
    create(k, 0x70, 2 * MIB);
    vmm(k, VS_OP_MAP, 0x200000000, 2 * MIB, 0x70);
    vs_ledger_flush(k->l, &k->out);
    assert_int_equal(last(k)->direct, 2 * MIB);
    piece(k, 0x71, VS_CALLER_CARVER, 0);
    vmm(k, VS_OP_MAP, 0x200000000 + 20 * MIB, 20 * MIB, 0x71);
    assert_int_equal(last(k)->direct, 0);
    assert_int_equal(last(k)->reserved, 22 * MIB);
    assert_int_equal(row_of(k, VS_OP_RECLASSIFY)->mate, 2);
}

/* ---- ranges ---- */

static void nested_ranges_have_their_own_peaks(void **state)
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

static void value_at_push_is_a_peak_when_memory_only_falls(void **state)
{
    KIT;
    block(k, 0x1000, 500);
    push(k, 1, 1, 0);
    unblock(k, 0x1000, 500);
    pop(k, 1);
    assert_int_equal(peak_of(k, 1, 0)->allocated, 500);
}

static void any_threads_allocations_count_into_an_open_range(void **state)
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

static void two_devices_have_their_own_range_peaks(void **state)
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

static void nested_ranges_of_one_phase_are_timed_once(void **state)
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

static void autograd_thread_without_a_range_is_backward(void **state)
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

static void event_of_a_range_just_popped_keeps_its_phase(void **state)
{
    KIT;
    push(k, 1, 2, 0);
    pop(k, 1);
    k->range = 1;
    block(k, 0x1000, 700);
    assert_int_equal(last(k)->phase, 2);
}

static void range_that_names_no_phase_gives_none(void **state)
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

static void lost_pop_does_not_keep_a_range_open_for_ever(void **state)
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

static void ranges_open_at_the_end_are_written_as_open(void **state)
{
    KIT;
    push(k, 1, 1, 0);
    block(k, 0x1000, 700);
    vs_ledger_finish(k->l, &k->out);
    assert_int_equal(range_of(k, 1)->t_pop, -1);
    assert_int_equal(peak_of(k, 1, 0)->allocated, 700);
    assert_int_equal(stat_of(k, 0, 1)->allocated, 700);
}

static void range_may_name_another_phase_than_its_own_name(void **state)
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

/* ---- what lived at the peak ---- */

static void sum_at_peak(void *context, const struct vs_alloc *a)
{
    *(uint64_t *)context += a->size;
}

static void what_lived_at_the_peak_adds_up_to_it(void **state)
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

#define TEST(f) cmocka_unit_test_setup_teardown(f, kit_setup, kit_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(direct_alloc_counts_and_its_free_gives_back),
        TEST(free_of_unknown_address_changes_nothing_and_is_counted),
        TEST(unknown_free_that_the_driver_refused_is_no_unknown_free),
        TEST(unknown_handle_whose_release_was_refused_is_no_unknown_free),
        TEST(failed_alloc_is_a_row_and_no_bytes),
        TEST(failed_free_gives_bytes_and_entry_back),
        TEST(address_handed_out_again_ends_its_old_owner),
        TEST(pinned_managed_and_registered_stay_outside_the_device),
        TEST(free_belongs_to_the_device_of_its_alloc),
        TEST(pool_reserves_what_was_sampled_and_never_less_than_lives),
        TEST(first_segment_is_managed_from_birth),
        TEST(threads_next_report_elsewhere_means_direct),
        TEST(other_threads_report_decides_nothing_but_its_own),
        TEST(rows_stay_in_order_behind_a_provisional_one),
        TEST(age_decides_for_direct),
        TEST(without_a_framework_look_ahead_is_short),
        TEST(flush_decides_for_direct),
        TEST(late_discovery_is_a_row_and_moves_the_bytes),
        TEST(mismatch_is_written_once_per_change_and_every_report_counted),
        TEST(recording_that_began_late_adopts_and_says_so),
        TEST(oom_is_a_row_with_the_state_at_that_moment),
        TEST(physical_memory_lives_until_references_and_mappings_are_gone),
        TEST(release_after_unmap_frees_and_says_how_much),
        TEST(one_unmap_may_end_several_allocations),
        TEST(two_mappings_of_one_handle_count_once),
        TEST(retain_by_address_adds_a_reference),
        TEST(host_located_memory_has_its_own_curve),
        TEST(failed_unmap_and_release_take_their_effect_back),
        TEST(expandable_segment_is_managed_from_birth),
        TEST(mapping_into_a_frameworks_reservation_reclassifies),
        TEST(what_a_caching_allocators_code_asks_for_is_managed_at_once),
        TEST(what_a_librarys_pool_asks_for_is_reserved_and_nothing_else),
        TEST(arenas_block_of_a_pool_is_reserved_once),
        TEST(known_piece_does_not_pass_what_is_held_before_it),
        TEST(pieces_given_back_before_an_out_of_memory_are_the_frameworks),
        TEST(pieces_given_back_without_a_refusal_are_direct),
        TEST(pieces_of_a_first_try_go_with_those_of_the_second),
        TEST(pieces_do_not_age_while_their_thread_goes_on),
        TEST(known_piece_tells_of_its_whole_reservation),
        TEST(nested_ranges_have_their_own_peaks),
        TEST(value_at_push_is_a_peak_when_memory_only_falls),
        TEST(any_threads_allocations_count_into_an_open_range),
        TEST(two_devices_have_their_own_range_peaks),
        TEST(nested_ranges_of_one_phase_are_timed_once),
        TEST(autograd_thread_without_a_range_is_backward),
        TEST(event_of_a_range_just_popped_keeps_its_phase),
        TEST(range_that_names_no_phase_gives_none),
        TEST(lost_pop_does_not_keep_a_range_open_for_ever),
        TEST(ranges_open_at_the_end_are_written_as_open),
        TEST(range_may_name_another_phase_than_its_own_name),
        TEST(what_lived_at_the_peak_adds_up_to_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
